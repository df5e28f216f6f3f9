/* sample/distance: squared distances of predicted samples to centroids of ddm-cluster, by l2 and by the cosine; sidecars that are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/npy.h"
#include "kernels/device.h"
#include "sample/distance.h"
#include "tests/unit/scratch.h"

enum { K = 2, SIDE = 2, D = SIDE * SIDE };

static struct device *device;

static int load(struct distance *c, const float *centroids, const char *facts, struct err *e)
{
	int64_t shape[2] = {K, D};
	char *path = path_join(dir, "c.npy"), *side = path_join(dir, "c.npy.json");
	struct distance_source source = {.path = path, .k = K, .channels = 1, .side = SIDE};
	struct str npy = {0};
	int rc;

	if (!device)
		device = device_cpu(NULL, DT_F32);
	source.device = device;

	npy_encode(&npy, NPY_F4, 2, shape, centroids);
	assert_int_equal(commit_bytes(path, npy.p, npy.len, e), 0);
	assert_int_equal(commit_bytes(side, facts, strlen(facts), e), 0);
	rc = distance_load(c, &source, e);
	str_release(&npy);
	mem_free(path);
	mem_free(side);
	return rc;
}

static void measures(void **state)
{
	const float centroids[K * D] = {.6f, 0, .8f, 0, 0, 1, 0, 0}, x[3 * D] = {.9f, .1f, .2f, -.3f, .45f, .05f, .1f, -.15f, 0, 0, 0, 0};
	double got[3 * K];
	struct distance c;
	struct err e = {0};

	(void)state;
	for (int cosine = 0; cosine < 2; cosine++) {
		assert_int_equal(load(&c, centroids, cosine ? "{\"distance\": \"cosine\", \"offset\": [0, 0.25]}" : "{\"offset\": [0, 0.25]}", &e),
		                 0);
		assert_int_equal(distance_squared(&c, got, x, 3, &e), 0);
		for (int i = 0; i < 3; i++)
			for (int k = 0; k < K; k++) {
				double xx = 0, xc = 0, cc = 0, want;

				for (int j = 0; j < D; j++) {
					xx += (double)x[i * D + j] * x[i * D + j];
					xc += (double)x[i * D + j] * centroids[k * D + j];
					cc += (double)centroids[k * D + j] * centroids[k * D + j];
				}
				want = cosine && xx > 0 ? 1 + cc - 2 * xc / sqrt(xx) : xx + cc - 2 * xc;
				if (!(fabs(got[i * K + k] - want - .25 * k) < 1e-6))
					fail_msg("cosine %d, sample %d, cluster %d: %g, not %g", cosine, i, k, got[i * K + k], want + .25 * k);
			}
		distance_release(&c);
	}
}

static void refuses(void **state)
{
	static const struct {
		float first;
		const char *facts, *says;
	} bad[] = {
	    {.5f, "{\"distance\": \"cosine\"}", "c.npy: row 0 has the length 0.94"},
	    {.6f, "{\"distance\": \"manhattan\"}", "\"distance\" is \"manhattan\", expected \"cosine\""},
	    {.6f, "{\"distance\": 2}", "distance"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		const float centroids[K * D] = {bad[i].first, 0, .8f, 0, 0, 1, 0, 0};
		struct distance c = {0};
		struct err e = {0};

		assert_int_equal(load(&c, centroids, bad[i].facts, &e), -1);
		assert_int_equal(e.code, ERR_DATA);
		if (!strstr(e.msg, bad[i].says))
			fail_msg("%s", e.msg);
		distance_release(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(measures),
	    cmocka_unit_test(refuses),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
