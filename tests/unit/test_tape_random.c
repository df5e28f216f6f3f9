/* tape: random graphs of ops, views, broadcasts, shared operands and blocks, drawn by key. The gradients must agree with differences in double for a
 * run-time batch, and every plan (reuse, poison, recomputation, capacity, threads) must give the same bits. */
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
#include "tape/ops.h"

enum { GRAPHS = 2000, LIST = 64, LEAVES = 7, KEPT = 4, SAMPLE = 72 /* most elements of a sample */ };

struct graph {
	uint64_t key;
	uint32_t draws;
	int64_t cap;
	struct tape *t;
	struct params p;
	struct tensor *list[LIST]; /* tensors that later ops may use */
	int n;
	struct tensor *leaf[LEAVES], *label, *y, *dy, *kept[KEPT];
	int nkept, forward;
};

static int64_t below(struct graph *g, int64_t n)
{
	return (int64_t)rng_below((uint64_t)n, 3, RNG_TEST, g->key, 0, g->draws++);
}

/* A size that does not depend on the capacity. */
static int64_t size(const struct graph *g, const struct tensor *x, int d)
{
	return d == 0 && x->batched ? x->shape[0] / g->cap : x->shape[d];
}

static int64_t sample(const struct graph *g, const struct tensor *x)
{
	int64_t n = 1;

	for (int d = 0; d < x->rank; d++)
		n *= size(g, x, d);
	return n;
}

static int alike(const struct tensor *x, const struct tensor *y)
{
	return x->rank == y->rank && x->batched == y->batched && !memcmp(x->shape, y->shape, (size_t)x->rank * sizeof *x->shape);
}

static struct tensor *recent(struct graph *g)
{
	int back = (int)below(g, 6);

	return g->list[back < g->n ? g->n - 1 - back : 0];
}

/* Another tensor of x's shape, sometimes x itself. */
static struct tensor *partner(struct graph *g, struct tensor *x)
{
	int from = (int)below(g, g->n);

	for (int i = 0; i < g->n; i++)
		if (alike(g->list[(from + i) % g->n], x))
			return g->list[(from + i) % g->n];
	return x;
}

static struct tensor *weight(struct graph *g, int rank, const int64_t *shape)
{
	static const struct init none = {.kind = INIT_ZERO};
	char name[64];
	int at = 0, frozen;

	for (int d = 0; d < rank; d++)
		at += snprintf(name + at, sizeof name - (size_t)at, "%d.", (int)shape[d]);
	snprintf(name + at, sizeof name - (size_t)at, "%d", (int)below(g, 2)); /* some are tied */
	frozen = name[at] == '1' && below(g, 4) == 0 && params_find(&g->p, name) < 0;
	return tape_param(g->t, &g->p, name, rank, shape, frozen ? PARAM_FROZEN : 0, none);
}

/* A tensor that broadcasts to x: a parameter of some trailing dimensions, or x summed over some dimensions. */
static struct tensor *narrow(struct graph *g, struct tensor *x)
{
	int lead = (int)below(g, x->rank);
	int64_t shape[ARRAY_RANK];

	for (int d = 0; d < x->rank; d++)
		shape[d] = below(g, 2) ? 1 : x->shape[d];
	if (below(g, 2))
		return op_sum(g->t, x, shape, .3);
	if (x->batched && !lead)
		shape[0] = 1;
	return weight(g, x->rank - lead, shape + lead);
}

static struct tensor *do_unary(struct graph *g, struct tensor *x)
{
	static const enum unary kinds[] = {UNARY_SILU, UNARY_GELU_TANH, UNARY_GELU_ERF, UNARY_TANH, UNARY_SIGMOID, UNARY_TANH};

	return op_unary(g->t, x, kinds[below(g, 6)]);
}

static struct tensor *do_add(struct graph *g, struct tensor *x)
{
	struct tensor *y = below(g, 3) ? partner(g, x) : narrow(g, x);

	return below(g, 2) ? op_add(g->t, x, y) : op_axpby(g->t, .7, x, -.6, y);
}

