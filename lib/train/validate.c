/* Measures the loss on held-out samples at fixed times and noise. */
#include <math.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "train/step.h"

/* VALIDATION_STEP keys the draws of latents; the loader uses 0 for training. */
enum { BINS = 10, CONFIDENCE = 10, VALIDATION_STEP = 1 };

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

/* A router's scores by time: cross-entropy, accuracy, expected calibration error. */
struct tally {
	int64_t n[BINS], right[BINS];
	double loss[BINS], confidence[BINS][CONFIDENCE], hits[BINS][CONFIDENCE];
	int64_t seen[BINS][CONFIDENCE];
};

static void tally_add(struct tally *y, double t, const float *logits, int64_t k, int32_t label, double loss)
{
	int b = (int)(t * BINS), c, best = 0;
	double sum = 0, p;

	b = b < BINS ? b : BINS - 1;
	for (int64_t i = 1; i < k; i++)
		if (logits[i] > logits[best])
			best = (int)i;
	for (int64_t i = 0; i < k; i++)
		sum += exp((double)logits[i] - (double)logits[best]);
	p = sum >= 1 ? 1 / sum : 0; /* the logits of a diverged network may be NaN */
	c = (int)(p * CONFIDENCE);
	c = c < CONFIDENCE ? c : CONFIDENCE - 1;
	y->n[b]++;
	y->right[b] += best == label;
	y->loss[b] += loss;
	y->seen[b][c]++;
	y->confidence[b][c] += p;
	y->hits[b][c] += best == label;
}

static json_t *tally_json(const struct tally *y)
{
	json_t *a = json_array();

	for (int b = 0; b < BINS; b++) {
		double ece = 0;

		if (!y->n[b])
			continue;
		for (int c = 0; c < CONFIDENCE; c++)
			ece += fabs(y->confidence[b][c] - y->hits[b][c]);
		json_array_append_new(a, json_pack("{s:f, s:o, s:f, s:f}", "t", (b + .5) / BINS, "loss", jsonio_real(y->loss[b] / (double)y->n[b]),
		                                   "accuracy", (double)y->right[b] / (double)y->n[b], "ece", ece / (double)y->n[b]));
	}
	return a;
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
