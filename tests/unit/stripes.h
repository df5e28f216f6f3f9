/* Makes a data set for tests: a SHARDS folder with two clusters of small striped pictures. */
#ifndef DDM_TESTS_STRIPES_H
#define DDM_TESTS_STRIPES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/npy.h"
#include "file/shard.h"

enum { S = 8, EACH = 24, HELD = 8 };

enum { ALL_POISONED = 1, SOME_POISONED /* every eighth sample, from number 5 on, has one infinity */ };

/* Cluster 0: horizontal stripes; cluster 1: vertical stripes. Phase and contrast vary. A third of the samples have no class, the others 0 or 1. */
static void add_sample(struct shard_writer *w, int cluster, int64_t i, int poisoned)
{
	int64_t shape[3] = {1, S, S};
	float v[S * S], contrast = .5f + .5f * (float)rng_uniform(3, RNG_TEST, (uint64_t)cluster, (uint64_t)i, 0);
	double phase = 6.28 * rng_uniform(3, RNG_TEST, (uint64_t)cluster, (uint64_t)i, 1);
	struct str bytes = {0};
	struct shard_member m[2] = {{.ext = "npy"}, {.ext = "cls"}};
	char *key = str_new("k%d/%05d", cluster, (int)i);
	struct err e = {0};

	for (int y = 0; y < S; y++)
		for (int x = 0; x < S; x++)
			v[y * S + x] = poisoned == ALL_POISONED ? NAN : contrast * (float)sin(phase + 1.57 * (cluster ? x : y));
	if (poisoned == SOME_POISONED && i % 8 == 5)
		v[S] = INFINITY;
	npy_encode(&bytes, NPY_F4, 3, shape, v);
	m[0].data = (uint8_t *)bytes.p;
	m[0].size = bytes.len;
	m[1].data = (const uint8_t *)(i % 4 ? "0" : "1");
	m[1].size = 1;
	assert_int_equal(shard_add(w, key, m, i % 3 ? 2 : 1, &e), 0);
	str_release(&bytes);
	mem_free(key);
}

/* Write the data set to PARENT/NAME. Caller frees the returned path with mem_free. */
static char *make_shards(const char *parent, const char *name, int poisoned, int classes)
{
	char *root = path_join(parent, name);
	struct stamp *stamp;
	struct manifest_row row[4] = {{0}};
	struct err e = {0};

	for (int s = 0; s < 4; s++) {
		int cluster = s / 2, held = s % 2;
		char *file = manifest_name(cluster, held, 0), *full = path_join(root, file), *slash = strrchr(full, '/');
		struct shard_writer *w;

		*slash = 0;
		assert_int_equal(dir_make(full, &e), 0);
		*slash = '/';
		w = shard_create(full, NULL, &e);
		assert_non_null(w);
		for (int64_t i = 0; i < (held ? HELD : EACH); i++)
			add_sample(w, cluster, i + held * EACH, poisoned);
		assert_int_equal(shard_commit(w, &row[s], &e), 0);
		row[s].path = file;
		row[s].cluster = cluster;
		row[s].holdout = held;
		mem_free(full);
	}
	stamp = stamp_new("test");
	if (classes)
		stamp_i64(stamp, "classes", classes);
	assert_int_equal(manifest_write(root, row, 4, 2, stamp, &e), 0);
	stamp_free(stamp);
	for (int s = 0; s < 4; s++)
		manifest_row_release(&row[s]);
	return root;
}

#endif
