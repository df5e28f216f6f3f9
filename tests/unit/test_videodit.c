/* Networks for clips: the published counts of parameters, weights that do not depend on the number of frames, configurations that are refused, and
 * what attention across frames sees. tests/unit/test_net_golden.c compares the numbers with PyTorch. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "net/net.h"

static struct net_config config(const char *preset, int64_t frames, int64_t size, int64_t channels)
{
	struct net_config c = {0};
	struct err e = {0};

	net_init(&c, net_first(NET_EXPERT));
	if (net_preset(preset, &c, &e))
		fail_msg("%s", e.msg);
	net_init(&c, c.def);
	assert_int_equal(net_preset(preset, &c, &e), 0);
	c.channels = c.out_channels = channels;
	c.size = size;
	c.frames = frames;
	return c;
}

static int64_t count(const struct net_config *c)
{
	struct params p = {0};
	int64_t n;

	net_params(c, &p);
	n = params_count(&p, 1);
	params_release(&p);
	return n;
}

/* Wan 2.1: the counts of its published weights, with 16 channels and UMT5's features of width 4096. The shape between them is L (8 d^2 + 2 d f + 21 d
 * + f) + 7 d^2 + .. of the same formula. Recording these networks allocates no weights. */
static void wan_counts(void **state)
{
	static const struct {
		const char *preset;
		int64_t count;
	} v[] = {{"vdit-wan-1.3b/1x2", 1418996800}, {"vdit-wan-14b/1x2", 14288491584}, {"vdit-wan-11b/1x2", 11162673216}};

	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		struct net_config c = config(v[i].preset, 1, 8, 16);

		c.text_tokens = 512;
		c.text_width = 4096;
		assert_int_equal(net_check(&c, NULL), 0);
		assert_int_equal(count(&c), v[i].count);
	}
}

/* A U-Net sees a clip as one picture whose channels are those of all frames: the same weights and the same numbers. */
static void unet_folds(void **state)
{
	enum { F = 3, C = 2, S = 8, ROW = F * C * S * S };
	struct net_config clip = config("unet-nano", F, S, C), picture = config("unet-nano", 0, S, F * C);
	struct params p[2] = {{0}, {0}};
	float x[2 * ROW], t[2] = {.3f, .8f}, out[2][2 * ROW];
	struct device *d = device_cpu(NULL, DT_F32);
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 2 * ROW; i++)
		x[i] = (float)((i * 37 + 11) % 101) / 50 - 1;
	for (int i = 0; i < 2; i++) {
		const struct net_config *c = i ? &picture : &clip;
		struct tape *tape = tape_new(DT_F32, 2);
		struct net_input in = {0};
		struct tensor *y;
		float *w;

		net_inputs(tape, c, &in);
		assert_int_equal(in.x->rank, i ? 4 : 5);
		y = net_record(tape, &p[i], c, &in);
		assert_int_equal(y->rank, in.x->rank);
		tape_keep(tape, y);
		params_layout(&p[i]);
		tape_layout(tape, d, NULL);
		assert_int_equal(tape_allocate(tape, &e), 0);
		w = mem_zalloc((size_t)p[i].total, sizeof *w);
		for (int64_t k = 0; k < p[i].total; k++)
			w[k] = (float)((k * 53 + 7) % 97) / 970 - .05f;
		tape_bind_params(tape, w, NULL);
		tape_bind(tape, in.x, x);
		tape_bind(tape, in.time, t);
		tape_run(tape, 2, 0, tape_mark(tape));
		memcpy(out[i], tape_data(tape, y), sizeof out[i]);
		tape_free(tape);
		mem_free(w);
	}
	assert_int_equal(p[0].n, p[1].n);
	assert_int_equal(p[0].total, p[1].total);
	assert_memory_equal(out[0], out[1], sizeof out[0]);
	assert_true(out[0][0] != out[0][1]);
	params_release(&p[0]);
	params_release(&p[1]);
	device_free(d);
}

/* DiT's blocks with norms of queries and keys: L (4 d^2 + 4 d + 8 d^2 + 5 d + 6 d^2 + 6 d + 2 width) and the layers around them. */
static void small_counts(void **state)
{
	static const struct {
		const char *name;
		int64_t d, depth, heads;
	} v[] = {{"nano", 96, 4, 4}, {"micro", 128, 6, 4}, {"mini", 192, 6, 6}, {"s", 384, 12, 6},
	         {"b", 768, 12, 12}, {"l", 1024, 24, 16},  {"xl", 1152, 28, 16}};

	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		char preset[32];
		int64_t d = v[i].d, patch = 2 * 4 * 4 * 3, blocks = v[i].depth * (18 * d * d + 15 * d + 2 * d / v[i].heads);
		struct net_config c;

		snprintf(preset, sizeof preset, "vdit-%s/2x4", v[i].name);
		c = config(preset, 4, 8, 3);
		assert_int_equal(net_check(&c, NULL), 0);
		assert_int_equal(count(&c), blocks + patch * d + d + 257 * d + d * d + d + 2 * d * d + 2 * d + (d + 1) * patch);
	}
}

