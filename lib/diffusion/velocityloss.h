/* The flow-matching loss of an ensemble on given samples: |u(x_t, t) - (eps - x0)|^2 per element, with u the velocity of the mixture and
 * x_t = (1 - t) x0 + t eps.
 *
 * Experts of every objective are measured alike, because u is their velocity on the linear path. The noise is a function of a seed, the sample's
 * id and the time, so that models can be compared on the same states. */
#ifndef DDM_DIFFUSION_VELOCITYLOSS_H
#define DDM_DIFFUSION_VELOCITYLOSS_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"
#include "diffusion/mixture.h"

/* Samples in host memory. */
struct velocity_samples {
	int64_t n;
	const float *x0;        /* (n, d) */
	const uint64_t *id;     /* (n) below 2^44: the noise of a sample follows from its id */
	const int64_t *index;   /* (n) keys the draws of policies */
	const int32_t *label;   /* (n) class labels, -1: null; NULL: all null */
	const int32_t *cluster; /* (n) for the weights of an oracle; NULL: none */
};

/* The noised sample of x0 (d) at time t: the noise eps (d), the state x = (1 - t) x0 + t eps (d) and the target eps - x0 (d). The noise follows from
 * the seed, t and the sample's id below 2^44. */
void velocity_state(int64_t d, const float *x0, double t, uint64_t seed, uint64_t id, float *eps, float *x, float *target);

struct velocity_loss;

/* Borrows *m and the pool. Capacity: most samples of a call. Errors of mixer_new; ERR_USAGE for a policy that needs trajectories (distance,
 * keep:MARGIN, budget:GFLOP) or that draws one expert for a whole trajectory. Caller frees with velocity_loss_free. */
struct velocity_loss *velocity_loss_new(const struct mixture *m, int64_t capacity, struct pool *pool, struct err *e);
void velocity_loss_free(struct velocity_loss *l);

/* loss (n): the mean over the elements of each sample at time t, 0 < t <= 1, in double. The result of a sample does not depend on the others.
 * ERR_FAIL for a velocity that is not finite. stats may be NULL; it counts the calls as step 0. */
int velocity_loss(struct velocity_loss *l, const struct velocity_samples *s, double t, uint64_t seed, double *loss, struct mixture_stats *stats,
                  struct err *e);

#endif
