/* tape: every gradient rule against central differences in double; plans, recomputation and batches bit for bit; a U-Net. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "net/net.h"
#include "tape/ops.h"
#include "tests/unit/trunknet.h"

enum { INPUTS = 4, CAPACITY = 2 };

static void fill(double *x, int64_t n, uint64_t stream)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = 2 * rng_uniform(11, RNG_TEST, stream, (uint64_t)i, 0) - 1;
}

/* One differentiable function of up to four inputs. */
struct check {
	const char *name;
	int inputs;
	struct {
		int rank;
		int64_t shape[ARRAY_RANK];
		int batched;
	} in[INPUTS];
	struct tensor *(*build)(struct tape *t, struct tensor **x);
};

static int64_t count(const struct tensor *x)
{
	int64_t n = 1;

	for (int d = 0; d < x->rank; d++)
		n *= x->shape[d];
	return n;
}

static double dot_run(struct tape *t, struct tensor *y, int forward, const double *dy)
{
	const double *v;
	double sum = 0;

	tape_run(t, CAPACITY, 0, forward);
	v = tape_data(t, y);
	for (int64_t i = 0; i < count(y); i++)
		sum += v[i] * dy[i];
	return sum;
}

/* Central differences with h = 1e-5 in double: truncation h^2 |f'''| / 6 and rounding 1e-16 |f| / h stay below 1e-8. */
static void check_gradients(const struct check *c)
{
	struct tape *t = tape_new(DT_F64, CAPACITY);
	struct device *d = device_cpu(NULL, DT_F64);
	struct tensor *x[INPUTS], *y, *seed;
	double *value[INPUTS], *dy;
	int forward;

	for (int i = 0; i < c->inputs; i++)
		x[i] = tape_input(t, DT_F64, c->in[i].rank, c->in[i].shape, TAPE_GRAD | (c->in[i].batched ? TAPE_BATCHED : 0));
	y = op_copy(t, c->build(t, x));
	tape_keep(t, y);
	forward = tape_mark(t);
	seed = tape_input(t, DT_F64, y->rank, y->shape, y->batched ? TAPE_BATCHED : 0);
	tape_backward(t, y, seed);
	tape_layout(t, d, &(struct plan_options){.poison = 1});
	assert_int_equal(tape_allocate(t, NULL), 0);
	for (int i = 0; i < c->inputs; i++) {
		value[i] = mem_alloc((size_t)count(x[i]) * sizeof(double));
		fill(value[i], count(x[i]), (uint64_t)i + 1);
		tape_bind(t, x[i], value[i]);
	}
	dy = mem_alloc((size_t)count(y) * sizeof *dy);
	fill(dy, count(y), 9);
	tape_bind(t, seed, dy);
	for (int i = 0; i < c->inputs; i++) {
		struct tensor *g = tape_grad(t, x[i]);
		double *got = mem_alloc((size_t)count(x[i]) * sizeof *got);
		struct tensor view = *x[i];

		assert_non_null(g);
		tape_run(t, CAPACITY, 0, tape_mark(t));
		for (int64_t k = 0; k < count(&view); k++) { /* the gradient may be strided */
			int64_t rest = k, at = 0;

			for (int dim = g->rank - 1; dim >= 0; dim--) {
				at += rest % g->shape[dim] * g->stride[dim];
				rest /= g->shape[dim];
			}
			got[k] = ((double *)tape_data(t, g))[at];
		}
		for (int64_t k = 0; k < count(x[i]); k++) {
			double was = value[i][k], up, down, want;

			value[i][k] = was + 1e-5;
			up = dot_run(t, y, forward, dy);
			value[i][k] = was - 1e-5;
			down = dot_run(t, y, forward, dy);
			value[i][k] = was;
			want = (up - down) / 2e-5;
			if (!(fabs(got[k] - want) <= 1e-7 * (1 + fabs(want))))
				fail_msg("%s: input %d, element %lld: gradient %.12g, difference %.12g", c->name, i, (long long)k, got[k], want);
		}
		mem_free(got);
	}
	for (int i = 0; i < c->inputs; i++)
		mem_free(value[i]);
	mem_free(dy);
	tape_free(t);
	device_free(d);
}

/* clang-format off */
#define RULE(fn, ...)                                                   \
	static struct tensor *fn(struct tape *t, struct tensor **x)      \
	{                                                                \
		__VA_ARGS__                                              \
	}
/* clang-format on */

RULE(b_reshape, int64_t s[2] = {2, 12}; return op_unary(t, op_reshape(t, x[0], 2, s), UNARY_SQUARE);)
RULE(b_permute, int o[3] = {0, 2, 1}; return op_unary(t, op_copy(t, op_permute(t, x[0], o)), UNARY_SQUARE);)
RULE(b_permute_reshape, int o[3] = {0, 2, 1}; int64_t s[2] = {2, 12}; return op_unary(t, op_reshape(t, op_permute(t, x[0], o), 2, s), UNARY_TANH);)
RULE(b_expand, int64_t s[3] = {2, 4, 3}; return op_unary(t, op_copy(t, op_expand(t, x[0], s)), UNARY_SQUARE);)
RULE(b_repeat, return op_unary(t, op_copy(t, op_repeat(t, x[0])), UNARY_SQUARE);)
RULE(b_slice, return op_unary(t, op_slice(t, x[0], 1, 1, 2), UNARY_SQUARE);)
RULE(b_slices_overlap, return op_mul(t, op_slice(t, x[0], 1, 0, 3), op_slice(t, x[0], 1, 1, 3));)
RULE(b_unstack, struct tensor *p[4]; op_unstack(t, x[0], 1, p); return op_mul(t, p[0], op_unary(t, p[2], UNARY_TANH));)
RULE(b_unstack_all, struct tensor *p[4]; op_unstack(t, x[0], 1, p);
     return op_add(t, op_mul(t, p[0], p[1]), op_mul(t, op_unary(t, p[2], UNARY_SILU), op_unary(t, p[3], UNARY_EXP)));)