static struct tensor *do_mul(struct graph *g, struct tensor *x)
{
	return op_mul(g->t, x, below(g, 2) ? partner(g, x) : narrow(g, x));
}

static struct tensor *do_scale(struct graph *g, struct tensor *x)
{
	return op_scale(g->t, x, -.8);
}

static struct tensor *do_sum(struct graph *g, struct tensor *x)
{
	int64_t shape[ARRAY_RANK];

	memcpy(shape, x->shape, sizeof shape);
	shape[below(g, x->rank)] = 1;
	return op_sum(g->t, x, shape, below(g, 2) ? 1 : .4);
}

static struct tensor *do_reshape(struct graph *g, struct tensor *x)
{
	int64_t shape[ARRAY_RANK];
	int d = (int)below(g, x->rank), n = 0;

	if (below(g, 2) && x->rank > 1) { /* two become one */
		d = d == x->rank - 1 ? 0 : d;
		for (int i = 0; i < x->rank; i++)
			if (i == d + 1)
				shape[n - 1] *= x->shape[i];
			else
				shape[n++] = x->shape[i];
		return op_reshape(g->t, x, n, shape);
	}
	if (x->rank == ARRAY_RANK)
		return NULL;
	for (int i = 0; i < x->rank; i++) { /* one becomes two */
		int64_t by = size(g, x, i) % 2 ? size(g, x, i) % 3 ? 1 : 3 : 2;

		shape[n++] = i == d ? x->shape[i] / by : x->shape[i];
		if (i == d)
			shape[n++] = by;
	}
	return op_reshape(g->t, x, n, shape);
}

static struct tensor *do_permute(struct graph *g, struct tensor *x)
{
	int order[ARRAY_RANK], first = x->batched != 0;

	for (int d = 0; d < x->rank; d++)
		order[d] = d;
	for (int d = x->rank - 1; d > first; d--) {
		int with = first + (int)below(g, d - first + 1), was = order[d];

		order[d] = order[with];
		order[with] = was;
	}
	return op_permute(g->t, x, order);
}

static struct tensor *do_expand(struct graph *g, struct tensor *x)
{
	int64_t shape[ARRAY_RANK];

	if (!x->batched && x->shape[0] == 1 && below(g, 2))
		return op_repeat(g->t, x);
	memcpy(shape, x->shape, sizeof shape);
	for (int d = 0; d < x->rank; d++)
		if (size(g, x, d) == 1 && !(d == 0 && x->batched) && sample(g, x) <= SAMPLE / 3)
			shape[d] = below(g, 2) ? 3 : 1;
	return op_expand(g->t, x, shape);
}

/* A dimension that views may slice: not the batch. */
static int inner(struct graph *g, const struct tensor *x)
{
	int first = x->batched != 0;

	return first == x->rank ? -1 : first + (int)below(g, x->rank - first);
}

static struct tensor *do_slice(struct graph *g, struct tensor *x)
{
	int d = inner(g, x);
	int64_t from, length;

	if (d < 0)
		return NULL;
	from = below(g, x->shape[d]);
	length = 1 + below(g, x->shape[d] - from);
	return op_slice(g->t, x, d, from, length);
}

static struct tensor *do_unstack(struct graph *g, struct tensor *x)
{
	struct tensor *out[OP_OUT];
	int d = inner(g, x), n;

	if (d < 0 || x->rank < 2 || x->shape[d] > 6)
		return NULL;
	n = (int)x->shape[d];
	op_unstack(g->t, x, d, out);
	for (int i = 0; i < n && g->n < LIST - 1; i++)
		if (below(g, 3))
			g->list[g->n++] = out[i];
	return out[0];
}

static struct tensor *do_concat(struct graph *g, struct tensor *x)
{
	struct tensor *xs[3] = {x, partner(g, x), partner(g, x)};
	int d = inner(g, x), n = 1 + (int)below(g, 3);

	if (d < 0 || sample(g, x) > SAMPLE / 3)
		return NULL;
	return op_concat(g->t, d, n, xs);
}

