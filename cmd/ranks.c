/* Starts ranks by mpirun, and finds out whether this process is one. */
#include "cmd/ranks.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/beside.h"
#include "cmd/cmd.h"
#include "comm/links.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"

extern char **environ;

int launched_ranks(void)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (getenv(names[i]))
			return (int)strtol(getenv(names[i]), NULL, 10);
	return getenv("PMIX_RANK") ? 2 : 1;
}

char *engine_path(const char *name)
{
	char *path = beside_program(name, R_OK);

	return path ? path : str_new("%s/ddm/%s", LIBEXECDIR, name);
}

static volatile sig_atomic_t child;

static void pass_on(int sig)
{
	int error = errno;

	if (child > 0)
		kill((pid_t)child, sig == SIGUSR2 ? SIGUSR2 : SIGUSR1);
	errno = error;
}

static void catch_signals(void)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
	struct sigaction act = {.sa_handler = pass_on, .sa_flags = SA_RESTART};

	sigfillset(&act.sa_mask);
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaction(signals[i], &act, NULL);
}

/* argv of mpirun. `given` is the command of this process, each argument with its NUL; the result borrows it, the number and self. More ranks than
 * processors are allowed. */
static char **command(int bound, char *given, size_t len, char *number, char *self)
{
	int n = 0, at = 0;
	char **args, *end = given + len;

	for (size_t i = 0; i < len; i++)
		n += !given[i];
	args = mem_zalloc((size_t)n + 16, sizeof *args);
	args[at++] = "mpirun";
	args[at++] = "-n";
	args[at++] = number;
	args[at++] = "--oversubscribe";
	if (!bound) {
		args[at++] = "--bind-to";
		args[at++] = "none";
	}
	args[at++] = self;
	for (char *p = given + strlen(given) + 1; p < end; p += strlen(p) + 1) {
		if (!strcmp(p, "--ranks"))
			p += strlen(p) + 1;
		else if (strncmp(p, "--ranks=", 8) != 0)
			args[at++] = p;
	}
	return args;
}

int launch_ranks(int ranks, int bound, struct err *e)
{
	char self[4096], *number, *given, **args;
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	size_t len;
	pid_t pid;
	int status = 0, failed;

	self[n < 0 ? 0 : n] = 0;
	if (!(given = file_load("/proc/self/cmdline", 16 << 20, &len, e)))
		return -1;
	number = str_new("%d", ranks);
	if (geteuid() == 0) { /* Open MPI asks root for both */
		setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
		setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	}
	args = command(bound, given, len, number, self);
	catch_signals();
	failed = posix_spawnp(&pid, args[0], NULL, NULL, args, environ);
	mem_free(args);
	mem_free(number);
	mem_free(given);
	if (failed)
		return err_set(e, ERR_UNAVAILABLE, "--ranks %d: cannot start mpirun: %s; Debian has it in openmpi-bin", ranks, strerror(failed));
	child = pid;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void start_ranks(int64_t ranks, int bound)
{
	struct err e = {0};
	int status;

	if (ranks < 2)
		return;
	if (launched_ranks() > 1)
		err_set(&e, ERR_USAGE, "--ranks: this process was started as one of several ranks already");
	else if ((status = launch_ranks((int)ranks, bound, &e)) >= 0)
		exit(status);
	cmd_die(&e);
}

int join_ranks(struct comm **c, double timeout, struct err *e)
{
	char *path = launched_ranks() > 1 ? engine_path("mpi-engine.so") : NULL;

	char *network;

	*c = path ? comm_open(path, timeout, e) : NULL;
	mem_free(path);
	if (!*c)
		return e->code ? -1 : 0;
	if (comm_links(*c, &network, e))
		return -1;
	comm_name_network(*c, network);
	mem_free(network);
	return 0;
}

void say_ranks(const struct comm *c)
{
	if (c && !comm_rank(c))
		cmd_say("%d ranks by %s, network interfaces: %s", comm_size(c), comm_engine_name(c), comm_network(c));
}

void leave_ranks(struct comm *c, const struct err *e)
{
	if (c && e->code && e->code != ERR_AGAIN && !comm_has_failed_together(c)) {
		cmd_warn("rank %d: %s", comm_rank(c), e->msg);
		comm_abort(c, e->code);
	}
	comm_close(c);
}

int end_ranks(struct comm *c, struct err *e)
{
	int first = comm_rank(c) == 0;

	if (!c)
		return cmd_end(e);
	if (first && !comm_is_lost(c)) /* the others were told to leave */
		comm_close(c);
	else
		leave_ranks(c, e);
	if (!first)
		*e = (struct err){0};
	return cmd_end_saved(e);
}
