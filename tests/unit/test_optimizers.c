/* The optimizers' updates, step by step, against their papers in double: Muon and schedule-free AdamW, also clipped, skipped and resumed; the
 * bytes do not depend on the number of threads. */
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
#include "train/update.h"

enum { STEPS = 7, SKIPPED = 3, WARMUP = 3, MOST = 3 * 40 * 40 };

static const double LR = .02, DECAY = .1, CLIP = 30, EMA = .7;

/* A bias, a matrix, and a second bias. */
static const struct shape {
	int64_t rows, columns;
	int flags;
} shapes[] = {{24, 24, 0}, {40, 12, 0}, {7, 33, 0}, {1, 5, 0}, {120, 40, PARAM_QKV}, {63, 5, PARAM_THIRDS}};

struct world {
	struct params params;
	struct device *device;
	struct train_state state;
	struct update update;
	float loss;
};

static void begin(struct world *w, const struct shape *shape, enum optimizer_kind optimizer, struct pool *pool)
{
	int64_t size[2] = {shape->rows, shape->columns}, bias = 21;
	const struct init zero = {.kind = INIT_ZERO};
	struct err e = {0};

	*w = (struct world){.device = device_cpu(pool, DT_F32)};
	params_add(&w->params, "a.bias", 1, &bias, 0, zero);
	params_add(&w->params, "a.weight", 2, size, PARAM_DECAY | PARAM_BULK | shape->flags, zero);
	params_add(&w->params, "b.bias", 1, &bias, 0, zero);
	params_layout(&w->params);
	assert_int_equal(state_init(&w->state, w->device, &w->params, 0, 0, 0, NULL, &e), 0);
	w->state.optimizer = optimizer;
	rng_normal(w->state.values, (size_t)w->params.total, 1, RNG_TEST, 0, 0);
	state_begin(&w->state);
	assert_int_equal(update_init(&w->update, &w->state, 1, &w->loss, 1, NULL, &e), 0);
	update_begin(&w->update, &w->state);
}

static void end(struct world *w)
{
	update_release(&w->update);
	state_release(&w->state);
	params_release(&w->params);
	device_free(w->device);
}

static double rate_of(int step)
{
	return step < WARMUP ? LR * (step + 1) / WARMUP : LR;
}

/* The gradient of a step; that of SKIPPED holds a NaN. Gaps hold zeros. */
static void gradient(const struct world *w, int step, float *g)
{
	const struct params *p = &w->params;

	memset(g, 0, (size_t)p->trainable * sizeof *g);
	for (int i = 0; i < p->n; i++)
		rng_normal(g + p->v[i].offset, (size_t)p->v[i].count, 1, RNG_TEST, (uint64_t)step + 1, (uint64_t)i);
	if (step == SKIPPED)
		g[p->v[1].offset] = NAN;
}

static void one_step(struct world *w, int step)
{
	const double plan[PLAN_COUNT] = {[PLAN_LR] = rate_of(step), [PLAN_BETA1] = .9, [PLAN_BETA2] = .99, [PLAN_EPS] = 1e-8,
	                                 [PLAN_DECAY] = DECAY,      [PLAN_EMA] = EMA,  [PLAN_CLIP] = CLIP};
	const double *status;

	gradient(w, step, w->update.grads);
	w->loss = 1;
	update_apply(&w->update, plan, -1, NULL);
	status = update_finished(&w->update, 1);
	assert_non_null(status);
	assert_int_equal(status[STATUS_FINITE], step != SKIPPED);
	w->state.updates = (int64_t)status[STATUS_UPDATES];
	w->state.skipped_in_a_row = (int64_t)status[STATUS_SKIPPED_IN_A_ROW];
	w->state.lr_squares = status[STATUS_LR_SQUARES];
}

/* All of a gradient, clipped, in double. */
static void clipped(const struct world *w, int step, double *g)
{
	float raw[MOST + 64];
	double norm = 0;

	gradient(w, step, raw);
	for (int64_t i = 0; i < w->params.trainable; i++)
		norm += (double)raw[i] * (double)raw[i];
	for (int64_t i = 0; i < w->params.trainable; i++)
		g[i] = raw[i] * fmin(1, CLIP / sqrt(norm));
}

static void close_to(const char *what, const float *got, const double *want, int64_t n, double tol)
{
	for (int64_t i = 0; i < n; i++)
		if (!(fabs((double)got[i] - want[i]) <= tol))
			fail_msg("%s: element %d is %.9g, not %.9g", what, (int)i, (double)got[i], want[i]);
}