RULE(b_concat, struct tensor *p[2] = {x[0], op_unary(t, x[1], UNARY_SILU)}; return op_unary(t, op_concat(t, 1, 2, p), UNARY_SQUARE);)
RULE(b_add, return op_axpby(t, 2, x[0], -3, x[1]);)
RULE(b_add_twice, return op_add(t, op_mul(t, x[0], x[0]), x[0]);)
RULE(b_mul, return op_mul(t, x[0], x[1]);)
RULE(b_scale, return op_scale(t, op_unary(t, x[0], UNARY_SQUARE), -1.5);)
RULE(b_sum, int64_t s[3] = {2, 1, 3}; return op_unary(t, op_sum(t, x[0], s, .5), UNARY_SQUARE);)
RULE(b_sum_last, int64_t s[3] = {2, 4, 1}; return op_unary(t, op_sum(t, x[0], s, 2), UNARY_SQUARE);)
RULE(b_silu, return op_unary(t, x[0], UNARY_SILU);)
RULE(b_gelu, return op_unary(t, x[0], UNARY_GELU_TANH);)
RULE(b_gelu_erf, return op_unary(t, x[0], UNARY_GELU_ERF);)
RULE(b_tanh, return op_unary(t, x[0], UNARY_TANH);)
RULE(b_sigmoid, return op_unary(t, x[0], UNARY_SIGMOID);)
RULE(b_exp, return op_unary(t, x[0], UNARY_EXP);)
RULE(b_linear, return op_linear(t, x[0], x[1], x[2]);)
RULE(b_linear_plain, return op_linear(t, x[0], x[1], NULL);)
RULE(b_linear_act, return op_linear_act(t, x[0], x[1], x[2], UNARY_GELU_TANH);)
RULE(b_linear_silu, return op_linear_act(t, x[0], x[1], x[2], UNARY_SILU);)
RULE(b_matmul_nn, return op_matmul(t, x[0], 0, x[1], 0, .7);)
RULE(b_matmul_nt, return op_matmul(t, x[0], 0, x[1], 1, .7);)
RULE(b_matmul_tn, return op_matmul(t, x[0], 1, x[1], 0, .7);)
RULE(b_matmul_tt, return op_matmul(t, x[0], 1, x[1], 1, .7);)
RULE(b_norm, return op_norm(t, x[0], NULL, NULL, NORM_LAYER, 1e-3, 0);)
RULE(b_norm_affine, return op_norm(t, x[0], x[1], x[2], NORM_LAYER, 1e-3, 0);)
RULE(b_norm_modulate, return op_norm(t, x[0], x[1], x[2], NORM_LAYER, 1e-3, 1);)
RULE(b_norm_rms, return op_norm(t, x[0], x[1], NULL, NORM_RMS, 1e-3, 1);)
RULE(b_norm_residual, return op_add(t, op_norm(t, x[0], x[1], x[2], NORM_LAYER, 1e-3, 1), op_unary(t, x[0], UNARY_SQUARE));)
RULE(b_gate, return op_gate(t, x[0], x[1], x[2]);)
RULE(b_gate_self, return op_gate(t, x[0], x[1], op_unary(t, x[0], UNARY_TANH));)
RULE(b_attention, return op_attention(t, x[0], x[1], x[2], .6, 0);)
RULE(b_attention_causal, return op_attention(t, x[0], x[0], x[1], .6, 1);)
RULE(b_attention_packed, int64_t s[5] = {2, 3, 3, 2, 4}; struct tensor * p[3]; op_unstack(t, op_reshape(t, x[0], 5, s), 2, p);
     return op_attention(t, p[0], p[1], p[2], .5, 0);)
RULE(b_softmax, return op_softmax(t, x[0]);)
RULE(b_mse, return op_mse(t, x[0], x[1], NULL);)
RULE(b_conv, return op_conv(t, x[0], x[1], x[2], NULL, 1, ((struct padding){1, 1, 1, 1}), 0);)
RULE(b_conv_plain, return op_conv(t, x[0], x[1], NULL, NULL, 2, ((struct padding){0, 0, 1, 1}), 0);)
RULE(b_conv_act, return op_conv(t, x[0], x[1], x[2], x[3], 1, ((struct padding){1, 1, 1, 1}), UNARY_SILU + 1);)
RULE(b_conv_residual, struct tensor *h = op_unary(t, x[0], UNARY_TANH);
     return op_conv(t, h, x[1], x[2], h, 1, ((struct padding){1, 1, 1, 1}), UNARY_GELU_TANH + 1);)
