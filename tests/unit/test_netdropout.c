/* Dropout in a U-Net's residual block: output and gradient computed independently with the same masks, the mean over many steps, and the losses of
 * training and validation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "net/netdef.h"
#include "train/noised.h"

/* One level of residual blocks without attention, in the order of recording: down, middle 0, middle 1, up 0, up 1. */
enum { ROWS = 3, SIDE = 4, PIXELS = SIDE * SIDE, WIDTH = 4, GROUPS = 2, IN = 2, OUT = 2, OUTS = OUT * PIXELS, BLOCK = 1 };
static const double RATE = .3, EPS = 1e-5;
static const struct run_keys keys = {.seed = 9, .step = 5, .first = 17};

static struct net_config config(double dropout)
{
	static const char text[] =
	    "{\"_class_name\": \"UNet2DModel\", \"in_channels\": 2, \"out_channels\": 2, \"sample_size\": 4, \"layers_per_block\": 1, "
	    "\"block_out_channels\": [4], \"norm_num_groups\": 2, \"down_block_types\": [\"DownBlock2D\"], "
	    "\"up_block_types\": [\"UpBlock2D\"], \"add_attention\": false, \"attention_head_dim\": null}";
	struct net_config c = {0};
	struct err e = {0};
	json_t *o = json_loads(text, 0, NULL);

	assert_non_null(o);
	if (net_from_json(o, "test", &c, &e))
		fail_msg("%s", e.msg);
	json_decref(o);
	c.dropout = dropout;
	assert_true(net_has_dropout(&c));
	assert_int_equal(net_check(&c, &e), 0);
	return c;
}

struct run {
	struct device *d;
	struct tape *t;
	struct params p;
	struct tensor *out;
	int forward, end;
	double *values, *grads, x[ROWS * IN * PIXELS], time[ROWS], dy[ROWS * OUTS];
};

static double *weight(const struct run *r, double *arena, const char *name)
{
	int i = params_find(&r->p, name);

	if (i < 0)
		fail_msg("no parameter %s", name);
	return arena + r->p.v[i].offset;
}

static void draw(const struct run *r, const char *name, double scale)
{
	double *v = weight(r, r->values, name);
	int64_t n = r->p.v[params_find(&r->p, name)].count;

	for (int64_t i = 0; i < n; i++)
		v[i] = scale * (rng_uniform(3, RNG_TEST, 0, (uint64_t)(v - r->values), (uint32_t)i) * 2 - 1);
}

/* The output depends only on the second convolution of one block, whose input is silu(norm2.bias) for kept values. The other blocks pass their input
 * on. */
static void run_open(struct run *r, double dropout, int recompute)
{
	static const char *const shortcuts[] = {"up_blocks.0.resnets.0.conv_shortcut.weight", "up_blocks.0.resnets.1.conv_shortcut.weight"};
	struct net_config c = config(dropout);
	int64_t shape[4] = {ROWS, IN, SIDE, SIDE}, outs[4] = {ROWS, OUT, SIDE, SIDE};
	struct net_input in = {.dropout = c.dropout};
	struct tensor *dy;
	struct err e = {0};

	*r = (struct run){.d = device_cpu(NULL, DT_F64), .t = tape_new(DT_F64, ROWS)};
	in.x = tape_input(r->t, DT_F64, 4, shape, TAPE_BATCHED);
	in.time = tape_input(r->t, DT_F64, 1, shape, TAPE_BATCHED);
	r->out = net_record(r->t, &r->p, &c, &in);
	tape_keep(r->t, r->out);
	r->forward = tape_mark(r->t);
	dy = tape_input(r->t, DT_F64, 4, outs, TAPE_BATCHED);
	tape_recompute(r->t, recompute);
	tape_backward(r->t, r->out, dy);
	r->end = tape_mark(r->t);
	params_layout(&r->p);
	tape_layout(r->t, r->d, &(struct plan_options){.poison = 1});
	if (tape_allocate(r->t, &e))
		fail_msg("%s", e.msg);
	r->values = mem_zalloc((size_t)r->p.total, sizeof *r->values);
	r->grads = mem_zalloc((size_t)r->p.total, sizeof *r->grads);
	for (int i = 0; i < ROWS * IN * PIXELS; i++)
		r->x[i] = sin(i);
	for (int i = 0; i < ROWS * OUTS; i++)
		r->dy[i] = cos(3 * i);
	tape_bind(r->t, in.x, r->x);
	tape_bind(r->t, in.time, r->time);
	tape_bind(r->t, dy, r->dy);
	tape_bind_params(r->t, r->values, r->grads);
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < WIDTH; k++)
			weight(r, r->values, shortcuts[i])[k * 2 * WIDTH + k] = 1;
	draw(r, "mid_block.resnets.0.norm2.bias", 1);
	draw(r, "mid_block.resnets.0.conv2.weight", 1);
	draw(r, "mid_block.resnets.0.conv2.bias", 1);
	draw(r, "conv_norm_out.weight", 1);
	draw(r, "conv_norm_out.bias", 1);
	draw(r, "conv_out.weight", 1);
	draw(r, "conv_out.bias", 1);
}

