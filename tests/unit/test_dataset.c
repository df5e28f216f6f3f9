/* Random access to shards, and the order of batches. */
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
#include "core/rng.h"
#include "core/str.h"
#include "data/dataset.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/npy.h"
#include "file/shard.h"
#include "file/still.h"
#include "tests/unit/scratch.h"

enum { W = 6, H = 4, EACH = 11 };

/* Pixel (y, x, c) of picture i. */
static uint8_t pixel(int64_t i, int y, int x, int c)
{
	return (uint8_t)(i * 31 + y * 17 + x * 5 + c * 3);
}

static void put_picture(struct shard_writer *w, int64_t i, int width, int label)
{
	struct picture p = {width, H, 3, mem_alloc((size_t)width * H * 3)};
	struct shard_member m[2] = {{.ext = "png"}, {.ext = "cls"}};
	char *key = str_new("k/%05d", (int)i), *cls = str_new("%d\n", label);
	struct err e = {0};
	uint8_t *png;

	for (int y = 0; y < H; y++)
		for (int x = 0; x < width; x++)
			for (int c = 0; c < 3; c++)
				p.pixels[(y * width + x) * 3 + c] = pixel(i, y, x, c);
	assert_int_equal(still_encode_png(&p, NULL, 0, &png, &m[0].size, &e), 0);
	m[0].data = png;
	m[1].data = (uint8_t *)cls;
	m[1].size = strlen(cls);
	assert_int_equal(shard_add(w, key, m, label >= 0 ? 2 : 1, &e), 0);
	mem_free(png);
	mem_free(key);
	mem_free(cls);
	picture_release(&p);
}

static void put_array(struct shard_writer *w, int64_t i)
{
	int64_t shape[4] = {1, 2, 3, 1}; /* every other one with a leading batch dimension of 1, as fast-DiT writes it */
	float v[6];
	struct str bytes = {0};
	struct shard_member m = {.ext = "npy"};
	char *key = str_new("k/%05d", (int)i);
	struct err e = {0};

	for (int j = 0; j < 6; j++)
		v[j] = (float)i + .125f * (float)j;
	npy_encode(&bytes, NPY_F4, i % 2 ? 4 : 3, shape + (i + 1) % 2, v);
	m.data = (uint8_t *)bytes.p;
	m.size = bytes.len;
	assert_int_equal(shard_add(w, key, &m, 1, &e), 0);
	str_release(&bytes);
	mem_free(key);
}

enum kind { PICTURES, UNEQUAL, ARRAYS, CLIPS, FLOAT_CLIPS };

enum { FRAMES = 2, CLIP = FRAMES * 3 * W * H };

/* Number q of clip i, in order of frame, channel, row and column. */
static uint8_t clip_byte(int64_t i, int q)
{
	return pixel(i, q / W % H, q % W, q / W / H % 3 + 10 * (q / W / H / 3));
}

/* With `floats`, a quarter of the bytes. */
static void put_clip(struct shard_writer *w, int64_t i, int floats)
{
	const int64_t shape[4] = {FRAMES, 3, H, W};
	uint8_t bytes[CLIP];
	float values[CLIP];
	struct str npy = {0};
	struct shard_member m = {.ext = "npy"};
	char *key = str_new("k/%05d@%06d", (int)i / 2, (int)i % 2);
	struct err e = {0};

	for (int q = 0; q < CLIP; q++) {
		bytes[q] = clip_byte(i, q);
		values[q] = .25f * (float)bytes[q];
	}
	npy_encode(&npy, floats ? NPY_F4 : NPY_U1, 4, shape, floats ? (const void *)values : bytes);
	m.data = (uint8_t *)npy.p;
	m.size = npy.len;
	assert_int_equal(shard_add(w, key, &m, 1, &e), 0);
	str_release(&npy);
	mem_free(key);
}

static const struct {
	int cluster, holdout, number, count;
} layout[] = {{0, 0, 0, EACH}, {0, 0, 1, 3}, {1, 0, 0, 5}, {1, 1, 0, 2}};

