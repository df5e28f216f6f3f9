/* Runs the command that captions samples: this thread writes the tar to it, another one reads its lines. */
#include "cmd/captioncommand.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "core/mem.h"
#include "core/str.h"
#include "core/thread.h"
#include "file/command.h"
#include "text/captionlines.h"

struct running {
	pid_t pid;    /* also the number of its process group */
	int to, from; /* pipes to the command's standard input and from its standard output */
	struct captioning *work;
	int wrong;    /* 1: a line cannot be a caption */
	struct err e; /* of the lines */
};

/* End the command and what it started. */
static void stop(const struct running *c)
{
	kill(-c->pid, SIGTERM);
}

static int start(struct running *c, const char *command, struct err *e)
{
	int in[2], out[2], rc;

	if (pipe2(in, O_CLOEXEC))
		return err_set(e, ERR_UNAVAILABLE, "cannot start --command: %s", strerror(errno));
	if (pipe2(out, O_CLOEXEC)) {
		rc = err_set(e, ERR_UNAVAILABLE, "cannot start --command: %s", strerror(errno));
		close(in[0]);
		close(in[1]);
		return rc;
	}
	rc = command_spawn(&c->pid, command, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	c->to = in[1];
	c->from = out[0];
	if (!rc)
		return 0;
	close(c->to);
	close(c->from);
	return err_set(e, ERR_UNAVAILABLE, "cannot start --command: /bin/sh: %s", strerror(rc));
}

/* Read the lines, up to a wrong one. */
static void *listen_lines(void *arg)
{
	struct running *c = arg;
	struct captionlines *lines = captionlines_open("--command", c->from, &c->e);
	struct str text = {0};
	int rc = lines ? 1 : -1;

	close(c->from);
	while (rc == 1 && (rc = captionlines_next(lines, &text, &c->e)) == 1) {
		if (captioning_take(c->work, str_text(&text), text.len, &c->e))
			rc = -1;
		str_reset(&text);
	}
	c->wrong = rc != 0;
	captionlines_free(lines);
	str_release(&text);
	if (c->wrong)
		stop(c);
	return NULL;
}

/* Whether nobody reads what is written to a pipe any more. */
static int is_broken(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	return poll(&p, 1, 0) > 0 && p.revents & POLLERR;
}

/* Write the samples. 0 also if the command stops reading: its status and its lines tell whether that was right. */
static int feed(const struct running *c, struct captioning *w, struct err *e)
{
	char *path = str_new("/dev/fd/%d", c->to);
	struct outfile o = {0};
	int rc = outfile_open(&o, path, e);

	mem_free(path);
	if (!rc)
		rc = captioning_feed(w, &o, e);
	if (!rc)
		rc = outfile_commit(&o, e);
	outfile_abort(&o);
	if (rc && e->code == ERR_IO && is_broken(c->to)) {
		*e = (struct err){0};
		rc = 0;
	}
	close(c->to);
	return rc;
}

static int await(const struct running *c, int *status)
{
	while (waitpid(c->pid, status, 0) < 0) {
		if (errno != EINTR)
			return -1;
		if (cmd_signal)
			stop(c);
	}
	return 0;
}

/* What was wrong with the command. A wrong line counts first, because the command was killed for it. */
static int judge(const struct running *c, int status, struct err *e)
{
	if (c->wrong)
		return err_set(e, c->e.code, "%s", c->e.msg);
	if (WIFSIGNALED(status))
		return err_set(e, ERR_FAIL, "--command was killed: %s", strsignal(WTERMSIG(status)));
	return status ? err_set(e, ERR_FAIL, "--command failed: it ended with status %d", WEXITSTATUS(status)) : 0;
}

int captioncommand_run(void *arg, const struct caption_request *r, struct captioning *w, struct err *e)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
	struct running c = {.work = w};
	pthread_t reader;
	int status = 0, rc, failed;

	(void)arg;
	if (start(&c, r->command, e))
		return -1;
	sigaction(SIGPIPE, &ignore, &before); /* a command may stop reading */
	failed = thread_start(&reader, listen_lines, &c);
	if (!failed) {
		rc = feed(&c, w, e);
	} else {
		close(c.to);
		close(c.from);
		rc = err_set(e, ERR_UNAVAILABLE, "--command: no thread for its lines: %s", strerror(failed));
	}
	if (rc)
		stop(&c);
	if (await(&c, &status) && !rc)
		rc = err_errno(e, "--command");
	if (rc || status || cmd_signal)
		stop(&c); /* a process that it left would keep the pipe open */
	if (!failed)
		pthread_join(reader, NULL);
	sigaction(SIGPIPE, &before, NULL);
	if (cmd_signal)
		return err_set(e, ERR_AGAIN, "interrupted");
	return rc ? -1 : judge(&c, status, e);
}
