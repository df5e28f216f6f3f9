/* Start, end, messages, signals and progress lines of all programs. */
#ifndef DDM_CMD_CMD_H
#define DDM_CMD_CMD_H

#include <signal.h>
#include <stdio.h>

#include "core/option.h"
#include "core/clock.h"
#include "core/err.h"

/* Start a program; every main() calls this first. Installs the out-of-memory handler (exit 71), opens descriptors 0 to 2 if they are closed,
 * makes SIGPIPE and SIGXFSZ write errors so that temporary files are removed, and parses the options. A usage error prints one line and exits
 * with 2; -h, -V and --completion print their text and exit with 0. The number of operands must lie in [min, max] (max < 0: no limit).
 * Returns it, and leaves the operands in argv[1..]. *p is borrowed until the end. */
int cmd_start(const struct program *p, int argc, char **argv, int min, int max);

/* Print "ddm-x: message" on stderr. */
void cmd_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Print "ddm-x: skipped: WHY" on stderr: the function `bad` of data/samples.h for programs that count nothing. */
void cmd_skipped(void *unused, const char *why);

/* Print a line of information for the user on stderr, without the program's name. The caller checks --quiet. */
void cmd_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Refuse to write binary data to a terminal: ERR_USAGE, with `way_out` in the message, if path is "-" and stdout is a terminal; otherwise 0.
 * path may be NULL. Not for one of several ranks, which mpirun gives a terminal of its own. */
int cmd_binary(const char *path, const char *way_out, struct err *e);

/* End a program; main() ends with `return cmd_end(&e)`. Prints the error if one is set, closes stdout and checks it (full disk: exit 74;
 * closed pipe: raises SIGPIPE), and returns the exit status. If cmd_catch_signals caught a signal, raises it first, with its default action. */
int cmd_end(const struct err *e);

/* As cmd_end, for a program that cannot resume: after an interruption it warns that nothing was saved. */
int cmd_end_over(const struct err *e);

/* As cmd_end, for a program that saves its state at a signal: no signal is raised, so that ERR_AGAIN is exit status 75. */
int cmd_end_saved(const struct err *e);

/* exit(cmd_end(e)). */
void cmd_exit(const struct err *e) __attribute__((noreturn));

/* Print "ddm-x: message" and exit with e's code at once; for errors in main() that leave nothing to clean up. */
void cmd_die(const struct err *e) __attribute__((noreturn));

/* Handle SIGINT, SIGTERM, SIGHUP and SIGUSR1: the first sets cmd_signal to its number and ends waits for input; the same signal again kills the
 * program. A signal that was ignored at the start stays ignored. */
void cmd_catch_signals(void);
extern volatile sig_atomic_t cmd_signal;

/* Raise the limit on open files as far as this user may, for programs that hold many shards open. */
void cmd_allow_files(void);

/* A progress line on stderr with count, total, rate and remaining time (core/pace.h), updated at most six times a second; nothing is printed if
 * stderr is not a terminal. The names of phases ("samples") must be string constants. Its fn returns non-zero once cmd_signal is set. */
struct progress cmd_progress(void);

#endif
