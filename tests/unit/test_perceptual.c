/* metric: LPIPS of pairs and groups, against the package lpips and against all pairs one by one; the aesthetic score against its layers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/shortfloat.h"
#include "data/textencoder.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/tarfile.h"
#include "metric/aesthetic.h"
#include "metric/captions.h"
#include "metric/perceptual.h"
#include "tests/golden/lpips_values.h"
#include "tests/unit/drawnnet.h"

enum { PICTURES = 7, WIDE = 64, HIGH = 72 };

static struct pool *pool;
static struct device *device;
static char *folder; /* of everything below */

static void failed(const struct err *e)
{
	fail_msg("%s", e->msg);
}

static void near(double got, double want, double tol)
{
	if (!(fabs(got - want) <= tol * fabs(want)))
		fail_msg("%.17g, not %.17g", got, want);
}

/* Make a folder with random trunk.safetensors and with the heads from `from`, or random ones; returns its path. */
static char *network(enum lpips_trunk k, const char *from)
{
	static void (*const trunks[])(struct drawing *) = {add_alex, add_vgg, add_squeeze};
	static struct drawing d;
	char *dir = str_new("%s/%s", folder, lpips_trunk_names[k]), *path, *name = str_new("%s/trunk.safetensors", dir);

	mkdir(dir, 0777);
	trunks[k](&d);
	path = save(&d, "perceptual-trunk.safetensors");
	assert_int_equal(rename(path, name), 0);
	mem_free(path);
	mem_free(name);
	name = str_new("%s/heads.%s", dir, from ? "pth" : "safetensors");
	if (from)
		assert_int_equal(symlink(from, name), 0);
	else {
		path = save_heads("perceptual-heads.safetensors", 7, (int64_t[]){64, 128, 256, 384, 384, 512, 512});
		assert_int_equal(rename(path, name), 0);
		mem_free(path);
	}
	mem_free(name);
	return dir;
}

static void released(void **state)
{
	const char *data = getenv("DDM_TEST_DATA");
	char *pictures = str_new("%s/weights/lpips", data ? data : "");

	(void)state;
	for (int k = 0; k < 3 && data && path_exists(pictures); k++) {
		char *heads = str_new("%s/%s_v0.1.pth", pictures, lpips_trunk_names[k]), *dir = network((enum lpips_trunk)k, heads), hash[65];
		const double *want = golden_lpips[k];
		struct evalset_options o = {.pool = pool};
		struct perceptual v;
		struct err e = {0};
		struct lpips *n = lpips_folder(dir, 2, hash, device, &e);

		if (!n || perceptual_diversity(&v, n, pictures, GROUP_NONE, &o, &e))
			failed(&e);
		assert_int_equal(lpips_kind(n), k);
		near(v.mean, (want[0] + want[1] + want[2]) / 3, 1e-5);
		assert_true(v.n == 1 && v.se == 0);
		if (perceptual_pairs(&v, n, pictures, pictures, &o, &e))
			failed(&e);
		assert_true(v.n == 3 && v.mean == 0 && v.se == 0);
		lpips_free(n);
		mem_free(dir);
		mem_free(heads);
	}
	if (!data || !path_exists(pictures)) {
		print_message("no weights/lpips\n");
		mem_free(pictures);
		skip();
	}
	mem_free(pictures);
}

/* ---- groups of pictures in a tar ---- */

static const char *const keys[PICTURES] = {"a/0", "a/1", "a/2", "b/3", "b/4", "b/5", "c/6"};
static const int classes[PICTURES] = {1, 0, 1, 1, 0, 0, 6};

static struct picture drawn_picture(int i, int width)
{
	struct picture p = {width, HIGH, 3, mem_alloc((size_t)width * HIGH * 3)};

	for (int k = 0; k < width * HIGH * 3; k++)
		p.pixels[k] = (uint8_t)(drawn(drawn_seed(keys[i]), k / (3 * (i + 1)), 1, 0) >> 3);
	return p;
}

/* Pictures from `first` on; number `odd` has another width; the first `labelled` have a class, and its number as a text. */
static char *archive(const char *name, int first, int odd, int labelled)
{
	char *path = str_new("%s/%s", folder, name);
	struct err e = {0};
	struct outfile out;
	struct tar_writer w;

	assert_int_equal(outfile_open(&out, path, &e), 0);
	assert_int_equal(tar_start(&w, &out, NULL, &e), 0);
	for (int i = first; i < PICTURES; i++) {
		char *members[3] = {str_new("%s.cls", keys[i]), str_new("%s.png", keys[i]), str_new("%s.txt", keys[i])}, text[16];
		struct picture p = drawn_picture(i, i == odd ? WIDE + 1 : WIDE);
		uint8_t *png;
		size_t len;

		snprintf(text, sizeof text, "%d", classes[i]);
		assert_int_equal(still_encode_png(&p, NULL, 0, &png, &len, &e), 0);
		if (i < labelled)
			assert_int_equal(tar_add(&w, members[0], text, strlen(text), &e), 0);
		assert_int_equal(tar_add(&w, members[1], png, len, &e), 0);
		if (i < labelled)
			assert_int_equal(tar_add(&w, members[2], text, strlen(text), &e), 0);
		for (int k = 0; k < 3; k++)
			mem_free(members[k]);
		mem_free(png);
		picture_release(&p);
	}
	assert_int_equal(tar_finish(&w, &e), 0);
	assert_int_equal(outfile_commit(&out, &e), 0);
	return path;
}