static void run_close(struct run *r)
{
	tape_free(r->t);
	device_free(r->d);
	params_release(&r->p);
	mem_free(r->values);
	mem_free(r->grads);
}

/* out (n, OUTS) */
static void run_forward(struct run *r, const struct run_keys *k, int64_t n, double *out)
{
	tape_seed(r->t, k);
	tape_run(r->t, n, 0, r->forward);
	memcpy(out, tape_data(r->t, r->out), (size_t)(n * OUTS) * sizeof *out);
}

/* ---- by hand ---- */

static double silu(double x)
{
	return x / (1 + exp(-x));
}

/* y (PIXELS, outs) += b (outs) + the convolution of x (PIXELS, WIDTH), padded with zeros, by w (outs, 3, 3, WIDTH). */
static void convolve(double *y, const double *x, const double *w, const double *b, int outs)
{
	for (int at = 0; at < PIXELS; at++)
		for (int o = 0; o < outs; o++) {
			y[at * outs + o] = b[o];
			for (int k = 0; k < 9; k++) {
				int i = at / SIDE + k / 3 - 1, j = at % SIDE + k % 3 - 1;

				for (int c = 0; c < WIDTH && i >= 0 && i < SIDE && j >= 0 && j < SIDE; c++)
					y[at * outs + o] += w[(o * 9 + k) * WIDTH + c] * x[(i * SIDE + j) * WIDTH + c];
			}
		}
}

static void normalise(double *x, const double *scale, const double *shift)
{
	enum { EACH = WIDTH / GROUPS };

	for (int g = 0; g < GROUPS; g++) {
		double mean = 0, var = 0;

		for (int i = 0; i < PIXELS * EACH; i++)
			mean += x[i / EACH * WIDTH + g * EACH + i % EACH] / (PIXELS * EACH);
		for (int i = 0; i < PIXELS * EACH; i++)
			var += pow(x[i / EACH * WIDTH + g * EACH + i % EACH] - mean, 2) / (PIXELS * EACH);
		for (int i = 0; i < PIXELS * EACH; i++) {
			int c = g * EACH + i % EACH;
			double *v = &x[i / EACH * WIDTH + c];

			*v = silu((*v - mean) / sqrt(var + EPS) * scale[c] + shift[c]);
		}
	}
}

/* out (OUTS) of the sample of that index. */
static void by_hand(const struct run *r, uint64_t sample, double *out)
{
	const double *shift = weight(r, r->values, "mid_block.resnets.0.norm2.bias");
	double h[PIXELS * WIDTH], m[PIXELS * WIDTH], y[PIXELS * OUT];
	uint32_t word[PIXELS * WIDTH];

	rng_words(word, PIXELS * WIDTH, keys.seed, RNG_DROPOUT, keys.step, sample, BLOCK << 24);
	for (int i = 0; i < PIXELS * WIDTH; i++)
		h[i] = (double)word[i] * 0x1p-32 >= RATE ? silu(shift[i % WIDTH]) / (1 - RATE) : 0;
	convolve(m, h, weight(r, r->values, "mid_block.resnets.0.conv2.weight"), weight(r, r->values, "mid_block.resnets.0.conv2.bias"), WIDTH);
	normalise(m, weight(r, r->values, "conv_norm_out.weight"), weight(r, r->values, "conv_norm_out.bias"));
	convolve(y, m, weight(r, r->values, "conv_out.weight"), weight(r, r->values, "conv_out.bias"), OUT);
	for (int i = 0; i < OUTS; i++)
		out[i] = y[i % PIXELS * OUT + i / PIXELS];
}