RULE(b_conv_strided, return op_conv(t, op_slice(t, x[0], 3, 1, 2), x[1], NULL, NULL, 1, ((struct padding){1, 0, 1, 2}), 0);)
RULE(b_groupnorm, return op_groupnorm(t, x[0], x[1], x[2], 2, 1e-3, UNARY_SILU + 1);)
RULE(b_groupnorm_plain, return op_groupnorm(t, x[0], NULL, NULL, 3, 1e-3, 0);)
RULE(b_pool_max, return op_unary(t, op_pool(t, x[0], POOL_MAX, 3, 2, 1, 1), UNARY_SQUARE);)
RULE(b_pool_average, return op_unary(t, op_pool(t, x[0], POOL_AVERAGE, 3, 1, 1, 0), UNARY_SQUARE);)
RULE(b_twice, return op_unary(t, op_upsample_nearest(t, x[0]), UNARY_SQUARE);)
RULE(b_dropout, return op_dropout(t, x[0], .4);)
RULE(b_qsample, return op_qsample(t, x[0], x[1], x[2], x[3]);)
RULE(b_linear_bias_view, return op_linear(t, x[0], x[1], op_reshape(t, op_slice(t, x[1], 1, 0, 1), 1, x[1]->shape));)
RULE(b_norm_column, return op_norm(t, x[0], x[1], x[2], NORM_LAYER, 1e-3, 1);)
/* A slice and its addend have the same gradient: it is stored in the slice's memory, where other nodes read it. */
RULE(b_shared_kept, return op_unary(t, op_add(t, op_slice(t, op_unary(t, x[0], UNARY_TANH), 0, 1, 2), x[1]), UNARY_SQUARE);)
RULE(b_shared_read, struct tensor *s = op_slice(t, op_unary(t, x[0], UNARY_TANH), 1, 1, 4);
     return op_unary(t, op_add(t, s, op_linear(t, x[1], x[2], NULL)), UNARY_SQUARE);)
RULE(b_shared_view, struct tensor *s = op_slice(t, op_unary(t, x[0], UNARY_TANH), 1, 1, 2);
     return op_unary(t, op_add(t, s, op_reshape(t, x[1], 3, s->shape)), UNARY_SQUARE);)
RULE(b_modulated_chunks, int64_t s[4] = {2, 3, 1, 3}; struct tensor * m[3]; op_unstack(t, op_reshape(t, op_linear(t, x[1], x[2], NULL), 4, s), 1, m);
     return op_gate(t, x[0], m[2], op_norm(t, x[0], m[1], m[0], NORM_LAYER, 1e-3, 1));)