/* X [r, c] = a X + (b A + c A^2) X with A = X X^T, as written, five times from u / |u|. */
static void newton_schulz(double *x, int64_t r, int64_t c)
{
	double *a = mem_zalloc((size_t)(r * r), sizeof *a), *b = mem_zalloc((size_t)(r * r), sizeof *b), *y = mem_zalloc((size_t)(r * c), sizeof *y);
	double norm = 0;

	for (int64_t i = 0; i < r * c; i++)
		norm += x[i] * x[i];
	for (int64_t i = 0; i < r * c; i++)
		x[i] /= sqrt(norm);
	for (int n = 0; n < 5; n++) {
		for (int64_t i = 0; i < r * r; i++) {
			a[i] = 0;
			for (int64_t k = 0; k < c; k++)
				a[i] += x[i / r * c + k] * x[i % r * c + k];
		}
		for (int64_t i = 0; i < r * r; i++) {
			b[i] = -4.7750 * a[i];
			for (int64_t k = 0; k < r; k++)
				b[i] += 2.0315 * a[i / r * r + k] * a[k * r + i % r];
		}
		for (int64_t i = 0; i < r * c; i++) {
			y[i] = 3.4445 * x[i];
			for (int64_t k = 0; k < r; k++)
				y[i] += b[i / c * r + k] * x[k * c + i % c];
		}
		memcpy(x, y, (size_t)(r * c) * sizeof *x);
	}
	mem_free(a);
	mem_free(b);
	mem_free(y);
}

static double p[MOST + 64], m[MOST + 64], v[MOST + 64], ema[MOST + 64], g[MOST + 64], u[MOST];

static void adamw_reference(const struct param *q, double lr, int n)
{
	for (int64_t i = q->offset; i < q->offset + q->count; i++) {
		m[i] = .9 * m[i] + .1 * g[i];
		v[i] = .99 * v[i] + .01 * g[i] * g[i];
		p[i] -= lr * m[i] / (1 - pow(.9, n)) / (sqrt(v[i] / (1 - pow(.99, n))) + 1e-8);
		ema[i] = EMA * ema[i] + (1 - EMA) * p[i];
	}
}

static void muon_reference(const struct param *q, double lr)
{
	int64_t parts = q->flags & (PARAM_QKV | PARAM_THIRDS) ? 3 : 1, r = q->shape[0] / parts, c = q->shape[1];
	double scale = .2 * sqrt((double)(r > c ? r : c));

	for (int64_t k = 0; k < parts; k++) {
		int64_t at = q->offset + k * r * c;

		for (int64_t i = 0; i < r * c; i++) {
			m[at + i] += .05 * (g[at + i] - m[at + i]);
			u[i] = g[at + i] + .95 * (m[at + i] - g[at + i]);
		}
		newton_schulz(u, r, c);
		for (int64_t i = 0; i < r * c; i++) {
			p[at + i] = (1 - lr * DECAY) * p[at + i] - lr * scale * u[i];
			ema[at + i] = EMA * ema[at + i] + (1 - EMA) * p[at + i];
		}
	}
}

static void start_reference(const struct world *w)
{
	memset(m, 0, sizeof m);
	memset(v, 0, sizeof v);
	for (int64_t i = 0; i < w->params.trainable; i++)
		p[i] = ema[i] = w->state.values[i];
}

/* The iteration multiplies a small singular value, and what rounding adds to it, by 3.4445 five times, by 485 in all: 485 roundings of about 1e-7,
 * times the rate and its scale, .02 * .2 * sqrt(40) = .025, in 6 updates, are 8e-6. */
static void muon(void **state)
{
	(void)state;
	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
		struct world w;
		int updates = 0;

		begin(&w, &shapes[s], OPTIMIZER_MUON, NULL);
		start_reference(&w);
		for (int step = 0; step < STEPS; step++) {
			one_step(&w, step);
			if (step == SKIPPED)
				continue;
			clipped(&w, step, g);
			updates++;
			adamw_reference(&w.params.v[0], rate_of(step), updates);
			muon_reference(&w.params.v[1], rate_of(step));
			adamw_reference(&w.params.v[2], rate_of(step), updates);
			for (int i = 0; i < 3; i++) {
				const struct param *q = &w.params.v[i];

				close_to("p", w.state.values + q->offset, p + q->offset, q->count, 8e-6);
				close_to("m", w.state.m + q->offset, m + q->offset, q->count, 1e-6);
				close_to("ema", w.state.ema + q->offset, ema + q->offset, q->count, 8e-6);
			}
		}
		end(&w);
	}
}

/* After an update the matrix has moved by one whose singular values lie in .68 .. 1.13 times the scale, unless they were tiny: for a gradient with
 * equal singular values the published polynomial gives the same factor for each, so that the update is the gradient times a number. */
