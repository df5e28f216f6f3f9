/* cluster/linkage and cluster/method: merges on a line in closed form, weights against repeated points, a plain search for the nearest pair, ties,
 * duplicates, one cluster, as many as points; micro-centroids; refusals; the same bits for any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "cluster/linkage.h"
#include "cluster/method.h"
#include "core/mem.h"
#include "core/rng.h"

#define COUNT(x) (sizeof(x) / sizeof *(x))

static void cut(int32_t *cluster, double *height, enum linkage_kind kind, const float *x, const double *weight, int64_t n, int64_t d, int k)
{
	struct err e = {0};

	if (linkage_cut(cluster, height, kind, x, weight, n, d, k, NULL, NULL, &e))
		fail_msg("%s", e.msg);
}

static void near(double a, double b)
{
	if (!(fabs(a - b) <= 1e-12 * fmax(1, fabs(b))))
		fail_msg("%.17g, not %.17g", a, b);
}

/* Points 0, 1, 4, 6 on a line. {0, 1} merge at 1 and {4, 6} at 2; the pairs are 4.5 apart on average. */
static void on_a_line(void **state)
{
	const float x[] = {0, 4, 1, 6};
	const int32_t two[] = {0, 1, 0, 1}, three[] = {0, 1, 0, 2};
	int32_t c[4];
	double h[3];

	(void)state;
	cut(c, h, LINKAGE_AVERAGE, x, NULL, 4, 1, 2);
	assert_memory_equal(c, two, sizeof c);
	near(h[0], 1);
	near(h[1], 2);
	near(h[2], 4.5);
	cut(c, h, LINKAGE_WARD, x, NULL, 4, 1, 3);
	assert_memory_equal(c, three, sizeof c);
	near(h[0], 1);
	near(h[1], 2);
	near(h[2], sqrt(2) * 4.5); /* sqrt(2 * 2 * 2 / 4) times the distance of the centroids 0.5 and 5 */
}

/* Equal distances, equal points, one cluster, one cluster for each point. */
static void at_the_edges(void **state)
{
	const float even[] = {0, 1, 2, 3, 4, 5}, twice[] = {3, 7, 3, 7, 3};
	const int32_t pairs[] = {0, 0, 1, 1, 2, 2}, values[] = {0, 1, 0, 1, 0};
	int32_t c[6];
	double h[5];
	struct err e = {0};

	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		cut(c, h, (enum linkage_kind)kind, even, NULL, 6, 1, 3);
		assert_memory_equal(c, pairs, sizeof pairs);
		cut(c, h, (enum linkage_kind)kind, even, NULL, 6, 1, 1);
		for (int i = 0; i < 6; i++)
			assert_int_equal(c[i], 0);
		cut(c, NULL, (enum linkage_kind)kind, even, NULL, 6, 1, 6);
		for (int i = 0; i < 6; i++)
			assert_int_equal(c[i], i);
		cut(c, NULL, (enum linkage_kind)kind, even, NULL, 1, 1, 1);
		assert_int_equal(c[0], 0);
		cut(c, h, (enum linkage_kind)kind, twice, NULL, 5, 1, 2);
		assert_memory_equal(c, values, sizeof values);
		for (int i = 0; i < 3; i++)
			near(h[i], 0);
		assert_int_equal(linkage_cut(c, NULL, (enum linkage_kind)kind, twice, NULL, 5, 1, 3, NULL, NULL, &e), -1);
		assert_int_equal(e.code, ERR_DATA);
		assert_string_equal(e.msg, "5 points for 3 clusters, but only 2 distinct ones");
		e = (struct err){0};
	}
}

/* The distance of two clusters, by its definition. */
static double apart(enum linkage_kind kind, const float *x, int64_t d, const int32_t *c, int64_t n, int a, int b)
{
	double na = 0, nb = 0, sum = 0, mean = 0;

	for (int64_t i = 0; i < n; i++) {
		na += c[i] == a;
		nb += c[i] == b;
		for (int64_t j = 0; j < n; j++) {
			double s = 0;

			for (int64_t t = 0; t < d; t++)
				s += pow((double)x[i * d + t] - (double)x[j * d + t], 2);
			sum += c[i] == a && c[j] == b ? sqrt(s) : 0;
		}
	}
	for (int64_t t = 0; t < d; t++) {
		double ma = 0, mb = 0;

		for (int64_t i = 0; i < n; i++) {
			ma += c[i] == a ? x[i * d + t] : 0;
			mb += c[i] == b ? x[i * d + t] : 0;
		}
		mean += pow(ma / na - mb / nb, 2);
	}
	return kind == LINKAGE_WARD ? sqrt(2 * na * nb / (na + nb) * mean) : sum / (na * nb);
}

