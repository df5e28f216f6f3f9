/* Walks several arrays of one shape together: merges dimensions if every array allows it, visits the rows in index order, and divides the
 * work into tasks by shape alone. */
#ifndef DDM_KERNELS_WALK_H
#define DDM_KERNELS_WALK_H

#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "kernels/real.h"

/* Put before an elementwise loop whose arrays are identical or do not overlap: lets the compiler vectorise it. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

enum { WALK_ARRAYS = 8, WALK_GRAIN = 16384 /* elements of a task, about */ };

struct walk {
	int rank, arrays;
	int64_t shape[ARRAY_RANK], stride[WALK_ARRAYS][ARRAY_RANK];
};

/* A row: its index in every dimension but the last, and the offset of its first element in each array. */
struct walk_pos {
	int64_t index[ARRAY_RANK], offset[WALK_ARRAYS];
};

static inline void walk_init(struct walk *w, const struct array *like)
{
	w->arrays = 0;
	w->rank = like->rank ? like->rank : 1;
	memcpy(w->shape, like->shape, sizeof w->shape);
	if (!like->rank)
		w->shape[0] = 1;
}

/* Add an array of w's shape, with size 1 in broadcast dimensions. An absent array (data NULL) is added with strides of 0. */
static inline void walk_add(struct walk *w, const struct array *a)
{
	int64_t *s = w->stride[w->arrays++];

	for (int d = 0; d < w->rank; d++)
		s[d] = a->data && d < a->rank && a->shape[d] != 1 ? a->stride[d] : 0;
}

static inline void walk_drop(struct walk *w, int d)
{
	w->rank--;
	for (int i = d; i < w->rank; i++)
		w->shape[i] = w->shape[i + 1];
	for (int a = 0; a < w->arrays; a++)
		memmove(&w->stride[a][d], &w->stride[a][d + 1], (size_t)(w->rank - d) * sizeof w->stride[a][0]);
}

static inline int walk_joins(const struct walk *w, int d)
{
	for (int a = 0; a < w->arrays; a++)
		if (w->stride[a][d] != w->stride[a][d + 1] * w->shape[d + 1])
			return 0;
	return 1;
}

/* Drop dimensions of size 1 and merge neighbours in [from, rank - kept): the order of the elements stays. */
static inline void walk_merge(struct walk *w, int from, int kept)
{
	for (int d = w->rank - 1 - kept; d >= from; d--)
		if (w->shape[d] == 1 && w->rank > 1)
			walk_drop(w, d);
	for (int d = w->rank - 2 - kept; d >= from; d--)
		if (walk_joins(w, d)) {
			w->shape[d + 1] *= w->shape[d];
			walk_drop(w, d);
		}
}

static inline int64_t walk_rows(const struct walk *w)
{
	int64_t n = 1;

	for (int d = 0; d + 1 < w->rank; d++)
		n *= w->shape[d];
	return n;
}

static inline void walk_seek(const struct walk *w, int64_t row, struct walk_pos *p)
{
	memset(p->offset, 0, sizeof p->offset);
	for (int d = w->rank - 2; d >= 0; d--) {
		int64_t n = w->shape[d] ? w->shape[d] : 1; /* an empty array still has a position of row 0 */

		p->index[d] = row % n;
		row /= n;
		for (int a = 0; a < w->arrays; a++)
			p->offset[a] += p->index[d] * w->stride[a][d];
	}
}

static inline void walk_step(const struct walk *w, struct walk_pos *p)
{
	for (int d = w->rank - 2; d >= 0; d--) {
		int64_t back = 0;

		if (++p->index[d] == w->shape[d]) {
			p->index[d] = 0;
			back = w->shape[d];
		}
		for (int a = 0; a < w->arrays; a++)
			p->offset[a] += w->stride[a][d] * (1 - back);
		if (!back)
			return;
	}
}

/* pool_run; serial if there are no more than WALK_GRAIN elements in all. */
static inline void walk_run(const struct op_call *c, int64_t elements, int64_t tasks, void (*fn)(void *, int64_t, int), void *arg)
{
	pool_spread(elements <= WALK_GRAIN ? NULL : c->pool, tasks, fn, arg);
}

/* An elementwise kernel: fn is called for runs of n elements, with array a starting at p[a] and its elements step(e, a) apart. */
struct each {
	const struct op_call *c;
	struct walk w;
	real *base[WALK_ARRAYS];
	int64_t run, cuts, rows, rows_task; /* a task is rows_task rows of one of `cuts` cuts of the last dimension */
	void (*fn)(const struct each *e, real *const p[], int64_t n);
};

static inline int64_t each_step(const struct each *e, int a)
{
	return e->w.stride[a][e->w.rank - 1];
}

static inline void each_init(struct each *e, const struct op_call *c, const struct array *like)
{
	e->c = c;
	walk_init(&e->w, like);
}

static inline void each_add(struct each *e, const struct array *a)
{
	e->base[e->w.arrays] = a->data;
	walk_add(&e->w, a);
}

static inline void each_task(void *arg, int64_t task, int worker)
{
	const struct each *e = arg;
	int64_t first = task / e->cuts * e->rows_task, cut = task % e->cuts;
	int64_t at = cut * e->run, n = e->w.shape[e->w.rank - 1] - at;
	int64_t last = first + e->rows_task < e->rows ? first + e->rows_task : e->rows;
	struct walk_pos pos;

	(void)worker;
	n = n < e->run ? n : e->run;
	walk_seek(&e->w, first, &pos);
	for (int64_t r = first; r < last; r++) {
		real *p[WALK_ARRAYS];

		for (int a = 0; a < e->w.arrays; a++)
			p[a] = e->base[a] + pos.offset[a] + at * each_step(e, a);
		e->fn(e, p, n);
		walk_step(&e->w, &pos);
	}
}

static inline void each_run(struct each *e, void (*fn)(const struct each *, real *const[], int64_t))
{
	int64_t cols;

	walk_merge(&e->w, 0, 0);
	e->fn = fn;
	cols = e->w.shape[e->w.rank - 1];
	e->rows = walk_rows(&e->w);
	if (!cols || !e->rows)
		return;
	e->run = cols < WALK_GRAIN ? cols : WALK_GRAIN;
	e->cuts = (cols + e->run - 1) / e->run;
	e->rows_task = WALK_GRAIN / e->run;
	walk_run(e->c, cols * e->rows, (e->rows + e->rows_task - 1) / e->rows_task * e->cuts, each_task, e);
}

#endif
