/* Draws times and noise for a batch, and computes the targets and weights of the loss. */
#include "train/noised.h"

#include <assert.h>
#include <string.h>

#include "core/mem.h"
#include "tape/ops.h"

enum { VECTORS = 7 };

/* Validation draws are the same in every run, whatever its seed, so that val_loss compares across runs. */
static const uint64_t VALIDATION_SEED = 0;

/* The number of buffers that batches are copied to, and the stream of these copies. */
enum { PLACES = 2, ARRIVALS = 1 };

/* Rows of K numbers that the loss of a sample reads. */
static int64_t target_rows(const struct net_config *c, enum loss_kind kind)
{
	switch (kind) {
	case LOSS_SOFT:
	case LOSS_ERRORS:
	case LOSS_VARIANCE:
		return 1;
	case LOSS_MIXTURE:
		return c->clusters;
	case LOSS_ANCHORED:
		return c->clusters + 1;
	default:
		return 0;
	}
}

/* Whether the target follows from the errors of experts at x_t. */
static int needs_experts(enum loss_kind kind)
{
	return kind == LOSS_ERRORS || kind == LOSS_VARIANCE || kind == LOSS_MIXTURE || kind == LOSS_ANCHORED;
}

static void measure(struct noised *z, int64_t n, const struct net_config *c, enum loss_kind kind)
{
	z->rows = n;
	z->d = net_sample_elements(c);
	z->text_tokens = net_reads(c, NET_IN_TEXT) ? c->text_tokens : 0;
	z->row_bytes[NOISED_VECTORS] = VECTORS * sizeof(float);
	z->row_bytes[NOISED_X0] = (size_t)z->d * sizeof(float);
	z->row_bytes[NOISED_TEXT] = (size_t)(z->text_tokens * c->text_width) * sizeof(float);
	z->row_bytes[NOISED_MASK] = net_reads(c, NET_IN_MASK) ? (size_t)z->text_tokens * sizeof(float) : 0;
	z->row_bytes[NOISED_MICRO] = net_reads(c, NET_IN_MICRO) ? NET_MICRO * sizeof(float) : 0;
	z->row_bytes[NOISED_TARGET] = (size_t)(target_rows(c, kind) * c->clusters) * sizeof(float);
	z->row_bytes[NOISED_FIRST] = net_reads(c, NET_IN_FIRST) ? (size_t)net_first_elements(c) * sizeof(float) : 0;
	z->row_bytes[NOISED_POOLED] = net_reads(c, NET_IN_POOLED) ? (size_t)c->pooled_width * sizeof(float) : 0;
	z->kind = kind;
}

static size_t part_bytes(const struct noised *z, int part, int64_t n)
{
	return (size_t)n * z->row_bytes[part];
}

/* The byte offset of a part, a multiple of 64; of NOISED_PARTS, the end of all parts. */
static size_t part_at(const struct noised *z, int part)
{
	size_t at = 0;

	for (int i = 0; i < part; i++)
		at += (part_bytes(z, i, z->rows) + 63) / 64 * 64;
	return at;
}

static void *part_in(const struct noised *z, float *inputs, int part)
{
	return (char *)inputs + part_at(z, part);
}

void *noised_part(const struct noised *z, enum noised_part part)
{
	return part_in(z, z->inputs, part);
}

static size_t host_bytes(const struct noised *z)
{
	return part_bytes(z, NOISED_VECTORS, z->rows) + part_bytes(z, NOISED_MASK, z->rows) + part_bytes(z, NOISED_TARGET, z->rows) +
	       part_bytes(z, NOISED_FIRST, z->rows);
}

static int places_init(struct noised *z, struct err *e)
{
	struct device *d = z->device;

	for (int i = 0; i < PLACES && d->streams > ARRIVALS; i++) {
		if (!(z->arriving[i] = d->alloc(d, part_at(z, NOISED_PARTS), "the next batch", e)))
			return -1;
		z->arrived[i] = d->event_new(d);
		z->taken[i] = d->event_new(d);
	}
	return 0;
}

