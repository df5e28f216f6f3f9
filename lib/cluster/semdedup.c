/* Cosines between all samples of a cluster, and the order in which they are kept. */
#include "cluster/semdedup.h"

#include <stdlib.h>
#include <string.h>

#include "cluster/points.h"
#include "core/mem.h"

enum { ROWS = 16 }; /* rows of a task */

struct ranked {
	int64_t row;
	int late;      /* 0: of the part that comes first */
	double cosine; /* with the mean */
};

struct comparing {
	const float *x;
	int64_t n, d;
	const int64_t *order; /* [n] rows in order; a row is compared with those before it; NULL: with those of part 1 */
	const uint8_t *part;
	double limit;
	int64_t *near;
	double *cosine;
};

static void compare_row(struct comparing *c, int64_t at)
{
	int64_t row = c->order ? c->order[at] : at, most = c->order ? at : c->n;
	double best = c->limit;

	c->near[row] = -1;
	c->cosine[row] = 0;
	if (!c->order && c->part[row])
		return;
	for (int64_t k = 0; k < most; k++) {
		int64_t other = c->order ? c->order[k] : k;
		double v;

		if (!c->order && !c->part[other])
			continue;
		v = points_cosine(c->x + row * c->d, c->x + other * c->d, c->d);
		if (v > best) {
			best = v;
			c->near[row] = other;
			c->cosine[row] = v;
		}
	}
}

static void compare_task(void *arg, int64_t block, int worker)
{
	struct comparing *c = arg;

	(void)worker;
	for (int64_t i = block * ROWS; i < (block + 1) * ROWS && i < c->n; i++)
		compare_row(c, i);
}

/* The sums are in double and in the order of the rows. */
static void mean_direction(float *mean, const float *x, int64_t n, int64_t d, const uint8_t *out)
{
	double *sum = mem_zalloc((size_t)d, sizeof *sum);

	for (int64_t i = 0; i < n; i++)
		for (int64_t k = 0; k < d && !out[i]; k++)
			sum[k] += (double)x[i * d + k];
	for (int64_t k = 0; k < d; k++)
		mean[k] = (float)sum[k];
	points_unit(mean, d);
	mem_free(sum);
}

static int by_rank(const void *a, const void *b)
{
	const struct ranked *p = a, *q = b;

	if (p->late != q->late)
		return p->late - q->late;
	if (p->cosine != q->cosine)
		return p->cosine < q->cosine ? -1 : 1;
	return p->row < q->row ? -1 : p->row > q->row;
}

/* order [returned number] = rows that are not out, those that are kept first first. */
static int64_t find_order(int64_t *order, const float *x, int64_t n, int64_t d, const uint8_t *first, const uint8_t *out)
{
	struct ranked *r = mem_zalloc((size_t)n + 1, sizeof *r);
	float *mean = mem_zalloc((size_t)d, sizeof *mean);
	int64_t m = 0;

	mean_direction(mean, x, n, d, out);
	for (int64_t i = 0; i < n; i++)
		if (!out[i])
			r[m++] = (struct ranked){i, !first[i], points_cosine(mean, x + i * d, d)};
	qsort(r, (size_t)m, sizeof *r, by_rank);
	for (int64_t i = 0; i < m; i++)
		order[i] = r[i].row;
	mem_free(mean);
	mem_free(r);
	return m;
}

int semdedup_near(int64_t *near, double *cosine, const float *x, int64_t n, int64_t d, const uint8_t *first, const uint8_t *out, double limit,
                  struct pool *pool, const struct progress *progress, struct err *e)
{
	int64_t *order = mem_zalloc((size_t)n + 1, sizeof *order);
	struct comparing c = {.x = x, .d = d, .order = order, .limit = limit, .near = near, .cosine = cosine};
	int rc;

	for (int64_t i = 0; i < n; i++) {
		near[i] = -1;
		cosine[i] = 0;
	}
	c.n = find_order(order, x, n, d, first, out);
	rc = points_blocks(c.n, ROWS, "cosines", compare_task, &c, pool, progress, e);
	mem_free(order);
	return rc;
}

int semdedup_across(int64_t *near, double *cosine, const float *x, int64_t n, int64_t d, const uint8_t *part, double limit, struct pool *pool,
                    const struct progress *progress, struct err *e)
{
	struct comparing c = {.x = x, .n = n, .d = d, .part = part, .limit = limit, .near = near, .cosine = cosine};

	return points_blocks(n, ROWS, "cosines", compare_task, &c, pool, progress, e);
}