static void frames_are_free(void **state)
{
	struct net_config c = config("vdit-full-text-nano/1x2", 1, 8, 3);
	struct params p = {0}, q = {0};

	(void)state;
	c.text_tokens = 3;
	c.text_width = 5;
	net_params(&c, &p);
	c.frames = 7;
	net_params(&c, &q);
	assert_int_equal(p.n, q.n);
	for (int i = 0; i < p.n; i++) {
		assert_string_equal(p.v[i].name, q.v[i].name);
		assert_memory_equal(p.v[i].shape, q.v[i].shape, (size_t)p.v[i].rank * sizeof *p.v[i].shape);
	}
	params_release(&p);
	params_release(&q);
}

static void refused(void **state)
{
	struct net_config c = config("vdit-nano/2x4", 3, 8, 3);
	struct err e = {0};

	(void)state;
	assert_int_equal(net_check(&c, &e), -1);
	assert_non_null(strstr(e.msg, "patches of 2 frames do not divide clips of 3 frames"));
	c.frames = 0;
	e = (struct err){0};
	assert_int_equal(net_check(&c, &e), -1);
	assert_non_null(strstr(e.msg, "is for clips"));
	c = config("dit-nano/4", 3, 8, 3);
	e = (struct err){0};
	assert_int_equal(net_check(&c, &e), -1);
	assert_non_null(strstr(e.msg, "clips of 3 frames"));
	c = config("vdit-nano/1x4", 1 << 20, 16, 3);
	e = (struct err){0};
	assert_int_equal(net_check(&c, &e), -1);
	assert_non_null(strstr(e.msg, "16777216 tokens is longer than 4194304"));
	c = config("vdit-nano/1x4", 4, 8, 3);
	e = (struct err){0};
	assert_int_equal(net_check(&c, &e), 0);
	c.out_channels = 6;
	assert_int_equal(net_check(&c, &e), -1);
	for (size_t i = 0; i < 6; i++) {
		static const char *const names[] = {"vdit-nano/4",  "vdit-nano/x4",          "vdit-nano/0x4",
		                                    "vdit-nano/1x", "vdit-text-wan-14b/1x2", "vdit-full-wan-14b/1x2"};

		assert_int_equal(net_preset(names[i], &c, &e), -1);
	}
}

/* The output of a network with random weights on x, one clip. */
static void run(const struct net_config *c, const float *x, float *out)
{
	struct tape *t = tape_new(DT_F32, 1);
	struct device *d = device_cpu(NULL, DT_F32);
	struct params p = {0};
	struct net_input in = {0};
	struct tensor *y;
	float time = .5f, *values;

	net_inputs(t, c, &in);
	y = net_record(t, &p, c, &in);
	tape_keep(t, y);
	params_layout(&p);
	values = mem_zalloc((size_t)p.total, sizeof *values);
	rng_normal(values, (size_t)p.total, 3, RNG_TEST, 0, 0);
	for (int64_t i = 0; i < p.total; i++)
		values[i] *= .1f;
	tape_layout(t, d, &(struct plan_options){.poison = 1});
	assert_int_equal(tape_allocate(t, NULL), 0);
	tape_bind(t, in.x, (void *)(uintptr_t)x);
	tape_bind(t, in.time, &time);
	tape_bind_params(t, values, NULL);
	tape_run(t, 1, 0, tape_mark(t));
	memcpy(out, tape_data(t, y), (size_t)net_elements(c) * sizeof *out);
	tape_free(t);
	device_free(d);
	params_release(&p);
	mem_free(values);
}

/* A change of one pixel of frame 1: with one block, which attends within frames, only frame 1 of the output changes; with two, the second of which
 * attends across frames, all do. */
static void sees_across_frames(void **state)
{
	enum { FRAMES = 3, EACH = 3 * 8 * 8, ALL = FRAMES * EACH };
	float x[ALL], a[ALL], b[ALL];

	(void)state;
	rng_normal(x, ALL, 4, RNG_TEST, 0, 0);
	for (int64_t depth = 1; depth <= 2; depth++) {
		struct net_config c = config("vdit-nano/1x4", FRAMES, 8, 3);

		assert_int_equal(net_shape_set(&c, "depth", depth, NULL), 0);
		run(&c, x, a);
		x[EACH + 5] += 1;
		run(&c, x, b);
		x[EACH + 5] -= 1;
		for (int f = 0; f < FRAMES; f++) {
			int same = !memcmp(a + f * EACH, b + f * EACH, EACH * sizeof *a);

			assert_int_equal(same, depth == 1 && f != 1);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wan_counts),      cmocka_unit_test(small_counts), cmocka_unit_test(unet_folds),
	    cmocka_unit_test(frames_are_free), cmocka_unit_test(refused),      cmocka_unit_test(sees_across_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
