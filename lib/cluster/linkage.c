/* Merges clusters along chains of nearest neighbours and cuts the tree of merges. */
#include "cluster/linkage.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "cluster/points.h"
#include "core/mem.h"

enum { ROWS = 32, COLUMNS = 64, TELL = 256 };

/* A merge of the clusters that hold the points a and b. */
struct merge {
	double height;
	int64_t a, b, order;
};

struct linkage {
	enum linkage_kind kind;
	const float *x;
	int64_t n, d;
	double *between; /* [n (n - 1) / 2]: of j < i at i (i - 1) / 2 + j; for Ward the square */
	double *weight;  /* [n] of the cluster that a point stands for */
	int64_t *live;   /* [lives] points that stand for a cluster, ascending */
	int64_t lives;
	struct merge *merge; /* [n - 1] */
};

static double *pair_at(const struct linkage *l, int64_t i, int64_t j)
{
	return i > j ? l->between + i * (i - 1) / 2 + j : l->between + j * (j - 1) / 2 + i;
}

/* Uses eight partial sums, which the compiler keeps in vectors and which are added in order at the end. */
static double squared(const float *a, const float *b, int64_t d)
{
	double acc[8] = {0}, sum = 0;
	int64_t i = 0;

	for (; i + 8 <= d; i += 8)
		for (int j = 0; j < 8; j++) {
			double t = (double)a[i + j] - b[i + j];

			acc[j] += t * t;
		}
	for (; i < d; i++)
		acc[i % 8] += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
	for (int j = 0; j < 8; j++)
		sum += acc[j];
	return sum;
}

static void distance_task(void *arg, int64_t block, int worker)
{
	struct linkage *l = arg;
	int64_t from = block * ROWS, to = from + ROWS < l->n ? from + ROWS : l->n;

	(void)worker;
	for (int64_t at = 0; at < to; at += COLUMNS)
		for (int64_t i = from; i < to; i++)
			for (int64_t j = at; j < i && j < at + COLUMNS; j++) {
				double a = l->weight[i], b = l->weight[j], s = squared(l->x + i * l->d, l->x + j * l->d, l->d);

				*pair_at(l, i, j) = l->kind == LINKAGE_WARD ? 2 * a * b / (a + b) * s : sqrt(s);
			}
}

/* The nearest live cluster; of equally near ones `before` (the one before it in the chain, so that chains end), else the first. */
static int64_t nearest(const struct linkage *l, int64_t at, int64_t before, double *least)
{
	int64_t best = before;

	*least = before >= 0 ? *pair_at(l, at, before) : INFINITY;
	for (int64_t i = 0; i < l->lives; i++) {
		int64_t other = l->live[i];
		double d;

		if (other == at)
			continue;
		d = *pair_at(l, at, other);
		if (d < *least || best < 0) {
			*least = d;
			best = other;
		}
	}
	return best;
}

/* Merge a into b, and update the distances to b (Lance & Williams 1967). */
static void join(struct linkage *l, int64_t a, int64_t b)
{
	double wa = l->weight[a], wb = l->weight[b], ab = *pair_at(l, a, b);
	int64_t kept = 0;

	for (int64_t i = 0; i < l->lives; i++) {
		int64_t o = l->live[i];
		double *ob, w = l->weight[o];

		if (o == a)
			continue;
		l->live[kept++] = o;
		if (o == b)
			continue;
		ob = pair_at(l, o, b);
		if (l->kind == LINKAGE_WARD)
			*ob = ((wa + w) * *pair_at(l, o, a) + (wb + w) * *ob - w * ab) / (wa + wb + w);
		else
			*ob = (wa * *pair_at(l, o, a) + wb * *ob) / (wa + wb);
	}
	l->lives = kept;
	l->weight[b] = wa + wb;
}

