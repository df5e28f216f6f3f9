/* Makes a mixture of low-rank Gaussians from a few numbers that say how far its components lie apart and how their subspaces overlap. */
#ifndef DDM_DIFFUSION_GAUSSIANSPEC_H
#define DDM_DIFFUSION_GAUSSIANSPEC_H

#include "diffusion/gaussians.h"

/* First in units of the standard deviation of a component's first direction; then everything but the noise is scaled so that the root mean square of
 * the elements of x0, noise included, is `rms`. */
struct gaussian_spec {
	int64_t k, d, rank;
	double separation; /* distance of the means of any two components; 0: all means are 0 */
	double overlap;    /* cosine of every principal angle between the subspaces of any two components; negative: directions drawn at random */
	double spectrum;   /* the variance of direction i = 1, 2, .. is i^-spectrum */
	double noise;      /* standard deviation of the isotropic noise in an element of x0, not scaled */
	double rms;
	const double *weight; /* (k), or NULL: equal */
	uint64_t seed;        /* of the directions */
};

/* The weighted mean of the components' means is 0. ERR_USAGE if the numbers do not fit: rank > d, no noise, rms not above the noise, fewer
 * dimensions than orthogonal directions needed, weights that are not positive or do not sum to 1 within 1e-6. Release with gaussians_release, also
 * after failure. */
int gaussian_spec_make(struct gaussians *g, const struct gaussian_spec *s, struct err *e);

#endif