/* A plain search for the nearest pair of clusters, again and again, merges at the same distances and gives the same clusters. */
static void as_plain_search(void **state)
{
	enum { N = 40, D = 3, K = 4 };
	float x[N * D];

	(void)state;
	rng_normal(x, N * D, 3, RNG_TEST, 0, 0);
	for (int kind = 0; kind < 2; kind++) {
		int32_t plain[N], c[N], live[N], count = 0, number[N];
		double h[N - 1];

		for (int i = 0; i < N; i++) {
			plain[i] = live[i] = i;
			number[i] = -1;
		}
		cut(c, h, (enum linkage_kind)kind, x, NULL, N, D, K);
		for (int left = N; left > 1; left--) {
			double best = INFINITY;
			int at = 0, bt = 0;

			for (int a = 0; a < left; a++)
				for (int b = 0; b < a; b++) {
					double s = apart((enum linkage_kind)kind, x, D, plain, N, live[a], live[b]);

					if (s < best) {
						best = s;
						at = a;
						bt = b;
					}
				}
			near(h[N - left], best);
			if (left <= K)
				continue;
			for (int i = 0; i < N; i++)
				plain[i] = plain[i] == live[at] ? live[bt] : plain[i];
			live[at] = live[left - 1];
			if (left - 1 == K)
				break;
		}
		for (int i = 0; i < N; i++) {
			if (number[plain[i]] < 0)
				number[plain[i]] = count++;
			assert_int_equal(c[i], number[plain[i]]);
		}
		assert_int_equal(count, K);
	}
}

/* A point of weight 3 merges as three equal points do. */
static void weights_count(void **state)
{
	enum { N = 30, D = 2 };
	float x[N * D], all[3 * N * D];
	double weight[N], h[N - 1], long_h[3 * N - 1];
	int32_t c[N], many[3 * N];
	int64_t n = 0;

	(void)state;
	rng_normal(x, N * D, 4, RNG_TEST, 0, 0);
	for (int i = 0; i < N; i++) {
		weight[i] = 1 + i % 3;
		for (int j = 0; j <= i % 3; j++)
			memcpy(all + n++ * D, x + i * D, D * sizeof *x);
	}
	for (int kind = 0; kind < 2; kind++) {
		int64_t at = 0;

		cut(c, h, (enum linkage_kind)kind, x, weight, N, D, 5);
		cut(many, long_h, (enum linkage_kind)kind, all, NULL, n, D, 5);
		for (int i = 0; i < N; at += 1 + i++ % 3)
			assert_int_equal(c[i], many[at]);
		for (int i = 0; i < N - 1; i++)
			near(h[i], long_h[n - N + i]);
	}
}

static float *blobs(int64_t n, int64_t d, int count, int32_t *truth)
{
	float *x = mem_alloc((size_t)(n * d) * sizeof *x), centre[64];

	for (int64_t i = 0; i < n; i++) {
		truth[i] = (int32_t)rng_below((uint64_t)count, 7, RNG_TEST, 1, (uint64_t)i, 0);
		rng_normal(centre, (size_t)d, 7, RNG_TEST, 2, (uint64_t)truth[i]);
		rng_normal(x + i * d, (size_t)d, 7, RNG_TEST, 3, (uint64_t)i);
		for (int64_t j = 0; j < d; j++)
			x[i * d + j] = .3f * x[i * d + j] + 6 * centre[j];
	}
	return x;
}

