/* The metric's features on photographs: every damage increases both distances; real against real stays at zero. Needs test data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/still.h"
#include "metric/frechet.h"
#include "metric/kd.h"
#include "metric/moments.h"
#include "metric/pixfeat.h"

enum { SIDE = 64, BYTES = SIDE * SIDE * 3, MOST = 4000, AXES = 32 };

static struct {
	int n;
	uint8_t *pixels; /* (n, 64, 64, 3) */
	int class[MOST];
} photos;

static struct pool *pool;

static char *folder(void)
{
	const char *places[] = {getenv("DDM_TEST_DATA"), "shared/data", "../shared/data"};

	for (int i = 0; i < 3; i++) {
		char *path = places[i] ? path_join(places[i], "flowers-64") : NULL;

		if (path && path_exists(path))
			return path;
		mem_free(path);
	}
	return NULL;
}

static void class_read(const char *dir, int class)
{
	struct err e = {0};
	char **names;
	size_t n;

	if (dir_list(dir, &names, &n, &e))
		fail_msg("%s", e.msg);
	for (size_t i = 0; i < n && photos.n < MOST; i++) {
		char *path = path_join(dir, names[i]);
		struct picture p;
		size_t len;
		void *bytes = file_load(path, 1 << 24, &len, &e);

		if (!bytes || still_decode(&p, bytes, len, path, 3, NULL, &e) || p.width != SIDE || p.height != SIDE)
			fail_msg("%s", e.msg);
		memcpy(photos.pixels + (size_t)photos.n * BYTES, p.pixels, BYTES);
		photos.class[photos.n++] = class;
		picture_release(&p);
		mem_free(bytes);
		mem_free(path);
	}
	names_free(names, n);
}

static int photos_read(void **state)
{
	static const char *const classes[] = {"daisy", "dandelion", "roses", "sunflowers", "tulips"};
	char *dir = folder();

	(void)state;
	pool = pool_new(0, NULL);
	photos.pixels = dir ? mem_resize(NULL, MOST, BYTES) : NULL;
	for (int k = 0; dir && k < 5; k++) {
		char *path = path_join(dir, classes[k]);

		class_read(path, k);
		mem_free(path);
	}
	mem_free(dir);
	return 0;
}

static int photos_free(void **state)
{
	(void)state;
	mem_free(photos.pixels);
	pool_free(pool);
	return 0;
}

enum { TILE = 8, TILES_ACROSS = SIDE / TILE };

enum kind { BLUR, NOISE, RED, TILES, DROP };

/* 3 x 3 binomial blur, `dose` times */
static void blur(uint8_t *p, int dose)
{
	uint8_t q[BYTES];

	for (int b = 0; b < dose; b++) {
		memcpy(q, p, BYTES);
		for (int y = 1; y < SIDE - 1; y++)
			for (int i = 3; i < 3 * SIDE - 3; i++) {
				const uint8_t *c = q + y * SIDE * 3 + i, *a = c - SIDE * 3, *d = c + SIDE * 3;

				p[y * SIDE * 3 + i] =
				    (uint8_t)((a[-3] + 2 * a[0] + a[3] + 2 * c[-3] + 4 * c[0] + 2 * c[3] + d[-3] + 2 * d[0] + d[3] + 8) / 16);
			}
	}
}

/* `dose` exchanges of two tiles of the patch grid */
static void exchange(uint8_t *p, int dose, int64_t picture)
{
	for (int k = 0; k < dose; k++) {
		int64_t a = (picture * 7919 + k * 104729) % 64, b = (picture * 611953 + k * 15485863 + 17) % 64;
		uint8_t *s = p + (a / TILES_ACROSS * SIDE + a % TILES_ACROSS) * TILE * 3;
		uint8_t *t = p + (b / TILES_ACROSS * SIDE + b % TILES_ACROSS) * TILE * 3;

		for (int y = 0; y < TILE; y++)
			for (int i = 0; i < 3 * TILE; i++) {
				uint8_t v = s[y * SIDE * 3 + i];

				s[y * SIDE * 3 + i] = t[y * SIDE * 3 + i];
				t[y * SIDE * 3 + i] = v;
			}
	}
}

