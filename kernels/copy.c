/* COPY and FILL on the CPU, for arrays of any strides. */
#include <assert.h>

#include "kernels/walk.h"

/* Elements of any type are copied as words of their size. */
typedef uint32_t __attribute__((may_alias)) word4;
typedef uint64_t __attribute__((may_alias)) word8;

enum { TILE = 32, LONG = 16, SLAB = 3 };

/* The last SLAB dimensions form a slab, copied by one loop nest; the other dimensions are walked. A slab contains the dense dimension of y
 * and that of x, so that both sides use whole cache lines. */
struct copy {
	const struct op_call *c;
	struct walk w;
	size_t size; /* of an element */
	int64_t slabs, slabs_task;
	int cut; /* a large slab is divided along this dimension into pieces of `step` */
	int64_t step, cuts;
};

#define MOVE(word) \
	static void plane_##word(word *restrict y, const word *restrict x, int64_t m, int64_t n, const int64_t ys[2], const int64_t xs[2]) \
	{ \
		for (int64_t i = 0; i < m; i++) \
			for (int64_t j = 0; j < n; j++) \
				y[i * ys[0] + j * ys[1]] = x[i * xs[0] + j * xs[1]]; \
	} \
	static void rows_##word(word *restrict y, const word *restrict x, int64_t m, int64_t n, const int64_t ys[2], const int64_t xs[2]) \
	{ \
		for (int64_t i = 0; i < m; i++) \
			memcpy(y + i * ys[0], x + i * xs[0], (size_t)n * sizeof *y); \
	} \
	static void tiles_##word(word *restrict y, const word *restrict x, int64_t m, int64_t n, const int64_t ys[2], const int64_t xs[2]) \
	{ \
		for (int64_t i = 0; i < m; i += TILE) \
			for (int64_t j = 0; j < n; j += TILE) \
				plane_##word(y + i * ys[0] + j * ys[1], x + i * xs[0] + j * xs[1], m - i < TILE ? m - i : TILE, \
				             n - j < TILE ? n - j : TILE, ys, xs); \
	} \
	static void slab_##word(void *y, const void *x, int64_t yo, int64_t xo, const int64_t n[SLAB], const int64_t ys[SLAB], \
	                        const int64_t xs[SLAB]) \
	{ \
		int dense = ys[2] == 1 && xs[2] == 1 && n[2] >= LONG; \
		for (int64_t i = 0; i < n[0]; i++) \
			(dense         ? rows_##word \
			 : n[1] > TILE ? tiles_##word \
			               : plane_##word)((word *)y + yo + i * ys[0], (const word *)x + xo + i * xs[0], n[1], n[2], ys + 1, xs + 1); \
	}
MOVE(word4)
MOVE(word8)

static void copy_task(void *arg, int64_t task, int worker)
{
	const struct copy *k = arg;
	struct walk outer = k->w;
	int inner = outer.rank - SLAB;
	int64_t first = task / k->cuts * k->slabs_task, at = task % k->cuts * k->step, n[SLAB];
	int64_t last = first + k->slabs_task < k->slabs ? first + k->slabs_task : k->slabs;
	const int64_t *ys = k->w.stride[0] + inner, *xs = k->w.stride[1] + inner;
	struct walk_pos pos;

	(void)worker;
	memcpy(n, k->w.shape + inner, sizeof n);
	n[k->cut] = n[k->cut] - at < k->step ? n[k->cut] - at : k->step;
	outer.rank = inner + 1;
	walk_seek(&outer, first, &pos);
	for (int64_t s = first; s < last; s++) {
		(k->size == 4 ? slab_word4 : slab_word8)(k->c->out[0].data, k->c->in[0].data, pos.offset[0] + at * ys[k->cut],
		                                         pos.offset[1] + at * xs[k->cut], n, ys, xs);
		walk_step(&outer, &pos);
	}
}

static void swap_dims(struct walk *w, int a, int b)
{
	int64_t t = w->shape[a];

	w->shape[a] = w->shape[b];
	w->shape[b] = t;
	for (int i = 0; i < w->arrays; i++) {
		t = w->stride[i][a];
		w->stride[i][a] = w->stride[i][b];
		w->stride[i][b] = t;
	}
}

/* Move dimension `from` up to position `to`; the dimensions between keep their order. */
static void move_dim(struct walk *w, int from, int to)
{
	for (; from < to; from++)
		swap_dims(w, from, from + 1);
}

static void sort_by_output(struct walk *w)
{
	for (int a = 1; a < w->rank; a++)
		for (int b = a; b > 0 && llabs(w->stride[0][b - 1]) < llabs(w->stride[0][b]); b--)
			swap_dims(w, b - 1, b);
}

static int densest_in_input(const struct walk *w)
{
	int best = w->rank - 1;

	for (int d = w->rank - 2; d >= 0; d--)
		if (w->stride[1][d] && (!w->stride[1][best] || llabs(w->stride[1][d]) < llabs(w->stride[1][best])))
			best = d;
	return best;
}

/* Choose the slab and the order of its loops. Rows that are dense on both sides are copied directly, two long dimensions in tiles. If one is
 * short (patches of an image), the next dimension that is not short joins the slab, and the longest of the three becomes the inner loop. */
static void choose_slab(struct walk *w)
{
	int r = w->rank, dense = densest_in_input(w), third;

	assert(r >= SLAB);
	if (w->stride[1][r - 1] == 1 && w->shape[r - 1] >= LONG)
		return;
	if (dense < r - 1)
		move_dim(w, dense, r - 2);
	if (w->shape[r - 1] >= LONG && w->shape[r - 2] >= LONG)
		return;
	for (third = r - SLAB; third > 0 && w->shape[third] < LONG / 2; third--)
		;
	move_dim(w, third, r - SLAB);
	if (w->shape[r - 3] > w->shape[r - 2])
		swap_dims(w, r - 3, r - 2);
	if (w->shape[r - 2] > w->shape[r - 1])
		swap_dims(w, r - 2, r - 1);
	if (w->shape[r - 3] > w->shape[r - 2])
		swap_dims(w, r - 3, r - 2);
}

/* Prepend dimensions of size 1 up to rank SLAB. */
static void pad_rank(struct walk *w)
{
	int more = SLAB - w->rank;

	for (int d = SLAB - 1; d >= 0 && more > 0; d--) {
		w->shape[d] = d < more ? 1 : w->shape[d - more];
		for (int a = 0; a < w->arrays; a++)
			w->stride[a][d] = d < more ? 0 : w->stride[a][d - more];
	}
	w->rank = more > 0 ? SLAB : w->rank;
}

static void copy_run(const struct op_call *c)
{
	struct copy k = {.c = c, .size = dtype_size(c->out[0].dtype)};
	struct walk *w = &k.w;
	int64_t count = array_count(&c->out[0]), slab, *n;

	if (!count)
		return;
	walk_init(w, &c->out[0]);
	walk_add(w, &c->out[0]);
	walk_add(w, &c->in[0]);
	sort_by_output(w);
	walk_merge(w, 0, 0);
	pad_rank(w);
	choose_slab(w);
	n = w->shape + w->rank - SLAB;
	slab = n[0] * n[1] * n[2];
	k.slabs = count / slab;
	k.slabs_task = slab < WALK_GRAIN ? WALK_GRAIN / slab : 1;
	k.cut = n[0] > 1 ? 0 : n[1] > 1 ? 1 : 2;
	k.step = WALK_GRAIN / (slab / n[k.cut]);
	k.step = k.step < TILE ? TILE : k.step / TILE * TILE;
	k.cuts = (n[k.cut] + k.step - 1) / k.step;
	walk_run(c, count, (k.slabs + k.slabs_task - 1) / k.slabs_task * k.cuts, copy_task, &k);
}

static void fill_span(const struct each *e, real *const p[], int64_t n)
{
	real v = (real)e->c->attr.fill.value;
	int64_t s = each_step(e, 0);

	if (s == 1)
		for (int64_t i = 0; i < n; i++)
			p[0][i] = v;
	else
		for (int64_t i = 0; i < n; i++)
			p[0][i * s] = v;
}

static void fill_run(const struct op_call *c)
{
	struct each e;

	each_init(&e, c, &c->out[0]);
	each_add(&e, &c->out[0]);
	each_run(&e, fill_span);
}

const struct kernel REAL_NAME(kernel_copy) = {copy_run, NULL};
const struct kernel REAL_NAME(kernel_fill) = {fill_run, NULL};
