/* file/safetensors: every rule of the format, also for hostile files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/shortfloat.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/safetensors.h"

static char path[3000];
static const char golden[] = "tests/golden/small.safetensors";

static const uint16_t halves[] = {0x3800, 0xc000, 0};
static const float floats[] = {1, 2, 3, 4};
static const uint8_t seven = 7;
static const struct st_tensor small[] = {{"z", ST_U8, 0, {0}, &seven}, {"a", ST_F16, 1, {3}, halves}, {"b", ST_F32, 2, {2, 2}, floats}};
static const struct st_text texts[] = {{"k\"", "\\"}, {"format", "pt"}};

/* The file without its seal, as if it had never had one. Caller frees. */
static char *unsealed(const char *file, size_t n, size_t *len)
{
	static const char member[] = ",\"seal\":\"ddm-seal:";
	size_t header = (uint8_t)file[0] | (size_t)(uint8_t)file[1] << 8, cut = sizeof member - 1 + 16 + strlen(":ddm-seal\"");
	const char *at = memmem(file, 8 + header, member, sizeof member - 1), *data = file + 8 + header;
	struct str s = {0};

	assert_non_null(at);
	str_add(&s, file, (size_t)(at - file));
	str_add(&s, at + cut, (size_t)(data - at) - cut);
	while (s.p[s.len - 1] == ' ')
		s.len--;
	while (s.len % 8)
		str_puts(&s, " ");
	s.p[0] = (char)((s.len - 8) & 255);
	s.p[1] = (char)((s.len - 8) >> 8);
	str_add(&s, data, n - 8 - header);
	*len = s.len;
	return s.p;
}

static void equals_golden(void **state)
{
	struct err e = {0};
	size_t n, m;
	char *want = file_load(golden, 1 << 20, &n, &e), *got, *bare;

	(void)state;
	assert_non_null(want);
	assert_int_equal(st_write(path, small, 3, texts, 2, &e), 0);
	got = file_load(path, 1 << 20, &m, &e);
	bare = unsealed(got, m, &m);
	assert_int_equal(n, m);
	assert_memory_equal(want, bare, n);
	mem_free(want);
	mem_free(got);
	mem_free(bare);
}

/* Flip every bit of a small file: it cannot be read, or its seal does not match. */
static void seal_tells(void **state)
{
	struct err e = {0};
	size_t n;
	char *p;

	(void)state;
	assert_int_equal(st_write(path, small, 3, texts, 2, &e), 0);
	p = file_load(path, 1 << 20, &n, &e);
	assert_int_equal(st_check_seal(p, n, "whole", &e), 0);
	for (size_t bit = 0; bit < 8 * n; bit++) {
		struct safetensors *s;

		p[bit / 8] ^= (char)(1 << bit % 8);
		s = st_open_memory(p, n, "altered", NULL);
		assert_true(!s || st_check_seal(p, n, "altered", &e) < 0);
		st_free(s);
		p[bit / 8] ^= (char)(1 << bit % 8);
	}
	assert_int_equal(e.code, ERR_DATA);
	mem_free(p);
	p = file_load(golden, 1 << 20, &n, &e);
	assert_int_equal(st_check_seal(p, n, "unsealed", &e), 0);
	mem_free(p);
}

