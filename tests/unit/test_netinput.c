/* metric: the preparation of pictures for the networks of published metrics, against the tensors of their packages (tests/golden/netinput.tsv, made
 * by netinput.py). The photographs need test data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/still.h"
#include "metric/netinput.h"

/* Of tests/golden/resize.py */
static uint32_t mix(uint32_t x, uint32_t y, uint32_t c)
{
	uint32_t v = x * 0x9e3779b1u + y * 0x85ebca77u + c * 0xc2b2ae3du;

	v = (v ^ v >> 15) * 0x2c1b3c6du;
	v = (v ^ v >> 12) * 0x297a2d39u;
	return v ^ v >> 15;
}

static void picture_make(struct picture *p, int w, int h)
{
	uint8_t *at;

	assert_int_equal(picture_alloc(p, w, h, 3, NULL), 0);
	at = p->pixels;
	for (int y = 0; y < h; y++)
		for (int x = 0; x < w; x++)
			for (int k = 0; k < 3; k++) {
				uint8_t v = (uint8_t)(mix((uint32_t)x, (uint32_t)y, (uint32_t)k) >> 24);

				*at++ = y % 3 ? v : v > 127 ? 255 : 0;
			}
}

static int picture_read(struct picture *p, const char *name)
{
	const char *places[] = {getenv("DDM_TEST_DATA"), "shared/data", "../shared/data"};
	struct err e = {0};

	for (int i = 0; i < 3; i++) {
		char *path = places[i] ? path_join(places[i], name) : NULL;
		size_t len;
		void *bytes = path && path_exists(path) ? file_load(path, 1 << 26, &len, &e) : NULL;
		int found = bytes != NULL;

		if (bytes && still_decode(p, bytes, len, path, 3, NULL, &e))
			fail_msg("%s", e.msg);
		mem_free(bytes);
		mem_free(path);
		if (found)
			return 1;
	}
	return 0;
}

struct row {
	char name[64], kind[16], how[16], hash[32];
	double sum, value[5];
};

static int kind_of(const char *name)
{
	for (int k = 0; netinput_names[k]; k++)
		if (!strcmp(name, netinput_names[k]))
			return k;
	fail_msg("no convention \"%s\"", name);
	return -1;
}

static void row_check(const struct row *r, const struct picture *p)
{
	int kind = kind_of(r->kind), n = 3 * netinput_side((enum netinput)kind) * netinput_side((enum netinput)kind);
	float *x = mem_alloc((size_t)n * sizeof *x);
	struct sha256 h;
	double sum = 0;
	char hex[65];

	assert_int_equal(netinput_make(x, p, (enum netinput)kind, NULL), 0);
	sha256_init(&h);
	sha256_add(&h, x, (size_t)n * sizeof *x);
	sha256_end(&h, hex);
	hex[16] = 0;
	if (!strcmp(r->how, "bits") && strcmp(hex, r->hash))
		fail_msg("%s as %s: %s, not %s", r->name, r->kind, hex, r->hash);
	for (int i = 0; i < n; i++)
		sum += x[i];
	if (!(fabs(sum - r->sum) <= 1e-7 * n))
		fail_msg("%s as %s: sum %.9g, not %.9g", r->name, r->kind, sum, r->sum);
	for (int i = 0; i < 5; i++) {
		float v = x[(i + 1) * 7919LL * 13 % n];

		if (!(fabs(v - r->value[i]) <= 2e-6))
			fail_msg("%s as %s: value %d is %.9g, not %.9g", r->name, r->kind, i, v, r->value[i]);
	}
	mem_free(x);
}

/* The synthetic pictures, or the photographs. */
static int rows_check(int photos)
{
	FILE *f = fopen("tests/golden/netinput.tsv", "r");
	char line[1024], held[64] = "";
	struct picture p = {0};
	struct row r;
	int n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof line, f)) {
		int w, h;

		assert_int_equal(sscanf(line, "%63s %15s %15s %31s %lf %lf %lf %lf %lf %lf", r.name, r.kind, r.how, r.hash, &r.sum, r.value,
		                        r.value + 1, r.value + 2, r.value + 3, r.value + 4),
		                 10);
		if (photos != !strncmp(r.name, "photos/", 7))
			continue;
		if (strcmp(held, r.name)) {
			picture_release(&p);
			memcpy(held, r.name, sizeof held);
			if (photos && !picture_read(&p, r.name))
				break;
			if (!photos) {
				assert_int_equal(sscanf(r.name, "%dx%d", &w, &h), 2);
				picture_make(&p, w, h);
			}
		}
		row_check(&r, &p);
		n++;
	}
	picture_release(&p);
	fclose(f);
	return n;
}

static void synthetic(void **state)
{
	(void)state;
	assert_true(rows_check(0) >= 7 * 8);
}

static void photographs(void **state)
{
	(void)state;
	if (!rows_check(1))
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(synthetic), cmocka_unit_test(photographs)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
