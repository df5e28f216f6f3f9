/* The optimizer's passes over flat arenas, on the CPU. */
#ifndef DDM_KERNELS_OPTIMIZER_H
#define DDM_KERNELS_OPTIMIZER_H

#include <stdint.h>

#include "core/pool.h"

/* AdamW (Loshchilov & Hutter, arXiv 1711.05101) with an exponential moving average of the weights, in one pass:
 *   g' = scale g;  m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2
 *   p -= lr (m / (1 - b1^step) / (sqrt(v / (1 - b2^step)) + eps) + decay mask p)
 *   ema = d ema + (1 - d) p */
struct adamw {
	double lr, beta1, beta2, eps, decay, ema;
	double scale; /* of the gradient: clipping */
	int64_t step; /* 1 for the first update */
};

void adamw_step_f32(struct pool *pool, const struct adamw *a, int64_t n, float *p, const float *g, float *m, float *v, float *ema,
                    const float *mask);
void adamw_step_f64(struct pool *pool, const struct adamw *a, int64_t n, double *p, const double *g, double *m, double *v,
                    double *ema, const double *mask);

/* Sum of squares in double: chunks of fixed length, added in order. NaN and infinity carry through. */
double sumsq_f32(struct pool *pool, int64_t n, const float *x);
double sumsq_f64(struct pool *pool, int64_t n, const double *x);

/* x += y. */
void vector_add_f32(struct pool *pool, int64_t n, float *x, const float *y);
void vector_add_f64(struct pool *pool, int64_t n, double *x, const double *y);

#endif
