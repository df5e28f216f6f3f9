/* data/scenes: scores and cuts of PySceneDetect (tests/golden/scene_values.py), and jumps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/scenes.h"
#include "tests/golden/scene_values.h"
#include "tests/unit/moving.h"

enum { W = 40, H = 24, N = 260 };

/* The change at a frame, 0: none. */
static uint32_t change_at(int n)
{
	static const struct {
		int frame;
		uint32_t strength;
	} changes[] = {{30, 255}, {60, 255},  {63, 255},  {90, 255},  {92, 255},  {94, 255},  {96, 255},
	               {98, 255}, {100, 255}, {102, 255}, {104, 255}, {106, 255}, {108, 255}, {110, 255},
	               {140, 60}, {165, 110}, {190, 255}, {200, 255}, {210, 255}, {220, 255}, {258, 255}};

	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
		if (changes[i].frame == n)
			return changes[i].strength;
	return 0;
}

/* Frame n of the golden video; `scene` is its picture without noise, kept from call to call. */
static void frame_make(struct picture *p, uint8_t *scene, int n)
{
	for (uint32_t y = 0; y < H; y++)
		for (uint32_t x = 0; x < W; x++)
			for (uint32_t c = 0; c < 3; c++) {
				size_t at = (y * W + x) * 3 + c;
				uint32_t noise = moving_mix(x, y, c, (uint32_t)n), value;

				if (!n)
					scene[at] = (uint8_t)(moving_mix(x, y, c, 1000) >> 24);
				if (change_at(n))
					scene[at] = (uint8_t)(scene[at] + (moving_mix(x, y, c, 2000 + (uint32_t)n) >> 24) * change_at(n) / 255);
				value = scene[at] + (noise >> 30 ? 0 : (noise >> 8 & 15));
				p->pixels[at] = (uint8_t)(value > 255 ? 255 : value);
			}
}

/* What a detector finds in the golden video. */
struct all_found {
	int cuts[N], ncuts, jumps[N], njumps;
	double scores[N];
};

static void found_add(struct all_found *a, const struct scene_found *f)
{
	if (f->cut >= 0)
		a->cuts[a->ncuts++] = (int)f->cut;
	if (f->jump >= 0) {
		assert_true(f->jump < f->settled);
		a->jumps[a->njumps++] = (int)f->jump;
	}
}

static void detect(struct all_found *a, enum scene_detector detector, double threshold)
{
	struct scene_rule rule = {detector, threshold, SCENE_LENGTH};
	struct scenes *s = scenes_new(&rule);
	struct picture p = {0};
	struct scene_found f;
	struct err e = {0};
	static uint8_t scene[W * H * 3];
	int64_t settled = 0;

	memset(a, 0, sizeof *a);
	assert_int_equal(picture_alloc(&p, W, H, 3, &e), 0);
	for (int n = 0; n < N; n++) {
		frame_make(&p, scene, n);
		assert_int_equal(scenes_add(s, &p, &f, &e), 0);
		assert_true(f.settled >= settled && f.settled <= n + 1 && f.settled >= n - 1);
		settled = f.settled;
		a->scores[n] = f.score;
		found_add(a, &f);
	}
	while (scenes_end(s, &f)) {
		assert_int_equal(f.settled, ++settled);
		found_add(a, &f);
	}
	assert_int_equal(settled, N);
	picture_release(&p);
	scenes_free(s);
}

static void check_cuts(enum scene_detector detector, double threshold, const int *want, size_t n)
{
	struct all_found a;

	detect(&a, detector, threshold);
	assert_int_equal(a.ncuts, n);
	assert_memory_equal(a.cuts, want, n * sizeof *want);
}

static void test_cuts(void **state)
{
	(void)state;
	check_cuts(SCENES_CONTENT, 27, golden_content_cuts, sizeof golden_content_cuts / sizeof(int));
	check_cuts(SCENES_CONTENT, 40, golden_content40_cuts, sizeof golden_content40_cuts / sizeof(int));
	check_cuts(SCENES_ADAPTIVE, 3, golden_adaptive_cuts, sizeof golden_adaptive_cuts / sizeof(int));
	check_cuts(SCENES_ADAPTIVE, 6, golden_adaptive6_cuts, sizeof golden_adaptive6_cuts / sizeof(int));
}

/* The sums are of integers; the means may differ in the last bits, because numpy divides each plane alone as we do, and then adds them in order. */
static void test_scores(void **state)
{
	struct all_found a;

	(void)state;
	detect(&a, SCENES_CONTENT, 27);
	for (int n = 0; n < N; n++)
		assert_true(fabs(a.scores[n] - golden_scene_scores[n]) <= 1e-12);
}

