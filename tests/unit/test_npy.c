/* file/npy: files of numpy are read, our files equal numpy's, damaged ones are refused. Goldens: tests/golden/containers.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/npy.h"

static char path[3000];

static char *golden(const char *name)
{
	return str_new("tests/golden/npy/%s", name);
}

/* Every array is (2, 3, 4), arange(24) - 7.5, times 2, plus 15 for unsigned types. */
static void every_type(void **state)
{
	static const char *const codes[] = {"f4", "f8", "f2", "i8", "i4", "i2", "i1", "u1", "u2", "u4", "u8"};

	(void)state;
	for (size_t c = 0; c < sizeof codes / sizeof *codes; c++) {
		char *name = str_new("%s.npy", codes[c]), *file = golden(name);
		int64_t shape[] = {2, 3, 4}, ints[24];
		struct err e = {0};
		struct npy a;
		double d[24];
		float f[24];
		size_t n, m;
		char *ours, *theirs;

		if (npy_load(&a, file, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(a.rank, 3);
		assert_int_equal(npy_count(&a), 24);
		assert_int_equal(a.shape[1], 3);
		npy_to_f64(d, &a);
		npy_to_f32(f, &a);
		assert_int_equal(npy_to_i64(ints, &a, file, &e), 0);
		for (int i = 0; i < 24; i++) {
			double want = 2 * (i - 7.5) + (codes[c][0] == 'u' ? 15 : 0);

			assert_true(d[i] == want && f[i] == (float)want && ints[i] == (int64_t)want);
		}
		assert_int_equal(npy_write(path, a.type, 3, shape, a.data, &e), 0);
		ours = file_load(path, 1 << 20, &n, &e);
		theirs = file_load(file, 1 << 20, &m, &e);
		assert_int_equal(n, m);
		assert_memory_equal(ours, theirs, n);
		mem_free(ours);
		mem_free(theirs);
		npy_release(&a);
		mem_free(file);
		mem_free(name);
	}
}

static void layouts_and_versions(void **state)
{
	static const char *const names[] = {"fortran.npy", "fortran3.npy", "version2.npy", "version3.npy"};

	(void)state;
	for (int c = 0; c < 4; c++) {
		char *file = golden(names[c]);
		struct err e = {0};
		struct npy a;
		double d[24];

		assert_int_equal(npy_load(&a, file, &e), 0);
		assert_int_equal(a.fortran, c < 2);
		npy_to_f64(d, &a);
		for (int i = 0; i < npy_count(&a); i++)
			assert_true(d[i] == i - 7.5);
		npy_release(&a);
		mem_free(file);
	}
}

static void big_endian(void **state)
{
	static const char *const names[] = {"bigendian.npy", "big-f8.npy", "big-f2.npy", "big-i8.npy", "big-i4.npy", "big-i2.npy"};
	struct err e = {0};
	struct npz *z = npz_load("tests/golden/npy/big.npz", &e);
	int64_t ints[24];

	(void)state;
	for (int c = 0; c < 6; c++) {
		char *file = golden(names[c]);
		struct npy a;
		double d[24];
		float f[24];

		assert_int_equal(npy_load(&a, file, &e), 0);
		assert_true(a.swapped);
		assert_int_equal(npy_not_finite(&a), 0);
		npy_to_f64(d, &a);
		npy_to_f32(f, &a);
		assert_int_equal(npy_to_i64(ints, &a, file, &e), c ? 0 : -1);
		for (int i = 0; i < 24; i++)
			assert_true(d[i] == (c ? 2 : 1) * (i - 7.5) && f[i] == (float)d[i] && (!c || ints[i] == 2 * i - 15));
		npy_release(&a);
		mem_free(file);
		e.code = 0;
	}
	assert_int_equal(npy_to_i64(ints, npz_find(z, "y"), "y", &e), 0);
	assert_true(ints[0] == 0 && ints[23] == 46);
	npz_free(z);
}

static void odd_shapes(void **state)
{
	static const struct {
		const char *name;
		int64_t count;
		double first;
	} v[] = {{"scalar.npy", 1, 2.5}, {"empty.npy", 0, 0}, {"bool.npy", 12, 0}};

	(void)state;
	for (size_t c = 0; c < sizeof v / sizeof *v; c++) {
		char *file = golden(v[c].name);
		struct err e = {0};
		struct npy a;
		double d[12] = {0};
		int64_t k[12];

		assert_int_equal(npy_load(&a, file, &e), 0);
		assert_int_equal(npy_count(&a), v[c].count);
		npy_to_f64(d, &a);
		assert_true(d[0] == v[c].first);
		assert_int_equal(npy_to_i64(k, &a, "x", &e), c ? 0 : -1);
		npy_release(&a);
		mem_free(file);
	}
}

static void refused(void **state)
{
	static const struct {
		const char *name, *why;
	} v[] = {{"complex.npy", "'<c8'"},
	         {"object.npy", "Python objects"},
	         {"struct.npy", "structured"},
	         {"text.npy", "'<U2'"},
	         {"stored.npz", "not an npy"}};

	(void)state;
	for (size_t c = 0; c < sizeof v / sizeof *v; c++) {
		char *file = golden(v[c].name);
		struct err e = {0};
		struct npy a;

		assert_int_equal(npy_load(&a, file, &e), -1);
		assert_int_equal(e.code, ERR_DATA);
		if (!strstr(e.msg, v[c].why) || !strstr(e.msg, v[c].name))
			fail_msg("%s", e.msg);
		mem_free(file);
	}
}

static void refused_headers(void **state)
{
	static const char *const heads[] = {
	    "",
	    "{}",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1), }",
	    "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}",
	    "{'descr': '<f4', 'descr': '<f4', 'shape': (1,), }",
	    "{'descr': '<f4', 'fortran_order': False}",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807), }",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }",
	    "{'descr': '<f4', 'fortran_order': False, 'shape': 1, }",
	    "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,), }",
	};
	static const char good[] = "{\"shape\":(1L,),'fortran_order':False,'descr':'<f4'}";

	(void)state;
	for (size_t i = 0; i <= sizeof heads / sizeof *heads; i++) {
		const char *h = i < sizeof heads / sizeof *heads ? heads[i] : good;
		struct err e = {0};
		struct str s = {0};
		struct npy a;

		str_add(&s, "\x93NUMPY\x01\x00", 8);
		str_add(&s, (char[]){(char)strlen(h), 0}, 2);
		str_puts(&s, h);
		str_add(&s, "\0\0\0\0", 4);
		if (npy_parse(&a, s.p, s.len, "test", &e) != (h == good ? 0 : -1))
			fail_msg("%s: %s", h, e.msg);
		assert_int_equal(e.code, h == good ? 0 : ERR_DATA);
		str_release(&s);
	}
}

