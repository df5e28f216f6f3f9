/* Computes the Davies-Bouldin and Calinski-Harabasz indices, the adjusted Rand index and the normalised mutual information. */
#include "cluster/separation.h"

#include <math.h>
#include <stdlib.h>

#include "core/mem.h"

enum { COLUMNS = 16, POINTS = 1024 };

struct rating {
	const float *x;
	int64_t n, d;
	const int32_t *cluster;
	int k;
	double *mean;   /* (k, d) */
	int64_t *size;  /* [k] */
	double *square; /* [n] squared distance of each point to its mean */
	double *spread; /* [k] mean distance to the mean */
	double *worst;  /* [k] largest ratio */
};

/* The sums of some columns: each is added in the order of the points, whatever the threads. */
static void mean_task(void *arg, int64_t task, int worker)
{
	struct rating *r = arg;
	int64_t from = task * COLUMNS, to = from + COLUMNS < r->d ? from + COLUMNS : r->d;

	(void)worker;
	for (int64_t i = 0; i < r->n; i++)
		for (int64_t j = from; j < to; j++)
			r->mean[r->cluster[i] * r->d + j] += r->x[i * r->d + j];
	for (int c = 0; c < r->k; c++)
		for (int64_t j = from; j < to && r->size[c]; j++)
			r->mean[c * r->d + j] /= (double)r->size[c];
}

void separation_means(double *mean, int64_t *size, const float *x, int64_t n, int64_t d, const int32_t *cluster, int k, struct pool *pool)
{
	struct rating r = {.x = x, .n = n, .d = d, .cluster = cluster, .k = k, .mean = mean, .size = size};

	for (int c = 0; c < k; c++)
		size[c] = 0;
	for (int64_t i = 0; i < n; i++)
		size[cluster[i]]++;
	for (int64_t i = 0; i < k * d; i++)
		mean[i] = 0;
	pool_run(pool, (d + COLUMNS - 1) / COLUMNS, mean_task, &r);
}

static void square_task(void *arg, int64_t task, int worker)
{
	struct rating *r = arg;
	int64_t to = (task + 1) * POINTS < r->n ? (task + 1) * POINTS : r->n;

	(void)worker;
	for (int64_t i = task * POINTS; i < to; i++) {
		const double *mean = r->mean + r->cluster[i] * r->d;

		r->square[i] = 0;
		for (int64_t j = 0; j < r->d; j++)
			r->square[i] += (r->x[i * r->d + j] - mean[j]) * (r->x[i * r->d + j] - mean[j]);
	}
}

static double apart2(const double *a, const double *b, int64_t d)
{
	double sum = 0;

	for (int64_t j = 0; j < d; j++)
		sum += (a[j] - b[j]) * (a[j] - b[j]);
	return sum;
}

static void worst_task(void *arg, int64_t c, int worker)
{
	struct rating *r = arg;

	(void)worker;
	for (int o = 0; o < r->k && r->size[c]; o++) {
		double apart = o == c || !r->size[o] ? 0 : sqrt(apart2(r->mean + c * r->d, r->mean + o * r->d, r->d));

		if (apart > 0 && (r->spread[c] + r->spread[o]) / apart > r->worst[c])
			r->worst[c] = (r->spread[c] + r->spread[o]) / apart;
	}
}

static void rate(struct separation *s, struct rating *r, struct pool *pool)
{
	double *all = mem_zalloc((size_t)r->d, sizeof *all), within = 0, between = 0, worst = 0;
	int present = 0;

	separation_means(r->mean, r->size, r->x, r->n, r->d, r->cluster, r->k, pool);
	pool_run(pool, (r->n + POINTS - 1) / POINTS, square_task, r);
	for (int64_t i = 0; i < r->n; i++) {
		within += r->square[i];
		r->spread[r->cluster[i]] += sqrt(r->square[i]);
	}
	for (int c = 0; c < r->k; c++) {
		present += r->size[c] > 0;
		for (int64_t j = 0; j < r->d; j++)
			all[j] += r->mean[c * r->d + j] * (double)r->size[c] / (double)r->n;
		r->spread[c] = r->size[c] ? r->spread[c] / (double)r->size[c] : 0;
	}
	for (int c = 0; c < r->k; c++)
		between += r->size[c] ? (double)r->size[c] * apart2(r->mean + c * r->d, all, r->d) : 0;
	mem_free(all);
	if (present < 2 || present >= r->n)
		return;
	s->calinski_harabasz = within > 0 ? between / (present - 1) / (within / (double)(r->n - present)) : 1;
	if (r->k > SEPARATION_CLUSTERS)
		return;
	pool_run(pool, r->k, worst_task, r);
	for (int c = 0; c < r->k; c++)
		worst += r->worst[c];
	s->davies_bouldin = worst / present;
}