/* Three clusters: 0 (two shards, 14 samples), 1 (5 samples, and 2 held out), and 2, which is empty. Keys increase through the shards. */
static char *make(const char *name, enum kind kind)
{
	char *root = path_join(dir, name);
	struct manifest_row row[4] = {{0}};
	struct err e = {0};
	int64_t i = 0;

	for (int s = 0; s < 4; s++) {
		char *file = manifest_name(layout[s].cluster, layout[s].holdout, layout[s].number), *full = path_join(root, file), *slash;
		struct shard_writer *w;

		slash = strrchr(full, '/');
		*slash = 0;
		assert_int_equal(dir_make(full, &e), 0);
		*slash = '/';
		w = shard_create(full, NULL, &e);
		assert_non_null(w);
		for (int n = 0; n < layout[s].count; n++, i++)
			if (kind == ARRAYS)
				put_array(w, i);
			else if (kind >= CLIPS)
				put_clip(w, i, kind == FLOAT_CLIPS);
			else
				put_picture(w, i, kind == UNEQUAL && i == 9 ? W + 1 : W, i == 4 ? -1 : (int)(i % 7));
		assert_int_equal(shard_commit(w, &row[s], &e), 0);
		row[s].path = file;
		row[s].cluster = layout[s].cluster;
		row[s].holdout = layout[s].holdout;
		mem_free(full);
	}
	assert_int_equal(manifest_write(root, row, 4, 3, NULL, &e), 0);
	for (int s = 0; s < 4; s++)
		manifest_row_release(&row[s]);
	return root;
}

static struct dataset *open_part(const char *root, int cluster, int holdout, uint64_t budget, struct err *e)
{
	struct dataset_options o = {.cluster = cluster, .holdout = holdout, .budget = budget, .verify = 1};

	*e = (struct err){0};
	return dataset_open(root, &o, e);
}

static void check_sample(struct dataset *d, int64_t i, int64_t serial, int32_t cluster)
{
	float x[3 * W * H];
	int32_t label, k;
	struct err e = {0};
	char *key = str_new("k/%05d", (int)serial);
	struct str got = {0};

	assert_int_equal(dataset_read(d, i, x, &label, &k, &e), 0);
	for (int c = 0; c < 3; c++)
		for (int y = 0; y < H; y++)
			for (int col = 0; col < W; col++)
				assert_true(x[(c * H + y) * W + col] == (float)pixel(serial, y, col, c) / 127.5f - 1.f);
	assert_int_equal(label, serial == 4 ? -1 : serial % 7);
	assert_int_equal(k, cluster);
	assert_string_equal(dataset_key(d, i, &got), key);
	mem_free(key);
	str_release(&got);
}

/* Read twice, the second time from memory as far as the budget (bytes) allows. */
static void reads(void **state)
{
	static const uint64_t budgets[] = {1, 5 * W * H * 3, 0};
	char *root = make("a", PICTURES);
	struct err e;

	(void)state;
	for (size_t b = 0; b < 3; b++) {
		struct dataset *d = open_part(root, DATASET_ALL, 0, budgets[b], &e);
		const struct dataset_info *info;

		assert_non_null(d);
		info = dataset_info(d);
		assert_int_equal(info->count, EACH + 3 + 5);
		assert_int_equal(info->channels, 3);
		assert_int_equal(info->height, H);
		assert_int_equal(info->width, W);
		assert_int_equal(info->clusters, 3);
		assert_int_equal(info->sizes[0], EACH + 3);
		assert_int_equal(info->sizes[1], 5);
		assert_int_equal(info->sizes[2], 0);
		assert_int_equal(info->held[1], 2);
		assert_int_equal(strlen(info->manifest->sha256), 64);
		for (int pass = 0; pass < 2; pass++)
			for (int64_t i = info->count; i-- > 0;)
				check_sample(d, i, i, i < EACH + 3 ? 0 : 1);
		dataset_free(d);
		d = open_part(root, 1, 1, budgets[b], &e);
		assert_non_null(d);
		assert_int_equal(dataset_info(d)->count, 2);
		check_sample(d, 1, EACH + 3 + 5 + 1, 1);
		dataset_free(d);
	}
	mem_free(root);
}

