/* Makes a captioned data set for tests: a SHARDS folder with one cluster of small latents in four tints. Each sample has text features that encode
 * its tint, and can have standard deviations and a mirrored latent. The features of the empty text are in null-text.npy. */
#ifndef DDM_TESTS_TOLD_H
#define DDM_TESTS_TOLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/shortfloat.h"
#include "file/safetensors.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/npy.h"
#include "file/shard.h"

enum {
	TINTS = 4,
	TINT_CHANNELS = 3,
	TINT_SIDE = 4,
	TINT = TINT_CHANNELS * TINT_SIDE * TINT_SIDE,
	TOKENS = 3,
	WIDTH = 6,
	TINTED = 32,
	TINTED_HELD = 12
};

/* Faults that sample `bad_at` can have. */
enum caption_fault { SOUND, NO_TEXT, WIDE_TEXT, FLAT_TEXT, HUGE_TEXT, EMPTY_TEXT, WHOLE_TEXT, NO_STD, ODD_STD, NO_FLIP, NO_FLIP_STD };

struct captions {
	int std, flip; /* 1: write the members std.npy, flip.npy; with both also flip.std.npy */
	enum caption_fault fault;
	int64_t bad_at;
};

static inline int tint_of(int64_t i)
{
	return (int)(i % TINTS);
}

static inline int tint_rows(int64_t i)
{
	return i == 0 ? TOKENS : 1 + (int)(i % TOKENS);
}

static inline float tint_mean(int64_t i, int at)
{
	static const float tint[TINTS][TINT_CHANNELS] = {{1, -1, -1}, {-1, 1, -1}, {-1, -1, 1}, {1, 1, 1}};

	return tint[tint_of(i)][at / (TINT_SIDE * TINT_SIDE)] + .01f * (float)(at % TINT_SIDE);
}

static inline float tint_std(int64_t i, int at)
{
	return .02f * (float)(1 + (i + at) % 5);
}

/* Exact in float16. The first row encodes the tint; the others do not. */
static inline float tint_text(int64_t i, int row, int col)
{
	return row ? .125f * (float)((i + 3 * row + col) % 5 - 2) : col == tint_of(i) ? 2 : 0;
}

static inline float null_text(int row, int col)
{
	return row == 0 && col == WIDTH - 1 ? 1 : 0;
}

static inline void captions_member(struct shard_member *m, struct str *bytes, const char *ext, enum npy_type type, int rank, const int64_t *shape,
                                   const float *v)
{
	uint16_t half[TINT];

	for (int i = 0; type == NPY_F2 && i < TINT; i++)
		half[i] = f32_to_f16(v[i]);
	npy_encode(bytes, type, rank, shape, type == NPY_F2 ? (const void *)half : v);
	*m = (struct shard_member){.ext = ext, .data = (uint8_t *)bytes->p, .size = bytes->len};
}

static inline int text_member(struct shard_member *m, struct str *bytes, int64_t i, enum caption_fault fault)
{
	float v[TINT] = {0};
	int64_t shape[3] = {1, tint_rows(i), WIDTH};
	int flat = fault == FLAT_TEXT;

	if (fault == NO_TEXT)
		return 0;
	if (fault == WIDE_TEXT)
		shape[2] = WIDTH - 1;
	if (fault == EMPTY_TEXT)
		shape[1] = 0;
	for (int r = 0; r < tint_rows(i); r++)
		for (int c = 0; c < WIDTH; c++)
			v[r * WIDTH + c] = fault == HUGE_TEXT ? 7e4f : tint_text(i, r, c);
	if (fault == WHOLE_TEXT)
		captions_member(m, bytes, "text.npy", NPY_I4, 2, shape + 1, v);
	else
		captions_member(m, bytes, "text.npy", i % 2 || fault ? NPY_F4 : NPY_F2,
		                flat    ? 1
		                : i % 3 ? 2
		                        : 3,
		                flat ? shape + 2 : shape + (i % 3 > 0), v);
	return 1;
}

static inline void captions_add(struct shard_writer *w, int64_t i, const struct captions *o)
{
	int64_t shape[3] = {TINT_CHANNELS, TINT_SIDE, TINT_SIDE};
	enum caption_fault fault = i == o->bad_at ? o->fault : SOUND;
	struct shard_member m[5];
	struct str bytes[5] = {{0}};
	float v[4][TINT];
	char *key = str_new("t%05d", (int)i);
	struct err e = {0};
	int n = 0;

	for (int k = 0; k < TINT; k++) {
		int mirror = k / TINT_SIDE * TINT_SIDE + TINT_SIDE - 1 - k % TINT_SIDE;

		v[0][k] = tint_mean(i, k);
		v[1][k] = tint_std(i, k);
		v[2][k] = tint_mean(i, mirror) + .25f;
		v[3][k] = 3 * tint_std(i, mirror);
	}
	if (o->flip && fault != NO_FLIP)
		captions_member(&m[n], &bytes[n], "flip.npy", NPY_F4, 3, shape, v[2]), n++;
	if (o->flip && o->std && fault != NO_FLIP_STD)
		captions_member(&m[n], &bytes[n], "flip.std.npy", NPY_F4, 3, shape, v[3]), n++;
	captions_member(&m[n], &bytes[n], "npy", NPY_F4, 3, shape, v[0]), n++;
	if (o->std && fault != NO_STD) {
		shape[1] -= fault == ODD_STD;
		captions_member(&m[n], &bytes[n], "std.npy", NPY_F4, 3, shape, v[1]), n++;
	}
	n += text_member(&m[n], &bytes[n], i, fault);
	if (shard_add(w, key, m, n, &e))
		fail_msg("%s", e.msg);
	for (int k = 0; k < 5; k++)
		str_release(&bytes[k]);
	mem_free(key);
}

/* Write the data set to PARENT/NAME. Caller frees the returned path with mem_free. */
static inline char *make_captions(const char *parent, const char *name, const struct captions *o)
{
	char *root = path_join(parent, name), *null = path_join(root, "null-text.npy");
	int64_t shape[2] = {1, WIDTH};
	struct manifest_row row[2] = {{0}};
	struct err e = {0};
	float v[WIDTH];

	for (int s = 0; s < 2; s++) {
		char *file = manifest_name(0, s, 0), *full = path_join(root, file), *slash = strrchr(full, '/');
		struct shard_writer *w;

		*slash = 0;
		assert_int_equal(dir_make(full, &e), 0);
		*slash = '/';
		w = shard_create(full, NULL, &e);
		assert_non_null(w);
		for (int64_t i = s ? TINTED : 0; i < (s ? TINTED + TINTED_HELD : TINTED); i++)
			captions_add(w, i, o);
		assert_int_equal(shard_commit(w, &row[s], &e), 0);
		row[s].path = file;
		row[s].cluster = 0;
		row[s].holdout = s;
		mem_free(full);
	}
	assert_int_equal(manifest_write(root, row, 2, 1, NULL, &e), 0);
	for (int c = 0; c < WIDTH; c++)
		v[c] = null_text(0, c);
	assert_int_equal(npy_write(null, NPY_F4, 2, shape, v, &e), 0);
	for (int s = 0; s < 2; s++)
		manifest_row_release(&row[s]);
	mem_free(null);
	return root;
}

#endif