static void gradients(void **state)
{
	static const struct check checks[] = {
	    {"reshape", 1, {{3, {2, 4, 3}, 1}}, b_reshape},
	    {"permute", 1, {{3, {2, 4, 3}, 1}}, b_permute},
	    {"permute, reshape", 1, {{3, {2, 4, 3}, 1}}, b_permute_reshape},
	    {"expand", 1, {{3, {2, 1, 3}, 1}}, b_expand},
	    {"repeat", 1, {{3, {1, 4, 3}, 0}}, b_repeat},
	    {"slice", 1, {{3, {2, 4, 3}, 1}}, b_slice},
	    {"slices that overlap", 1, {{3, {2, 4, 3}, 1}}, b_slices_overlap},
	    {"unstack, some", 1, {{3, {2, 4, 3}, 1}}, b_unstack},
	    {"unstack, all", 1, {{3, {2, 4, 3}, 1}}, b_unstack_all},
	    {"concat", 2, {{3, {2, 4, 3}, 1}, {3, {2, 2, 3}, 1}}, b_concat},
	    {"add", 2, {{3, {2, 4, 3}, 1}, {3, {2, 4, 3}, 1}}, b_add},
	    {"add, row", 2, {{3, {2, 4, 3}, 1}, {1, {3}, 0}}, b_add},
	    {"add, middle", 2, {{3, {2, 4, 3}, 1}, {3, {2, 1, 3}, 1}}, b_add},
	    {"add, column", 2, {{3, {2, 4, 3}, 1}, {3, {2, 4, 1}, 1}}, b_add},
	    {"add, twice the same", 1, {{2, {2, 5}, 1}}, b_add_twice},
	    {"mul", 2, {{3, {2, 4, 3}, 1}, {3, {2, 4, 3}, 1}}, b_mul},
	    {"mul, table", 2, {{3, {2, 4, 3}, 1}, {2, {4, 3}, 0}}, b_mul},
	    {"scale", 1, {{2, {2, 5}, 1}}, b_scale},
	    {"sum, middle", 1, {{3, {2, 4, 3}, 1}}, b_sum},
	    {"sum, last", 1, {{3, {2, 4, 3}, 1}}, b_sum_last},
	    {"silu", 1, {{2, {2, 7}, 1}}, b_silu},
	    {"gelu tanh", 1, {{2, {2, 7}, 1}}, b_gelu},
	    {"gelu erf", 1, {{2, {2, 7}, 1}}, b_gelu_erf},
	    {"tanh", 1, {{2, {2, 7}, 1}}, b_tanh},
	    {"sigmoid", 1, {{2, {2, 7}, 1}}, b_sigmoid},
	    {"exp", 1, {{2, {2, 7}, 1}}, b_exp},
	    {"linear", 3, {{3, {2, 3, 5}, 1}, {2, {4, 5}, 0}, {1, {4}, 0}}, b_linear},
	    {"linear, no bias", 2, {{2, {2, 5}, 1}, {2, {4, 5}, 0}}, b_linear_plain},
	    {"linear, one column", 3, {{3, {2, 3, 1}, 1}, {2, {1, 1}, 0}, {1, {1}, 0}}, b_linear},
	    {"linear + gelu", 3, {{3, {2, 3, 5}, 1}, {2, {4, 5}, 0}, {1, {4}, 0}}, b_linear_act},
	    {"linear + silu", 3, {{2, {2, 5}, 1}, {2, {4, 5}, 0}, {1, {4}, 0}}, b_linear_silu},
	    {"matmul nn", 2, {{3, {2, 3, 4}, 1}, {3, {2, 4, 5}, 1}}, b_matmul_nn},
	    {"matmul nt", 2, {{3, {2, 3, 4}, 1}, {3, {2, 5, 4}, 1}}, b_matmul_nt},
	    {"matmul tn", 2, {{3, {2, 4, 3}, 1}, {3, {2, 4, 5}, 1}}, b_matmul_tn},
	    {"matmul tt", 2, {{3, {2, 4, 3}, 1}, {3, {2, 5, 4}, 1}}, b_matmul_tt},
	    {"norm", 1, {{3, {2, 3, 6}, 1}}, b_norm},
	    {"norm, affine", 3, {{3, {2, 3, 6}, 1}, {1, {6}, 0}, {1, {6}, 0}}, b_norm_affine},
	    {"norm, modulate", 3, {{3, {2, 3, 6}, 1}, {3, {2, 1, 6}, 1}, {3, {2, 1, 6}, 1}}, b_norm_modulate},
	    {"norm, rms", 2, {{3, {2, 3, 6}, 1}, {1, {6}, 0}}, b_norm_rms},
	    {"norm with residual", 3, {{3, {2, 3, 6}, 1}, {3, {2, 1, 6}, 1}, {3, {2, 1, 6}, 1}}, b_norm_residual},
	    {"gate", 3, {{3, {2, 3, 6}, 1}, {3, {2, 1, 6}, 1}, {3, {2, 3, 6}, 1}}, b_gate},
	    {"gate, self", 2, {{3, {2, 3, 6}, 1}, {1, {6}, 0}}, b_gate_self},
	    {"attention", 3, {{4, {2, 3, 2, 4}, 1}, {4, {2, 5, 2, 4}, 1}, {4, {2, 5, 2, 4}, 1}}, b_attention},
	    {"attention, causal", 2, {{4, {2, 4, 2, 3}, 1}, {4, {2, 4, 2, 3}, 1}}, b_attention_causal},
	    {"attention, packed", 1, {{3, {2, 3, 24}, 1}}, b_attention_packed},
	    {"softmax", 1, {{3, {2, 3, 5}, 1}}, b_softmax},
	    {"mse", 2, {{3, {2, 3, 5}, 1}, {3, {2, 3, 5}, 1}}, b_mse},
	    {"conv", 3, {{4, {2, 4, 5, 3}, 1}, {4, {2, 3, 3, 3}, 0}, {1, {2}, 0}}, b_conv},
	    {"conv, no bias, stride 2", 2, {{4, {2, 4, 5, 3}, 1}, {4, {2, 3, 3, 3}, 0}}, b_conv_plain},
	    {"conv + add + silu", 4, {{4, {2, 4, 3, 3}, 1}, {4, {2, 3, 3, 3}, 0}, {1, {2}, 0}, {4, {2, 4, 3, 2}, 1}}, b_conv_act},
	    {"conv + its input + gelu", 3, {{4, {2, 3, 3, 3}, 1}, {4, {3, 3, 3, 3}, 0}, {1, {3}, 0}}, b_conv_residual},
	    {"conv of some channels", 2, {{4, {2, 3, 4, 4}, 1}, {4, {2, 3, 3, 2}, 0}}, b_conv_strided},
	    {"group norm + silu", 3, {{4, {2, 3, 3, 4}, 1}, {1, {4}, 0}, {1, {4}, 0}}, b_groupnorm},
	    {"group norm", 1, {{3, {2, 5, 6}, 1}}, b_groupnorm_plain},
	    {"pool, largest", 1, {{4, {2, 4, 5, 2}, 1}}, b_pool_max},
	    {"pool, average", 1, {{4, {2, 4, 5, 2}, 1}}, b_pool_average},
	    {"twice", 1, {{4, {2, 2, 3, 2}, 1}}, b_twice},
	    {"dropout", 1, {{2, {2, 9}, 1}}, b_dropout},
	    {"qsample", 4, {{3, {2, 3, 2}, 1}, {3, {2, 3, 2}, 1}, {1, {2}, 1}, {1, {2}, 1}}, b_qsample},
	    {"linear, bias a column of the weights", 2, {{3, {2, 3, 5}, 1}, {2, {4, 5}, 0}}, b_linear_bias_view},
	    {"matmul, over the batch", 2, {{2, {2, 4}, 1}, {2, {2, 3}, 1}}, b_matmul_tn},
	    {"matmul, table", 2, {{2, {2, 4}, 1}, {2, {4, 3}, 0}}, b_matmul_nn},
	    {"norm, one scale for a row", 3, {{3, {2, 3, 6}, 1}, {3, {2, 1, 1}, 1}, {2, {3, 1}, 0}}, b_norm_column},
	    {"shared gradient, kept", 2, {{2, {4, 3}, 0}, {2, {2, 3}, 0}}, b_shared_kept},
	    {"shared gradient, read", 3, {{3, {2, 6, 4}, 1}, {3, {2, 4, 3}, 1}, {2, {4, 3}, 0}}, b_shared_read},
	    {"shared gradient, viewed", 2, {{3, {2, 4, 3}, 1}, {2, {2, 6}, 1}}, b_shared_view},
	    {"modulation chunks", 3, {{3, {2, 4, 3}, 1}, {2, {2, 5}, 1}, {2, {9, 5}, 0}}, b_modulated_chunks},
	};

	(void)state;
	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
		check_gradients(&checks[i]);
}

/* A network with double parameters and loss = sum(dy * y): gradients of parameters against differences at scattered elements. */
struct whole {
	struct tape *t;
	struct device *d;
	struct params p;
	struct tensor *x, *time, *label, *text, *mask, *micro, *y, *dy;
	double *values, *grads, *data[6];
	int32_t labels[CAPACITY];
	int forward;
};

static void whole_start(struct whole *w, const int64_t *shape, int classes)
{
	memset(w, 0, sizeof *w);
	w->t = tape_new(DT_F64, CAPACITY);
	w->d = device_cpu(NULL, DT_F64);
	w->x = tape_input(w->t, DT_F64, 4, shape, TAPE_BATCHED);
	w->time = tape_input(w->t, DT_F64, 1, shape, TAPE_BATCHED);
	if (classes)
		w->label = tape_input(w->t, DT_I32, 1, shape, TAPE_BATCHED);
}

