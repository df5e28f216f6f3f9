/* Cuts the gradient into buckets and orders them. */
#include "train/buckets.h"

#include <limits.h>
#include <stdlib.h>

#include "core/mem.h"
#include "kernels/optimizer.h"

static int64_t divide_up(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

/* A bucket has as many chunks for each rank. The one at the start of the arena, which the backward pass completes last, is the smallest: nothing
 * hides its sum. */
void buckets_init(struct buckets *b, int64_t n, int ranks)
{
	int64_t chunks = divide_up(n, SUMSQ_CHUNK), size = divide_up(divide_up(chunks, BUCKETS), ranks) * ranks, at = 0;

	b->n = (int)(size ? divide_up(chunks, size) : 0);
	b->cuts = mem_zalloc((size_t)b->n * ((size_t)ranks + 1), sizeof *b->cuts);
	for (int i = 0; i < b->n; i++) {
		int64_t length = i ? size : chunks - (b->n - 1) * size, *cut = b->cuts + i * (ranks + 1);

		for (int p = 0; p <= ranks; p++) {
			cut[p] = (at + length * p / ranks) * SUMSQ_CHUNK;
			cut[p] = cut[p] < n ? cut[p] : n;
		}
		b->v[i] = (struct bucket){.lo = cut[0], .hi = cut[ranks], .mark = INT_MAX, .cut = cut};
		at += length;
	}
}

void buckets_release(struct buckets *b)
{
	mem_free(b->cuts);
	*b = (struct buckets){0};
}

static int by_mark(const void *a, const void *b)
{
	const struct bucket *x = a, *y = b;

	return x->mark != y->mark ? (x->mark > y->mark) - (x->mark < y->mark) : (x->lo < y->lo) - (x->lo > y->lo);
}

void buckets_order(struct buckets *b, const struct tape *t, const struct params *p)
{
	int *mark = mem_alloc((size_t)p->n * sizeof *mark);

	tape_grad_marks(t, mark);
	for (int i = 0; i < b->n; i++) {
		struct bucket *v = &b->v[i];

		v->mark = 0;
		for (int k = 0; k < p->n; k++) {
			const struct param *q = &p->v[k];

			if (!(q->flags & PARAM_FROZEN) && q->offset < v->hi && q->offset + q->count > v->lo && mark[k] > v->mark)
				v->mark = mark[k];
		}
	}
	mem_free(mark);
	qsort(b->v, (size_t)b->n, sizeof *b->v, by_mark);
}