static void round_trip(void **state)
{
	struct err e = {0};
	struct safetensors *s;
	const struct st_tensor *t;
	float out[4];

	(void)state;
	assert_int_equal(st_write(path, small, 3, texts, 2, &e), 0);
	s = st_open(path, &e);
	assert_non_null(s);
	assert_int_equal(st_tensors(s), 3);
	assert_string_equal(st_get(s, 0)->name, "b");
	assert_string_equal(st_get(s, 2)->name, "z");
	t = st_find(s, "a");
	assert_non_null(t);
	assert_int_equal(st_count(t), 3);
	st_to_f32(out, t);
	assert_true(out[0] == .5f && out[1] == -2 && out[2] == 0);
	assert_null(st_find(s, "c"));
	assert_string_equal(st_meta(s, "k\""), "\\");
	assert_null(st_meta(s, "x"));
	assert_int_equal(st_texts(s), 3);
	assert_non_null(st_meta(s, "seal"));
	assert_non_null(st_need(s, "b", 2, (int64_t[]){2, 2}, &e));
	assert_null(st_need(s, "b", 2, (int64_t[]){2, 3}, &e));
	assert_non_null(strstr(e.msg, "shape (2, 2) where (2, 3) is needed"));
	e.code = 0;
	assert_null(st_need(s, "z", -1, NULL, &e));
	e.code = 0;
	assert_null(st_need(s, "none", -1, NULL, &e));
	st_free(s);
	e.code = 0;
	assert_int_equal(st_write(path, (struct st_tensor[]){small[0], small[0]}, 2, NULL, 0, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	e.code = 0;
	assert_int_equal(st_write(path, NULL, 0, NULL, 0, &e), 0);
	s = st_open(path, &e);
	assert_non_null(s);
	assert_int_equal(st_tensors(s), 0);
	st_free(s);
	assert_int_equal(st_write("/dev/full", small, 3, NULL, 0, &e), -1);
	assert_int_equal(e.code, ERR_IO);
}

static struct safetensors *open_text(const char *header, size_t data, struct err *e, char **owner)
{
	size_t n = strlen(header);
	char *p = mem_zalloc(8 + n + data, 1);

	p[0] = (char)(n & 255);
	p[1] = (char)(n >> 8);
	memcpy(p + 8, header, n);
	*owner = p;
	return st_open_memory(p, 8 + n + data, "test", e);
}

static void refused_headers(void **state)
{
	static const struct {
		const char *header;
		size_t data;
	} bad[] = {
	    {"", 0},
	    {"[]", 0},
	    {"{", 0},
	    {"{}x", 0},
	    {"{\"a\":{}}", 0},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},}", 1},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,2]}}", 2},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 0},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 2},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 1},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[01],\"data_offsets\":[0,1]}}", 1},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}", 1},
	    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1},
	    {"{\"a\":{\"dtype\":\"F8_E8M0\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1},
	    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1},
	    {"{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1},
	    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551616],\"data_offsets\":[0,0]}}", 0},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
	     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
	     2},
	    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
	     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
	     3},
	    {"{\"__metadata__\":{\"a\":1}}", 0},
	    {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0},
	    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0},
	    {"{\"a\\u0000\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0},
	    {"{\"a\\ud800\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0},
	    {"{\"a\xc0\xaf\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0},
	    {"{\"a\n\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0},
	};
	char *owner;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct err e = {0};

		if (open_text(bad[i].header, bad[i].data, &e, &owner))
			fail_msg("accepted: %s", bad[i].header);
		assert_int_equal(e.code, ERR_DATA);
		mem_free(owner);
	}
}

static void accepted_headers(void **state)
{
	struct err e = {0};
	struct safetensors *s;
	char *owner;

	(void)state;
	s = open_text(" { \"\\u00e9\\ud83d\\ude00\" : { \"shape\" : [ 1 , 3 ] , \"data_offsets\" : [ 0 , 6 ] , \"dtype\" : \"I16\" } , "
	              "\"e\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[6,6]}, \"__metadata__\":{\"a\":\"\\n\"} }  \n",
	              6, &e, &owner);
	if (!s)
		fail_msg("%s", e.msg);
	assert_non_null(st_find(s, "\xc3\xa9\xf0\x9f\x98\x80"));
	assert_int_equal(st_count(st_find(s, "e")), 0);
	assert_string_equal(st_meta(s, "a"), "\n");
	st_free(s);
	mem_free(owner);
}

/* With any bit flipped, nothing outside the file is read (a sanitizer checks this), and accepted files are consistent. */
static void truncations_and_flips(void **state)
{
	struct err e = {0};
	size_t n;
	char *p = file_load(golden, 1 << 20, &n, &e);
	struct safetensors *s;

	(void)state;
	for (size_t k = 0; k < n; k++) {
		e.code = 0;
		assert_null(st_open_memory(p, k, "cut", &e));
		assert_int_equal(e.code, ERR_DATA);
	}
	for (size_t bit = 0; bit < n * 8; bit++) {
		uint64_t bytes = 0;

		p[bit / 8] ^= (char)(1 << bit % 8);
		s = st_open_memory(p, n, "flip", NULL);
		for (int i = 0; s && i < st_tensors(s); i++) {
			float out[16];

			assert_in_range(st_count(st_get(s, i)), 0, 16);
			st_to_f32(out, st_get(s, i));
			bytes += (uint64_t)st_count(st_get(s, i)) * st_type_size(st_get(s, i)->type);
		}
		if (s)
			assert_int_equal(bytes, 23);
		st_free(s);
		p[bit / 8] ^= (char)(1 << bit % 8);
	}
	mem_free(p);
}

static void digest(const void *p, size_t n, const char *want)
{
	struct sha256 s;
	char hex[65];

	sha256_init(&s);
	sha256_add(&s, p, n);
	sha256_end(&s, hex);
	assert_string_equal(hex, want);
}

/* Digests of the same conversions by numpy: tests/golden/containers.py. */
static void conversions(void **state)
{
	enum { STEP = 4099, N = (int)((1ull << 32) / STEP + 1) };
	float *f = mem_alloc(65536 * sizeof *f);
	uint16_t *h = mem_alloc((size_t)N * 2), *b = mem_alloc((size_t)N * 2);
	size_t n = 0, m = 0;

	(void)state;
	for (uint32_t i = 0; i < 65536; i++)
		if (!isnan(f[n] = f16_to_f32((uint16_t)i)))
			n++;
	digest(f, n * 4, "680bbc22915f61aa1bbfc7265bc3882a6aa42d299bfd2c571807196e5544de2e");
	for (uint64_t i = 0; i < 1ull << 32; i += STEP) {
		uint32_t u = (uint32_t)i;
		float x;

		memcpy(&x, &u, 4);
		h[m] = f32_to_f16(x);
		b[m] = f32_to_bf16(x);
		if (isnan(x)) {
			assert_true(isnan(f16_to_f32(h[m])) && isnan(bf16_to_f32(b[m])));
			continue;
		}
		m++;
	}
	digest(h, m * 2, "07051e9de85ca8ffe434662a5e75951bae9f21b49d2ecb7cef55ce246bb2aad2");
	digest(b, m * 2, "2b291cd7f2d2fea4f364b90d10a670d4cc8da184b9f7ef1928a72a8e23699a47");
	mem_free(f);
	mem_free(h);
	mem_free(b);
}

static void all_types(void **state)
{
	const struct {
		enum st_type type;
		uint64_t one; /* the number 1, or for signed types -1 */
		float want;
	} v[] = {{ST_F64, 0xbff0000000000000, -1},
	         {ST_I64, ~0ull, -1},
	         {ST_U64, 1, 1},
	         {ST_F32, 0xbf800000, -1},
	         {ST_I32, ~0u, -1},
	         {ST_U32, 1, 1},
	         {ST_F16, 0xbc00, -1},
	         {ST_BF16, 0xbf80, -1},
	         {ST_I16, 0xffff, -1},
	         {ST_U16, 0xffff, 65535},
	         {ST_I8, 0xff, -1},
	         {ST_U8, 0xff, 255},
	         {ST_BOOL, 1, 1}};

	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		struct st_tensor t = {"x", v[i].type, 1, {2}, NULL};
		char buf[17] = {0};
		float out[2];

		memcpy(buf + 1, &v[i].one, st_type_size(v[i].type));
		t.data = buf + 1;
		st_to_f32(out, &t);
		assert_true(out[0] == v[i].want && out[1] == 0);
	}
}

