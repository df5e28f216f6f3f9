/* What samplers work on: experts that give a velocity on the linear path, and a router that gives cluster logits. */
#ifndef DDM_DIFFUSION_DENOISER_H
#define DDM_DIFFUSION_DENOISER_H

#include <stdint.h>

#include "core/err.h"

/* What rows are conditioned on; NULL where there is nothing of the kind. */
struct condition {
	const int32_t *label; /* (n), of the host: class labels in 0 .. classes, `classes` itself being the null label */
	const float *text;    /* (n, text_tokens, text_width), of the device: features of a text */
	const float *mask;    /* (n, text_tokens), of the device: 0 for a token, NET_PADDING for padding; NULL: no padding */
};

/* x, v and logits are memory of the device that they compute on; t is the host's; what is the host's has been read on return.
 * Rows are independent: row i of the result depends on row i of the inputs alone, bit for bit, and not on n. */
struct expert {
	/* v (n, d) = velocity on the linear path at x (n, d), t (n), 1 <= n <= capacity; or, of a mixture on its experts' own path, what they
	 * predict there. NULL where the expert is absent. */
	int (*velocity)(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e);
	void *arg;
	int64_t capacity; /* rows of one call */
	int classes;      /* 0: knows none */
	double flops;     /* of one row */
	int64_t text_tokens, text_width; /* 0: reads no text */
};

struct router {
	/* logits (n, K) of log p(k | x_t, t), 1 <= n <= capacity. */
	int (*logits)(void *arg, int64_t n, const float *x, const float *t, float *logits, struct err *e);
	void *arg;
	int64_t capacity;
	double flops; /* of one row */
};

#endif
