/* Measures the loss on held-out samples at fixed times and noise. */
#include <string.h>

#include "core/mem.h"
#include "train/step.h"
#include "train/tally.h"

/* VALIDATION_STEP keys the draws of latents; the loader uses 0 for training. */
enum { VALIDATION_STEP = 1 };

/* The held-out samples to use: a fixed prefix of a keyed permutation. */
static int64_t sample_index(const struct train_set *s, int64_t i)
{
	return (int64_t)rng_permute((uint64_t)i, (uint64_t)dataset_info(s->held)->count, 0, RNG_VALIDATE, 0);
}

/* A batch of held-out samples, prepared as in training. */
struct part {
	float *x0, *std, *text, *pooled;
	uint16_t *half, *half_pooled;
	int32_t *label, *cluster, *rows;
};

static int part_init(struct part *p, const struct trainer *r, const struct train_set *s, struct err *e)
{
	size_t n = (size_t)r->part, text = (size_t)(r->net.text_tokens * r->net.text_width), d = (size_t)s->objective.d;

	p->label = mem_zalloc(n, sizeof *p->label);
	p->cluster = mem_zalloc(n, sizeof *p->cluster);
	p->rows = mem_zalloc(n, sizeof *p->rows);
	p->std = dataset_info(s->held)->deviations ? mem_alloc(d * sizeof *p->std) : NULL;
	p->half = text ? mem_alloc(text * sizeof *p->half) : NULL;
	if (r->net.pooled_width) {
		p->half_pooled = mem_alloc((size_t)r->net.pooled_width * sizeof *p->half_pooled);
		if (!(p->pooled = mem_try(n, (size_t)r->net.pooled_width * sizeof *p->pooled, "texts of validation", e)))
			return -1;
	}
	if (!(p->x0 = mem_try(n, d * sizeof *p->x0, "validation batch", e)))
		return -1;
	return text && !(p->text = mem_try(n, text * sizeof *p->text, "texts of validation", e)) ? -1 : 0;
}

static void part_release(struct part *p)
{
	mem_free(p->x0);
	mem_free(p->std);
	mem_free(p->text);
	mem_free(p->half);
	mem_free(p->pooled);
	mem_free(p->half_pooled);
	mem_free(p->label);
	mem_free(p->cluster);
	mem_free(p->rows);
}

/* Read held-out samples [first, first + n). Like the noise, draws of latents do not depend on the run's seed. */
static int read_part(struct trainer *r, struct train_set *s, int64_t first, int64_t n, struct part *p, struct err *e)
{
	int64_t text = r->net.text_tokens * r->net.text_width;

	for (int64_t i = 0; i < n; i++) {
		struct dataset_item it = {.x = p->x0 + i * s->objective.d, .std = p->std, .text = p->half, .pooled = p->half_pooled};

		if (dataset_item(s->held, sample_index(s, first + i), &it, e))
			return -1;
		name_nonfinite_sample(r, s->held, sample_index(s, first + i), it.x, s->objective.d);
		p->label[i] = it.label;
		p->cluster[i] = it.cluster;
		p->rows[i] = it.rows;
		if (p->std)
			latent_draw(it.x, p->std, s->objective.d, 0, VALIDATION_STEP, (uint64_t)(first + i));
		if (p->half)
			text_expand(p->text + i * text, p->half, text);
		if (p->pooled)
			text_expand(p->pooled + i * r->net.pooled_width, p->half_pooled, r->net.pooled_width);
	}
	return 0;
}

/* The states of n held-out samples from `first` on: their losses, and a classifier's logits. */
static int run_part(struct trainer *r, struct train_set *s, int64_t first, int64_t n, int64_t total, const struct clean *clean, float *each,
                    float *out, struct err *e)
{
	struct device *dev = r->device;

	objective_validate(&s->objective, &s->noised, &s->loss, n, clean, first, total);
	if (trainer_forward(r, s, n, clean, e))
		return -1;
	device_get(dev, each, tape_data(s->loss.tape, s->loss.loss), (size_t)n * sizeof *each);
	if (net_is_classifier(&r->net))
		device_get(dev, out, tape_data(s->loss.tape, s->loss.out), (size_t)(n * r->net.clusters) * sizeof *out);
	return dev->error(dev, e);
}

int held_run(struct trainer *r, struct train_set *s, float *values, int64_t passes, void (*see)(void *arg, const struct held_state *s), void *arg,
             struct err *e)
{
	int64_t samples = s->validations, k = r->net.clusters, n, numbers = (int64_t)(s->noised.row_bytes[NOISED_TARGET] / sizeof(float));
	struct part p = {0};
	float *each = mem_zalloc((size_t)r->part, sizeof *each), *out = mem_zalloc((size_t)(r->part * k), sizeof *out);
	int rc = part_init(&p, r, s, e);
	const struct clean clean = {p.x0, p.label, p.cluster, p.text, p.rows, p.pooled};

	trainer_bind(r, values);
	for (int64_t pass = 0; pass < passes; pass++)
		for (int64_t first = 0; !rc && first < samples; first += n) {
			n = samples - first < r->part ? samples - first : r->part;
			rc = read_part(r, s, first, n, &p, e) || run_part(r, s, pass * samples + first, n, passes * samples, &clean, each, out, e)
			         ? -1
			         : 0;
			for (int64_t i = 0; i < n && !rc; i++)
				see(arg, &(struct held_state){.index = pass * samples + first + i,
				                              .t = s->noised.t[i],
				                              .loss = each[i],
				                              .label = s->noised.label[i],
				                              .logits = out + i * k,
				                              .target = s->noised.target ? s->noised.target + i * numbers : NULL});
		}
	trainer_bind(r, r->state.values);
	part_release(&p);
	mem_free(each);
	mem_free(out);
	return rc;
}

struct validation {
	int64_t k; /* clusters of a classifier that has several; else 0 */
	double sum;
	struct time_losses by; /* without a classifier */
	struct tally tally;
};

static void add_state(void *arg, const struct held_state *s)
{
	struct validation *v = arg;

	v->sum += s->loss;
	if (v->k)
		tally_add(&v->tally, s->t, s->logits, v->k, s->label, s->loss);
	else
		time_losses_add(&v->by, s->t, s->loss);
}

int validate(struct trainer *r, struct train_set *s, double *loss, json_t **detail, struct err *e)
{
	struct validation v = {.k = net_is_classifier(&r->net) && r->net.clusters > 1 ? r->net.clusters : 0};

	float *average;

	if (state_gather(&r->state, STATE_AVERAGE, &average, e) || held_run(r, s, average, 1, add_state, &v, e))
		return -1;
	*loss = v.sum / (double)s->validations;
	if (detail)
		*detail = v.k ? tally_json(&v.tally) : time_losses_json(&v.by);
	return 0;
}
