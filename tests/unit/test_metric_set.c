/* metric: sets of features in files, which sets may be compared, and the contents of a report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/npy.h"
#include "file/shard.h"
#include "file/still.h"
#include "metric/evalread.h"
#include "metric/evalreport.h"
#include "metric/evalstats.h"
#include "metric/frechet.h"

enum { N = 40, D = 7 };

static char *dir;
static struct evalset_options none;

static char *in_dir(const char *name)
{
	return path_join(dir, name);
}

static float *normals(uint64_t stream)
{
	float *x = mem_alloc(N * D * sizeof *x);

	rng_normal(x, N * D, 3, RNG_TEST, 1, stream);
	return x;
}

/* A set of vectors, written to a file and read again */
static struct evalset vectors(const char *name, const float *x)
{
	char *path = in_dir(name);
	struct evalset s = {.n = 0};
	struct err e = {0};

	if (npy_write(path, NPY_F4, 2, (int64_t[]){N, D}, x, &e) || evalset_read(&s, path, &none, &e))
		fail_msg("%s", e.msg);
	mem_free(path);
	return s;
}

static double report(const struct evalreport *r, const char *key, int *has)
{
	struct stamp *st = stamp_new("test");
	struct err e = {0};
	const json_t *v;
	double out = NAN;

	if (evalreport_fill(st, r, &e))
		fail_msg("%s", e.msg);
	v = json_object_get(stamp_root(st), key);
	*has = v != NULL;
	if (v)
		out = json_number_value(v);
	stamp_free(st);
	return out;
}

static int row_order(const void *a, const void *b)
{
	return memcmp(a, b, D * sizeof(float));
}

static void vectors_from_files(void **state)
{
	float *x = normals(1), *y = normals(2), *turned = mem_alloc(N * D * sizeof *turned);
	struct evalset a = vectors("x.npy", x), b = vectors("y.npy", y), c;
	struct evalreport r = {.reference = &a, .samples = &b, .axes = 32, .draws = 2};
	int has;
	double v;

	(void)state;
	assert_int_equal(a.n, N);
	assert_string_equal(a.recipe.features, "npy");
	assert_int_equal(evalset_agree(&a, "a", &b, "b", NULL), 0);
	v = report(&r, "kd-npy", &has);
	assert_true(has && isfinite(v));
	report(&r, "fd-npy-floor", &has);
	assert_true(has);
	report(&r, "memorised", &has);
	assert_false(has);
	for (int i = 0; i < N; i++)
		memcpy(turned + i * D, x + (N - 1 - i) * D, D * sizeof *x);
	c = vectors("z.npy", turned);
	assert_string_equal(a.hash, c.hash);
	assert_memory_equal(a.features, c.features, N * D * sizeof *x);
	assert_string_not_equal(a.hash, b.hash);
	qsort(a.features, N, D * sizeof *x, row_order);
	qsort(x, N, D * sizeof *x, row_order);
	assert_memory_equal(a.features, x, N * D * sizeof *x);
	evalset_release(&a);
	evalset_release(&b);
	evalset_release(&c);
	mem_free(x);
	mem_free(y);
	mem_free(turned);
}

