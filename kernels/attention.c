/* ATTENTION and its gradient on the CPU. Each (sample, head) is processed in blocks of queries, so that a block of scores stays in cache. A block
 * holds the scores of its queries against all keys, so the softmax needs no rescaling. The backward pass recomputes the weights from
 * the stored log of the denominator (Dao et al., "FlashAttention", 2022, section B.2). Heads of few tokens have kernels of their own
 * (kernels/attentionshort.c). */
#include <assert.h>

#include "kernels/attentionhead.h"
#include "kernels/attentionshort.h"
#include "kernels/attention_bf16.h"
#include "kernels/gemm.h"
#include "kernels/walk.h"

enum {
	SCORES = 131072, /* scores of a block, about: half a megabyte */
	QUERIES = 96,    /* least queries of a block, because each block packs the keys again */
	TASKS = 64,
	TASKS_EACH = 4, /* with fewer heads per worker, blocks are made smaller */
	ALIGN = 64 / sizeof(real)
};

struct attention {
	const struct op_call *c;
	int64_t heads, t, s, d, block;     /* t, s: queries and keys of a head; block: queries of a block */
	int64_t blocks, items, items_task; /* an item is a block of a head; in the gradient, a head */
	int causal;
	real scale;
	const struct array *bias; /* NULL: none */
	char *scratch;
	size_t stride; /* of scratch, per worker */
};

/* The number of queries of a block, about `most` at most. In the forward pass a block is a task. A small remainder is distributed over the
 * other blocks, because a block of its own would pack all keys once more. */
static int64_t block_size(int64_t t, int64_t s, int64_t most)
{
	int64_t n = SCORES / s / 16 * 16, shared;

	n = n < QUERIES ? QUERIES : n > most ? most : n;
	if (n >= t)
		return t;
	shared = (t + t / n - 1) / (t / n);
	return shared <= n + n / 8 ? shared : n;
}

static void attention_init(struct attention *k, const struct op_call *c, const struct array *q, const struct array *key, int64_t most)
{
	*k = (struct attention){.c = c, .scratch = c->scratch, .scale = (real)c->attr.attention.scale, .causal = c->attr.attention.causal};
	k->t = q->shape[TOKEN];
	k->heads = q->shape[HEAD];
	k->d = q->shape[CHANNEL];
	k->s = key->shape[TOKEN];
	k->block = block_size(k->t, k->s, most);
	k->blocks = (k->t + k->block - 1) / k->block;
}

static int is_short(const struct attention *k)
{
	return k->t <= ATTENTION_SHORT && k->s <= ATTENTION_SHORT && !k->bias;
}

/* The larger of `bytes` and what a short head needs. Whether there is a bias is not known yet when this is asked. */
static size_t or_short(const struct attention *k, size_t bytes)
{
	size_t n = k->t <= ATTENTION_SHORT && k->s <= ATTENTION_SHORT ? REAL_NAME(attention_short_bytes)(k->d) : 0;

	return n > bytes ? n : bytes;
}

static size_t rounded(int64_t n)
{
	return (size_t)((n + ALIGN - 1) / ALIGN * ALIGN);
}

/* c (m, n) = op(a) (m, k) op(b) (k, n) [+ c]. */
static void product(struct head c, struct head a, enum gemm_trans ta, struct head b, enum gemm_trans tb, int64_t m, int64_t n, int64_t k,
                    int accumulate, void *scratch)
{
	struct gemm g = {.ta = ta, .tb = tb, .m = m, .n = n, .k = k, .lda = a.ld, .ldb = b.ld, .ldc = c.ld, .accumulate = accumulate};

	REAL_NAME(gemm_serial)(&g, c.at, a.at, b.at, NULL, scratch);
}

static size_t product_scratch(int64_t m, int64_t n, int64_t k, enum gemm_trans ta, enum gemm_trans tb)
{
	struct gemm g = {.ta = ta, .tb = tb, .m = m, .n = n, .k = k, .ldc = n};

	g.lda = ta == GEMM_N ? k : m;
	g.ldb = tb == GEMM_N ? n : k;
	return (REAL_NAME(gemm_scratch)(&g, 1) + 63) / 64 * 64;
}

static void scale_row(real *y, real f, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] *= f;
}

/* The operands of item + 1, if a head is one block. */
static struct hint next_heads(const struct attention *k, int64_t item, const struct array *const a[], int n)
{
	struct hint t = {.bytes = k->d * (int64_t)sizeof(real)};

	if (k->blocks > 1 || k->t > k->s || ++item >= k->items)
		return t;
	for (t.n = 0; t.n < n; t.n++)
		t.at[t.n] = head_of(a[t.n], item / k->heads, item % k->heads);
	return t;
}

