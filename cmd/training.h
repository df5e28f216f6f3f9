/* Shared by ddm-train and ddm-route-train: options, progress lines, signals, --plan and the run. */
#ifndef DDM_CMD_TRAINING_H
#define DDM_CMD_TRAINING_H

#include "core/option.h"
#include "train/trainer.h"

extern const struct option training_options[];

extern volatile sig_atomic_t training_save; /* 1: SIGUSR2 asked for a checkpoint */

/* Handle SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGXCPU: the first sets cmd_signal, and later ones have no effect, except that the
 * third SIGINT or SIGQUIT kills the program. `seconds` (0: no limit) after the first signal the program exits with 75 without a checkpoint.
 * SIGUSR2 sets training_save. */
void training_catch_signals(const char *program, double seconds);
/* The hook `hung`: print where the process hangs, and end it with 75. */
void training_hung(void *arg, const char *where);
/* Hooks that print progress on stderr (quiet: only errors and warnings), stop the run once cmd_signal is set, and save once training_save is. */
struct train_hooks training_hooks(int quiet);
/* Train, or with --plan print the plan. With --ranks, or as one of several ranks, it ends the process if the ranks cannot end together. */
void training_run(struct train_options *o, struct err *e);

#endif
