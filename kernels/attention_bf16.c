/* ATTENTION and its gradient with bf16 products (kernels/attention_bf16.h), on the inner kernels of kernels/compacttile.h.
 *
 * The backward pass computes transposed scores, keys by queries: the weights and their gradients are then the left factors of dV and dK as they are,
 * and each row of dV and dK is one product over all queries. Only dQ needs the other order. */
#include "kernels/attention_bf16.h"

#include <assert.h>

#include "kernels/attentionhead.h"
#include "kernels/bf16.h"
#include "kernels/compactrun.h"
#include "kernels/cut.h"
#include "kernels/walk.h"

enum {
	NR = COMPACT_NR,
	SOON = 8,         /* rows of a head by which one is prefetched, because they are far apart */
	QUERIES = 512,    /* most queries of an item of the forward pass; each item packs its head's keys and values */
	SCORES = 1 << 17, /* most scores whose gradient the backward pass holds at a time, about */
	FEWEST = 64,      /* queries of such a part, at least */
	TASKS = 64
};

struct attention {
	const struct op_call *c;
	const struct compact_kernel *q;
	int64_t heads, t, s, d; /* t, s: queries and keys of a head */
	int64_t part;           /* queries that are computed together: of an item; in the gradient, of a step of an item */
	int64_t parts;          /* in the forward pass, items of a head */
	int64_t items, items_task;
	int causal;
	float scale;
	const struct array *bias; /* NULL: none */
	size_t stride;            /* of scratch, per worker */
};

/* Bytes of panels with n columns of k numbers. */
static size_t panel_bytes(int64_t n, int64_t k)
{
	return (size_t)(round_up(n, NR) * ((k + 1) / 2)) * sizeof(uint32_t);
}

/* Bytes of n rows of k numbers, as `tile` reads them. */
static size_t row_bytes(const struct compact_kernel *q, int64_t n, int64_t k)
{
	return (size_t)(round_up(n, q->mr) * q->row((k + 1) / 2) + 63) / 64 * 64;
}

/* Bytes of an array of n x m sums, both rounded up to whole tiles. */
static size_t sum_bytes(const struct compact_kernel *q, int64_t n, int64_t m)
{
	return (size_t)(round_up(n, q->mr) * round_up(m, NR)) * sizeof(float);
}

static void *carve(char **at, size_t bytes)
{
	void *p = *at;

	*at += (bytes + 63) / 64 * 64;
	return p;
}

/* The panel of columns from j on, of panels with k numbers to a column. */
static uint32_t *panel_at(uint32_t *panels, int64_t j, int64_t k)
{
	return panels + j * ((k + 1) / 2);
}

/* An operand or a result of a head, as struct head: floats, or bf16. */
struct operand {
	void *at;
	int64_t ld;
	int bf16;
};

static struct operand operand_of(const struct array *a, int64_t b, int64_t h)
{
	int bf16 = a->dtype == DT_BF16;
	int64_t at = b * a->stride[SAMPLE] + h * a->stride[HEAD];

	return (struct operand){bf16 ? (void *)((uint16_t *)a->data + at) : (float *)a->data + at, a->stride[TOKEN], bf16};
}

static struct operand of_floats(struct head x)
{
	return (struct operand){x.at, x.ld, 0};
}

static void *row_at(const struct operand *x, int64_t i)
{
	return x->bf16 ? (void *)((uint16_t *)x->at + i * x->ld) : (float *)x->at + i * x->ld;
}

/* Row i of y = the n numbers of x [+ what it is]; y is float with `add`. */
static void store_row(const struct operand *y, int64_t i, const float *restrict x, int64_t n, int add)
{
	float *restrict to = row_at(y, i);

	assert(!y->bf16 || !add);
	if (y->bf16)
		bf16_store(row_at(y, i), x, n);
	else
		for (int64_t j = 0; j < n; j++)
			to[j] = add ? to[j] + x[j] : x[j];
}

/* The n numbers of row i, rounded to bf16. */
static void load_rounded(float *restrict to, const struct operand *x, int64_t i, int64_t n)
{
	const void *row = row_at(x, i);

	for (int64_t j = 0; x->bf16 && j < n; j++)
		to[j] = bf16_value(row, 1, j);
	for (int64_t j = 0; !x->bf16 && j < n; j++)
		to[j] = bf16_value(row, 0, j);
}

static struct operand operand_from(struct operand x, int64_t first)
{
	return (struct operand){row_at(&x, first), x.ld, x.bf16};
}

