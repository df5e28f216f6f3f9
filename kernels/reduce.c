/* SUM on the CPU. */
#include "kernels/device.h"

#include "kernels/lanes.h"
#include "kernels/walk.h"

/* Sums over some dimensions, with the kept ones as outer loops. `kept` walks x (array 0) and y (array 1), `summed` walks x. The summed
 * elements, in index order, are divided into groups of fixed size. Each group is summed from zero, and then the groups' sums. */
enum { COLS = 512, GROUP_ROWS = 64, PIECE = 4096 };

struct sum {
	const struct op_call *c;
	struct walk kept, summed;
	int rows;              /* 1: sum along runs of x's last summed dimension (array_sums_runs); 0: add rows of columns */
	int64_t outer, cols;   /* of `kept`: number of rows, and size of the last dimension */
	int64_t cuts;          /* number of parts that cols is divided into */
	int64_t groups, group; /* number of groups, and size of one in rows of `summed` or pieces of its last dimension */
	int64_t pieces;        /* number of pieces of the last summed dimension, when summing runs */
	int64_t items, items_task;
	real *part; /* [groups][outer * cols] when groups > 1 */
};

static void store(const struct sum *s, int64_t group, int64_t row, const struct walk_pos *p, int64_t col, int64_t n, const real *v)
{
	int64_t ys = s->kept.stride[1][s->kept.rank - 1];
	real f = (real)s->c->attr.sum.factor;

	if (s->groups > 1) {
		memcpy(s->part + (group * s->outer + row) * s->cols + col, v, (size_t)n * sizeof *v);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		((real *)s->c->out[0].data)[p->offset[1] + (col + i) * ys] = f * v[i];
}

static void add_columns(real *restrict acc, const real *restrict x, int64_t step, int64_t n)
{
	if (step == 1)
		for (int64_t i = 0; i < n; i++)
			acc[i] += x[i];
	else
		for (int64_t i = 0; i < n; i++)
			acc[i] += x[i * step];
}

static void columns_item(const struct sum *s, int64_t item)
{
	int64_t cut = item % s->cuts, row = item / s->cuts % s->outer, group = item / s->cuts / s->outer;
	int64_t col = cut * COLS, n = s->cols - col < COLS ? s->cols - col : COLS;
	int64_t first = group * s->group, all = walk_rows(&s->summed), last = first + s->group < all ? first + s->group : all;
	int64_t step = s->kept.stride[0][s->kept.rank - 1];
	const real *x = s->c->in[0].data;
	struct walk_pos k, r;
	real acc[COLS] = {0};

	walk_seek(&s->kept, row, &k);
	walk_seek(&s->summed, first, &r);
	for (int64_t i = first; i < last; i++) {
		add_columns(acc, x + k.offset[0] + r.offset[0] + col * step, step, n);
		walk_step(&s->summed, &r);
	}
	store(s, group, row, &k, col, n, acc);
}

static real piece_sum(const real *x, int64_t step, int64_t n)
{
	real dense[PIECE];

	if (step == 1)
		return lanes_sum(x, n);
	for (int64_t i = 0; i < n; i++)
		dense[i] = x[i * step];
	return lanes_sum(dense, n);
}

static void runs_item(const struct sum *s, int64_t item)
{
	int64_t kept = item % (s->outer * s->cols), group = item / (s->outer * s->cols);
	int64_t run = s->summed.shape[s->summed.rank - 1], step = s->summed.stride[0][s->summed.rank - 1];
	int64_t first = group * s->group, all = walk_rows(&s->summed) * s->pieces;
	int64_t last = first + s->group < all ? first + s->group : all;
	int64_t col = kept % s->cols, row = kept / s->cols;
	const real *x = s->c->in[0].data;
	struct walk_pos k, r;
	real acc = 0;

	walk_seek(&s->kept, row, &k);
	x += k.offset[0] + col * s->kept.stride[0][s->kept.rank - 1];
	walk_seek(&s->summed, first / s->pieces, &r);
	for (int64_t i = first; i < last; i++) {
		int64_t at = i % s->pieces * PIECE, n = run - at < PIECE ? run - at : PIECE;

		acc += piece_sum(x + r.offset[0] + at * step, step, n);
		if ((i + 1) % s->pieces == 0)
			walk_step(&s->summed, &r);
	}
	store(s, group, row, &k, col, 1, &acc);
}

static void sum_task(void *arg, int64_t task, int worker)
{
	const struct sum *s = arg;
	int64_t last = (task + 1) * s->items_task < s->items ? (task + 1) * s->items_task : s->items;

	(void)worker;
	for (int64_t i = task * s->items_task; i < last; i++)
		if (s->rows)
			runs_item(s, i);
		else
			columns_item(s, i);
}

static void combine_task(void *arg, int64_t task, int worker)
{
	const struct sum *s = arg;
	int64_t row = task / s->cuts, col = task % s->cuts * COLS, n = s->cols - col < COLS ? s->cols - col : COLS;
	struct sum last = *s;
	struct walk_pos k;
	real acc[COLS] = {0};

	(void)worker;
	for (int64_t g = 0; g < s->groups; g++)
		add_columns(acc, s->part + (g * s->outer + row) * s->cols + col, 1, n);
	walk_seek(&s->kept, row, &k);
	last.groups = 1;
	store(&last, 0, row, &k, col, n, acc);
}

/* Split x's dimensions into kept and summed ones. Each walk has at least one dimension, of size 1 if there is no other. */
static void split(struct sum *s)
{
	const struct array *x = &s->c->in[0], *y = &s->c->out[0];

	walk_init(&s->kept, x);
	walk_init(&s->summed, x);
	s->kept.arrays = 2;
	s->summed.arrays = 1;
	s->kept.rank = s->summed.rank = 0;
	for (int d = 0; d < x->rank; d++) {
		struct walk *w = y->shape[d] == 1 && x->shape[d] != 1 ? &s->summed : &s->kept;

		if (x->shape[d] == 1)
			continue;
		w->shape[w->rank] = x->shape[d];
		w->stride[0][w->rank] = x->stride[d];
		w->stride[1][w->rank] = y->stride[d];
		w->rank++;
	}
	for (struct walk *w = &s->kept;; w = &s->summed) {
		if (!w->rank) {
			w->shape[0] = 1;
			w->stride[0][0] = w->stride[1][0] = 0;
			w->rank = 1;
		}
		walk_merge(w, 0, 0);
		if (w == &s->summed)
			break;
	}
}

static void sum_run(const struct op_call *c)
{
	struct sum s = {.c = c, .part = c->scratch};
	int64_t run, all, count = array_count(&c->in[0]);

	if (!array_count(&c->out[0]))
		return;
	split(&s);
	if (!count)
		s.summed.shape[s.summed.rank - 1] = 0;
	run = s.summed.shape[s.summed.rank - 1];
	all = walk_rows(&s.summed);
	s.outer = walk_rows(&s.kept);
	s.cols = s.kept.shape[s.kept.rank - 1];
	s.rows = count && run * all > 1 && array_sums_runs(&c->in[0], &c->out[0]);
	s.cuts = (s.cols + COLS - 1) / COLS;
	if (s.rows) {
		s.pieces = (run + PIECE - 1) / PIECE;
		s.group = run < PIECE ? PIECE / run : 1;
		s.groups = (all * s.pieces + s.group - 1) / s.group;
		s.items = s.groups * s.outer * s.cols;
	} else {
		struct walk *w = &s.summed; /* its last dimension becomes a dimension of rows */

		w->shape[w->rank] = 1;
		w->stride[0][w->rank++] = 0;
		s.group = GROUP_ROWS;
		s.groups = count ? (all * run + s.group - 1) / s.group : 1;
		s.items = s.groups * s.outer * s.cuts;
	}
	s.items_task = s.items * WALK_GRAIN / (count + 1);
	s.items_task = s.items_task > 1 ? s.items_task : 1;
	walk_run(c, count, (s.items + s.items_task - 1) / s.items_task, sum_task, &s);
	if (s.groups > 1)
		walk_run(c, s.groups * s.outer * s.cols, s.outer * s.cuts, combine_task, &s);
}

/* There is at most one group per GROUP_ROWS summed elements; each stores as many sums as y has elements. */
static size_t sum_scratch(const struct op_call *c, int workers)
{
	int64_t kept = array_count(&c->out[0]), n = kept ? array_count(&c->in[0]) / kept : 0;

	(void)workers;
	return (size_t)(kept * (n / GROUP_ROWS + 1)) * sizeof(real);
}

const struct kernel REAL_NAME(kernel_sum) = {sum_run, sum_scratch};
