/* cluster/imagehash against imagehash and scipy, bit for bit; cluster/hashindex against a plain search; cluster/semdedup by hand and against the
 * plain rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "cluster/hashindex.h"
#include "cluster/imagehash.h"
#include "cluster/semdedup.h"
#include "core/hash.h"
#include "core/mem.h"
#include "tests/golden/imagehash_values.h"

enum { PICTURES = sizeof imagehash_values / sizeof *imagehash_values };

static uint64_t draw(uint64_t a, uint64_t b)
{
	const uint64_t seed[2] = {a, b};

	return hash64(seed, sizeof seed);
}

/* Picture i of imagehash_values.py. */
static void make_picture(struct picture *p, int64_t i)
{
	int64_t w = 8 + i * 37 % 120, h = 8 + i * 53 % 90;
	struct err e = {0};

	assert_int_equal(picture_alloc(p, (int)w, (int)h, 1, &e), 0);
	for (int64_t y = 0; y < h; y++)
		for (int64_t x = 0; x < w; x++) {
			int64_t nx = x < w - 1 - x ? x : w - 1 - x, ny = y < h - 1 - y ? y : h - 1 - y;
			const int64_t kinds[6] = {i * 4,
			                          x * 255 / (w - 1),
			                          y * 255 / (h - 1),
			                          (nx * 9 + ny * 7) % 256,
			                          (x * x * 3 + y * y * 5 + x * y * 7 + i * 11) / 16 % 256,
			                          ((x * 2654435761 + y * 40503 + i * 97) % 4294967296) >> 24};

			p->pixels[y * w + x] = (uint8_t)kinds[i % 6];
		}
}

static void hashes(void **state)
{
	(void)state;
	for (int64_t i = 0; i < PICTURES; i++) {
		struct picture p = {0};
		struct err e = {0};

		make_picture(&p, i);
		for (int kind = 0; kind < 3; kind++) {
			uint64_t h;

			assert_int_equal(imagehash_of(&h, &p, (enum imagehash_kind)kind, &e), 0);
			if (h != imagehash_values[i][kind])
				fail_msg("%s of picture %d: %016llx, not %016llx", imagehash_names[kind], (int)i, (unsigned long long)h,
				         (unsigned long long)imagehash_values[i][kind]);
		}
		picture_release(&p);
	}
}

static void transforms(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		double x[32], slow[32];

		for (int k = 0; k < 32; k++)
			x[k] = i == 5 ? 77 : (k * k * (i + 3) + k * 29 + i * 71) % 256;
		for (int k = 0; k < 32; k++) {
			slow[k] = 0;
			for (int n = 0; n < 32; n++)
				slow[k] += 2 * x[n] * cos(M_PI * k * (2 * n + 1) / 64);
		}
		imagehash_dct(x);
		for (int k = 0; k < 32; k++)
			assert_true(fabs(x[k] - slow[k]) < 1e-10); /* the definition; values are below 2^14, so 50 roundings of 2^-39 */
		assert_memory_equal(x, imagehash_dct_values[i], sizeof x);
	}
}

/* Pillow: L = (19595 R + 38470 G + 7471 B + 32768) >> 16 */
static void grey(void **state)
{
	static const uint8_t rgb[] = {255, 255, 255, 0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 200, 30};
	static const uint8_t want[] = {255, 0, 76, 150, 29, 124};
	uint8_t got[6];

	(void)state;
	picture_grey(got, rgb, 6);
	assert_memory_equal(got, want, sizeof want);
}

enum { ENTRIES = 6000 };
static uint64_t entry[ENTRIES][HASHINDEX_PARTS];

/* Entries of three equal hashes and of three different ones, with many near pairs and equal entries. */
static void make_entries(void)
{
	for (uint64_t i = 0; i < ENTRIES; i++) {
		uint64_t base = draw(i % 97 ? i : 5, 1);

		for (uint64_t p = 0; p < HASHINDEX_PARTS; p++)
			entry[i][p] = i % 5 ? base : draw(i, 2 + p);
		if (i % 3 == 1 && i > 40) {
			memcpy(entry[i], entry[i - 40], sizeof entry[i]);
			for (uint64_t k = 0; k < i % 17; k++)
				entry[i][k % 3] ^= 1ULL << draw(i, 10 + k) % 64;
		}
	}
}

static void nearest(void **state)
{
	static const int mosts[] = {0, 1, 3, 4, 7, 8, 10, 11, 12, 20, 64};

	(void)state;
	make_entries();
	for (size_t m = 0; m < sizeof mosts / sizeof *mosts; m++) {
		struct hashindex *x = hashindex_new(mosts[m]);
		int64_t found = 0;

		for (int64_t i = 0; i < ENTRIES; i++) {
			int distance = -1, least = mosts[m] + 1;
			int64_t want = -1, got;

			for (int64_t k = 0; k < i && (i % 23 == 0 || i > ENTRIES - 300); k++) {
				int d = 0;

				for (int p = 0; p < HASHINDEX_PARTS; p++) {
					int bits = 0;

					for (uint64_t v = entry[k][p] ^ entry[i][p]; v; v &= v - 1)
						bits++;
					d = bits > d ? bits : d;
				}
				if (d < least) {
					least = d;
					want = k;
				}
			}
			if (i % 23 == 0 || i > ENTRIES - 300) {
				got = hashindex_nearest(x, entry[i], &distance);
				assert_int_equal(got, want);
				if (got >= 0)
					assert_int_equal(distance, least);
				found += got >= 0;
			}
			hashindex_add(x, entry[i]);
		}
		assert_true(found > 0);
		hashindex_free(x);
	}
}

