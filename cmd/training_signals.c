/* Handles signals during training. SIGUSR2: write a checkpoint after the step, and go on. The others: finish the step, write a checkpoint, exit with
 * 75. Batch systems repeat their signal, and beyond the limit on processor time the kernel sends SIGXCPU every second. Repeated signals must not end
 * the program while it saves. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/training.h"

enum { IMPATIENT = 3 /* this many SIGINT and SIGQUIT, which a user types, end the program at once */ };

volatile sig_atomic_t training_save;

static unsigned grace; /* whole seconds for the checkpoint; 0: no limit */
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

void training_catch_signals(const char *program, double seconds)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGXCPU};

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
