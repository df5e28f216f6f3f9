/* cluster/soft and data/assignment: places of points on a line, ties, margins, offsets; the column "also", and what is refused in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "cluster/soft.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "tests/unit/scratch.h"

/* Centroids 0, 4, 6, 20. */
static float centroids[] = {0, 4, 6, 20}, offset[4];
static const struct kmeans line = {.k = 4, .d = 1, .centroids = centroids, .offset = offset};

static void find(const float *x, const int32_t *cluster, int n, int most, double margin, const int32_t *want)
{
	struct err e = {0};
	struct pool *pool = pool_new(2, &e);
	int32_t got[32], again[32];

	soft_clusters(got, &line, cluster, x, n, most, margin, NULL);
	soft_clusters(again, &line, cluster, x, n, most, margin, pool);
	pool_free(pool);
	for (int i = 0; i < n * (most - 1); i++) {
		if (got[i] != want[i])
			fail_msg("margin %g, at %d: %d, not %d", margin, i, (int)got[i], (int)want[i]);
		assert_int_equal(again[i], got[i]);
	}
}

static void further(void **state)
{
	const float x[] = {1, 5, 5, 19, 3};
	const int32_t own[] = {0, 1, 2, 3, 0};

	(void)state;
	find(x, own, 5, 2, 0, (int32_t[]){1, 2, 1, 2, 1});
	find(x, own, 5, 4, 0, (int32_t[]){1, 2, 3, 2, 0, 3, 1, 0, 3, 2, 1, 0, 1, 2, 3});
	/* Distances of 1: 1, 3, 5, 19; of 5: 1, 1, 5, 15; of 3, whose own cluster is not the nearest: 3, 1, 3, 17. */
	find(x, own, 5, 3, 3, (int32_t[]){1, 0, 2, 1, 1, 2, 3, 3, 1, 2});
	find(x, own, 5, 2, 1, (int32_t[]){0, 2, 1, 3, 1});
	find(x, own, 1, 6, 3, (int32_t[]){1, 0, 1, 0, 1});
	find(x, own, 1, 8, 0, (int32_t[]){1, 2, 3, 0, 1, 2, 3});
	/* Equally near centroids: the lower number first. */
	find((const float[]){2, 2}, (const int32_t[]){2, 3}, 2, 3, 0, (int32_t[]){0, 1, 0, 1});
}

/* Offsets are added to the squared distances: 5 is at 25, 1 + 30, 1, 225. */
static void offsets_count(void **state)
{
	(void)state;
	offset[1] = 30;
	find((const float[]){5}, (const int32_t[]){2}, 1, 4, 0, (int32_t[]){0, 1, 3});
	find((const float[]){5}, (const int32_t[]){2}, 1, 4, 5.1, (int32_t[]){0, 2, 0});
	offset[1] = 0;
}

static int load(struct assignment *a, const char *text, struct err *e)
{
	char *path = path_join(dir, "t.tsv");
	int rc = commit_bytes(path, text, strlen(text), e) || assignment_load(a, path, -1, e) ? -1 : 0;

	mem_free(path);
	return rc;
}

static void column(void **state)
{
	static const struct {
		const char *also, *says;
	} bad[] = {
	    {"x", "expected the numbers of further clusters"},
	    {"-1", "expected the numbers"},
	    {"0 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", "more than 16 clusters"},
	};
	struct assignment a;
	struct err e = {0};
	const int32_t *f;

	(void)state;
	if (load(&a, "key\tcluster\talso\na\t0\t2 0\nb\t1\t-\nc\t0\t4\n", &e))
		fail_msg("%s", e.msg);
	assert_int_equal(a.clusters, 5);
	assert_int_equal(assignment_further(&a, 0, &f), 2);
	assert_int_equal(f[0], 2);
	assert_int_equal(f[1], 0);
	assert_int_equal(assignment_further(&a, 1, &f), 0);
	assert_int_equal(assignment_further(&a, 2, &f), 1);
	assert_int_equal(f[0], 4);
	assignment_release(&a);
	if (load(&a, "key\tcluster\na\t0\n", &e))
		fail_msg("%s", e.msg);
	assert_int_equal(assignment_further(&a, 0, &f), 0);
	assignment_release(&a);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char *text = str_new("key\tcluster\talso\na\t1\t%s\n", bad[i].also);

		assert_int_equal(load(&a, text, &e), -1);
		assert_int_equal(e.code, ERR_DATA);
		if (!strstr(e.msg, bad[i].says) || !strstr(e.msg, "t.tsv:2: "))
			fail_msg("%s", e.msg);
		e = (struct err){0};
		assignment_release(&a);
		mem_free(text);
	}
	assert_int_equal(load(&a, "key\tcluster\talso\na\tred\t-\n", &e), -1);
	assert_non_null(strstr(e.msg, "clusters must be numbers, not names"));
	assignment_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(further),
	    cmocka_unit_test(offsets_count),
	    cmocka_unit_test(column),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
