/* The table of clustering methods, and what those besides k-means share: micro-centroids, centroids of the clusters, distances to them. */
#include "cluster/method.h"

#include <math.h>
#include <string.h>

#include "cluster/points.h"
#include "cluster/linkage.h"
#include "cluster/spectral.h"
#include "core/mem.h"

enum { HEIGHTS = 64, MICRO_POINTS = 16, MICRO_ITERATIONS = 50, PIECE = 1024 };

const char *const cluster_method_names[] = {
#define CLUSTER_METHOD_TEXT(name, text, most, cut) text,
    CLUSTER_METHODS(CLUSTER_METHOD_TEXT)
#undef CLUSTER_METHOD_TEXT
	NULL,
};

static int cut_by_linkage(int32_t *cluster, struct method_fit *out, enum linkage_kind kind, const float *x, const double *weight, int64_t n,
                          int64_t d, const struct method_options *o, struct err *e)
{
	double *height = mem_zalloc((size_t)n, sizeof *height);
	int64_t from = n - 1 > HEIGHTS ? n - 1 - HEIGHTS : 0;
	int rc = linkage_cut(cluster, height, kind, x, weight, n, d, o->k, o->pool, o->progress, e);

	out->heights = n - 1 - from;
	out->height = mem_zalloc((size_t)out->heights, sizeof *out->height);
	memcpy(out->height, height + from, (size_t)out->heights * sizeof *height);
	mem_free(height);
	return rc;
}

static int cut_ward(int32_t *cluster, struct method_fit *out, const float *x, const double *weight, int64_t n, int64_t d,
                    const struct method_options *o, struct err *e)
{
	return cut_by_linkage(cluster, out, LINKAGE_WARD, x, weight, n, d, o, e);
}

static int cut_average(int32_t *cluster, struct method_fit *out, const float *x, const double *weight, int64_t n, int64_t d,
                       const struct method_options *o, struct err *e)
{
	return cut_by_linkage(cluster, out, LINKAGE_AVERAGE, x, weight, n, d, o, e);
}

/* The graph joins micro-centroids without regard to their sizes, as Yan, Huang & Jordan 2009 do. */
static int cut_spectral(int32_t *cluster, struct method_fit *out, const float *x, const double *weight, int64_t n, int64_t d,
                        const struct method_options *o, struct err *e)
{
	struct spectral_options so = {.k = o->k,
	                              .neighbours = o->neighbours,
	                              .restarts = o->restarts,
	                              .iterations = o->iterations,
	                              .seed = o->seed,
	                              .pool = o->pool,
	                              .progress = o->progress};
	struct spectral_report report;
	int rc = spectral_cut(cluster, &report, x, n, d, &so, e);

	(void)weight;
	out->pieces = report.pieces;
	out->iterations = report.iterations;
	out->residual = report.residual;
	out->settled = report.residual <= SPECTRAL_TOLERANCE;
	return rc;
}

static const struct method {
	const char *name;
	int64_t most;
	/* Label n points, each of which stands for weight [n] samples (NULL: one each). NULL: k-means, which finds centroids and no labels. */
	int (*cut)(int32_t *cluster, struct method_fit *out, const float *x, const double *weight, int64_t n, int64_t d,
	           const struct method_options *o, struct err *e);
} methods[] = {
#define CLUSTER_METHOD_ROW(name, text, most, cut) {text, most, cut},
    CLUSTER_METHODS(CLUSTER_METHOD_ROW)
#undef CLUSTER_METHOD_ROW
};