static struct tensor *do_linear(struct graph *g, struct tensor *x)
{
	int64_t shape[2] = {1 + below(g, 5), x->shape[x->rank - 1]};
	struct tensor *w, *b = NULL;

	if (x->rank == 1 && x->batched)
		return NULL;
	w = weight(g, 2, shape);
	if (below(g, 2))
		b = below(g, 2) ? weight(g, 1, shape) : op_reshape(g->t, op_slice(g->t, w, 1, 0, 1), 1, shape);
	if (below(g, 2))
		return op_linear(g->t, x, w, b);
	return op_linear_act(g->t, x, w, b, below(g, 2) ? UNARY_GELU_TANH : below(g, 2) ? UNARY_SILU : UNARY_TANH);
}

/* Products with itself or a similar tensor, and of a batch with a table. */
static struct tensor *do_matmul(struct graph *g, struct tensor *x)
{
	int64_t shape[2];

	if (x->rank < 2)
		return NULL;
	if (x->rank == 2 && x->batched) {
		if (below(g, 3) == 0) /* over the batch */
			return op_matmul(g->t, x, 1, partner(g, x), 0, .3);
		shape[0] = x->shape[1];
		shape[1] = 1 + below(g, 4);
		return op_matmul(g->t, x, 0, weight(g, 2, shape), 0, .5);
	}
	if (below(g, 2))
		return op_matmul(g->t, x, 0, partner(g, x), 1, .4);
	return op_matmul(g->t, x, 1, partner(g, x), 0, .4);
}

static struct tensor *do_norm(struct graph *g, struct tensor *x)
{
	struct tensor *scale = below(g, 3) ? narrow(g, x) : NULL, *shift = below(g, 3) ? narrow(g, x) : NULL;

	if (x->rank == 1 && x->batched)
		return NULL;
	return op_norm(g->t, x, scale, shift, below(g, 2) ? NORM_LAYER : NORM_RMS, .2, (int)below(g, 2));
}

static struct tensor *do_gate(struct graph *g, struct tensor *x)
{
	return op_gate(g->t, x, below(g, 4) ? narrow(g, x) : partner(g, x), partner(g, x));
}

static struct tensor *do_attention(struct graph *g, struct tensor *x)
{
	if (x->rank != 4)
		return NULL;
	return op_attention(g->t, x, partner(g, x), partner(g, x), .5, (int)below(g, 2));
}

static struct tensor *do_softmax(struct graph *g, struct tensor *x)
{
	return op_softmax(g->t, x);
}

static struct tensor *do_dropout(struct graph *g, struct tensor *x)
{
	return op_dropout(g->t, x, .3);
}

static struct tensor *do_conv(struct graph *g, struct tensor *x)
{
	struct padding pad = {below(g, 2), below(g, 2), 1 + below(g, 2), 1 + below(g, 2)};
	int64_t shape[4] = {1 + below(g, 3), 1 + below(g, 2), 1 + below(g, 2), x->shape[x->rank - 1]}, bias = below(g, 2);
	struct tensor *w, *y;

	if (x->rank != 4 || sample(g, x) > SAMPLE / 8)
		return NULL;
	w = weight(g, 4, shape);
	y = op_conv(g->t, x, w, bias ? weight(g, 1, shape) : NULL, NULL, 1 + below(g, 2), pad, 0);
	if (below(g, 2))
		return y;
	shape[3] = shape[0];
	return op_conv(g->t, y, weight(g, 4, shape), NULL, partner(g, y), 1, (struct padding){shape[1] - 1, 0, 0, shape[2] - 1},
	               below(g, 2) ? UNARY_SILU + 1 : 0);
}

static struct tensor *do_groupnorm(struct graph *g, struct tensor *x)
{
	int64_t n = x->shape[x->rank - 1];
	struct tensor *scale = NULL, *shift = NULL;

