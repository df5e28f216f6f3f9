/* Bounds of squared distances, and decisions by nearest neighbours, against all distances in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "metric/distances.h"
#include "metric/neighbours.h"

static struct pool *three;

enum { K = 5 };

static double dot(const float *a, const float *b, int d)
{
	double s = 0;

	for (int k = 0; k < d; k++)
		s += (double)a[k] * (double)b[k];
	return s;
}

static double direct(const float *a, const float *b, int d)
{
	return fmax(dot(a, a, d) + dot(b, b, d) - 2 * dot(a, b, d), 0);
}

/* The K smallest distances of x[i] to the other vectors of its set */
static void nearest(double *best, const float *x, int64_t n, int64_t i, int d)
{
	for (int k = 0; k < K; k++)
		best[k] = INFINITY;
	for (int64_t j = 0; j < n; j++) {
		double v = j == i ? INFINITY : direct(x + i * d, x + j * d, d);

		for (int k = 0; k < K; k++)
			if (v < best[k]) {
				double t = best[k];

				best[k] = v;
				v = t;
			}
	}
}

static void measure_directly(struct neighbours *out, const float *real, int64_t n, const float *fake, int64_t m, int d, int pr_k, int dc_k)
{
	double *rr = mem_alloc((size_t)(n + m) * K * sizeof *rr), *fr = rr + n * K;
	uint8_t *recalled = mem_zalloc((size_t)n, 2), *covered = recalled + n;
	int64_t precise = 0, authentic = 0, balls = 0, recalls = 0, covers = 0;

	for (int64_t j = 0; j < n; j++)
		nearest(rr + j * K, real, n, j, d);
	for (int64_t i = 0; i < m; i++)
		nearest(fr + i * K, fake, m, i, d);
	for (int64_t i = 0; i < m; i++) {
		double best = INFINITY;
		int64_t at = 0;
		int inside = 0;

		for (int64_t j = 0; j < n; j++) {
			double v = direct(fake + i * d, real + j * d, d);

			inside |= v <= rr[j * K + pr_k - 1];
			balls += v < rr[j * K + dc_k - 1];
			covered[j] |= v < rr[j * K + dc_k - 1];
			recalled[j] |= v <= fr[i * K + pr_k - 1];
			if (v < best)
				best = v, at = j;
		}
		precise += inside;
		authentic += rr[at * K] < best;
	}
	for (int64_t j = 0; j < n; j++)
		recalls += recalled[j], covers += covered[j];
	*out = (struct neighbours){.precision = (double)precise / (double)m,
	                           .recall = (double)recalls / (double)n,
	                           .density = (double)balls / ((double)dc_k * (double)m),
	                           .coverage = (double)covers / (double)n,
	                           .authenticity = (double)authentic / (double)m};
	mem_free(rr);
	mem_free(recalled);
}

/* Both methods give equal bits, with one and with three threads. */
static void compare(const float *real, int64_t n, const float *fake, int64_t m, int d)
{
	for (int swapped = 0; swapped < 2; swapped++) {
		int pr_k = swapped ? K : 3, dc_k = swapped ? 2 : K;
		struct neighbours want, one, many;
		const int axes[] = {1, 8, 200};

		measure_directly(&want, real, n, fake, m, d, pr_k, dc_k);
		assert_int_equal(neighbours_measure(&one, NULL, real, n, fake, m, d, pr_k, dc_k, NULL), 0);
		assert_int_equal(neighbours_measure(&many, three, real, n, fake, m, d, pr_k, dc_k, NULL), 0);
		assert_memory_equal(&one, &want, sizeof want);
		assert_memory_equal(&many, &want, sizeof want);
		for (int a = 0; a < 3 && axes[a] <= d; a++) {
			assert_int_equal(neighbours_measure_along(&one, NULL, real, n, fake, m, d, pr_k, dc_k, axes[a], NULL), 0);
			assert_int_equal(neighbours_measure_along(&many, three, real, n, fake, m, d, pr_k, dc_k, axes[a], NULL), 0);
			assert_memory_equal(&one, &want, sizeof want);
			assert_memory_equal(&many, &want, sizeof want);
		}
	}
}

static float *normal(int64_t n, int d, uint64_t set)
{
	float *x = mem_alloc((size_t)n * (size_t)d * sizeof *x);

	for (int64_t i = 0; i < n; i++)
		rng_normal(x + i * d, (size_t)d, 5, RNG_TEST, set, (uint64_t)i);
	return x;
}

