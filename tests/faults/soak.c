/* Runs a program, makes one thing go wrong with it after a while, and waits until it has ended.
 *
 *	soak KIND AT ARG TOLD PROGRAM [ARGUMENT]...
 *
 * AT: seconds after its start. KIND, and what ARG is:
 *
 *	none    nothing
 *	kill    SIGKILL
 *	term    SIGTERM
 *	stop    SIGSTOP, and SIGCONT after ARG seconds
 *	full    for ARG seconds every call that needs room on the disk fails with ENOSPC
 *	io      one fsync or write fails
 *	clock   the clock of the day jumps by ARG seconds (tests/faults/clockjump.c, which SOAK_CLOCK names, is preloaded)
 *	rank    SIGKILL to the rank 1 that the program has started; as kill where there is none
 *
 * Writes "1" into TOLD if the fault struck before the program had ended, else "0". Exits as the program did, with 128+n if a signal n ended it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/faults/faults.h"

static const char *kind;
static double began, at, arg;
static int struck;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Whether a call that could fail fails now. */
int fault_strikes(struct fault *f)
{
	double t = now() - began - at;
	int single = !strcmp(kind, "io"), strikes = t >= 0 && (single ? !struck : t < arg);

	(void)f;
	struck |= strikes;
	return strikes;
}

static long parent_of(long pid)
{
	char path[64], text[512] = "", *after;
	FILE *f;
	long parent = 0;

	snprintf(path, sizeof path, "/proc/%ld/stat", pid);
	if (!(f = fopen(path, "r")))
		return 0;
	if (fgets(text, sizeof text, f) && (after = strrchr(text, ')')))
		sscanf(after, ") %*c %ld", &parent);
	fclose(f);
	return parent;
}

/* Whether a process has this in its environment. */
static int has_variable(long pid, const char *variable)
{
	static char text[1 << 17];
	char path[64];
	int fd;
	ssize_t n;

	snprintf(path, sizeof path, "/proc/%ld/environ", pid);
	if ((fd = open(path, O_RDONLY)) < 0)
		return 0;
	n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	for (char *p = text; p < text + n; p += strlen(p) + 1)
		if (!strcmp(p, variable))
			return 1;
	return 0;
}

/* The rank 1 below a process; the process itself if there is none. */
static pid_t rank_below(pid_t pid)
{
	DIR *d = opendir("/proc");
	struct dirent *entry;
	pid_t found = pid;

	while (d && (entry = readdir(d))) {
		long p = strtol(entry->d_name, NULL, 10), above = p;

		if (p <= 0 || !has_variable(p, "OMPI_COMM_WORLD_RANK=1"))
			continue;
		while (above > 1 && above != pid)
			above = parent_of(above);
		if (above == pid)
			found = (pid_t)p;
	}
	if (d)
		closedir(d);
	return found;
}

static void strike(pid_t pid)
{
	struct timespec pause = {(time_t)arg, (long)((arg - (double)(time_t)arg) * 1e9)};

	struck = 1;
	if (!strcmp(kind, "kill"))
		kill(pid, SIGKILL);
	else if (!strcmp(kind, "rank"))
		kill(rank_below(pid), SIGKILL);
	else if (!strcmp(kind, "term"))
		kill(pid, SIGTERM);
	else if (!strcmp(kind, "stop")) {
		kill(pid, SIGSTOP);
		nanosleep(&pause, NULL);
		kill(pid, SIGCONT);
	}
}

static void start(int disk, const int between[2], char **program)
{
	char text[64];

	close(between[0]);
	if (!strcmp(kind, "clock") && getenv("SOAK_CLOCK")) {
		snprintf(text, sizeof text, "%g %g", at, arg);
		setenv("LD_PRELOAD", getenv("SOAK_CLOCK"), 1);
		setenv("CLOCK_JUMP", text, 1);
	}
	if (disk && disk_arm(between[1]))
		_exit(99);
	execvp(program[0], program);
	_exit(127);
}

int main(int argc, char **argv)
{
	int between[2], status = 0, disk, fd;
	struct pollfd p = {.events = POLLIN};
	struct fault none = {0};
	pid_t pid;

	if (argc < 6) {
		fprintf(stderr, "usage: soak KIND AT ARG TOLD PROGRAM [ARGUMENT]...\n");
		return 2;
	}
	kind = argv[1];
	at = strtod(argv[2], NULL);
	arg = strtod(argv[3], NULL);
	disk = !strcmp(kind, "full") || !strcmp(kind, "io");
	began = now();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, between) || (pid = fork()) < 0)
		return 99;
	if (!pid)
		start(disk, between, argv + 5);
	close(between[1]);
	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (disk) {
		disk_watch(pid, between[0], DISK_FULL, &none);
	} else if (strcmp(kind, "none") != 0) {
		if (!poll(&p, 1, at > 0 ? (int)(at * 1000) : 0))
			strike(pid);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	fd = open(argv[4], O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (fd < 0 || write(fd, struck ? "1\n" : "0\n", 2) != 2)
		return 99;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