/* Set the micro-conditions, which are the same for all samples. */
static void put_micro(struct noised *z, const struct net_config *c)
{
	float *all = mem_alloc(part_bytes(z, NOISED_MICRO, z->rows) + 1);

	net_micro(c, z->rows, all);
	device_put(z->device, noised_part(z, NOISED_MICRO), all, part_bytes(z, NOISED_MICRO, z->rows));
	mem_free(all);
}

int noised_init(struct noised *z, struct device *device, int64_t n, const struct net_config *c, enum loss_kind kind, struct err *e)
{
	float *host;

	*z = (struct noised){.device = device, .net = *c};
	measure(z, n, c, kind);
	host = mem_try(host_bytes(z), 1, "times and weights of a batch", e);
	z->t = host;
	if (!host || !(z->inputs = device->alloc(device, part_at(z, NOISED_PARTS), "batch", e)) || places_init(z, e)) {
		noised_release(z);
		return -1;
	}
	z->weight = host + n;
	z->alpha = host + 2 * n;
	z->sigma = host + 3 * n;
	z->from_x0 = host + 4 * n;
	z->from_eps = host + 5 * n;
	z->label = (int32_t *)(void *)(host + 6 * n);
	if (z->row_bytes[NOISED_MASK])
		z->mask = host + VECTORS * n;
	if (z->row_bytes[NOISED_TARGET])
		z->target = host + (part_bytes(z, NOISED_VECTORS, n) + part_bytes(z, NOISED_MASK, n)) / sizeof *host;
	if (z->row_bytes[NOISED_FIRST])
		z->first = host + (host_bytes(z) - part_bytes(z, NOISED_FIRST, n)) / sizeof *host;
	if (z->row_bytes[NOISED_MICRO])
		put_micro(z, c);
	return 0;
}

void noised_release(struct noised *z)
{
	struct device *d = z->device;

	mem_free(z->t);
	if (d)
		d->release(d, z->inputs);
	for (int i = 0; d && i < PLACES; i++) {
		d->release(d, z->arriving[i]);
		if (z->arrived[i])
			d->event_free(d, z->arrived[i]);
		if (z->taken[i])
			d->event_free(d, z->taken[i]);
	}
	memset(z, 0, sizeof *z);
}

uint64_t noised_bytes(int64_t n, const struct net_config *c, enum loss_kind kind, int streams)
{
	struct noised z = {0};

	measure(&z, n, c, kind);
	return part_at(&z, NOISED_PARTS) * (streams > ARRIVALS ? 1 + PLACES : 1) + host_bytes(&z);
}

void noised_put(struct noised *z)
{
	device_put(z->device, z->inputs, z->t, part_bytes(z, NOISED_VECTORS, z->rows));
}

static void decide_mask(struct noised *z, int64_t n, const struct clean *c)
{
	for (int64_t i = 0; i < n && z->mask; i++)
		for (int64_t k = 0; k < z->text_tokens; k++)
			z->mask[i * z->text_tokens + k] = k < c->rows[i] ? 0 : NET_PADDING;
}

/* The host arrays of n samples and their sizes in bytes, by part. */
struct arrival {
	const void *from[NOISED_PARTS];
	size_t bytes[NOISED_PARTS];
};

static struct arrival arrive(const struct noised *z, int64_t n, const struct clean *c)
{
	struct arrival a = {.from = {z->t, c->x0, c->text, z->mask, NULL, c->pooled, z->kind == LOSS_SOFT ? z->target : NULL, z->first}};

	a.bytes[NOISED_VECTORS] = part_bytes(z, NOISED_VECTORS, z->rows);
	for (int i = NOISED_X0; i < NOISED_PARTS; i++)
		a.bytes[i] = a.from[i] ? part_bytes(z, i, n) : 0;
	return a;
}

static void put_here(struct noised *z, const struct arrival *a)
{
	for (int i = 0; i < NOISED_PARTS; i++)
		if (a->bytes[i])
			device_put(z->device, part_in(z, z->inputs, i), a->from[i], a->bytes[i]);
}