static void awkward(void **state)
{
	const char *data = getenv("DDM_TEST_DATA");
	char *folder = path_join(data ? data : "../shared/data", "awkward-archives/safetensors"), **names;
	struct err e = {0};
	size_t n;

	(void)state;
	if (dir_list(folder, &names, &n, &e)) {
		print_message("skip: no %s\n", folder);
		mem_free(folder);
		skip();
	}
	for (size_t i = 0; i < n; i++) {
		char *file = path_join(folder, names[i]);
		struct safetensors *s;

		e.code = 0;
		s = st_open(file, &e);
		if (!s != !strncmp(names[i], "bad_", 4))
			fail_msg("%s: %s", names[i], s ? "accepted" : e.msg);
		if (!s)
			assert_int_equal(e.code, ERR_DATA);
		st_free(s);
		mem_free(file);
	}
	names_free(names, n);
	mem_free(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equals_golden),   cmocka_unit_test(seal_tells),       cmocka_unit_test(round_trip),
	    cmocka_unit_test(refused_headers), cmocka_unit_test(accepted_headers), cmocka_unit_test(truncations_and_flips),
	    cmocka_unit_test(conversions),     cmocka_unit_test(all_types),        cmocka_unit_test(awkward),
	};
	int fd, rc;

	snprintf(path, sizeof path, "%s/ddm-st-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	fd = mkstemp(path);
	if (fd < 0)
		return 1;
	close(fd);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return rc;
}