	if (x->rank < 2 || !x->batched || size(g, x, 0) != 1)
		return NULL;
	if (below(g, 3))
		scale = weight(g, 1, &n);
	if (below(g, 3))
		shift = weight(g, 1, &n);
	return op_groupnorm(g->t, x, scale, shift, n % 2 ? 1 : 2, .2, below(g, 2) ? UNARY_SILU + 1 : 0);
}

static struct tensor *do_pool(struct graph *g, struct tensor *x)
{
	static const enum pool_kind kinds[] = {POOL_AVERAGE, POOL_AVERAGE_ALL};

	if (x->rank != 4)
		return NULL;
	return op_pool(g->t, x, kinds[below(g, 2)], 2, 1 + below(g, 2), 1, (int)below(g, 2));
}

static struct tensor *do_copy(struct graph *g, struct tensor *x)
{
	return op_copy(g->t, x);
}

static struct tensor *do_embed(struct graph *g, struct tensor *x)
{
	int64_t shape[2] = {3, 1 + below(g, 5)};

	(void)x;
	return op_embed(g->t, weight(g, 2, shape), g->label);
}

static struct tensor *do_xent(struct graph *g, struct tensor *x)
{
	if (x->rank != 2 || !x->batched || size(g, x, 0) != 1 || x->shape[1] < 3)
		return NULL;
	return op_xent(g->t, x, g->label);
}

static struct tensor *do_mse(struct graph *g, struct tensor *x)
{
	return op_mse(g->t, x, partner(g, x), NULL);
}

static struct tensor *do_qsample(struct graph *g, struct tensor *x)
{
	struct tensor *f[2];
	int64_t one[ARRAY_RANK];

	for (int d = 0; d < x->rank; d++)
		one[d] = d ? 1 : x->shape[0];
	for (int i = 0; i < 2; i++)
		f[i] = op_reshape(g->t, op_sum(g->t, partner(g, x), one, .2), 1, x->shape);
	return op_qsample(g->t, x, partner(g, x), f[0], f[1]);
}

static struct tensor *(*const steps[])(struct graph *, struct tensor *) = {
    do_unary,     do_add,     do_add,     do_add,     do_add,     do_mul,    do_scale,  do_sum,     do_reshape, do_reshape, do_permute,   do_permute,
    do_expand,    do_slice,   do_slice,   do_unstack, do_unstack, do_concat, do_linear, do_linear,  do_matmul,  do_norm,    do_norm,      do_gate,
    do_attention, do_softmax, do_dropout, do_copy,    do_embed,   do_xent,   do_mse,    do_qsample, do_conv,    do_conv,    do_groupnorm, do_pool,
};

static const struct {
	int rank, batched;
	int64_t shape[4];
} leaves[LEAVES] = {
    {3, 1, {1, 4, 3}}, {3, 1, {1, 4, 3}}, {4, 1, {2, 2, 3, 2}}, {2, 1, {1, 6}}, {2, 0, {1, 5}}, {2, 0, {4, 3}}, {2, 0, {4, 3}},
};

/* The same graph for any capacity of two or more. */
static void record(struct graph *g, enum dtype real, int64_t cap, enum recompute recompute)
{
	int64_t shape[ARRAY_RANK];
	int nodes = 6 + (int)below(g, 30), block = 0;

	g->cap = cap;
	g->t = tape_new(real, cap);
	for (int i = 0; i < LEAVES; i++) {
		memcpy(shape, leaves[i].shape, sizeof leaves[i].shape);
		shape[0] *= leaves[i].batched ? cap : 1;
		g->leaf[i] = tape_input(g->t, real, leaves[i].rank, shape, (below(g, 4) ? TAPE_GRAD : 0) | (leaves[i].batched ? TAPE_BATCHED : 0));
		g->list[g->n++] = g->leaf[i];
	}
	g->label = tape_input(g->t, DT_I32, 1, &cap, TAPE_BATCHED);
	for (int i = 0; i < nodes && g->n < LIST - 8; i++) {
		struct tensor *y;

		if (below(g, 4) == 0) {
			if (block)
				tape_block_end(g->t);
			block = below(g, 3) != 0;
			if (block)
				tape_block_begin(g->t);
		}
		y = steps[below(g, (int64_t)(sizeof steps / sizeof *steps))](g, recent(g));
		if (!y)
			continue;
		g->list[g->n++] = y;
		if (below(g, 8) == 0 && g->nkept < KEPT)
			tape_keep(g->t, g->kept[g->nkept++] = y);
	}
	if (block)
		tape_block_end(g->t);
	g->y = g->list[g->n - 1];
	if (below(g, 4) == 0 && g->nkept < KEPT) /* an output that later ops read too */
		g->y = recent(g);
	tape_keep(g->t, g->y);
	g->forward = tape_mark(g->t);
	g->dy = tape_input(g->t, real, g->y->rank, g->y->shape, g->y->batched ? TAPE_BATCHED : 0);
	tape_recompute(g->t, recompute);
	tape_backward(g->t, g->y, g->dy);
	params_layout(&g->p);
}

