/* Handles signals during training. SIGUSR2: write a checkpoint after the step, and go on. The others: finish the step, write a checkpoint, exit with
 * 75. Batch systems repeat their signal, and beyond the limit on processor time the kernel sends SIGXCPU every second. Repeated signals must not end
 * the program while it saves. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/training.h"

enum { IMPATIENT = 3 /* this many SIGINT and SIGQUIT, which a user types, end the program at once */ };

volatile sig_atomic_t training_save;

static unsigned grace; /* whole seconds for the checkpoint; 0: no limit */
static const char *program_name;
static char late[200]; /* message at the end of this time, formatted before any signal */

static void remember(int sig)
{
	static volatile sig_atomic_t typed;
	int error = errno;

	if (!cmd_signal) {
		cmd_signal = sig;
		alarm(grace);
	}
	if ((sig == SIGINT || sig == SIGQUIT) && ++typed >= IMPATIENT) {
		signal(sig, SIG_DFL);
		raise(sig);
	}
	errno = error;
}

static void ask(int sig)
{
	(void)sig;
	training_save = 1;
}

/* End the program after the time limit. The next run removes incomplete files. */
static void give_up(int sig)
{
	(void)sig;
	if (write(STDERR_FILENO, late, strlen(late)) < 0)
		_exit(ERR_IO);
	_exit(ERR_AGAIN);
}

static void handle(int sig, void (*handler)(int sig))
{
	struct sigaction old, act = {.sa_handler = handler, .sa_flags = SA_RESTART};

	sigfillset(&act.sa_mask);
	/* nohup, and `&` in a shell without job control, start programs with some signals ignored; these stay ignored. */
	if (!sigaction(sig, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(sig, &act, NULL);
}

/* Without stdio, whose lock the main thread may hold, and without waiting for a pipe that nobody reads. */
void training_hung(void *arg, const char *where)
{
	enum { OTHERS_S = 2 }; /* launchers kill all ranks when one ends: time for the others to say where they are */
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
	char line[1500];
	int n = snprintf(line, sizeof line, "%s: %s (--hang-timeout); the last checkpoint is intact: run the same command again to continue\n",
	                 program_name, where);

	(void)arg;
	if (poll(&p, 1, 1000) == 1 && write(STDERR_FILENO, line, (size_t)n) < 0)
		_exit(ERR_IO);
	if (!strncmp(where, "rank ", 5))
		sleep(OTHERS_S);
	_exit(ERR_AGAIN);
}

void training_catch_signals(const char *program, double seconds)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGXCPU};

	program_name = program;
	grace = (unsigned)ceil(seconds);
	snprintf(
	    late, sizeof late,
	    "%s: interrupted; no checkpoint could be written within %u s (--grace); the last one is intact: run the same command again to continue\n",
	    program, grace);
	handle(SIGALRM, give_up);
	handle(SIGUSR2, ask);
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		handle(signals[i], remember);
}