static double *whole_bind(struct whole *w, struct tensor *x, uint64_t stream)
{
	double *v = mem_alloc((size_t)count(x) * sizeof *v);

	fill(v, count(x), stream);
	tape_bind(w->t, x, v);
	return v;
}

static void whole_check(struct whole *w, struct tensor *y, int recompute)
{
	int64_t tried = 0;

	w->y = op_copy(w->t, y);
	tape_keep(w->t, w->y);
	w->forward = tape_mark(w->t);
	w->dy = tape_input(w->t, DT_F64, w->y->rank, w->y->shape, TAPE_BATCHED);
	tape_recompute(w->t, recompute);
	tape_backward(w->t, w->y, w->dy);
	params_layout(&w->p);
	tape_layout(w->t, w->d, &(struct plan_options){.poison = 1});
	assert_int_equal(tape_allocate(w->t, NULL), 0);
	w->data[0] = whole_bind(w, w->x, 1);
	w->data[1] = whole_bind(w, w->time, 2);
	w->data[2] = whole_bind(w, w->dy, 3);
	if (w->text)
		w->data[3] = whole_bind(w, w->text, 5);
	if (w->mask)
		w->data[4] = whole_bind(w, w->mask, 6);
	if (w->micro)
		w->data[5] = whole_bind(w, w->micro, 7);
	if (w->label) {
		w->labels[0] = 2;
		tape_bind(w->t, w->label, w->labels);
	}
	w->values = mem_zalloc((size_t)w->p.total, sizeof(double));
	w->grads = mem_zalloc((size_t)w->p.trainable, sizeof(double));
	fill(w->values, w->p.total, 4);
	for (int64_t i = 0; i < w->p.total; i++)
		w->values[i] *= .3;
	tape_bind_params(w->t, w->values, w->grads);
	tape_run(w->t, CAPACITY, 0, tape_mark(w->t));
	for (int i = 0; i < w->p.n; i++) {
		const struct param *q = &w->p.v[i];

		for (int64_t k = 0; k < q->count && !(q->flags & PARAM_FROZEN); k += 1 + q->count / 5) {
			double *v = &w->values[q->offset + k], was = *v, up, down, want, got = w->grads[q->offset + k];

			*v = was + 1e-5;
			up = dot_run(w->t, w->y, w->forward, w->data[2]);
			*v = was - 1e-5;
			down = dot_run(w->t, w->y, w->forward, w->data[2]);
			*v = was;
			want = (up - down) / 2e-5;
			tried++;
			if (!(fabs(got - want) <= 2e-6 * (1 + fabs(want))))
				fail_msg("%s, element %lld: gradient %.12g, difference %.12g", q->name, (long long)k, got, want);
		}
	}
	assert_true(tried > 50);
	for (int i = 0; i < 6; i++)
		mem_free(w->data[i]);
	mem_free(w->values);
	mem_free(w->grads);
	tape_free(w->t);
	device_free(w->d);
	params_release(&w->p);
}

static void dit_gradient(void **state)
{
	struct net_config c = trunk_net(
	    (struct net_config){.def = &net_dit, .channels = 2, .out_channels = 2, .size = 4, .classes = 3, .class_dropout = .1, .time_scale = 10},
	    (struct trunk_config){.patch = 2, .hidden = 8, .depth = 2, .heads = 2, .mlp_ratio = 4});
	int64_t shape[4] = {CAPACITY, 2, 4, 4};
	struct whole w;

	(void)state;
	for (int recompute = 0; recompute < 2; recompute++) {
		whole_start(&w, shape, 1);
		whole_check(&w, net_record(w.t, &w.p, &c, &(struct net_input){.x = w.x, .time = w.time, .label = w.label}), recompute);
	}
}

static void router_gradient(void **state)
{
	struct net_config c = trunk_net((struct net_config){.def = &net_router, .channels = 3, .size = 6, .clusters = 5, .time_scale = 10},
	                                (struct trunk_config){.patch = 3, .hidden = 8, .depth = 2, .heads = 2, .mlp_ratio = 2});
	int64_t shape[4] = {CAPACITY, 3, 6, 6};
	struct whole w;

	(void)state;
	whole_start(&w, shape, 0);
	whole_check(&w, net_record(w.t, &w.p, &c, &(struct net_input){.x = w.x, .time = w.time}), 1);
}

static void text_gradient(void **state)
{
	struct net_config paris = trunk_net(
	    (struct net_config){.def = &net_paris, .channels = 2, .out_channels = 2, .size = 4, .time_scale = 10, .text_tokens = 3, .text_width = 5},
	    (struct trunk_config){.patch = 2, .hidden = 8, .depth = 2, .heads = 2, .mlp_ratio = 4, .norm_eps = 1e-5, .learned_positions = 1});
	struct net_config pixart = trunk_net(
	    (struct net_config){.def = &net_pixart, .channels = 2, .out_channels = 4, .size = 6, .time_scale = 10, .text_tokens = 4, .text_width = 6},
	    (struct trunk_config){.patch = 3, .hidden = 12, .depth = 1, .heads = 3, .mlp_ratio = 2, .micro = 1});

	(void)state;
	for (int i = 0; i < 4; i++) {
		const struct net_config *c = i < 2 ? &paris : &pixart;
		struct whole w = {.t = tape_new(DT_F64, CAPACITY), .d = device_cpu(NULL, DT_F64)};
		struct net_input in = {0};

		net_inputs(w.t, c, &in);
		w.x = in.x;
		w.time = in.time;
		w.text = in.text;
		w.mask = in.mask;
		w.micro = in.micro;
		whole_check(&w, net_record(w.t, &w.p, c, &in), i % 2);
	}
}

