/* Scores of samples alone, or of samples and their captions. */
#ifndef DDM_METRIC_SCORES_H
#define DDM_METRIC_SCORES_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

/* Inception score (Salimans et al. 2016): exp of the mean divergence of a sample's class probabilities from those of its group, over
 * groups of consecutive rows. logits (n, c) become probabilities by softmax, or are probabilities already: non-negative rows that
 * sum to 1 within 1e-3. order (n): which row comes i-th, NULL: row i. */
struct inception_groups {
	int64_t splits; /* group i is rows i n / splits .. of it, as torch-fidelity cuts (10) */
	int64_t chunk;  /* above 0: groups of so many rows instead, the last one what is left, as guided-diffusion cuts (5000) */
};

struct inception_score {
	double mean, sd; /* over the groups; sd as numpy.std */
	int64_t groups;
};

/* n >= splits, c >= 2, else ERR_USAGE. In double, in index order: the same bits for any pool. */
int inception_score(struct inception_score *out, struct pool *pool, const float *logits, const int64_t *order, int64_t n, int c,
                    const struct inception_groups *g, struct err *e);

/* CLIP score (Hessel et al. 2021) in the scale of torchmetrics: the mean of max(100 cos(image, text), 0) over pairs of rows (n, d), and
 * its standard error. n >= 2 (else ERR_USAGE); a row of zeros is ERR_DATA. order as above, of image. */
int clip_score(double *mean, double *se, const float *image, const int64_t *order, const float *text, int64_t n, int d, struct err *e);

/* Vendi score (Friedman and Dieng 2023): exp of the entropy of the eigenvalues of the cosine similarities over n: the effective number of
 * different samples, from 1 to n. x (n, d), n >= 2. */
int vendi_score(double *out, struct pool *pool, const float *x, int64_t n, int d, struct err *e);

#endif
