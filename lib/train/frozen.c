/* Opens frozen experts, runs them on noised samples, and turns their errors into a router's targets. step.c and validate.c use it by way of
 * trainer_forward. */
#include "train/frozen.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/named.h"
#include "core/samemath.h"
#include "core/str.h"
#include "diffusion/ensemble.h"
#include "diffusion/layout.h"

static const struct named target_rows[] = {
    {.name = "cluster"},
    {.name = "error", .numbers = ":T", .count = 1, .optional = 1, .number = {{.01, 1e-9, 1e9}}},
    {.name = "regret"},
    {.name = "variance"},
    {.name = "uncertainty", .numbers = ":K", .count = 1, .whole = 1, .number = {{0, 0, MAX_EXPERTS - 1}}},
    {.name = "mixture", .numbers = ":ANCHOR", .count = 1, .optional = 1, .number = {{0, 0, 1e9}}},
};
static const struct named_table targets = NAMED_TABLE(target_rows);

int target_parse(const char *text, struct router_target *t, struct err *e)
{
	double number[NAMED_NUMBERS] = {0};
	int i = named_parse(&targets, text, number, e);

	if (i < 0)
		return -1;
	*t = (struct router_target){(enum target_kind)i, i == TARGET_ERROR ? number[0] : 0, i == TARGET_MIXTURE ? number[0] : 0,
	                            i == TARGET_UNCERTAINTY ? (int)number[0] : 0};
	return 0;
}

char *target_text(const struct router_target *t)
{
	char number[F64_TEXT];

	if (t->kind == TARGET_UNCERTAINTY)
		return str_new("%s:%d", target_rows[t->kind].name, t->expert);
	if (t->kind != TARGET_ERROR && !(t->anchor > 0))
		return mem_strdup(target_rows[t->kind].name);
	print_f64(number, t->kind == TARGET_ERROR ? t->temperature : t->anchor);
	return str_new("%s:%s", target_rows[t->kind].name, number);
}

enum loss_kind target_loss(const struct router_target *t)
{
	if (t->kind == TARGET_MIXTURE)
		return t->anchor > 0 ? LOSS_ANCHORED : LOSS_MIXTURE;
	return t->kind == TARGET_VARIANCE || t->kind == TARGET_UNCERTAINTY ? LOSS_VARIANCE : LOSS_ERRORS;
}

int target_of(const struct router_target *t, const double *gram, int k, int32_t cluster, float *out)
{
	int best = 0, worst = 0;
	double sum = 0;

	for (int i = 1; i < k; i++) {
		best = gram[i * k + i] < gram[best * k + best] ? i : best;
		worst = gram[i * k + i] > gram[worst * k + worst] ? i : worst;
	}
	switch (t->kind) {
	case TARGET_ERROR:
		for (int i = 0; i < k; i++)
			sum += same_exp((gram[best * k + best] - gram[i * k + i]) / t->temperature);
		for (int i = 0; i < k; i++)
			out[i] = (float)(same_exp((gram[best * k + best] - gram[i * k + i]) / t->temperature) / sum);
		break;
	case TARGET_REGRET:
		for (int i = 0; i < k; i++)
			out[i] = (float)(gram[worst * k + worst] - gram[i * k + i]);
		break;
	case TARGET_VARIANCE:
	case TARGET_UNCERTAINTY:
		for (int i = 0; i < k; i++)
			out[i] = (float)gram[i * k + i];
		break;
	default:
		assert(t->kind == TARGET_MIXTURE);
		for (int i = 0; i < k * k; i++)
			out[i] = (float)gram[i];
		for (int i = 0; i < k && t->anchor > 0; i++)
			out[k * k + i] = i == cluster ? (float)t->anchor : 0;
	}
	return best;
}

struct frozen {
	struct device *device;
	struct ensemble ensemble;
	int first, k; /* the experts that are measured: k from this number on */
	int one;      /* it is the expert of TARGET_UNCERTAINTY */
	int64_t capacity;
	float *there_v; /* (capacity, d), on the device */
	float *v, *y;   /* (k, capacity, d), (capacity, d) */
	double *gram;   /* (capacity, k, k) */
	int32_t *label; /* (capacity) */
};

static int check_experts(const struct frozen *f, const struct router_target *t, const char *model, struct err *e)
{
	const struct ensemble *s = &f->ensemble;

	if (t->kind != TARGET_UNCERTAINTY && s->k < 2)
		return err_set(e, ERR_USAGE, "--experts: %s has one expert, and a router chooses among several", model);
	for (int k = f->first; k < f->first + f->k; k++)
		if (!s->expert[k].velocity)
			return err_set(e, ERR_USAGE, "--experts: %s has no expert_%d: a router needs all of its %d experts", model, k, s->k);
	if (s->owners.expert)
		return err_set(e, ERR_USAGE,
		               "--experts: the experts of %s are for parts of the times, and a router can learn only from experts for all times",
		               model);
	if (s->text_tokens)
		return err_set(e, ERR_USAGE, "--experts: the experts of %s read texts, and --target measures their errors without texts", model);
	if (s->told_cluster && s->classes)
		return err_set(e, ERR_USAGE, "--experts: the experts of %s are told the cluster, which the router has to find", model);
	return 0;
}

