/* Heads of attention on the CPU: where their operands lie, and the softmax of their scores. For kernels/attention.c and attention_bf16.c. */
#ifndef DDM_KERNELS_ATTENTIONHEAD_H
#define DDM_KERNELS_ATTENTIONHEAD_H

#include "kernels/device.h"

#include "kernels/lanes.h"
#include "kernels/vmath.h"

/* Dimensions (B, T, heads, d) of an argument. */
enum { SAMPLE, TOKEN, HEAD, CHANNEL };

/* One operand of one head: element (token, channel) is at[token * ld + channel]. */
struct head {
	real *at;
	int64_t ld;
};

static inline struct head head_of(const struct array *a, int64_t b, int64_t h)
{
	return (struct head){(real *)a->data + b * a->stride[SAMPLE] + h * a->stride[HEAD], a->stride[TOKEN]};
}

/* The operands of one head in the gradient. */
struct grad_heads {
	int64_t b, h;
	struct head dy, q, key, v, o, dq, dk, dv;
};

static inline struct grad_heads grad_heads_of(const struct op_call *c, int64_t b, int64_t h)
{
	return (struct grad_heads){.b = b,
	                           .h = h,
	                           .dy = head_of(&c->in[0], b, h),
	                           .q = head_of(&c->in[1], b, h),
	                           .key = head_of(&c->in[2], b, h),
	                           .v = head_of(&c->in[3], b, h),
	                           .o = head_of(&c->in[4], b, h),
	                           .dq = head_of(&c->out[0], b, h),
	                           .dk = head_of(&c->out[1], b, h),
	                           .dv = head_of(&c->out[2], b, h)};
}

/* Heads whose rows are read soon, such as the operands of the next item while the current one is computed. hint_row prefetches row i of each, because
 * the hardware does not prefetch a head's strided rows. */
struct hint {
	int n;
	int64_t bytes;
	struct head at[8];
};

static inline void hint_row(const struct hint *t, int64_t i)
{
	for (int j = 0; j < t->n; j++) {
		const char *row = (const char *)(t->at[j].at + i * t->at[j].ld), *line = row - (uintptr_t)row % 64;

		for (; line < row + t->bytes; line += 64)
			__builtin_prefetch(line, 0, 2);
	}
}

/* p = exp(scale s - shift) in place; returns the sum. */
static inline real exp_row(real *p, real scale, real shift, int64_t n)
{
	lanes sum = {0}, v;
	real e[LANES];
	int64_t i = 0;

	for (; i + LANES <= n; i += LANES) {
		for (int j = 0; j < LANES; j++)
			e[j] = real_exp_down(REAL_FMA(p[i + j], scale, -shift));
		memcpy(p + i, e, sizeof e);
		memcpy(&v, e, sizeof v);
		sum += v;
	}
	if (i < n) {
		for (int64_t j = i; j < n; j++)
			p[j] = real_exp_down(REAL_FMA(p[j], scale, -shift));
		sum += lanes_load(p + i, n - i);
	}
	return lanes_fold(sum);
}

/* Turn the scores of m queries into unnormalized weights, in place; store the weights' sums and the logs of the softmax's denominators. Query i
 * attends to at most `seen` + i keys; the other weights are 0. */
static inline void softmax_rows(struct head p, real scale, int64_t m, int64_t n, int64_t seen, real *restrict sum, real *restrict lse,
                                const struct hint *next)
{
	for (int64_t i = 0; i < m; i++) {
		real *row = p.at + i * p.ld;
		int64_t keys = seen + i < n ? seen + i : n;

		hint_row(next, i);
		lse[i] = lanes_max(row, keys) * scale;
		sum[i] = exp_row(row, scale, lse[i], keys);
		for (int64_t s = keys; s < n; s++)
			row[s] = 0;
	}
	for (int64_t i = 0; i < m; i++)
		lse[i] += real_log(sum[i]);
	for (int64_t i = 0; i < m; i++)
		sum[i] = 1 / sum[i];
}

/* Scale the scores of m queries from `first` on, and add the bias (B, heads, T, S) of head (b, h). */
static inline void bias_rows(const struct array *bias, struct head p, real scale, int64_t b, int64_t h, int64_t first, int64_t m, int64_t n)
{
	for (int64_t i = 0; i < m; i++) {
		const real *add = (const real *)bias->data + b * bias->stride[0] + h * bias->stride[1] + (first + i) * bias->stride[2];
		real *row = p.at + i * p.ld;

		for (int64_t s = 0; s < n; s++)
			row[s] = REAL_FMA(row[s], scale, add[s]);
	}
}

#endif
