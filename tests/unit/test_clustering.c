/* cluster/clustering: the request of a C program, with its own network, gives the table and the report; meaningless requests are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "cluster/clustering.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/still.h"
#include "file/tsv.h"
#include "tests/unit/scratch.h"

enum { PICTURES = 12, SIDE = 8 };

static char *pics, *table;

/* Red and blue pictures alternate. */
static void make_pictures(void)
{
	struct err e = {0};

	pics = path_join(dir, "pics");
	table = path_join(dir, "table.tsv");
	assert_int_equal(dir_make(pics, &e), 0);
	for (int i = 0; i < PICTURES; i++) {
		uint8_t pixels[SIDE * SIDE * 3] = {0}, *png = NULL;
		struct picture p = {.width = SIDE, .height = SIDE, .channels = 3, .pixels = pixels};
		char *path = str_new("%s/%02d.png", pics, i);
		size_t len;

		for (int k = 0; k < SIDE * SIDE; k++)
			pixels[3 * k + (i % 2 ? 2 : 0)] = (uint8_t)(200 + i);
		assert_int_equal(still_encode_png(&p, NULL, 0, &png, &len, &e), 0);
		assert_int_equal(commit_bytes(path, png, len, &e), 0);
		mem_free(png);
		mem_free(path);
	}
}

struct calls {
	int opened, large, devices;
};

static int first_pixel(void *arg, float *out, const struct picture *p, int n, struct err *e)
{
	(void)arg;
	(void)e;
	for (int i = 0; i < n; i++)
		for (int c = 0; c < 3; c++)
			out[3 * i + c] = p[i].pixels[c];
	return 0;
}

static int open_network(void *arg, struct features_measure *m, struct err *e)
{
	struct calls *calls = arg;

	(void)e;
	calls->opened++;
	*m = (struct features_measure){.dims = 3, .name = "pixel", .hash = "00", .input = "corner", .run = first_pixel};
	return 0;
}

static int no_device(void *arg, int large, struct device **d, struct err *e)
{
	struct calls *calls = arg;

	(void)d;
	(void)e;
	calls->devices++;
	calls->large += large;
	return 0;
}

static struct cluster_request request(struct pool *pool, struct calls *calls)
{
	static const char *sources[1];
	struct cluster_request r = cluster_defaults();

	sources[0] = pics;
	r.sources = sources;
	r.nsources = 1;
	r.k = 2;
	r.out = table;
	r.pool = pool;
	r.device = no_device;
	r.arg = calls;
	return r;
}

static void test_network(void **state)
{
	struct err e = {0};
	struct calls calls = {0};
	struct pool *pool = pool_new(1, &e);
	struct cluster_request r = request(pool, &calls);
	struct cluster_report report;
	struct tsv *t;
	int column;

	(void)state;
	r.network = open_network;
	r.features = "pixel:any";
	assert_int_equal(cluster_make(&r, &report, &e), 0);
	assert_int_equal(calls.opened, 1);
	assert_int_equal(calls.devices, 1);
	assert_int_equal(calls.large, 0);
	assert_true(report.made);
	assert_int_equal(report.k, 2);
	assert_int_equal(report.samples, PICTURES);
	assert_int_equal(report.count[0], PICTURES);
	assert_string_equal(report.features, "pixel");
	assert_null(report.gpu);
	for (int c = 0; c < 2; c++) {
		assert_int_equal(report.size[0][c], PICTURES / 2);
		assert_int_equal(report.size[1][c], 0);
	}
	cluster_report_release(&report);
	assert_non_null(t = tsv_load(table, &e));
	assert_true((column = tsv_need(t, "cluster", &e)) >= 0);
	for (int i = 2; i < PICTURES; i++)
		assert_string_equal(tsv_get(t, i, column), tsv_get(t, i - 2, column));
	assert_string_not_equal(tsv_get(t, 0, column), tsv_get(t, 1, column));
	tsv_free(t);

	/* The table exists now, and another seed would give another one. */
	r.seed = 1;
	assert_int_equal(cluster_make(&r, &report, &e), -1);
	assert_int_equal(e.code, ERR_EXISTS);
	assert_false(report.made);
	cluster_report_release(&report);
	pool_free(pool);
}

static void refuse(const struct cluster_request *r, enum err_code code)
{
	struct err e = {0};
	struct cluster_report report;

	assert_int_equal(cluster_make(r, &report, &e), -1);
	assert_int_equal(e.code, code);
	assert_false(report.made);
	cluster_report_release(&report);
}

static void test_refused(void **state)
{
	struct err e = {0};
	struct calls calls = {0};
	struct pool *pool = pool_new(1, &e);
	struct cluster_request r = request(pool, &calls);

	(void)state;
	r.k = 0;
	refuse(&r, ERR_USAGE);
	r.centroids = "none.npy";
	r.fine = 9;
	refuse(&r, ERR_USAGE);
	r = request(pool, &calls);
	r.like = table;
	refuse(&r, ERR_USAGE);
	r = request(pool, &calls);
	r.features = "random";
	r.centroids_out = "none.npy";
	refuse(&r, ERR_USAGE);
	r = request(pool, &calls);
	r.features = "neither";
	refuse(&r, ERR_NOINPUT);
	assert_int_equal(calls.devices, 0);
	pool_free(pool);
}

static int set_up(void **state)
{
	int rc = make_dir(state);

	if (!rc)
		make_pictures();
	return rc;
}

static int tear_down(void **state)
{
	mem_free(pics);
	mem_free(table);
	return remove_dir(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_network),
	    cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