/* A batch is copied within the device from its buffer to the tape's inputs. Their addresses stay the same, so the tape's graph stays valid. */
static void put_aside(struct noised *z, const struct arrival *a)
{
	struct device *d = z->device;
	int64_t k = z->batches++ % PLACES;

	if (z->batches > PLACES)
		d->event_follow(d, z->taken[k], ARRIVALS);
	for (int i = 0; i < NOISED_PARTS; i++)
		if (a->bytes[i])
			d->put(d, ARRIVALS, part_in(z, z->arriving[k], i), a->from[i], a->bytes[i]);
	d->event_record(d, z->arrived[k], ARRIVALS);
	d->event_follow(d, z->arrived[k], 0);
	for (int i = 0; i < NOISED_PARTS; i++)
		if (a->bytes[i])
			d->copy(d, 0, part_in(z, z->inputs, i), part_in(z, z->arriving[k], i), a->bytes[i]);
	d->event_record(d, z->taken[k], 0);
}

void noised_put_text(struct noised *z, int64_t n, const struct clean *clean)
{
	struct arrival a;

	decide_mask(z, n, clean);
	a = arrive(z, n, clean);
	a.bytes[NOISED_VECTORS] = a.bytes[NOISED_X0] = a.bytes[NOISED_TARGET] = a.bytes[NOISED_FIRST] = 0;
	put_here(z, &a);
}

static void keep_first(struct noised *z, int64_t i, const float *x0)
{
	net_put_first(&z->net, x0, z->first + i * net_first_elements(&z->net));
}

void noised_put_first(struct noised *z, int64_t n, const float *x0)
{
	for (int64_t i = 0; i < n; i++)
		keep_first(z, i, x0 + i * z->d);
	device_put(z->device, noised_part(z, NOISED_FIRST), z->first, part_bytes(z, NOISED_FIRST, n));
}

void noised_put_target(struct noised *z, int64_t n)
{
	device_put(z->device, noised_part(z, NOISED_TARGET), z->target, part_bytes(z, NOISED_TARGET, n));
}

struct rows {
	const struct objective *o;
	const struct clean *clean;
	uint64_t seed, step, first;
	int64_t total; /* samples of the validation; 0: training */
};

static int32_t label_of(const struct rows *r, int64_t i)
{
	const struct objective *o = r->o;
	int32_t y;

	if (o->def.loss != LOSS_SQUARED)
		return r->clean->cluster[i];
	if (o->condition == CONDITION_NONE)
		return 0;
	y = o->condition == CONDITION_CLASS ? r->clean->label[i] : r->clean->cluster[i];
	if (y < 0 || (!r->total && o->class_dropout > 0 && rng_uniform(r->seed, RNG_LABEL, r->step, r->first + (uint64_t)i, 0) < o->class_dropout))
		return (int32_t)o->classes;
	return y;
}

/* Whether the first frame of a sample is withheld; a probability of 1 withholds it in validation, too. */
static int withholds(const struct rows *r, int64_t i)
{
	double p = r->o->frame_dropout;

	return p >= 1 || (!r->total && p > 0 && rng_uniform(r->seed, RNG_FIRST, r->step, r->first + (uint64_t)i, 0) < p);
}

/* Label smoothing (Szegedy et al. 2016, arXiv 1512.00567, section 7), in training alone, so that the held-out loss compares across runs. */
static void soften(const struct rows *r, float *target, int64_t k, int32_t label)
{
	double share = r->total ? 0 : r->o->smoothing;

	for (int64_t i = 0; i < k; i++)
		target[i] = (float)(share / (double)k + (i == label ? 1 - share : 0));
}

