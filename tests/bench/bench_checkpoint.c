/* bench_checkpoint [-t THREADS] [-s SECONDS] [PATTERN]: a checkpoint of a DiT's training beside the same number of bytes written to the same disk
 * by plain write and fsync, in turns; and the milliseconds until the copy is made that a background checkpoint is written from, during which
 * training may compute gradients but not change the weights. TMPDIR names the disk; it needs 1.1 GB.
 *
 * The pattern dit-l/2, and no other, measures an expert of 458 million parameters instead: 15 GB of disk and of memory. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "file/fileio.h"
#include "net/netdef.h"
#include "tests/bench/meter.h"
#include "train/checkpointwriter.h"

enum { TURNS = 5, BLOCK = 1 << 20 };

static void die(const struct err *e)
{
	fprintf(stderr, "bench_checkpoint: %s\n", e->msg);
	exit(e->code);
}

/* Seconds of writing `bytes` to a new file and to the disk. */
static double plain_write(const char *path, const char *block, int64_t bytes)
{
	double from = clock_seconds();
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);

	for (int64_t n = bytes; n > 0;) {
		ssize_t put = write(fd, block, n < BLOCK ? (size_t)n : BLOCK);

		if (put <= 0) {
			perror("bench_checkpoint");
			exit(1);
		}
		n -= put;
	}
	if (fsync(fd) || close(fd)) {
		perror("bench_checkpoint");
		exit(1);
	}
	from = clock_seconds() - from;
	unlink(path);
	return from;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int64_t folder_bytes(const char *dir)
{
	struct checkpoint c = {0};
	struct err e = {0};

	if (checkpoint_inspect(dir, 0, &c, &e))
		die(&e);
	json_decref(c.stamp);
	return c.bytes;
}

/* Seconds until the state is copied by the background. */
static double copy_seconds(const char *dir, const struct train_state *s)
{
	struct checkpoint_writer w = {0};
	double from = clock_seconds(), seconds, whole;
	char *made = checkpoint_path(dir, s->step);
	int64_t step;
	struct err e = {0};

	checkpoint_writer_start(&w, dir, s, "{}", UINT64_MAX);
	checkpoint_writer_wait_arenas(&w);
	seconds = clock_seconds() - from;
	if (checkpoint_writer_end(&w, &step, &whole, &e) || dir_remove(made, &e))
		die(&e);
	mem_free(made);
	return seconds;
}

/* Ratio: the checkpoint's bytes a second over those of the plain write before and after it. */
static void measure(const char *preset, struct device *d, const char *dir)
{
	struct net_config c = {.def = &net_dit, .channels = 4, .out_channels = 4, .size = 32, .time_scale = 1000};
	struct params p = {0};
	struct train_state s = {0};
	double before, seconds[TURNS], ratio[TURNS], copied[TURNS];
	char *plain = path_join(dir, "plain"), *block = mem_alloc(BLOCK), name[64];
	int64_t bytes = 0;
	struct err e = {0};

	if (net_preset(preset, &c, &e))
		die(&e);
	net_params(&c, &p);
	if (state_init(&s, d, &p, 0, 0, 0, NULL, &e))
		die(&e);
	params_init(&p, 1, s.values);
	for (int64_t i = 0; i < BLOCK; i++)
		block[i] = (char)(i * 2654435761u >> 24);
	before = plain_write(plain, block, 4 * 4 * p.total);
	for (int i = 0; i < TURNS; i++) {
		char *made;
		double after;

		s.step = i;
		seconds[i] = clock_seconds();
		if (checkpoint_save(dir, &s, "{}", NULL, NULL, &e))
			die(&e);
		seconds[i] = clock_seconds() - seconds[i];
		made = checkpoint_path(dir, i);
		bytes = folder_bytes(made);
		if (dir_remove(made, &e))
			die(&e);
		mem_free(made);
		after = plain_write(plain, block, bytes);
		ratio[i] = (before + after) / 2 / seconds[i];
		before = after;
		copied[i] = copy_seconds(dir, &s);
	}
	qsort(seconds, TURNS, sizeof *seconds, by_value);
	qsort(ratio, TURNS, sizeof *ratio, by_value);
	qsort(copied, TURNS, sizeof *copied, by_value);
	snprintf(name, sizeof name, "checkpoint %s", preset);
	printf("%s\t%.4g\tMB/s\t%.3f\t%.3f\n", name, (double)bytes * 1e-6 / seconds[TURNS / 2], ratio[TURNS / 2],
	       (ratio[TURNS * 3 / 4] - ratio[TURNS / 4]) / 2);
	printf("%s, until copied\t%.1f\tms\t-\n", name, copied[TURNS / 2] * 1e3);
	state_release(&s);
	params_release(&p);
	mem_free(block);
	mem_free(plain);
}

int main(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	char *dir = str_new("%s/ddm-bench-checkpoint.%ld", tmp ? tmp : "/tmp", (long)getpid());
	struct device *d;
	struct bench b;
	struct err e = {0};
	int large;

	bench_start(&b, "bench_checkpoint", argc, argv);
	d = device_cpu(b.pool, DT_F32);
	large = b.pattern && !strcmp(b.pattern, "dit-l/2");
	if (large || bench_wants(&b, "checkpoint dit-s/2")) {
		if (dir_make(dir, &e))
			die(&e);
		measure(large ? "dit-l/2" : "dit-s/2", d, dir);
		if (dir_remove(dir, &e))
			die(&e);
	}
	mem_free(dir);
	device_free(d);
	bench_end(&b);
	return 0;
}
