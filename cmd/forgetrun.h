/* Runs the trainings that ddm-forget has planned. */
#ifndef DDM_CMD_FORGETRUN_H
#define DDM_CMD_FORGETRUN_H

#include <stdint.h>

#include "cmd/forgetreport.h"

/* Options of the machine, which change no result. */
struct forget_training {
	const char *device; /* NULL: the default, as 0 in the others */
	int64_t threads;
	int quiet;
};

/* Fill the new model with the networks that stay, then run the trainings of the plan. What is finished is left alone. ERR_DATA, before anything is
 * written, if a command would not repeat the recorded run; ERR_AGAIN if a training was interrupted; else the status of one that failed. */
int forgetrun_all(const struct forget_report *r, const struct forget_training *t, struct err *e);

#endif
