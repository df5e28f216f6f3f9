/* k-means against blobs with a known partition and against its definitions; the bits do not depend on the number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "cluster/kmeans.h"
#include "cluster/kmeansimpl.h"

enum { D = 37 };

/* n points around `blobs` centres 6 apart in random directions, unit spread `s`; blob of point i: i % blobs, skewed by `skew`. */
static float *blobs(int64_t n, int count, float s, int32_t *truth)
{
	float *x = mem_alloc((size_t)n * D * sizeof *x);

	for (int64_t i = 0; i < n; i++) {
		int32_t b = (int32_t)(rng_below(10000, 7, RNG_TEST, 1, (uint64_t)i, 0) % (uint64_t)count);
		float centre[D];

		truth[i] = b;
		rng_normal(centre, D, 7, RNG_TEST, 2, (uint64_t)b);
		rng_normal(x + i * D, D, 7, RNG_TEST, 3, (uint64_t)i);
		for (int j = 0; j < D; j++)
			x[i * D + j] = x[i * D + j] * s + 6.f * centre[j];
	}
	return x;
}

static double squared(const float *a, const float *b)
{
	double sum = 0;

	for (int j = 0; j < D; j++)
		sum += ((double)a[j] - b[j]) * ((double)a[j] - b[j]);
	return sum;
}

static void finds_blobs(void **state)
{
	enum { N = 3000, K = 7 };
	int32_t truth[N], cluster[N], map[K];
	float *x = blobs(N, K, .5f, truth), distance[N];
	struct kmeans_options o = {.k = K, .seed = 3};
	struct kmeans_quality q;
	struct kmeans m;
	struct err e = {0};
	double inertia = 0;

	(void)state;
	assert_int_equal(kmeans_fit(&m, x, N, D, &o, &e), 0);
	assert_int_equal(kmeans_assign(cluster, distance, &m, x, N, NULL, NULL, &e), 0);
	memset(map, -1, sizeof map);
	for (int i = 0; i < N; i++) {
		if (map[truth[i]] < 0)
			map[truth[i]] = cluster[i];
		assert_int_equal(cluster[i], map[truth[i]]);
		assert_true(fabs(sqrt(squared(x + i * D, m.centroids + cluster[i] * D)) - distance[i]) < 1e-4);
		inertia += squared(x + i * D, m.centroids + cluster[i] * D);
	}
	assert_true(fabs(inertia - m.inertia) < 1e-4 * inertia);
	assert_int_equal(kmeans_rate(&q, x, N, D, cluster, distance, K, 1500, 1, NULL, &e), 0);
	assert_true(q.silhouette > .8 && q.silhouette <= 1);
	assert_true(fabs(q.total - inertia) < 1e-4 * inertia);
	assert_true(q.largest >= 1. / K && q.smallest <= 1. / K && q.smallest > 0);
	kmeans_quality_release(&q);
	kmeans_release(&m);
	mem_free(x);
}

/* After convergence every centre is the mean of its points, and every point belongs to its nearest centre. */
static void rests(void **state)
{
	enum { N = 2000, K = 12 };
	int32_t truth[N], cluster[N], size[K] = {0};
	float *x = blobs(N, 3, 3.f, truth);
	double *mean = mem_zalloc(K * D, sizeof *mean);
	struct kmeans_options o = {.k = K, .seed = 5, .tolerance = 1e-12, .iterations = 1000, .restarts = 1};
	struct kmeans m;
	struct err e = {0};

	(void)state;
	assert_int_equal(kmeans_fit(&m, x, N, D, &o, &e), 0);
	assert_int_equal(kmeans_assign(cluster, NULL, &m, x, N, NULL, NULL, &e), 0);
	for (int i = 0; i < N; i++) {
		double own = squared(x + i * D, m.centroids + cluster[i] * D);

		size[cluster[i]]++;
		for (int j = 0; j < D; j++)
			mean[cluster[i] * D + j] += x[i * D + j];
		for (int c = 0; c < K; c++)
			assert_true(squared(x + i * D, m.centroids + c * D) >= own - 1e-2);
	}
	for (int c = 0; c < K; c++)
		for (int j = 0; j < D; j++)
			assert_true(fabs(mean[c * D + j] / size[c] - m.centroids[c * D + j]) < 1e-3);
	assert_true(m.iterations > 3);
	mem_free(mean);
	kmeans_release(&m);
	mem_free(x);
}