static int check(const float *x, int64_t n, int64_t d, int64_t most, const struct method_options *o, struct err *e)
{
	const char *name = methods[o->method].name;

	if (n < o->k || o->k < 1)
		return err_set(e, ERR_USAGE, "%d clusters need at least as many points, and there are %lld", o->k, (long long)n);
	if (o->balance > 0)
		return err_set(e, ERR_USAGE, "%s does not balance clusters: only kmeans does", name);
	if (o->cosine)
		return err_set(e, ERR_USAGE, "%s does not cluster by the cosine: only kmeans does", name);
	if (o->fine && (o->fine < o->k || o->fine > n))
		return err_set(e, ERR_USAGE, "%d fine centroids: must be at least %d clusters and at most %lld points", o->fine, o->k, (long long)n);
	if (o->fine > most)
		return err_set(e, ERR_USAGE, "%d fine centroids: %s clusters at most %lld", o->fine, name, (long long)most);
	if (n > most && !o->fine && o->k > METHOD_MICRO)
		return err_set(e, ERR_USAGE, "%s clusters %lld points through %d fine centroids, too few for %d clusters: take --fine", name,
		               (long long)n, METHOD_MICRO, o->k);
	return points_finite(x, n, d, o->pool, e);
}

/* Fit `micro` centroids to a subsample, and assign every point to the nearest: at [n]. weight [micro] counts the points. */
static int fit_micro(struct kmeans *fine, int32_t *at, double *weight, const float *x, int64_t n, int64_t d, int micro,
                     const struct method_options *o, struct err *e)
{
	int64_t m = n / 20 > MICRO_POINTS * (int64_t)micro ? n / 20 : MICRO_POINTS * (int64_t)micro;
	struct kmeans_options ko = {.k = micro,
	                            .restarts = 1,
	                            .iterations = MICRO_ITERATIONS,
	                            .seed = o->seed,
	                            .pool = o->pool,
	                            .device = o->device,
	                            .progress = o->progress};
	float *part = NULL;
	int rc = 0;

	if (m < n) {
		int64_t *row = points_subsample(n, m, o->seed, STEP_MICRO);

		part = mem_try((size_t)(m * d), sizeof *part, "k-means subsample", e);
		rc = part ? 0 : -1;
		for (int64_t i = 0; i < m && part; i++)
			memcpy(part + i * d, x + row[i] * d, (size_t)d * sizeof *part);
		mem_free(row);
	}
	if (!rc)
		rc =
		    kmeans_fit(fine, part ? part : x, part ? m : n, d, &ko, e) || kmeans_assign(at, NULL, fine, x, n, o->pool, o->device, e) ? -1 : 0;
	for (int64_t i = 0; i < n && !rc; i++)
		weight[at[i]]++;
	for (int c = 0; c < micro && !rc; c++)
		weight[c] = weight[c] > 0 ? weight[c] : 1; /* none is empty in the subsample, but rounding may move its points */
	mem_free(part);
	return rc;
}

int method_means(struct kmeans *m, const int32_t *cluster, const float *x, int64_t n, int64_t d, int k, struct pool *pool, struct err *e)
{
	double *mean = mem_try((size_t)k * (size_t)d + 1, sizeof *mean, "means of clusters", e);
	int64_t *size = mem_zalloc((size_t)k, sizeof *size), empty = -1;

	if (mean) {
		separation_means(mean, size, x, n, d, cluster, k, pool);
		*m = (struct kmeans){
		    .k = k, .d = d, .centroids = mem_zalloc((size_t)(k * d), sizeof(float)), .offset = mem_zalloc((size_t)k, sizeof(float))};
		for (int64_t i = 0; i < k * d; i++)
			m->centroids[i] = (float)mean[i];
	}
	for (int c = k - 1; c >= 0; c--)
		empty = size[c] ? empty : c;
	mem_free(size);
	mem_free(mean);
	if (mean && empty >= 0)
		return err_set(e, ERR_DATA, "cluster %lld of %d has none of the %lld training samples", (long long)empty, k, (long long)n);
	return mean ? 0 : -1;
}

struct distance_job {
	float *distance;
	const struct kmeans *m;
	const int32_t *cluster;
	const float *x;
	int64_t n;
};

static void distance_task(void *arg, int64_t task, int worker)
{
	struct distance_job *j = arg;
	int64_t to = (task + 1) * PIECE < j->n ? (task + 1) * PIECE : j->n, d = j->m->d;

	(void)worker;
	for (int64_t i = task * PIECE; i < to; i++)
		j->distance[i] = sqrtf(points_distance2(j->x + i * d, j->m->centroids + j->cluster[i] * d, d));
}

