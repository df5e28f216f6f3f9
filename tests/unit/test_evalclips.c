/* evalclips: kernel distances between clips against plain sums; draws of frames that no order can move; altered clips. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pool.h"
#include "metric/clipframes.h"
#include "metric/kd.h"
#include "tests/unit/rows.h"

static double kernel(const float *a, const float *b, int d)
{
	double s = 0;

	for (int k = 0; k < d; k++)
		s += (double)a[k] * b[k];
	return pow(s / d + 1, 3);
}

/* The mean kernel over pairs of clips; within one set over pairs of different clips. */
static double clips_kernel(const float *x, int n, const float *y, int m, int frames, int d)
{
	double s = 0;

	for (int i = 0; i < n * frames; i++)
		for (int j = 0; j < m * frames; j++)
			s += x == y && i / frames == j / frames ? 0 : kernel(x + i * d, y + j * d, d);
	return s / ((double)n * (x == y ? m - 1 : m) * frames * frames);
}

static double plain(const float *x, int n, const float *y, int m, int frames, int d)
{
	return clips_kernel(x, n, x, n, frames, d) + clips_kernel(y, m, y, m, frames, d) - 2 * clips_kernel(x, n, y, m, frames, d);
}

/* Sizes for which the vectors of a clip lie in two tiles of 256. */
static void distance_of_clips(void **state)
{
	static const int sizes[][4] = {{3, 3, 1, 2}, {4, 7, 3, 5}, {86, 90, 3, 4}, {60, 40, 7, 3}};
	struct pool *three = pool_new(3, NULL);

	(void)state;
	for (int s = 0; s < 4; s++) {
		int n = sizes[s][0], m = sizes[s][1], f = sizes[s][2], d = sizes[s][3];
		float *x = normals(n * f, d, 1), *y = normals(m * f, d, 2);
		struct kd k, again;

		assert_int_equal(kd_clips(&k, three, x, n, y, m, f, d, NULL), 0);
		near(k.value, plain(x, n, y, m, f, d), 1e-9);
		assert_int_equal(kd_clips(&again, NULL, x, n, y, m, f, d, NULL), 0);
		assert_memory_equal(&k, &again, sizeof k);
		if (f == 1) {
			assert_int_equal(kd_whole(&again, NULL, x, n, y, m, d, NULL), 0);
			assert_memory_equal(&k, &again, sizeof k);
		}
		mem_free(x);
		mem_free(y);
	}
	pool_free(three);
}

/* The jackknife of a distance of clips, and of a change, against leaving out one clip after the other. */
static void standard_errors(void **state)
{
	enum { N = 5, M = 6, F = 2, D = 3, EACH = F * D };
	float *x = normals(N * F, D, 3), *y = normals(M * F, D, 4), *z = normals(M * F, D, 5), *less = mem_alloc(M * EACH * sizeof *less), *more;
	double t[2][M], mean[2] = {0}, var = 0;
	struct kd k, other;
	struct kd_change change;

	(void)state;
	more = mem_alloc(M * EACH * sizeof *more);
	assert_int_equal(kd_change(&change, NULL, x, N, y, z, M, F, D, NULL), 0);
	assert_int_equal(kd_clips(&k, NULL, x, N, y, M, F, D, NULL), 0);
	assert_int_equal(kd_clips(&other, NULL, x, N, z, M, F, D, NULL), 0);
	near(change.value, other.value - k.value, 1e-12);
	for (int side = 0; side < 2; side++) {
		int n = side ? M : N;

		for (int i = 0; i < n; i++) {
			const float *from = side ? y : x;
			size_t rest = (size_t)(n - 1 - i) * EACH;

			memcpy(less, from, (size_t)i * EACH * sizeof *less);
			memcpy(less + i * EACH, from + (i + 1) * EACH, rest * sizeof *less);
			memcpy(more, z, (size_t)i * EACH * sizeof *more);
			if (side)
				memcpy(more + i * EACH, z + (i + 1) * EACH, rest * sizeof *more);
			t[side][i] = side ? plain(x, N, more, M - 1, F, D) - plain(x, N, less, M - 1, F, D)
			                  : plain(less, N - 1, z, M, F, D) - plain(less, N - 1, y, M, F, D);
			mean[side] += t[side][i] / n;
		}
		for (int i = 0; i < n; i++)
			var += pow(t[side][i] - mean[side], 2) * (n - 1) / n;
	}
	near(change.se, sqrt(var), 1e-9);
	assert_int_equal(kd_change(&change, NULL, x, N, y, y, M, F, D, NULL), 0);
	assert_true(change.value == 0 && change.se == 0 && change.p == 1);
	mem_free(x);
	mem_free(y);
	mem_free(z);
	mem_free(less);
	mem_free(more);
}

