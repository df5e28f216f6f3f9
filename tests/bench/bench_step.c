/* bench_step [threads [seconds]]: whole float training steps (noise, forward, backward, AdamW with EMA) and sampling passes of
 * DiTs, beside the matrix-product peak measured between them. TSV: name, value, unit, fraction of that peak. FLOPs are the
 * network's own products. Best of several; run it on a quiet machine. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/str.h"
#include "kernels/peak.h"
#include "train/objective.h"
#include "train/update.h"

struct work {
	const char *preset;
	int64_t channels, size, batch, sampling_batch;
};

/* The last line is the demo's network. */
static const struct work works[] = {
    {"dit-s/2", 4, 32, 8, 32},
    {"dit-mini/4", 3, 32, 64, 64},
    {"dit-micro/4", 3, 32, 64, 64},
    {"dit-nano/4", 3, 32, 128, 64},
};

struct setup {
	struct pool *pool;
	struct device *device;
	struct params params;
	struct loss_tape loss;
	struct train_state state;
	struct objective objective;
	struct noised noised;
	struct update update;
	float *dloss, *x0;
	int32_t *label;
	int64_t batch, step;
};

static void die(const struct err *e)
{
	fprintf(stderr, "bench_step: %s\n", e->msg);
	exit(e->code);
}

static void start(struct setup *s, const struct work *w, int backward, int64_t batch)
{
	struct net_config c = {
	    .kind = NET_DIT, .channels = w->channels, .out_channels = w->channels, .size = w->size, .time_scale = 1000};
	struct err e = {0};
	size_t n;

	if (net_preset(w->preset, &c, &e))
		die(&e);
	s->batch = batch;
	s->objective = (struct objective){.path = &path_linear, .time = {.std = 1}, .d = c.channels * c.size * c.size};
	loss_record(&s->loss, &c, &s->params, DT_F32, batch, backward, 0);
	tape_layout(s->loss.tape, s->device, NULL);
	n = (size_t)batch * (size_t)s->objective.d;
	if (tape_allocate(s->loss.tape, &e) || state_init(&s->state, s->device, &s->params, 0, &e) ||
	    noised_init(&s->noised, s->device, batch, s->objective.d, &e) || update_init(&s->update, &s->state, 1, &e))
		die(&e);
	s->dloss = mem_zalloc((size_t)batch, sizeof *s->dloss);
	s->label = mem_zalloc((size_t)batch, sizeof *s->label);
	s->x0 = mem_zalloc(n, sizeof *s->x0);
	rng_normal(s->x0, n, 1, RNG_TEST, 0, 0);
	params_init(&s->params, 1, s->state.values);
	for (int64_t i = 0; i < batch; i++)
		s->dloss[i] = 1.f / (float)batch;
	tape_bind_params(s->loss.tape, s->state.values, s->update.grads);
	loss_bind(&s->loss, &s->noised);
	if (backward)
		tape_bind(s->loss.tape, s->loss.dloss, s->dloss);
}

static void finish(struct setup *s)
{
	tape_free(s->loss.tape);
	state_release(&s->state);
	noised_release(&s->noised);
	params_release(&s->params);
	update_release(&s->update);
	mem_free(s->dloss);
	mem_free(s->label);
	mem_free(s->x0);
	*s = (struct setup){.pool = s->pool, .device = s->device};
}

static void run_once(struct setup *s)
{
	static const double plan[PLAN_COUNT] = {[PLAN_LR] = 1e-4, [PLAN_BETA1] = .9, [PLAN_BETA2] = .999, [PLAN_EPS] = 1e-8,
	                                        [PLAN_EMA] = .999};

	objective_noise(&s->objective, &s->noised, &s->loss, s->batch, s->x0, s->label, s->label, 1, (uint64_t)++s->step, 0);
	tape_run(s->loss.tape, s->batch, 0, s->loss.end);
	if (s->loss.end == s->loss.forward_end)
		return;
	update_part(&s->update, 0, 1, tape_data(s->loss.tape, s->loss.loss), s->batch);
	update_apply(&s->update, &s->state, 1, plan);
	update_heard(&s->update, 1);
}

static void measure(struct setup *s, const struct work *w, int backward, double seconds)
{
	int64_t batch = backward ? w->batch : w->sampling_batch;
	double best = 1e30, peak = 0, flops, until;

	start(s, w, backward, batch);
	flops = tape_flops(s->loss.tape, batch, 0, s->loss.end);
	run_once(s);
	until = clock_seconds() + seconds;
	do {
		double p = peak_gemm_flops(s->pool);

		peak = p > peak ? p : peak;
		for (int i = 0; i < 3; i++) {
			double t = clock_seconds();

			run_once(s);
			t = clock_seconds() - t;
			best = t < best ? t : best;
		}
	} while (clock_seconds() < until);
	printf("%s %s, batch %d\t%.1f\tGFLOP/s\t%.3f\n", backward ? "train" : "sample", w->preset, (int)batch,
	       flops / best * 1e-9, flops / best / peak);
	printf("%s %s, batch %d\t%.1f\timages/s\t\n", backward ? "train" : "sample", w->preset, (int)batch, (double)batch / best);
	fflush(stdout);
	finish(s);
}

int main(int argc, char **argv)
{
	struct setup s = {0};
	struct err e = {0};
	int64_t threads = 0;
	double seconds = 6;

	if ((argc > 1 && parse_i64(argv[1], 0, 1024, &threads)) || (argc > 2 && parse_f64(argv[2], .1, 3600, &seconds))) {
		fprintf(stderr, "usage: bench_step [threads [seconds]]\n");
		return 2;
	}
	s.pool = pool_new((int)threads, &e);
	if (!s.pool)
		die(&e);
	s.device = device_cpu(s.pool, DT_F32);
	for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
		measure(&s, &works[i], 1, seconds);
		measure(&s, &works[i], 0, seconds / 2);
	}
	device_free(s.device);
	pool_free(s.pool);
	return 0;
}