/* Every method, directly and through micro-centroids, finds well separated blobs; the centroids are means; threads change nothing. */
static void methods_find_blobs(void **state)
{
	enum { N = 600, D = 9, K = 5 };
	int32_t truth[N];
	float *x = blobs(N, D, K, truth);

	(void)state;
	for (int method = 0; cluster_method_names[method]; method++)
		for (int micro = 0; micro < 2; micro++) {
			struct method_options o = {.method = (enum cluster_method)method, .k = K, .neighbours = 6, .seed = 1, .fine = 100 * micro};
			struct err e = {0};
			struct pool *pool = pool_new(3, &e);
			struct method_fit one, other;
			double inertia = 0;

			if (method_cut(&one, x, N, D, &o, &e))
				fail_msg("%s", e.msg);
			o.pool = pool;
			assert_int_equal(method_cut(&other, x, N, D, &o, &e), 0);
			assert_memory_equal(one.cluster, other.cluster, N * sizeof *one.cluster);
			assert_memory_equal(one.distance, other.distance, N * sizeof *one.distance);
			assert_memory_equal(one.m.centroids, other.m.centroids, K * D * sizeof(float));
			for (int i = 0; i < N; i++) {
				double s = 0;

				for (int j = 0; j < i; j++)
					if ((one.cluster[i] == one.cluster[j]) != (truth[i] == truth[j]))
						fail_msg("%s, micro %d: points %d and %d", cluster_method_names[method], micro, i, j);
				for (int j = 0; j < D; j++)
					s += pow((double)x[i * D + j] - (double)one.m.centroids[one.cluster[i] * D + j], 2);
				assert_true(fabs(sqrt(s) - (double)one.distance[i]) < 1e-4);
				inertia += s;
			}
			assert_true(fabs(inertia - one.m.inertia) < 1e-4 * inertia);
			assert_int_equal(one.away, 0);
			assert_int_equal(one.micro, method == METHOD_KMEANS ? 0 : 100 * micro);
			assert_true(one.settled);
			method_fit_release(&one);
			method_fit_release(&other);
			pool_free(pool);
		}
	mem_free(x);
}

/* With more points than a method takes, METHOD_MICRO centroids stand for them. A far point that Ward puts elsewhere than its nearest centroid is
 * counted. */
static void beyond_the_limit(void **state)
{
	enum { N = 4000, D = 2 };
	float *x = mem_alloc(N * D * sizeof *x);
	struct method_options o = {.method = METHOD_WARD, .k = 3, .most = 3000};
	struct method_fit f;
	struct err e = {0};
	int64_t away = 0;

	(void)state;
	rng_normal(x, N * D, 9, RNG_TEST, 0, 0);
	if (method_cut(&f, x, N, D, &o, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(f.micro, METHOD_MICRO);
	for (int i = 0; i < N; i++) {
		double best = INFINITY, own = 0;

		for (int c = 0; c < 3; c++) {
			double s = 0;

			for (int j = 0; j < D; j++)
				s += pow((double)x[i * D + j] - (double)f.m.centroids[c * D + j], 2);
			best = fmin(best, s);
			own = c == f.cluster[i] ? s : own;
		}
		away += own > best * (1 + 1e-6);
	}
	assert_true(away > 0);
	assert_int_equal(f.away, away);
	method_fit_release(&f);
	o.k = METHOD_MICRO + 1;
	assert_int_equal(method_cut(&f, x, N, D, &o, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.msg, "too few for 2049 clusters"));
	method_fit_release(&f);
	mem_free(x);
}

static void refused(void **state)
{
	static const struct {
		struct method_options o;
		int bad, code;
		const char *says;
	} cases[] = {
	    {{.method = METHOD_WARD, .k = 6}, 0, ERR_USAGE, "6 clusters need at least as many points, and there are 5"},
	    {{.method = METHOD_AVERAGE, .k = 2}, 1, ERR_DATA, "feature 1 of point 2 is not finite"},
	    {{.method = METHOD_SPECTRAL, .k = 2, .neighbours = 5},
	     0,
	     ERR_USAGE,
	     "5 neighbours of each point need at least 6 points, and there are 5"},
	    {{.method = METHOD_WARD, .k = 2, .balance = 1.5}, 0, ERR_USAGE, "only kmeans"},
	    {{.method = METHOD_WARD, .k = 3, .fine = 2}, 0, ERR_USAGE, "at least 3 clusters and at most 5 points"},
	    {{.method = METHOD_WARD, .k = 2, .fine = 5, .most = 4}, 0, ERR_USAGE, "ward clusters at most 4"},
	};
	float x[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err e = {0};
		struct method_fit f;

		x[5] = cases[i].bad ? NAN : 5;
		assert_int_equal(method_cut(&f, x, 5, 2, &cases[i].o, &e), -1);
		assert_int_equal(e.code, cases[i].code);
		if (!strstr(e.msg, cases[i].says))
			fail_msg("%s", e.msg);
		method_fit_release(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(on_a_line),     cmocka_unit_test(at_the_edges),       cmocka_unit_test(as_plain_search),
	    cmocka_unit_test(weights_count), cmocka_unit_test(methods_find_blobs), cmocka_unit_test(beyond_the_limit),
	    cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
