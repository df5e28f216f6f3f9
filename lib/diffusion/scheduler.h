/* The solver that diffusers' scheduler_config.json names, as ours (diffusion/solverchoice.h). */
#ifndef DDM_DIFFUSION_SCHEDULER_H
#define DDM_DIFFUSION_SCHEDULER_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"

struct scheduler_solver {
	char text[128];    /* for solver_parse */
	int last_is_small; /* euler's steps go to .001, as a shift moves it, and a last one to 0 */
};

/* o: of scheduler_load (net/betas.h), `where` its file; tokens: those that its network makes of a picture, which dynamic shifting asks for, or
 * 0: unknown. Keys that are not there have diffusers' defaults. ERR_DATA naming the key that asks for what is not known here. */
int scheduler_solver(struct scheduler_solver *s, const json_t *o, int64_t tokens, const char *where, struct err *e);

#endif
