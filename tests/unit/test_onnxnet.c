/* onnxnet: ONNX graphs of every operator against ONNX Runtime (tests/golden/onnx_values.py), at other sizes and on one thread; what is refused, and
 * why; a detector's map as boxes of text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "data/textarea.h"
#include "file/onnx.h"
#include "net/onnxnet.h"
#include "tests/golden/onnx_values.h"
#include "tests/unit/formula.h"

enum { H = 64, W = 96, SAMPLED = 61 };

static struct pool *pool;
static struct device *device;

static char *path_of(const char *name)
{
	return str_new("tests/golden/onnx/%s.onnx", name);
}

/* Leave a test in a build without protobuf-c. */
static void need_protobuf(void)
{
	struct err e = {0};

	onnx_free(onnx_open_memory("", 0, "", &e));
	if (e.code != ERR_UNAVAILABLE)
		return;
	print_message("skipped: %s\n", e.msg);
	skip();
}

static struct onnxnet *net_open(const char *name, struct err *e)
{
	char *path = path_of(name);
	struct onnxnet *n = onnxnet_open(path, 3, device, e);

	mem_free(path);
	return n;
}

/* x (h, w, 3): the picture of onnx_values.py, which has (3, H, W), repeated beyond its sides. */
static void picture_make(float *x, int h, int w)
{
	for (int y = 0; y < h; y++)
		for (int i = 0; i < w; i++)
			for (int c = 0; c < 3; c++)
				*x++ = (float)formula_uniform((uint32_t)((c * H + y % H) * W + i % W), 99);
}

static void compare(const char *name, const float *want, int n, int channels)
{
	static float x[H * W * 3], y[H * W * 2];
	struct err e = {0};
	struct onnxnet *net = net_open(name, &e);
	int64_t out[3];

	assert_string_equal(e.msg, "");
	picture_make(x, H, W);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(onnxnet_plan(net, H, W, out, &e), 0);
		assert_true(out[0] == H && out[1] == W && out[2] == channels);
		assert_int_equal(onnxnet_run(net, x, y, &e), 0);
		for (int i = 0; i < n; i++)
			if (!(fabsf(y[i * SAMPLED] - want[i]) <= 2e-6f + 1e-5f * fabsf(want[i])))
				fail_msg("%s: number %d is %.9g, not %.9g", name, i * SAMPLED, (double)y[i * SAMPLED], (double)want[i]);
	}
	onnxnet_free(net);
}

static void test_operators(void **state)
{
	(void)state;
	need_protobuf();
	compare("every", golden_every, sizeof golden_every / sizeof *golden_every, 1);
	compare("old", golden_old, sizeof golden_old / sizeof *golden_old, 1);
	compare("ten", golden_ten, sizeof golden_ten / sizeof *golden_ten, 1);
	compare("wide", golden_wide, sizeof golden_wide / sizeof *golden_wide, 2);
}

/* A network of pixels: a larger picture that repeats the smaller one gives its numbers again. */
static void test_sizes(void **state)
{
	static float x[2 * H * W * 3], small[H * W * 2], large[2 * H * W * 2];
	struct err e = {0};
	struct onnxnet *net = net_open("wide", &e);
	int64_t out[3];

	(void)state;
	need_protobuf();
	picture_make(x, 2 * H, W);
	assert_int_equal(onnxnet_plan(net, H, W, out, &e), 0);
	assert_int_equal(onnxnet_run(net, x, small, &e), 0);
	assert_int_equal(onnxnet_plan(net, 2 * H, W, out, &e), 0);
	assert_true(out[0] == 2 * H && out[1] == W && out[2] == 2);
	assert_int_equal(onnxnet_run(net, x, large, &e), 0);
	assert_memory_equal(large, small, sizeof small);
	assert_memory_equal(large + H * W * 2, small, sizeof small);
	onnxnet_free(net);
	net = net_open("every", &e);
	assert_int_equal(onnxnet_plan(net, 2, 2, out, &e), -1); /* a convolution of half the size, then windows of 4 x 4 */
	assert_int_equal(e.code, ERR_DATA);
	onnxnet_free(net);
}

static void test_threads(void **state)
{
	static float x[H * W * 3], y[2][H * W];
	struct device *const all = device;

	(void)state;
	need_protobuf();
	picture_make(x, H, W);
	for (int threads = 1; threads <= 2; threads++) {
		struct err e = {0};
		struct pool *p = pool_new(threads == 1 ? 1 : 3, &e);
		struct onnxnet *net;
		int64_t out[3];

		device = device_cpu(p, DT_F32);
		net = net_open("every", &e);
		assert_int_equal(onnxnet_plan(net, H, W, out, &e), 0);
		assert_int_equal(onnxnet_run(net, x, y[threads - 1], &e), 0);
		onnxnet_free(net);
		device_free(device);
		pool_free(p);
	}
	device = all;
	assert_memory_equal(y[0], y[1], sizeof y[0]);
}

