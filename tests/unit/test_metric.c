/* metric: kernel and Frechet distances, moments, memorised fraction, features of pictures, paired intervals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "metric/frechet.h"
#include "metric/kd.h"
#include "metric/memorised.h"
#include "metric/moments.h"
#include "metric/paired.h"
#include "metric/pixfeat.h"
#include "metric/roots.h"
#include "tests/golden/metric_values.h"
#include "tests/unit/rows.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static struct pool *three;

static uint8_t *picture_fill(int w, int h, int seed)
{
	uint8_t *p = mem_alloc((size_t)w * (size_t)h * 3);

	for (int64_t y = 0; y < h; y++)
		for (int64_t x = 0; x < w; x++)
			for (int64_t c = 0; c < 3; c++)
				p[(y * w + x) * 3 + c] = (uint8_t)((x * (3 + seed) + y * 5 * (c + 1) + x * y * (c + 2) / 7 +
				                                    (x * 7919 + y * 104729 + c * 611953 + seed * 15485863LL) % 97) %
				                                   256);
	return p;
}

static void kd_golden(void **state)
{
	float *x = vectors(70, 19, 0), *y = vectors(45, 19, 1);
	struct kd k;

	(void)state;
	assert_int_equal(kd_whole(&k, NULL, x, 70, y, 45, 19, NULL), 0);
	near(k.value, golden_kd, 1e-12);
	near(k.se, golden_kd_se, 1e-10);
	mem_free(x);
	mem_free(y);
}

static double kernel(const float *a, const float *b, int d)
{
	double s = 0;

	for (int k = 0; k < d; k++)
		s += (double)a[k] * b[k];
	return pow(s / d + 1, 3);
}

static double mean_kernel(const float *x, int n, const float *y, int m, int d)
{
	double s = 0;

	for (int i = 0; i < n; i++)
		for (int j = 0; j < m; j++)
			s += x == y && i == j ? 0 : kernel(x + i * d, y + j * d, d);
	return s / ((double)n * (x == y ? m - 1 : m));
}

/* Sizes around and across the tile of 256 and the panels of 4 and 16, against the plain double loop. */
static void kd_odd_sizes(void **state)
{
	static const int sizes[][3] = {{3, 3, 1}, {5, 17, 7}, {255, 257, 3}, {256, 300, 9}, {520, 33, 5}};

	(void)state;
	for (int s = 0; s < COUNT(sizes); s++) {
		int n = sizes[s][0], m = sizes[s][1], d = sizes[s][2];
		float *x = normals(n, d, 1), *y = normals(m, d, 2);
		struct kd k;
		double direct = mean_kernel(x, n, x, n, d) + mean_kernel(y, m, y, m, d) - 2 * mean_kernel(x, n, y, m, d);

		assert_int_equal(kd_whole(&k, three, x, n, y, m, d, NULL), 0);
		assert_true(fabs(k.value - direct) < 1e-11);
		mem_free(x);
		mem_free(y);
	}
}

/* Two samples of one distribution: the mean over repetitions is within 4 of its standard errors of zero (a biased estimator has an error of
 * 2 (E k(x,x) - E k(x,y)) / n = .17, 25 times as much), and the jackknife agrees with the deviation. */
static void kd_null(void **state)
{
	enum { R = 200, N = 60, D = 8 };
	double mean = 0, var = 0, se = 0, v[R];

	(void)state;
	for (int r = 0; r < R; r++) {
		float *x = normals(N, D, 100 + 2 * (uint64_t)r), *y = normals(N, D, 101 + 2 * (uint64_t)r);
		struct kd k;

		assert_int_equal(kd_whole(&k, NULL, x, N, y, N, D, NULL), 0);
		v[r] = k.value;
		mean += k.value / R;
		se += k.se / R;
		mem_free(x);
		mem_free(y);
	}
	for (int r = 0; r < R; r++)
		var += (v[r] - mean) * (v[r] - mean) / (R - 1);
	assert_true(fabs(mean) < 4 * sqrt(var / R));
	assert_true(se > .7 * sqrt(var) && se < 2 * sqrt(var));
}

