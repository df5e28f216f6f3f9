/* Reads a golden of tests/golden/pretrained: a folder of weights as a library saved them, and io.safetensors with inputs and expected outputs. */
#ifndef DDM_TESTS_PRETRAINED_H
#define DDM_TESTS_PRETRAINED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/safetensors.h"
#include "kernels/device.h"

/* Relative to the largest value. Both sides compute in float, but add in a different order. */
static const double TOL = 1e-5;

struct golden {
	char *dir;
	struct safetensors *io;
	struct device *device;
};

static inline void golden_open(struct golden *g, const char *name)
{
	struct err e = {0};
	const char *set = getenv("DDM_TEST_PRETRAINED"), *base = set ? set : "tests/golden/pretrained"; /* tests/peers makes others */
	char *path = str_new("%s/%s/io.safetensors", base, name);

	g->dir = str_new("%s/%s", base, name);
	g->io = st_open(path, &e);
	if (!g->io)
		fail_msg("%s", e.msg);
	g->device = device_cpu(NULL, DT_F32);
	mem_free(path);
}

static inline void golden_close(struct golden *g)
{
	st_free(g->io);
	device_free(g->device);
	mem_free(g->dir);
}

/* The values of a tensor, or NULL if there is none. Caller frees with mem_free. */
static inline float *reals(const struct golden *g, const char *name)
{
	const struct st_tensor *t = st_find(g->io, name);
	float *v = t ? mem_zalloc((size_t)st_count(t), sizeof *v) : NULL;

	if (t)
		st_to_f32(v, t);
	return v;
}

/* The largest error of got (n, rows, width), relative to the largest value. The golden holds every `step`-th row, beginning with the first. */
static inline double error_rows(const struct golden *g, const char *name, const float *got, int64_t rows, int64_t step)
{
	const struct st_tensor *t = st_find(g->io, name);
	float *want = reals(g, name);
	int64_t width, held = (rows + step - 1) / step;
	double worst = 0, largest = 0;

	assert_non_null(want);
	width = t->shape[t->rank - 1];
	assert_int_equal(st_count(t) % (held * width), 0);
	for (int64_t i = 0; i < st_count(t); i++) {
		int64_t row = i / width, at = (row / held * rows + row % held * step) * width + i % width;
		double d = fabs((double)got[at] - (double)want[i]);

		worst = d > worst || isnan(d) ? d : worst;
		largest = fmax(largest, fabs((double)want[i]));
	}
	mem_free(want);
	return worst / largest;
}

static inline void compare_rows(const struct golden *g, const char *name, const float *got, int64_t rows, int64_t step)
{
	double off = error_rows(g, name, got, rows, step);

	if (!(off <= TOL))
		fail_msg("%s: %s is off by %.2g of the largest value", g->dir, name, off);
}

static inline void compare(const struct golden *g, const char *name, const float *got)
{
	compare_rows(g, name, got, 1, 1);
}

#endif
