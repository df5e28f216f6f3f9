/* Fits k-means: seeding, Lloyd's iterations, restarts. */
#include "cluster/kmeans.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/rng.h"
#include "cluster/kmeansimpl.h"

enum { SCAN = POINTS_SCAN, SLICE = 64, EXTRA = 20 };

static void length_task(void *arg, int64_t task, int worker)
{
	struct points *p = arg;
	int64_t end = (task + 1) * SCAN < p->n ? (task + 1) * SCAN : p->n;

	(void)worker;
	for (int64_t i = task * SCAN; i < end; i++)
		p->length[i] = points_length2(p->x + i * p->d, p->d);
}

int points_init(struct points *p, const float *x, const double *weight, int64_t n, int64_t d, struct pool *pool, const struct points_place *place,
                struct err *e)
{
	*p = (struct points){.x = x, .weight = weight, .n = n, .d = d, .pool = pool};
	if (place->device && !weight)
		p->on = device_points_new(place, x, n, d, pool);
	p->near = mem_try((size_t)n, sizeof *p->near, "k-means distances", e);
	p->cluster = mem_try((size_t)n, sizeof *p->cluster, "k-means assignment", e);
	p->order = mem_try((size_t)n, sizeof *p->order, "k-means order", e);
	p->length = mem_try((size_t)n, sizeof *p->length, "k-means lengths", e);
	if (!p->near || !p->cluster || !p->order || !p->length)
		return -1;
	if (!p->on)
		pool_run(pool, (n + SCAN - 1) / SCAN, length_task, p);
	return 0;
}

/* Copy near and cluster of [from, to) to the host, if the points are on a device. */
static int points_see(struct points *p, int64_t from, int64_t to, struct err *e)
{
	return p->on ? device_points_get(p->on, p->near, p->cluster, from, to, e) : 0;
}

void points_release(struct points *p)
{
	mem_free(p->near);
	mem_free(p->cluster);
	mem_free(p->order);
	mem_free(p->score);
	mem_free(p->length);
	device_points_free(p->on);
	*p = (struct points){0};
}

/* Draw a point with probability proportional to weight * near: the point at which the running sum passes u times the total. -1 and *e if the device
 * fails. */
static int64_t draw(struct points *p, const double *sum, double total, double u, struct err *e)
{
	double at = u * total, run = 0;
	int64_t tasks = (p->n + SCAN - 1) / SCAN, t = 0, last = -1;

	while (t < tasks - 1 && run + sum[t] <= at)
		run += sum[t++];
	for (int64_t i = t * SCAN; i < p->n; i++) {
		double w;

		if (i % SCAN == 0 && points_see(p, i, i + SCAN < p->n ? i + SCAN : p->n, e))
			return -1;
		w = (p->weight ? p->weight[i] : 1.) * p->near[i];
		if (w <= 0)
			continue;
		last = i;
		run += w;
		if (run > at)
			return i;
	}
	if (last >= 0)
		return last;
	if (points_see(p, 0, p->n, e))
		return -1;
	for (last = p->n - 1; last > 0 && p->near[last] <= 0; last--)
		; /* rounding can push the draw past the last chunk with non-zero weight */
	return last;
}

/* The squared distance of point i to its nearest centre if the new centres are included, divided by the one without them. */
static double shrinkage(const struct points *p, int64_t i, const float *centre, int centres)
{
	float least = p->near[i];

	for (int c = 0; c < centres; c++) {
		float d = points_distance2(p->x + i * p->d, centre + c * p->d, p->d);

		least = d < least ? d : least;
	}
	return least / p->near[i];
}

/* Number of centres to draw before the distances of all points are updated. */
static int seeds_at_once(int have, int k)
{
	int n = have < 32 ? 1 : have / 4;

	return n < k - have ? n : k - have;
}

/* k-means++: each centre is drawn with probability proportional to its squared distance to the nearest existing centre. A pass over all points for
 * every centre would be slow, so several centres are drawn between two passes, by rejection sampling. A point is drawn by the distances of the last
 * pass and accepted with probability (its squared distance now) / (its squared distance then), which gives exactly the distribution of k-means++. The
 * first rejection ends the batch, because the distances have changed enough to be updated. kept: the number of centres that are there already. */
