/* The arithmetic of sampling as ops on a device's memory: everything here is submitted to stream 0 and does not wait. Floats. */
#ifndef DDM_DIFFUSION_ONDEVICE_H
#define DDM_DIFFUSION_ONDEVICE_H

#include <stdint.h>

#include "diffusion/convert.h"
#include "kernels/device.h"

/* y [i] = x [i] + h (v [i] + v2 [i]), in double, rounded once; x and v2 may be NULL, y may be any of them. */
void ondevice_advance(struct device *d, float *y, const float *x, double h, const float *v, const float *v2, int64_t n);

/* One of what is added: f times x (n, cols), whose rows are `step` apart. */
struct term {
	double f;
	const float *x;
	int64_t step;
};

/* y (n, cols), rows y_step apart = the sum of up to OP_COMBINED terms, within -limit .. limit where limit > 0; in double, rounded once; y
 * may be one of them. Terms with a factor of 0 are left out. */
void ondevice_combine(struct device *d, float *y, int64_t y_step, const struct term *t, int terms, double limit, int64_t n, int64_t cols);

/* x [i] = exp(x [i]); y [i] = a [i] b [i], y may be either. */
void ondevice_exp(struct device *d, float *x, int64_t n);
void ondevice_multiply(struct device *d, float *y, const float *a, const float *b, int64_t n);

/* y (n, cols) = the rows of x (rows, cols) at index (n). */
void ondevice_gather(struct device *d, float *y, const float *x, const int32_t *index, int64_t n, int64_t rows, int64_t cols);

/* Which rows of the whole a group of n holds, whether a row has been written before, and its weight: all on the device. */
struct group_rows {
	const int32_t *index, *begun; /* (n) */
	const float *w;               /* (n) */
};

/* y (rows, cols) at the group's rows = w v (n, cols), or w (null + cfg (v - null)) where null is not NULL; added where begun. Rows of all
 * three are `step` apart. */
void ondevice_mix(struct device *d, float *y, int64_t rows, const float *v, const float *null, double cfg, const struct group_rows *g,
                  int64_t n, int64_t cols, int64_t step);

/* v (n, cols) from the linear path's x (n, cols) and a network's output (n, out_cols), of which the first cols count; v may be either
 * where out_cols is cols. mean (cols) of the data, or NULL: no blending. */
void ondevice_convert(struct device *d, const struct convert *c, float *v, const float *x, const float *out, const float *mean, int64_t n,
                      int64_t cols, int64_t out_cols);

#endif