/* One run of a graph. */
struct plan {
	enum dtype real;
	int64_t cap;
	enum recompute recompute;
	int threads;
	struct plan_options o;
};

struct instance {
	struct graph g;
	struct device *d;
	int64_t samples;
	double *values[LEAVES], *dy, *params;
	void *memory[LEAVES + 1], *param_memory, *grads;
	int32_t labels[4];
};

static int64_t count(const struct tensor *x)
{
	int64_t n = 1;

	for (int d = 0; d < x->rank; d++)
		n *= x->shape[d];
	return n;
}

static double *drawn(int64_t n, uint64_t key, uint64_t stream)
{
	double *v = mem_zalloc((size_t)n, sizeof *v);

	for (int64_t i = 0; i < n; i++)
		v[i] = (float)(2 * rng_uniform(5, RNG_TEST, key, stream, (uint32_t)i) - 1);
	return v;
}

static void put(enum dtype real, void *to, const double *v, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (real == DT_F64)
			((double *)to)[i] = v[i];
		else
			((float *)to)[i] = (float)v[i];
}

static void put_all(struct instance *r)
{
	enum dtype real = tape_real(r->g.t);

	for (int i = 0; i < LEAVES; i++)
		put(real, r->memory[i], r->values[i], count(r->g.leaf[i]));
	put(real, r->memory[LEAVES], r->dy, count(r->g.dy));
	put(real, r->param_memory, r->params, r->g.p.total);
}

static void start(struct instance *r, uint64_t key, const struct plan *p, int64_t samples, struct pool *pool)
{
	memset(r, 0, sizeof *r);
	r->g.key = key;
	r->samples = samples;
	record(&r->g, p->real, p->cap, p->recompute);
	r->d = device_cpu(p->threads > 1 ? pool : NULL, p->real);
	tape_layout(r->g.t, r->d, &p->o);
	assert_int_equal(tape_allocate(r->g.t, NULL), 0);
	for (int i = 0; i <= LEAVES; i++) {
		struct tensor *x = i < LEAVES ? r->g.leaf[i] : r->g.dy;
		double *v = drawn(count(x), key, (uint64_t)i + 1);

		r->memory[i] = mem_zalloc((size_t)count(x), sizeof(double));
		*(i < LEAVES ? &r->values[i] : &r->dy) = v;
		tape_bind(r->g.t, x, r->memory[i]);
	}
	for (int i = 0; i < 4; i++)
		r->labels[i] = (int32_t)(key + 2 * (uint64_t)i) % 3;
	tape_bind(r->g.t, r->g.label, r->labels);
	r->params = drawn(r->g.p.total, key, 9);
	r->param_memory = mem_zalloc((size_t)r->g.p.total, sizeof(double));
	r->grads = mem_zalloc((size_t)r->g.p.trainable, sizeof(double));
	tape_bind_params(r->g.t, r->param_memory, r->grads);
	tape_seed(r->g.t, &(struct run_keys){1, key, 0, 0, 0});
	put_all(r);
}