static void fit_with(struct kmeans *m, int32_t *cluster, const float *x, int64_t n, struct kmeans_options o, int threads)
{
	struct err e = {0};

	o.pool = pool_new(threads, &e);
	assert_int_equal(kmeans_fit(m, x, n, D, &o, &e), 0);
	assert_int_equal(kmeans_assign(cluster, NULL, m, x, n, o.pool, NULL, &e), 0);
	pool_free(o.pool);
}

static void same_for_any_threads(void **state)
{
	enum { N = 5000 };
	const struct kmeans_options kinds[] = {{.k = 9, .seed = 1}, {.k = 5, .fine = 40, .seed = 2}, {.k = 6, .balance = 1.1, .seed = 3}};
	int32_t truth[N], one[N], three[N];
	float *x = blobs(N, 4, 3.f, truth);

	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct kmeans a, b;

		fit_with(&a, one, x, N, kinds[i], 1);
		fit_with(&b, three, x, N, kinds[i], 3);
		assert_memory_equal(a.centroids, b.centroids, (size_t)a.k * D * sizeof(float));
		assert_memory_equal(a.offset, b.offset, (size_t)a.k * sizeof(float));
		assert_memory_equal(one, three, sizeof one);
		assert_true(a.inertia == b.inertia);
		kmeans_release(&a);
		kmeans_release(&b);
	}
	mem_free(x);
}

static void fine_then_coarse(void **state)
{
	enum { N = 4000, K = 4 };
	int32_t truth[N], cluster[N], map[K];
	float *x = blobs(N, K, .5f, truth);
	struct kmeans m;

	(void)state;
	fit_with(&m, cluster, x, N, (struct kmeans_options){.k = K, .fine = 60, .seed = 11}, 1);
	memset(map, -1, sizeof map);
	for (int i = 0; i < N; i++) {
		if (map[truth[i]] < 0)
			map[truth[i]] = cluster[i];
		assert_int_equal(cluster[i], map[truth[i]]);
	}
	kmeans_release(&m);
	mem_free(x);
}

/* A coarse centre over fine ones is the mean of the points only if the fine centres are weighted by their sizes. */
static void fine_weights(void **state)
{
	enum { N = 2000 };
	int32_t truth[N], cluster[N];
	float *x = blobs(N, 1, .5f, truth);
	double mean = 0;
	struct kmeans m;

	(void)state;
	for (int i = 0; i < N; i++) {
		x[i * D] += i < N / 20 ? 40.f : 0.f;
		mean += x[i * D] / N;
	}
	fit_with(&m, cluster, x, N, (struct kmeans_options){.k = 1, .fine = 20, .fine_sample = N, .seed = 2}, 1);
	assert_true(fabs(m.centroids[0] - mean) < .01);
	kmeans_release(&m);
	mem_free(x);
}

/* Nearly as many clusters as points: Lloyd's iterations sometimes empty a cluster, which must be filled again. */
static void refills(void **state)
{
	enum { N = 57, K = 55 };
	int reseeded = 0;

	(void)state;
	for (uint64_t s = 0; s < 60; s++) {
		struct kmeans_options o = {.k = K, .seed = s, .restarts = 1};
		struct kmeans m;
		struct err e = {0};
		float x[N];

		rng_normal(x, N, s, RNG_TEST, 1, 0);
		for (int i = 0; i < N; i++)
			x[i] *= x[i] * x[i];
		assert_int_equal(kmeans_fit(&m, x, N, 1, &o, &e), 0);
		reseeded += m.reseeded;
		kmeans_release(&m);
	}
	assert_true(reseeded > 0);
}

static void best_restart(void **state)
{
	enum { N = 400 };
	int32_t truth[N];
	float *x = blobs(N, 10, 1.f, truth);
	int later = 0;

	(void)state;
	for (uint64_t s = 0; s < 10; s++) {
		struct kmeans_options o = {.k = 10, .seed = s, .restarts = 1};
		struct kmeans one, five;
		struct err e = {0};

		assert_int_equal(kmeans_fit(&one, x, N, D, &o, &e), 0);
		o.restarts = 5;
		assert_int_equal(kmeans_fit(&five, x, N, D, &o, &e), 0);
		assert_true(five.inertia <= one.inertia);
		later += five.restart > 0;
		kmeans_release(&one);
		kmeans_release(&five);
	}
	assert_true(later > 0);
	mem_free(x);
}

