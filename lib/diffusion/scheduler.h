/* Translates diffusers' scheduler_config.json to a solver of diffusion/solverchoice.h. */
#ifndef DDM_DIFFUSION_SCHEDULER_H
#define DDM_DIFFUSION_SCHEDULER_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"

struct scheduler_solver {
	char text[128];    /* for solver_parse */
	int last_is_small; /* euler's steps end at .001 (after the shift), followed by one to 0 */
};

/* o: from scheduler_load (net/betas.h); where: its file, for messages; tokens: the network's tokens per picture, needed for dynamic shifting, or
 * 0: unknown. Missing keys have diffusers' defaults. ERR_DATA names the key with an unsupported value. */
int scheduler_solver(struct scheduler_solver *s, const json_t *o, int64_t tokens, const char *where, struct err *e);

#endif