static void finish(struct instance *r)
{
	for (int i = 0; i <= LEAVES; i++)
		mem_free(r->memory[i]);
	for (int i = 0; i < LEAVES; i++)
		mem_free(r->values[i]);
	mem_free(r->dy);
	mem_free(r->params);
	mem_free(r->param_memory);
	mem_free(r->grads);
	tape_free(r->g.t);
	device_free(r->d);
	params_release(&r->g.p);
}

/* Append the elements of x that a run wrote, in row-major order, to *v at *n. */
static void append(struct instance *r, const struct tensor *x, double **v, int64_t *n)
{
	struct tensor now = *x;
	const void *data = tape_data(r->g.t, x);

	if (x->batched)
		now.shape[0] = now.shape[0] / r->g.cap * r->samples;
	*v = mem_resize(*v, (size_t)(*n + count(&now)), sizeof **v);
	for (int64_t k = 0; k < count(&now); k++) {
		int64_t rest = k, at = 0;

		for (int d = now.rank - 1; d >= 0; d--) {
			at += rest % now.shape[d] * now.stride[d];
			rest /= now.shape[d];
		}
		(*v)[(*n)++] = now.dtype == DT_F64 ? ((const double *)data)[at] : (double)((const float *)data)[at];
	}
}

/* All results of a run. */
static double *collect(struct instance *r, int64_t *n)
{
	double *v = NULL;

	*n = 0;
	append(r, r->g.y, &v, n);
	for (int i = 0; i < r->g.nkept; i++)
		append(r, r->g.kept[i], &v, n);
	for (int i = 0; i < LEAVES; i++)
		if (tape_grad(r->g.t, r->g.leaf[i]))
			append(r, tape_grad(r->g.t, r->g.leaf[i]), &v, n);
	v = mem_resize(v, (size_t)(*n + r->g.p.trainable), sizeof *v);
	for (int64_t i = 0; i < r->g.p.trainable; i++)
		v[(*n)++] = tape_real(r->g.t) == DT_F64 ? ((double *)r->grads)[i] : (double)((float *)r->grads)[i];
	return v;
}

static double loss(struct instance *r)
{
	double *v = NULL, *dy = NULL, sum = 0;
	int64_t n = 0, m = 0;

	put_all(r);
	tape_run(r->g.t, r->samples, 0, r->g.forward);
	append(r, r->g.y, &v, &n);
	append(r, r->g.dy, &dy, &m);
	for (int64_t i = 0; i < n; i++)
		sum += v[i] * dy[i];
	mem_free(v);
	mem_free(dy);
	return sum;
}

/* The derivative along one random direction of one leaf. Central differences with h = 1e-5 in double: truncation h^2 |f'''| / 6
 * and rounding 1e-16 |f| / h stay far below 1e-6 for values and slopes of order one. */
static void check_direction(struct instance *r, double *values, int64_t n, double got, const double *along, const char *what)
{
	double up, down, want;
	double *was = mem_alloc((size_t)n * sizeof *was);

	memcpy(was, values, (size_t)n * sizeof *was);
	for (int64_t i = 0; i < n; i++)
		values[i] = was[i] + 1e-5 * along[i];
	up = loss(r);
	for (int64_t i = 0; i < n; i++)
		values[i] = was[i] - 1e-5 * along[i];
	down = loss(r);
	memcpy(values, was, (size_t)n * sizeof *was);
	mem_free(was);
	want = (up - down) / 2e-5;
	if (!(fabs(got - want) <= 1e-6 * (1 + fabs(want) + fabs(up))))
		fail_msg("graph %d, %lld of %lld samples, %s: gradient %.12g, difference %.12g", (int)r->g.key, (long long)r->samples,
		         (long long)r->g.cap, what, got, want);
}