static int merge_all(struct linkage *l, const struct progress *progress, struct err *e)
{
	int64_t *chain = mem_zalloc((size_t)l->n + 1, sizeof *chain), length = 0;
	int rc = 0;

	for (int64_t done = 0; done < l->n - 1 && !rc;) {
		int64_t at, next, before;
		double d;

		if (!length)
			chain[length++] = l->live[0];
		at = chain[length - 1];
		before = length > 1 ? chain[length - 2] : -1;
		next = nearest(l, at, before, &d);
		if (next != before) {
			chain[length++] = next;
			continue;
		}
		length -= 2;
		l->merge[done] = (struct merge){l->kind == LINKAGE_WARD ? sqrt(fmax(d, 0)) : d, at, next, done};
		join(l, at < next ? next : at, at < next ? at : next);
		if (++done % TELL == 0 && progress_tell(progress, "merges", done, l->n - 1))
			rc = err_set(e, ERR_AGAIN, "clustering interrupted");
	}
	mem_free(chain);
	return rc;
}

static int by_height(const void *x, const void *y)
{
	const struct merge *a = x, *b = y;

	return a->height != b->height ? (a->height > b->height) - (a->height < b->height) : (a->order > b->order) - (a->order < b->order);
}

static int64_t root(int64_t *up, int64_t i)
{
	while (up[i] != i)
		i = up[i] = up[up[i]];
	return i;
}

/* Apply the n - k lowest merges. The merges form a spanning tree of the points, so exactly k clusters remain. */
static void cut(int32_t *cluster, const struct linkage *l, int k)
{
	int64_t *up = mem_zalloc((size_t)l->n, sizeof *up);
	int32_t *number = mem_zalloc((size_t)l->n, sizeof *number), count = 0;

	for (int64_t i = 0; i < l->n; i++)
		up[i] = i;
	for (int64_t i = 0; i < l->n - k; i++) {
		int64_t a = root(up, l->merge[i].a), b = root(up, l->merge[i].b);

		up[a > b ? a : b] = a > b ? b : a;
	}
	for (int64_t i = 0; i < l->n; i++) { /* a root is the lowest point of its cluster */
		int64_t r = root(up, i);

		if (r == i)
			number[i] = count++;
		cluster[i] = number[r];
	}
	assert(count == k);
	mem_free(number);
	mem_free(up);
}

int linkage_cut(int32_t *cluster, double *height, enum linkage_kind kind, const float *x, const double *weight, int64_t n, int64_t d, int k,
                struct pool *pool, const struct progress *progress, struct err *e)
{
	struct linkage l = {.kind = kind, .x = x, .n = n, .d = d, .lives = n};
	int64_t distinct = 1;
	int rc;

	assert(k >= 1 && k <= n);
	l.between = mem_try((size_t)(n * (n - 1) / 2) + 1, sizeof *l.between, "distances of all pairs", e);
	if (!l.between)
		return -1;
	l.weight = mem_zalloc((size_t)n, sizeof *l.weight);
	l.live = mem_zalloc((size_t)n, sizeof *l.live);
	l.merge = mem_zalloc((size_t)n, sizeof *l.merge);
	for (int64_t i = 0; i < n; i++) {
		l.weight[i] = weight ? weight[i] : 1;
		l.live[i] = i;
	}
	rc = points_blocks(n, ROWS, "rows of distances", distance_task, &l, pool, progress, e) || merge_all(&l, progress, e) ? -1 : 0;
	if (!rc) {
		qsort(l.merge, (size_t)n - 1, sizeof *l.merge, by_height);
		for (int64_t i = 0; i < n - 1; i++) {
			distinct += l.merge[i].height > 0;
			if (height)
				height[i] = l.merge[i].height;
		}
		if (distinct < k)
			rc = err_set(e, ERR_DATA, "%lld points for %d clusters, but only %lld distinct ones", (long long)n, k, (long long)distinct);
	}
	if (!rc)
		cut(cluster, &l, k);
	mem_free(l.between);
	mem_free(l.weight);
	mem_free(l.live);
	mem_free(l.merge);
	return rc;
}