/* Prefetch the first n numbers of row i. Always inlined, because GCC leaves out calls of a function that does nothing but prefetch. */
static inline __attribute__((always_inline)) void prefetch_row(const struct operand *x, int64_t i, int64_t n)
{
	for (int64_t j = 0; j < n; j += x->bf16 ? 32 : 16)
		__builtin_prefetch(compact_number(row_at(x, i), x->bf16, j), 0, 2);
}

/* Panels whose columns are the n rows of x, of d numbers. */
static void pack_transposed(const struct attention *k, uint32_t *panels, struct operand x, int64_t n)
{
	for (int64_t j = 0; j < n; j += NR)
		k->q->columns(panel_at(panels, j, k->d), row_at(&x, j), x.bf16, x.ld, min64(NR, n - j), k->d);
}

/* Panels whose columns are those of x, which has n rows of d numbers. */
static void pack(const struct attention *k, uint32_t *panels, struct operand x, int64_t n)
{
	compact_pack_rows(k->q, panels, panel_at(panels, NR, n) - panels, x.at, x.bf16, x.ld, k->d, n);
}

/* Round m rows of n numbers for `tile`. */
static void round_rows(const struct compact_kernel *q, char *rows, struct operand x, int64_t m, int64_t n)
{
	for (int64_t i = 0; i < m; i++) {
		prefetch_row(&x, i + SOON, n);
		q->round(rows + i * q->row((n + 1) / 2), row_at(&x, i), x.bf16, n);
	}
}

/* sum (m, n) = m <= mr rows times panels of n columns, each k numbers. */
static void multiply(const struct compact_kernel *q, struct head sum, const char *rows, uint32_t *panels, int64_t m, int64_t n, int64_t k)
{
	for (int64_t j = 0; j < n; j += NR)
		q->tile(sum.at + j, sum.ld, rows, panel_at(panels, j, k), (k + 1) / 2, m);
}

static void attention_init(struct attention *k, const struct op_call *c, const struct array *q, const struct array *key)
{
	*k = (struct attention){.c = c,
	                        .q = compact_kernel_of((enum compact_isa)c->device->bf16_isa),
	                        .heads = q->shape[HEAD],
	                        .t = q->shape[TOKEN],
	                        .s = key->shape[TOKEN],
	                        .d = q->shape[CHANNEL],
	                        .causal = c->attr.attention.causal,
	                        .scale = (float)c->attr.attention.scale};
}

/* ---- forward ---- */

struct forward_room {
	uint32_t *keys, *values; /* transposed; as they are */
	char *queries, *weights; /* of one tile */
	float *scores, *out, *share, *log_sum;
};

static size_t forward_layout(const struct attention *k, char *at, struct forward_room *r)
{
	char *start = at;

	r->keys = carve(&at, panel_bytes(k->s, k->d));
	r->values = carve(&at, panel_bytes(k->d, k->s));
	r->queries = carve(&at, row_bytes(k->q, k->q->mr, k->d));
	r->weights = carve(&at, row_bytes(k->q, k->q->mr, k->s));
	r->scores = carve(&at, sum_bytes(k->q, k->q->mr, k->s));
	r->out = carve(&at, sum_bytes(k->q, k->q->mr, k->d));
	r->share = carve(&at, (size_t)k->q->mr * sizeof *r->share);
	r->log_sum = carve(&at, (size_t)k->q->mr * sizeof *r->log_sum);
	return (size_t)(at - start);
}

/* Queries [first, first + m) of head (b, h), m <= mr. */
static void forward_tile(const struct attention *k, const struct forward_room *r, struct operand q, struct operand o, int64_t b, int64_t h,
                         int64_t first, int64_t m)
{
	static const struct hint none;
	const struct array *l = &k->c->out[1];
	float *lse = (float *)l->data + b * l->stride[0] + h * l->stride[1] + first * l->stride[2];
	struct head p = {r->scores, round_up(k->s, NR)}, sum = {r->out, round_up(k->d, NR)};
	int64_t n = k->causal ? min64(k->s, first + m) : k->s;

	round_rows(k->q, r->queries, operand_from(q, first), m, k->d);
	multiply(k->q, p, r->queries, r->keys, m, n, k->d);
	if (k->bias)
		bias_rows(k->bias, p, k->scale, b, h, first, m, n);
	softmax_rows(p, k->bias ? 1 : k->scale, m, n, k->causal ? first + 1 : n, r->share, r->log_sum, &none);
	for (int64_t i = 0; i < m; i++) {
		lse[i * l->stride[2]] = r->log_sum[i];
		for (int64_t s = n; s < k->s; s++)
			p.at[i * p.ld + s] = 0;
	}
	round_rows(k->q, r->weights, of_floats(p), m, k->s);
	multiply(k->q, sum, r->weights, r->values, m, k->d, k->s);
	for (int64_t i = 0; i < m; i++) {
		float *row = sum.at + i * sum.ld;

		for (int64_t j = 0; j < k->d; j++)
			row[j] *= r->share[i];
		store_row(&o, first + i, row, k->d, 0);
	}
}