/* The probability of a change against all 64 exchanges of 6 clips, each computed from exchanged sets. */
static void exchanges(void **state)
{
	enum { N = 7, M = 6, F = 2, D = 3, EACH = F * D };

	(void)state;
	for (uint64_t seed = 0; seed < 4; seed++) {
		float *x = normals(N * F, D, 50 + seed), *y = normals(M * F, D, 60 + seed), *z = normals(M * F, D, 70 + seed), a[M * EACH],
		      b[M * EACH];
		double least = 0, share = 0;
		struct kd_change change;

		for (int i = 0; i < M * EACH; i++)
			z[i] += .2f * (float)seed;
		for (int k = 0; k < 1 << M; k++) {
			double now;

			for (int i = 0; i < M * EACH; i++) {
				a[i] = k >> i / EACH & 1 ? z[i] : y[i];
				b[i] = k >> i / EACH & 1 ? y[i] : z[i];
			}
			now = plain(x, N, b, M, F, D) - plain(x, N, a, M, F, D);
			if (!k)
				least = now;
			share += now >= least - 1e-9;
		}
		assert_int_equal(kd_change(&change, NULL, x, N, y, z, M, F, D, NULL), 0);
		assert_true(fabs(change.p - share / (1 << M)) < .02); /* 10000 draws: a deviation of .005 at most */
		mem_free(x);
		mem_free(y);
		mem_free(z);
	}
}

/* A clip of `frames` grey frames of 2 x 2, each of one value. */
static void grey_clip(struct clipframes *c, const uint8_t *values, int frames)
{
	uint8_t pixels[64 * 4];
	struct clip clip = {frames, 1, 2, 2, pixels};

	for (int i = 0; i < frames * 4; i++)
		pixels[i] = values[i / 4];
	assert_int_equal(clipframes_make(c, &clip, 0, RESIZE_BICUBIC, NULL), 0);
}

static int value(const struct clipframes *c, int frame)
{
	return c->frame[frame].pixels[0];
}

/* The frames drawn from a clip are the same in any order of its frames, and one of them stands for the frozen clip. */
static void draws(void **state)
{
	enum { FRAMES = 9, DRAWN = 4, CLIPS = 400 };
	int count[FRAMES] = {0};

	(void)state;
	for (int k = 0; k < CLIPS; k++) {
		struct clipframes c;
		uint8_t values[FRAMES];
		int at[FRAMES], plainly[DRAWN], drawn[DRAWN];

		for (int t = 0; t < FRAMES; t++)
			values[t] = (uint8_t)rng_below(256, (uint64_t)k, RNG_TEST, 7, (uint64_t)t, 0);
		grey_clip(&c, values, FRAMES);
		clipframes_alter(at, &c, ALTERATIONS);
		clipframes_draw(plainly, DRAWN, &c, at);
		for (int i = 0; i < DRAWN; i++) {
			count[plainly[i]]++;
			for (int j = 0; j < i; j++)
				assert_true(plainly[i] != plainly[j]);
		}
		for (enum altered how = ALTERED_SHUFFLED; how <= ALTERED_REVERSED; how++) {
			clipframes_alter(at, &c, how);
			clipframes_draw(drawn, DRAWN, &c, at);
			for (int i = 0; i < DRAWN; i++)
				assert_int_equal(value(&c, drawn[i]), value(&c, plainly[i]));
		}
		clipframes_alter(at, &c, ALTERED_FROZEN);
		clipframes_draw(drawn, DRAWN, &c, at);
		for (int i = 0; i < DRAWN; i++)
			assert_int_equal(value(&c, drawn[i]), value(&c, plainly[0]));
		clipframes_release(&c);
	}
	/* Every frame equally often: 4 of 9 in 400 clips, 178 with a deviation of 10. */
	for (int t = 0; t < FRAMES; t++)
		assert_true(abs(count[t] - CLIPS * DRAWN / FRAMES) < 45);
}