static void arrays(void **state)
{
	char *root = make("b", ARRAYS);
	float x[6];
	int32_t label;
	struct err e;
	struct dataset *d = open_part(root, 1, 0, 0, &e);

	(void)state;
	assert_non_null(d);
	assert_int_equal(dataset_info(d)->channels, 2);
	assert_int_equal(dataset_info(d)->height, 3);
	assert_int_equal(dataset_info(d)->width, 1);
	for (int pass = 0; pass < 2; pass++) {
		assert_int_equal(dataset_read(d, 2, x, &label, NULL, &e), 0);
		for (int j = 0; j < 6; j++)
			assert_true(x[j] == EACH + 3 + 2 + .125f * (float)j);
		assert_int_equal(label, -1);
	}
	dataset_free(d);
	mem_free(root);
}

/* Clips of bytes are pixels, which can be mirrored, from the cache and without one; clips of floats are read as they are. */
static void clips(void **state)
{
	(void)state;
	for (int way = 0; way < 4; way++) {
		int floats = way & 1;
		char *root = make(way == 0 ? "c0" : way == 1 ? "c1" : way == 2 ? "c2" : "c3", floats ? FLOAT_CLIPS : CLIPS);
		float x[CLIP], mean[CLIP];
		struct err e;
		struct dataset *d = open_part(root, 1, 0, way & 2 ? (uint64_t)1 << 30 : 1, &e);
		const struct dataset_info *f;

		assert_non_null(d);
		f = dataset_info(d);
		assert_true(f->frames == FRAMES && f->channels == 3 && f->height == H && f->width == W && f->numel == CLIP && f->arrays == floats);
		for (int pass = 0; pass < 4; pass++) {
			struct dataset_item it = {.x = x, .mirrored = !floats && pass & 1};

			assert_int_equal(dataset_item(d, 2, &it, &e), 0);
			for (int q = 0; q < CLIP; q++) {
				int from = it.mirrored ? q / W * W + W - 1 - q % W : q;
				float v = (float)clip_byte(EACH + 3 + 2, from);

				assert_true(x[q] == (floats ? .25f * v : v / 127.5f - 1.f));
			}
		}
		assert_int_equal(dataset_mean(d, 100, 0, mean, &e), 0);
		for (int q = 0; q < CLIP; q++) {
			double sum = 0;

			for (int64_t k = 0; k < f->count; k++)
				sum += floats ? .25 * clip_byte(EACH + 3 + k, q) : clip_byte(EACH + 3 + k, q) / 127.5 - 1;
			assert_true(fabs(mean[q] - sum / (double)f->count) < 1e-5);
		}
		dataset_free(d);
		mem_free(root);
	}
}

static void refuses(void **state)
{
	char *root = make("c", UNEQUAL), *file;
	float x[3 * (W + 1) * H];
	struct dataset_options sized = {.cluster = 0, .size = 4};
	struct dataset *d;
	struct err e;
	FILE *f;

	(void)state;
	assert_null(open_part("/nonexistent/shards", 0, 0, 0, &e));
	assert_int_equal(e.code, ERR_NOINPUT);
	assert_null(open_part(root, 3, 0, 0, &e));
	assert_int_equal(e.code, ERR_USAGE);
	assert_null(open_part(root, 2, 0, 0, &e));
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, "empty"));
	d = open_part(root, 0, 0, 0, &e);
	assert_non_null(d);
	assert_int_equal(dataset_read(d, 9, x, NULL, NULL, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, "k/00009"));
	dataset_free(d);
	e = (struct err){0};
	d = dataset_open(root, &sized, &e);
	assert_non_null(d);
	assert_int_equal(dataset_info(d)->width, 4);
	assert_int_equal(dataset_read(d, 9, x, NULL, NULL, &e), 0);
	dataset_free(d);
	/* Flip a bit of one shard. */
	file = path_join(root, "cluster-0/000000.tar.zst");
	f = fopen(file, "r+b");
	assert_non_null(f);
	fseek(f, 200, SEEK_SET);
	int c = fgetc(f);
	fseek(f, 200, SEEK_SET);
	fputc(c ^ 4, f);
	fclose(f);
	assert_null(open_part(root, DATASET_ALL, 0, 0, &e));
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, "cluster-0/000000.tar.zst"));
	mem_free(file);
	mem_free(root);
}