int separation_rate(struct separation *s, const float *x, int64_t n, int64_t d, const int32_t *cluster, int k, struct pool *pool, struct err *e)
{
	struct rating r = {.x = x, .n = n, .d = d, .cluster = cluster, .k = k};
	int rc = -1;

	*s = (struct separation){NAN, NAN};
	r.mean = mem_try((size_t)k * (size_t)d + 1, sizeof *r.mean, "means of clusters", e);
	r.square = mem_try((size_t)n + 1, sizeof *r.square, "distances to means", e);
	if (r.mean && r.square) {
		r.size = mem_zalloc((size_t)k, sizeof *r.size);
		r.spread = mem_zalloc((size_t)k, sizeof *r.spread);
		r.worst = mem_zalloc((size_t)k, sizeof *r.worst);
		rate(s, &r, pool);
		rc = 0;
	}
	mem_free(r.mean);
	mem_free(r.square);
	mem_free(r.size);
	mem_free(r.spread);
	mem_free(r.worst);
	return rc;
}

struct pair {
	int32_t a, b;
};

static int by_pair(const void *x, const void *y)
{
	const struct pair *p = x, *q = y;

	return p->a != q->a ? (p->a > q->a) - (p->a < q->a) : (p->b > q->b) - (p->b < q->b);
}

static int by_b(const void *x, const void *y)
{
	const struct pair *p = x, *q = y;

	return (p->b > q->b) - (p->b < q->b);
}

/* What the sizes of a partition's clusters add up to. */
struct tally {
	double pairs;   /* pairs of samples in one cluster */
	double entropy; /* sum of n log n */
	int64_t clusters;
};

static void tally_add(struct tally *t, int64_t size)
{
	t->pairs += (double)size * (double)(size - 1) / 2;
	t->entropy += (double)size * log((double)size);
	t->clusters++;
}

/* Tally the runs of equal elements of a sorted list. */
static struct tally tally_runs(const struct pair *p, int64_t n, int use_a, int use_b)
{
	struct tally t = {0};

	for (int64_t i = 0, from = 0; i < n; i++)
		if (i + 1 == n || (use_a && p[i + 1].a != p[i].a) || (use_b && p[i + 1].b != p[i].b)) {
			tally_add(&t, i + 1 - from);
			from = i + 1;
		}
	return t;
}

struct agreement agreement_of(const int32_t *a, const int32_t *b, int64_t n)
{
	struct pair *p = mem_alloc((size_t)(n + 1) * sizeof *p);
	struct agreement g = {.rand = NAN, .information = NAN};
	struct tally both, left, right;
	double all, chance, ha, hb, mutual, m;

	for (int64_t i = 0; i < n; i++)
		if (a[i] >= 0 && b[i] >= 0)
			p[g.n++] = (struct pair){a[i], b[i]};
	qsort(p, (size_t)g.n, sizeof *p, by_pair);
	both = tally_runs(p, g.n, 1, 1);
	left = tally_runs(p, g.n, 1, 0);
	qsort(p, (size_t)g.n, sizeof *p, by_b);
	right = tally_runs(p, g.n, 0, 1);
	mem_free(p);
	if (!g.n)
		return g;
	m = (double)g.n;
	all = m * (m - 1) / 2;
	chance = all > 0 ? left.pairs * right.pairs / all : 0;
	/* With one cluster on both sides, or as many as samples, numerator and denominator vanish and the partitions are the same. */
	g.rand = (left.pairs + right.pairs) / 2 - chance > 0 ? (both.pairs - chance) / ((left.pairs + right.pairs) / 2 - chance) : 1;
	ha = log(m) - left.entropy / m;
	hb = log(m) - right.entropy / m;
	mutual = ha + hb - (log(m) - both.entropy / m);
	if (left.clusters == 1 && right.clusters == 1)
		g.information = 1;
	else
		g.information = ha + hb > 0 ? fmin(fmax(2 * mutual / (ha + hb), 0), 1) : 0;
	return g;
}