static void forward_item(const struct attention *k, int64_t item, char *scratch)
{
	const struct op_call *c = k->c;
	int64_t b = item / k->parts / k->heads, h = item / k->parts % k->heads, first = item % k->parts * k->part, end = min64(first + k->part, k->t);
	struct forward_room r;

	forward_layout(k, scratch, &r);
	pack_transposed(k, r.keys, operand_of(&c->in[1], b, h), k->s);
	pack(k, r.values, operand_of(&c->in[2], b, h), k->s);
	for (; first < end; first += k->q->mr)
		forward_tile(k, &r, operand_of(&c->in[0], b, h), operand_of(&c->out[0], b, h), b, h, first, min64(k->q->mr, end - first));
}

static void items_do(const struct attention *k, int64_t task, int worker, void (*fn)(const struct attention *, int64_t, char *))
{
	int64_t last = min64((task + 1) * k->items_task, k->items);

	if (k->q->begin)
		k->q->begin();
	for (int64_t i = task * k->items_task; i < last; i++)
		fn(k, i, (char *)k->c->scratch + (size_t)worker * k->stride);
	if (k->q->end)
		k->q->end();
}

static void forward_task(void *arg, int64_t task, int worker)
{
	items_do(arg, task, worker, forward_item);
}

static void items_run(struct attention *k, int64_t items, void (*fn)(void *, int64_t, int))
{
	k->items = items;
	k->items_task = items / TASKS > 1 ? items / TASKS : 1;
	walk_run(k->c, items * k->t * k->s, (items + k->items_task - 1) / k->items_task, fn, k);
}

/* Queries are cut evenly into whole tiles of 96, which both 32 and 12 divide. */
static void forward_init(struct attention *k, const struct op_call *c)
{
	struct forward_room r;

	attention_init(k, c, &c->in[0], &c->in[1]);
	k->bias = c->nin > 3 && c->in[3].data ? &c->in[3] : NULL;
	k->parts = (k->t + QUERIES - 1) / QUERIES;
	k->part = round_up((k->t + k->parts - 1) / k->parts, 96);
	k->stride = forward_layout(k, c->scratch, &r);
}

void attention_bf16_run(const struct op_call *c)
{
	struct attention k;

	forward_init(&k, c);
	assert(k.scale > 0);
	items_run(&k, c->in[0].shape[SAMPLE] * k.heads * k.parts, forward_task);
}

size_t attention_bf16_scratch(const struct op_call *c, int workers)
{
	struct attention k;

	forward_init(&k, c);
	return k.stride * (size_t)workers;
}

/* ---- gradient ---- */

/* Which head. */
struct place {
	int64_t b, h;
};

enum { DQ, DK, DV };

struct backward_room {
	char *keys, *values;                     /* (s) rows */
	uint32_t *keys_across;                   /* panels whose columns are channels, over keys */
	uint32_t *queries, *douts;               /* panels whose columns are queries of the part */
	uint32_t *queries_across, *douts_across; /* panels whose columns are channels, over queries of the part */
	float *lse, *delta;                      /* of the part's queries */
	float *weights, *slopes;                 /* (mr keys, part), and the gradient of the scores, transposed */
	char *weight_rows, *slope_rows;          /* the same rounded: (mr) rows and (s) rows */
	char *slopes_across;                     /* (part) rows of the rounded gradient of the scores, over keys */
	float *out;                              /* (mr, d) */
	float *row[2];                           /* (d) */
	float *parts[3];                         /* sums_in_floats: [DK] and [DV] (s, d), added up over the parts */
};

/* Whether gradients that are added up over parts of the queries need memory of their own, because they are stored in bf16. */
static int sums_in_floats(const struct attention *k, int i)
{
	return i != DQ && k->t > k->part && k->c->out[i].dtype == DT_BF16;
}

