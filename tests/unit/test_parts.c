/* Matrices of which thirds are read separately, as in a Paris expert's cross attention, in every storage type: as floats they give the bits of plain
 * matrices, rounded ones are close, no bit depends on batch or threads, and they are stored once, or stay in their file. The width is no multiple of
 * a panel, so that a third begins within a panel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "config.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/str.h"
#include "file/commit.h"
#include "net/model.h"
#include "tests/unit/scratch.h"
#include "tests/unit/trunknet.h"

enum { H = 40, DEPTH = 4, SIZE = 4, CHANNELS = 3, D = CHANNELS * SIZE * SIZE, TOKENS = 5, WIDTH = 6, N = 4 };

static struct net_config expert;
#ifdef HAVE_ONEDNN
static const int library = 1; /* of products, with bits of its own */
#else
static const int library = 0;
#endif
static const enum compact_type types[] = {COMPACT_NONE, COMPACT_VIEW, COMPACT_BF16, COMPACT_INT8};
static struct params params;
static float *values, x[N * D], t[N] = {.1f, .4f, .6f, .9f}, text[N * TOKENS * WIDTH];

static int set_up(void **state)
{
	struct model_config m = {.prediction = "velocity", .path = "linear", .cluster = -1};
	char *config, *weights, *said;
	int rc;

	expert = m.net = trunk_net((struct net_config){.def = &net_paris,
	                                               .channels = CHANNELS,
	                                               .out_channels = CHANNELS,
	                                               .size = SIZE,
	                                               .time_scale = 1000,
	                                               .text_tokens = TOKENS,
	                                               .text_width = WIDTH},
	                           (struct trunk_config){.patch = 2, .hidden = H, .depth = DEPTH, .heads = 2, .mlp_ratio = 2, .norm_eps = 1e-5});
	said = model_config_text(&m, NULL);
	if (make_dir(state))
		return -1;
	config = path_join(dir, "config.json");
	weights = path_join(dir, model_weights_name(NET_EXPERT));
	net_params(&expert, &params);
	values = mem_zalloc((size_t)params.total, sizeof *values);
	rng_normal(values, (size_t)params.total, 7, RNG_TEST, 0, 0);
	for (int64_t i = 0; i < params.total; i++)
		values[i] *= .2f;
	rng_normal(x, N * D, 7, RNG_TEST, 1, 0);
	rng_normal(text, N * TOKENS * WIDTH, 7, RNG_TEST, 2, 0);
	rc = commit_bytes(config, said, strlen(said), NULL) || model_write_weights(weights, &params, NULL, values, NULL, 0, NULL);
	mem_free(said);
	mem_free(config);
	mem_free(weights);
	return rc;
}

static int tear_down(void **state)
{
	params_release(&params);
	mem_free(values);
	return remove_dir(state);
}

/* Run the network: out (N, D). Returns the bytes of its weights. */
static int64_t evaluate(enum compact_type bulk, int64_t batch, int threads, float *out)
{
	struct pool *pool = pool_new(threads, NULL);
	struct device *d = device_cpu(pool, DT_F32);
	struct err e = {0};
	struct model *m = model_open(dir, batch, bulk, d, NULL, &e);
	int64_t bytes;

	if (!m)
		fail_msg("%s", e.msg);
	model_run(m, N, &(struct model_input){.x = x, .t = t, .text = text}, out);
	bytes = model_bytes(m);
	model_free(m);
	device_free(d);
	pool_free(pool);
	return bytes;
}

/* The network as in training: every product reads the flat arena. */
static void plainly(float *out)
{
	struct device *d = device_cpu(NULL, DT_F32);
	struct tape *tape = tape_new(DT_F32, N);
	struct params p = {0};
	struct net_input in = {0};
	struct tensor *y;
	struct err e = {0};

	net_inputs(tape, &expert, &in);
	y = net_record(tape, &p, &expert, &in);
	tape_keep(tape, y);
	params_layout(&p);
	tape_layout(tape, d, NULL);
	assert_int_equal(tape_allocate(tape, &e), 0);
	tape_bind(tape, in.x, x);
	tape_bind(tape, in.time, t);
	tape_bind(tape, in.text, text);
	tape_bind_params(tape, values, NULL);
	tape_run(tape, N, 0, tape_mark(tape));
	memcpy(out, tape_data(tape, y), N * D * sizeof *out);
	tape_free(tape);
	params_release(&p);
	device_free(d);
}

/* Root of the mean square of a - b over that of a. */
static double deviation(const float *a, const float *b)
{
	double difference = 0, size = 0;

	for (int i = 0; i < N * D; i++) {
		difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
		size += (double)a[i] * a[i];
	}
	return sqrt(difference / size);
}

static void floats_keep_their_bits(void **state)
{
	float plain[N * D], held[N * D], mapped[N * D];

	(void)state;
	plainly(plain);
	evaluate(COMPACT_NONE, N, 1, held);
	evaluate(COMPACT_VIEW, N, 1, mapped);
	assert_memory_equal(held, mapped, sizeof held);
	if (library)
		assert_true(deviation(plain, held) < 1e-5);
	else
		assert_memory_equal(held, plain, sizeof held);
}

/* As in test_weights: about three times the measured errors. */
static void rounded_stay_near(void **state)
{
	float plain[N * D], half[N * D], eighth[N * D];

	(void)state;
	plainly(plain);
	evaluate(COMPACT_BF16, N, 1, half);
	evaluate(COMPACT_INT8, N, 1, eighth);
	print_message("bf16 off by %.5f, int8 by %.5f\n", deviation(plain, half), deviation(plain, eighth));
	assert_true(deviation(plain, half) > 1e-5 && deviation(plain, half) < 1e-2);
	assert_true(deviation(plain, eighth) > deviation(plain, half) && deviation(plain, eighth) < 2.6e-2);
}

static void batch_and_threads(void **state)
{
	float one[N * D], other[N * D];

	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		evaluate(types[i], N, 1, one);
		evaluate(types[i], 3, 2, other);
		assert_memory_equal(one, other, sizeof one);
	}
}

/* The matrices of a block: 12 H H numbers, in panels of 32 rows. */
static void held_once(void **state)
{
	static const int64_t shape[][2] = {{3 * H, H}, {H, H}, {H, H}, {H, H}, {H, H}, {H, H}, {2 * H, H}, {H, 2 * H}};
	float out[N * D];
	int64_t numbers = 0, floats = 0, rows = 0, cells = 0, rest;

	(void)state;
	for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
		int64_t n = (shape[i][0] + 31) / 32 * 32;
		struct compact w;

		assert_int_equal(compact_init(&w, COMPACT_F32, shape[i][0], shape[i][1], NULL), 0);
		floats += DEPTH * compact_bytes(&w);
		compact_release(&w);
		numbers += DEPTH * shape[i][0] * shape[i][1];
		rows += DEPTH * n;
		cells += DEPTH * n * shape[i][1];
	}
	assert_int_equal(numbers, DEPTH * 12 * H * H);
	rest = 4 * (params.total - numbers);
	assert_int_equal(evaluate(COMPACT_NONE, N, 1, out), rest + floats);
	assert_int_equal(evaluate(COMPACT_VIEW, N, 1, out), rest);
	assert_int_equal(evaluate(COMPACT_BF16, N, 1, out), rest + 2 * cells);
	assert_int_equal(evaluate(COMPACT_INT8, N, 1, out), rest + cells + 4 * rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(floats_keep_their_bits),
	    cmocka_unit_test(rounded_stay_near),
	    cmocka_unit_test(batch_and_threads),
	    cmocka_unit_test(held_once),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