static double loss_by_hand(const struct run *r)
{
	double out[OUTS], sum = 0;

	for (int b = 0; b < ROWS; b++) {
		by_hand(r, keys.first + (uint64_t)b, out);
		for (int i = 0; i < OUTS; i++)
			sum += r->dy[b * OUTS + i] * out[i];
	}
	return sum;
}

static void block_by_hand(void **state)
{
	static const char *const names[] = {"mid_block.resnets.0.norm2.bias", "mid_block.resnets.0.conv2.weight"};
	double out[ROWS * OUTS], again[ROWS * OUTS], want[OUTS];
	struct run_keys later = keys;
	struct run r;

	(void)state;
	for (int recompute = 0; recompute < 2; recompute++) {
		run_open(&r, RATE, recompute);
		run_forward(&r, &keys, ROWS, out);
		for (int b = 0; b < ROWS; b++) {
			by_hand(&r, keys.first + (uint64_t)b, want);
			for (int i = 0; i < OUTS; i++)
				assert_true(fabs(out[b * OUTS + i] - want[i]) <= 1e-12 * (1 + fabs(want[i])));
		}
		tape_run(r.t, ROWS, r.forward, r.end);
		for (int k = 0; k < 2; k++) {
			const struct param *q = &r.p.v[params_find(&r.p, names[k])];

			for (int64_t i = q->offset; i < q->offset + q->count; i++) {
				double was = r.values[i], up, down, difference;

				r.values[i] = was + 1e-5;
				up = loss_by_hand(&r);
				r.values[i] = was - 1e-5;
				down = loss_by_hand(&r);
				r.values[i] = was;
				difference = (up - down) / 2e-5;
				if (!(fabs(r.grads[i] - difference) <= 1e-7 * (1 + fabs(difference))))
					fail_msg("%s, element %d: gradient %.12g, difference %.12g", q->name, (int)(i - q->offset), r.grads[i],
					         difference);
			}
		}
		/* A part of the batch alone. */
		later.first = keys.first + 1;
		run_forward(&r, &later, ROWS - 1, again);
		assert_memory_equal(again, out + OUTS, (ROWS - 1) * OUTS * sizeof *out);
		run_close(&r);
	}
}

/* For inputs of +-1000 the last norm is linear in the block's output within 1e-6 of its deviation, and so is SiLU around 50. Therefore the mean over
 * steps is the output without dropout, within five standard errors. */
static void mean_over_steps(void **state)
{
	enum { STEPS = 3000 };
	double out[OUTS], plain[OUTS], sum[OUTS] = {0}, squares[OUTS] = {0};
	struct run r, without;

	(void)state;
	run_open(&r, RATE, 0);
	run_open(&without, 0, 0);
	for (int i = 0; i < 2; i++) {
		struct run *s = i ? &without : &r;

		for (int c = 0; c < WIDTH; c++) {
			weight(s, s->values, "mid_block.resnets.0.conv2.bias")[c] = c % 2 ? 1000 : -1000;
			weight(s, s->values, "conv_norm_out.bias")[c] = 50;
		}
	}
	run_forward(&without, &keys, 1, plain);
	for (int k = 0; k < STEPS; k++) {
		run_forward(&r, &(struct run_keys){.seed = 1, .step = (uint64_t)k}, 1, out);
		for (int i = 0; i < OUTS; i++) {
			sum[i] += out[i] - plain[i];
			squares[i] += (out[i] - plain[i]) * (out[i] - plain[i]);
		}
	}
	for (int i = 0; i < OUTS; i++) {
		assert_true(squares[i] > 0);
		assert_true(fabs(sum[i] / STEPS) < 5 * sqrt(squares[i]) / STEPS);
	}
	run_close(&r);
	run_close(&without);
}