static void attention_item(const struct attention *k, int64_t item, real *scratch)
{
	const struct op_call *c = k->c;
	int64_t b = item / k->blocks / k->heads, h = item / k->blocks % k->heads, first = item % k->blocks * k->block;
	int64_t m = k->t - first < k->block ? k->t - first : k->block, n = k->s;
	struct head q = head_of(&c->in[0], b, h), key = head_of(&c->in[1], b, h), v = head_of(&c->in[2], b, h);
	struct head o = head_of(&c->out[0], b, h), p = {scratch, 0};
	struct hint next = next_heads(k, item, (const struct array *[]){&c->in[0], &c->in[1], &c->in[2]}, 3);
	const struct array *l = &c->out[1];
	real *lse = (real *)l->data + b * l->stride[0] + h * l->stride[1] + first * l->stride[2];
	real *share = scratch + rounded(k->block * k->s), *log_sum = share + rounded(k->block);
	void *rest = log_sum + rounded(k->block);

	if (k->causal && n > first + m)
		n = first + m;
	p.ld = n;
	q.at += first * q.ld;
	o.at += first * o.ld;
	product(p, q, GEMM_N, key, GEMM_T, m, n, k->d, 0, rest);
	if (k->bias)
		bias_rows(k->bias, p, k->scale, b, h, first, m, n);
	softmax_rows(p, k->bias ? 1 : k->scale, m, n, k->causal ? first + 1 : n, share, log_sum, &next);
	for (int64_t i = 0; i < m; i++)
		lse[i * l->stride[2]] = log_sum[i];
	product(o, p, GEMM_N, v, GEMM_N, m, k->d, n, 0, rest);
	for (int64_t i = 0; i < m; i++)
		scale_row(o.at + i * o.ld, share[i], k->d);
}

static void attention_task(void *arg, int64_t task, int worker)
{
	const struct attention *k = arg;
	int64_t last = (task + 1) * k->items_task < k->items ? (task + 1) * k->items_task : k->items;
	const struct op_call *c = k->c;
	char *scratch = k->scratch + (size_t)worker * k->stride;

	if (is_short(k))
		REAL_NAME(attention_short_begin)(scratch, k->d);
	for (int64_t i = task * k->items_task; i < last; i++)
		if (is_short(k)) {
			struct hint next = next_heads(k, i, (const struct array *[]){&c->in[0], &c->in[1], &c->in[2]}, 3);

			REAL_NAME(attention_short)(c, i / k->heads, i % k->heads, scratch, &next);
		} else {
			attention_item(k, i, (real *)scratch);
		}
}

static void items_run(struct attention *k, int64_t items, void (*fn)(void *, int64_t, int))
{
	k->items = items;
	k->items_task = items / TASKS > 1 ? items / TASKS : 1;
	walk_run(k->c, items * k->t * k->s / k->blocks, (items + k->items_task - 1) / k->items_task, fn, k);
}

static size_t attention_stride(const struct attention *k)
{
	size_t a = product_scratch(k->block, k->s, k->d, GEMM_N, GEMM_T), b = product_scratch(k->block, k->d, k->s, GEMM_N, GEMM_N);

	return or_short(k, (rounded(k->block * k->s) + 2 * rounded(k->block)) * sizeof(real) + (a > b ? a : b));
}

/* The most queries of a block of the forward pass. Blocks are smaller if there are few heads, because they are the pool's tasks, and under a causal
 * mask, because a block computes the scores of all keys up to its last query. */
static int64_t forward_most(const struct op_call *c, int workers)
{
	int64_t heads = c->in[0].shape[SAMPLE] * c->in[0].shape[HEAD];

	return c->attr.attention.causal || heads < (int64_t)workers * TASKS_EACH ? 128 : 256;
}

static void attention_run(const struct op_call *c)
{
	struct attention k;

	if (device_has_bf16_products(c->device)) {
		attention_bf16_run(c);
		return;
	}
	attention_init(&k, c, &c->in[0], &c->in[1], forward_most(c, pool_threads(c->pool)));
	assert(k.scale > 0);
	k.bias = c->nin > 3 && c->in[3].data ? &c->in[3] : NULL;
	k.stride = attention_stride(&k);
	items_run(&k, c->in[0].shape[SAMPLE] * k.heads * k.blocks, attention_task);
}

static size_t attention_scratch(const struct op_call *c, int workers)
{
	struct attention k;

	if (device_has_bf16_products(c->device))
		return attention_bf16_scratch(c, workers);
	attention_init(&k, c, &c->in[0], &c->in[1], forward_most(c, workers));
	return attention_stride(&k) * (size_t)workers;
}

/* ds = scale p (dp - delta), p from the scores times `unit`, both in place. */
static void grad_row(real *restrict p, real *restrict dp, real unit, real scale, real lse, real delta, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		p[i] = real_exp_down(REAL_FMA(p[i], unit, -lse));
		dp[i] = scale * (p[i] * (dp[i] - delta));
	}
}