static int seed_centres(float *centroids, struct points *p, int k, int kept, uint64_t seed, uint64_t step, struct err *e)
{
	int64_t tasks = (p->n + SCAN - 1) / SCAN;
	double *sum = mem_zalloc((size_t)tasks, sizeof *sum);
	int have = 0, fresh = kept ? kept : 1, refused = 0, rc = 0;

	if (!kept)
		memcpy(centroids, p->x + (int64_t)rng_below((uint64_t)p->n, seed, RNG_CLUSTER, step, 0, 0) * p->d, (size_t)p->d * sizeof *centroids);
	while (have + fresh < k && !rc) {
		const float *centre = centroids + (have + fresh) * p->d;
		double total = 0;
		int most;

		rc = points_approach(p, centroids + have * p->d, fresh, !have, sum, e);
		have += fresh;
		fresh = 0;
		most = seeds_at_once(have, k);
		for (int64_t t = 0; t < tasks; t++)
			total += sum[t];
		if (!rc && !(total > 0))
			rc = kept ? err_set(e, ERR_DATA,
			                    "%lld points for %d new clusters, but only %d distinct ones beside the centroids that are kept",
			                    (long long)p->n, k - kept, have - kept)
			          : err_set(e, ERR_DATA, "%lld points for %d clusters, but only %d distinct ones", (long long)p->n, k, have);
		while (!rc && fresh < most) {
			uint64_t at = (uint64_t)(have + fresh);
			int64_t pick = draw(p, sum, total, rng_uniform(seed, RNG_CLUSTER, step, at, refused ? 2 : 0), e);

			if (pick < 0) {
				rc = -1;
				break;
			}
			refused = fresh && rng_uniform(seed, RNG_CLUSTER, step, at, 1) >= shrinkage(p, pick, centre, fresh);
			if (refused)
				break;
			memcpy(centroids + (have + fresh++) * p->d, p->x + pick * p->d, (size_t)p->d * sizeof *centroids);
		}
	}
	mem_free(sum);
	return rc;
}

/* Sort the points by cluster, in index order within each: cluster c has p->order[begin[c]] up to begin[c + 1]; begin [k + 1]. */
static void sort_points(struct points *p, int k, int64_t *begin)
{
	memset(begin, 0, (size_t)(k + 1) * sizeof *begin);
	for (int64_t i = 0; i < p->n; i++)
		begin[p->cluster[i] + 1]++;
	for (int c = 0; c < k; c++)
		begin[c + 1] += begin[c];
	for (int64_t i = 0; i < p->n; i++)
		p->order[begin[p->cluster[i]]++] = i;
	for (int c = k; c > 0; c--)
		begin[c] = begin[c - 1];
	begin[0] = 0;
}

struct mean_job {
	struct points *p;
	float *centroids;
	const int64_t *begin;
	int64_t slices;
};

static void mean_task(void *arg, int64_t task, int worker)
{
	struct mean_job *j = arg;
	struct points *p = j->p;
	int64_t c = task / j->slices, at = task % j->slices * SLICE, width = p->d - at < SLICE ? p->d - at : SLICE;
	double sum[SLICE] = {0}, mass = 0;

	(void)worker;
	for (int64_t i = j->begin[c]; i < j->begin[c + 1]; i++) {
		int64_t row = p->order[i];
		double w = p->weight ? p->weight[row] : 1.;
		const float *x = p->x + row * p->d + at;

		mass += w;
		for (int64_t a = 0; a < width; a++)
			sum[a] += w * x[a];
	}
	for (int64_t a = 0; a < width && mass > 0; a++)
		j->centroids[c * p->d + at + a] = (float)(sum[a] / mass);
}

/* Give every empty cluster from number `kept` on the point farthest from its centre (the lowest index on a tie). The point is taken from a cluster of
 * more than one. Returns the number of points moved. */
static int refill(struct points *p, int k, int kept, int64_t *begin)
{
	int moved = 0;

	for (int c = kept; c < k; c++) {
		int64_t far = -1;

		if (begin[c + 1] > begin[c])
			continue;
		for (int64_t i = 0; i < p->n; i++) {
			int32_t own = p->cluster[i];

			if (begin[own + 1] - begin[own] > 1 && (far < 0 || p->near[i] > p->near[far]))
				far = i;
		}
		if (far < 0)
			break;
		p->cluster[far] = c;
		p->near[far] = 0;
		sort_points(p, k, begin);
		moved++;
	}
	return moved;
}

static void move_on_host(float *centroids, struct points *p, int k, int kept, int *refilled)
{
	int64_t *begin = mem_zalloc((size_t)k + 1, sizeof *begin);
	struct mean_job job = {p, centroids, begin, (p->d + SLICE - 1) / SLICE};

	sort_points(p, k, begin);
	*refilled += refill(p, k, kept, begin);
	pool_run(p->pool, k * job.slices, mean_task, &job);
	mem_free(begin);
}