static void equal_singular_values(void **state)
{
	const struct shape square = {16, 16, 0};
	struct world w;
	double x = 1 / sqrt(16.), want;
	float *before = mem_zalloc(256, sizeof *before);
	const double plan[PLAN_COUNT] = {[PLAN_LR] = 1};

	(void)state;
	begin(&w, &square, OPTIMIZER_MUON, NULL);
	for (int n = 0; n < 5; n++)
		x = 3.4445 * x - 4.7750 * pow(x, 3) + 2.0315 * pow(x, 5);
	assert_true(x > .68 && x < 1.13);
	want = x * .2 * sqrt(16.);
	memset(w.update.grads, 0, (size_t)w.params.trainable * sizeof(float));
	for (int i = 0; i < 16; i++) /* a permutation: every singular value is 3 */
		w.update.grads[w.params.v[1].offset + i * 16 + i * 5 % 16] = 3;
	memcpy(before, w.state.values + w.params.v[1].offset, 256 * sizeof *before);
	update_apply(&w.update, plan, -1, NULL);
	for (int i = 0; i < 256; i++)
		assert_true(fabs((double)before[i] - (double)w.state.values[w.params.v[1].offset + i] - (i % 16 == i / 16 * 5 % 16) * want) < 2e-6);
	mem_free(before);
	end(&w);
}

/* x is computed here as the mean of all z, weighted by the squares of the rates, and y from both, with no recurrence. */
static void schedule_free(void **state)
{
	static double z[MOST + 64], sum[MOST + 64], y[MOST + 64];
	struct world w;
	double weights = 0;
	int updates = 0;

	(void)state;
	begin(&w, &shapes[1], OPTIMIZER_SCHEDULE_FREE, NULL);
	start_reference(&w);
	memset(sum, 0, sizeof sum);
	memcpy(z, p, sizeof z);
	memcpy(y, p, sizeof y);
	for (int step = 0; step < STEPS; step++) {
		double lr = rate_of(step);

		one_step(&w, step);
		if (step == SKIPPED)
			continue;
		clipped(&w, step, g);
		updates++;
		weights += lr * lr;
		for (int i = 0; i < 3; i++)
			for (int64_t k = w.params.v[i].offset; k < w.params.v[i].offset + w.params.v[i].count; k++) {
				double decay = i == 1 ? DECAY : 0;

				v[k] = .99 * v[k] + .01 * g[k] * g[k];
				z[k] -= lr * (g[k] / (sqrt(v[k] / (1 - pow(.99, updates))) + 1e-8) + decay * y[k]);
				sum[k] += lr * lr * z[k];
				ema[k] = sum[k] / weights;
				y[k] = .1 * z[k] + .9 * ema[k];
			}
		assert_true(fabs(w.state.lr_squares - weights) < 1e-15);
		close_to("y", w.state.values, y, w.params.trainable, 2e-6); /* weights up to 4, four roundings in each of six updates */
		close_to("z", w.state.m, z, w.params.trainable, 2e-6);
		close_to("x", w.state.ema, ema, w.params.trainable, 2e-6);
	}
	end(&w);
}

static void same_bytes(const struct world *a, const struct world *b)
{
	size_t bytes = (size_t)a->params.trainable * sizeof(float);

	assert_memory_equal(a->state.values, b->state.values, bytes);
	assert_memory_equal(a->state.ema, b->state.ema, bytes);
	assert_memory_equal(a->state.m, b->state.m, bytes);
	assert_memory_equal(a->state.v, b->state.v, bytes);
}

/* On one thread; on three; and by an update that takes over the state after step 4, one after the skipped. */
static void threads_and_resuming(void **state)
{
	static const enum optimizer_kind kinds[] = {OPTIMIZER_ADAMW, OPTIMIZER_MUON, OPTIMIZER_SCHEDULE_FREE};
	struct pool *pool = pool_new(3, NULL);

	(void)state;
	for (int k = 0; k < 3; k++) {
		struct world one, three;
		struct err e = {0};

		begin(&one, &shapes[4], kinds[k], NULL);
		begin(&three, &shapes[4], kinds[k], pool);
		for (int step = 0; step < STEPS; step++) {
			if (step == SKIPPED + 1) {
				update_release(&three.update);
				assert_int_equal(update_init(&three.update, &three.state, 1, &three.loss, 1, NULL, &e), 0);
				update_begin(&three.update, &three.state);
			}
			one_step(&one, step);
			one_step(&three, step);
		}
		same_bytes(&one, &three);
		end(&one);
		end(&three);
	}
	pool_free(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(muon), cmocka_unit_test(equal_singular_values), cmocka_unit_test(schedule_free),
	                                   cmocka_unit_test(threads_and_resuming)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
