/* metric: metrics of other packages, against their values (tests/golden/score_values.py) and closed forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mt19937.h"
#include "metric/frechet.h"
#include "metric/kd.h"
#include "metric/moments.h"
#include "metric/neighbours.h"
#include "metric/rbf.h"
#include "metric/scores.h"
#include "tests/golden/score_values.h"
#include "tests/unit/rows.h"

static struct pool *three;

/* Row i of the result is row order[i] of the expected one: a keyed permutation orders the rows. */
static float *scatter(int64_t *order, const float *x, int n, int d)
{
	float *out = mem_alloc((size_t)n * (size_t)d * sizeof *out);

	for (int i = 0; i < n; i++) {
		order[i] = (int64_t)rng_permute((uint64_t)i, (uint64_t)n, 3, RNG_TEST, 0);
		memcpy(out + order[i] * d, x + i * d, (size_t)d * sizeof *out);
	}
	return out;
}

static void numpy_draws(void **state)
{
	struct mt19937 r;
	int64_t at[1000];

	(void)state;
	mt19937_seed(&r, 2020);
	mt19937_permutation(&r, at, 1000);
	assert_memory_equal(at, golden_permutation_2020, sizeof golden_permutation_2020);
	mt19937_seed(&r, 7);
	mt19937_permutation(&r, at, 70);
	mt19937_permutation(&r, at, 45);
	assert_memory_equal(at, golden_second_choice_7, sizeof golden_second_choice_7);
}

static void kid_subsets(void **state)
{
	float *x = vectors(70, 19, 0), *y = vectors(45, 19, 1), *xs, *ys;
	int64_t xorder[70], yorder[45];
	double mean[2], sd[2];

	(void)state;
	assert_int_equal(kd_subsets_numpy(mean, sd, NULL, x, NULL, 70, y, NULL, 45, 19, 30, 20, 2020, NULL), 0);
	near(*mean, golden_kid, 1e-12);
	near(*sd, golden_kid_sd, 1e-11);
	xs = scatter(xorder, x, 70, 19);
	ys = scatter(yorder, y, 45, 19);
	assert_int_equal(kd_subsets_numpy(mean + 1, sd + 1, three, xs, xorder, 70, ys, yorder, 45, 19, 30, 20, 2020, NULL), 0);
	assert_memory_equal(mean, mean + 1, sizeof *mean);
	assert_memory_equal(sd, sd + 1, sizeof *sd);
	assert_int_equal(kd_subsets_numpy(mean, sd, NULL, x, NULL, 70, y, NULL, 45, 19, 30, 20, 11, NULL), 0);
	near(*mean, golden_kid_clean, 1e-12);
	mem_free(x);
	mem_free(y);
	mem_free(xs);
	mem_free(ys);
}

static void fid(void **state)
{
	float *x[2] = {vectors(70, 19, 0), vectors(45, 19, 1)};
	double mu[2][19], s[2][19 * 19], v;
	struct moments m;

	(void)state;
	for (int k = 0; k < 2; k++) {
		assert_int_equal(moments_init(&m, 19, NULL), 0);
		moments_add(&m, three, x[k], k ? 45 : 70);
		assert_int_equal(moments_result(&m, three, mu[k], s[k], NULL), 0);
		moments_release(&m);
		mem_free(x[k]);
	}
	assert_int_equal(frechet_distance(&v, NULL, mu[0], s[0], mu[1], s[1], 19, NULL), 0);
	near(v, golden_fid, 1e-11);
	near(v, golden_fid_tf, 1e-11);
}

/* Covariance and mean for odd dimensions, against the definition in long double. */
static void moments_odd(void **state)
{
	enum { N = 601, D = 37 };
	float *x = normals(N, D, 4);
	double mu[D], s[D * D];
	struct moments m;

	(void)state;
	assert_int_equal(moments_init(&m, D, NULL), 0);
	moments_add(&m, three, x, N);
	assert_int_equal(moments_result(&m, three, mu, s, NULL), 0);
	moments_release(&m);
	for (int i = 0; i < D; i++)
		for (int j = 0; j < D; j++) {
			long double a = 0, b = 0, c = 0;

			for (int r = 0; r < N; r++)
				a += x[r * D + i], b += x[r * D + j];
			for (int r = 0; r < N; r++)
				c += (x[r * D + i] - a / N) * (x[r * D + j] - b / N);
			assert_true(fabs(mu[i] - (double)(a / N)) < 1e-14);
			assert_true(fabs(s[i * D + j] - (double)(c / (N - 1))) < 1e-14);
		}
	mem_free(x);
}

