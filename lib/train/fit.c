/* Estimates the memory of a run, compares it with the free memory, and proposes options that need less. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/str.h"
#include "train/run.h"

/* Add what a set needs. Returns the bytes of its prefetched batches, which are on the host. */
static uint64_t plan_set(const struct trainer *r, const struct train_set *s, const struct net_config *c, struct train_plan *p)
{
	uint64_t loading = loader_bytes(s->data, r->parts * r->part, LOADER_AHEAD);

	p->activations += (uint64_t)tape_arena_bytes(s->loss.tape);
	p->scratch += (uint64_t)tape_scratch_bytes(s->loss.tape);
	p->batches += noised_bytes(r->part, c, s->objective.def.loss, r->device->streams) + loading;
	p->data += dataset_info(s->data)->kept_bytes + (s->held ? dataset_info(s->held)->kept_bytes : 0);
	return loading;
}

void trainer_plan(const struct trainer *r, struct train_plan *p)
{
	const struct train_options *o = r->o;
	int bf16 = device_stores_bf16(r->device, (enum precision)o->precision);
	struct device_memory m = {0};
	struct frozen_bytes experts = {0};
	struct net_config one = picture_net(&r->net);
	struct shares shares;
	uint64_t loading = 0;

	if (r->frozen)
		experts = frozen_bytes(r->frozen, r->part);
	memset(p, 0, sizeof *p);
	p->accumulate = o->accumulate;
	p->ranks = rank_count(o);
	shares_init(&shares, &r->params, o->optimizer == OPTIMIZER_MUON, 0, rank_count(o));
	p->weights = (sizeof(float) + (bf16 ? sizeof(uint16_t) : 0)) * (uint64_t)r->params.total;
	p->gradients = update_bytes(&r->params, rank_parts(o), rank_count(o));
	p->optimizer = state_bytes(&r->params, o->keep_best && r->main.held, bf16, o->offload, shares.most) - p->weights +
	               update_mask_bytes(&r->params) + update_lane_bytes(&r->params, o->offload);
	p->optimizer += o->optimizer == OPTIMIZER_MUON ? muon_bytes(&r->params, r->device) : 0;
	p->offloaded = o->offload ? 2 * sizeof(float) * (uint64_t)shares.most : 0;
	p->comm = rank_count(o) > 1 ? rank_update_step_bytes(&shares, o->batch) + comm_gather_bytes(0, rank_count(o), 1) /* whether to stop */ : 0;
	shares_release(&shares);
	loading = plan_set(r, &r->main, &r->net, p);
	loading += r->pictures.data ? plan_set(r, &r->pictures, &one, p) : 0;
	p->experts = experts.host + experts.device;
	p->total = p->weights + p->gradients + p->optimizer + p->activations + p->scratch + p->batches + p->data + p->experts + p->offloaded;
	p->device = p->total - p->data - (r->device->host ? 0 : loading + p->offloaded + experts.host);
	r->device->memory(r->device, &m);
	p->free = m.total ? m.free : 0;
	if (p->free && p->device > p->free)
		p->device -= experts.device - experts.least;
	p->beside = m.total && !r->device->host ? m.total - m.free - m.used : 0;
	p->parameters = params_count(&r->params, 0);
	p->samples = dataset_info(r->main.data)->count;
	p->pictures = r->pictures.data ? dataset_info(r->pictures.data)->count : 0;
	p->steps = r->steps;
	p->flops_per_sample = r->flops_per_sample;
}

/* A way to save memory. change: applies it, or its next stronger setting; 0 if there is none. */
struct saving {
	const char *option;
	int (*change)(struct train_options *o, const struct device *d);
	int64_t (*value)(const struct train_options *o); /* the option's value; NULL: none */
	const char *text;                                /* printed after the value */
};

static int recompute_light(struct train_options *o, const struct device *d)
{
	(void)d;
	return o->recompute || o->recompute_light ? 0 : (o->recompute_light = 1);
}

static int recompute(struct train_options *o, const struct device *d)
{
	(void)d;
	o->recompute_light = 0;
	return o->recompute ? 0 : (o->recompute = 1);
}

static int offload(struct train_options *o, const struct device *d)
{
	if (o->offload || d->host || o->optimizer == OPTIMIZER_MUON)
		return 0;
	o->offload = TRAIN_RANGE;
	return 1;
}

/* The next larger number of equal parts of the batch. */
static int cut_batch(struct train_options *o, const struct device *d)
{
	int64_t n = o->accumulate + 1;

	(void)d;
	while (n <= o->batch && o->batch % n)
		n++;
	if (n > o->batch)
		return 0;
	o->accumulate = n;
	return 1;
}