static size_t backward_layout(const struct attention *k, char *at, struct backward_room *r)
{
	const struct compact_kernel *q = k->q;
	char *start = at;

	r->keys = carve(&at, row_bytes(q, k->s, k->d));
	r->values = carve(&at, row_bytes(q, k->s, k->d));
	r->keys_across = carve(&at, panel_bytes(k->d, k->s));
	r->queries = carve(&at, panel_bytes(k->part, k->d));
	r->douts = carve(&at, panel_bytes(k->part, k->d));
	r->queries_across = carve(&at, panel_bytes(k->d, k->part));
	r->douts_across = carve(&at, panel_bytes(k->d, k->part));
	r->lse = carve(&at, (size_t)round_up(k->part, NR) * sizeof *r->lse);
	r->delta = carve(&at, (size_t)round_up(k->part, NR) * sizeof *r->delta);
	r->weights = carve(&at, sum_bytes(q, q->mr, k->part));
	r->slopes = carve(&at, sum_bytes(q, q->mr, k->part));
	r->weight_rows = carve(&at, row_bytes(q, q->mr, k->part));
	r->slope_rows = carve(&at, row_bytes(q, k->s, k->part));
	r->slopes_across = carve(&at, row_bytes(q, k->part, k->s));
	r->out = carve(&at, sum_bytes(q, q->mr, k->d));
	for (int i = 0; i < 2; i++)
		r->row[i] = carve(&at, (size_t)k->d * sizeof **r->row);
	for (int i = DK; i <= DV; i++)
		r->parts[i] = sums_in_floats(k, i) ? carve(&at, (size_t)(k->s * k->d) * sizeof **r->parts) : NULL;
	return (size_t)(at - start);
}

/* Where gradient i of a head is computed. */
static struct operand gradient_of(const struct attention *k, const struct backward_room *r, struct place g, int i)
{
	return sums_in_floats(k, i) ? (struct operand){r->parts[i], k->d, 0} : operand_of(&k->c->out[i], g.b, g.h);
}

/* Rows [at, at + m) of gradient i of a head = x [+ what they are]. */
static void store_rows(const struct attention *k, const struct backward_room *r, struct place g, int i, int64_t at, struct head x, int64_t m, int add)
{
	struct operand y = gradient_of(k, r, g, i);

	for (int64_t j = 0; j < m; j++)
		store_row(&y, at + j, x.at + j * x.ld, k->d, add);
}

/* For one key and n queries: p = exp(scale s - lse), ds = scale p (dp - delta), both in place. */
static void grad_row(float *restrict p, float *restrict dp, float unit, float scale, const float *restrict lse, const float *restrict delta,
                     int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		p[i] = real_exp_down(REAL_FMA(p[i], unit, -lse[i]));
		dp[i] = scale * (p[i] * (dp[i] - delta[i]));
	}
}

/* Scale the scores of a key, and add the bias of n queries from `first` on. */
static void bias_column(const struct attention *k, struct place g, float *p, int64_t key, int64_t first, int64_t n)
{
	const struct array *a = k->bias;
	const float *add = (const float *)a->data + g.b * a->stride[0] + g.h * a->stride[1] + first * a->stride[2] + key;

	for (int64_t i = 0; i < n; i++)
		p[i] = REAL_FMA(p[i], k->scale, add[i * a->stride[2]]);
}

/* dK and dV of keys [at, at + m) from queries [first, first + n), and the gradient of their scores. A row is rounded as soon as it is known, while it
 * is in the first-level cache. */
static void backward_keys(const struct attention *k, const struct backward_room *r, struct place g, int64_t at, int64_t m, int64_t first, int64_t n)
{
	const struct compact_kernel *q = k->q;
	int64_t row = q->row((k->d + 1) / 2), step = q->row((n + 1) / 2), ld = round_up(k->part, NR);
	struct head p = {r->weights, ld}, ds = {r->slopes, ld}, sum = {r->out, round_up(k->d, NR)};
	char *slope_rows = r->slope_rows + at * step;

	multiply(q, p, r->keys + at * row, r->queries, m, n, k->d);
	multiply(q, ds, r->values + at * row, r->douts, m, n, k->d);
	for (int64_t i = 0; i < m; i++) {
		float *pi = p.at + i * ld, *dsi = ds.at + i * ld;
		int64_t blind = k->causal ? min64(n, at + i > first ? at + i - first : 0) : 0; /* queries that do not see this key */

		if (k->bias)
			bias_column(k, g, pi, at + i, first, n);
		memset(pi, 0, (size_t)blind * sizeof *pi);
		memset(dsi, 0, (size_t)blind * sizeof *dsi);
		grad_row(pi + blind, dsi + blind, k->bias ? 1 : k->scale, k->scale, r->lse + blind, r->delta + blind, n - blind);
		q->round(r->weight_rows + i * step, pi, 0, n);
		q->round(slope_rows + i * step, dsi, 0, n);
	}
	multiply(q, sum, r->weight_rows, r->douts_across, m, k->d, n);
	store_rows(k, r, g, DV, at, sum, m, first > 0);
	multiply(q, sum, slope_rows, r->queries_across, m, k->d, n);
	store_rows(k, r, g, DK, at, sum, m, first > 0);
}

