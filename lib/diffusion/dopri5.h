/* The adaptive flow solver dopri5, for one sample or for many at once. */
#ifndef DDM_DIFFUSION_DOPRI5_H
#define DDM_DIFFUSION_DOPRI5_H

#include "diffusion/solver.h"

/* v (n, count) at x (n, count): row i is sample[i] at time t[i]. step and stage as in solver_field, the same for all rows. v and x are in device
 * memory, the others in host memory. */
typedef int dopri5_field(void *arg, float *v, const float *x, const double *t, const int64_t *sample, int64_t n, int64_t step, int stage,
                         struct err *e);

/* Integrate the n samples x (n, count) in place. Each has its own steps, and its result and the times that it is evaluated at are those of a run
 * of it alone. The next stages of all samples that are not done are evaluated together. work: dopri5_work(n * count) floats. s->from is above s->to
 * and .001. ERR_USAGE if s->steps steps, with rejected ones, do not suffice for a sample; ERR_NOMEM. */
int dopri5_run(const struct solver *s, struct device *d, float *x, int64_t n, int64_t count, float *work, dopri5_field *field, void *arg,
               struct err *e);
/* The same for one sample, as solver_run calls it. */
int dopri5_single(const struct solver *s, struct device *d, float *x, int64_t count, float *work, solver_field *field, void *arg, struct err *e);
int64_t dopri5_work(int64_t count);

#endif