/* A small U-Net, channels last. */
struct unet {
	struct tape *t;
	struct params *p;
};

static const struct init small = {.kind = INIT_NORMAL, .a = .1};

static struct tensor *conv(struct unet *u, struct tensor *x, const char *name, int64_t out, int64_t k, struct tensor *add)
{
	char full[128];
	int64_t w[4] = {out, k, k, x->shape[3]};
	struct tensor *weight, *bias;

	snprintf(full, sizeof full, "%.100s.weight", name);
	weight = tape_param(u->t, u->p, full, 4, w, PARAM_DECAY, small);
	snprintf(full, sizeof full, "%.100s.bias", name);
	bias = tape_param(u->t, u->p, full, 1, w, 0, small);
	return op_conv(u->t, x, weight, bias, add, 1, (struct padding){k / 2, k / 2, k / 2, k / 2}, 0);
}

static struct tensor *group_norm(struct unet *u, struct tensor *x, const char *name, int64_t groups)
{
	char full[128];
	struct tensor *w, *b;

	snprintf(full, sizeof full, "%.100s.weight", name);
	w = tape_param(u->t, u->p, full, 1, &x->shape[3], 0, (struct init){.kind = INIT_ONE});
	snprintf(full, sizeof full, "%.100s.bias", name);
	b = tape_param(u->t, u->p, full, 1, &x->shape[3], 0, small);
	return op_groupnorm(u->t, x, w, b, groups, 1e-3, UNARY_SILU + 1);
}

static struct tensor *res_block(struct unet *u, struct tensor *x, const char *name, int64_t out)
{
	char full[128];
	struct tensor *h;

	snprintf(full, sizeof full, "%.60s.norm", name);
	h = group_norm(u, x, full, 2);
	snprintf(full, sizeof full, "%.60s.skip", name);
	if (x->shape[3] != out)
		x = conv(u, x, full, out, 1, NULL);
	snprintf(full, sizeof full, "%.60s.conv", name);
	return conv(u, h, full, out, 3, x);
}

static void unet_gradient(void **state)
{
	int64_t shape[4] = {CAPACITY, 8, 4, 2};
	struct whole w;
	struct unet u;
	struct tensor *a, *b, *c, *skip[2];

	(void)state;
	whole_start(&w, shape, 0);
	u = (struct unet){w.t, &w.p};
	a = res_block(&u, conv(&u, w.x, "in", 4, 3, NULL), "down1", 4);
	b = res_block(&u, op_pool(w.t, a, POOL_AVERAGE, 2, 2, 0, 0), "down2", 6);
	c = res_block(&u, op_pool(w.t, b, POOL_MAX, 2, 2, 0, 0), "mid", 6);
	skip[0] = op_upsample_nearest(w.t, c);
	skip[1] = b;
	c = res_block(&u, op_concat(w.t, 3, 2, skip), "up2", 4);
	skip[0] = op_upsample_nearest(w.t, c);
	skip[1] = a;
	c = res_block(&u, op_concat(w.t, 3, 2, skip), "up1", 4);
	whole_check(&w, conv(&u, c, "out", 2, 3, NULL), 0);
}

/* One float DiT under several plans: all bits must agree. */
struct plan_case {
	int no_reuse, poison;
	enum recompute recompute;
	int threads;
	int64_t n;
};

static void run_plan(const struct plan_case *c, float **grads, float **out, int64_t *ngrads, int64_t *nout, int64_t *arena)
{
	struct net_config net = trunk_net((struct net_config){.def = &net_dit, .channels = 3, .out_channels = 3, .size = 8, .time_scale = 1000},
	                                  (struct trunk_config){.patch = 2, .hidden = 32, .depth = 3, .heads = 4, .mlp_ratio = 4});
	int64_t shape[4] = {4, 3, 8, 8};
	struct tape *t = tape_new(DT_F32, 4);
	struct pool *pool = pool_new(c->threads, NULL);
	struct device *d = device_cpu(pool, DT_F32);
	struct params p = {0};
	struct tensor *x = tape_input(t, DT_F32, 4, shape, TAPE_BATCHED), *time = tape_input(t, DT_F32, 1, shape, TAPE_BATCHED), *y, *dy;
	float *values, data[4 * 192], seed[4 * 192], times[4] = {.1f, .4f, .7f, .95f};

	y = net_record(t, &p, &net, &(struct net_input){.x = x, .time = time});
	tape_keep(t, y);
	dy = tape_input(t, DT_F32, 4, shape, TAPE_BATCHED);
	tape_recompute(t, c->recompute);
	tape_backward(t, y, dy);
	params_layout(&p);
	tape_layout(t, d, &(struct plan_options){.no_reuse = c->no_reuse, .poison = c->poison});
	*arena = tape_arena_bytes(t);
	assert_int_equal(tape_allocate(t, NULL), 0);
	values = mem_zalloc((size_t)p.total, sizeof *values);
	*grads = mem_zalloc((size_t)p.trainable, sizeof **grads);
	*ngrads = p.trainable;
	rng_normal(values, (size_t)p.total, 5, RNG_TEST, 0, 0);
	for (int64_t i = 0; i < p.total; i++)
		values[i] *= .1f;
	rng_normal(data, 768, 5, RNG_TEST, 0, 1);
	rng_normal(seed, 768, 5, RNG_TEST, 0, 2);
	tape_bind(t, x, data);
	tape_bind(t, time, times);
	tape_bind(t, dy, seed);
	tape_bind_params(t, values, *grads);
	tape_run(t, c->n, 0, tape_mark(t));
	*nout = 192 * c->n;
	*out = mem_alloc((size_t)*nout * sizeof **out);
	memcpy(*out, tape_data(t, y), (size_t)*nout * sizeof **out);
	mem_free(values);
	tape_free(t);
	device_free(d);
	pool_free(pool);
	params_release(&p);
}

