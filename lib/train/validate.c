/* Measures the loss on held-out samples at fixed times and noise. */
#include <string.h>

#include "core/mem.h"
#include "train/step.h"
#include "train/tally.h"

/* VALIDATION_STEP keys the draws of latents; the loader uses 0 for training. */
enum { VALIDATION_STEP = 1 };

/* The held-out samples to use: a fixed prefix of a keyed permutation. */
static int64_t sample_index(const struct trainer *r, int64_t i)
{
	return (int64_t)rng_permute((uint64_t)i, (uint64_t)dataset_info(r->held)->count, 0, RNG_VALIDATE, 0);
}

/* A batch of held-out samples, prepared as in training. */
struct part {
	float *x0, *std, *text;
	uint16_t *half;
	int32_t *label, *cluster, *rows;
};

static int part_init(struct part *p, const struct trainer *r, struct err *e)
{
	size_t n = (size_t)r->part, text = (size_t)(r->net.text_tokens * r->net.text_width), d = (size_t)r->objective.d;

	p->label = mem_zalloc(n, sizeof *p->label);
	p->cluster = mem_zalloc(n, sizeof *p->cluster);
	p->rows = mem_zalloc(n, sizeof *p->rows);
	p->std = dataset_info(r->held)->deviations ? mem_alloc(d * sizeof *p->std) : NULL;
	p->half = text ? mem_alloc(text * sizeof *p->half) : NULL;
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
	mem_free(p->label);
	mem_free(p->cluster);
	mem_free(p->rows);
}

/* Read held-out samples [first, first + n). Like the noise, draws of latents do not depend on the run's seed. */
static int read_part(struct trainer *r, int64_t first, int64_t n, struct part *p, struct err *e)
{
	int64_t text = r->net.text_tokens * r->net.text_width;

	for (int64_t i = 0; i < n; i++) {
		struct dataset_item it = {.x = p->x0 + i * r->objective.d, .std = p->std, .text = p->half};

		if (dataset_item(r->held, sample_index(r, first + i), &it, e))
			return -1;
		name_nonfinite_sample(r, r->held, sample_index(r, first + i), it.x, r->objective.d);
		p->label[i] = it.label;
		p->cluster[i] = it.cluster;
		p->rows[i] = it.rows;
		if (p->std)
			latent_draw(it.x, p->std, r->objective.d, 0, VALIDATION_STEP, (uint64_t)(first + i));
		if (p->half)
			text_expand(p->text + i * text, p->half, text);
	}
	return 0;
}

int validate(struct trainer *r, double *loss, json_t **detail, struct err *e)
{
	int64_t total = r->validations, n;
	struct part p = {0};
	float *each = mem_zalloc((size_t)r->part, sizeof *each), *out = mem_zalloc((size_t)(r->part * r->net.clusters), sizeof *out);
	struct device *dev = r->device;
	struct tally y = {0};
	double sum = 0;
	int rc = part_init(&p, r, e);
	const struct clean clean = {p.x0, p.label, p.cluster, p.text, p.rows};

	trainer_bind(r, r->state.ema);
	for (int64_t first = 0; !rc && first < total; first += n) {
		n = total - first < r->part ? total - first : r->part;
		rc = read_part(r, first, n, &p, e);
		if (rc)
			break;
		objective_validate(&r->objective, &r->noised, &r->loss, n, &clean, first, total);
		tape_run(r->loss.tape, n, 0, r->loss.forward_end);
		device_get(dev, each, tape_data(r->loss.tape, r->loss.loss), (size_t)n * sizeof *each);
		if (net_is_classifier(&r->net))
			device_get(dev, out, tape_data(r->loss.tape, r->loss.out), (size_t)(n * r->net.clusters) * sizeof *out);
		rc = dev->error(dev, e);
		for (int64_t i = 0; i < n; i++) {
			sum += each[i];
			if (net_is_classifier(&r->net))
				tally_add(&y, r->noised.t[i], out + i * r->net.clusters, r->net.clusters, r->noised.label[i], each[i]);
		}
	}
	trainer_bind(r, r->state.values);
	*loss = sum / (double)total;
	if (!rc && detail)
		*detail = net_is_classifier(&r->net) ? tally_json(&y) : NULL;
	part_release(&p);
	mem_free(each);
	mem_free(out);
	return rc;
}
