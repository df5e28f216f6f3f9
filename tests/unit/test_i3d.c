/* i3d: the network against PyTorch's three-dimensional layers, with weights that both make by a formula; files that lack a tensor. */
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

#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "file/safetensors.h"
#include "net/i3d.h"
#include "tests/golden/i3d_values.h"
#include "tests/unit/formula.h"

enum { TENSORS_MAX = 400 };

struct made {
	struct st_tensor v[TENSORS_MAX];
	int n;
	int64_t channels; /* of the output of the last convolution */
};

static void add(struct made *m, char *name, int rank, const int64_t *shape, double scale, double offset)
{
	struct st_tensor *t = &m->v[m->n++];
	int64_t count;
	float *x;

	*t = (struct st_tensor){.name = name, .type = ST_F32, .rank = rank};
	memcpy(t->shape, shape, (size_t)rank * sizeof *shape);
	count = st_count(t);
	x = mem_alloc((size_t)count * sizeof *x);
	for (int64_t i = 0; i < count; i++)
		x[i] = (float)(offset + scale * formula_uniform((uint32_t)i, (uint32_t)m->n));
	t->data = x;
}

static void add_conv(struct made *m, const char *name, int64_t in, int64_t out, int64_t k)
{
	const int64_t shape[5] = {out, in, k, k, k};

	add(m, str_new("%s.conv3d.weight", name), 5, shape, sqrt(6 / (double)(in * k * k * k)), 0);
	add(m, str_new("%s.bn.weight", name), 1, &out, .2, 1);
	add(m, str_new("%s.bn.bias", name), 1, &out, .1, 0);
	add(m, str_new("%s.bn.running_mean", name), 1, &out, .1, 0);
	add(m, str_new("%s.bn.running_var", name), 1, &out, .5, 1);
	m->channels = out;
}

static void add_mixed(struct made *m, const char *name, const int64_t o[6])
{
	static const char *const part[6] = {"b0", "b1a", "b1b", "b2a", "b2b", "b3b"};
	const int64_t in = m->channels, from[6] = {in, in, o[1], in, o[3], in}, k[6] = {1, 1, 3, 1, 3, 1};

	for (int i = 0; i < 6; i++) {
		char *whole = str_new("%s.%s", name, part[i]);

		add_conv(m, whole, from[i], o[i], k[i]);
		mem_free(whole);
	}
	m->channels = o[0] + o[2] + o[4] + o[5];
}

static void add_all(struct made *m)
{
	add_conv(m, "Conv3d_1a_7x7", 3, 64, 7);
	add_conv(m, "Conv3d_2b_1x1", 64, 64, 1);
	add_conv(m, "Conv3d_2c_3x3", 64, 192, 3);
	add_mixed(m, "Mixed_3b", (const int64_t[]){64, 96, 128, 16, 32, 32});
	add_mixed(m, "Mixed_3c", (const int64_t[]){128, 128, 192, 32, 96, 64});
	add_mixed(m, "Mixed_4b", (const int64_t[]){192, 96, 208, 16, 48, 64});
	add_mixed(m, "Mixed_4c", (const int64_t[]){160, 112, 224, 24, 64, 64});
	add_mixed(m, "Mixed_4d", (const int64_t[]){128, 128, 256, 24, 64, 64});
	add_mixed(m, "Mixed_4e", (const int64_t[]){112, 144, 288, 32, 64, 64});
	add_mixed(m, "Mixed_4f", (const int64_t[]){256, 160, 320, 32, 128, 128});
	add_mixed(m, "Mixed_5b", (const int64_t[]){256, 160, 320, 32, 128, 128});
	add_mixed(m, "Mixed_5c", (const int64_t[]){384, 192, 384, 48, 128, 128});
	add(m, mem_strdup("logits.conv3d.weight"), 5, (const int64_t[]){I3D_CLASSES, m->channels, 1, 1, 1}, sqrt(3. / 1024), 0);
	add(m, mem_strdup("logits.conv3d.bias"), 1, (const int64_t[]){I3D_CLASSES}, .1, 0);
}

static struct made made;
static char path[] = "/tmp/ddm-i3d-XXXXXX";
static struct pool *pool;
static struct device *device;

static int prepare(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	pool = pool_new(0, NULL);
	device = device_cpu(pool, DT_F32);
	add_all(&made);
	return fd < 0 || close(fd) || unlink(path) || st_write(path, made.v, made.n, NULL, 0, NULL);
}

static int clean(void **state)
{
	(void)state;
	for (int i = 0; i < made.n; i++) {
		mem_free((void *)(uintptr_t)made.v[i].name);
		mem_free((void *)(uintptr_t)made.v[i].data);
	}
	device_free(device);
	pool_free(pool);
	return unlink(path);
}

/* Both sum in float, in other orders, over 1e4 terms a layer: 1e-4 of the largest logit. */
static void logits(void **state)
{
	int64_t n = (int64_t)I3D_FRAMES * I3D_SIDE * I3D_SIDE * 3, i = 0;
	struct i3d *net = i3d_open(path, 1e-5, device, NULL);
	float *x = mem_alloc((size_t)n * sizeof *x), out[I3D_CLASSES];
	double largest = 0;

	(void)state;
	assert_non_null(net);
	for (int t = 0; t < I3D_FRAMES; t++)
		for (int y = 0; y < I3D_SIDE; y++)
			for (int u = 0; u < I3D_SIDE; u++)
				for (int c = 0; c < 3; c++, i++)
					x[i] = (float)(.8 * sin(.07 * (c + 1) * y + .05 * u + .4 * t) + .2 * formula_uniform((uint32_t)i, 1000));
	assert_int_equal(i3d_run(net, 1, out, x, NULL), 0);
	for (int k = 0; k < I3D_CLASSES; k++)
		largest = fmax(largest, fabs(golden_i3d[k]));
	assert_true(largest > .1);
	for (int k = 0; k < I3D_CLASSES; k++)
		if (!(fabs(out[k] - golden_i3d[k]) < 1e-4 * largest))
			fail_msg("logit %d is %g, not %g", k, out[k], golden_i3d[k]);
	mem_free(x);
	i3d_free(net);
}

/* A file that lacks a tensor, or whose tensor has another shape, is refused by the tensor's name. */
static void refused(void **state)
{
	char other[] = "/tmp/ddm-i3d-XXXXXX";
	int fd = mkstemp(other);

	(void)state;
	assert_true(fd >= 0 && !close(fd));
	for (int k = 0; k < 2; k++) {
		struct st_tensor kept = made.v[1];
		struct err e = {0};

		made.v[1].name = k ? kept.name : "something.else";
		made.v[1].shape[0] -= k;
		assert_int_equal(unlink(other), 0);
		assert_int_equal(st_write(other, made.v, made.n, NULL, 0, NULL), 0);
		made.v[1] = kept;
		assert_null(i3d_open(other, 1e-5, device, &e));
		assert_int_equal(e.code, ERR_DATA);
		assert_non_null(strstr(e.msg, "Conv3d_1a_7x7.bn.weight"));
	}
	assert_int_equal(unlink(other), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(logits), cmocka_unit_test(refused)};

	return cmocka_run_group_tests(tests, prepare, clean);
}