static void plans_agree(void **state)
{
	static const struct plan_case cases[] = {
	    {1, 0, RECOMPUTE_NONE, 1, 4},   {1, 1, RECOMPUTE_NONE, 1, 4},  {0, 0, RECOMPUTE_NONE, 1, 4},  {0, 1, RECOMPUTE_NONE, 1, 4},
	    {0, 0, RECOMPUTE_BLOCKS, 1, 4}, {0, 0, RECOMPUTE_ACTS, 1, 4},  {0, 0, RECOMPUTE_NORMS, 1, 4}, {0, 1, RECOMPUTE_BLOCKS, 1, 4},
	    {0, 1, RECOMPUTE_ACTS, 1, 4},   {0, 1, RECOMPUTE_NORMS, 2, 4}, {0, 0, RECOMPUTE_NONE, 3, 4},  {0, 1, RECOMPUTE_BLOCKS, 2, 4},
	};
	float *g0, *y0;
	int64_t ng, ny, arena0, arena[sizeof cases / sizeof *cases];

	(void)state;
	run_plan(&cases[0], &g0, &y0, &ng, &ny, &arena0);
	for (int64_t i = 0; i < ng; i++)
		assert_true(isfinite(g0[i]));
	for (size_t i = 1; i < sizeof cases / sizeof *cases; i++) {
		float *g, *y;
		int64_t n, m;

		run_plan(&cases[i], &g, &y, &n, &m, &arena[i]);
		assert_memory_equal(g, g0, (size_t)ng * sizeof *g);
		assert_memory_equal(y, y0, (size_t)ny * sizeof *y);
		mem_free(g);
		mem_free(y);
	}
	assert_true(arena[2] < arena0 * 6 / 10);   /* reuse pays */
	assert_true(arena[4] < arena[2] * 8 / 10); /* so does recomputation */
	assert_true(arena[4] < arena[5] && arena[5] < arena[6] && arena[6] < arena[2]);
	mem_free(g0);
	mem_free(y0);
}

/* A smaller batch under the same plan: the outputs of its samples keep their bits. */
static void batch_is_a_run_time_value(void **state)
{
	struct plan_case c = {0, 1, 0, 2, 4};
	float *g, *y, *g4, *y4;
	int64_t ng, ny, arena;

	(void)state;
	run_plan(&c, &g4, &y4, &ng, &ny, &arena);
	for (c.n = 1; c.n < 4; c.n++) {
		run_plan(&c, &g, &y, &ng, &ny, &arena);
		assert_memory_equal(y, y4, (size_t)ny * sizeof *y);
		mem_free(g);
		mem_free(y);
	}
	mem_free(g4);
	mem_free(y4);
}

/* A parameter recorded twice under one name gets the sum of both gradients; one that is not used gets zero. */
static void tied_and_unused(void **state)
{
	struct tape *t = tape_new(DT_F64, 1);
	struct device *d = device_cpu(NULL, DT_F64);
	struct params p = {0};
	int64_t one = 1, shape[2] = {1, 1};
	double x0 = 3, dy0 = 1, values[64] = {0}, grads[64];
	struct tensor *x = tape_input(t, DT_F64, 2, shape, TAPE_BATCHED), *w, *y, *dy;

	(void)state;
	w = tape_param(t, &p, "w", 2, shape, 0, small);
	tape_param(t, &p, "unused", 1, &one, 0, small);
	y = op_mul(t, op_linear(t, x, w, NULL), tape_param(t, &p, "w", 2, shape, 0, small));
	tape_keep(t, y);
	dy = tape_input(t, DT_F64, 2, shape, TAPE_BATCHED);
	tape_backward(t, y, dy);
	params_layout(&p);
	assert_int_equal(p.n, 2);
	tape_layout(t, d, NULL);
	assert_int_equal(tape_allocate(t, NULL), 0);
	tape_bind(t, x, &x0);
	tape_bind(t, dy, &dy0);
	values[p.v[0].offset] = 5;
	memset(grads, 0xff, sizeof grads);
	tape_bind_params(t, values, grads);
	tape_run(t, 1, 0, tape_mark(t));
	assert_true(*(double *)tape_data(t, y) == 75);
	assert_true(grads[p.v[0].offset] == 30);
	assert_true(grads[p.v[1].offset] == 0);
	tape_free(t);
	device_free(d);
	params_release(&p);
}

/* With a capacity of 1 a batch and a table can have the same shape; joined tables still get gradients of tables. */
static void capacity_of_one(void **state)
{
	static const int64_t shape[2] = {1, 3}, both[2] = {1, 6};
	static const int swap[2] = {1, 0};
	struct tape *t = tape_new(DT_F64, 1);
	struct device *d = device_cpu(NULL, DT_F64);
	double x0[6] = {1, 2, 3, 4, 5, 6}, row[6] = {1, 1, 1, 1, 1, 1}, dy0[6] = {7, 8, 9, 10, 11, 12};
	struct tensor *x = tape_input(t, DT_F64, 2, both, TAPE_BATCHED), *in[2], *a[2], *y, *dy;

	(void)state;
	for (int i = 0; i < 2; i++) {
		in[i] = tape_input(t, DT_F64, 2, shape, TAPE_GRAD);
		a[i] = op_permute(t, in[i], swap);
	}
	y = op_add(t, x, op_reshape(t, op_concat(t, 0, 2, a), 2, both));
	tape_keep(t, y);
	dy = tape_input(t, DT_F64, 2, both, TAPE_BATCHED);
	tape_backward(t, y, dy);
	tape_layout(t, d, NULL);
	assert_int_equal(tape_allocate(t, NULL), 0);
	tape_bind(t, x, x0);
	tape_bind(t, dy, dy0);
	for (int i = 0; i < 2; i++)
		tape_bind(t, in[i], row + 3 * i);
	tape_run(t, 1, 0, tape_mark(t));
	for (int i = 0; i < 2; i++)
		assert_memory_equal(tape_data(t, tape_grad(t, in[i])), dy0 + 3 * i, 3 * sizeof *dy0);
	tape_free(t);
	device_free(d);
}

