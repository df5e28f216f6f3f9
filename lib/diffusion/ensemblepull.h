/* Products J' r with the Jacobians of an ensemble's experts and router, J = dv/dx or dlogits/dx of one row. Networks compute them by reverse
 * differentiation (tape_backward), exact models from their law. */
#ifndef DDM_DIFFUSION_ENSEMBLEPULL_H
#define DDM_DIFFUSION_ENSEMBLEPULL_H

#include "diffusion/ensemble.h"

struct puller;

/* For an ensemble opened with `gradient` and without `own`, borrowed. NULL: memory is short. Free with puller_free. */
struct puller *puller_new(struct ensemble *s, int64_t capacity, struct err *e);
void puller_free(struct puller *p);

/* v (n, d), the velocity of expert k at x (n, d) and t (n) with the null label, and g (n, d) = J' r for r (n, d). All in host memory;
 * n <= capacity. `puller` is a struct puller. Where |x0| of an epsilon prediction is clamped, its derivative is 0. */
int puller_expert(void *puller, int k, int64_t n, const float *x, const float *t, const float *r, float *v, float *g, struct err *e);
/* g (n, d) = J' r for r (n, clusters), whose rows sum to 0. */
int puller_router(void *puller, int64_t n, const float *x, const float *t, const float *r, float *g, struct err *e);

#endif