static void decide(const struct rows *r, struct noised *z, int64_t i)
{
	const struct objective *o = r->o;
	const struct path *path = o->path;
	uint64_t index = r->first + (uint64_t)i;
	double u = ((double)index + .5) / (double)r->total;
	struct objective_point p;
	double lo, hi, t;

	time_span(o->def.range, path, &lo, &hi);
	t = r->total ? lo + u * (hi - lo) : time_sample(&o->def.time, &o->def.range, path, r->seed, RNG_TIME, r->step, index);
	p = objective_at(&o->def, path, t);

	z->t[i] = (float)t;
	z->weight[i] = (float)p.weight;
	z->alpha[i] = (float)p.at.alpha;
	z->sigma[i] = (float)p.at.sigma;
	z->from_x0[i] = (float)p.from_x0;
	z->from_eps[i] = (float)p.from_eps;
	z->label[i] = label_of(r, i);
	if (z->first)
		keep_first(z, i, withholds(r, i) ? NULL : r->clean->x0 + i * z->d);
	if (z->kind == LOSS_SOFT) {
		int64_t k = (int64_t)(z->row_bytes[NOISED_TARGET] / sizeof(float));

		soften(r, z->target + i * k, k, z->label[i]);
	}
}

static void fill(const struct rows *r, struct noised *z, struct loss_tape *l, int64_t n)
{
	const struct run_keys keys = {r->seed, r->step, r->first, r->total ? RNG_VALIDATE : RNG_NOISE, r->total > 0};
	struct arrival a;

	for (int64_t i = 0; i < n; i++)
		decide(r, z, i);
	decide_mask(z, n, r->clean);
	a = arrive(z, n, r->clean);
	(z->arriving[0] ? put_aside : put_here)(z, &a);
	tape_seed(l->tape, &keys);
}

void objective_noise(const struct objective *o, struct noised *z, struct loss_tape *l, int64_t n, const struct clean *clean, uint64_t seed,
                     uint64_t step, uint64_t first)
{
	struct rows r = {o, clean, seed, step, first, 0};

	fill(&r, z, l, n);
}

void objective_validate(const struct objective *o, struct noised *z, struct loss_tape *l, int64_t n, const struct clean *clean, int64_t first,
                        int64_t total)
{
	struct rows r = {o, clean, VALIDATION_SEED, 0, (uint64_t)first, total};

	fill(&r, z, l, n);
}

static struct tensor *vector(struct tape *t)
{
	int64_t n = tape_capacity(t);

	return tape_input(t, tape_real(t), 1, &n, TAPE_BATCHED);
}

/* w'Gw for w = softmax(logits) (B, K) and G (B, K, K). Errors of experts differ in their last digits where there is much noise, and bfloat16 has
 * three, so all of it is float. */
static struct tensor *mixture_loss(struct tape *t, struct tensor *logits, struct tensor *gram)
{
	int64_t n = logits->shape[0], k = logits->shape[1], column[3] = {n, k, 1}, one[3] = {n, 1, 1};
	struct tensor *w = tape_float(t, op_reshape(t, op_softmax(t, logits), 3, column)), *gw = tape_float(t, op_matmul(t, gram, 0, w, 0, 1));

	return op_reshape(t, tape_float(t, op_sum(t, tape_float(t, op_mul(t, w, gw)), one, 1)), 1, &n);
}

/* The mean over the experts of (e exp(z) - z) / 2, for logits z and squared errors e, both (B, K): the negative log-likelihood of errors with mean 0
 * and variance exp(-z). In float, as mixture_loss. */
static struct tensor *variance_loss(struct tape *t, struct tensor *logits, struct tensor *error)
{
	int64_t n = logits->shape[0], one[2] = {n, 1};
	struct tensor *z = tape_float(t, logits), *scaled = tape_float(t, op_mul(t, tape_float(t, op_unary(t, z, UNARY_EXP)), error));

	z = tape_float(t, op_axpby(t, 1, scaled, -1, z));
	return op_reshape(t, tape_float(t, op_sum(t, z, one, .5 / (double)logits->shape[1])), 1, &n);
}

/* The mixture's loss by the first K rows of target (B, K + 1, K), plus the cross-entropy of the last. */
static struct tensor *anchored_loss(struct tape *t, struct tensor *logits, struct tensor *target)
{
	int64_t k = logits->shape[1];
	struct tensor *anchor = op_reshape(t, op_slice(t, target, 1, k, 1), 2, logits->shape);