/* Points 0, 1 | 4, 6 on a line, and a single one, computed by hand. */
static void silhouette(void **state)
{
	float x[5] = {0, 1, 4, 6, 20}, distance[5] = {0};
	int32_t cluster[5] = {0, 0, 1, 1, 2};
	double s[5] = {(5 - 1) / 5., (4 - 1) / 4., (3.5 - 2) / 3.5, (5.5 - 2) / 5.5, 0}, mean = 0;
	struct kmeans_quality q;
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 5; i++)
		mean += s[i] / 5;
	assert_int_equal(kmeans_rate(&q, x, 5, 1, cluster, distance, 3, 0, 0, NULL, &e), 0);
	assert_true(fabs(q.silhouette - mean) < 1e-6);
	assert_int_equal(q.silhouette_n, 5);
	kmeans_quality_release(&q);
}

/* Of equal centres the first gets all points. */
static void ties(void **state)
{
	float x[50 * D], centroids[3 * D] = {0}, offset[3] = {0};
	int32_t cluster[50];
	struct kmeans m = {.k = 3, .d = D, .centroids = centroids, .offset = offset};
	struct err e = {0};

	(void)state;
	rng_normal(x, 50 * D, 1, RNG_TEST, 9, 0);
	for (int j = 0; j < D; j++)
		centroids[j] = 100.f;
	assert_int_equal(kmeans_assign(cluster, NULL, &m, x, 50, NULL, NULL, &e), 0);
	for (int i = 0; i < 50; i++)
		assert_int_equal(cluster[i], 1);
}

/* Nine tenths of the points are in one blob: plain clusters follow it, balanced ones stay below their maximum share. */
static void balances(void **state)
{
	enum { N = 3000, K = 5 };
	int32_t truth[N], cluster[N];
	float *x = blobs(N, 1, 1.f, truth);
	int64_t size[2][K] = {{0}};
	struct kmeans m;
	int64_t most[2] = {0};

	(void)state;
	for (int i = 0; i < N / 10; i++)
		x[i * D] += 40.f;
	for (int b = 0; b < 2; b++) {
		fit_with(&m, cluster, x, N, (struct kmeans_options){.k = K, .balance = b ? 1.05 : 0, .seed = 4}, 2);
		for (int i = 0; i < N; i++)
			size[b][cluster[i]]++;
		for (int c = 0; c < K; c++)
			most[b] = size[b][c] > most[b] ? size[b][c] : most[b];
		kmeans_release(&m);
	}
	assert_true(most[0] > 1.05 * N / K);
	assert_true(most[1] <= 1.05 * N / K);
	mem_free(x);
}

/* Equal points change clusters together. With little free capacity they must not alternate forever. */
static void balances_pairs(void **state)
{
	enum { N = 70, K = 5 };
	int32_t truth[N], cluster[N];
	float *x = blobs(N, 2, 2.f, truth);

	(void)state;
	for (int i = 0; i < N; i += 2)
		memcpy(x + (i + 1) * D, x + i * D, D * sizeof *x);
	for (uint64_t s = 0; s < 40; s++) {
		int64_t size[K] = {0};
		struct kmeans m;

		fit_with(&m, cluster, x, N, (struct kmeans_options){.k = K, .balance = 1.05, .seed = s}, 1);
		for (int i = 0; i < N; i++)
			size[cluster[i]]++;
		for (int c = 0; c < K; c++)
			assert_true(size[c] <= kmeans_room(1.05, N, K));
		kmeans_release(&m);
	}
	mem_free(x);
}

/* Three copies of each of four points in four clusters: no cluster may stay empty. */
static void few_distinct(void **state)
{
	float x[12 * D] = {0};
	int32_t cluster[12], seen = 0;
	struct kmeans_options o = {.k = 4, .seed = 1};
	struct kmeans m;
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 12; i++)
		x[i * D + 1] = (float)(i % 4) * (float)(i % 4);
	for (o.seed = 0; o.seed < 20; o.seed++) {
		assert_int_equal(kmeans_fit(&m, x, 12, D, &o, &e), 0);
		assert_int_equal(kmeans_assign(cluster, NULL, &m, x, 12, NULL, NULL, &e), 0);
		seen = 0;
		for (int i = 0; i < 12; i++)
			seen |= 1 << cluster[i];
		assert_int_equal(seen, 15);
		assert_true(m.inertia < 1e-6);
		kmeans_release(&m);
	}
	o.k = 5;
	assert_int_equal(kmeans_fit(&m, x, 12, D, &o, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, "distinct"));
}