/* Batches as dataset.h defines them, prefetched or not, from the first or from a later one. */
static void batches(void **state)
{
	static const struct {
		int ahead;
		int64_t first;
		int flip;
	} ways[] = {{0, 0, 0}, {1, 0, 0}, {4, 0, 1}, {2, 17, 1}, {0, 17, 0}};
	char *root = make("d", PICTURES);
	struct err e;
	struct dataset *d = open_part(root, 0, 0, 3 * W * H * 3, &e);
	int64_t n = dataset_info(d)->count, flips = 0;

	(void)state;
	for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
		struct loader_options o = {.batch = 5, .seed = 77, .flip = ways[w].flip, .first = ways[w].first, .ahead = ways[w].ahead};
		struct loader *l = loader_new(d, &o, &e);

		assert_non_null(l);
		for (int64_t s = ways[w].first; s < ways[w].first + 30; s++) {
			struct batch b;

			assert_int_equal(loader_next(l, &b, &e), 0);
			assert_int_equal(b.number, s);
			assert_int_equal(b.n, 5);
			for (int64_t j = 0; j < 5; j++) {
				uint64_t p = (uint64_t)(s * 5 + j);
				int64_t i = (int64_t)rng_permute(p % (uint64_t)n, (uint64_t)n, 77, RNG_SHUFFLE, p / (uint64_t)n);
				int mirrored = ways[w].flip && rng_uniform(77, RNG_FLIP, 0, p, 0) < .5;
				const float *x = b.x + j * 3 * W * H;

				assert_int_equal(b.index[j], i);
				assert_int_equal(loader_sample(l, s, j), i);
				assert_int_equal(b.cluster[j], 0);
				assert_int_equal(b.label[j], i == 4 ? -1 : i % 7);
				flips += mirrored;
				for (int q = 0; q < 3 * H * W; q++) {
					int col = mirrored ? W - 1 - q % W : q % W;

					assert_true(x[q] == (float)pixel(i, q / W % H, col, q / W / H) / 127.5f - 1.f);
				}
			}
		}
		loader_free(l);
	}
	assert_in_range(flips, 100, 200);
	dataset_free(d);
	mem_free(root);
}

/* The mean of all samples, or of every third and so on if fewer are requested; mirrored and not; from shards and from memory. */
static void means(void **state)
{
	char *root = make("m", PICTURES);
	float mean[3 * W * H];
	struct err e;

	(void)state;
	for (int way = 0; way < 8; way++) {
		struct dataset *d = open_part(root, 0, 0, way & 1 ? (uint64_t)1 << 30 : 1, &e);
		int64_t n = dataset_info(d)->count, of = way & 2 ? 3 : n;

		assert_true(n > 5);
		assert_int_equal(dataset_mean(d, way & 2 ? 3 : 100, way >> 2, mean, &e), 0);
		for (int q = 0; q < 3 * W * H; q++) {
			double sum = 0;

			for (int64_t k = 0; k < of; k++) {
				int64_t i = way & 2 ? k * n / 3 : k;

				sum += pixel(i, q / W % H, q % W, q / W / H) / 127.5 - 1;
				sum += way >> 2 ? pixel(i, q / W % H, W - 1 - q % W, q / W / H) / 127.5 - 1 : 0;
			}
			assert_true(fabs(mean[q] - sum / (double)(of << (way >> 2))) < 1e-6);
		}
		dataset_free(d);
	}
	mem_free(root);
}

