/* What ddm-train and ddm-route-train share: the options that are the program's own, the line per step, --plan. */
#ifndef DDM_CMD_TRAINING_H
#define DDM_CMD_TRAINING_H

#include "core/option.h"
#include "train/trainer.h"

extern const struct option training_options[];

/* SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGXCPU set cmd_signal, however often they come; the third SIGINT or SIGQUIT kills,
 * and so many seconds (0: never) after the first signal the program ends with 75 as it stands. */
void training_catch_signals(const char *program, int64_t seconds);
/* Hooks that print on stderr, or only errors and warnings; cmd_signal stops the run. */
struct train_hooks training_hooks(int quiet);
/* Plan or train, as the options say. */
void training_run(struct train_options *o, struct err *e);

#endif