static void refuses(void **state)
{
	float x[4 * D] = {0};
	struct kmeans_options o = {.k = 5};
	struct kmeans m;
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 4; i++)
		x[i * D] = (float)i;
	assert_int_equal(kmeans_fit(&m, x, 4, D, &o, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	e = (struct err){0};
	o = (struct kmeans_options){.k = 2, .fine = 2};
	assert_int_equal(kmeans_fit(&m, x, 4, D, &o, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	e = (struct err){0};
	o = (struct kmeans_options){.k = 2};
	x[D + 3] = NAN;
	assert_int_equal(kmeans_fit(&m, x, 4, D, &o, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, "point 1"));
}

static void one_cluster(void **state)
{
	float x[3 * D] = {0}, distance[3];
	int32_t cluster[3];
	struct kmeans_options o = {.k = 1};
	struct kmeans_quality q;
	struct kmeans m;
	struct err e = {0};

	(void)state;
	x[0] = 3;
	assert_int_equal(kmeans_fit(&m, x, 3, D, &o, &e), 0);
	assert_true(fabsf(m.centroids[0] - 1.f) < 1e-6f);
	assert_int_equal(kmeans_assign(cluster, distance, &m, x, 3, NULL, NULL, &e), 0);
	assert_true(fabsf(distance[0] - 2.f) < 1e-6f && fabsf(distance[1] - 1.f) < 1e-6f);
	assert_int_equal(kmeans_rate(&q, x, 3, D, cluster, distance, 1, 0, 0, NULL, &e), 0);
	assert_false(isfinite(q.silhouette));
	kmeans_quality_release(&q);
	kmeans_release(&m);
}

static void random_shares(void **state)
{
	enum { N = 20000 };
	const double share[3] = {.5, .3, .2};
	int count[3] = {0}, moved = 0;

	(void)state;
	for (int i = 0; i < N; i++) {
		char *key = str_new("k/%d", i);
		int32_t c = kmeans_random(key, share, 3, 1);

		assert_int_equal(c, kmeans_random(key, share, 3, 1));
		moved += c != kmeans_random(key, share, 3, 2);
		count[c]++;
		mem_free(key);
	}
	for (int c = 0; c < 3; c++) /* four standard deviations */
		assert_true(fabs(count[c] / (double)N - share[c]) < 4 * sqrt(share[c] * (1 - share[c]) / N));
	assert_true(moved > N / 2);
}

/* Distances to many new centres at once have the bits of distances to one centre at a time, also far from the origin, where the products lose all
 * digits. */
static void approaches(void **state)
{
	enum { N = 4500, COUNT = 21 };
	static const float offsets[] = {0, 1000, 1e6f};

	(void)state;
	for (size_t v = 0; v < sizeof offsets / sizeof *offsets; v++) {
		int32_t truth[N];
		float *x = blobs(N, 300, .5f, truth);
		double *sum = mem_zalloc(2, sizeof *sum), want = 0;
		struct points p;
		struct err e = {0};
		struct pool *pool = pool_new(3, &e);

		for (int i = 0; i < N * D; i++)
			x[i] += offsets[v];
		assert_int_equal(points_init(&p, x, NULL, N, D, pool, &(struct points_place){.device = NULL}, &e), 0);
		assert_int_equal(points_approach(&p, x, 1, 1, sum, &e), 0);
		assert_int_equal(points_approach(&p, x + D, COUNT - 1, 0, sum, &e), 0);
		for (int i = 0; i < N; i++) {
			float least = INFINITY;

			for (int c = 0; c < COUNT; c++) {
				float d = points_distance2(x + i * D, x + c * D, D);

				least = d < least ? d : least;
			}
			assert_true(least == p.near[i]);
			want += least;
		}
		assert_true(fabs(sum[0] + sum[1] - want) <= 1e-9 * want);
		points_release(&p);
		pool_free(pool);
		mem_free(sum);
		mem_free(x);
	}
}

/* The sum of squared distances to k centres that are drawn one by one, each from the distances to the ones before. */
static double drawn_one_by_one(const float *x, int n, int k, uint64_t seed)
{
	double *near = mem_alloc((size_t)n * sizeof *near), total = 0;
	int pick = (int)rng_below((uint64_t)n, seed, RNG_TEST, 9, 0, 0);

	for (int i = 0; i < n; i++)
		near[i] = INFINITY;
	for (int c = 0; c < k; c++) {
		double at;

		total = 0;
		for (int i = 0; i < n; i++) {
			near[i] = fmin(near[i], points_distance2(x + i * D, x + pick * D, D));
			total += near[i];
		}
		at = total * rng_uniform(seed, RNG_TEST, 10, (uint64_t)c, 0);
		for (pick = 0; pick < n - 1 && (at -= near[pick]) >= 0; pick++)
			;
	}
	mem_free(near);
	return total;
}

/* Many centres that are drawn several at a time are as good as centres drawn one by one: the mean of 400 seedings within 3% (3000 were within .7%).
 * Without rejections the mean is 136% higher; if the draw after a rejection reuses its random number, 5% higher. */
static void seeds_as_one_by_one(void **state)
{
	enum { N = 2000, K = 96, SEEDS = 400 };
	int32_t truth[N];
	float *x = blobs(N, K, .5f, truth);
	double sum = 0, want = 0;

	(void)state;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct kmeans_options o = {.k = K, .seed = seed, .restarts = 1, .iterations = 1};
		struct kmeans m;
		struct err e = {0};

		assert_int_equal(kmeans_fit(&m, x, N, D, &o, &e), 0);
		sum += m.inertia;
		want += drawn_one_by_one(x, N, K, seed);
		kmeans_release(&m);
	}
	if (!(fabs(sum / want - 1) < .03))
		fail_msg("%g of the sum of squares of centres drawn one by one", sum / want);
	mem_free(x);
}

static double cosine(const float *a, const float *b)
{
	double ab = 0, aa = 0, bb = 0;

	for (int j = 0; j < D; j++) {
		ab += (double)a[j] * b[j];
		aa += (double)a[j] * a[j];
		bb += (double)b[j] * b[j];
	}
	return ab / sqrt(aa * bb);
}

/* Points around directions, whose lengths differ by a factor of 400: only their directions tell the blobs apart. */
static float *directions(int64_t n, int count, int32_t *truth)
{
	float *x = blobs(n, count, 2.f, truth);

	for (int64_t i = 0; i < n; i++)
		for (int j = 0; j < D; j++)
			x[i * D + j] *= (float)pow(400., rng_uniform(11, RNG_TEST, 5, (uint64_t)i, 0));
	return x;
}

/* The definition, in double from the points as they were before they were scaled: each is in the cluster of the largest cosine, the centroids are the
 * means of unit vectors scaled to length 1, and the inertia is the sum of 2 - 2 cos. */
static void check_spherical(const struct kmeans *m, const int32_t *cluster, const float *distance, const float *raw, int64_t n)
{
	double *mean = mem_zalloc((size_t)(m->k * D), sizeof *mean), inertia = 0;

	for (int64_t i = 0; i < n; i++) {
		double own = cosine(raw + i * D, m->centroids + cluster[i] * D), length = 0;

		for (int c = 0; c < m->k; c++)
			assert_true(cosine(raw + i * D, m->centroids + c * D) <= own + 1e-6);
		assert_true(fabs(distance[i] - sqrt(2 - 2 * own)) < 1e-5);
		inertia += 2 - 2 * own;
		for (int j = 0; j < D; j++)
			length += (double)raw[i * D + j] * raw[i * D + j];
		for (int j = 0; j < D; j++)
			mean[cluster[i] * D + j] += raw[i * D + j] / sqrt(length);
	}
	assert_true(fabs(inertia / m->inertia - 1) < 1e-5);
	for (int c = 0; c < m->k; c++) {
		double length = 0;

		for (int j = 0; j < D; j++)
			length += mean[c * D + j] * mean[c * D + j];
		for (int j = 0; j < D; j++)
			assert_true(fabs(mean[c * D + j] / sqrt(length) - m->centroids[c * D + j]) < 1e-3);
	}
	mem_free(mean);
}

static void spherical(void **state)
{
	enum { N = 2000, K = 6 };
	int32_t truth[N], cluster[2][N];
	int64_t apart[2] = {0}, size[K] = {0};
	float *raw = directions(N, K, truth), *x = mem_alloc(N * D * sizeof *x), *distance = mem_alloc(N * sizeof *distance);
	struct kmeans_options o = {.k = K, .seed = 2, .tolerance = 1e-9, .cosine = 1};
	struct kmeans m[2];
	struct err e = {0};

	(void)state;
	memcpy(x, raw, N * D * sizeof *x);
	assert_int_equal(points_unit_rows(x, N, D, NULL), -1);
	for (int t = 0; t < 2; t++)
		fit_with(&m[t], cluster[t], x, N, o, t ? 3 : 1);
	assert_memory_equal(m[0].centroids, m[1].centroids, K * D * sizeof(float));
	assert_memory_equal(cluster[0], cluster[1], sizeof cluster[0]);
	assert_int_equal(m[0].cosine, 1);
	assert_int_equal(kmeans_assign(cluster[0], distance, &m[0], x, N, NULL, NULL, &e), 0);
	check_spherical(&m[0], cluster[0], distance, raw, N);
	kmeans_release(&m[1]);
	fit_with(&m[1], cluster[1], raw, N, (struct kmeans_options){.k = K, .seed = 2}, 1);
	for (int i = 0; i < N; i++)
		for (int a = 0; a < 2; a++)
			apart[a] += (truth[i] == truth[(i + 1) % N]) != (cluster[a][i] == cluster[a][(i + 1) % N]);
	assert_int_equal(apart[0], 0);
	assert_true(apart[1] > N / 10); /* by squared distance the lengths count */
	kmeans_release(&m[0]);
	kmeans_release(&m[1]);

	/* Balanced, and through fine centroids: the centroids have unit length, and no cluster is too large. */
	o.k = 4;
	o.balance = 1.1;
	fit_with(&m[0], cluster[0], x, N, o, 1);
	for (int i = 0; i < N; i++)
		size[cluster[0][i]]++;
	for (int c = 0; c < 4; c++)
		assert_true(size[c] <= kmeans_room(1.1, N, 4));
	o.balance = 0;
	o.fine = 30;
	fit_with(&m[1], cluster[1], x, N, o, 1);
	for (int a = 0; a < 2; a++) {
		for (int c = 0; c < 4; c++)
			assert_true(fabsf(points_length2(m[a].centroids + c * D, D) - 1) < 1e-6f);
		kmeans_release(&m[a]);
	}
	mem_free(distance);
	mem_free(x);
	mem_free(raw);
}

/* The mean of opposite points has no direction: the centroid stays where it was. A point without one is named. */
static void opposite(void **state)
{
	float x[2 * D] = {0}, zero[3 * D] = {0};
	struct kmeans_options o = {.k = 1, .seed = 1, .cosine = 1};
	struct err e = {0};
	struct kmeans m;

	(void)state;
	x[0] = 1;
	x[D] = -1;
	assert_int_equal(kmeans_fit(&m, x, 2, D, &o, &e), 0);
	assert_true(fabsf(m.centroids[0]) == 1);
	assert_true(fabs(m.inertia - 4) < 1e-6);
	kmeans_release(&m);
	zero[0] = 3;
	assert_int_equal(points_unit_rows(zero, 3, D, NULL), 1);
	assert_true(zero[0] == 1);
}

/* Of five blobs three have their centroids already. Two more are fitted to points of all blobs: those that are kept stay as they are, also the one
 * without points, and the new ones are the means of the points that are nearest to them. */
static void keeps(void **state)
{
	enum { N = 3000, BLOBS = 6, KEPT = 4, K = 6, LONE = 3 };
	int32_t truth[N], cluster[N];
	float *x = blobs(N, BLOBS, .5f, truth), *known = mem_alloc((size_t)KEPT * D * sizeof *known), offset[KEPT] = {0};
	int64_t n = 0;

	(void)state;
	for (int64_t i = 0; i < N; i++) { /* no point of the blob LONE */
		if (truth[i] == LONE)
			continue;
		memmove(x + n * D, x + i * D, D * sizeof *x);
		truth[n++] = truth[i];
	}
	for (int cosine = 0; cosine < 2; cosine++) {
		struct kmeans kept = {.k = KEPT, .d = D, .centroids = known, .offset = offset}, m;
		struct err e = {0};
		double *mean = mem_zalloc((size_t)K * D, sizeof *mean);
		int64_t size[K] = {0};

		for (int j = 0; cosine && j < n; j++)
			points_unit(x + (int64_t)j * D, D);
		for (int c = 0; c < KEPT; c++) {
			rng_normal(known + (int64_t)c * D, D, 7, RNG_TEST, 2, (uint64_t)c);
			for (int j = 0; j < D && !cosine; j++)
				known[c * D + j] *= 6.f;
			if (cosine)
				points_unit(known + (int64_t)c * D, D);
		}
		assert_int_equal(kmeans_fit(&m, x, n, D, &(struct kmeans_options){.k = K, .kept = &kept, .cosine = cosine, .seed = 2}, &e), 0);
		assert_int_equal(m.kept, KEPT);
		assert_memory_equal(m.centroids, known, (size_t)KEPT * D * sizeof *known);
		assert_int_equal(kmeans_assign(cluster, NULL, &m, x, n, NULL, NULL, &e), 0);
		for (int64_t i = 0; i < n; i++) {
			size[cluster[i]]++;
			for (int j = 0; j < D; j++)
				mean[cluster[i] * D + j] += x[i * D + j];
			for (int64_t o = 0; o < i; o += 37)
				assert_int_equal(cluster[i] == cluster[o], truth[i] == truth[o]);
		}
		assert_int_equal(size[LONE], 0);
		for (int c = KEPT; c < K; c++) {
			double length = 0;

			assert_true(size[c] > 0);
			for (int j = 0; j < D; j++)
				length += mean[c * D + j] * mean[c * D + j];
			for (int j = 0; j < D; j++)
				assert_true(fabs(mean[c * D + j] / (cosine ? sqrt(length) : (double)size[c]) - m.centroids[c * D + j]) < 1e-5);
		}
		kmeans_release(&m);
		mem_free(mean);
	}
	mem_free(known);
	mem_free(x);
}

/* What cannot be kept is refused: no new cluster, centroids of other points, balance. */
static void refuses_kept(void **state)
{
	enum { N = 40 };
	int32_t truth[N];
	float *x = blobs(N, 2, .5f, truth), *known = mem_zalloc(2 * D, sizeof *known), offset[2] = {0};
	struct kmeans kept = {.k = 2, .d = D, .centroids = known, .offset = offset}, m;
	struct kmeans_options good = {.k = 3, .kept = &kept}, o = good;
	struct err e = {0};

	(void)state;
	o.k = 2;
	assert_int_equal(kmeans_fit(&m, x, N, D, &o, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	o = good;
	e = (struct err){0};
	o.balance = 1.5;
	assert_int_equal(kmeans_fit(&m, x, N, D, &o, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	kept.d = D - 1;
	e = (struct err){0};
	assert_int_equal(kmeans_fit(&m, x, N, D, &good, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	kept.d = D;
	e = (struct err){0};
	for (int i = 0; i < N; i++)
		memcpy(x + (int64_t)i * D, known, D * sizeof *x);
	assert_int_equal(kmeans_fit(&m, x, N, D, &good, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, "beside the centroids that are kept"));
	mem_free(known);
	mem_free(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(finds_blobs),
	    cmocka_unit_test(rests),
	    cmocka_unit_test(same_for_any_threads),
	    cmocka_unit_test(fine_then_coarse),
	    cmocka_unit_test(balances),
	    cmocka_unit_test(few_distinct),
	    cmocka_unit_test(refuses),
	    cmocka_unit_test(one_cluster),
	    cmocka_unit_test(random_shares),
	    cmocka_unit_test(fine_weights),
	    cmocka_unit_test(ties),
	    cmocka_unit_test(refills),
	    cmocka_unit_test(best_restart),
	    cmocka_unit_test(silhouette),
	    cmocka_unit_test(balances_pairs),
	    cmocka_unit_test(approaches),
	    cmocka_unit_test(seeds_as_one_by_one),
	    cmocka_unit_test(spherical),
	    cmocka_unit_test(opposite),
	    cmocka_unit_test(keeps),
	    cmocka_unit_test(refuses_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
