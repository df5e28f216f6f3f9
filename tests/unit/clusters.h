/* Tests of k-means on any device. The file that includes this defines cluster_device(), which opens the device, or fails or skips the test.
 * A device may choose another solution than the CPU if both are equally good. Well separated blobs have only one, so tests compare on those. */
#ifndef DDM_TESTS_CLUSTERS_H
#define DDM_TESTS_CLUSTERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "cluster/kmeans.h"

static struct device *cluster_device(void);

enum { CLUSTER_POINTS = 600, CLUSTER_DIM = 20, CLUSTER_CHUNK = NEAREST_PIECE };

/* n points around `count` random centres (normal vectors times 6). spread: standard deviation around a centre. Caller frees with mem_free. */
static float *cluster_blobs(int64_t n, int count, float spread)
{
	float *x = mem_alloc((size_t)(n * CLUSTER_DIM) * sizeof *x);

	for (int64_t i = 0; i < n; i++) {
		uint64_t b = rng_below(10000, 7, RNG_TEST, 1, (uint64_t)i, 0) % (uint64_t)count;
		float centre[CLUSTER_DIM];

		rng_normal(centre, CLUSTER_DIM, 7, RNG_TEST, 2, b);
		rng_normal(x + i * CLUSTER_DIM, CLUSTER_DIM, 7, RNG_TEST, 3, (uint64_t)i);
		for (int j = 0; j < CLUSTER_DIM; j++)
			x[i * CLUSTER_DIM + j] = x[i * CLUSTER_DIM + j] * spread + 6.f * centre[j];
	}
	return x;
}

struct clustered {
	struct kmeans m;
	int32_t cluster[CLUSTER_POINTS];
	float distance[CLUSTER_POINTS];
};

static void cluster_fit(struct clustered *c, const float *x, struct kmeans_options o)
{
	struct err e = {0};

	if (kmeans_fit(&c->m, x, CLUSTER_POINTS, CLUSTER_DIM, &o, &e) ||
	    kmeans_assign(c->cluster, c->distance, &c->m, x, CLUSTER_POINTS, o.pool, o.device, &e))
		fail_msg("%s", e.msg);
}

static double cluster_distance2(const struct clustered *c, const float *x, int k)
{
	double sum = 0;

	for (int j = 0; j < CLUSTER_DIM; j++)
		sum += pow((double)x[j] - (double)c->m.centroids[k * CLUSTER_DIM + j], 2);
	return sum;
}

/* Check that every point belongs to its nearest centre, and that distances and inertia are right. */
static void cluster_check(const struct clustered *c, const float *x)
{
	double inertia = 0;

	for (int i = 0; i < CLUSTER_POINTS; i++) {
		int at = c->cluster[i];
		double own = cluster_distance2(c, x + i * CLUSTER_DIM, at);

		for (int k = 0; k < c->m.k; k++)
			assert_true(cluster_distance2(c, x + i * CLUSTER_DIM, k) + (double)c->m.offset[k] >= own + (double)c->m.offset[at] - 1e-3);
		assert_true(fabs(sqrt(own) - (double)c->distance[i]) < 1e-4);
		inertia += own;
	}
	assert_true(fabs(inertia - c->m.inertia) <= 1e-5 * inertia);
}

/* The device finds the same clusters as the CPU. */
static void cluster_as_cpu(void **state)
{
	const struct kmeans_options kinds[] = {{.k = 7, .seed = 3}, {.k = 7, .fine = 70, .seed = 2}, {.k = 7, .seed = 3, .balance = 2}};
	float *x = cluster_blobs(CLUSTER_POINTS, 7, .5f);
	struct clustered *c = mem_alloc(2 * sizeof *c);
	struct device *d = cluster_device();

	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct kmeans_options o = kinds[i];

		cluster_fit(&c[0], x, o);
		o.device = d;
		o.chunk = CLUSTER_CHUNK;
		cluster_fit(&c[1], x, o);
		cluster_check(&c[1], x);
		assert_memory_equal(c[0].cluster, c[1].cluster, sizeof c[0].cluster);
		for (int k = 0; k < 7 * CLUSTER_DIM; k++)
			assert_true(fabsf(c[0].m.centroids[k] - c[1].m.centroids[k]) < 1e-4f);
		assert_true(fabs(c[0].m.inertia - c[1].m.inertia) < 1e-4 * c[0].m.inertia);
		kmeans_release(&c[0].m);
		kmeans_release(&c[1].m);
	}
	mem_free(c);
	mem_free(x);
	device_free(d);
}

