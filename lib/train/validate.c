#include <math.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "train/run.h"

enum { BINS = 10, CONFIDENCE = 10 };

/* Which held-out samples: fixed draws of a keyed permutation. */
static int64_t sample_index(const struct trainer *r, int64_t i)
{
	return (int64_t)rng_permute((uint64_t)i, (uint64_t)dataset_info(r->held)->count, 0, RNG_VALIDATE, 0);
}

static int read_part(struct trainer *r, int64_t first, int64_t n, float *x0, int32_t *label, int32_t *cluster, struct err *e)
{
	for (int64_t i = 0; i < n; i++)
		if (dataset_read(r->held, sample_index(r, first + i), x0 + i * r->objective.d, &label[i], &cluster[i], e))
			return -1;
	return 0;
}

/* A router's answers by time: cross-entropy, accuracy, expected calibration error. */
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
	p = sum >= 1 ? 1 / sum : 0; /* logits of a ruined network are not numbers */
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
		json_array_append_new(a, json_pack("{s:f, s:o, s:f, s:f}", "t", (b + .5) / BINS, "loss",
		                                   jsonio_real(y->loss[b] / (double)y->n[b]), "accuracy",
		                                   (double)y->right[b] / (double)y->n[b], "ece", ece / (double)y->n[b]));
	}
	return a;
}

int validate(struct trainer *r, double *loss, json_t **detail, struct err *e)
{
	int64_t total = r->validations, d = r->objective.d, n;
	float *x0 = mem_try((size_t)r->part, (size_t)d * sizeof *x0, "validation batch", e);
	int32_t *label = mem_zalloc((size_t)r->part, sizeof *label), *cluster = mem_zalloc((size_t)r->part, sizeof *cluster);
	float *each = mem_zalloc((size_t)r->part, sizeof *each), *out = mem_zalloc((size_t)(r->part * r->net.clusters), sizeof *out);
	struct device *dev = r->device;
	struct tally y = {0};
	double sum = 0;
	int rc = x0 ? 0 : -1;

	trainer_bind(r, r->state.ema);
	for (int64_t first = 0; !rc && first < total; first += n) {
		n = total - first < r->part ? total - first : r->part;
		rc = read_part(r, first, n, x0, label, cluster, e);
		if (rc)
			break;
		objective_validate(&r->objective, &r->noised, &r->loss, n, x0, label, cluster, first, total);
		tape_run(r->loss.tape, n, 0, r->loss.forward_end);
		device_get(dev, each, tape_data(r->loss.tape, r->loss.loss), (size_t)n * sizeof *each);
		if (r->net.kind == NET_ROUTER)
			device_get(dev, out, tape_data(r->loss.tape, r->loss.out), (size_t)(n * r->net.clusters) * sizeof *out);
		rc = dev->error(dev, e);
		for (int64_t i = 0; i < n; i++) {
			sum += each[i];
			if (r->net.kind == NET_ROUTER)
				tally_add(&y, r->noised.t[i], out + i * r->net.clusters, r->net.clusters, r->noised.label[i],
				          each[i]);
		}
	}
	trainer_bind(r, r->state.values);
	*loss = sum / (double)total;
	if (!rc && detail)
		*detail = r->net.kind == NET_ROUTER ? tally_json(&y) : NULL;
	mem_free(x0);
	mem_free(each);
	mem_free(out);
	mem_free(label);
	mem_free(cluster);
	return rc;
}
