/* Row kernels that also sum over rows: each row of every array is visited once, and row values are summed over the dimensions in
 * which an output has size 1. Kept dimensions are the outer loops. The summed rows, in index order, are divided into groups of
 * FOLD_ROWS; a group is one item of work, and the groups' sums are added in order. */
#ifndef DDM_KERNELS_FOLD_H
#define DDM_KERNELS_FOLD_H

#include "kernels/walk.h"

enum { FOLD_ROWS = 64, FOLD_OUTS = 2 };

struct fold {
	const struct op_call *c;
	struct walk w;
	void *base[WALK_ARRAYS];
	size_t size[WALK_ARRAYS];           /* of an element */
	const struct array *out[FOLD_OUTS]; /* sums, NULL if absent; all over the same dimensions */
	int place[FOLD_OUTS];               /* index of each in the walk's arrays */
	int64_t cols, width;                /* columns of the rows, and of the sums */
	int64_t kept, summed, groups, items_task;
	real *part; /* [kept][groups][FOLD_OUTS][width] when groups > 1 */
	/* Process one row of each array, and add its values to sum[o], which is NULL for an absent output. A row of an array
	 * in bf16 is one of uint16_t; only some kernels allow such arrays. */
	void (*row)(const struct fold *f, real *const p[], real *const sum[]);
};

static inline void fold_init(struct fold *f, const struct op_call *c, const struct array *like)
{
	memset(f, 0, sizeof *f);
	f->c = c;
	f->part = c->scratch;
	walk_init(&f->w, like);
	f->cols = f->w.shape[f->w.rank - 1];
}

static inline void fold_add(struct fold *f, const struct array *a)
{
	f->base[f->w.arrays] = a->data;
	f->size[f->w.arrays] = a->dtype == DT_BF16 ? sizeof(uint16_t) : sizeof(real);
	walk_add(&f->w, a);
}

/* Request sums into `a`, as output o. Call after every fold_add. */
static inline void fold_sum(struct fold *f, int o, const struct array *a)
{
	f->out[o] = a;
	f->place[o] = f->w.arrays;
	f->width = a->shape[a->rank - 1];
	fold_add(f, a);
}

static inline void fold_rows(const struct fold *f, int64_t first, int64_t last, real *const to[])
{
	struct walk_pos pos;

	walk_seek(&f->w, first, &pos);
	for (int o = 0; o < FOLD_OUTS; o++)
		if (to[o])
			memset(to[o], 0, (size_t)f->width * sizeof(real));
	for (int64_t r = first; r < last; r++) {
		real *p[WALK_ARRAYS];

		for (int a = 0; a < f->w.arrays; a++)
			p[a] = f->base[a] ? (void *)((char *)f->base[a] + pos.offset[a] * (int64_t)f->size[a]) : NULL;
		f->row(f, p, to);
		walk_step(&f->w, &pos);
	}
}

/* The address in output o of the sums for kept index k. */
static inline real *fold_out(const struct fold *f, int o, int64_t k)
{
	struct walk_pos pos;

	walk_seek(&f->w, k * f->summed, &pos);
	return (real *)f->base[f->place[o]] + pos.offset[f->place[o]];
}

static inline void fold_task(void *arg, int64_t task, int worker)
{
	const struct fold *f = arg;
	int64_t items = f->kept * f->groups, end = (task + 1) * f->items_task < items ? (task + 1) * f->items_task : items;

	(void)worker;
	for (int64_t i = task * f->items_task; i < end; i++) {
		int64_t k = i / f->groups, first = i % f->groups * FOLD_ROWS;
		int64_t last = first + FOLD_ROWS < f->summed ? first + FOLD_ROWS : f->summed;
		real *to[FOLD_OUTS];

		for (int o = 0; o < FOLD_OUTS; o++)
			to[o] = !f->out[o] ? NULL : f->groups > 1 ? f->part + (i * FOLD_OUTS + o) * f->width : fold_out(f, o, k);
		fold_rows(f, k * f->summed + first, k * f->summed + last, to);
	}
}

static inline void fold_combine(void *arg, int64_t task, int worker)
{
	const struct fold *f = arg;

	(void)worker;
	for (int o = 0; o < FOLD_OUTS; o++) {
		real *restrict y;

		if (!f->out[o])
			continue;
		y = fold_out(f, o, task);
		memset(y, 0, (size_t)f->width * sizeof *y);
		for (int64_t g = 0; g < f->groups; g++) {
			const real *x = f->part + ((task * f->groups + g) * FOLD_OUTS + o) * f->width;

			for (int64_t i = 0; i < f->width; i++)
				y[i] += x[i];
		}
	}
}

/* Put the kept dimensions first, in order, and merge neighbours among the kept and among the summed ones. Without sums all are kept. */
static inline void fold_arrange(struct fold *f)
{
	const struct array *a = f->out[0] ? f->out[0] : f->out[1];
	struct walk in = f->w;
	int n = 0, kept = 0;

	f->kept = f->summed = 1;
	for (int pass = 0; pass < 2; pass++)
		for (int d = 0; d + 1 < in.rank; d++) {
			int summed = a && a->shape[d] == 1 && in.shape[d] != 1;

			if (summed != pass)
				continue;
			*(pass ? &f->summed : &f->kept) *= in.shape[d];
			f->w.shape[n] = in.shape[d];
			for (int i = 0; i < in.arrays; i++)
				f->w.stride[i][n] = in.stride[i][d];
			n++;
			kept += !pass;
		}
	walk_merge(&f->w, kept, 1);
	walk_merge(&f->w, 0, 1 + f->w.rank - 1 - kept);
}

static inline void fold_run(struct fold *f, void (*row)(const struct fold *, real *const[], real *const[]))
{
	int64_t rows;

	fold_arrange(f);
	f->row = row;
	f->groups = (f->summed + FOLD_ROWS - 1) / FOLD_ROWS;
	f->groups = f->groups ? f->groups : 1;
	rows = f->summed < FOLD_ROWS ? f->summed : FOLD_ROWS;
	f->items_task = WALK_GRAIN / (f->cols * rows + 1);
	f->items_task = f->items_task ? f->items_task : 1;
	walk_run(f->c, f->kept * f->summed * f->cols, (f->kept * f->groups + f->items_task - 1) / f->items_task, fold_task, f);
	if (f->groups > 1)
		walk_run(f->c, f->kept * f->groups * f->width, f->kept, fold_combine, f);
}

/* Scratch for sums shaped as `a` over rows of x. */
static inline size_t fold_scratch(const struct array *x, const struct array *a)
{
	int64_t kept = array_rows(a), groups = kept ? array_rows(x) / kept / FOLD_ROWS + 1 : 0;

	return a->rank ? (size_t)(kept * groups * FOLD_OUTS * a->shape[a->rank - 1]) * sizeof(real) : 0;
}

#endif
