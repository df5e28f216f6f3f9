/* Attention and its gradient on the CUDA kernels, described for optest_twin. */
#ifndef DDM_TESTS_TWINATTENTION_H
#define DDM_TESTS_TWINATTENTION_H

#include <math.h>

#include "core/mem.h"
#include "tests/op/optest.h"

extern const struct kernel kernel_attention_cuda, kernel_attention_grad_cuda;

/* t queries and s keys of b samples, in `heads` heads of width d. */
static inline struct optest attention_test(int64_t b, int64_t t, int64_t s, int64_t heads, int64_t d, int causal)
{
	struct operand q = {.rank = 4, .shape = {b, t, heads, d}, .batch = 1}, k = {.rank = 4, .shape = {b, s, heads, d}, .batch = 1};

	return (struct optest){.name = "ATTENTION",
	                       .op = OP_ATTENTION,
	                       .attr.attention = {causal, 1 / sqrt((double)d)},
	                       .nin = 3,
	                       .nout = 2,
	                       .in = {q, k, k},
	                       .out = {q, {.rank = 3, .shape = {b, heads, t}, .exact = 1, .batch = 1}},
	                       .samples = 1};
}

/* The gradient of t, at t's own inputs and outputs, within tol of the largest value. */
static inline void attention_gradient(const struct optest *t, double tol)
{
	struct optest back = {.name = "ATTENTION_GRAD",
	                      .op = OP_ATTENTION_GRAD,
	                      .attr = t->attr,
	                      .nin = 6,
	                      .nout = 3,
	                      .in = {t->in[0], t->in[0], t->in[1], t->in[2], t->out[0], t->out[1]},
	                      .out = {t->in[0], t->in[1], t->in[2]},
	                      .tol16 = 0x1p-8,
	                      .samples = t->samples};
	double *in[OP_IN] = {0}, *out[OP_OUT] = {0};

	optest_values(t, in, out);
	for (int i = 0; i < 3; i++)
		back.in[1 + i].values = in[i];
	if (t->nin > 3) {
		back.nin = 7;
		back.in[6] = t->in[3];
		back.in[6].values = in[3];
	}
	back.in[4].values = out[0];
	back.in[5].values = out[1];
	/* The softmax of a single key is 1 whatever its score: dq and dk are differences of equal numbers of size 1, and may be rounding alone. */
	if (t->in[1].shape[1] == 1)
		back.terms[0] = back.terms[1] = 1;
	optest_twin(&back, &kernel_attention_grad_cuda, tol);
	for (int i = 0; i < t->nin; i++)
		mem_free(in[i]);
	mem_free(out[0]);
	mem_free(out[1]);
}

enum { MASK_KEYS = 150 };

/* A mask (samples, 1, 1, MASK_KEYS) over keys [from, to) of the first sample and over all keys of the second. */
static inline void attention_masked(int64_t samples, int64_t d, int64_t from, int64_t to, double tol)
{
	double mask[2 * MASK_KEYS];
	struct optest t = attention_test(samples, 40, MASK_KEYS, 2, d, 0);

	for (int64_t i = 0; i < samples * MASK_KEYS; i++)
		mask[i] = i >= MASK_KEYS || (i >= from && i < to) ? -10000 : 0;
	t.nin = 4;
	t.samples = 0;
	t.in[3] = (struct operand){.rank = 4, .shape = {samples, 2, 40, MASK_KEYS}, .bcast = 6, .values = mask, .batch = 1};
	optest_twin(&t, &kernel_attention_cuda, tol);
	attention_gradient(&t, 2 * tol);
}

/* Heads of width d with the mask behind, with more than a tile of it in front, with all keys but two masked, and with all of them. Where every
 * key is masked, what a score adds to -10000 is rounded to 2^-10, and so is the logarithm of the sum. */
static inline void attention_masks(int64_t d)
{
	attention_masked(1, d, 37, MASK_KEYS, 1e-5);
	attention_masked(1, d, 0, 70, 1e-5);
	attention_masked(1, d, 2, MASK_KEYS, 1e-5);
	attention_masked(2, d, 20, MASK_KEYS, 2e-3);
}

#endif
