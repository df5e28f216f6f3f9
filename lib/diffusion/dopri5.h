/* The adaptive flow solver dopri5; solver_run calls it. */
#ifndef DDM_DIFFUSION_DOPRI5_H
#define DDM_DIFFUSION_DOPRI5_H

#include "diffusion/solver.h"

/* As solver_run and solver_work. ERR_USAGE if s->steps steps, with rejected ones, do not suffice. */
int dopri5_run(const struct solver *s, struct device *d, float *x, int64_t count, float *work, solver_field *field, void *arg, struct err *e);
int64_t dopri5_work(int64_t count);

#endif
