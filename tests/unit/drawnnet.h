/* Writes files of whole networks with pseudorandom weights (tests/unit/drawn.h). */
#ifndef DDM_TESTS_DRAWNNET_H
#define DDM_TESTS_DRAWNNET_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "tests/unit/drawn.h"

struct drawing {
	struct st_tensor t[512];
	int n;
};

/* Add a float16 tensor with values drawn by its name. */
static inline void add(struct drawing *d, const char *name, int rank, const int64_t *shape, float scale, float shift)
{
	struct st_tensor *t = &d->t[d->n++];
	uint32_t seed = drawn_seed(name);
	uint16_t *v;
	int64_t n = 1;

	*t = (struct st_tensor){.name = str_new("%s", name), .type = ST_F16, .rank = rank};
	memcpy(t->shape, shape, (size_t)rank * sizeof *shape);
	for (int i = 0; i < rank; i++)
		n *= shape[i];
	v = mem_alloc((size_t)n * sizeof *v);
	for (int64_t i = 0; i < n; i++)
		v[i] = drawn(seed, i, scale, shift);
	t->data = v;
}

static inline float he(int64_t fan)
{
	return sqrtf(6.f / (float)fan);
}

static inline char *save(struct drawing *d, const char *file)
{
	struct err e = {0};
	char *path = str_new("%s/%s", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", file);

	if (st_write(path, d->t, d->n, NULL, 0, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < d->n; i++) {
		mem_free((char *)d->t[i].name);
		mem_free((void *)d->t[i].data);
	}
	d->n = 0;
	return path;
}

/* ---- LPIPS: trunks and heads ---- */

static inline void add_layer(struct drawing *d, int number, const char *sub, int64_t in, int64_t out, int64_t k)
{
	int64_t shape[4] = {out, in, k, k};
	char name[96];

	snprintf(name, sizeof name, "features.%d%s.weight", number, sub);
	add(d, name, 4, shape, he(in * k * k), 0);
	snprintf(name, sizeof name, "features.%d%s.bias", number, sub);
	add(d, name, 1, shape, .25f, 0);
}

static inline void add_alex(struct drawing *d)
{
	add_layer(d, 0, "", 3, 64, 11);
	add_layer(d, 3, "", 64, 192, 5);
	add_layer(d, 6, "", 192, 384, 3);
	add_layer(d, 8, "", 384, 256, 3);
	add_layer(d, 10, "", 256, 256, 3);
}

static inline void add_vgg(struct drawing *d)
{
	static const int number[13] = {0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28};
	static const int64_t width[14] = {3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512};

	for (int i = 0; i < 13; i++)
		add_layer(d, number[i], "", width[i], width[i + 1], 3);
}

static inline void add_squeeze(struct drawing *d)
{
	static const int64_t fires[][4] = {{3, 64, 16, 64},   {4, 128, 16, 64},   {6, 128, 32, 128},  {7, 256, 32, 128},
	                                   {9, 256, 48, 192}, {10, 384, 48, 192}, {11, 384, 64, 256}, {12, 512, 64, 256}};

	add_layer(d, 0, "", 3, 64, 3);
	for (size_t i = 0; i < sizeof fires / sizeof *fires; i++) {
		add_layer(d, (int)fires[i][0], ".squeeze", fires[i][1], fires[i][2], 1);
		add_layer(d, (int)fires[i][0], ".expand1x1", fires[i][2], fires[i][3], 1);
		add_layer(d, (int)fires[i][0], ".expand3x3", fires[i][2], fires[i][3], 3);
	}
}

/* The weights of an LPIPS head are not negative. */
static inline char *save_heads(const char *file, int n, const int64_t *width)
{
	static struct drawing d;

	for (int i = 0; i < n; i++) {
		int64_t shape[4] = {1, width[i], 1, 1};
		char name[64];
		uint16_t *v;

		snprintf(name, sizeof name, "lin%d.model.1.weight", i);
		add(&d, name, 4, shape, he(width[i]), 0);
		v = (uint16_t *)d.t[d.n - 1].data;
		for (int64_t c = 0; c < width[i]; c++)
			v[c] &= 0x7fff;
	}
	return save(&d, file);
}

#endif