static void cluster_no_room(struct device *d, struct device_memory *m)
{
	(void)d;
	*m = (struct device_memory){.free = 1, .total = 2};
}

/* Repeated runs give the same bytes, also if the device has room for only two chunks of points. The blobs overlap, so that k-means takes several
 * iterations. With more than 32 centres the seeding draws several at once. */
static void cluster_same_bytes(void **state)
{
	float *x = cluster_blobs(CLUSTER_POINTS, 3, 3);
	struct clustered *c = mem_zalloc(3, sizeof *c);
	struct device *d = cluster_device();
	void (*memory)(struct device *, struct device_memory *) = d->memory;

	(void)state;
	for (int i = 0; i < 3; i++) {
		d->memory = i == 2 ? cluster_no_room : memory;
		cluster_fit(&c[i], x,
		            (struct kmeans_options){.k = 40, .seed = 1, .restarts = 2, .iterations = 3, .device = d, .chunk = CLUSTER_CHUNK});
		cluster_check(&c[i], x);
		assert_int_equal(c[i].m.iterations, 3);
	}
	for (int i = 1; i < 3; i++) {
		assert_memory_equal(c[0].m.centroids, c[i].m.centroids, 40 * CLUSTER_DIM * sizeof(float));
		assert_memory_equal(c[0].cluster, c[i].cluster, sizeof c[0].cluster);
		assert_memory_equal(c[0].distance, c[i].distance, sizeof c[0].distance);
		assert_true(c[0].m.inertia == c[i].m.inertia);
	}
	for (int i = 0; i < 3; i++)
		kmeans_release(&c[i].m);
	d->memory = memory;
	mem_free(c);
	mem_free(x);
	device_free(d);
}

/* A cluster that loses all its points receives one; this happens with seed 52. */
static void cluster_refills(void **state)
{
	enum { N = 80, K = 33 };
	struct device *d = cluster_device();
	int reseeded = 0;

	(void)state;
	for (uint64_t s = 50; s < 55; s++) {
		struct kmeans_options o = {.k = K, .seed = s, .restarts = 1, .device = d, .chunk = 1};
		int32_t cluster[N], size[K] = {0};
		struct kmeans m;
		struct err e = {0};
		float x[N];

		rng_normal(x, N, s, RNG_TEST, 1, 0);
		for (int i = 0; i < N; i++)
			x[i] *= x[i] * x[i];
		if (kmeans_fit(&m, x, N, 1, &o, &e) || kmeans_assign(cluster, NULL, &m, x, N, NULL, d, &e))
			fail_msg("%s", e.msg);
		for (int i = 0; i < N; i++)
			size[cluster[i]]++;
		for (int k = 0; k < K; k++)
			assert_true(size[k] > 0);
		reseeded += m.reseeded;
		kmeans_release(&m);
	}
	assert_true(reseeded > 0);
	device_free(d);
}

/* Fewer distinct points than clusters are an error. */
static void cluster_few_distinct(void **state)
{
	float *x = cluster_blobs(CLUSTER_POINTS, 5, 0);
	struct device *d = cluster_device();
	struct kmeans_options o = {.k = 6, .seed = 1, .device = d};
	struct kmeans m;
	struct err e = {0};

	(void)state;
	assert_int_equal(kmeans_fit(&m, x, CLUSTER_POINTS, CLUSTER_DIM, &o, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, "only 5 distinct"));
	mem_free(x);
	device_free(d);
}

#define CLUSTER_TESTS \
	cmocka_unit_test(cluster_as_cpu), cmocka_unit_test(cluster_same_bytes), cmocka_unit_test(cluster_refills), \
	    cmocka_unit_test(cluster_few_distinct)

#endif