/* The pre-activation is needed only for the gradient; without gradients it takes no memory. */
static void unread_outputs(void **state)
{
	enum { B = 4, K = 16, N = 32 };
	static const int64_t shape[2] = {B, K}, matrix[2] = {N, K}, result[2] = {B, N};

	(void)state;
	for (int backward = 0; backward < 2; backward++) {
		struct tape *t = tape_new(DT_F32, B);
		struct device *d = device_cpu(NULL, DT_F32);
		struct params p = {0};
		struct tensor *x = tape_input(t, DT_F32, 2, shape, TAPE_BATCHED), *y;

		y = op_linear_act(t, x, tape_param(t, &p, "w", 2, matrix, 0, small), NULL, UNARY_GELU_TANH);
		tape_keep(t, y);
		if (backward)
			tape_backward(t, y, tape_input(t, DT_F32, 2, result, TAPE_BATCHED));
		params_layout(&p);
		tape_layout(t, d, NULL);
		if (backward)
			assert_true(tape_arena_bytes(t) >= 2 * B * N * (int64_t)sizeof(float));
		else
			assert_int_equal(tape_arena_bytes(t), B * N * sizeof(float));
		tape_free(t);
		device_free(d);
		params_release(&p);
	}
}

struct called {
	int times, stream;
	struct device *device;
};

static void count_call(void *arg, struct device *d, int stream)
{
	struct called *c = arg;

	c->times++;
	c->stream = stream;
	c->device = d;
}

/* y on stream 1, then z, then a loss. */
static struct tape *small_tape(struct tensor **x, struct tensor **y, struct tensor **loss)
{
	struct tape *t = tape_new(DT_F32, 2);
	const int64_t shape[2] = {2, 64};

	*x = tape_input(t, DT_F32, 2, shape, TAPE_BATCHED);
	tape_stream(t, 1);
	*y = op_unary(t, *x, UNARY_SILU);
	tape_stream(t, 0);
	*loss = op_mse(t, op_mul(t, *y, *y), *x, NULL);
	tape_keep(t, *loss);
	return t;
}

static void after_a_node(void **state)
{
	struct device *d = device_cpu(NULL, DT_F32);
	struct called on = {0}, off = {0};
	struct tensor *x, *y, *loss;
	struct tape *t = small_tape(&x, &y, &loss);
	float in[128] = {0};

	(void)state;
	tape_then(t, 0, count_call, &on);
	tape_then(t, 1, count_call, &off);
	tape_layout(t, d, NULL);
	assert_int_equal(tape_allocate(t, NULL), 0);
	tape_bind(t, x, in);
	tape_run(t, 2, 0, 1);
	assert_int_equal(on.times, 1);
	assert_int_equal(on.stream, 1);
	assert_ptr_equal(on.device, d);
	assert_int_equal(off.times, 0);
	tape_run(t, 1, 0, tape_mark(t));
	assert_int_equal(on.times, 2);
	assert_int_equal(off.times, 1);
	assert_int_equal(off.stream, 0);
	tape_free(t);
	device_free(d);
}

/* Intermediates in bfloat16 take half the memory; losses and kept values stay floats. A device without bfloat16, or without a kernel for it, reports
 * this. */
static void storage_of_intermediates(void **state)
{
	struct device *d = device_cpu(NULL, DT_F32), lacking = *d;
	struct err e = {0};
	int64_t bytes[2];

	(void)state;
	for (int bf16 = 0; bf16 < 2; bf16++) {
		struct tensor *x, *y, *loss;
		struct tape *t = small_tape(&x, &y, &loss);

		tape_layout(t, d, &(struct plan_options){.no_reuse = 1, .bf16 = bf16});
		bytes[bf16] = tape_arena_bytes(t);
		assert_int_equal(y->dtype, bf16 ? DT_BF16 : DT_F32);
		assert_int_equal(loss->dtype, DT_F32);
		assert_int_equal(x->dtype, DT_F32);
		assert_int_equal(tape_allocate(t, &e), bf16 ? -1 : 0);
		tape_free(t);
	}
	assert_int_equal(bytes[0], 2 * 512 + 64);
	assert_int_equal(bytes[1], 2 * 256 + 64);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(e.msg, "bfloat16"));
	lacking.kernel[OP_MUL] = NULL;
	{
		struct tensor *x, *y, *loss;
		struct tape *t = small_tape(&x, &y, &loss);

		memset(&e, 0, sizeof e);
		tape_layout(t, &lacking, NULL);
		assert_int_equal(tape_allocate(t, &e), -1);
		assert_int_equal(e.code, ERR_UNAVAILABLE);
		assert_non_null(strstr(e.msg, "MUL"));
		tape_free(t);
	}
	device_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(after_a_node),
	    cmocka_unit_test(storage_of_intermediates),
	    cmocka_unit_test(gradients),
	    cmocka_unit_test(dit_gradient),
	    cmocka_unit_test(router_gradient),
	    cmocka_unit_test(text_gradient),
	    cmocka_unit_test(unet_gradient),
	    cmocka_unit_test(plans_agree),
	    cmocka_unit_test(batch_is_a_run_time_value),
	    cmocka_unit_test(tied_and_unused),
	    cmocka_unit_test(capacity_of_one),
	    cmocka_unit_test(unread_outputs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