/* With keys that switch dropout off, the bits are those of a network without it. */
static void switched_off(void **state)
{
	double out[2][ROWS * OUTS];
	struct run r[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		run_open(&r[i], i ? RATE : 0, i);
		run_forward(&r[i], &(struct run_keys){.seed = 9, .step = 5, .no_dropout = 1}, ROWS, out[i]);
		tape_run(r[i].t, ROWS, r[i].forward, r[i].end);
	}
	assert_memory_equal(out[0], out[1], sizeof out[0]);
	assert_memory_equal(r[0].grads, r[1].grads, (size_t)r[0].p.trainable * sizeof *r[0].grads);
	run_close(&r[0]);
	run_close(&r[1]);
}

/* ---- losses ---- */

enum { BATCH = 4, SIZE = IN * PIXELS };

/* loss (BATCH) of training in parts of `part`, or of validation. */
static void losses(double dropout, int threads, int64_t part, int validates, float *loss)
{
	struct net_config c = config(dropout);
	struct pool *pool = pool_new(threads, NULL);
	struct device *d = device_cpu(pool, DT_F32);
	struct objective o = {.path = &path_linear, .d = SIZE};
	struct params p = {0};
	struct loss_tape l;
	struct noised z;
	struct err e = {0};
	float x0[BATCH * SIZE], *values;
	int32_t none[BATCH] = {0};

	loss_record(&l, &c, LOSS_SQUARED, &p, DT_F32, part, 0, 0);
	tape_layout(l.tape, d, NULL);
	if (tape_allocate(l.tape, &e) || noised_init(&z, d, part, &c, LOSS_SQUARED, &e))
		fail_msg("%s", e.msg);
	values = mem_zalloc((size_t)p.total, sizeof *values);
	rng_normal(values, (size_t)p.total, 1, RNG_TEST, 0, 0);
	rng_normal(x0, BATCH * SIZE, 2, RNG_TEST, 0, 0);
	tape_bind_params(l.tape, values, NULL);
	loss_bind(&l, &z);
	for (int64_t at = 0; at < BATCH; at += part) {
		const struct clean clean = {.x0 = x0 + at * SIZE, .label = none, .cluster = none};

		if (validates)
			objective_validate(&o, &z, &l, part, &clean, at, BATCH);
		else
			objective_noise(&o, &z, &l, part, &clean, 7, 3, (uint64_t)at);
		tape_run(l.tape, part, 0, l.forward_end);
		memcpy(loss + at, tape_data(l.tape, l.loss), (size_t)part * sizeof *loss);
	}
	mem_free(values);
	noised_release(&z);
	tape_free(l.tape);
	params_release(&p);
	device_free(d);
	pool_free(pool);
}

static void training_alone(void **state)
{
	float with[BATCH], without[BATCH], other[BATCH];

	(void)state;
	losses(RATE, 1, BATCH, 1, with);
	losses(0, 1, BATCH, 1, without);
	assert_memory_equal(with, without, sizeof with);
	losses(RATE, 1, BATCH, 0, with);
	losses(0, 1, BATCH, 0, without);
	for (int i = 0; i < BATCH; i++)
		assert_true(isfinite(with[i]) && with[i] != without[i]);
	for (int64_t part = 1; part <= BATCH; part *= 2) {
		losses(RATE, 3, part, 0, other);
		assert_memory_equal(with, other, sizeof with);
	}
}

static void refused(void **state)
{
	struct net_config c = config(0);
	struct err e = {0};

	(void)state;
	c.dropout = 1;
	assert_int_equal(net_check(&c, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	e = (struct err){0};
	net_init(&c, &net_dit);
	assert_int_equal(net_preset("dit-nano/2", &c, &e), 0);
	assert_false(net_has_dropout(&c));
	c.channels = c.out_channels = 2;
	c.size = 4;
	assert_int_equal(net_check(&c, &e), 0);
	c.dropout = .1;
	assert_int_equal(net_check(&c, &e), -1);
	assert_non_null(strstr(e.msg, "no dropout"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(block_by_hand), cmocka_unit_test(mean_over_steps), cmocka_unit_test(switched_off),
	                                   cmocka_unit_test(training_alone), cmocka_unit_test(refused)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