void method_distances(float *distance, const struct kmeans *m, const int32_t *cluster, const float *x, int64_t n, struct pool *pool)
{
	struct distance_job j = {distance, m, cluster, x, n};

	pool_run(pool, (n + PIECE - 1) / PIECE, distance_task, &j);
}

/* Distances to the centroids of the clusters, and the points that another centroid is nearer to. */
static int measure(struct method_fit *out, const float *x, int64_t n, int64_t d, const struct method_options *o, struct err *e)
{
	int32_t *nearest = mem_zalloc((size_t)n, sizeof *nearest);
	int rc = kmeans_assign(nearest, out->distance, &out->m, x, n, o->pool, o->device, e);

	for (int64_t i = 0; i < n && !rc; i++) {
		if (nearest[i] != out->cluster[i]) {
			float own = sqrtf(points_distance2(x + i * d, out->m.centroids + out->cluster[i] * d, d));

			out->away += own > out->distance[i];
			out->distance[i] = own;
		}
		out->m.inertia += (double)out->distance[i] * out->distance[i];
	}
	mem_free(nearest);
	return rc;
}

int method_draws(const struct method_options *o, int64_t n)
{
	int linkage = o->method == METHOD_WARD || o->method == METHOD_AVERAGE;

	return !linkage || o->fine || n > (o->most ? o->most : methods[o->method].most);
}

static int cut_any(struct method_fit *out, const float *x, int64_t n, int64_t d, const struct method_options *o, struct err *e)
{
	int64_t most = o->most ? o->most : methods[o->method].most;
	int micro = o->fine ? o->fine : n > most ? METHOD_MICRO : 0, rc;
	struct kmeans fine = {0};
	double *weight = mem_zalloc((size_t)micro, sizeof *weight);
	int32_t *label = mem_zalloc((size_t)micro, sizeof *label);

	rc = check(x, n, d, most, o, e);
	if (!rc && !micro)
		rc = methods[o->method].cut(out->cluster, out, x, NULL, n, d, o, e);
	if (!rc && micro) {
		out->micro = micro;
		rc = fit_micro(&fine, out->cluster, weight, x, n, d, micro, o, e) ||
		             methods[o->method].cut(label, out, fine.centroids, weight, micro, d, o, e)
		         ? -1
		         : 0;
		for (int64_t i = 0; i < n && !rc; i++)
			out->cluster[i] = label[out->cluster[i]];
	}
	kmeans_release(&fine);
	mem_free(weight);
	mem_free(label);
	return rc || method_means(&out->m, out->cluster, x, n, d, o->k, o->pool, e) || measure(out, x, n, d, o, e) ? -1 : 0;
}

int method_cut(struct method_fit *out, const float *x, int64_t n, int64_t d, const struct method_options *o, struct err *e)
{
	struct kmeans_options ko = {.k = o->k,
	                            .fine = o->fine,
	                            .restarts = o->restarts,
	                            .iterations = o->iterations,
	                            .balance = o->balance,
	                            .cosine = o->cosine,
	                            .kept = o->kept,
	                            .seed = o->seed,
	                            .pool = o->pool,
	                            .device = o->device,
	                            .progress = o->progress};

	*out = (struct method_fit){.settled = 1};
	out->cluster = mem_try((size_t)n + 1, sizeof *out->cluster, "assignment", e);
	out->distance = mem_try((size_t)n + 1, sizeof *out->distance, "distances", e);
	if (!out->cluster || !out->distance)
		return -1;
	if (methods[o->method].cut)
		return cut_any(out, x, n, d, o, e);
	return kmeans_fit(&out->m, x, n, d, &ko, e) || kmeans_assign(out->cluster, out->distance, &out->m, x, n, o->pool, o->device, e) ? -1 : 0;
}

void method_fit_release(struct method_fit *f)
{
	kmeans_release(&f->m);
	mem_free(f->cluster);
	mem_free(f->distance);
	mem_free(f->height);
	*f = (struct method_fit){0};
}