static void check_gradients(struct instance *r)
{
	double *leaf[LEAVES] = {0}, *grads = mem_zalloc((size_t)r->g.p.trainable, sizeof *grads);

	put_all(r);
	tape_run(r->g.t, r->samples, 0, tape_mark(r->g.t));
	for (int i = 0; i < LEAVES; i++) {
		struct tensor *dx = tape_grad(r->g.t, r->g.leaf[i]);
		int64_t n = 0;

		if (dx)
			append(r, dx, &leaf[i], &n);
	}
	memcpy(grads, r->grads, (size_t)r->g.p.trainable * sizeof *grads);
	for (int i = 0; i < LEAVES; i++) {
		int64_t n = count(r->g.leaf[i]);
		double *along = drawn(n, r->g.key, 20 + (uint64_t)i), got = 0;
		char what[16];

		if (r->g.leaf[i]->batched)
			n = n / r->g.cap * r->samples;
		for (int64_t k = 0; k < n && leaf[i]; k++)
			got += leaf[i][k] * along[k];
		snprintf(what, sizeof what, "leaf %d", i);
		if (r->g.leaf[i]->needs_grad)
			check_direction(r, r->values[i], n, got, along, what);
		mem_free(along);
		mem_free(leaf[i]);
	}
	for (int i = 0; i < r->g.p.n; i++) {
		const struct param *p = &r->g.p.v[i];
		double *along = drawn(p->count, r->g.key, 40 + (uint64_t)i), got = 0;

		for (int64_t k = 0; k < p->count && !(p->flags & PARAM_FROZEN); k++)
			got += grads[p->offset + k] * along[k];
		if (!(p->flags & PARAM_FROZEN))
			check_direction(r, r->params + p->offset, p->count, got, along, p->name);
		mem_free(along);
	}
	mem_free(grads);
}

static const struct plan plans[] = {
    {DT_F64, 3, RECOMPUTE_NONE, 1, {.no_reuse = 1}}, {DT_F64, 3, RECOMPUTE_NONE, 1, {.poison = 1}},
    {DT_F64, 3, RECOMPUTE_BLOCKS, 1, {.poison = 1}}, {DT_F64, 3, RECOMPUTE_BLOCKS, 1, {.no_reuse = 1, .poison = 1}},
    {DT_F64, 4, RECOMPUTE_BLOCKS, 1, {.poison = 1}}, {DT_F64, 2, RECOMPUTE_NONE, 1, {.poison = 1}},
    {DT_F64, 3, RECOMPUTE_NORMS, 1, {.poison = 1}},  {DT_F64, 4, RECOMPUTE_ACTS, 1, {.poison = 1}},
};

static const struct plan float_plans[] = {
    {DT_F32, 3, RECOMPUTE_NONE, 1, {.no_reuse = 1}}, {DT_F32, 3, RECOMPUTE_NONE, 2, {.poison = 1}}, {DT_F32, 4, RECOMPUTE_BLOCKS, 2, {.poison = 1}},
    {DT_F32, 3, RECOMPUTE_NORMS, 2, {.poison = 1}},  {DT_F32, 3, RECOMPUTE_ACTS, 1, {.poison = 1}},
};

static void check_bits(uint64_t key, const struct plan *p, int n, int64_t samples, struct pool *pool)
{
	double *want = NULL;
	int64_t nwant = 0;

	for (int i = 0; i < n; i++) {
		struct instance r;
		double *got;
		int64_t ngot;

		if (p[i].cap < samples)
			continue;
		start(&r, key, &p[i], samples, pool);
		tape_run(r.g.t, samples, 0, tape_mark(r.g.t));
		got = collect(&r, &ngot);
		finish(&r);
		for (int64_t k = 0; k < ngot; k++)
			if (!isfinite(got[k]))
				fail_msg("graph %d, plan %d, %lld samples: value %lld is not finite", (int)key, i, (long long)samples, (long long)k);
		if (want && (ngot != nwant || memcmp(got, want, (size_t)ngot * sizeof *got)))
			fail_msg("graph %d, plan %d, %lld samples: other bits", (int)key, i, (long long)samples);
		if (!want) {
			want = got;
			nwant = ngot;
		} else
			mem_free(got);
	}
	mem_free(want);
}

