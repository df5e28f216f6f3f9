/* Compares the output of ddm-sample for a whole model and its prompts with the output of another program. The golden is a folder, or a .tar.gz of
 * one, with model/, prompts.jsonl and io.safetensors, made by a script in tests/golden. */
#ifndef DDM_TESTS_WHOLEMODEL_H
#define DDM_TESTS_WHOLEMODEL_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "file/safetensors.h"
#include "file/still.h"
#include "file/tarfile.h"

static char folder[3000], made[3000]; /* the golden's folder, and a temporary folder */
static struct safetensors *io;

static void unpack_member(const struct tar_member *m)
{
	char *path = path_join(made, m->name), *slash = strrchr(path, '/');

	*slash = 0;
	assert_int_equal(dir_make(path, NULL), 0);
	*slash = '/';
	assert_int_equal(commit_bytes(path, m->data, m->size, NULL), 0);
	mem_free(path);
}

/* other: a folder to use instead of the archive, or NULL. */
static int open_model(const char *archive, const char *other)
{
	struct tar_reader *t;
	struct tar_member m;
	char *path;

	snprintf(made, sizeof made, "%s/ddm-model-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(made))
		return -1;
	snprintf(folder, sizeof folder, "%s", other ? other : made);
	if (!other) {
		t = tar_open(archive, NULL, NULL);
		while (t && tar_next(t, &m, NULL) > 0)
			unpack_member(&m);
		tar_close(t);
	}
	path = path_join(folder, "io.safetensors");
	io = st_open(path, NULL);
	mem_free(path);
	return io ? 0 : -1;
}

static int close_model(void **state)
{
	(void)state;
	st_free(io);
	return dir_remove(made, NULL);
}

/* Read tensor `name` of io, which must have `count` elements. */
static void need(const char *name, int64_t count, float *out)
{
	const struct st_tensor *t = st_find(io, name);

	assert_non_null(t);
	assert_int_equal(st_count(t), count);
	st_to_f32(out, t);
}

/* The relative error |a - b| / |b| in the Euclidean norm. */
static double apart(const float *a, const float *b, int64_t n)
{
	double difference = 0, size = 0;

	for (int64_t i = 0; i < n; i++) {
		difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
		size += (double)b[i] * b[i];
	}
	return sqrt(difference / size);
}

/* Run this build's ddm-sample on the prompts and open the tar that it writes. Caller closes with tar_close. */
static struct tar_reader *sampled(const char *options, const char *format)
{
	const char *build = getenv("B") ? getenv("B") : "build";
	char *path = str_new("%s/%s.tar", made, format);
	char *command = str_new("'%s/ddm-sample' %s --noise torch --prompts '%s/prompts.jsonl' --format %s -o '%s' '%s/model' 2>'%s/said'", build,
	                        options, folder, format, path, folder, made);
	struct tar_reader *t;
	FILE *p = popen(command, "r");

	assert_non_null(p);
	assert_int_equal(pclose(p), 0);
	t = tar_open(path, NULL, NULL);
	assert_non_null(t);
	mem_free(command);
	mem_free(path);
	return t;
}

/* Compare n latents with want (n, d); the relative error of each must be below 1e-5. */
static void check_latents(const char *options, const float *want, int64_t n, int64_t d)
{
	struct tar_reader *t = sampled(options, "latent");
	struct tar_member m;
	int64_t seen = 0;

	while (tar_next(t, &m, NULL) > 0) {
		struct npy a;
		float *x;

		if (!str_ends(m.name, ".npy"))
			continue;
		assert_int_equal(npy_parse(&a, m.data, m.size, m.name, NULL), 0);
		assert_true(a.rank == 3 && a.shape[0] * a.shape[1] * a.shape[2] == d && seen < n);
		x = mem_alloc((size_t)d * sizeof *x);
		npy_to_f32(x, &a);
		assert_true(apart(x, want + seen++ * d, d) < 1e-5);
		mem_free(x);
		npy_release(&a);
	}
	assert_int_equal(seen, n);
	tar_close(t);
}

/* Compare n pictures with io's "picture" (n, edge, edge, 3). Because of rounding, fewer than 1 in 1000 values may differ, by one level of 255. */
static void check_pictures(const char *options, int64_t n, int edge)
{
	const struct st_tensor *want = st_find(io, "picture");
	struct tar_reader *t = sampled(options, "png");
	struct tar_member m;
	int64_t seen = 0, off = 0, each = (int64_t)edge * edge * 3;

	assert_true(want && want->type == ST_U8 && st_count(want) == n * each);
	while (tar_next(t, &m, NULL) > 0) {
		const uint8_t *p = (const uint8_t *)want->data + seen * each;
		struct picture got;

		if (!str_ends(m.name, ".png"))
			continue;
		assert_true(seen < n);
		assert_int_equal(still_decode(&got, m.data, m.size, m.name, 3, NULL, NULL), 0);
		assert_true(got.width == edge && got.height == edge);
		for (int64_t i = 0; i < each; i++) {
			assert_true(abs(got.pixels[i] - p[i]) <= 1);
			off += got.pixels[i] != p[i];
		}
		picture_release(&got);
		seen++;
	}
	assert_int_equal(seen, n);
	assert_true(off < n * each / 1000);
	tar_close(t);
}

#endif
