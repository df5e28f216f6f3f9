/* Runs a command and reads what it prints. */
#include "file/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/interrupt.h"
#include "core/mem.h"
#include "file/fileio.h"

enum { GRACE_SECONDS = 2, SLICE_US = 5000 };

extern char **environ;

struct command {
	char *path; /* "pipe:COMMAND" */
	pid_t pid;  /* 0: it has ended */
	int fd;
};

/* Signals that this process ignores or blocks have their defaults in the command. */
static int set_signals(posix_spawnattr_t *attr)
{
	sigset_t none, defaults;

	sigemptyset(&none);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	sigaddset(&defaults, SIGXFSZ);
	posix_spawnattr_setsigmask(attr, &none); /* these three only store: they cannot fail */
	posix_spawnattr_setsigdefault(attr, &defaults);
	posix_spawnattr_setpgroup(attr, 0);
	return posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

int command_spawn(pid_t *pid, const char *text, int in, int out)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)text, NULL};
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	int rc;

	posix_spawn_file_actions_init(&fa);
	posix_spawnattr_init(&attr);
	rc = set_signals(&attr);
	if (!rc)
		rc = in < 0 ? posix_spawn_file_actions_addopen(&fa, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
		            : posix_spawn_file_actions_adddup2(&fa, in, STDIN_FILENO);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(&fa, out, STDOUT_FILENO);
	if (!rc)
		rc = posix_spawn(pid, "/bin/sh", &fa, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&attr);
	return rc;
}

struct command *command_open(const char *path, struct err *e)
{
	struct command *c = mem_zalloc(1, sizeof *c);
	int ends[2], rc;

	c->path = mem_strdup(path);
	c->fd = -1;
	if (pipe2(ends, O_CLOEXEC)) {
		err_errno(e, "%s: pipe", path);
		command_close(c);
		return NULL;
	}
	c->fd = ends[0];
	rc = command_spawn(&c->pid, c->path + 5, -1, ends[1]);
	close(ends[1]);
	if (!rc)
		return c;
	c->pid = 0;
	err_set(e, ERR_UNAVAILABLE, "%s: cannot be started: %s", path, strerror(rc));
	command_close(c);
	return NULL;
}

/* Wait until the command has ended: 1 and its status; 0 if a signal ended the wait, or `seconds` have passed (negative: no limit). */
static int wait_for(struct command *c, double seconds, int heed_signals, int *status)
{
	double end = clock_seconds() + seconds;

	for (;;) {
		pid_t got = waitpid(c->pid, status, WNOHANG);

		if (got == c->pid || (got < 0 && errno != EINTR)) {
			if (got < 0)
				*status = 0; /* another part of the program has waited for it */
			c->pid = 0;
			return 1;
		}
		if ((heed_signals && interrupt_given()) || (seconds >= 0 && clock_seconds() > end))
			return 0;
		usleep(SLICE_US);
	}
}

static int finish(struct command *c, struct err *e)
{
	int status;

	if (!c->pid)
		return 0;
	if (!wait_for(c, -1, 1, &status))
		return err_set(e, ERR_AGAIN, "%s: interrupted", c->path);
	if (WIFSIGNALED(status))
		return err_set(e, ERR_IO, "%s: the command was killed by signal %d", c->path, WTERMSIG(status));
	if (status)
		return err_set(e, ERR_IO, "%s: the command failed with status %d", c->path, WEXITSTATUS(status));
	return 0;
}

int command_read(struct command *c, void *p, size_t n, size_t *got, struct err *e)
{
	ssize_t k = fd_read(c->fd, p, n);

	*got = 0;
	if (k < 0)
		return err_errno(e, "%s: read", c->path);
	*got = (size_t)k;
	return *got < n ? finish(c, e) : 0;
}

void command_close(struct command *c)
{
	int status;

	if (!c)
		return;
	if (c->fd >= 0)
		close(c->fd);
	if (c->pid) {
		kill(-c->pid, SIGTERM);
		if (!wait_for(c, GRACE_SECONDS, 0, &status)) {
			kill(-c->pid, SIGKILL);
			wait_for(c, GRACE_SECONDS, 0, &status);
		}
	}
	mem_free(c->path);
	mem_free(c);
}
