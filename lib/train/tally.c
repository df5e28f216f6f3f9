/* Adds losses by time, and counts how well a router's probabilities fit the labels of held-out samples. */
#include "train/tally.h"

#include <math.h>

#include "core/jsonio.h"
#include "core/samemath.h"

int time_losses_add(struct time_losses *y, double t, double loss)
{
	int b = t >= 1 ? TALLY_TIMES - 1 : t > 0 ? (int)(t * TALLY_TIMES) : 0;

	y->n[b]++;
	y->loss[b] += loss;
	return b;
}

json_t *time_losses_json(const struct time_losses *y)
{
	json_t *a = json_array();

	for (int b = 0; b < TALLY_TIMES; b++)
		if (y->n[b])
			json_array_append_new(a, json_pack("{s:f, s:I, s:o}", "t", (b + .5) / TALLY_TIMES, "n", (json_int_t)y->n[b], "loss",
			                                   jsonio_real(y->loss[b] / (double)y->n[b])));
	return a;
}

void tally_add(struct tally *y, double t, const float *logits, int64_t k, int32_t label, double loss)
{
	int b = time_losses_add(&y->by, t, loss), c, best = 0;
	double sum = 0, p;

	for (int64_t i = 1; i < k; i++)
		if (logits[i] > logits[best])
			best = (int)i;
	for (int64_t i = 0; i < k; i++)
		sum += same_exp((double)logits[i] - (double)logits[best]);
	p = sum >= 1 ? 1 / sum : 0; /* the logits of a diverged network may be NaN */
	c = (int)(p * TALLY_BINS);
	c = c < TALLY_BINS ? c : TALLY_BINS - 1;
	y->right[b] += best == label;
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
		n += y->by.n[b];
	return (double)n;
}

double tally_loss(const struct tally *y)
{
	double sum = 0;

	for (int b = 0; b < TALLY_TIMES; b++)
		sum += y->by.loss[b];
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
	json_t *a = time_losses_json(&y->by);
	size_t i = 0;

	for (int b = 0; b < TALLY_TIMES; b++) {
		double n = (double)y->by.n[b];
		json_t *o;

		if (!y->by.n[b])
			continue;
		o = json_array_get(a, i++);
		json_object_set_new(o, "accuracy", json_real((double)y->right[b] / n));
		json_object_set_new(o, "ece", json_real(error_of(y, b) / n));
		json_object_set_new(o, "ece_bins", json_integer(TALLY_BINS));
	}
	return a;
}
