/* Allocates and fills the arenas of weights, averages and moments. */
#include "train/state.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "net/model.h"

static float *floats(struct device *d, int64_t n, const char *what, struct err *e)
{
	return d->alloc(d, (size_t)n * sizeof(float), what, e);
}

/* Elements of the moments, and of an average, that this rank keeps. */
static int64_t kept(const struct train_state *s)
{
	return s->shares ? s->shares->count : s->params->trainable;
}

static int64_t kept_average(const struct train_state *s)
{
	return kept(s) + s->params->total - s->params->trainable;
}

static float *moments(const struct train_state *s, const char *what, struct err *e)
{
	int64_t n = kept(s);

	return s->offload ? s->device->alloc_host(s->device, (size_t)n * sizeof(float), what, e) : floats(s->device, n, what, e);
}

int state_init(struct train_state *s, struct device *d, const struct params *p, int keep_best, int bf16, int64_t offload, const struct shares *shares,
               struct err *e)
{
	*s = (struct train_state){.params = p, .device = d, .best_loss = INFINITY, .offload = offload, .shares = shares};
	if ((s->values = floats(d, p->total, "weights", e)) && (s->ema = floats(d, kept_average(s), "averaged weights", e)) &&
	    (s->m = moments(s, "first moments", e)) && (s->v = moments(s, "second moments", e)) &&
	    (!bf16 || (s->rounded = d->alloc(d, (size_t)p->total * sizeof *s->rounded, "weights in bfloat16", e))) &&
	    (!keep_best || (s->best = floats(d, kept_average(s), "best weights", e))))
		return 0;
	state_release(s);
	return -1;
}

int state_parts(const struct train_state *s, struct state_part out[STATE_PARTS])
{
	const struct state_part all[STATE_PARTS] = {
	    {"weights.safetensors", s->values, 1, 0},
	    {CHECKPOINT_AVERAGE, s->ema, 1, 0},
	    {s->optimizer == OPTIMIZER_SCHEDULE_FREE ? "z.safetensors" : "exp_avg.safetensors", s->m, 0, s->offload != 0},
	    {"exp_avg_sq.safetensors", s->v, 0, s->offload != 0},
	    {"best.safetensors", s->best, 1, 0},
	};

	memcpy(out, all, sizeof all);
	return s->best ? STATE_PARTS : STATE_PARTS - 1;
}

void state_clear(struct train_state *s)
{
	size_t average = (size_t)kept_average(s) * sizeof(float), moment = (size_t)kept(s) * sizeof(float);
	struct device *d = s->device;

	d->fill(d, 0, s->values, 0, (size_t)s->params->total * sizeof(float));
	d->fill(d, 0, s->ema, 0, average);
	if (s->offload) {
		memset(s->m, 0, moment);
		memset(s->v, 0, moment);
	} else {
		d->fill(d, 0, s->m, 0, moment);
		d->fill(d, 0, s->v, 0, moment);
	}
	if (s->best)
		d->fill(d, 0, s->best, 0, average);
	s->best_loss = INFINITY;
	s->best_step = s->step = s->updates = s->skipped_in_a_row = s->loss_count = s->picture_loss_count = s->line_step = 0;
	s->loss_sum = s->picture_loss_sum = s->lr_squares = 0;
	mem_free(s->chain);
	s->chain = NULL;
}

/* n elements of the weights from `at` on, to the average and, with OPTIMIZER_SCHEDULE_FREE, to the first moments. */
static void begin_range(struct train_state *s, int64_t at, int64_t packed, int64_t n, int frozen)
{
	size_t bytes = (size_t)n * sizeof(float);

	if (!n)
		return;
	device_copy(s->device, s->ema + packed, s->values + at, bytes);
	if (s->optimizer != OPTIMIZER_SCHEDULE_FREE || frozen)
		return;
	if (s->offload)
		device_get(s->device, s->m + packed, s->values + at, bytes);
	else
		device_copy(s->device, s->m + packed, s->values + at, bytes);
}

void state_begin(struct train_state *s)
{
	int64_t trainable = s->params->trainable;

	for (int g = 0; s->shares && g < s->shares->groups; g++)
		begin_range(s, s->shares->own[g].at, s->shares->own[g].packed, s->shares->own[g].n, 0);
	if (!s->shares)
		begin_range(s, 0, 0, trainable, 0);
	begin_range(s, trainable, kept(s), s->params->total - trainable, 1);
}

void state_take_best(struct train_state *s)
{
	device_copy(s->device, s->best, s->ema, (size_t)kept_average(s) * sizeof *s->best);
}

void state_release(struct train_state *s)
{
	float *const all[] = {s->values, s->ema, s->offload ? NULL : s->m, s->offload ? NULL : s->v, s->best};

	if (s->device && s->offload) {
		s->device->sync(s->device, NULL);
		s->device->release_host(s->device, s->m);
		s->device->release_host(s->device, s->v);
	}
	if (s->device)
		s->device->release(s->device, s->rounded);
	mem_free(s->config);
	mem_free(s->chain);
	for (size_t i = 0; s->device && i < sizeof all / sizeof *all; i++)
		s->device->release(s->device, all[i]);
	memset(s, 0, sizeof *s);
}

uint64_t state_bytes(const struct params *p, int keep_best, int bf16, int64_t offload, int64_t kept_there)
{
	uint64_t average = (uint64_t)(kept_there + p->total - p->trainable);

	return sizeof(float) * ((uint64_t)p->total + average * (keep_best ? 2 : 1) + (offload ? 0 : (uint64_t)kept_there * 2)) +
	       (bf16 ? sizeof(uint16_t) * (uint64_t)p->total : 0);
}

void state_round(const struct train_state *s, float *from)
{
	int64_t n = s->params->total;
	struct op_call c = {.nin = 1, .nout = 1, .in = {array_vector(DT_F32, from, n)}, .out = {array_vector(DT_BF16, s->rounded, n)}};

	if (s->rounded)
		device_run(s->device, OP_COPY, &c, NULL);
}