/* Queries [first, first + m) of one head. */
static void grad_block(const struct attention *k, const struct grad_heads *g, const real *lse, int64_t lse_step, int64_t first, int64_t m,
                       real *scratch, const struct hint *next)
{
	int64_t n = k->causal && k->s > first + m ? first + m : k->s;
	int add = first > 0;
	struct head p = {scratch, n}, dp = {scratch + rounded(k->block * k->s), n};
	struct head o = {g->o.at + first * g->o.ld, g->o.ld}, dy = {g->dy.at + first * g->dy.ld, g->dy.ld};
	struct head q = {g->q.at + first * g->q.ld, g->q.ld}, dq = {g->dq.at + first * g->dq.ld, g->dq.ld};
	void *rest = dp.at + rounded(k->block * k->s);

	product(p, q, GEMM_N, g->key, GEMM_T, m, n, k->d, 0, rest);
	product(dp, dy, GEMM_N, g->v, GEMM_T, m, n, k->d, 0, rest);
	if (k->bias)
		bias_rows(k->bias, p, k->scale, g->b, g->h, first, m, n);
	for (int64_t i = 0; i < m; i++) {
		int64_t seen = k->causal && first + i + 1 < n ? first + i + 1 : n;
		real delta;

		hint_row(next, i);
		delta = lanes_dot(dy.at + i * dy.ld, o.at + i * o.ld, k->d);
		grad_row(p.at + i * n, dp.at + i * n, k->bias ? 1 : k->scale, k->scale, lse[i * lse_step], delta, seen);
		for (; seen < n; seen++)
			p.at[i * n + seen] = dp.at[i * n + seen] = 0;
	}
	product(g->dv, p, GEMM_T, dy, GEMM_N, n, k->d, m, add, rest);
	product(dq, dp, GEMM_N, g->key, GEMM_N, m, k->d, n, 0, rest);
	product(g->dk, dp, GEMM_T, q, GEMM_N, n, k->d, m, add, rest);
}

static struct hint grad_hint(const struct attention *k, int64_t item)
{
	const struct op_call *c = k->c;

	return next_heads(k, item,
	                  (const struct array *[]){&c->in[0], &c->in[1], &c->in[2], &c->in[3], &c->in[4], &c->out[0], &c->out[1], &c->out[2]}, 8);
}

static void attention_grad_item(const struct attention *k, int64_t item, real *scratch)
{
	const struct op_call *c = k->c;
	int64_t b = item / k->heads, h = item % k->heads;
	struct grad_heads g = grad_heads_of(c, b, h);
	const struct array *l = &c->in[5];
	const real *lse = (const real *)l->data + b * l->stride[0] + h * l->stride[1];
	struct hint next = grad_hint(k, item);

	if (k->causal)
		for (int64_t s = 0; s < k->s; s++) {
			memset(g.dk.at + s * g.dk.ld, 0, (size_t)k->d * sizeof(real));
			memset(g.dv.at + s * g.dv.ld, 0, (size_t)k->d * sizeof(real));
		}
	for (int64_t t = 0; t < k->t; t += k->block)
		grad_block(k, &g, lse + t * l->stride[2], l->stride[2], t, k->t - t < k->block ? k->t - t : k->block, scratch, &next);
}

static void attention_grad_task(void *arg, int64_t task, int worker)
{
	const struct attention *k = arg;
	int64_t last = (task + 1) * k->items_task < k->items ? (task + 1) * k->items_task : k->items;
	char *scratch = k->scratch + (size_t)worker * k->stride;

	if (is_short(k))
		REAL_NAME(attention_short_begin)(scratch, k->d);
	for (int64_t i = task * k->items_task; i < last; i++)
		if (is_short(k)) {
			struct hint next = grad_hint(k, i);

			REAL_NAME(attention_short_grad)(k->c, i / k->heads, i % k->heads, scratch, &next);
		} else {
			attention_grad_item(k, i, (real *)scratch);
		}
}

static size_t grad_stride(const struct attention *k)
{
	size_t need[] = {product_scratch(k->block, k->s, k->d, GEMM_N, GEMM_T), product_scratch(k->block, k->d, k->s, GEMM_N, GEMM_N),
	                 product_scratch(k->s, k->d, k->block, GEMM_T, GEMM_N)};
	size_t most = 0;

	for (size_t i = 0; i < sizeof need / sizeof *need; i++)
		most = need[i] > most ? need[i] : most;
	return or_short(k, 2 * rounded(k->block * k->s) * sizeof(real) + most);
}

static void attention_grad_run(const struct op_call *c)
{
	struct attention k;

	if (device_has_bf16_products(c->device)) {
		attention_bf16_grad_run(c);
		return;
	}
	attention_init(&k, c, &c->in[1], &c->in[2], 256);
	k.bias = c->nin > 6 && c->in[6].data ? &c->in[6] : NULL;
	k.stride = grad_stride(&k);
	items_run(&k, c->in[0].shape[SAMPLE] * k.heads, attention_grad_task);
}

static size_t attention_grad_scratch(const struct op_call *c, int workers)
{
	struct attention k;

	if (device_has_bf16_products(c->device))
		return attention_bf16_grad_scratch(c, workers);
	attention_init(&k, c, &c->in[1], &c->in[2], 256);
	return grad_stride(&k) * (size_t)workers;
}

const struct kernel REAL_NAME(kernel_attention) = {attention_run, attention_scratch};
const struct kernel REAL_NAME(kernel_attention_grad) = {attention_grad_run, attention_grad_scratch};