/* Sets of one, two and three tiles; dimensions of one and of two chunks of the float product. */
static void random_sets(void **state)
{
	static const struct {
		int64_t n, m;
		int d;
	} size[] = {{6, 6, 1}, {255, 257, 3}, {256, 512, 16}, {700, 90, 37}, {300, 530, 400}};

	(void)state;
	for (size_t s = 0; s < sizeof size / sizeof *size; s++) {
		float *x = normal(size[s].n, size[s].d, 2 * s), *y = normal(size[s].m, size[s].d, 2 * s + 1);

		compare(x, size[s].n, y, size[s].m, size[s].d);
		compare(x, size[s].n, x, size[s].n, size[s].d);
		mem_free(x);
		mem_free(y);
	}
}

/* Cases that float cannot decide: integers, with many equal distances; copies; distances of a millionth of the vectors' lengths; radii that differ in
 * their last bits; lengths whose products overflow a float; zero vectors. */
enum crafted { LATTICE, COPIES, FAR_OFF, ALMOST, HUGE_LENGTHS, TINY, ZERO, KINDS };

static void craft(float *x, int64_t n, int d, enum crafted kind, float shift)
{
	for (int64_t i = 0; i < n; i++)
		for (int k = 0; k < d; k++) {
			float *v = x + i * d + k;

			switch (kind) {
			case LATTICE:
				*v = k < 4 ? floorf(2 * *v) : 0;
				break;
			case COPIES:
				*v = i < 9 ? *v : x[i % 9 * d + k];
				break;
			case FAR_OFF:
				*v = 1000 + .001f * *v + shift;
				break;
			case ALMOST:
				*v = k == i % d ? 1 + 0x1p-22f * (float)(i % 5) : 0;
				break;
			case HUGE_LENGTHS:
				*v *= i % 3 ? 1e25f : 1;
				break;
			case TINY:
				*v *= 1e-30f;
				break;
			default:
				*v = 0;
				break;
			}
		}
}

static void near_ties(void **state)
{
	enum { N = 560, M = 300, D = 20 };

	(void)state;
	for (int kind = 0; kind < KINDS; kind++) {
		float *x = normal(N, D, 20), *y = normal(M, D, 21);

		craft(x, N, D, (enum crafted)kind, 0);
		craft(y, M, D, (enum crafted)kind, .0005f);
		compare(x, N, y, M, D);
		compare(y, M, x, N, D);
		mem_free(x);
		mem_free(y);
	}
}

/* Samples in the middle of all reals lie in every ball, so most pairs are near. Far away no pair is. */
static void concentrated(void **state)
{
	enum { N = 520, M = 300, D = 64 };
	float *x = normal(N, D, 30), *y = normal(M, D, 31);

	(void)state;
	for (int i = 0; i < M * D; i++)
		y[i] *= .01f;
	compare(x, N, y, M, D);
	compare(y, M, x, N, D);
	for (int i = 0; i < M * D; i++)
		y[i] += 50;
	compare(x, N, y, M, D);
	mem_free(x);
	mem_free(y);
}

/* The bounds hold, and are narrow for similar lengths. A single pair has the bits that it has in its tile. */
static void bounds(void **state)
{
	enum { N = 270, M = 261, D = 900 };
	float *x = normal(N, D, 40), *y = normal(M, D, 41);
	double *xx = mem_alloc((N + M) * sizeof *xx), *yy = xx + N;
	struct distances s;
	struct distance_tile t;

	(void)state;
	gram_squares(xx, x, N, D);
	gram_squares(yy, y, M, D);
	assert_int_equal(distances_init(&s, NULL, x, xx, N, y, yy, M, D, NULL, NULL, NULL), 0);
	for (int64_t tile = 0; tile < s.g.ti * s.g.tj; tile++) {
		distance_tile_make(&t, &s, tile / s.g.tj, tile % s.g.tj, 0);
		for (int64_t i = 0; i < t.ni; i++)
			for (int64_t j = 0; j < t.nj; j++) {
				double v = direct(x + (t.i0 + i) * D, y + (t.j0 + j) * D, D);

				assert_true(distance_tile_low(&t, i, j) <= v && v <= distance_tile_high(&t, i, j));
				assert_true(distance_tile_high(&t, i, j) - distance_tile_low(&t, i, j) < 2e-4 * v);
				assert_true(distance_tile_exact(&t, i, j) == v);
			}
		assert_int_equal(t.exact != NULL, t.ni * t.nj > 2048);
	}
	distances_release(&s);
	mem_free(x);
	mem_free(y);
	mem_free(xx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_sets),
	    cmocka_unit_test(near_ties),
	    cmocka_unit_test(concentrated),
	    cmocka_unit_test(bounds),
	};
	int rc;

	three = pool_new(3, NULL);
	rc = three ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
	pool_free(three);
	return rc;
}
