/* The interface of experts and routers to samplers: an expert computes a velocity on the linear path, a router computes cluster logits. */
#ifndef DDM_DIFFUSION_DENOISER_H
#define DDM_DIFFUSION_DENOISER_H

#include <stdint.h>

#include "core/err.h"

/* The condition of each row; a member is NULL if there is none of its kind. */
struct condition {
	const int32_t *label; /* (n), on the host: class labels 0 .. classes - 1; `classes` is the null label */
	const float *text;    /* (n, text_tokens, text_width), on the device: text features */
	const float *mask;    /* (n, text_tokens), on the device: 0 for a token, NET_PADDING for padding; NULL: no padding */
	const float *pooled;  /* (n, pooled_width), on the device: pooled vectors of the texts */
	const float *first;   /* (n, first_frame), on the device: rows of net_put_first */
};

/* x, v and logits are in the memory of the device that the network runs on. t is in host memory; host arrays are no longer needed after the call.
 * Rows are independent: the bits of row i of the result depend only on row i of the inputs, not on n. */
struct expert {
	/* v (n, d) = the velocity on the linear path at x (n, d), t (n), 1 <= n <= capacity. In a mixture on the experts' own path, v is the
	 * expert's prediction there. NULL if the expert is absent. */
	int (*velocity)(void *arg, int64_t n, const float *x, const float *t, const struct condition *c, float *v, struct err *e);
	void *arg;
	int64_t capacity;                /* most rows of one call */
	int classes;                     /* 0: unconditional */
	double flops;                    /* of one row */
	int64_t text_tokens, text_width; /* 0: reads no text */
	int64_t pooled_width;            /* 0: reads no pooled vector */
	int64_t first_frame;             /* elements of net_put_first for clips whose first frame is given; 0: reads none */
	int without_first;               /* it was also trained without first frames */
};

struct router {
	/* logits (n, K): log p(k | x_t, t) up to a constant per row, 1 <= n <= capacity. */
	int (*logits)(void *arg, int64_t n, const float *x, const float *t, float *logits, struct err *e);
	void *arg;
	int64_t capacity;
	double flops; /* of one row */
};

#endif
