/* k-means on a device whose memory the host cannot access. */
#include "tests/unit/clusters.h"
#include "tests/unit/far.h"

static struct device *cluster_device(void)
{
	return device_far(NULL);
}

static int fit(struct device *d, const float *x, struct err *e)
{
	struct kmeans_options o = {.k = 40, .seed = 1, .iterations = 4, .restarts = 1, .device = d, .chunk = CLUSTER_CHUNK};
	struct kmeans m;
	int rc = kmeans_fit(&m, x, CLUSTER_POINTS, CLUSTER_DIM, &o, e);

	kmeans_release(&m);
	return rc;
}

/* Points that fit into memory are sent once, others in every pass. */
static void sends(void **state)
{
	float *x = cluster_blobs(CLUSTER_POINTS, 3, 3);
	int64_t all = CLUSTER_POINTS * CLUSTER_DIM * sizeof *x;
	struct err e = {0};

	(void)state;
	for (int streamed = 0; streamed < 2; streamed++) {
		struct device *d = device_far(NULL);
		struct far *f = (struct far *)d;

		f->total = streamed;
		assert_int_equal(fit(d, x, &e), 0);
		assert_true(streamed ? f->send_bytes > 10 * all && f->send_bytes % all == 0 : f->send_bytes == all);
		device_free(d);
	}
	mem_free(x);
}

/* A lost device in any pass: an error that says so, and nothing stays allocated. */
static void lost(void **state)
{
	float *x = cluster_blobs(CLUSTER_POINTS, 3, 3);
	struct device *d = device_far(NULL);
	struct err e = {0};
	int64_t calls;

	(void)state;
	assert_int_equal(fit(d, x, &e), 0);
	calls = ((struct far *)d)->calls;
	device_free(d);
	for (int64_t at = 1; at <= calls; at += 13) {
		d = device_far(NULL);
		e = (struct err){0};
		((struct far *)d)->lost_at = at;
		assert_int_equal(fit(d, x, &e), -1);
		assert_int_equal(e.code, ERR_UNAVAILABLE);
		device_free(d);
	}
	mem_free(x);
}

/* Centroids that are kept stay the same bytes there too, and the new ones are those of the CPU up to rounding. */
static void keeps(void **state)
{
	enum { K = 5, KEPT = 3 };
	float *x = cluster_blobs(CLUSTER_POINTS, K, 3);
	struct kmeans kept, m[2];
	struct err e = {0};

	(void)state;
	assert_int_equal(kmeans_fit(&kept, x, CLUSTER_POINTS / 2, CLUSTER_DIM, &(struct kmeans_options){.k = KEPT, .seed = 4}, &e), 0);
	for (int far = 0; far < 2; far++) {
		struct device *d = far ? device_far(NULL) : NULL;
		struct kmeans_options o = {.k = K, .kept = &kept, .seed = 1, .device = d, .chunk = CLUSTER_CHUNK};

		assert_int_equal(kmeans_fit(&m[far], x, CLUSTER_POINTS, CLUSTER_DIM, &o, &e), 0);
		assert_memory_equal(m[far].centroids, kept.centroids, KEPT * CLUSTER_DIM * sizeof *x);
		device_free(d);
	}
	for (int64_t i = 0; i < K * CLUSTER_DIM; i++)
		assert_true(fabsf(m[0].centroids[i] - m[1].centroids[i]) < 1e-4f);
	kmeans_release(&m[0]);
	kmeans_release(&m[1]);
	kmeans_release(&kept);
	mem_free(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {CLUSTER_TESTS, cmocka_unit_test(sends), cmocka_unit_test(lost), cmocka_unit_test(keeps)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
