/* The score of improved-aesthetic-predictor (C. Schuhmann 2022): a network trained on ratings by people, 1 to 10, rates the CLIP embedding of a
 * picture. */
#ifndef DDM_METRIC_AESTHETIC_H
#define DDM_METRIC_AESTHETIC_H

#include <stdint.h>

#include "core/err.h"

/* The network is a stack of linear layers without activations, so it reduces to one vector and a bias. */
struct aesthetic {
	double *weight, bias; /* (dims), owned */
	int dims;
	char hash[65]; /* SHA-256 of the file */
};

/* Load a file that weightfile_open can read. It holds layers.0.weight, layers.2.weight .. and their biases, applied in the order of their numbers;
 * the last layer has one output. ERR_DATA if the shapes of consecutive layers do not fit, or there is no layer. On failure *a is released. Release
 * with aesthetic_release. */
int aesthetic_load(struct aesthetic *a, const char *path, struct err *e);
void aesthetic_release(struct aesthetic *a); /* a zeroed one is allowed */

/* The score of one embedding x (dims), which is first divided by its length. ERR_DATA if it is zero. */
int aesthetic_rate(double *score, const struct aesthetic *a, const float *x, struct err *e);
/* Mean and standard error of the scores of embeddings x (n, dims), each of which is first divided by its length. n >= 2, else ERR_USAGE; a row of
 * zeros is ERR_DATA. */
int aesthetic_score(double *mean, double *se, const struct aesthetic *a, const float *x, int64_t n, struct err *e);

#endif
