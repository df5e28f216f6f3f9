/* What ddm-train and ddm-route-train share: the options that are the program's own, the line per step, --plan. */
#ifndef DDM_CMD_TRAINING_H
#define DDM_CMD_TRAINING_H

#include "core/option.h"
#include "train/trainer.h"

extern const struct option training_options[];

/* SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGXCPU set cmd_signal, however often they come; the third SIGINT or SIGQUIT kills,
 * and so many seconds (0: never) after the first signal the program ends with 75 as it stands. */
void training_catch_signals(const char *program, int64_t seconds);
/* Talk on stderr, or errors and warnings alone; cmd_signal stops. */
struct train_hooks training_hooks(int quiet);
/* Plans or trains what the options asked for. */
void training_run(struct train_options *o, struct err *e);

#endif