/* Queries [first, first + n) of a head, n <= part. */
static void backward_part(const struct attention *k, const struct backward_room *r, struct place g, int64_t first, int64_t n)
{
	const struct compact_kernel *q = k->q;
	const struct array *l = &k->c->in[5];
	const float *lse = (const float *)l->data + g.b * l->stride[0] + g.h * l->stride[1] + first * l->stride[2];
	struct operand query = operand_from(operand_of(&k->c->in[1], g.b, g.h), first);
	struct operand dy = operand_from(operand_of(&k->c->in[0], g.b, g.h), first), o = operand_from(operand_of(&k->c->in[4], g.b, g.h), first);
	struct head sum = {r->out, round_up(k->d, NR)};
	int64_t row = q->row((k->s + 1) / 2), step = q->row((n + 1) / 2);

	pack_transposed(k, r->queries, query, n);
	pack_transposed(k, r->douts, dy, n);
	pack(k, r->queries_across, query, n);
	pack(k, r->douts_across, dy, n);
	for (int64_t i = 0; i < n; i++) {
		prefetch_row(&dy, i + SOON, k->d);
		prefetch_row(&o, i + SOON, k->d);
		load_rounded(r->row[0], &dy, i, k->d);
		load_rounded(r->row[1], &o, i, k->d);
		r->lse[i] = lse[i * l->stride[2]];
		r->delta[i] = lanes_dot(r->row[0], r->row[1], k->d);
	}
	for (int64_t at = 0; at < k->s; at += q->mr)
		backward_keys(k, r, g, at, min64(q->mr, k->s - at), first, n);
	q->across(r->slopes_across, r->slope_rows, !q->floats, step / (int64_t)(q->floats ? sizeof(float) : sizeof(uint16_t)), n, k->s);
	for (int64_t i = 0; i < n; i += q->mr) {
		int64_t m = min64(q->mr, n - i);

		for (int64_t j = 0; j < k->d; j += NR)
			q->tile_across(sum.at + j, sum.ld, r->slopes_across + i * row, panel_at(r->keys_across, j, k->s), (k->s + 1) / 2, m);
		store_rows(k, r, g, DQ, first + i, sum, m, 0);
	}
}

static void backward_item(const struct attention *k, int64_t item, char *scratch)
{
	const struct op_call *c = k->c;
	struct place g = {item / k->heads, item % k->heads};
	struct operand key = operand_of(&c->in[2], g.b, g.h), v = operand_of(&c->in[3], g.b, g.h);
	struct backward_room r;

	backward_layout(k, scratch, &r);
	round_rows(k->q, r.keys, key, k->s, k->d);
	round_rows(k->q, r.values, v, k->s, k->d);
	pack(k, r.keys_across, key, k->s);
	for (int64_t first = 0; first < k->t; first += k->part)
		backward_part(k, &r, g, first, min64(k->part, k->t - first));
	for (int i = DK; i <= DV; i++) {
		struct operand y = operand_of(&c->out[i], g.b, g.h);

		for (int64_t j = 0; sums_in_floats(k, i) && j < k->s; j++)
			store_row(&y, j, r.parts[i] + j * k->d, k->d, 0);
	}
}

static void backward_task(void *arg, int64_t task, int worker)
{
	items_do(arg, task, worker, backward_item);
}

static void backward_init(struct attention *k, const struct op_call *c)
{
	struct backward_room r;
	int64_t most;

	attention_init(k, c, &c->in[1], &c->in[2]);
	k->bias = c->nin > 6 && c->in[6].data ? &c->in[6] : NULL;
	most = SCORES / k->s / NR * NR;
	k->part = min64(most > FEWEST ? most : FEWEST, round_up(k->t, NR));
	k->stride = backward_layout(k, c->scratch, &r);
}

void attention_bf16_grad_run(const struct op_call *c)
{
	struct attention k;

	backward_init(&k, c);
	items_run(&k, c->in[0].shape[SAMPLE] * k.heads, backward_task);
}

size_t attention_bf16_grad_scratch(const struct op_call *c, int workers)
{
	struct attention k;

	backward_init(&k, c);
	return k.stride * (size_t)workers;
}
