/* The arithmetic of sampling as device ops on float arrays in device memory. Every function submits to stream 0 and returns without waiting. */
#ifndef DDM_DIFFUSION_ONDEVICE_H
#define DDM_DIFFUSION_ONDEVICE_H

#include <stdint.h>

#include "diffusion/convert.h"
#include "kernels/device.h"

/* y [i] = x [i] + h (v [i] + v2 [i]), in double, rounded once. x and v2 may be NULL; y may alias any input. */
void ondevice_advance(struct device *d, float *y, const float *x, double h, const float *v, const float *v2, int64_t n);

/* One term of a sum: f times x (n, cols), with rows `step` floats apart. */
struct term {
	double f;
	const float *x;
	int64_t step;
};

/* y (n, cols), with rows y_step apart, = the sum of the terms, in double, rounded once, clamped to -limit .. limit if limit > 0. y may alias a term.
 * Terms with f = 0 are skipped; at most OP_COMBINED others are allowed. */
void ondevice_combine(struct device *d, float *y, int64_t y_step, const struct term *t, int terms, double limit, int64_t n, int64_t cols);

/* x [i] = exp(x [i]); y [i] = a [i] b [i], y may alias a or b. */
void ondevice_exp(struct device *d, float *x, int64_t n);
void ondevice_multiply(struct device *d, float *y, const float *a, const float *b, int64_t n);

/* y (n, cols) = the rows of x (rows, cols) at index (n). */
void ondevice_gather(struct device *d, float *y, const float *x, const int32_t *index, int64_t n, int64_t rows, int64_t cols);

/* For each of the n rows of a group: its index in the batch, whether y already holds a contribution, and its weight; on the device. */
struct group_rows {
	const int32_t *index, *begun; /* (n) */
	const float *w;               /* (n) */
};

/* y (rows, cols) at the group's rows = w v, or w (null + cfg (v - null)) if null is not NULL; added to y for rows with `begun`. v and null are
 * (n, cols). Rows of y, v and null are `step` floats apart. */
void ondevice_mix(struct device *d, float *y, int64_t rows, const float *v, const float *null, double cfg, const struct group_rows *g, int64_t n,
                  int64_t cols, int64_t step);

/* y (n, cols) = the guided prediction by the rule in rule->guide (GUIDE, kernels/op.h), from c and u, and from x where rule->guide.a is not 0.
 * Rows of y, c and u are `step` floats apart; those of x, of the momentum m, which may be NULL, and of next are x_step apart. next receives the
 * new momentum, and may be m, or NULL without one. y may be c or u. */
void ondevice_guide(struct device *d, const struct op_attr *rule, float *y, const float *x, const float *c, const float *u, const float *m,
                    float *next, int64_t n, int64_t cols, int64_t step, int64_t x_step);

/* v (n, cols) = the velocity from x (n, cols) on the linear path and the first cols columns of a network's output (n, out_cols). v may alias x or
 * out if out_cols is cols. mean (cols): of the data; NULL: no blending. */
void ondevice_convert(struct device *d, const struct convert *c, float *v, const float *x, const float *out, const float *mean, int64_t n,
                      int64_t cols, int64_t out_cols);

#endif