	return tape_float(t, op_add(t, mixture_loss(t, logits, op_slice(t, target, 1, 0, k)), op_xent_soft(t, logits, anchor)));
}

void loss_record(struct loss_tape *l, const struct net_config *c, enum loss_kind kind, struct params *p, enum dtype real, int64_t capacity,
                 int backward, enum recompute recompute)
{
	struct tape *t = tape_new(real, capacity);
	int64_t shape[5] = {capacity};
	int rank = 1 + net_sample_shape(c, shape + 1);
	struct net_input in = {.dropout = c->dropout};
	struct tensor *eps;

	*l = (struct loss_tape){.tape = t, .x0 = tape_input(t, real, rank, shape, TAPE_BATCHED), .alpha = vector(t), .sigma = vector(t)};
	l->t = vector(t);
	assert((kind == LOSS_SQUARED) == !net_is_classifier(c));
	if (kind == LOSS_CLASS || net_reads(c, NET_IN_LABEL))
		l->label = tape_input(t, DT_I32, 1, shape, TAPE_BATCHED);
	eps = op_noise(t, rank, shape);
	l->x = op_qsample(t, l->x0, eps, l->alpha, l->sigma);
	if (kind != LOSS_CLASS && kind != LOSS_SOFT) {
		l->from_x0 = vector(t);
		l->from_eps = vector(t);
	}
	if (needs_experts(kind))
		tape_keep(t, l->velocity = op_qsample(t, l->x0, eps, l->from_x0, l->from_eps));
	l->network = tape_mark(t);
	in.x = l->x;
	in.time = l->t;
	in.label = net_is_classifier(c) ? NULL : l->label;
	net_inputs(t, c, &in);
	l->text = in.text;
	l->mask = in.mask;
	l->micro = in.micro;
	l->pooled = in.pooled;
	l->first = in.first;
	l->out = net_record(t, p, c, &in);
	if (kind == LOSS_CLASS) {
		l->loss = op_xent(t, l->out, l->label);
	} else if (kind == LOSS_MIXTURE || kind == LOSS_ANCHORED) {
		l->target = tape_input(t, real, 3, (int64_t[3]){capacity, target_rows(c, kind), c->clusters}, TAPE_BATCHED);
		l->loss = (kind == LOSS_MIXTURE ? mixture_loss : anchored_loss)(t, l->out, l->target);
	} else if (kind != LOSS_SQUARED) {
		l->target = tape_input(t, real, 2, (int64_t[2]){capacity, c->clusters}, TAPE_BATCHED);
		l->loss = (kind == LOSS_VARIANCE ? variance_loss : op_xent_soft)(t, l->out, l->target);
	} else {
		l->weight = vector(t);
		l->loss = op_mse(t, l->out, op_qsample(t, l->x0, eps, l->from_x0, l->from_eps), l->weight);
	}
	tape_keep(t, l->x);
	tape_keep(t, l->out);
	tape_keep(t, l->loss);
	l->forward_end = tape_mark(t);
	if (backward) {
		l->dloss = tape_input(t, real, 1, shape, TAPE_BATCHED);
		tape_recompute(t, recompute);
		tape_backward(t, l->loss, l->dloss);
	}
	l->end = tape_mark(t);
	params_layout(p);
}

void loss_bind(struct loss_tape *l, const struct noised *z)
{
	struct tensor *const vectors[VECTORS] = {l->t, l->weight, l->alpha, l->sigma, l->from_x0, l->from_eps, l->label};
	struct tensor *const parts[NOISED_PARTS] = {NULL, l->x0, l->text, l->mask, l->micro, l->pooled, l->target, l->first};

	for (int i = NOISED_X0; i < NOISED_PARTS; i++)
		if (parts[i])
			tape_bind(l->tape, parts[i], noised_part(z, i));
	for (int i = 0; i < VECTORS; i++)
		if (vectors[i])
			tape_bind(l->tape, vectors[i], z->inputs + (int64_t)i * z->rows);
}
