/* Losses by time; and a router's scores on held-out samples, by time: cross-entropy, accuracy and expected calibration error. */
#ifndef DDM_TRAIN_TALLY_H
#define DDM_TRAIN_TALLY_H

#include <jansson.h>
#include <stdint.h>

/* Equal intervals of the time in 0..1, and of the confidence, which is the largest probability. */
enum { TALLY_TIMES = 10, TALLY_BINS = 15 };

/* Sums over the samples of each interval of time. All 0 at first. */
struct time_losses {
	int64_t n[TALLY_TIMES];
	double loss[TALLY_TIMES];
};

/* Add the loss of a sample at time t; a time outside 0..1 counts in the nearest interval. Returns the interval. */
int time_losses_add(struct time_losses *y, double t, double loss);
/* An array with one object for each interval that has samples: t (its centre), n and loss (the mean). Caller frees with json_decref. */
json_t *time_losses_json(const struct time_losses *y);

/* The same of a router, with its scores. */
struct tally {
	struct time_losses by;
	int64_t right[TALLY_TIMES];
	double confidence[TALLY_TIMES][TALLY_BINS], hits[TALLY_TIMES][TALLY_BINS];
};

/* Add a sample at time t in 0..1, of cluster `label`, with the router's logits (k) and its cross-entropy `loss` in nats. */
void tally_add(struct tally *y, double t, const float *logits, int64_t k, int32_t label, double loss);

/* The mean of the cross-entropies, and of the calibration errors of the intervals of time by their numbers of samples. */
double tally_loss(const struct tally *y);
double tally_ece(const struct tally *y);

/* The same array as time_losses_json, with accuracy, ece and ece_bins too. The calibration error
 * is SUM over bins of n_bin/n |confidence - accuracy| (Guo et al. 2017, arXiv 1706.04599). Caller frees with json_decref. */
json_t *tally_json(const struct tally *y);

#endif