static double between(struct lpips *n, int i, int j)
{
	enum { AREA = WIDE * HIGH };
	float *x = mem_alloc(6 * AREA * sizeof *x), d;
	struct err e = {0};

	for (int k = 0; k < 2; k++) {
		struct picture p = drawn_picture(k ? j : i, WIDE);

		for (int c = 0; c < 3; c++)
			for (int at = 0; at < AREA; at++)
				x[(k * 3 + c) * AREA + at] = (float)p.pixels[3 * at + c] / 127.5f - 1;
		picture_release(&p);
	}
	if (lpips_run(n, 1, x, x + 3 * AREA, HIGH, WIDE, &d, &e))
		failed(&e);
	mem_free(x);
	return (double)d;
}

/* The mean over groups of pictures; group[i] is -1 for pictures in no group. */
static void brute_force(struct lpips *n, const int *group, double *mean, double *se, int *groups)
{
	double v[PICTURES];

	*mean = *se = 0;
	*groups = 0;
	for (int g = 0; g < PICTURES; g++) {
		double sum = 0;
		int pairs = 0;

		for (int i = 0; i < PICTURES; i++)
			for (int j = 0; j < i; j++)
				if (group[i] == g && group[j] == g)
					sum += between(n, i, j), pairs++;
		if (pairs)
			v[(*groups)++] = sum / pairs;
	}
	for (int g = 0; g < *groups; g++)
		*mean += v[g] / *groups;
	for (int g = 0; g<*groups && * groups> 1; g++)
		*se += (v[g] - *mean) * (v[g] - *mean) / (*groups - 1) / *groups;
	*se = sqrt(*se);
}

static void refused(struct lpips *n, const char *path, enum perceptual_group by, int size, enum err_code code, const char *word)
{
	struct evalset_options o = {.pool = pool, .size = size};
	struct perceptual v;
	struct err e = {0};

	assert_int_equal(perceptual_diversity(&v, n, path, by, &o, &e), -1);
	assert_int_equal(e.code, code);
	if (!strstr(e.msg, word))
		fail_msg("%s", e.msg);
}

static void groups(void **state)
{
	static const int none[PICTURES] = {0}, folders[PICTURES] = {0, 0, 0, 1, 1, 1, 2};
	char *dir = network(LPIPS_SQUEEZE, NULL), *all = archive("all.tar", 0, -1, 7), *rest = archive("rest.tar", 1, -1, 6), hash[65];
	char *odd = archive("odd.tar", 0, 3, 7);
	struct evalset_options o = {.pool = pool};
	struct perceptual v;
	struct err e = {0};
	struct lpips *n = lpips_folder(dir, 3, hash, device, &e);
	double mean, se;
	int count;

	(void)state;
	if (!n)
		failed(&e);
	for (int by = GROUP_NONE; by <= GROUP_FOLDER; by++) {
		brute_force(n, by == GROUP_NONE ? none : by == GROUP_FOLDER ? folders : classes, &mean, &se, &count);
		if (perceptual_diversity(&v, n, all, (enum perceptual_group)by, &o, &e))
			failed(&e);
		near(v.mean, mean, 1e-6);
		near(v.se, se, 1e-4);
		assert_int_equal(v.n, count);
	}
	refused(n, rest, GROUP_CLASS, 0, ERR_DATA, "c/6");
	refused(n, rest, GROUP_TEXT, 0, ERR_DATA, "c/6");
	refused(n, all, GROUP_NONE, 32, ERR_DATA, "too small");
	refused(n, odd, GROUP_NONE, 0, ERR_DATA, "b/3");
	refused(n, "-", GROUP_NONE, 0, ERR_USAGE, "standard input");
	if (perceptual_pairs(&v, n, all, all, &o, &e))
		failed(&e);
	assert_true(v.n == PICTURES && v.mean == 0);
	assert_int_equal(perceptual_pairs(&v, n, all, rest, &o, &e), -1);
	assert_non_null(strstr(e.msg, "a/0"));
	lpips_free(n);
	mem_free(dir);
	mem_free(all);
	mem_free(rest);
	mem_free(odd);
}

