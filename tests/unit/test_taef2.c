/* net: the real tiny autoencoder of FLUX.2 on photographs, against the output of tests/golden/taef2.py. Needs test data. */
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
#include "core/str.h"
#include "file/fileio.h"
#include "file/still.h"
#include "net/autoencoder.h"

enum { TOP = 64, LEFT = 96, H = 256, W = 288, AREA = H * W, LATENT = 32 * (H / 8) * (W / 8) };

/* PSNR in dB, and root mean square of the latent. */
static const struct {
	const char *photo;
	double psnr, rms;
} want[] = {
    {"photos/coco/000000000285.jpg", 24.384836, 0.853085},
    {"photos/coco/000000000785.jpg", 30.539547, 0.845068},
};

static char *data(const char *what)
{
	const char *places[] = {getenv("DDM_TEST_DATA"), "shared/data", "../shared/data"};

	for (int i = 0; i < 3; i++) {
		char *path = places[i] ? path_join(places[i], what) : NULL;

		if (path && path_exists(path))
			return path;
		mem_free(path);
	}
	return NULL;
}

/* A crop as (3, H, W) in [-1, 1]. */
static void photo(const char *name, float *out)
{
	struct err e = {0};
	char *path = data(name);
	struct picture p;
	size_t len;
	void *bytes = file_load(path, 1 << 24, &len, &e);

	if (!bytes || still_decode(&p, bytes, len, path, 3, NULL, &e))
		fail_msg("%s", e.msg);
	for (int c = 0; c < 3; c++)
		for (int i = 0; i < AREA; i++)
			out[c * AREA + i] = (float)p.pixels[((TOP + i / W) * p.width + LEFT + i % W) * 3 + c] / 127.5f - 1;
	picture_release(&p);
	mem_free(bytes);
	mem_free(path);
}

static void photographs(void **state)
{
	struct err e = {0};
	struct pool *pool = pool_new(2, NULL);
	struct device *d = device_cpu(pool, DT_F32);
	char *dir = data("weights/taesd");
	struct autoencoder *a;
	float *x = mem_alloc(3 * AREA * sizeof *x), *y = mem_alloc(3 * AREA * sizeof *y), *z = mem_alloc(LATENT * sizeof *z);

	(void)state;
	if (!dir)
		skip();
	if (!(a = autoencoder_open(dir, AUTOENCODER_ENCODE | AUTOENCODER_DECODE, 1, COMPACT_NONE, d, &e)))
		fail_msg("%s", e.msg);
	for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
		double error = 0, square = 0, psnr;

		photo(want[k].photo, x);
		assert_int_equal(autoencoder_encode(a, 1, x, H, W, 0, z, &e), 0);
		assert_int_equal(autoencoder_decode(a, 1, z, H / 8, W / 8, 0, y, &e), 0);
		for (int i = 0; i < 3 * AREA; i++)
			error += pow(((double)y[i] - (double)x[i]) / 2, 2) / (3 * AREA);
		for (int i = 0; i < LATENT; i++)
			square += pow((double)z[i], 2) / LATENT;
		psnr = -10 * log10(error);
		print_message("%s: %.6f dB, latent %.6f\n", want[k].photo, psnr, sqrt(square));
		if (!(fabs(psnr - want[k].psnr) < 1e-4 && fabs(sqrt(square) - want[k].rms) < 1e-5))
			fail_msg("%s: %.6f dB and %.6f, not %.6f and %.6f", want[k].photo, psnr, sqrt(square), want[k].psnr, want[k].rms);
	}
	autoencoder_free(a);
	device_free(d);
	pool_free(pool);
	mem_free(x);
	mem_free(y);
	mem_free(z);
	mem_free(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(photographs)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