static void alterations(void **state)
{
	static const uint8_t values[6] = {10, 20, 30, 40, 50, 60};
	struct clipframes c;
	int at[6], seen[6] = {0}, moved = 0;

	(void)state;
	grey_clip(&c, values, 6);
	clipframes_alter(at, &c, ALTERED_REVERSED);
	for (int t = 0; t < 6; t++)
		assert_int_equal(at[t], 5 - t);
	clipframes_alter(at, &c, ALTERED_SLOW);
	for (int t = 0; t < 6; t++)
		assert_int_equal(at[t], t / 2);
	clipframes_alter(at, &c, ALTERED_SHUFFLED);
	for (int t = 0; t < 6; t++) {
		assert_int_equal(seen[at[t]]++, 0);
		moved += at[t] != t;
	}
	assert_true(moved > 1);
	clipframes_alter(at, &c, ALTERED_FROZEN);
	for (int t = 1; t < 6; t++)
		assert_int_equal(at[t], at[0]);
	clipframes_release(&c);
}

/* Freezing clips at a random frame does not move the distance of content on average, although their frames are then all alike: the mean of 300
 * changes is within 4 of its standard errors of zero. Frozen at their first frames, which differ from the later ones here, they do move it. */
static void frozen_content(void **state)
{
	enum { R = 300, N = 12, F = 4, D = 2, EACH = F * D };
	double mean[2] = {0}, square[2] = {0};

	(void)state;
	for (int r = 0; r < R; r++) {
		float *x = normals(N * F, D, 1000 + 2 * (uint64_t)r), *y = normals(N * F, D, 1001 + 2 * (uint64_t)r), z[2][N * EACH];

		for (int i = 0; i < N * EACH; i++) {
			float late = (float)(i / D % F) * .5f; /* later frames are brighter */

			x[i] += late;
			y[i] += late;
		}
		for (int i = 0; i < N * F; i++) {
			int one = (int)rng_below(F, (uint64_t)r, RNG_TEST, 8, (uint64_t)(i / F), 0);

			memcpy(z[0] + i * D, y + (i / F * F + one) * D, D * sizeof(float));
			memcpy(z[1] + i * D, y + i / F * F * D, D * sizeof(float));
		}
		for (int k = 0; k < 2; k++) {
			struct kd_change change;

			assert_int_equal(kd_change(&change, NULL, x, N, y, z[k], N, F, D, NULL), 0);
			mean[k] += change.value / R;
			square[k] += change.value * change.value / R;
		}
		mem_free(x);
		mem_free(y);
	}
	assert_true(fabs(mean[0]) < 4 * sqrt((square[0] - mean[0] * mean[0]) / R));
	assert_true(fabs(mean[1]) > 10 * sqrt((square[1] - mean[1] * mean[1]) / R));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(distance_of_clips), cmocka_unit_test(standard_errors), cmocka_unit_test(exchanges), cmocka_unit_test(draws),
	    cmocka_unit_test(alterations),       cmocka_unit_test(frozen_content),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
