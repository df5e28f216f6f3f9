/* bench_start [-t THREADS] [-s SECONDS] [PATTERN]: the time that every program takes to start, print its usage and end, the best of 20. Fails if it
 * is more than 50 ms. */
#include <fcntl.h>
#include <glob.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/str.h"
#include "tests/bench/meter.h"

enum { TRIES = 20 };
static const double LIMIT = .05;

/* Seconds of one run; negative if it fails. */
static double run_once(char *program)
{
	char *argv[] = {program, "-h", NULL};
	posix_spawn_file_actions_t to;
	double t = clock_seconds();
	int status = 1;
	pid_t pid;

	posix_spawn_file_actions_init(&to);
	posix_spawn_file_actions_addopen(&to, 1, "/dev/null", O_WRONLY, 0);
	if (posix_spawn(&pid, program, &to, NULL, argv, NULL) || waitpid(pid, &status, 0) < 0)
		status = 1;
	posix_spawn_file_actions_destroy(&to);
	return status ? -1 : clock_seconds() - t;
}

static int measure(const struct bench *b, char *program)
{
	char *name = str_new("start %s", strrchr(program, '/') + 1);
	double best = 1e9;

	for (int i = 0; bench_wants(b, name) && i < TRIES; i++) {
		double t = run_once(program);

		if (t < 0) {
			fprintf(stderr, "bench_start: %s -h fails\n", program);
			exit(1);
		}
		best = t < best ? t : best;
	}
	if (best < 1e9)
		printf("%s\t%.2f\tms\t-\n", name, best * 1e3);
	if (best < 1e9 && best > LIMIT)
		fprintf(stderr, "bench_start: %s takes more than %.0f ms\n", name, LIMIT * 1e3);
	mem_free(name);
	return best < 1e9 && best > LIMIT;
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	char *pattern = str_new("%.*s../../ddm-*", slash ? (int)(slash - argv[0]) + 1 : 0, argv[0]);
	struct bench b;
	glob_t g;
	int slow = 0;

	bench_start(&b, "bench_start", argc, argv);
	if (glob(pattern, 0, NULL, &g)) {
		fprintf(stderr, "bench_start: no programs: %s\n", pattern);
		return 1;
	}
	for (size_t i = 0; i < g.gl_pathc; i++)
		slow |= measure(&b, g.gl_pathv[i]);
	globfree(&g);
	mem_free(pattern);
	bench_end(&b);
	return slow;
}