/* Written and read, with features and without. */
static void statistics_round_trip(void **state)
{
	float *x = normals(1), *y = normals(2);
	struct evalset a = vectors("x.npy", x), b = vectors("y.npy", y), c, g;
	char *path = in_dir("a.npz"), *bare = in_dir("bare.npz");
	struct evalreport r = {.reference = &g, .samples = &b, .axes = D, .draws = 1};
	double full, want;
	int has;

	(void)state;
	assert_int_equal(evalset_statistics(&a, NULL, NULL), 0);
	assert_int_equal(evalset_write(&a, path, NULL), 0);
	assert_int_equal(evalset_read(&c, path, &none, NULL), 0);
	assert_int_equal(c.n, N);
	assert_string_equal(c.hash, a.hash);
	assert_int_equal(evalset_agree(&a, "a", &c, "c", NULL), 0);
	assert_memory_equal(c.mu, a.mu, D * sizeof *a.mu);
	assert_memory_equal(c.sigma, a.sigma, D * D * sizeof *a.sigma);
	assert_memory_equal(c.features, a.features, N * D * sizeof *x);
	/* only mu and sigma, as other programs write them */
	assert_int_equal(npz_write(bare,
	                           (struct npz_entry[]){{.name = "mu", .type = NPY_F8, .rank = 1, .shape = {D}, .data = a.mu},
	                                                {.name = "sigma", .type = NPY_F8, .rank = 2, .shape = {D, D}, .data = a.sigma}},
	                           2, NULL),
	                 0);
	assert_int_equal(evalset_read(&g, bare, &none, NULL), 0);
	assert_null(g.features);
	assert_int_equal(evalset_agree(&g, "g", &b, "b", NULL), 0);
	full = report(&r, "fd-npy-full", &has);
	assert_true(has);
	assert_int_equal(frechet_distance(&want, NULL, a.mu, a.sigma, b.mu, b.sigma, D, NULL), 0);
	assert_true(fabs(full - want) < 1e-12 && want > 0);
	assert_true(fabs(report(&r, "fd-npy", &has) - want) < 1e-9); /* along all axes */
	report(&r, "kd-npy", &has);
	assert_false(has);
	evalset_release(&a);
	evalset_release(&b);
	evalset_release(&c);
	evalset_release(&g);
	mem_free(x);
	mem_free(y);
	mem_free(path);
	mem_free(bare);
}

static void unlike_sets(void **state)
{
	struct evalset a = {.recipe = {.features = "pix", .features_hash = "1", .dims = 203, .width = 64, .height = 64, .resize = "none"}};
	struct evalset b;

	(void)state;
	for (int k = 0; k < 7; k++) {
		struct err e = {0};

		b = a;
		if (k == 1)
			b.recipe.features[0] = 'x';
		if (k == 2)
			b.recipe.features_hash[0] = '2';
		if (k == 3)
			b.recipe.dims = 204;
		if (k == 4)
			b.recipe.width = 32;
		if (k == 5)
			b.recipe.height = 32;
		if (k == 6)
			b.recipe.resize[0] = 'b';
		assert_int_equal(evalset_agree(&a, "a", &b, "b", &e), k ? -1 : 0);
		assert_int_equal(e.code, k ? ERR_DATA : 0);
	}
}

static void refused(const char *path)
{
	struct evalset s;
	struct err e = {0};

	assert_int_equal(evalset_read(&s, path, &none, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, path));
}