static void gradients(void **state)
{
	(void)state;
	for (uint64_t key = 1; key <= GRAPHS; key++) {
		const struct plan p = {DT_F64, 1 + (int64_t)key % 3, (enum recompute)(key / 3 % 4), 1, {.poison = 1}};
		struct instance r;

		start(&r, key, &p, 1 + (int64_t)(key / 6) % p.cap, NULL);
		check_gradients(&r);
		finish(&r);
	}
}

static void plans_agree(void **state)
{
	struct pool *pool = pool_new(2, NULL);

	(void)state;
	for (uint64_t key = 1; key <= GRAPHS; key++) {
		int64_t samples = 1 + (int64_t)key % 3;

		check_bits(key, plans, sizeof plans / sizeof *plans, samples, NULL);
		check_bits(key, float_plans, sizeof float_plans / sizeof *float_plans, samples, pool);
	}
	pool_free(pool);
}

/* Check the gradients whose mark is `end`, and destroy them. They are floats, here and in the next functions. */
static void take_complete(struct instance *r, int end, const int *mark, const char *want)
{
	for (int k = 0; k < r->g.p.n; k++) {
		const struct param *q = &r->g.p.v[k];
		size_t at = (size_t)q->offset * sizeof(float), bytes = (size_t)q->count * sizeof(float);

		if (q->flags & PARAM_FROZEN || mark[k] != end)
			continue;
		assert_memory_equal((char *)r->grads + at, want + at, bytes);
		memset((char *)r->grads + at, 0xff, bytes);
	}
}

/* All results of a run that lie outside the gradients' arena. A leaf's gradient can be one that is a parameter's too. */
static double *collect_others(struct instance *r, int64_t *n)
{
	double *v = NULL;

	*n = 0;
	append(r, r->g.y, &v, n);
	for (int i = 0; i < r->g.nkept; i++)
		append(r, r->g.kept[i], &v, n);
	for (int i = 0; i < LEAVES; i++) {
		const struct tensor *g = tape_grad(r->g.t, r->g.leaf[i]);
		const char *at = g ? tape_data(r->g.t, g) : NULL, *arena = r->grads;

		if (g && (at < arena || at >= arena + (size_t)r->g.p.trainable * sizeof(float)))
			append(r, g, &v, n);
	}
	return v;
}

/* A gradient is complete at its mark, and no later node reads or writes it. */
static void check_marks(struct instance *r)
{
	size_t bytes = (size_t)r->g.p.trainable * sizeof(float);
	char *want = mem_alloc(bytes + 1);
	int mark[256]; /* more than the parameters of any graph */
	double *first, *second;
	int64_t n;

	tape_grad_marks(r->g.t, mark);
	tape_run(r->g.t, r->samples, 0, tape_mark(r->g.t));
	memcpy(want, r->grads, bytes);
	first = collect_others(r, &n);
	for (int i = 0; i < tape_mark(r->g.t); i++) {
		tape_run(r->g.t, r->samples, i, i + 1);
		take_complete(r, i + 1, mark, want);
	}
	for (int k = 0; k < r->g.p.n; k++)
		for (int64_t at = r->g.p.v[k].offset; !(r->g.p.v[k].flags & PARAM_FROZEN) && at < r->g.p.v[k].offset + r->g.p.v[k].count; at++)
			assert_true(mark[k] > 0 && ((uint32_t *)r->grads)[at] == UINT32_MAX);
	second = collect_others(r, &n);
	assert_memory_equal(first, second, (size_t)n * sizeof *first);
	mem_free(first);
	mem_free(second);
	mem_free(want);
}

static void gradients_are_complete_at_their_marks(void **state)
{
	(void)state;
	for (uint64_t key = 1; key <= GRAPHS; key++) {
		const struct plan p = {DT_F32, 1 + (int64_t)key % 3, (enum recompute)(key / 3 % 4), 1, {.no_reuse = key % 2}};
		struct instance r;

		start(&r, key, &p, 1 + (int64_t)(key / 6) % p.cap, NULL);
		check_marks(&r);
		finish(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(gradients),
	    cmocka_unit_test(plans_agree),
	    cmocka_unit_test(gradients_are_complete_at_their_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