static uint8_t clip(int v)
{
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

struct job {
	float *f;
	const int *which;
	enum kind kind;
	int dose;
};

static void picture_task(void *arg, int64_t i, int worker)
{
	struct job *j = arg;
	uint8_t p[BYTES];
	float eps[BYTES];

	(void)worker;
	memcpy(p, photos.pixels + (size_t)j->which[i] * BYTES, BYTES);
	if (j->kind == BLUR)
		blur(p, j->dose);
	if (j->kind == TILES)
		exchange(p, j->dose, i);
	if (j->kind == NOISE)
		rng_normal(eps, BYTES, 1, RNG_TEST, 0, (uint64_t)i);
	for (int k = 0; k < BYTES; k++) {
		if (j->kind == NOISE)
			p[k] = clip((int)lrint(p[k] + j->dose * (double)eps[k]));
		if (j->kind == RED && k % 3 == 0)
			p[k] = clip(p[k] + j->dose);
	}
	pixfeat_compute(j->f + i * pixfeat_dims(PIXFEAT_PIX), p, SIDE, SIDE, PIXFEAT_PIX);
}

/* Every fourth photograph from `phase` on; DROP leaves out the first `dose` classes */
static float *features(int *n, int phase, enum kind kind, int dose)
{
	int which[MOST];
	struct job j = {NULL, which, kind, dose};

	*n = 0;
	for (int i = phase; i < photos.n; i += 4)
		if (kind != DROP || photos.class[i] >= dose)
			which[(*n)++] = i;
	j.f = mem_alloc((size_t)*n * (size_t)pixfeat_dims(PIXFEAT_PIX) * sizeof *j.f);
	pool_run(pool, *n, picture_task, &j);
	return j.f;
}

static void reference_axes(double *axes, const float *ref, int n, int d)
{
	double *mu = mem_alloc((size_t)d * (size_t)(d + 1) * sizeof *mu);
	struct moments m;

	assert_int_equal(moments_init(&m, d, NULL), 0);
	moments_add(&m, pool, ref, n);
	assert_int_equal(moments_result(&m, pool, mu, mu + d, NULL), 0);
	assert_int_equal(frechet_axes(axes, mu + d, d, AXES, NULL), 0);
	moments_release(&m);
	mem_free(mu);
}

static void photographs(void **state)
{
	static const struct {
		enum kind kind;
		int dose[3];
	} damage[] = {{BLUR, {1, 2, 5}}, {NOISE, {3, 8, 24}}, {RED, {12, 24, 48}}, {TILES, {4, 12, 32}}, {DROP, {2, 3}}};
	int d = pixfeat_dims(PIXFEAT_PIX), n, m;
	double *axes, null_along, full;
	float *ref, *null;
	struct kd v;

	(void)state;
	if (!photos.n) {
		fprintf(stderr, "no test data (flowers-64): DDM_TEST_DATA\n");
		skip();
	}
	ref = features(&n, 0, BLUR, 0);
	null = features(&m, 2, BLUR, 0);
	axes = mem_alloc((size_t)d * AXES * sizeof *axes);
	reference_axes(axes, ref, n, d);
	assert_int_equal(kd_whole(&v, pool, ref, n, null, m, d, NULL), 0);
	assert_true(fabs(v.value) < 4 * v.se && v.se < .001);
	assert_int_equal(frechet_equal(&null_along, &full, pool, ref, n, null, m, d, axes, AXES, 300, 2, 1, NULL), 0);
	for (int k = 0; k < 5; k++) {
		double last_kd = 0, last_fd = null_along, along;

		for (int i = 0; i < 3 && damage[k].dose[i]; i++) {
			float *f = features(&m, 2, damage[k].kind, damage[k].dose[i]);

			assert_int_equal(kd_whole(&v, pool, ref, n, f, m, d, NULL), 0);
			assert_int_equal(frechet_equal(&along, &full, pool, ref, n, f, m, d, axes, AXES, m < 300 ? m : 300, 2, 1, NULL), 0);
			if (!(v.value > 3 * v.se && v.value > last_kd && along > last_fd))
				fail_msg("damage %d, dose %d: kd %g +- %g after %g, fd %g after %g", k, damage[k].dose[i], v.value, v.se, last_kd,
				         along, last_fd);
			last_kd = v.value, last_fd = along;
			mem_free(f);
		}
	}
	mem_free(ref);
	mem_free(null);
	mem_free(axes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(photographs)};

	return cmocka_run_group_tests(tests, photos_read, photos_free);
}