static void bad_files(void **state)
{
	char *path = in_dir("bad");
	double mu[D] = {0}, sigma[D * D] = {0}, nan1[D] = {NAN};
	float x[2 * D] = {0};
	const char *text = "{\"features\":\"pix\"}";
	const char *whole = "{\"features\":\"pix\",\"features_hash\":\"\",\"resize\":\"none\",\"content\":\"\",\"width\":0,\"height\":0,\"n\":1}";
	int64_t order[2] = {0, 1};
	struct npz_entry e[6] = {{.name = "mu", .type = NPY_F8, .rank = 1, .shape = {D}, .data = mu},
	                         {.name = "sigma", .type = NPY_F8, .rank = 2, .shape = {D, D}, .data = sigma}};

	(void)state;
	x[3] = INFINITY;
	assert_int_equal(npy_write(path, NPY_F4, 2, (int64_t[]){2, D}, x, NULL), 0);
	refused(path);
	assert_int_equal(npy_write(path, NPY_F4, 1, (int64_t[]){2 * D}, x, NULL), 0);
	refused(path);
	assert_int_equal(npz_write(path, e, 1, NULL), 0);
	refused(path);
	sigma[1] = 1;
	assert_int_equal(npz_write(path, e, 2, NULL), 0);
	refused(path);
	sigma[1] = 0;
	e[0].data = nan1;
	assert_int_equal(npz_write(path, e, 2, NULL), 0);
	refused(path);
	e[0].data = mu;
	e[1].shape[0] = 1;
	assert_int_equal(npz_write(path, e, 2, NULL), 0);
	refused(path);
	e[1].shape[0] = D;
	e[2] = (struct npz_entry){.name = "recipe", .type = NPY_U1, .rank = 1, .shape = {(int64_t)strlen(text)}, .data = text};
	assert_int_equal(npz_write(path, e, 3, NULL), 0);
	refused(path);
	e[2] = (struct npz_entry){.name = "feats", .type = NPY_F4, .rank = 2, .shape = {D, 2}, .data = x};
	assert_int_equal(npz_write(path, e, 3, NULL), 0);
	refused(path);
	e[2].shape[0] = 1, e[2].shape[1] = D;
	e[3] = (struct npz_entry){.name = "thumbs", .type = NPY_U1, .rank = 2, .shape = {2, 3}, .data = text};
	x[3] = 0;
	e[4] = (struct npz_entry){.name = "recipe", .type = NPY_U1, .rank = 1, .shape = {(int64_t)strlen(whole)}, .data = whole};
	assert_int_equal(npz_write(path, e, 5, NULL), 0);
	refused(path);
	e[3] = (struct npz_entry){.name = "order", .type = NPY_I8, .rank = 1, .shape = {2}, .data = order};
	assert_int_equal(npz_write(path, e, 5, NULL), 0);
	refused(path);
	e[3].shape[0] = 1, order[0] = 1;
	assert_int_equal(npz_write(path, e, 5, NULL), 0);
	refused(path);
	e[3] = (struct npz_entry){.name = "logits", .type = NPY_F4, .rank = 2, .shape = {2, D}, .data = x};
	assert_int_equal(npz_write(path, e, 5, NULL), 0);
	refused(path);
	/* nothing to compare */
	e[0] = (struct npz_entry){.name = "arr_0", .type = NPY_F4, .rank = 1, .shape = {D}, .data = x};
	assert_int_equal(npz_write(path, e, 1, NULL), 0);
	refused(path);
	mem_free(path);
}

/* One shard of `n` pictures beginning with number `first` */
static struct manifest_row shard_write(const char *root, int holdout, int first, int n)
{
	struct manifest_row row = {.path = manifest_name(0, holdout, 0), .cluster = 0, .holdout = holdout};
	char *path = path_join(root, row.path), *cut = strrchr(path, '/');
	struct shard_writer *w;
	struct err e = {0};

	*cut = 0;
	assert_int_equal(dir_make(path, &e), 0);
	*cut = '/';
	w = shard_create(path, NULL, &e);
	for (int i = first; i < first + n; i++) {
		uint8_t pixels[20 * 18 * 3], *png;
		struct picture p = {20, 18, 3, pixels};
		struct shard_member m = {.ext = "png"};
		char *key = str_new("%04d", i);

		for (int k = 0; k < 20 * 18 * 3; k++)
			pixels[k] = (uint8_t)rng_below(256, 9, RNG_TEST, 0, (uint64_t)i, (uint32_t)k);
		if (still_encode_png(&p, NULL, 0, &png, &m.size, &e))
			fail_msg("%s", e.msg);
		m.data = png;
		if (shard_add(w, key, &m, 1, &e))
			fail_msg("%s", e.msg);
		mem_free(png);
		mem_free(key);
	}
	if (shard_commit(w, &row, &e))
		fail_msg("%s", e.msg);
	mem_free(path);
	return row;
}

