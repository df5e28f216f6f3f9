/* Scores that need no reference: Inception score, Vendi score, and CLIP score of samples and their captions. */
#ifndef DDM_METRIC_SCORES_H
#define DDM_METRIC_SCORES_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

/* How the Inception score (Salimans et al. 2016) divides samples into groups of consecutive rows. The score is exp of the mean divergence of a
 * sample's class probabilities from the mean of its group. */
struct inception_groups {
	int64_t splits; /* group i is rows i n / splits up to (i + 1) n / splits, as in torch-fidelity (10 groups) */
	int64_t chunk;  /* above 0: instead, groups of this many rows, the last one smaller, as in guided-diffusion (5000) */
};

struct inception_score {
	double mean, sd; /* over the groups; sd as numpy.std */
	int64_t groups;
};

/* logits (n, c) are turned into probabilities by softmax, unless they are probabilities: rows without negative values that sum to 1 within 1e-3.
 * order (n): the row that comes i-th; NULL: row i. n >= the number of groups, c >= 2, else ERR_USAGE; ERR_DATA if the score is not finite. Sums are
 * in double in index order: the same bits for any pool. */
int inception_score(struct inception_score *out, struct pool *pool, const float *logits, const int64_t *order, int64_t n, int c,
                    const struct inception_groups *g, struct err *e);

/* CLIP score (Hessel et al. 2021) in the scale of torchmetrics: the mean of max(100 cos(image, text), 0) over pairs of rows of image (n, d) and text
 * (n, d), and its standard error. order (n): the row of image for caption i; NULL: row i. n >= 2 (else ERR_USAGE); a row of zeros is ERR_DATA. */
int clip_score(double *mean, double *se, const float *image, const int64_t *order, const float *text, int64_t n, int d, struct err *e);

/* The same of clips: a row of `video` (n, d) is the mean over the frames of a clip of their embeddings scaled to unit length. So its product with the
 * caption's embedding is the mean of the frames' cosines. */
int clip_score_of_clips(double *mean, double *se, const float *video, const int64_t *order, const float *text, int64_t n, int d, struct err *e);

/* Vendi score (Friedman and Dieng 2023) of x (n, d): exp of the entropy of the eigenvalues of the matrix of cosine similarities over n. It is the
 * effective number of different samples, from 1 to n. n >= 2, else ERR_USAGE; ERR_NOMEM. */
int vendi_score(double *out, struct pool *pool, const float *x, int64_t n, int d, struct err *e);

#endif
