/* Pictures from a mixture: initial noise, the choice of an expert per trajectory, and the solver. */
#ifndef DDM_DIFFUSION_SAMPLER_H
#define DDM_DIFFUSION_SAMPLER_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "diffusion/discrete.h"
#include "diffusion/mixture.h"
#include "diffusion/solver.h"

struct sampler {
	const struct mixture *mixture;
	struct solver solver;
	/* NULL; or a solver of discrete time on this schedule, of whose path the mixture is and on which its experts predict `kind`: of `solver`
	 * the steps alone count. */
	const struct discrete *discrete;
	const struct schedule *schedule;
	enum prediction kind;
	uint64_t seed;
	int64_t batch;     /* capacity in rows; no result depends on it */
	int torch;         /* the noise is PyTorch's: image i starts from the i-th of consecutive torch.randn(d) of a CPU's generator that was
	                    * seeded with `seed`, which are torch.randn(n, d) where d is a multiple of 16; what steps add goes on behind the
	                    * last of the generator's images (struct sampler_call), as with diffusers, and one batch draws all of them */
	/* POLICY_PRIOR: shares (k), or of each class (classes, k) where class_shares is set; need not sum to 1. */
	const double *shares, *class_shares;
	int classes;
	/* NULL, or called after the first evaluation of every step with the weights (n, k). */
	void (*observe)(void *arg, int64_t step, double t, int64_t n, const double *w);
	void *observe_arg;
	/* NULL, or as mixer_tell's. */
	void (*order)(void *arg, const int *expert, int n);
	void *order_arg;
	/* NULL, or told "steps" before every step of a batch; where it asks to stop, sampler_run fails with ERR_AGAIN. */
	const struct progress *progress;
};

struct sampler_state;

/* n <= batch images. The pointers are the host's; NULL where there is nothing of the kind. */
struct sampler_call {
	int64_t n;
	const int64_t *index; /* (n) */
	const uint64_t *seed; /* (n), or NULL: the sampler's */
	const int64_t *of;    /* (n): how many images of its seed one generator of PyTorch's noise draws, above index; NULL: index + 1 */
	const int32_t *label, *chosen, *text, *negative; /* (n) as in struct mixture_call; chosen is read by POLICY_ORACLE alone */
	struct texts texts;
};

/* ERR_USAGE for a mixture and policy that do not fit (mixer_new), a solver and its steps (discrete_plan_make), or no shares
 * for POLICY_PRIOR. Borrows *s. Caller frees with sampler_free. */
struct sampler_state *sampler_new(const struct sampler *s, struct err *e);
void sampler_free(struct sampler_state *st);

/* Evaluations of the mixture for one image. */
int64_t sampler_evaluations(const struct sampler *s);

/* Into x (n, d) of the host: image i starts from d standard normals, a pure function of (seed, i), as is what steps add of (seed, i, step),
 * and is a function of (seed, i), its label, its texts and its chosen expert alone. assigned (n) or NULL receives the heaviest expert at
 * the last evaluation. stats may be NULL. */
int sampler_run(struct sampler_state *st, float *x, const struct sampler_call *c, int32_t *assigned, struct mixture_stats *stats,
                struct err *e);

#endif