static void kd_subset_mean(void **state)
{
	enum { N = 300, M = 260, D = 6 };
	float *x = normals(N, D, 3), *y = normals(M, D, 4);
	struct kd whole, a, b;
	struct err e = {0};

	(void)state;
	for (int i = 0; i < M * D; i++)
		y[i] = y[i] * 1.2f + .1f;
	assert_int_equal(kd_whole(&whole, NULL, x, N, y, M, D, NULL), 0);
	assert_int_equal(kd_subsets(&a, NULL, x, N, y, M, D, 60, 100, 1, NULL), 0);
	assert_int_equal(kd_subsets(&b, three, x, N, y, M, D, 60, 100, 1, NULL), 0);
	assert_memory_equal(&a, &b, sizeof a);
	assert_true(fabs(a.value - whole.value) < 5 * a.se);
	assert_int_equal(kd_subsets(&b, NULL, x, N, y, M, D, 60, 100, 2, NULL), 0);
	assert_true(a.value != b.value);
	assert_int_equal(kd_subsets(&b, NULL, x, N, y, M, D, 60, 261, 1, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	e = (struct err){0};
	assert_int_equal(kd_whole(&b, NULL, x, 2, y, M, D, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	mem_free(x);
	mem_free(y);
}

/* A rotation as a product of d reflections, which turns diagonal covariances into full ones. */
static void rotate(double *s, double *mu, int d)
{
	double *u = mem_alloc((size_t)d * sizeof *u), *su = mem_alloc((size_t)d * sizeof *su);

	for (int r = 0; r < 3; r++) {
		double len = 0, usu = 0, um = 0;

		for (int i = 0; i < d; i++)
			u[i] = rng_uniform(1, RNG_TEST, (uint64_t)r, (uint64_t)i, 0) - .5, len += u[i] * u[i];
		for (int i = 0; i < d; i++)
			u[i] /= sqrt(len);
		for (int i = 0; i < d; i++) {
			su[i] = 0;
			for (int j = 0; j < d; j++)
				su[i] += s[i * d + j] * u[j];
			usu += u[i] * su[i];
			um += u[i] * mu[i];
		}
		for (int i = 0; i < d; i++) {
			mu[i] -= 2 * um * u[i];
			for (int j = 0; j < d; j++)
				s[i * d + j] += 4 * usu * u[i] * u[j] - 2 * u[i] * su[j] - 2 * su[i] * u[j];
		}
	}
	mem_free(u);
	mem_free(su);
}

enum { FD = 24 };

static double rotated_distance(double *mu1, double *s1, double *mu2, double *s2)
{
	double v;
	struct err e = {0};

	rotate(s1, mu1, FD);
	rotate(s2, mu2, FD);
	if (frechet_distance(&v, NULL, mu1, s1, mu2, s2, FD, &e))
		fail_msg("%s", e.msg);
	return v;
}

/* Covariances that commute: the distance is the sum of (sqrt a - sqrt b)^2 plus the squared shift. */
static void frechet_commuting(void **state)
{
	double mu1[FD] = {0}, mu2[FD], s1[FD * FD] = {0}, s2[FD * FD] = {0}, want = 0;

	(void)state;
	for (int i = 0; i < FD; i++) {
		double a = exp(.4 * i - 5), b = 3 + sin(i);

		mu2[i] = .1 * i;
		s1[i * FD + i] = a, s2[i * FD + i] = b;
		want += .01 * i * i + (sqrt(a) - sqrt(b)) * (sqrt(a) - sqrt(b));
	}
	near(rotated_distance(mu1, s1, mu2, s2), want, 1e-11);
	near(rotated_distance(mu2, s2, mu1, s1), want, 1e-11);
	assert_true(rotated_distance(mu1, s1, mu1, s1) < 1e-10);
}

/* 2 x 2 blocks that do not commute: tr (A B)^(1/2) = sqrt(tr AB + 2 sqrt(det A det B)). */
static void frechet_blocks(void **state)
{
	double mu1[FD] = {0}, mu2[FD] = {0}, s1[FD * FD] = {0}, s2[FD * FD] = {0}, want = 0;

	(void)state;
	for (int i = 0; i < FD; i += 2) {
		double a = 2 + i, b = 1 + .5 * cos(i), c = .9, p = 1, q = 3 + .1 * i, r = -1.1;
		double trace = a * p + 2 * c * r + b * q, det = (a * b - c * c) * (p * q - r * r);

		mu1[i] = 1;
		s1[i * FD + i] = a, s1[(i + 1) * FD + i + 1] = b, s1[i * FD + i + 1] = s1[(i + 1) * FD + i] = c;
		s2[i * FD + i] = p, s2[(i + 1) * FD + i + 1] = q, s2[i * FD + i + 1] = s2[(i + 1) * FD + i] = r;
		want += 1 + a + b + p + q - 2 * sqrt(trace + 2 * sqrt(det));
	}
	near(rotated_distance(mu1, s1, mu2, s2), want, 1e-11);
}

/* Rank one against rank one, |u|^2 + |v|^2 - 2 |u.v|, and against full rank, with sqrt(u' S u); zero against zero. */
static void frechet_singular(void **state)
{
	double mu[FD] = {0}, nu[FD] = {0}, s1[FD * FD], s2[FD * FD], uu = 0, vv = 0, uv = 0, trace = 0, usu = 0, v;

	(void)state;
	for (int i = 0; i < FD; i++)
		for (int j = 0; j < FD; j++)
			s1[i * FD + j] = (1 + .1 * i) * (1 + .1 * j), s2[i * FD + j] = cos(i) * cos(j);
	for (int i = 0; i < FD; i++)
		uu += (1 + .1 * i) * (1 + .1 * i), vv += cos(i) * cos(i), uv += (1 + .1 * i) * cos(i);
	near(rotated_distance(mu, s1, nu, s2), uu + vv - 2 * fabs(uv), 1e-11);
	for (int i = 0; i < FD; i++)
		for (int j = 0; j < FD; j++) {
			s1[i * FD + j] = (1 + .1 * i) * (1 + .1 * j);
			s2[i * FD + j] = i == j ? 1 + .2 * i : 0;
		}
	for (int i = 0; i < FD; i++)
		trace += 1 + .2 * i, usu += (1 + .2 * i) * (1 + .1 * i) * (1 + .1 * i);
	near(rotated_distance(mu, s1, nu, s2), uu + trace - 2 * sqrt(usu), 1e-11);
	memset(s1, 0, sizeof s1);
	memset(s2, 0, sizeof s2);
	assert_int_equal(frechet_distance(&v, NULL, mu, s1, mu, s2, FD, NULL), 0);
	assert_true(v == 0);
}

static void frechet_refuses(void **state)
{
	double mu[2] = {0}, s[4] = {1, 2, 2, 1}, nan2[4] = {1, 0, 0, NAN}, v;
	float x[8] = {0};
	struct err e = {0}, e2 = {0}, e3 = {0};

	(void)state;
	assert_int_equal(frechet_distance(&v, NULL, mu, s, mu, s, 2, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	assert_int_equal(frechet_distance(&v, NULL, mu, nan2, mu, s, 2, &e2), -1);
	assert_int_equal(e2.code, ERR_DATA);
	assert_int_equal(frechet_equal(&v, &v, NULL, x, 4, x, 4, 2, s, 1, 3, 1, 0, &e3), -1);
	assert_int_equal(e3.code, ERR_USAGE);
}

/* x (n, d) <- x times three reflections */
static void reflect_rows(double *x, int n, int d, uint64_t key)
{
	double *u = mem_alloc((size_t)d * sizeof *u);

	for (uint64_t r = 0; r < 3; r++) {
		double len = 0;

		for (int j = 0; j < d; j++)
			u[j] = rng_uniform(2, RNG_TEST, 3 * key + r, (uint64_t)j, 0) - .5, len += u[j] * u[j];
		for (int i = 0; i < n; i++) {
			double along = 0;

			for (int j = 0; j < d; j++)
				along += x[i * d + j] * u[j];
			for (int j = 0; j < d; j++)
				x[i * d + j] -= 2 * along / len * u[j];
		}
	}
	mem_free(u);
}

/* Known singular values over several blocks, from 1 down to rounding; square, tall and wide matrices; the same bits with any pool. */
static void roots_singular_values(void **state)
{
	static const int sizes[][2] = {{131, 131}, {131, 70}, {33, 131}, {1, 5}};
	enum { D = 131 };
	double *t = mem_alloc(3 * D * D * sizeof *t), *r = t + D * D, *one = r + D * D;

	(void)state;
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		int n1 = sizes[k][0], n2 = sizes[k][1], least = n1 < n2 ? n1 : n2;
		double want = 0, got, again;

		memset(t, 0, 3 * D * D * sizeof *t);
		for (int i = least - 1; i >= 0; i--) {
			t[i * n1 + i] = exp(-.25 * i);
			want += exp(-.25 * i);
		}
		reflect_rows(t, n2, n1, 1);
		for (int i = 0; i < n1; i++)
			for (int j = 0; j < n2; j++)
				r[i * n2 + j] = t[j * n1 + i];
		for (int i = 0; i < n2; i++)
			one[i * n2 + i] = 1;
		reflect_rows(r, n1, n2, 2);
		assert_int_equal(roots_trace(&got, NULL, r, n1, one, n2, n2, NULL), 0);
		assert_int_equal(roots_trace(&again, three, r, n1, one, n2, n2, NULL), 0);
		near(got, want, 1e-13);
		assert_memory_equal(&got, &again, sizeof got);
	}
	mem_free(t);
}

/* The root of a covariance of 70 vectors in 131 dimensions has rank 70 and multiplies to the covariance. With a negative eigenvalue there is none. */
static void roots_of_covariances(void **state)
{
	enum { D = 131, N = 70 };
	double *s = mem_zalloc(3 * D * D, sizeof *s), *r = s + D * D, *x = r + D * D, top = 0, off = 0;
	struct err e = {0};

	(void)state;
	for (int i = 0; i < N; i++)
		x[i * D + i] = exp(-.1 * i);
	reflect_rows(x, N, D, 2);
	for (int i = 0; i < D; i++)
		for (int j = 0; j < D; j++)
			for (int k = 0; k < N; k++)
				s[i * D + j] += x[k * D + i] * x[k * D + j];
	assert_int_equal(roots_factor(r, three, s, D, NULL), N);
	for (int i = 0; i < D; i++)
		for (int j = 0; j < D; j++) {
			double sum = 0;

			for (int k = 0; k < N; k++)
				sum += r[k * D + i] * r[k * D + j];
			top = fmax(top, fabs(s[i * D + j]));
			off = fmax(off, fabs(sum - s[i * D + j]));
		}
	assert_true(off < 1e-14 * top);
	s[D * D - 1] -= 1e-4;
	assert_int_equal(roots_factor(r, NULL, s, D, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	mem_free(s);
}

static void frechet_golden(void **state)
{
	enum { D = 19 };
	float *x = vectors(70, D, 0), *y = vectors(45, D, 1);
	double mu[2 * D], s[2 * D * D], axes[D * D], mup[2 * D], sp[2 * D * D], v;
	struct moments m;

	(void)state;
	for (int k = 0; k < 2; k++) {
		assert_int_equal(moments_init(&m, D, NULL), 0);
		moments_add(&m, NULL, k ? y : x, k ? 45 : 70);
		assert_int_equal(moments_result(&m, NULL, mu + k * D, s + k * D * D, NULL), 0);
		moments_release(&m);
	}
	assert_int_equal(frechet_distance(&v, NULL, mu, s, mu + D, s + D * D, D, NULL), 0);
	near(v, golden_fd, 1e-9);
	/* all axes: a rotation, which does not change the distance */
	assert_int_equal(frechet_axes(axes, s, D, D, NULL), 0);
	frechet_project(mup, sp, axes, mu, s, D, D);
	frechet_project(mup + D, sp + D * D, axes, mu + D, s + D * D, D, D);
	assert_true(sp[0] >= sp[D + 1] && fabs(sp[1]) < 1e-12);
	assert_int_equal(frechet_distance(&v, NULL, mup, sp, mup + D, sp + D * D, D, NULL), 0);
	near(v, golden_fd, 1e-9);
	mem_free(x);
	mem_free(y);
}

/* If all vectors are drawn, a round is exact. A set against itself gives only the bias, which falls as 1 / n. */
static void frechet_equal_draws(void **state)
{
	enum { N = 900, D = 12 };
	float *x = normals(N, D, 9), *y = normals(N, D, 10);
	double axes[4 * D], s[D * D], mu[D], a[2], b[2], c[2];
	struct moments m;

	(void)state;
	assert_int_equal(moments_init(&m, D, NULL), 0);
	moments_add(&m, NULL, x, N);
	assert_int_equal(moments_result(&m, NULL, mu, s, NULL), 0);
	moments_release(&m);
	assert_int_equal(frechet_axes(axes, s, D, 4, NULL), 0);
	assert_int_equal(frechet_equal(a, a + 1, NULL, x, N, x, N, D, axes, 4, 450, 3, 7, NULL), 0);
	assert_int_equal(frechet_equal(b, b + 1, three, x, N, x, N, D, axes, 4, 450, 3, 7, NULL), 0);
	assert_memory_equal(a, b, sizeof a);
	assert_true(a[0] > 0 && a[0] < a[1] && a[1] < .3);
	assert_int_equal(frechet_equal(c, c + 1, NULL, x, N, x, N, D, axes, 4, 112, 3, 7, NULL), 0);
	assert_true(c[1] > 2 * a[1]);
	for (int i = 0; i < N * D; i++)
		y[i] += .5f;
	assert_int_equal(frechet_equal(b, b + 1, NULL, x, N, y, N, D, axes, 4, 450, 3, 7, NULL), 0);
	assert_true(fabs(b[1] - a[1] - .25 * D) < .5);
	mem_free(x);
	mem_free(y);
}

static void moments_bits(void **state)
{
	enum { N = 1001, D = 37 };
	float *x = normals(N, D, 11);
	double mu[2][D], s[2][D * D], mean[D] = {0};
	struct moments m;
	struct err e = {0};

	(void)state;
	for (int i = 0; i < N * D; i++)
		x[i] += 1000;
	for (int way = 0; way < 2; way++) {
		assert_int_equal(moments_init(&m, D, NULL), 0);
		for (int64_t at = 0, step = way ? 7 : N; at < N; at += step)
			moments_add(&m, way ? three : NULL, x + at * D, at + step < N ? step : N - at);
		assert_int_equal(moments_result(&m, way ? three : NULL, mu[way], s[way], NULL), 0);
		moments_release(&m);
	}
	assert_memory_equal(mu[0], mu[1], sizeof mu[0]);
	assert_memory_equal(s[0], s[1], sizeof s[0]);
	for (int i = 0; i < N; i++)
		for (int j = 0; j < D; j++)
			mean[j] += x[i * D + j] / (double)N;
	for (int a = 0; a < D; a += 9)
		for (int b = 0; b < D; b += 5) {
			double c = 0;

			for (int i = 0; i < N; i++)
				c += (x[i * D + a] - mean[a]) * (x[i * D + b] - mean[b]) / (N - 1);
			assert_true(fabs(c - s[0][a * D + b]) < 1e-10);
		}
	assert_int_equal(moments_init(&m, D, NULL), 0);
	moments_add(&m, NULL, x, 1);
	assert_int_equal(moments_result(&m, NULL, mu[0], s[0], &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	moments_release(&m);
	mem_free(x);
}

static void kd_bits(void **state)
{
	float *x = normals(700, 21, 1), *y = normals(530, 21, 2);
	struct kd a, b;

	(void)state;
	assert_int_equal(kd_whole(&a, NULL, x, 700, y, 530, 21, NULL), 0);
	assert_int_equal(kd_whole(&b, three, x, 700, y, 530, 21, NULL), 0);
	assert_memory_equal(&a, &b, sizeof a);
	mem_free(x);
	mem_free(y);
}

/* Planted samples: exact copies, near copies, and points equally far from both neighbours. */
static void memorised_planted(void **state)
{
	enum { N = 150, D = 20000, M = 45 };
	uint8_t *train = mem_alloc(N * D), *samples = mem_alloc(M * D), which[M];
	double f = -1, g = -1;
	struct err e = {0};

	(void)state;
	for (int i = 0; i < N * D; i++)
		train[i] = (uint8_t)rng_below(256, 1, RNG_TEST, 0, (uint64_t)i, 0);
	memcpy(train + D, train, D); /* 1 is a copy of 0 */
	for (int i = 0; i < M; i++) {
		memcpy(samples + i * D, train + 3 * i * D, D);
		for (int j = 0; i % 3 && j < D; j++) /* i % 3 == 1: a little noise; 2: new */
			samples[i * D + j] = i % 3 == 1 ? samples[i * D + j] ^ 32 : (uint8_t)rng_below(256, 2, RNG_TEST, 0, (uint64_t)(i * D + j), 0);
	}
	assert_int_equal(memorised_fraction(&f, which, NULL, samples, M, train, N, D, NULL), 0);
	for (int i = 0; i < M; i++)
		assert_int_equal(which[i], i % 3 != 2);
	assert_true(f == 30.0 / M);
	assert_int_equal(memorised_fraction(&g, NULL, three, samples, M, train, N, D, NULL), 0);
	assert_true(f == g);
	assert_int_equal(memorised_fraction(&g, NULL, NULL, samples, M, train, 1, D, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	mem_free(train);
	mem_free(samples);
}

/* A ratio of distances of exactly 1 : 3 is not below a third; a slightly smaller one is. */
static void memorised_threshold(void **state)
{
	uint8_t train[] = {10, 14, 100, 200}, at[] = {11, 10, 12}, which[3];
	double f;

	(void)state;
	assert_int_equal(memorised_fraction(&f, which, NULL, at, 3, train, 4, 1, NULL), 0);
	assert_int_equal(which[0], 0);
	assert_int_equal(which[1], 1);
	assert_int_equal(which[2], 0);
	train[1] = 15;
	assert_int_equal(memorised_fraction(&f, which, NULL, at, 1, train, 4, 1, NULL), 0);
	assert_int_equal(which[0], 1);
}

/* Sums of squares above 2^31, over whole and partial spans: 90 against 255 everywhere is more than a third. */
static void memorised_wide(void **state)
{
	enum { D = 40001 };
	uint8_t *train = mem_alloc(2 * D), *at = mem_zalloc(D, 1), which[1];
	double f;

	(void)state;
	memset(train, 90, D);
	memset(train + D, 255, D);
	assert_int_equal(memorised_fraction(&f, which, NULL, at, 1, train, 2, D, NULL), 0);
	assert_int_equal(which[0], 0);
	mem_free(train);
	mem_free(at);
}

static void features_golden(void **state)
{
	uint8_t *p = picture_fill(37, 22, 1);
	float f[256];
	char a[65], b[65];

	(void)state;
	assert_int_equal(pixfeat_dims(PIXFEAT_PIX), COUNT(golden_pix));
	pixfeat_compute(f, p, 37, 22, PIXFEAT_PIX);
	for (int i = 0; i < COUNT(golden_pix); i++)
		if (fabs(f[i] - golden_pix[i]) > 1e-6)
			fail_msg("pix %d: %.9g, not %.9g", i, f[i], golden_pix[i]);
	assert_int_equal(pixfeat_dims(PIXFEAT_RGB8), COUNT(golden_rgb8));
	pixfeat_compute(f, p, 37, 22, PIXFEAT_RGB8);
	for (int i = 0; i < COUNT(golden_rgb8); i++)
		assert_true(fabs(f[i] - golden_rgb8[i]) < 1e-6);
	pixfeat_hash(PIXFEAT_PIX, a);
	pixfeat_hash(PIXFEAT_RGB8, b);
	assert_string_not_equal(a, b);
	mem_free(p);
}

enum { SIDE = 32, SET = 360 };

/* Synthetic pictures of two kinds, with random colours and positions: a disc on a gradient, and a grating. `kinds` 1: only the first.
 */
static void synthetic(uint8_t *p, uint64_t i, int kinds)
{
	double u[8];

	for (uint32_t k = 0; k < 8; k++)
		u[k] = rng_uniform(3, RNG_TEST, 1, i, k);
	for (int y = 0; y < SIDE; y++)
		for (int x = 0; x < SIDE; x++) {
			double dx = x - SIDE * u[0], dy = y - SIDE * u[1], v;

			if (kinds == 1 || u[2] < .5)
				v = dx * dx + dy * dy < SIDE * SIDE * (.02 + .05 * u[3]) ? .9 : .1 + .3 * x / SIDE;
			else
				v = .5 + .4 * sin((x * cos(6 * u[3]) + y * sin(6 * u[3])) * (.3 + u[4]));
			for (int c = 0; c < 3; c++)
				p[(y * SIDE + x) * 3 + c] = (uint8_t)(255 * (v - .06 * ((5 * x + 3 * y) / 4 % 2)) * (.4 + .6 * u[5 + c]));
		}
}

/* 3 x 3 binomial blur, noise of an amplitude, a shift of red */
static void damage(uint8_t *p, int blurs, int noise, int red, uint64_t i)
{
	uint8_t q[SIDE * SIDE * 3];

	for (int b = 0; b < blurs; b++) {
		memcpy(q, p, sizeof q);
		for (int y = 1; y < SIDE - 1; y++)
			for (int x = 1; x < SIDE - 1; x++)
				for (int c = 0; c < 3; c++) {
					int s = 0;

					for (int k = 0; k < 9; k++)
						s +=
						    q[((y + k / 3 - 1) * SIDE + x + k % 3 - 1) * 3 + c] * (2 - abs(k / 3 - 1)) * (2 - abs(k % 3 - 1));
					p[(y * SIDE + x) * 3 + c] = (uint8_t)((s + 8) / 16);
				}
	}
	for (int k = 0; k < SIDE * SIDE * 3; k++) {
		int v = p[k] + (noise ? (int)rng_below(2 * (uint64_t)noise + 1, 4, RNG_TEST, 2, i, (uint32_t)k) - noise : 0) + (k % 3 ? 0 : red);

		p[k] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
	}
}

static float *features_of(enum pixfeat_kind kind, uint64_t first, int kinds, int blurs, int noise, int red)
{
	int d = pixfeat_dims(kind);
	float *f = mem_alloc((size_t)SET * (size_t)d * sizeof *f);
	uint8_t p[SIDE * SIDE * 3];

	for (uint64_t i = 0; i < SET; i++) {
		synthetic(p, first + i, kinds);
		damage(p, blurs, noise, red, i);
		pixfeat_compute(f + i * (uint64_t)d, p, SIDE, SIDE, kind);
	}
	return f;
}

/* Both distances increase with every kind of damage, and the smallest dose is well above the standard error. */
static void features_tell_damage(void **state)
{
	static const int doses[][4][4] = {
	    {{2, 0, 0, 0}, {2, 1, 0, 0}, {2, 2, 0, 0}, {2, 4, 0, 0}},
	    {{2, 0, 0, 0}, {2, 0, 12, 0}, {2, 0, 24, 0}, {2, 0, 48, 0}},
	    {{2, 0, 0, 0}, {2, 0, 0, 25}, {2, 0, 0, 50}, {2, 0, 0, 90}},
	    {{2, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 30}, {1, 0, 0, 70}},
	};
	int d = pixfeat_dims(PIXFEAT_PIX);
	float *ref = features_of(PIXFEAT_PIX, 0, 2, 0, 0, 0);
	double *axes = mem_alloc((size_t)d * 32 * sizeof *axes), *mu = mem_alloc((size_t)d * (size_t)(d + 1) * sizeof *mu);
	struct moments m;

	(void)state;
	assert_int_equal(moments_init(&m, d, NULL), 0);
	moments_add(&m, NULL, ref, SET);
	assert_int_equal(moments_result(&m, NULL, mu, mu + d, NULL), 0);
	moments_release(&m);
	assert_int_equal(frechet_axes(axes, mu + d, d, 32, NULL), 0);
	for (int k = 0; k < COUNT(doses); k++) {
		double last_fd = 0, last_kd = 0;

		for (int i = 0; i < 4; i++) {
			const int *o = doses[k][i];
			float *f = features_of(PIXFEAT_PIX, 1000, o[0], o[1], o[2], o[3]);
			struct kd v;
			double along, full;

			assert_int_equal(kd_whole(&v, three, ref, SET, f, SET, d, NULL), 0);
			assert_int_equal(frechet_equal(&along, &full, three, ref, SET, f, SET, d, axes, 32, SET, 1, 1, NULL), 0);
			if (i == 0)
				assert_true(fabs(v.value) < 4 * v.se);
			else if (!(v.value > 4 * v.se && v.value > last_kd && along > last_fd))
				fail_msg("damage %d, dose %d: kd %g +- %g after %g, fd %g after %g", k, i, v.value, v.se, last_kd, along, last_fd);
			last_kd = v.value, last_fd = along;
			mem_free(f);
		}
	}
	mem_free(ref);
	mem_free(axes);
	mem_free(mu);
}

static void student(void **state)
{
	(void)state;
	near(student_quantile(.975, 1), golden_quantile_975_1, 1e-12);
	near(student_quantile(.975, 2), golden_quantile_975_2, 1e-12);
	near(student_quantile(.995, 4), golden_quantile_995_4, 1e-11);
	near(student_quantile(.01, 30), golden_quantile_01_30, 1e-11);
	near(student_quantile(golden_cdf_13_7, 7), -1.3, 1e-12);
	near(student_quantile(golden_cdf_40_9, 9), -40, 1e-11);
	assert_true(student_quantile(.5, 5) == 0);
}

static void paired(void **state)
{
	static const double a[] = {.31, .28, .35, .30, .29}, b[] = {.27, .29, .30, .26, .28};
	struct paired p;
	struct err e = {0};

	(void)state;
	assert_int_equal(paired_compare(&p, a, b, 5, .95, NULL), 0);
	near(p.t, golden_paired_t, 1e-12);
	near(p.p, golden_paired_p, 1e-11);
	near(p.low, golden_paired_low, 1e-10);
	near(p.high, golden_paired_high, 1e-11);
	assert_int_equal(paired_compare(&p, a, a, 5, .95, NULL), 0);
	assert_true(p.mean == 0 && p.low == 0 && p.high == 0 && p.p == 1);
	assert_int_equal(paired_compare(&p, a, b, 1, .95, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
}

/* R's p.adjust(c(.01, .04, .03, .005), "holm"); ties, and values above 1. */
static void holm(void **state)
{
	double p[] = {.01, .04, .03, .005}, q[] = {.9, .2, .2, .6}, one[] = {.03};
	static const double want[] = {.03, .06, .06, .02}, ties[] = {1, .8, .8, 1};

	(void)state;
	holm_adjust(p, 4);
	holm_adjust(q, 4);
	holm_adjust(one, 1);
	holm_adjust(one, 0);
	for (int i = 0; i < 4; i++) {
		near(p[i], want[i], 1e-15);
		near(q[i], ties[i], 1e-15);
	}
	assert_true(one[0] == .03);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(kd_golden),
	    cmocka_unit_test(kd_odd_sizes),
	    cmocka_unit_test(kd_null),
	    cmocka_unit_test(kd_subset_mean),
	    cmocka_unit_test(kd_bits),
	    cmocka_unit_test(frechet_commuting),
	    cmocka_unit_test(frechet_blocks),
	    cmocka_unit_test(frechet_singular),
	    cmocka_unit_test(frechet_refuses),
	    cmocka_unit_test(roots_singular_values),
	    cmocka_unit_test(roots_of_covariances),
	    cmocka_unit_test(frechet_golden),
	    cmocka_unit_test(frechet_equal_draws),
	    cmocka_unit_test(moments_bits),
	    cmocka_unit_test(memorised_planted),
	    cmocka_unit_test(memorised_threshold),
	    cmocka_unit_test(memorised_wide),
	    cmocka_unit_test(features_golden),
	    cmocka_unit_test(features_tell_damage),
	    cmocka_unit_test(student),
	    cmocka_unit_test(paired),
	    cmocka_unit_test(holm),
	};
	int rc;

	three = pool_new(3, NULL);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	pool_free(three);
	return rc;
}