/* An error is reported at its own batch, not before. */
static void late_error(void **state)
{
	char *root = make("e", UNEQUAL);
	struct err e;
	struct dataset *d = open_part(root, 0, 0, 0, &e);
	struct loader_options o = {.batch = 1, .seed = 5, .ahead = 3};
	struct loader *l = loader_new(d, &o, &e);
	struct batch b;
	uint64_t n = EACH + 3, bad = 0;

	(void)state;
	while (rng_permute(bad, n, 5, RNG_SHUFFLE, 0) != 9)
		bad++;
	for (uint64_t s = 0; s < bad; s++)
		assert_int_equal(loader_next(l, &b, &e), 0);
	assert_int_equal(loader_next(l, &b, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	loader_free(l);
	dataset_free(d);
	mem_free(root);
}

struct race {
	struct dataset *d;
	int bad;
};

static void race_task(void *arg, int64_t task, int worker)
{
	struct race *r = arg;
	float x[3 * W * H];
	int32_t label;
	int64_t i = task % 14;
	struct err e = {0};

	(void)worker;
	if (dataset_read(r->d, i, x, &label, NULL, &e) || x[5] != (float)pixel(i, 0, 5, 0) / 127.5f - 1.f)
		r->bad = 1;
}

static void many_readers(void **state)
{
	char *root = make("f", PICTURES);
	struct err e;
	struct pool *p = pool_new(4, &e);
	struct race r = {open_part(root, 0, 0, 7 * W * H * 3, &e), 0};

	(void)state;
	pool_run(p, 400, race_task, &r);
	assert_int_equal(r.bad, 0);
	pool_free(p);
	dataset_free(r.d);
	mem_free(root);
}

/* Samples of several clusters: a shard whose samples count C times is read C times over, from one place in the cache. */
static void shared_samples(void **state)
{
	static const struct {
		int cluster, further, copies, count;
	} part[] = {{0, 0, 1, 3}, {0, 0, 2, 2}, {1, 1, 12, 1}};
	static const int64_t serial[] = {0, 1, 2, 3, 4, 3, 4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5};
	static const char *const wrong[] = {"x1-000000", "x0-000000", "x17-000000", "x2000000", "also-x-000000", "x2-also-000000", "other-000000"};
	char *root = path_join(dir, "shared");
	struct manifest_row row[3] = {{0}};
	struct err e = {0};
	int64_t i = 0;

	(void)state;
	for (int s = 0; s < 3; s++) {
		char *file = manifest_shared_name(part[s].cluster, 0, part[s].further, part[s].copies, 0), *full = path_join(root, file);
		char *slash = strrchr(full, '/');
		struct shard_writer *w;

		*slash = 0;
		assert_int_equal(dir_make(full, &e), 0);
		*slash = '/';
		assert_non_null(w = shard_create(full, NULL, &e));
		for (int n = 0; n < part[s].count; n++, i++)
			put_picture(w, i, W, i == 4 ? -1 : (int)i);
		row[s] = (struct manifest_row){.path = file, .cluster = part[s].cluster};
		assert_int_equal(shard_commit(w, &row[s], &e), 0);
		row[s].path = file;
		row[s].cluster = part[s].cluster;
		mem_free(full);
	}
	assert_int_equal(manifest_write(root, row, 3, 2, NULL, &e), 0);
	for (uint64_t budget = 1; budget < 1 << 21; budget += 1 << 20) {
		struct dataset *d = open_part(root, DATASET_ALL, 0, budget, &e);
		const struct dataset_info *f;

		if (!d)
			fail_msg("%s", e.msg);
		f = dataset_info(d);
		assert_int_equal(f->count, 19);
		assert_int_equal(f->sizes[0], 7);
		assert_int_equal(f->sizes[1], 12);
		for (int twice = 0; twice < 2; twice++)
			for (int64_t at = 0; at < f->count; at++) {
				char *key = str_new("k/%05d", (int)serial[at]);
				struct str got = {0};

				check_sample(d, at, serial[at], at < 7 ? 0 : 1);
				assert_string_equal(dataset_key(d, at, &got), key);
				mem_free(key);
				str_release(&got);
			}
		dataset_free(d);
	}
	for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
		mem_free(row[1].path);
		row[1].path = str_new("cluster-0/%s.tar.zst", wrong[k]);
		assert_int_equal(manifest_write(root, row, 3, 2, NULL, &e), 0);
		assert_null(open_part(root, DATASET_ALL, 0, 1, &e));
		assert_non_null(strstr(e.msg, "is not the place of a train shard of cluster 0"));
	}
	for (int s = 0; s < 3; s++)
		manifest_row_release(&row[s]);
	mem_free(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(shared_samples), cmocka_unit_test(reads),      cmocka_unit_test(arrays),
	    cmocka_unit_test(clips),          cmocka_unit_test(refuses),    cmocka_unit_test(batches),
	    cmocka_unit_test(means),          cmocka_unit_test(late_error), cmocka_unit_test(many_readers),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