/* The number of empty clusters from number `kept` on. */
static int count_empty(const struct points *p, int k, int kept)
{
	int64_t *size = mem_zalloc((size_t)k, sizeof *size);
	int empty = 0;

	for (int64_t i = 0; i < p->n && !p->on; i++)
		size[p->cluster[i]]++;
	for (int c = kept; c < k; c++)
		empty += p->on ? !device_points_sizes(p->on)[c] : !size[c];
	mem_free(size);
	return empty;
}

/* Refill empty clusters on the host, because they are rare, and compute the sums again. */
static int refill_on_device(struct points *p, int k, int kept, int *refilled, struct err *e)
{
	int64_t *begin;

	if (points_see(p, 0, p->n, e))
		return -1;
	begin = mem_zalloc((size_t)k + 1, sizeof *begin);
	sort_points(p, k, begin);
	*refilled += refill(p, k, kept, begin);
	mem_free(begin);
	return device_points_add(p->on, p->cluster, k, e);
}

static void mean_of_sums(void *arg, int64_t c, int worker)
{
	struct mean_job *j = arg;
	int64_t d = j->p->d;
	const double *sum = device_points_sums(j->p->on) + c * d, size = device_points_sizes(j->p->on)[c];

	(void)worker;
	for (int64_t i = 0; i < d && size > 0; i++)
		j->centroids[c * d + i] = (float)(sum[i] / size);
}

static int move_on_device(float *centroids, struct points *p, int k, int kept, int *refilled, struct err *e)
{
	struct mean_job job = {.p = p, .centroids = centroids};

	if (count_empty(p, k, kept) && refill_on_device(p, k, kept, refilled, e))
		return -1;
	pool_run(p->pool, k, mean_of_sums, &job);
	return 0;
}

/* Compute new centres from the assignment, those that are kept included. Adds the number of refilled clusters to m->reseeded. */
static int move_centres(struct kmeans *m, struct points *p, struct err *e)
{
	if (p->on)
		return move_on_device(m->centroids, p, m->k, m->kept, &m->reseeded, e);
	move_on_host(m->centroids, p, m->k, m->kept, &m->reseeded);
	return 0;
}

struct scale_job {
	struct kmeans *m;
	const float *last;
};

static void scale_task(void *arg, int64_t c, int worker)
{
	const struct scale_job *j = arg;
	int64_t d = j->m->d;

	(void)worker;
	if (!(points_unit(j->m->centroids + c * d, d) > 0) && j->last)
		memcpy(j->m->centroids + c * d, j->last + c * d, (size_t)d * sizeof *j->last);
}

void kmeans_scale(struct kmeans *m, const float *last, struct pool *p)
{
	struct scale_job j = {m, last};

	pool_run(p, m->k, scale_task, &j);
}

/* Compute new centres, of unit length where the clustering is spherical, in place of those that are not kept. */
static int renew_centres(struct kmeans *m, struct points *p, struct err *e)
{
	size_t n = (size_t)m->k * (size_t)m->d;
	float *last;
	int rc;

	if (!m->cosine && !m->kept)
		return move_centres(m, p, e);
	if (!(last = mem_try(n, sizeof *last, "centroids", e)))
		return -1;
	memcpy(last, m->centroids, n * sizeof *last);
	rc = move_centres(m, p, e);
	if (!rc && m->cosine)
		kmeans_scale(m, last, p->pool);
	memcpy(m->centroids, last, (size_t)m->kept * (size_t)m->d * sizeof *last);
	mem_free(last);
	return rc;
}

/* Run Lloyd's iterations on m's centres until they converge, at most `most` unless clusters are empty. With `share` > 0, m->offset keeps every
 * cluster at or below kmeans_room points. */
static int lloyd(struct kmeans *m, struct points *p, const struct kmeans_options *o, int most, double share, struct err *e)
{
	double last = INFINITY, tolerance = o->tolerance > 0 ? o->tolerance : 1e-5;
	int rc = 0, extra = 0;

	for (int it = 1; !rc; it++) {
		int empty, rest;

		if (share > 0)
			memset(m->offset, 0, (size_t)m->k * sizeof *m->offset);
		if (points_assign(p, m, &m->inertia, share > 0, e) || (share > 0 && points_balance(p, m, share, &m->inertia)))
			return -1;
		m->iterations++;
		empty = count_empty(p, m->k, m->kept);
		rest = last - m->inertia <= tolerance * last && it > 1;
		if (!empty && (rest || it >= most))
			return 0;
		if (it >= most && extra++ == EXTRA)
			return err_set(e, ERR_DATA, "%d of %d clusters of %lld points remain empty", empty, m->k, (long long)p->n);
		if (renew_centres(m, p, e))
			return -1;
		last = m->inertia;
		rc = progress_tell(o->progress, "k-means", it, most);
	}
	return err_set(e, ERR_AGAIN, "clustering interrupted");
}