/* SHARDS and its parts, and the features that its clusters were made from. */
static void parts_of_shards(void **state)
{
	static const struct {
		const char *suffix;
		int n;
	} part[] = {{"", 9}, {":train", 9}, {":holdout", 4}, {":all", 13}};
	char *root = in_dir("shards");
	struct manifest_row row[2] = {shard_write(root, 0, 0, 9), shard_write(root, 1, 20, 4)};
	struct stamp *st = stamp_new("ddm-shard");
	struct err e = {0};

	(void)state;
	stamp_json(st, "assign", json_pack("{s:s}", "features", "pix"));
	if (manifest_write(root, row, 2, 1, st, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < 4; i++) {
		char *source = str_new("%s%s", root, part[i].suffix);
		struct evalset s;

		if (evalset_read(&s, source, &none, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(s.n, part[i].n);
		assert_int_equal(s.recipe.width, 20);
		assert_int_equal(s.recipe.height, 18);
		assert_string_equal(s.partition, "pix");
		evalset_release(&s);
		mem_free(source);
	}
	stamp_free(st);
	manifest_row_release(&row[0]);
	manifest_row_release(&row[1]);
	mem_free(root);
}

/* Pictures are read in batches of 256, the next one while one is measured: rows, order and bad samples are those of the set read in parts. */
static void batches_of_pictures(void **state)
{
	enum { WHOLE = 600, PART = 150 };
	struct evalset_options o = none;
	struct evalset whole, again, part;
	struct manifest_row row;
	struct err e = {0};
	float *rows = NULL;
	int64_t dims = 0, at = 0;

	(void)state;
	for (int k = 0; k <= WHOLE / PART; k++) {
		char *name = str_new("batches-%d", k), *root = in_dir(name), *file;

		row = k ? shard_write(root, 0, (k - 1) * PART, PART) : shard_write(root, 0, 0, WHOLE);
		file = path_join(root, row.path);
		if (evalset_read(k ? &part : &whole, file, &o, &e))
			fail_msg("%s", e.msg);
		if (!k) {
			o.pool = pool_new(3, NULL);
			assert_int_equal(evalset_read(&again, file, &o, &e), 0);
			assert_int_equal(whole.n, WHOLE);
			dims = whole.recipe.dims;
			rows = mem_alloc((size_t)(WHOLE * dims) * sizeof *rows);
			assert_string_equal(again.hash, whole.hash);
			assert_memory_equal(again.features, whole.features, (size_t)(WHOLE * dims) * sizeof *rows);
			assert_memory_equal(again.order, whole.order, WHOLE * sizeof *whole.order);
			evalset_release(&again);
		} else {
			assert_int_equal(part.n, PART);
			for (int64_t i = 0; i < PART; i++, at++)
				memcpy(rows + at * dims, part.features + part.order[i] * dims, (size_t)dims * sizeof *rows);
			evalset_release(&part);
		}
		manifest_row_release(&row);
		mem_free(name);
		mem_free(root);
		mem_free(file);
	}
	assert_int_equal(at, WHOLE);
	for (int64_t i = 0; i < WHOLE; i++)
		assert_memory_equal(whole.features + whole.order[i] * dims, rows + i * dims, (size_t)dims * sizeof *rows);
	evalset_release(&whole);
	pool_free(o.pool);
	mem_free(rows);
}

static int dir_start(void **state)
{
	char name[] = "/tmp/ddm-test-metric.XXXXXX";

	(void)state;
	none.extractor = extractor_open("pix", &(struct extractor_options){.input = -1}, NULL);
	dir = mem_strdup(mkdtemp(name));
	return 0;
}

static int dir_end(void **state)
{
	(void)state;
	dir_remove(dir, NULL);
	mem_free(dir);
	extractor_free(none.extractor);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(vectors_from_files), cmocka_unit_test(statistics_round_trip), cmocka_unit_test(unlike_sets),
	    cmocka_unit_test(bad_files),          cmocka_unit_test(parts_of_shards),       cmocka_unit_test(batches_of_pictures),
	};

	return cmocka_run_group_tests(tests, dir_start, dir_end);
}
