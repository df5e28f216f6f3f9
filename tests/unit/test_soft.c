/* cluster/soft, cluster/randomshares and data/assignment: places of points on a line, ties, margins, offsets; random places in the shares asked for;
 * the column "also", and what is refused in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "cluster/randomshares.h"
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

enum { KEYS = 20000, MOST_CLUSTERS = 5 };

/* Draw the places of many keys. Every place must be in each cluster as often as its share says, within five standard deviations, and a cluster has a
 * sample twice only if its share is above 1 / most. pairs: samples whose first two places are in these clusters. */
static void draw_places(const double *share, int k, int most, int pairs[MOST_CLUSTERS][MOST_CLUSTERS])
{
	int count[ASSIGNMENT_CLUSTERS][MOST_CLUSTERS] = {{0}};

	memset(pairs, 0, sizeof(int[MOST_CLUSTERS][MOST_CLUSTERS]));
	for (int i = 0; i < KEYS; i++) {
		int32_t place[ASSIGNMENT_CLUSTERS], again[ASSIGNMENT_CLUSTERS], order[MOST_CLUSTERS];
		char *key = str_new("pictures/%d", i);
		int times[MOST_CLUSTERS] = {0};

		place[0] = kmeans_random(key, share, k, 3);
		random_further(place + 1, key, place[0], share, k, most, 3, order);
		random_further(again + 1, key, place[0], share, k, most, 3, order);
		assert_memory_equal(place + 1, again + 1, (size_t)(most - 1) * sizeof *place);
		for (int m = 0; m < most; m++) {
			count[m][place[m]]++;
			times[place[m]]++;
		}
		for (int c = 0; c < k; c++)
			if (times[c] > 1 && share[c] * most <= 1)
				fail_msg("key %d is in cluster %d %d times", i, c, times[c]);
		pairs[place[0]][place[1]]++;
		mem_free(key);
	}
	for (int m = 0; m < most; m++)
		for (int c = 0; c < k; c++)
			if (!(fabs(count[m][c] - KEYS * share[c]) <= 5 * sqrt(KEYS * share[c] * (1 - share[c]))))
				fail_msg("place %d of %d is in cluster %d %d times of %d, not %g", m, most, c, count[m][c], KEYS, share[c]);
}

static void at_random(void **state)
{
	const double equal[] = {.25, .25, .25, .25}, odd[] = {.4, .3, .15, 0, .15}, large[] = {.7, .2, .1};
	int pairs[MOST_CLUSTERS][MOST_CLUSTERS], twice;

	(void)state;
	draw_places(equal, 4, 2, pairs);
	for (int a = 0; a < 4; a++)
		for (int b = 0; b < 4; b++)
			assert_true(a == b ? !pairs[a][b] : pairs[a][b] > KEYS / 12 * .85 && pairs[a][b] < KEYS / 12 * 1.15);
	draw_places(equal, 4, 3, pairs);
	draw_places(equal, 4, 4, pairs);
	draw_places(odd, 5, 2, pairs);
	/* A cluster of seven places in ten has four samples in ten twice: 2 * .7 places of a sample, in one or two. */
	draw_places(large, 3, 2, pairs);
	twice = pairs[0][0];
	assert_true(twice > KEYS * .38 && twice < KEYS * .42);
	assert_int_equal(pairs[1][1] + pairs[2][2], 0);
}

/* Of a soft table, shares of the places of training samples count. */
static void shares_of_places(void **state)
{
	const char *text = "key\tcluster\tsplit\talso\na\t0\ttrain\t1\nb\t0\ttrain\t0\nc\t1\ttrain\t2\nd\t1\tholdout\t3\n";
	const double own[] = {2. / 3, 1. / 3}, places[] = {.5, 1. / 3, 1. / 6};
	char *path = path_join(dir, "like.tsv"), hash[65];
	struct err e = {0};

	(void)state;
	assert_int_equal(commit_bytes(path, text, strlen(text), &e), 0);
	for (int soft = 0; soft < 2; soft++) {
		double *share = NULL;
		int k;

		if (random_shares(path, 0, soft, &k, &share, hash, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(k, soft ? 3 : 2);
		for (int c = 0; c < k; c++)
			assert_true(fabs(share[c] - (soft ? places : own)[c]) < 1e-12);
		mem_free(share);
	}
	mem_free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(further),   cmocka_unit_test(offsets_count),    cmocka_unit_test(column),
	    cmocka_unit_test(at_random), cmocka_unit_test(shares_of_places),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
