/* The score of improved-aesthetic-predictor (C. Schuhmann 2022): how a network trained on people's ratings, 1 to 10, rates a picture's CLIP
 * embedding. */
#ifndef DDM_METRIC_AESTHETIC_H
#define DDM_METRIC_AESTHETIC_H

#include <stdint.h>

#include "core/err.h"

/* The network has linear layers and nothing between them that is there after training: it is one vector and a number. */
struct aesthetic {
	double *weight, bias; /* (dims), owned */
	int dims;
	char hash[65]; /* SHA-256 of the file */
};

/* A file of any kind that weightfile_open reads, with layers.0.weight, layers.2.weight .. and their biases, in order of their numbers, of
 * which the last gives one number. ERR_DATA where they do not fit each other. */
int aesthetic_load(struct aesthetic *a, const char *path, struct err *e);
void aesthetic_release(struct aesthetic *a); /* a zeroed one is allowed */

/* Mean and standard error over embeddings x (n, dims), which are divided by their length. n >= 2, else ERR_USAGE; a row of zeros is ERR_DATA. */
int aesthetic_score(double *mean, double *se, const struct aesthetic *a, const float *x, int64_t n, struct err *e);

#endif