/* ---- captions ---- */

static void captions(void **state)
{
	static const char tower[] = "tests/golden/pretrained/text-clip/text_encoder_2";
	char *all = archive("captions.tar", 0, -1, 7), *rest = archive("uncaptioned.tar", 0, -1, 6), hash[65];
	struct textencoder *t;
	struct evalset_options o = {.pool = pool};
	struct err e = {0};
	int64_t n, cut;
	float *got, *want;
	int width;

	(void)state;
	if (!(t = textencoder_open(tower, &(struct textencoder_options){.device = device}, &e)) ||
	    captions_embed(&got, &n, &width, &cut, hash, tower, all, &o, device, &e))
		failed(&e);
	assert_int_equal(n, PICTURES);
	assert_int_equal(width, textencoder_info(t)->embedding);
	assert_string_equal(hash, textencoder_info(t)->hash);
	want = mem_alloc((size_t)width * sizeof *want);
	for (int i = 0; i < PICTURES; i++) {
		char text[16];

		snprintf(text, sizeof text, "%d", classes[i]);
		if (textencoder_run(t, 1, (const char *const[]){text}, NULL, &(struct text_features){.embedding = want}, &e))
			failed(&e);
		assert_memory_equal(got + i * width, want, (size_t)width * sizeof *want);
	}
	mem_free(got);
	assert_int_equal(captions_embed(&got, &n, &width, &cut, hash, tower, rest, &o, device, &e), -1);
	assert_non_null(strstr(e.msg, "c/6"));
	e = (struct err){0};
	assert_int_equal(captions_embed(&got, &n, &width, &cut, hash, "tests/golden/pretrained/text-clip", all, &o, device, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	textencoder_free(t);
	mem_free(want);
	mem_free(all);
	mem_free(rest);
}

/* ---- aesthetic ---- */

static void layers(void **state)
{
	enum { IN = 6, MID = 4, N = 3 };
	static const int64_t one[2] = {MID, IN}, two[2] = {1, MID};
	static struct drawing d;
	float x[N * IN];
	double want[N], mean = 0, var = 0, got, se;
	struct aesthetic a;
	struct err e = {0};
	char *path;

	(void)state;
	add(&d, "layers.0.weight", 2, one, 1, 0);
	add(&d, "layers.0.bias", 1, one, 1, 0);
	add(&d, "layers.10.weight", 2, two, 1, 0);
	add(&d, "layers.10.bias", 1, two, 1, 5);
	path = save(&d, "aesthetic.safetensors");
	for (int i = 0; i < N; i++) {
		double length = 0;

		for (int k = 0; k < IN; k++) {
			x[i * IN + k] = (float)(sin(i + 2 * k) * (i + 1));
			length += (double)x[i * IN + k] * (double)x[i * IN + k];
		}
		want[i] = (double)f16_to_f32(drawn(drawn_seed("layers.10.bias"), 0, 1, 5));
		for (int j = 0; j < MID; j++) {
			double h = (double)f16_to_f32(drawn(drawn_seed("layers.0.bias"), j, 1, 0));

			for (int k = 0; k < IN; k++)
				h +=
				    (double)f16_to_f32(drawn(drawn_seed("layers.0.weight"), j * IN + k, 1, 0)) * (double)x[i * IN + k] / sqrt(length);
			want[i] += h * (double)f16_to_f32(drawn(drawn_seed("layers.10.weight"), j, 1, 0));
		}
		mean += want[i] / N;
	}
	for (int i = 0; i < N; i++)
		var += (want[i] - mean) * (want[i] - mean) / (N - 1);
	if (aesthetic_load(&a, path, &e) || aesthetic_score(&got, &se, &a, x, N, &e))
		failed(&e);
	assert_int_equal(a.dims, IN);
	near(got, mean, 1e-12);
	near(se, sqrt(var / N), 1e-12);
	memset(x, 0, IN * sizeof *x);
	assert_int_equal(aesthetic_score(&got, &se, &a, x, N, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	aesthetic_release(&a);
	add(&d, "layers.0.weight", 2, one, 1, 0);
	add(&d, "layers.0.bias", 1, one, 1, 0);
	mem_free(save(&d, "aesthetic.safetensors"));
	e = (struct err){0};
	assert_int_equal(aesthetic_load(&a, path, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	unlink(path);
	mem_free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(released), cmocka_unit_test(groups), cmocka_unit_test(captions),
	                                   cmocka_unit_test(layers)};
	int rc;

	folder = str_new("%s/perceptual-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(folder))
		return 1;
	pool = pool_new(2, NULL);
	device = device_cpu(pool, DT_F32);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	device_free(device);
	pool_free(pool);
	mem_free(folder);
	return rc;
}