static void test_refused(void **state)
{
	static const struct {
		const char *name, *why;
	} bad[] = {{"bad-operator", "\"Softmax\" (node 0) is not among the operators"},
	           {"bad-groups", "\"Conv\" (node 1) has groups of more than one channel"},
	           {"bad-dilated", "\"Conv\" (node 0) is dilated"},
	           {"bad-sizes", "\"Add\" (node 1) combines pictures of unlike sizes"},
	           {"bad-shape", "\"Reshape\" (node 0) has a shape that does not fit"},
	           {"bad-join", "\"Concat\" (node 0) joins too many pictures"},
	           {"bad-link", "\"Relu\" reads \"nowhere\", which nothing made before it"},
	           {"bad-twice", "two values are called \"v1\""},
	           {"bad-elsewhere", "the tensor \"t1\" lies in another file"},
	           {"bad-tensor", "the tensor \"t1\" has more or fewer elements than its shape"},
	           {"bad-inputs", "a graph of 2 inputs and 1 outputs"}};

	(void)state;
	need_protobuf();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct err e = {0};

		assert_null(net_open(bad[i].name, &e));
		assert_int_equal(e.code, ERR_DATA);
		if (!strstr(e.msg, bad[i].why))
			fail_msg("%s: \"%s\" is not in \"%s\"", bad[i].name, bad[i].why, e.msg);
	}
	for (size_t i = 0; i < 2; i++) {
		struct err e = {0};

		assert_null(onnx_open_memory("no protobuf", i ? 11 : 0, "here", &e));
		assert_int_equal(e.code, ERR_DATA);
		assert_string_equal(e.msg, "here: no ONNX file, or a broken one");
	}
}

/* ---- boxes ---- */

/* A box with this probability in a map of 40 x 100. */
static void box_draw(float *map, int left, int top, int width, int height, float p)
{
	for (int y = top; y < top + height; y++)
		for (int x = left; x < left + width; x++)
			map[y * 100 + x] = p;
}

static void test_boxes(void **state)
{
	static float map[40 * 100];

	(void)state;
	assert_true(textarea_of_map(map, 40, 100) == 0);
	/* 20 x 5 pixels: 1.5 * 100 / 50 = 3 pixels on each side */
	box_draw(map, 30, 10, 20, 5, 1);
	assert_true(textarea_of_map(map, 40, 100) == 26. * 11 / 4000);
	/* at the border, where nothing can be added on two sides: 23 x 8 */
	box_draw(map, 80, 35, 20, 5, .9f);
	assert_true(textarea_of_map(map, 40, 100) == (26. * 11 + 23. * 8) / 4000);
	/* too low, too thin, not sure enough, and below the threshold */
	box_draw(map, 5, 20, 30, 2, 1);
	box_draw(map, 5, 25, 2, 10, 1);
	box_draw(map, 50, 25, 20, 5, .5f);
	box_draw(map, 20, 25, 20, 8, .29f);
	assert_true(textarea_of_map(map, 40, 100) == (26. * 11 + 23. * 8) / 4000);
	/* boxes that overlap count once */
	memset(map, 0, sizeof map);
	box_draw(map, 10, 10, 20, 5, 1);
	box_draw(map, 32, 10, 20, 5, 1);
	assert_true(textarea_of_map(map, 40, 100) == 48. * 11 / 4000);
	/* corners join: a diagonal of 10 pixels is one region of 10 x 10, 1.5 * 10 / 40 = 0 pixels more */
	memset(map, 0, sizeof map);
	for (int i = 0; i < 10; i++)
		map[i * 101] = 1;
	assert_true(textarea_of_map(map, 40, 100) == 100. / 4000);
	for (int i = 0; i < 4000; i++)
		map[i] = 1;
	assert_true(textarea_of_map(map, 40, 100) == 1);
}

/* A picture with a white bar: the detector of bright pixels marks it, whatever the size of the picture. */
static void test_score(void **state)
{
	char *path = path_of("bright");
	struct err e = {0};
	struct textarea *t = textarea_open(path, device, &e);
	double share;

	(void)state;
	need_protobuf();
	assert_string_equal(e.msg, "");
	for (int side = 240; side <= 960; side *= 2)
		for (int channels = 1; channels <= 3; channels += 2) {
			struct picture p;
			int line = side * channels;

			picture_alloc(&p, side, side, channels, &e);
			memset(p.pixels, 60, (size_t)side * (size_t)line);
			for (int y = side / 2; y < side / 2 + side / 12; y++) /* 1/2 x 1/12 of the picture */
				memset(p.pixels + y * line + line / 4, 255, (size_t)line / 2);
			assert_int_equal(textarea_score(t, &share, &p, &e), 0);
			/* 320 x 53 of 640 x 640 pixels: 34 pixels more on each side */
			if (fabs(share - 388. * 121 / (640 * 640)) > .008) /* the resized edge may lie a pixel further in */
				fail_msg("side %d, %d channels: %g", side, channels, share);
			memset(p.pixels, 60, (size_t)side * (size_t)line);
			assert_int_equal(textarea_score(t, &share, &p, &e), 0);
			assert_true(share == 0);
			picture_release(&p);
		}
	textarea_free(t);
	mem_free(path);
	path = path_of("wide"); /* makes two channels */
	t = textarea_open(path, device, &e);
	assert_null(t);
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, "no detector of text: it makes 64 x 64 numbers of 2 channels of a picture of 64 x 64"));
	mem_free(path);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {cmocka_unit_test(test_operators), cmocka_unit_test(test_sizes), cmocka_unit_test(test_threads),
	                                          cmocka_unit_test(test_refused),   cmocka_unit_test(test_boxes), cmocka_unit_test(test_score)};
	struct err e = {0};
	int rc;

	pool = pool_new(2, &e);
	device = device_cpu(pool, DT_F32);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	device_free(device);
	pool_free(pool);
	return rc;
}