static int64_t parts(const struct train_options *o)
{
	return o->accumulate;
}

static int round_off(struct train_options *o, const struct device *d)
{
	if (o->precision == PRECISION_BF16 || !(d->storage >> DT_BF16 & 1))
		return 0;
	o->precision = PRECISION_BF16;
	return 1;
}

/* In the order of proposal: first those that change no result, then the one that changes the order of sums, then the one that changes rounding. */
static const struct saving savings[] = {
    {"--recompute-light", recompute_light, NULL, ""}, {"--recompute", recompute, NULL, ""},      {"--offload", offload, NULL, " optimizer"},
    {"--accumulate", cut_batch, parts, ""},           {"--precision", round_off, NULL, " bf16"},
};
enum { SAVINGS = sizeof savings / sizeof *savings, LIGHT = 0, BLOCKS = 1 };

static void put_saving(struct str *s, const struct saving *v, const struct train_options *o)
{
	str_puts(s, v->option);
	if (v->value)
		str_printf(s, " %" PRId64, v->value(o));
	str_puts(s, v->text);
}

static uint64_t need_of(const struct trainer *r, const struct train_options *o)
{
	struct trainer v = {.o = o, .net = r->net, .path = r->path, .device = r->device, .steps = r->steps, .frozen = r->frozen};
	struct train_plan p;

	v.main.data = r->main.data;
	v.main.held = r->main.held;
	v.pictures.data = r->pictures.data;
	v.pictures.held = r->pictures.held;
	v.part = o->batch / o->accumulate;
	trainer_record(&v);
	trainer_plan(&v, &p);
	tape_free(v.main.loss.tape);
	tape_free(v.pictures.loss.tape);
	params_release(&v.params);
	return p.device;
}

int64_t trainer_parts(const struct trainer *r)
{
	struct train_options o = *r->o;
	struct train_plan p;

	trainer_plan(r, &p);
	o.accumulate = 1;
	while (p.free && need_of(r, &o) > p.free)
		if (!cut_batch(&o, r->device))
			return 1;
	return o.accumulate;
}

static void bytes_text(char text[32], uint64_t bytes)
{
	if (bytes < 100000)
		snprintf(text, 32, "%d B", (int)bytes);
	else
		snprintf(text, 32, bytes < 1000000000 ? "%.1f MB" : "%.2f GB", (double)bytes * (bytes < 1000000000 ? 1e-6 : 1e-9));
}

/* Find the first saving that suffices alone, at its weakest setting; otherwise combine all that help until the run fits. *how receives the
 * options and *need the memory that the run then needs. 0 if even that does not fit. */
static int find_saving(const struct trainer *r, uint64_t have, struct str *how, uint64_t *need)
{
	struct train_options least = *r->o;
	char used[SAVINGS] = {0};

	for (int i = 0; i < SAVINGS; i++) {
		struct train_options one = *r->o;

		while (savings[i].change(&one, r->device))
			if ((*need = need_of(r, &one)) <= have) {
				put_saving(how, &savings[i], &one);
				return 1;
			}
	}
	*need = need_of(r, r->o);
	for (int i = 0; i < SAVINGS; i++) {
		struct train_options more = least;

		while (*need > have && savings[i].change(&more, r->device)) {
			uint64_t n = need_of(r, &more);

			if (n >= *need)
				continue;
			used[i] = 1;
			least = more;
			*need = n;
		}
	}
	used[LIGHT] &= !used[BLOCKS];
	for (int i = 0; i < SAVINGS; i++)
		if (used[i]) {
			str_puts(how, how->len ? " " : "");
			put_saving(how, &savings[i], &least);
		}
	return *need <= have;
}

int trainer_fits(const struct trainer *r, const struct train_plan *p, struct err *e)
{
	struct str how = {0};
	char need[32], have[32], missing[32], less[32] = "";
	uint64_t saved = p->device;
	int fits;

	if (!p->free || p->device <= p->free)
		return 0;
	fits = find_saving(r, p->free, &how, &saved);
	bytes_text(need, p->device);
	bytes_text(have, p->free);
	bytes_text(missing, p->device - p->free);
	bytes_text(less, saved);
	if (!how.len)
		err_set(e, ERR_NOMEM, "%s: out of memory: the run needs %s and %s are free (%s too little); no option lowers the need",
		        r->device->name, need, have, missing);
	else
		err_set(e, ERR_NOMEM, "%s: out of memory: the run needs %s and %s are free (%s too little); %s %s (%s)", r->device->name, need, have,
		        missing, fits ? "it would fit with" : "it would not fit even with", str_text(&how), less);
	str_release(&how);
	return -1;
}
