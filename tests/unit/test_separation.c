/* cluster/separation: indices and agreements computed by hand; one cluster, as many as points, empty clusters, equal points; the silhouette of all
 * points and of a subsample; the same bits for any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "cluster/kmeans.h"
#include "cluster/separation.h"
#include "core/mem.h"
#include "core/rng.h"

static void near(double a, double b)
{
	if (!(fabs(a - b) <= 1e-12 * fmax(1, fabs(b))))
		fail_msg("%.17g, not %.17g", a, b);
}

static struct separation rate(const float *x, int64_t n, int64_t d, const int32_t *cluster, int k)
{
	struct separation s;
	struct err e = {0};

	assert_int_equal(separation_rate(&s, x, n, d, cluster, k, NULL, &e), 0);
	return s;
}

/* Means 1, 7 and 20 of {0, 2}, {4, 7, 10} and {20}: mean distances 1, 2 and 0. */
static void by_hand(void **state)
{
	const float x[] = {0, 4, 2, 7, 10, 20};
	const int32_t cluster[] = {0, 1, 0, 1, 1, 2}, with_empty[] = {1, 3, 1, 3, 3, 4};
	const double ratio[] = {(1. + 2) / 6, (1. + 2) / 6, 2. / 13}, all = 43. / 6;
	struct separation s = rate(x, 6, 1, cluster, 3), same = rate(x, 6, 1, with_empty, 6);
	double between = 2 * pow(1 - all, 2) + 3 * pow(7 - all, 2) + pow(20 - all, 2), within = 1 + 1 + 9 + 0 + 9;

	(void)state;
	near(s.davies_bouldin, (ratio[0] + ratio[1] + ratio[2]) / 3);
	near(s.calinski_harabasz, between / 2 / (within / 3));
	near(same.davies_bouldin, s.davies_bouldin);
	near(same.calinski_harabasz, s.calinski_harabasz);
}

static void at_the_edges(void **state)
{
	const float x[] = {1, 2, 2, 5}, two[] = {3, 3, 8, 8};
	const int32_t one[] = {0, 0, 0, 0}, each[] = {0, 1, 2, 3}, pairs[] = {0, 0, 1, 1}, crossed[] = {0, 1, 0, 1};

	(void)state;
	assert_true(isnan(rate(x, 4, 1, one, 1).davies_bouldin) && isnan(rate(x, 4, 1, one, 1).calinski_harabasz));
	assert_true(isnan(rate(x, 4, 1, each, 4).davies_bouldin) && isnan(rate(x, 4, 1, each, 4).calinski_harabasz));
	/* Equal points in each cluster; then equal means. */
	near(rate(two, 4, 1, pairs, 2).davies_bouldin, 0);
	near(rate(two, 4, 1, pairs, 2).calinski_harabasz, 1);
	near(rate(two, 4, 1, crossed, 2).davies_bouldin, 0);
	near(rate(two, 4, 1, crossed, 2).calinski_harabasz, 0);
}

/* Contingency {2 1; 0 3}: 4 of 15 pairs are together in both, 6 in the first, 7 in the second. */
static void agreements(void **state)
{
	const int32_t a[] = {0, 0, 0, 1, 1, 1}, b[] = {5, 5, 2, 2, 2, 2}, one[] = {3, 3, 3, 3, 3, 3}, each[] = {0, 1, 2, 3, 4, 5};
	const int32_t swapped[] = {9, 9, 9, 4, 4, 4}, crossed[] = {0, 1, 0, 1}, halves[] = {0, 0, 1, 1}, partly[] = {0, -1, 0, 1, 1, -1};
	const double pairs = 6 * 7 / 15., ha = log(2), hb = log(6) - (2 * log(2) + 4 * log(4)) / 6;
	const double both = log(6) - (2 * log(2) + 0 + 3 * log(3)) / 6;
	struct agreement g = agreement_of(a, b, 6);

	(void)state;
	near(g.rand, (4 - pairs) / ((6 + 7) / 2. - pairs));
	near(g.information, 2 * (ha + hb - both) / (ha + hb));
	assert_int_equal(g.n, 6);
	g = agreement_of(b, a, 6);
	near(g.rand, (4 - pairs) / ((6 + 7) / 2. - pairs));
	g = agreement_of(a, swapped, 6);
	near(g.rand, 1);
	near(g.information, 1);
	g = agreement_of(halves, crossed, 4); /* worse than chance: no pair is together in both */
	near(g.rand, (0 - 2 * 2 / 6.) / (2 - 2 * 2 / 6.));
	near(g.information, 0);
	g = agreement_of(one, one, 6);
	near(g.rand, 1);
	near(g.information, 1);
	g = agreement_of(one, a, 6);
	near(g.rand, 0);
	near(g.information, 0);
	g = agreement_of(each, each, 6);
	near(g.rand, 1);
	near(g.information, 1);
	near(agreement_of(each, one, 6).rand, 0);
	g = agreement_of(partly, a, 6);
	assert_int_equal(g.n, 4);
	near(g.rand, 1);
	g = agreement_of(a, b, 0);
	assert_int_equal(g.n, 0);
	assert_true(isnan(g.rand) && isnan(g.information));
}

/* The silhouette of a subsample is near that of all points; another seed draws another one; the means by cluster add up; threads change nothing. */
static void subsample(void **state)
{
	enum { N = 1200, D = 5, K = 4 };
	float *x = mem_alloc(N * D * sizeof *x), distance[N];
	int32_t cluster[N];
	struct kmeans_options o = {.k = K, .seed = 1};
	struct kmeans_quality all, some, other, threaded;
	struct kmeans m;
	struct err e = {0};
	struct pool *pool = pool_new(3, &e);
	double sum = 0;

	(void)state;
	rng_normal(x, N * D, 2, RNG_TEST, 0, 0);
	for (int i = 0; i < N; i++)
		x[i * D] += (float)(i % K * 4);
	assert_int_equal(kmeans_fit(&m, x, N, D, &o, &e), 0);
	assert_int_equal(kmeans_assign(cluster, distance, &m, x, N, NULL, NULL, &e), 0);
	assert_int_equal(kmeans_rate(&all, x, N, D, cluster, distance, K, 0, 1, NULL, &e), 0);
	assert_int_equal(kmeans_rate(&some, x, N, D, cluster, distance, K, 600, 1, NULL, &e), 0);
	assert_int_equal(kmeans_rate(&other, x, N, D, cluster, distance, K, 600, 2, NULL, &e), 0);
	assert_int_equal(kmeans_rate(&threaded, x, N, D, cluster, distance, K, 0, 1, pool, &e), 0);
	assert_int_equal(all.silhouette_n, N);
	assert_int_equal(some.silhouette_n, 600);
	assert_true(fabs(all.silhouette - some.silhouette) < .02 && some.silhouette != other.silhouette);
	for (int c = 0; c < K; c++)
		sum += all.silhouettes[c] * (double)all.sizes[c] / N;
	near(sum, all.silhouette);
	assert_true(threaded.silhouette == all.silhouette);
	assert_memory_equal(&threaded.separation, &all.separation, sizeof all.separation);
	kmeans_quality_release(&all);
	kmeans_quality_release(&some);
	kmeans_quality_release(&other);
	kmeans_quality_release(&threaded);
	kmeans_release(&m);
	pool_free(pool);
	mem_free(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(by_hand),
	    cmocka_unit_test(at_the_edges),
	    cmocka_unit_test(agreements),
	    cmocka_unit_test(subsample),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