/* Directions in a plane, by their angles in degrees. */
static void turn_to(float *x, const double *degrees, int n)
{
	for (int i = 0; i < n; i++) {
		x[2 * i] = (float)cos(degrees[i] * M_PI / 180);
		x[2 * i + 1] = (float)sin(degrees[i] * M_PI / 180);
	}
}

/* The mean of the angles is 10; cosine .999 is 2.56 degrees. The order by distance from the mean: 40 (30 away), -18 (28), -16 (26), 18 (8), 2 (8),
 * 14, 12, 11. -16 is near -18, which is earlier; 12 and 14 are within 2; 11 is near 12, which is dropped: SemDeDup drops it all the same. */
static void semantic(void **state)
{
	static const double degrees[] = {-18, 40, 14, 12, 11, -16, 18, 19};
	float x[16];
	uint8_t none[8] = {0}, first[8] = {0}, out[8] = {0};
	int64_t near[8];
	double cosine[8];
	struct err e = {0};

	(void)state;
	turn_to(x, degrees, 8);
	assert_int_equal(semdedup_near(near, cosine, x, 8, 2, none, none, .999, NULL, NULL, &e), 0);
	assert_int_equal(near[0], -1);
	assert_int_equal(near[1], -1);
	assert_int_equal(near[5], 0);
	assert_true(fabs(cosine[5] - cos(2 * M_PI / 180)) < 1e-6);
	assert_int_equal(near[7], -1);
	assert_int_equal(near[6], 7); /* 19 is farther from the mean than 18 */
	assert_int_equal(near[2], -1);
	assert_int_equal(near[3], 2);
	assert_int_equal(near[4], 3);
	first[4] = 1; /* 11 comes first, and stays */
	assert_int_equal(semdedup_near(near, cosine, x, 8, 2, first, none, .999, NULL, NULL, &e), 0);
	assert_int_equal(near[4], -1);
	assert_int_equal(near[3], 4); /* 1 degree from 11, 2 degrees from 14 */
	out[0] = 1;
	assert_int_equal(semdedup_near(near, cosine, x, 8, 2, none, out, .999, NULL, NULL, &e), 0);
	assert_int_equal(near[0], -1);
	assert_int_equal(near[5], -1);
	first[4] = 0;
	first[5] = first[6] = 1;
	assert_int_equal(semdedup_across(near, cosine, x, 8, 2, first, .999, NULL, NULL, &e), 0);
	assert_int_equal(near[0], 5);
	assert_int_equal(near[7], 6);
	for (int i = 1; i < 7; i++)
		assert_int_equal(near[i], -1);
}

/* Threads change nothing. */
static void semantic_threads(void **state)
{
	enum { N = 700, D = 19 };
	static float x[N * D];
	static uint8_t first[N], none[N];
	static int64_t near[2][N];
	static double cosine[2][N];
	struct err e = {0};
	int dropped = 0;

	(void)state;
	for (uint64_t i = 0; i < N; i++) {
		double sum = 0;

		for (uint64_t k = 0; k < D; k++) {
			x[i * D + k] =
			    (float)((double)(draw(i / 2, k) >> 11) * 0x1p-53 - .5 + (i % 2 ? (double)(draw(i, 50 + k) >> 11) * 0x1p-57 : 0));
			sum += (double)x[i * D + k] * x[i * D + k];
		}
		for (uint64_t k = 0; k < D; k++)
			x[i * D + k] = (float)(x[i * D + k] / sqrt(sum));
		first[i] = i % 7 == 0;
	}
	for (int t = 0; t < 2; t++) {
		struct pool *pool = pool_new(1 + 3 * t, &e);

		assert_non_null(pool);
		assert_int_equal(semdedup_near(near[t], cosine[t], x, N, D, first, none, .99, pool, NULL, &e), 0);
		pool_free(pool);
	}
	assert_memory_equal(near[0], near[1], sizeof near[0]);
	assert_memory_equal(cosine[0], cosine[1], sizeof cosine[0]);
	for (int i = 0; i < N; i++) {
		double dot = 0;

		for (int k = 0; k < D && near[0][i] >= 0; k++)
			dot += (double)x[i * D + k] * x[near[0][i] * D + k];
		assert_true(near[0][i] < 0 || fabs(dot - cosine[0][i]) < 1e-6);
		dropped += near[0][i] >= 0;
	}
	assert_true(dropped > N / 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hashes),  cmocka_unit_test(transforms), cmocka_unit_test(grey),
	    cmocka_unit_test(nearest), cmocka_unit_test(semantic),   cmocka_unit_test(semantic_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