struct frozen *frozen_open(const char *model, const struct router_target *t, int64_t capacity, struct device *d, struct err *e)
{
	struct frozen *f = mem_zalloc(1, sizeof *f);
	struct ensemble_options o = {.mode = CONVERT_MATCH, .capacity = capacity, .device = d, .policy = policy_of("uniform|full")};
	int one = t->kind == TARGET_UNCERTAINTY;

	*f = (struct frozen){.device = d, .capacity = capacity};
	if (one) {
		o.policy = policy_of("expert:0");
		o.policy.entry[0].number = t->expert;
	}
	if (ensemble_open(&f->ensemble, model, &o, e)) {
		err_prefix(e, "--experts");
		goto fail;
	}
	f->one = one;
	f->first = one ? t->expert : 0;
	f->k = one ? 1 : f->ensemble.k;
	if (check_experts(f, t, model, e) || ensemble_without_first(&f->ensemble, model, e))
		goto fail;
	return f;
fail:
	frozen_free(f);
	return NULL;
}

int frozen_allocate(struct frozen *f, struct err *e)
{
	struct device *d = f->device;
	size_t n = (size_t)(f->capacity * f->ensemble.d), k = (size_t)f->k;

	f->label = mem_alloc((size_t)f->capacity * sizeof *f->label);
	f->gram = mem_alloc((size_t)f->capacity * k * k * sizeof *f->gram);
	return (f->there_v = d->alloc(d, n * sizeof *f->there_v, "the experts' velocities", e)) &&
	               (f->v = mem_try(n * k, sizeof *f->v, "the experts' velocities", e)) &&
	               (f->y = mem_try(n, sizeof *f->y, "the experts' targets", e))
	           ? 0
	           : -1;
}

struct frozen_bytes frozen_bytes(const struct frozen *f, int64_t n)
{
	const struct ensemble *s = &f->ensemble;
	uint64_t one, all, work, sample = (uint64_t)s->d * sizeof(float), rows = (uint64_t)n, k = (uint64_t)f->k;
	struct frozen_bytes b;

	ensemble_weigh(s, &one, &all, &work);
	b.host = rows * (k + 1) * sample + rows * (sizeof *f->label + k * k * sizeof *f->gram);
	work = (uint64_t)((double)work * (double)n / (double)f->capacity) + rows * sample;
	b.device = all + work;
	b.least = (f->device->compact ? all : one) + work;
	return b;
}

void frozen_free(struct frozen *f)
{
	if (!f)
		return;
	f->device->release(f->device, f->there_v);
	ensemble_release(&f->ensemble);
	mem_free(f->v);
	mem_free(f->y);
	mem_free(f->label);
	mem_free(f->gram);
	mem_free(f);
}

struct frozen_info frozen_info(const struct frozen *f)
{
	const struct ensemble *s = &f->ensemble;
	struct frozen_info i = {.k = f->k,
	                        .channels = s->channels,
	                        .size = s->size,
	                        .frames = s->frames,
	                        .classes = s->classes,
	                        .null_label = s->null_label,
	                        .hash = s->hash,
	                        .partition = s->partition,
	                        .extends = s->extends,
	                        .weights = f->one ? ensemble_weights_hash(s, f->first) : NULL};

	for (int k = f->first; k < f->first + f->k; k++)
		i.flops += s->expert[k].flops;
	return i;
}

static void find_gram(void *arg, int64_t i, int worker)
{
	struct frozen *f = arg;
	int64_t d = f->ensemble.d, apart = f->capacity * d;
	int K = f->k;
	const float *y = f->y + i * d;
	double *gram = f->gram + i * K * K;

	(void)worker;
	for (int j = 0; j < K; j++)
		for (int k = 0; k <= j; k++) {
			const float *a = f->v + j * apart + i * d, *b = f->v + k * apart + i * d;
			double sum = 0;

			for (int64_t c = 0; c < d; c++)
				sum += ((double)a[c] - y[c]) * ((double)b[c] - y[c]);
			gram[j * K + k] = gram[k * K + j] = sum / (double)d;
		}
}

const double *frozen_gram(struct frozen *f, int64_t n, const float *x, const float *y, const float *t, const int32_t *label, struct err *e)
{
	const struct ensemble *s = &f->ensemble;
	size_t bytes = (size_t)(n * s->d) * sizeof(float);

	assert(n <= f->capacity);
	for (int64_t i = 0; i < n; i++)
		f->label[i] = label && label[i] >= 0 ? label[i] : s->classes;
	for (int k = 0; k < f->k; k++) {
		const struct condition given = {.label = s->classes ? f->label : NULL};
		const struct expert *own = &s->expert[f->first + k];

		if (own->velocity(own->arg, n, x, t, &given, f->there_v, e))
			return NULL;
		device_get(f->device, f->v + k * f->capacity * s->d, f->there_v, bytes);
	}
	device_get(f->device, f->y, y, bytes);
	if (f->device->error(f->device, e))
		return NULL;
	pool_run(f->device->pool, n, find_gram, f);
	return f->gram;
}
