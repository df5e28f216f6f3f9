/* Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon): the update of a matrix is its momentum with every singular value moved to
 * about 1, by five Newton-Schulz iterations. With the scale of Moonshot (Liu et al., arXiv 2502.16982) an update has the size of one of AdamW, so
 * that both use one learning rate and one weight decay:
 *   m = mu m + (1 - mu) g;  u = mu m + (1 - mu) g (Nesterov), mu = .95
 *   X = u / |u|;  five times: A = X X^T, X = a X + (b A + c A^2) X, (a, b, c) = (3.4445, -4.775, 2.0315)
 *   p -= lr (.2 sqrt(max(rows, columns)) X + decay p)
 * It is for the matrices within blocks: those of PARAM_BULK (tape/params.h), packed queries, keys and values as three. AdamW is for all the
 * rest: first and last layers, embeddings, convolutions, biases, norms. Private to lib/train. */
#ifndef DDM_TRAIN_MUONUPDATE_H
#define DDM_TRAIN_MUONUPDATE_H

#include "train/state.h"

/* A parameter of `parts` matrices [rows, columns], one after the other from element `at` of the arenas; the next parameter starts at `end`. */
struct muon_param {
	int64_t at, end, rows, columns;
	int parts;
};

struct muon {
	struct device *device;
	struct muon_param *v; /* in the order of the arenas */
	int n;
	float *x, *next;       /* for the largest matrix: the iterate and the one after it */
	float *gram, *squared; /* for the largest min(rows, columns)^2: A, and b A + c A^2 */
	double *sumsq;
	void *scratch;
};

/* Work space on the device for the matrices of p, which is borrowed. Release with muon_release; a zeroed struct may be released. */
int muon_init(struct muon *m, struct device *d, const struct params *p, struct err *e);
void muon_release(struct muon *m);
uint64_t muon_bytes(const struct params *p, struct device *d); /* device memory of the work space */

/* Submit the update of parameter i of `v` by the gradients in grads [trainable] and the coefficients of RATES, on stream 0. The moments and the
 * average of element `at` of the arenas are at at - shift. */
void muon_change(struct muon *m, int i, const struct train_state *s, int64_t shift, const double *coef, float *grads);

/* The multiple of DECAY_RUN nearest to element `at` that is not inside a parameter of Muon. It rises with `at`. */
int64_t muon_cut(const struct params *p, int64_t at);

#endif
