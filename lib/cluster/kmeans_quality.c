/* Measures a partition by sizes, inertia and silhouette. Also draws a random partition of given shares, the control. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "cluster/kmeansimpl.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/rng.h"

struct silhouette_job {
	const float *x;
	int64_t d, m;
	const int64_t *row;
	const int32_t *cluster;
	const int64_t *size; /* [k] sizes of the clusters within the subsample */
	int k;
	double *s; /* [m] */
};

/* The silhouette of a point, (b - a) / max(a, b): a is the mean distance to the other points of its cluster, b the lowest mean distance to another
 * cluster. 0 for a cluster of one point. */
static void silhouette_task(void *arg, int64_t i, int worker)
{
	struct silhouette_job *j = arg;
	double *sum = mem_zalloc((size_t)j->k, sizeof *sum), a, b = INFINITY;
	int32_t own = j->cluster[j->row[i]];

	(void)worker;
	for (int64_t o = 0; o < j->m; o++)
		sum[j->cluster[j->row[o]]] += sqrt(points_distance2(j->x + j->row[i] * j->d, j->x + j->row[o] * j->d, j->d));
	for (int c = 0; c < j->k; c++)
		if (c != own && j->size[c] && sum[c] / (double)j->size[c] < b)
			b = sum[c] / (double)j->size[c];
	a = j->size[own] > 1 ? sum[own] / (double)(j->size[own] - 1) : 0;
	j->s[i] = j->size[own] > 1 && a + b > 0 && isfinite(b) ? (b - a) / (a > b ? a : b) : 0;
	mem_free(sum);
}

static void silhouette(struct kmeans_quality *q, const float *x, int64_t d, const int32_t *cluster, int64_t most, uint64_t seed, struct pool *p)
{
	int64_t m = most && q->n > most ? most : q->n, *row = points_subsample(q->n, m, seed, STEP_SILHOUETTE);
	int64_t *size = mem_zalloc((size_t)q->k, sizeof *size);
	struct silhouette_job job = {x, d, m, row, cluster, size, q->k, mem_zalloc((size_t)m, sizeof(double))};
	int seen = 0;

	for (int64_t i = 0; i < m; i++)
		seen += !size[cluster[row[i]]]++;
	pool_run(p, m, silhouette_task, &job);
	q->silhouette = 0;
	for (int64_t i = 0; i < m; i++) {
		q->silhouette += job.s[i];
		q->silhouettes[cluster[row[i]]] += job.s[i];
	}
	q->silhouette = seen > 1 ? q->silhouette / (double)m : NAN;
	for (int c = 0; c < q->k; c++)
		q->silhouettes[c] = seen > 1 && size[c] ? q->silhouettes[c] / (double)size[c] : NAN;
	q->silhouette_n = m;
	mem_free(job.s);
	mem_free(size);
	mem_free(row);
}

int kmeans_rate(struct kmeans_quality *q, const float *x, int64_t n, int64_t d, const int32_t *cluster, const float *distance, int k, int64_t most,
                uint64_t seed, struct pool *p, struct err *e)
{
	*q = (struct kmeans_quality){.k = k, .n = n, .smallest = 1};
	if (n < 1)
		return err_set(e, ERR_DATA, "there are no points");
	q->sizes = mem_zalloc((size_t)k, sizeof *q->sizes);
	q->inertia = mem_zalloc((size_t)k, sizeof *q->inertia);
	q->silhouettes = mem_zalloc((size_t)k, sizeof *q->silhouettes);
	for (int64_t i = 0; i < n; i++) {
		assert(cluster[i] >= 0 && cluster[i] < k);
		q->sizes[cluster[i]]++;
		q->inertia[cluster[i]] += (double)distance[i] * distance[i];
	}
	for (int c = 0; c < k; c++) {
		double share = (double)q->sizes[c] / (double)n;

		q->total += q->inertia[c];
		q->largest = share > q->largest ? share : q->largest;
		q->smallest = share < q->smallest ? share : q->smallest;
	}
	silhouette(q, x, d, cluster, most, seed, p);
	return separation_rate(&q->separation, x, n, d, cluster, k, p, e);
}

void kmeans_quality_release(struct kmeans_quality *q)
{
	mem_free(q->sizes);
	mem_free(q->inertia);
	mem_free(q->silhouettes);
	*q = (struct kmeans_quality){0};
}

int32_t kmeans_random(const char *key, const double *share, int k, uint64_t seed)
{
	double u = rng_uniform(seed, RNG_CLUSTER, STEP_RANDOM, hash64(key, strlen(key)) >> 20, 0), run = 0;

	for (int c = 0; c < k - 1; c++) {
		run += share[c];
		if (u < run)
			return c;
	}
	return k - 1;
}
