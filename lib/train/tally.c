/* Counts how well a router's probabilities fit the labels of held-out samples. validate.c calls it. */
#include "train/tally.h"

#include <math.h>

#include "core/jsonio.h"

void tally_add(struct tally *y, double t, const float *logits, int64_t k, int32_t label, double loss)
{
	int b = (int)(t * TALLY_TIMES), c, best = 0;
	double sum = 0, p;

	b = b < TALLY_TIMES ? b : TALLY_TIMES - 1;
	for (int64_t i = 1; i < k; i++)
		if (logits[i] > logits[best])
			best = (int)i;
	for (int64_t i = 0; i < k; i++)
		sum += exp((double)logits[i] - (double)logits[best]);
	p = sum >= 1 ? 1 / sum : 0; /* the logits of a diverged network may be NaN */
	c = (int)(p * TALLY_BINS);
	c = c < TALLY_BINS ? c : TALLY_BINS - 1;
	y->n[b]++;
	y->right[b] += best == label;
	y->loss[b] += loss;
	y->confidence[b][c] += p;
	y->hits[b][c] += best == label;
}

/* Of interval b, times its number of samples. */
static double error_of(const struct tally *y, int b)
{
	double sum = 0;

	for (int c = 0; c < TALLY_BINS; c++)
		sum += fabs(y->confidence[b][c] - y->hits[b][c]);
	return sum;
}

static double samples(const struct tally *y)
{
	int64_t n = 0;

	for (int b = 0; b < TALLY_TIMES; b++)
		n += y->n[b];
	return (double)n;
}

double tally_loss(const struct tally *y)
{
	double sum = 0;

	for (int b = 0; b < TALLY_TIMES; b++)
		sum += y->loss[b];
	return sum / samples(y);
}

double tally_ece(const struct tally *y)
{
	double sum = 0;

	for (int b = 0; b < TALLY_TIMES; b++)
		sum += error_of(y, b);
	return sum / samples(y);
}

json_t *tally_json(const struct tally *y)
{
	json_t *a = json_array();

	for (int b = 0; b < TALLY_TIMES; b++) {
		double n = (double)y->n[b];

		if (!y->n[b])
			continue;
		json_array_append_new(a, json_pack("{s:f, s:I, s:o, s:f, s:f, s:i}", "t", (b + .5) / TALLY_TIMES, "n", (json_int_t)y->n[b], "loss",
		                                   jsonio_real(y->loss[b] / n), "accuracy", (double)y->right[b] / n, "ece", error_of(y, b) / n,
		                                   "ece_bins", (int)TALLY_BINS));
	}
	return a;
}