static void is_golden(void **state)
{
	enum { N = 103, C = 37 };
	float *x = vectors(N, C, 2), *p = mem_alloc(N * C * sizeof *p);
	struct inception_groups split = {.splits = 10}, chunk = {.chunk = 25};
	struct inception_score a, b;
	struct mt19937 r;
	int64_t order[N];
	struct err e = {0};

	(void)state;
	for (int i = 0; i < N * C; i++)
		x[i] *= 3;
	mt19937_seed(&r, 2020);
	mt19937_permutation(&r, order, N);
	assert_int_equal(inception_score(&a, NULL, x, order, N, C, &split, NULL), 0);
	near(a.mean, golden_is, 1e-12);
	near(a.sd, golden_is_sd, 1e-11);
	assert_int_equal(a.groups, 10);
	assert_int_equal(inception_score(&a, three, x, NULL, N, C, &chunk, NULL), 0);
	near(a.mean, golden_is_adm, 1e-12);
	near(a.sd, golden_is_adm_sd, 1e-11);
	assert_int_equal(a.groups, 5);
	for (int i = 0; i < N; i++) {
		double s = 0;

		for (int j = 0; j < C; j++)
			s += exp(x[i * C + j]);
		for (int j = 0; j < C; j++)
			p[i * C + j] = (float)(exp(x[i * C + j]) / s);
	}
	assert_int_equal(inception_score(&b, NULL, p, NULL, N, C, &chunk, NULL), 0);
	near(b.mean, golden_is_adm, 1e-6);
	assert_int_equal(inception_score(&b, NULL, x, NULL, 9, C, &split, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	mem_free(x);
	mem_free(p);
}

/* Certain predictions, evenly spread over c classes: c. Equal predictions: 1. More rows than a block. */
static void is_extremes(void **state)
{
	enum { N = 900, C = 9 };
	float *x = mem_zalloc(N * C, sizeof *x);
	struct inception_groups one = {.splits = 1};
	struct inception_score a, b;

	(void)state;
	assert_int_equal(inception_score(&a, NULL, x, NULL, N, C, &one, NULL), 0);
	near(a.mean, 1, 1e-12);
	for (int i = 0; i < N; i++)
		x[i * C + i % C] = 1;
	assert_int_equal(inception_score(&a, NULL, x, NULL, N, C, &one, NULL), 0);
	near(a.mean, C, 1e-12);
	for (int i = 0; i < N * C; i++)
		x[i] = x[i] ? 200 : -100;
	assert_int_equal(inception_score(&a, NULL, x, NULL, N, C, &one, NULL), 0);
	assert_int_equal(inception_score(&b, three, x, NULL, N, C, &one, NULL), 0);
	near(a.mean, C, 1e-12);
	assert_memory_equal(&a, &b, sizeof a);
	mem_free(x);
}

static void neighbours_golden(void **state)
{
	enum { N = 301, M = 270, D = 5 };
	float *x = vectors(N, D, 0), *y = vectors(M, D, 1);
	struct neighbours a, b;
	struct err e = {0};

	(void)state;
	for (int i = 0; i < M * D; i++)
		y[i] = (float)((double)y[i] * .9 - .2);
	assert_int_equal(neighbours_measure(&a, NULL, x, N, y, M, D, 3, 5, NULL), 0);
	near(a.precision, golden_precision, 1e-6);
	near(a.recall, golden_recall, 1e-6);
	near(a.density, golden_density, 1e-12);
	near(a.coverage, golden_coverage, 1e-12);
	near(a.authenticity, golden_authenticity, 1e-12);
	assert_int_equal(neighbours_measure(&b, three, x, N, y, M, D, 3, 5, NULL), 0);
	assert_memory_equal(&a, &b, sizeof a);
	assert_int_equal(neighbours_measure(&a, NULL, x, 5, y, M, D, 3, 5, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	mem_free(x);
	mem_free(y);
}

/* Integers on a line, so that ties are exact: balls with k = 1 have radius 1. A fake on the border counts as inside for precision and not for
 * density; a copy of a real is not authentic. */
static void neighbours_borders(void **state)
{
	const float real[] = {0, 1, 2, 3}, fake[] = {4, 10, 2};
	struct neighbours a;

	(void)state;
	assert_int_equal(neighbours_measure(&a, NULL, real, 4, fake, 3, 1, 1, 1, NULL), 0);
	near(a.precision, 2. / 3, 1e-15);
	/* fakes reach 2, 6 and 2: from 0 to 16 */
	near(a.recall, 1, 1e-15);
	near(a.density, 1. / 3, 1e-15);
	near(a.coverage, 1. / 4, 1e-15);
	near(a.authenticity, 1. / 3, 1e-15);
	assert_int_equal(neighbours_measure(&a, NULL, real, 4, real, 4, 1, 3, 3, NULL), 0);
	assert_true(a.precision == 1 && a.recall == 1 && a.coverage == 1 && a.authenticity == 0);
}

static void cmmd(void **state)
{
	float *x = vectors(70, 19, 0), *y = vectors(45, 19, 1), unit[2] = {3, -4};
	double a, b;

	(void)state;
	assert_int_equal(rbf_mmd(&a, NULL, x, 70, y, 45, 19, 10, NULL), 0);
	near(1000 * a, golden_cmmd, 1e-11);
	assert_int_equal(rbf_mmd(&b, three, x, 70, y, 45, 19, 10, NULL), 0);
	assert_memory_equal(&a, &b, sizeof a);
	assert_int_equal(rbf_mmd(&a, NULL, x, 70, x, 70, 19, 10, NULL), 0);
	assert_true(fabs(a) < 1e-15);
	rows_normalise(unit, unit, 1, 2);
	assert_true(unit[0] == .6f && unit[1] == -.8f);
	mem_free(x);
	mem_free(y);
}

static void vendi(void **state)
{
	float *x = vectors(70, 19, 0), *y = vectors(12, 19, 1), eye[6 * 4] = {0};
	struct err e = {0};
	double v;

	(void)state;
	assert_int_equal(vendi_score(&v, three, x, 70, 19, NULL), 0);
	near(v, golden_vendi, 1e-6);
	assert_int_equal(vendi_score(&v, NULL, y, 12, 19, NULL), 0);
	near(v, golden_vendi_wide, 1e-6);
	for (int i = 0; i < 6; i++)
		eye[i * 4 + i % 3] = 1 + i;
	assert_int_equal(vendi_score(&v, NULL, eye, 6, 4, NULL), 0);
	near(v, 3, 1e-12);
	assert_int_equal(vendi_score(&v, NULL, eye, 1, 4, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	mem_free(x);
	mem_free(y);
}

static double product(const float *a, const float *b, int d)
{
	double sum = 0;

	for (int k = 0; k < d; k++)
		sum += (double)a[k] * b[k];
	return sum;
}

static void clip(void **state)
{
	float *x = vectors(70, 19, 0), *y = vectors(45, 19, 1), *xs, zero[38] = {0};
	struct err e = {0};
	double v, se, w;
	int64_t order[45];

	(void)state;
	assert_int_equal(clip_score(&v, &se, x, NULL, y, 45, 19, NULL), 0);
	near(v, golden_clip, 1e-12);
	near(se, golden_clip_se, 1e-9);
	xs = scatter(order, x, 45, 19);
	assert_int_equal(clip_score(&w, &se, xs, order, y, 45, 19, NULL), 0);
	assert_memory_equal(&v, &w, sizeof v);
	assert_int_equal(clip_score(&v, &se, x, NULL, zero, 2, 19, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	mem_free(x);
	mem_free(y);
	mem_free(xs);
}

/* A clip of one frame is a picture. Of clips of three frames, the score is the mean of the cosines of their frames, below 0 none. */
static void clip_of_clips(void **state)
{
	enum { N = 20, F = 3, D = 19 };
	float *x = vectors(70, D, 0), *y = vectors(45, D, 1), video[45 * D], *scattered;
	double v, se, w, sum = 0, squares = 0;
	int64_t order[45];

	(void)state;
	for (int i = 0; i < 45; i++)
		for (int k = 0; k < D; k++)
			video[i * D + k] = x[i * D + k] / (float)sqrt(product(x + i * D, x + i * D, D));
	assert_int_equal(clip_score_of_clips(&v, &se, video, NULL, y, 45, D, NULL), 0);
	near(v, golden_clip, 1e-6);
	near(se, golden_clip_se, 1e-6);
	scattered = scatter(order, video, 45, D);
	assert_int_equal(clip_score_of_clips(&w, &se, scattered, order, y, 45, D, NULL), 0);
	assert_memory_equal(&v, &w, sizeof v);
	mem_free(scattered);

	for (int i = 0; i < N; i++) {
		const float *text = y + i * D;
		double score = 0;

		memset(video + i * D, 0, D * sizeof *video);
		for (int f = 0; f < F; f++) {
			const float *frame = x + (i * F + f) * D;
			double length = sqrt(product(frame, frame, D));

			score += 100 * product(frame, text, D) / length / sqrt(product(text, text, D)) / F;
			for (int k = 0; k < D; k++)
				video[i * D + k] += (float)(frame[k] / length / F);
		}
		score = score > 0 ? score : 0;
		sum += score;
		squares += score * score;
	}
	assert_int_equal(clip_score_of_clips(&v, &se, video, NULL, y, N, D, NULL), 0);
	near(v, sum / N, 1e-5);
	near(se, sqrt((squares / N - sum / N * sum / N) / (N - 1)), 1e-4);
	mem_free(x);
	mem_free(y);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numpy_draws),
	    cmocka_unit_test(kid_subsets),
	    cmocka_unit_test(fid),
	    cmocka_unit_test(moments_odd),
	    cmocka_unit_test(is_golden),
	    cmocka_unit_test(is_extremes),
	    cmocka_unit_test(neighbours_golden),
	    cmocka_unit_test(neighbours_borders),
	    cmocka_unit_test(cmmd),
	    cmocka_unit_test(vendi),
	    cmocka_unit_test(clip),
	    cmocka_unit_test(clip_of_clips),
	};
	int rc;

	three = pool_new(3, NULL);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	pool_free(three);
	return rc;
}
