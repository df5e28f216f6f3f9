/* Samples from a mixture: draws the initial noise and runs the solver. */
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
	/* NULL, or a discrete-time solver. It runs on `schedule`, which is also the mixture's own path; the experts predict `kind` there. Only the
	 * steps of `solver` are used then. */
	const struct discrete *discrete;
	const struct schedule *schedule;
	enum prediction kind;
	uint64_t seed;
	int64_t batch; /* most images per call; results do not depend on it */
	int torch;     /* PyTorch's noise: image i starts from the i-th of consecutive torch.randn(d) of a CPU generator seeded with
	                    * `seed`; they equal torch.randn(n, d) if d is a multiple of 16. Noise of later steps follows that of the
	                    * generator's last image (sampler_call.of), as in diffusers if one batch draws all images */
	/* Called after the first evaluation of every step, but not by dopri5, with the weights w (n, k); may be NULL. */
	void (*observe)(void *arg, int64_t step, double t, int64_t n, const double *w);
	void *observe_arg;
	/* See mixer_tell; may be NULL. */
	void (*order)(void *arg, const int *expert, int n);
	void *order_arg;
	/* Called with "steps" before every step of a batch; may be NULL. If it asks to stop, sampler_run fails with ERR_AGAIN. */
	const struct progress *progress;
};

struct sampler_state;

/* The images of one call, n <= batch. Arrays are in host memory; optional ones may be NULL. */
struct sampler_call {
	int64_t n;
	const int64_t *index; /* (n) image numbers, keys of the noise */
	const uint64_t *seed; /* (n), or NULL: the sampler's */
	const int64_t *of;    /* (n): with `torch`, the number of images that the generator of this seed draws, > index; NULL: index + 1 */
	const int32_t *label, *chosen, *text, *negative, *first; /* (n) as in struct mixture_call */
	struct texts texts;
};

/* Borrows *s. ERR_USAGE as by mixer_new for the policy and by discrete_plan_make for the solver, and for a budget that one expert at each
 * evaluation exceeds, and for dopri5 with a policy that looks back at earlier evaluations or draws at each, or with guidance that counts steps, for
 * guidance with a momentum and a solver of more evaluations than steps, and for weights by density without ancestral steps. Caller frees with
 * sampler_free. */
struct sampler_state *sampler_new(const struct sampler *s, struct err *e);
void sampler_free(struct sampler_state *st);

/* Evaluations of the mixture for one image; 0 if they depend on it (dopri5). */
int64_t sampler_evaluations(const struct sampler *s);

/* Sample x (n, d), in host memory. The initial noise of image i is a pure function of (seed, i), the noise that a step adds of (seed, i, step). The
 * image depends only on (seed, i), its label, its texts and its chosen expert. assigned (n), or NULL, receives the heaviest expert at the last
 * evaluation. stats may be NULL. */
int sampler_run(struct sampler_state *st, float *x, const struct sampler_call *c, int32_t *assigned, struct mixture_stats *stats, struct err *e);

/* On another rank than the first, if the mixture's experts are on several (diffusion/rankorder.h): carry out an ORDER_TEXTS or ORDER_EVALUATE. An
 * error of the experts goes to the first rank; -1: the first rank is lost, or there is no memory for the texts. */
struct order;
int sampler_answer(struct sampler_state *st, const struct order *o, const struct str *body, struct err *e);

#endif