static void kmeans_init(struct kmeans *m, int k, int64_t d)
{
	*m = (struct kmeans){.k = k, .d = d};
	m->centroids = mem_zalloc((size_t)(k * d), sizeof *m->centroids);
	m->offset = mem_zalloc((size_t)k, sizeof *m->offset);
}

void kmeans_release(struct kmeans *m)
{
	mem_free(m->centroids);
	mem_free(m->offset);
	*m = (struct kmeans){0};
}

/* Begin with the centroids that are kept. */
static void keep(struct kmeans *m, const struct kmeans *kept)
{
	if (!kept)
		return;
	m->kept = kept->k;
	memcpy(m->centroids, kept->centroids, (size_t)(kept->k * m->d) * sizeof *m->centroids);
	memcpy(m->offset, kept->offset, (size_t)kept->k * sizeof *m->offset);
}

/* Run several seedings and keep the result of the lowest inertia. */
static int fit(struct kmeans *out, struct points *p, int k, const struct kmeans_options *o, int restarts, int most, uint64_t step, struct err *e)
{
	*out = (struct kmeans){0};
	for (int r = 0; r < restarts; r++) {
		struct kmeans m;

		kmeans_init(&m, k, p->d);
		m.restart = r;
		m.cosine = o->cosine;
		keep(&m, o->kept);
		if (seed_centres(m.centroids, p, k, m.kept, o->seed, step + (uint64_t)r, e) || lloyd(&m, p, o, most, 0, e)) {
			kmeans_release(&m);
			kmeans_release(out);
			return -1;
		}
		if (out->centroids && !(m.inertia < out->inertia)) {
			kmeans_release(&m);
			continue;
		}
		kmeans_release(out);
		*out = m;
	}
	return 0;
}

/* Fit the fine centroids to a subsample. weight[c] += the number of points of fine cluster c. */
static int fit_fine(struct kmeans *fine, double *weight, const float *x, int64_t n, int64_t d, const struct kmeans_options *o, struct err *e)
{
	int64_t m = o->fine_sample > 0 ? o->fine_sample : n / 20 > 64 * (int64_t)o->fine ? n / 20 : 64 * (int64_t)o->fine, *row;
	struct points p = {0};
	float *part;
	int rc = -1;

	if (m < o->fine)
		m = o->fine;
	if (m > n)
		m = n;
	part = mem_try((size_t)(m * d), sizeof *part, "k-means subsample", e);
	if (!part)
		return -1;
	row = points_subsample(n, m, o->seed, STEP_SUBSAMPLE);
	for (int64_t i = 0; i < m; i++)
		memcpy(part + i * d, x + row[i] * d, (size_t)d * sizeof *part);
	mem_free(row);
	if (!points_init(&p, part, NULL, m, d, o->pool, &(struct points_place){o->device, o->chunk, o->fine}, e) &&
	    !fit(fine, &p, o->fine, o, 1, o->iterations ? o->iterations : 50, STEP_FINE, e) && !points_see(&p, 0, m, e)) {
		for (int64_t i = 0; i < m; i++)
			weight[p.cluster[i]]++;
		rc = 0;
	}
	points_release(&p);
	mem_free(part);
	return rc;
}

static int fit_coarse(struct kmeans *out, const float *x, int64_t n, int64_t d, const struct kmeans_options *o, struct err *e)
{
	double *weight = mem_zalloc((size_t)o->fine, sizeof *weight);
	struct kmeans fine = {0};
	struct points p = {0};
	int rc = fit_fine(&fine, weight, x, n, d, o, e);

	if (!rc)
		rc = points_init(&p, fine.centroids, weight, o->fine, d, o->pool, &(struct points_place){.device = NULL}, e);
	if (!rc)
		rc = fit(out, &p, o->k, o, o->restarts ? o->restarts : 3, o->iterations ? o->iterations : 100, 0, e);
	points_release(&p);
	kmeans_release(&fine);
	mem_free(weight);
	return rc;
}

