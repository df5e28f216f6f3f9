/* Temperature calibration of a router (Guo et al. 2017, arXiv 1706.04599, section 4.2): its logits are divided by the one number that minimises
 * their cross-entropy on held-out samples. The order of the logits, and so what top-1 selects, does not change. */
#ifndef DDM_TRAIN_CALIBRATE_H
#define DDM_TRAIN_CALIBRATE_H

#include "train/run.h"

/* The bounds of the temperature. A fit ends at one if the logits say nothing, or are never wrong. */
#define CALIBRATE_LEAST .05
#define CALIBRATE_MOST 20

/* The temperature that minimises the mean of the cross-entropies of softmax(logits / temperature) and the targets, both (n, k). A row of targets
 * that sums to s counts s times. */
double calibrate_temperature(const float *logits, const float *targets, int64_t n, int64_t k);

/* Fit the temperature of the weights (total) at several times of each held-out sample, write it with the losses and the calibration errors before and
 * after into the log, and divide the last layer of the weights by it. */
int calibrate(struct trainer *r, float *values, struct err *e);

#endif
