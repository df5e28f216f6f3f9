/* The solver that diffusers' scheduler_config.json names, as ours (diffusion/solverchoice.h). */
#ifndef DDM_DIFFUSION_SCHEDULER_H
#define DDM_DIFFUSION_SCHEDULER_H

#include <jansson.h>

#include "core/err.h"

struct scheduler_solver {
	char text[128];    /* for solver_parse */
	int last_is_small; /* euler's steps go to .001, and a last one to 0 */
};

/* o: of scheduler_load (net/betas.h), `where` its file. Keys that are not there have diffusers' defaults. ERR_DATA naming the key that asks
 * for what is not known here. */
int scheduler_solver(struct scheduler_solver *s, const json_t *o, const char *where, struct err *e);

#endif
