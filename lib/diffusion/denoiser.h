/* What samplers work on: experts that give a velocity on the linear path, and a router that gives cluster logits. */
#ifndef DDM_DIFFUSION_DENOISER_H
#define DDM_DIFFUSION_DENOISER_H

#include <stdint.h>

#include "core/err.h"

/* x, v and logits are memory of the device that they compute on; t and label are the host's, and have been read on return.
 * Rows are independent: row i of the result depends on row i of the inputs alone, bit for bit, and not on n. */
struct expert {
	/* v (n, d) = velocity on the linear path at x (n, d), t (n), 1 <= n <= capacity. label (n) or NULL: class labels in
	 * 0 .. classes, `classes` itself being the null label. NULL where the expert is absent. */
	int (*velocity)(void *arg, int64_t n, const float *x, const float *t, const int32_t *label, float *v, struct err *e);
	void *arg;
	int64_t capacity; /* rows of one call */
	int classes;      /* 0: unconditional */
	double flops;     /* of one row */
};

struct router {
	/* logits (n, K) of log p(k | x_t, t), 1 <= n <= capacity. */
	int (*logits)(void *arg, int64_t n, const float *x, const float *t, float *logits, struct err *e);
	void *arg;
	int64_t capacity;
	double flops; /* of one row */
};

#endif
