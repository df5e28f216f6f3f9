/* Common to all programs: start, signals, progress, exit codes, messages. */
#ifndef DDM_CMD_CMD_H
#define DDM_CMD_CMD_H

#include <signal.h>
#include <stdio.h>

#include "core/option.h"
#include "core/clock.h"
#include "core/err.h"

/* First call of every main(): remembers the program for messages, installs the out-of-memory handler (exit 71), opens descriptors
 * 0 to 2 where they are closed, turns SIGPIPE and SIGXFSZ into write errors so that temporary files get removed, and parses the options; on
 * a usage error prints one line and exits 2. Operand count must lie in [min, max] (max < 0: no limit). Returns the number of
 * operands, left in argv[1..]. */
int cmd_start(const struct program *p, int argc, char **argv, int min, int max);

/* "ddm-x: message" on stderr. */
void cmd_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Talk for a human: silent with --quiet semantics handled by the caller; one line to stderr. */
void cmd_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ERR_USAGE with the way out where path is "-" and standard output a terminal, which binary data is never written to. NULL is allowed. */
int cmd_binary(const char *path, const char *way_out, struct err *e);

/* The end of every main(): `return cmd_end(&e)`. Flushes and checks stdout (a full disk is exit 74, a closed pipe re-raises SIGPIPE),
 * prints the error if one is set, and returns the exit status. When a signal was caught by cmd_catch_signals in a filter, the
 * default action is restored and the signal raised again, after clean-up. */
int cmd_end(const struct err *e);

/* As cmd_end, for a program that keeps nothing of its work when a signal comes, and says so. */
int cmd_end_over(const struct err *e);

/* As cmd_end, for a program that saves its state when a signal comes: ERR_AGAIN ends it with 75, nothing is raised. */
int cmd_end_saved(const struct err *e);

/* exit(cmd_end(e)). */
void cmd_exit(const struct err *e) __attribute__((noreturn));

/* Print "ddm-x: message" and exit with e's code at once: for errors in main() before there is anything to clean up. */
void cmd_die(const struct err *e) __attribute__((noreturn));

/* Install handlers for SIGINT, SIGTERM, SIGHUP, SIGUSR1 that set cmd_signal to the signal's number and end waits for input; a second one kills. */
void cmd_catch_signals(void);
extern volatile sig_atomic_t cmd_signal;

/* Progress on stderr, only when it is a terminal, at most six times a second: what is done, of how many, how fast and how long it will
 * still take (core/pace.h). Names of phases ("samples") are string constants. Returns non-zero once cmd_signal is set. */
struct progress cmd_progress(void);

#endif