static void truncations_and_flips(void **state)
{
	struct err e = {0};
	char *file = golden("i2.npy"), *p;
	struct npy a;
	size_t n;

	(void)state;
	p = file_load(file, 1 << 20, &n, &e);
	for (size_t k = 0; k < n; k++) {
		char *exact = memcpy(mem_alloc(k), p, k);

		e.code = 0;
		assert_int_equal(npy_parse(&a, exact, k, "cut", &e), -1);
		assert_int_equal(e.code, ERR_DATA);
		mem_free(exact);
	}
	for (size_t bit = 0; bit < n * 8; bit++) {
		float *out;

		p[bit / 8] ^= (char)(1 << bit % 8);
		if (!npy_parse(&a, p, n, "flip", NULL)) {
			assert_in_range(npy_count(&a), 0, 48);
			out = mem_alloc(48 * sizeof *out);
			npy_to_f32(out, &a);
			mem_free(out);
		}
		p[bit / 8] ^= (char)(1 << bit % 8);
	}
	mem_free(p);
	mem_free(file);
}

static void zips(void **state)
{
	static const char *const names[] = {"stored.npz", "deflated.npz", "streamed.npz"};

	(void)state;
	for (int c = 0; c < 3; c++) {
		char *file = golden(names[c]);
		struct err e = {0};
		struct npz *z = npz_load(file, &e);
		const struct npy *a;
		double d[4096];
		int64_t n;

		if (!z)
			fail_msg("%s", e.msg);
		assert_int_equal(npz_entries(z), c < 2 ? 3 : 1);
		if (c == 2) {
			a = npz_find(z, "x");
			npy_to_f64(d, a);
			assert_true(d[23] == 15.5);
		} else {
			a = npz_find(z, "mu");
			assert_int_equal(a->rank, 1);
			npy_to_f64(d, a);
			assert_true(d[3] == -4.5);
			a = npz_find(z, "n");
			assert_int_equal(npy_to_i64(&n, a, "n", &e), 0);
			assert_int_equal(n, 7);
			npy_to_f64(d, npz_find(z, "sigma"));
			assert_true(d[0] == (c ? 0 : -7.5));
			assert_string_equal(npz_name(z, 1), "sigma");
		}
		assert_null(npz_find(z, "none"));
		npz_free(z);
		mem_free(file);
	}
}

/* A file in memory: thousands are written. Caller closes. */
static int put(const void *p, size_t n, char name[64])
{
	int fd = memfd_create("test", 0);

	assert_true(fd >= 0);
	assert_int_equal(fd_write(fd, p, n), 0);
	snprintf(name, 64, "/proc/self/fd/%d", fd);
	return fd;
}