static int check(const float *x, int64_t n, int64_t d, const struct kmeans_options *o, struct err *e)
{
	int kept = o->kept ? o->kept->k : 0;

	if (o->k <= kept)
		return err_set(e, ERR_USAGE, "%d clusters, but %d are kept: no new one is to be found", o->k, kept);
	if (n < o->k - kept || o->k < 1)
		return err_set(e, ERR_USAGE, "%d %sclusters need at least as many points, and there are %lld", o->k - kept, kept ? "new " : "",
		               (long long)n);
	if (kept && (o->fine || o->balance > 0 || o->kept->d != d))
		return err_set(e, ERR_USAGE, "centroids of %lld numbers are kept: points of %lld, fine centroids and balance do not fit to them",
		               (long long)o->kept->d, (long long)d);
	if (o->fine && (o->fine <= o->k || o->fine > n))
		return err_set(e, ERR_USAGE, "%d fine centroids: must be above %d clusters and at most %lld points", o->fine, o->k, (long long)n);
	if (o->balance && o->balance < 1.01)
		return err_set(e, ERR_USAGE, "balance %g: must be at least 1.01", o->balance);
	return points_finite(x, n, d, o->pool, e);
}

struct distance_job {
	struct points *p;
	const struct kmeans *m;
	float *distance;
};

static void distance_task(void *arg, int64_t task, int worker)
{
	struct distance_job *j = arg;
	int64_t end = (task + 1) * SCAN < j->p->n ? (task + 1) * SCAN : j->p->n, d = j->p->d;

	(void)worker;
	for (int64_t i = task * SCAN; i < end; i++)
		j->distance[i] = sqrtf(j->p->on ? j->p->near[i] : points_distance2(j->p->x + i * d, j->m->centroids + j->p->cluster[i] * d, d));
}

/* Assign all points to m's centres, in p->cluster, and compute distance [n] (may be NULL, or p->near). */
static int points_label(struct points *p, const struct kmeans *m, float *distance, struct err *e)
{
	struct distance_job job = {p, m, distance};
	double inertia;

	if (p->on ? device_points_pass(p->on, PASS_FIND, m->centroids, m->offset, m->k, NULL, e) || points_see(p, 0, p->n, e)
	          : points_assign(p, m, &inertia, 0, e))
		return -1;
	if (distance)
		pool_run(p->pool, (p->n + SCAN - 1) / SCAN, distance_task, &job);
	return 0;
}

int kmeans_fit(struct kmeans *out, const float *x, int64_t n, int64_t d, const struct kmeans_options *o, struct err *e)
{
	const struct points_place place = {o->device, o->chunk, o->k}, host = {.device = NULL};
	struct points p = {0};
	int most = o->iterations ? o->iterations : 100, rc;

	*out = (struct kmeans){0};
	if (check(x, n, d, o, e))
		return -1;
	rc = points_init(&p, x, NULL, n, d, o->pool, &place, e);
	if (!rc && o->fine)
		rc = fit_coarse(out, x, n, d, o, e);
	else if (!rc)
		rc = fit(out, &p, o->k, o, o->restarts ? o->restarts : 3, most, 0, e);
	if (!rc && o->balance && p.on) {
		points_release(&p);
		rc = points_init(&p, x, NULL, n, d, o->pool, &host, e);
	}
	if (!rc && o->balance) /* after a coarse fit only the offsets are found: its centres stay means of fine ones */
		rc = lloyd(out, &p, o, o->fine ? 1 : most, o->balance, e);
	if (!rc)
		rc = points_label(&p, out, p.near, e);
	if (!rc) {
		int64_t *size = mem_zalloc((size_t)o->k, sizeof *size);
		int empty = 0;

		out->inertia = 0;
		for (int64_t i = 0; i < n; i++) {
			out->inertia += (double)p.near[i] * p.near[i];
			size[p.cluster[i]]++;
		}
		for (int c = out->kept; c < o->k; c++)
			empty += !size[c];
		if (empty)
			rc = err_set(e, ERR_DATA, "%d of %d clusters of %lld points remain empty", empty, o->k, (long long)n);
		mem_free(size);
	}
	points_release(&p);
	if (rc)
		kmeans_release(out);
	return rc;
}

int kmeans_assign(int32_t *cluster, float *distance, const struct kmeans *m, const float *x, int64_t n, struct pool *pool, struct device *device,
                  struct err *e)
{
	struct points p;
	int rc = points_init(&p, x, NULL, n, m->d, pool, &(struct points_place){.device = device, .most = m->k}, e);

	if (!rc)
		rc = points_label(&p, m, distance, e);
	if (!rc)
		memcpy(cluster, p.cluster, (size_t)n * sizeof *cluster);
	points_release(&p);
	return rc;
}