/* Every change is a jump for the content detector, also those that the shortest scene merges. The adaptive one sees no jump where the neighbours
 * change as much, but sees the one near the end, which has too few neighbours for a cut. */
static void test_jumps(void **state)
{
	struct all_found a;
	int changes = 0, at = 0;

	(void)state;
	for (int n = 0; n < N; n++)
		changes += change_at(n) != 0;
	detect(&a, SCENES_CONTENT, 20);
	assert_int_equal(a.njumps, changes);
	for (int n = 0; n < N; n++)
		if (change_at(n))
			assert_int_equal(a.jumps[at++], n);
	detect(&a, SCENES_ADAPTIVE, 3);
	assert_int_equal(a.jumps[a.njumps - 1], 258);
	assert_true(a.njumps > a.ncuts);
}

static void test_hsv(void **state)
{
	enum { SIDE = 52, COUNT = SIDE * SIDE * SIDE };
	uint8_t *rgb = mem_alloc(3 * COUNT), *hsv = mem_alloc(3 * COUNT);
	size_t n = 0;

	(void)state;
	for (int r = 0; r < 256; r += 5)
		for (int g = 0; g < 256; g += 5)
			for (int b = 0; b < 256; b += 5) {
				rgb[n++] = (uint8_t)r;
				rgb[n++] = (uint8_t)g;
				rgb[n++] = (uint8_t)b;
			}
	assert_int_equal(n, 3 * COUNT);
	scene_hsv(hsv, rgb, COUNT);
	for (int k = 0; k < 3; k++) {
		int64_t sum = 0;

		for (int64_t i = 0; i < COUNT; i++)
			sum += hsv[k * COUNT + i] * ((i + 1) % 251);
		assert_int_equal(sum, golden_hsv_sums[k]);
	}
	mem_free(rgb);
	mem_free(hsv);
}

static int table(int numerator, int by)
{
	return by ? (int)nearbyint(numerator / (double)by) : 0;
}

/* Every value and difference, with each channel the largest: OpenCV's tables in fixed point. */
static void test_hsv_tables(void **state)
{
	(void)state;
	for (int v = 0; v < 256; v++)
		for (int low = 0; low <= v; low++) {
			int mid = (v + 2 * low) / 3, diff = v - low;
			uint8_t rgb[9] = {(uint8_t)v,   (uint8_t)low, (uint8_t)mid, (uint8_t)mid, (uint8_t)v,
			                  (uint8_t)low, (uint8_t)low, (uint8_t)mid, (uint8_t)v};
			uint8_t hsv[9];

			scene_hsv(hsv, rgb, 3);
			for (int k = 0; k < 3; k++) {
				const uint8_t *p = rgb + (ptrdiff_t)3 * k;
				int h = p[0] == v ? p[1] - p[2] : p[1] == v ? p[2] - p[0] + 2 * diff : p[0] - p[1] + 4 * diff;

				h = (h * table(180 << 12, 6 * diff) + 2048) >> 12;
				assert_int_equal(hsv[k], (uint8_t)(h < 0 ? h + 180 : h));
				assert_int_equal(hsv[3 + k], (uint8_t)((diff * table(255 << 12, v) + 2048) >> 12));
				assert_int_equal(hsv[6 + k], v);
			}
		}
}

/* A frame of another size is a jump, and scores of large frames do not overflow. */
static void test_sizes(void **state)
{
	struct scene_rule rule = {SCENES_CONTENT, 27, 0};
	struct scenes *s = scenes_new(&rule);
	struct scene_found f;
	struct err e = {0};
	int w, h, sizes[][2] = {{8, 8}, {8, 9}, {300, 300}, {300, 300}};

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct picture p;

		assert_int_equal(picture_alloc(&p, sizes[i][0], sizes[i][1], 3, &e), 0);
		memset(p.pixels, i == 3 ? 255 : 0, (size_t)p.width * p.height * 3);
		assert_int_equal(scenes_add(s, &p, &f, &e), 0);
		assert_true(f.score == (i == 0 ? 0 : i == 3 ? 85 : 255));
		assert_int_equal(f.jump, i ? i : -1);
		assert_int_equal(f.cut, i ? i : -1);
		picture_release(&p);
	}
	scenes_free(s);
	scene_size(1280, 720, &w, &h);
	assert_true(w == 256 && h == 144);
	scene_size(270, 480, &w, &h);
	assert_true(w == 144 && h == 256);
	scene_size(100, 256, &w, &h);
	assert_true(w == 100 && h == 256);
	scene_size(100000, 2, &w, &h);
	assert_true(w == 256 && h == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_cuts), cmocka_unit_test(test_scores),     cmocka_unit_test(test_jumps),
	                                   cmocka_unit_test(test_hsv),  cmocka_unit_test(test_hsv_tables), cmocka_unit_test(test_sizes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