/* Truncation is always found, and so is a flipped bit that matters: accepted files hold the same arrays. */
static void damaged_zips(void **state)
{
	static const char *const names[] = {"stored.npz", "deflated.npz", "streamed.npz"};

	(void)state;
	for (int c = 0; c < 3; c++) {
		char *file = golden(names[c]), *p, name[64];
		struct err e = {0};
		struct npz *z;
		size_t n;

		p = file_load(file, 1 << 20, &n, &e);
		for (size_t k = 0; k < n; k++) {
			int fd = put(p, k, name);

			e.code = 0;
			assert_null(npz_load(name, &e));
			assert_int_equal(e.code, ERR_DATA);
			close(fd);
		}
		for (size_t bit = 0; bit < n * 8; bit += 3) {
			const struct npy *a;
			double d[4096];
			int fd;

			p[bit / 8] ^= (char)(1 << bit % 8);
			fd = put(p, n, name);
			z = npz_load(name, NULL);
			close(fd);
			if (z && (a = npz_find(z, "mu"))) {
				npy_to_f64(d, a);
				assert_true(d[3] == -4.5);
			}
			npz_free(z);
			p[bit / 8] ^= (char)(1 << bit % 8);
		}
		mem_free(p);
		mem_free(file);
	}
}

static void own_zip(void **state)
{
	static const float f[6] = {1, 2, 3, 4, 5, 6};
	static const int64_t n = 9;
	const struct npz_entry x[] = {{"mu", NPY_F4, 2, {2, 3}, f}, {"n", NPY_I8, 0, {0}, &n}, {"none", NPY_F8, 1, {0}, NULL}};
	struct err e = {0};
	struct npz *z;
	size_t len, again;
	char *a, *b, *cmd, out[64] = "";
	FILE *p;

	(void)state;
	assert_int_equal(npz_write(path, x, 3, &e), 0);
	a = file_load(path, 1 << 20, &len, &e);
	z = npz_load(path, &e);
	if (!z)
		fail_msg("%s", e.msg);
	assert_int_equal(npz_entries(z), 3);
	assert_memory_equal(npz_find(z, "mu")->data, f, sizeof f);
	assert_int_equal(npy_count(npz_find(z, "none")), 0);
	npz_free(z);
	assert_int_equal(npz_write(path, x, 3, &e), 0);
	b = file_load(path, 1 << 20, &again, &e);
	assert_int_equal(len, again);
	assert_memory_equal(a, b, len);
	mem_free(a);
	mem_free(b);
	cmd = str_new("python3 -m zipfile -t %s 2>&1 || true", path);
	p = popen(cmd, "r");
	assert_non_null(p);
	if (!fgets(out, sizeof out, p) || strncmp(out, "Done testing", 12)) {
		if (strstr(out, "not found"))
			print_message("skip: no python3 to read our npz\n");
		else
			fail_msg("python3 -m zipfile: %s", out);
	}
	pclose(p);
	mem_free(cmd);
	e.code = 0;
	assert_int_equal(npz_write("/dev/full", x, 3, &e), -1);
	assert_int_equal(e.code, ERR_IO);
}

/* Writing piece by piece gives the bytes of npz_write. */
static void in_pieces(void **state)
{
	static uint8_t pixels[7 * 30];
	struct npz_entry x = {"arr_0", NPY_U1, 2, {7, 30}, pixels};
	struct npz_stream s;
	struct outfile o = {0};
	struct err e = {0};
	size_t len, again;
	uint8_t *a, *b;

	(void)state;
	for (size_t i = 0; i < sizeof pixels; i++)
		pixels[i] = (uint8_t)(i * i >> 3);
	assert_int_equal(npz_write(path, &x, 1, &e), 0);
	a = file_load(path, 1 << 20, &len, &e);
	unlink(path);
	assert_int_equal(outfile_open(&o, path, &e), 0);
	assert_int_equal(npz_start(&s, &o, "arr_0", NPY_U1, 2, x.shape, &e), 0);
	for (size_t i = 0; i < sizeof pixels; i += 70)
		assert_int_equal(npz_add(&s, pixels + i, 70, &e), 0);
	assert_int_equal(npz_finish(&s, &e), 0);
	assert_int_equal(outfile_commit(&o, &e), 0);
	b = file_load(path, 1 << 20, &again, &e);
	assert_int_equal(len, again);
	assert_memory_equal(a, b, len);
	mem_free(a);
	mem_free(b);
	assert_int_equal(outfile_open(&o, "/dev/null", &e), 0);
	assert_int_equal(npz_start(&s, &o, "arr_0", NPY_U1, 2, x.shape, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	outfile_abort(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_type),
	    cmocka_unit_test(layouts_and_versions),
	    cmocka_unit_test(odd_shapes),
	    cmocka_unit_test(big_endian),
	    cmocka_unit_test(refused),
	    cmocka_unit_test(refused_headers),
	    cmocka_unit_test(truncations_and_flips),
	    cmocka_unit_test(zips),
	    cmocka_unit_test(damaged_zips),
	    cmocka_unit_test(own_zip),
	    cmocka_unit_test(in_pieces),
	};
	int fd, rc;

	snprintf(path, sizeof path, "%s/ddm-npy-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	fd = mkstemp(path);
	if (fd < 0)
		return 1;
	close(fd);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return rc;
}
