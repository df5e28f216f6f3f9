/* bench_step [-q] [-t THREADS] [-s SECONDS] [PATTERN]: whole training steps of DiTs, also of those for clips (noise, forward, backward, AdamW with
 * EMA), beside the best product in cache, in float and with bf16 products; the latter also beside the float step itself. FLOPs are the network's own
 * products. A CPU without AVX512-BF16 instructions measures its emulation of them on one network. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/mem.h"
#include "kernels/compact.h"
#include "net/netdef.h"
#include "tests/bench/meter.h"
#include "train/noised.h"
#include "train/update.h"

struct work {
	const char *preset;
	int64_t channels, size, batch, frames; /* frames 0: pictures */
};

/* The last of pictures is the demo's network. */
static const struct work works[] = {
    {"dit-s/2", 4, 32, 8, 0},       {"dit-mini/4", 3, 32, 64, 0},        {"dit-micro/4", 3, 32, 64, 0}, {"dit-nano/4", 3, 32, 128, 0},
    {"vdit-nano/1x2", 4, 16, 8, 8}, {"vdit-full-nano/1x2", 4, 16, 8, 8}, {"vdit-s/1x2", 4, 16, 2, 8},
};

static const struct work bf16_works[] = {
    {"dit-s/2", 4, 32, 8, 0}, {"dit-b/2", 4, 32, 4, 0}, {"dit-mini/4", 3, 32, 64, 0}, {"dit-nano/4", 3, 32, 128, 0}, {"vdit-nano/1x2", 4, 16, 8, 8},
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

static void start(struct setup *s, const struct work *w, enum precision precision)
{
	struct net_config c = {
	    .def = &net_dit, .channels = w->channels, .out_channels = w->channels, .size = w->size, .frames = w->frames, .time_scale = 1000};
	struct err e = {0};
	size_t n;

	if (net_preset(w->preset, &c, &e))
		die(&e);
	s->device = device_cpu(s->pool, DT_F32);
	if (device_set_precision(s->device, precision, &e))
		die(&e);
	s->batch = w->batch;
	s->objective = (struct objective){.path = &path_linear, .d = net_sample_elements(&c)};
	loss_record(&s->loss, &c, LOSS_SQUARED, &s->params, DT_F32, w->batch, 1, 0);
	tape_layout(s->loss.tape, s->device, NULL);
	n = (size_t)w->batch * (size_t)s->objective.d;
	if (tape_allocate(s->loss.tape, &e) || state_init(&s->state, s->device, &s->params, 0, 0, 0, NULL, &e) ||
	    noised_init(&s->noised, s->device, w->batch, &c, LOSS_SQUARED, &e) ||
	    update_init(&s->update, &s->state, 1, tape_data(s->loss.tape, s->loss.loss), w->batch, NULL, &e))
		die(&e);
	s->dloss = mem_zalloc((size_t)w->batch, sizeof *s->dloss);
	s->label = mem_zalloc((size_t)w->batch, sizeof *s->label);
	s->x0 = mem_zalloc(n, sizeof *s->x0);
	rng_normal(s->x0, n, 1, RNG_TEST, 0, 0);
	params_init(&s->params, 1, s->state.values);
	for (int64_t i = 0; i < w->batch; i++)
		s->dloss[i] = 1.f / (float)w->batch;
	tape_bind_params(s->loss.tape, s->state.values, s->update.grads);
	loss_bind(&s->loss, &s->noised);
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
	device_free(s->device);
}

static void run_once(void *arg)
{
	struct setup *s = arg;
	static const double plan[PLAN_COUNT] = {[PLAN_LR] = 1e-4, [PLAN_BETA1] = .9, [PLAN_BETA2] = .999, [PLAN_EPS] = 1e-8, [PLAN_EMA] = .999};

	objective_noise(&s->objective, &s->noised, &s->loss, s->batch, &(struct clean){.x0 = s->x0, .label = s->label, .cluster = s->label}, 1,
	                (uint64_t)++s->step, 0);
	tape_run(s->loss.tape, s->batch, 0, s->loss.end);
	update_apply(&s->update, plan, -1, NULL);
	update_finished(&s->update, 1);
}

static struct duty duty_of(struct setup *s)
{
	return (struct duty){run_once, s, tape_flops(s->loss.tape, s->batch, 0, s->loss.end)};
}

static void measure(struct bench *b, const struct work *w)
{
	const struct work small = {"dit-nano/2", w->channels, 8, 2, 0};
	struct setup s = {.pool = b->pool};
	struct duty step;
	struct reading r;
	char name[80];

	snprintf(name, sizeof name, "train %s, batch %d", w->preset, (int)w->batch);
	if (!bench_wants(b, name))
		return;
	start(&s, b->quick ? &small : w, PRECISION_F32);
	step = duty_of(&s);
	r = bench_read(b, &step, yard_product(b), .05, 4);
	bench_print(name, r.rate / step.amount * (double)s.batch, "images/s", &r);
	finish(&s);
}

static void measure_bf16(struct bench *b, const struct work *w)
{
	struct setup s = {.pool = b->pool}, plain = {.pool = b->pool};
	const char *how = compact_isa() == COMPACT_PORTABLE ? "emulated bf16" : "bf16";
	struct duty step, beside;
	struct reading r;
	char name[80], faster[96];

	snprintf(name, sizeof name, "train %s in %s, batch %d", w->preset, how, (int)w->batch);
	snprintf(faster, sizeof faster, "%s, beside f32", name);
	if (!bench_wants(b, faster))
		return;
	start(&s, w, compact_isa() == COMPACT_PORTABLE ? PRECISION_BF16_EMULATED : PRECISION_BF16);
	step = duty_of(&s);
	if (bench_wants(b, name)) {
		r = bench_read(b, &step, yard_bf16(b), .05, 4);
		bench_print(name, r.rate / step.amount * (double)w->batch, "images/s", &r);
	}
	start(&plain, w, PRECISION_F32);
	beside = duty_of(&plain);
	r = bench_read(b, &step, &beside, .05, 4);
	bench_print(faster, r.rate / step.amount * (double)w->batch, "images/s", &r);
	finish(&plain);
	finish(&s);
}

int main(int argc, char **argv)
{
	enum { BF16 = sizeof bf16_works / sizeof *bf16_works };
	struct bench b;

	bench_start(&b, "bench_step", argc, argv);
	for (size_t i = 0; i < sizeof works / sizeof *works; i++)
		measure(&b, &works[i]);
	for (int i = 0; i < (compact_isa() == COMPACT_PORTABLE ? 1 : BF16); i++)
		measure_bf16(&b, &bf16_works[i]);
	bench_end(&b);
	return 0;
}
