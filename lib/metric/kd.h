/* Kernel distance: the squared maximum mean discrepancy of two sets of feature vectors under KID's kernel
 *   k(x, y) = (x . y / d + 1)^3                     (Binkowski et al., "Demystifying MMD GANs", 2018),
 * with the unbiased estimator. For two samples of one distribution it is zero on average, whatever their sizes, so it may be negative. */
#ifndef DDM_METRIC_KD_H
#define DDM_METRIC_KD_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

struct kd {
	double value;
	double se; /* standard error */
};

/* Over all pairs of x (n, d) and y (m, d); n, m >= 3 (else ERR_USAGE). se is from the delete-one jackknife over both sets. Products and sums are in
 * double, computed in fixed tiles and added in index order: the same bits for any pool (NULL: serial). */
int kd_whole(struct kd *out, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, struct err *e);

/* Between clips x (n, frames, d) and y (m, frames, d), each given by equally many vectors: as kd_whole with clips for elements. The kernel of two
 * clips is the mean of k over all pairs of their vectors, so the distance is that between the distributions of single frames, and the standard error
 * that of independent clips. Pairs within a clip are left out. A change of the order of a clip's vectors changes rounding only. */
int kd_clips(struct kd *out, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int64_t frames, int d, struct err *e);

/* The distance between x and z less that between x and y, as kd_clips; clip i of z (m, frames, d) is an altered clip i of y (m, frames, d). The
 * jackknife leaves both out together, so what is common to y and z does not count in se. p is that of a test without assumptions about the
 * distribution: the share of KD_EXCHANGES random exchanges of clips of y with theirs of z, and of no exchange, that change the distance at least as
 * much. */
struct kd_change {
	double value, se, p;
};

enum { KD_EXCHANGES = 9999 };

int kd_change(struct kd_change *out, struct pool *pool, const float *x, int64_t n, const float *y, const float *z, int64_t m, int64_t frames, int d,
              struct err *e);

/* The mean over `subsets` pairs of subsets of `size` vectors each, drawn without replacement with RNG_METRIC (KID as usually
 * reported: 100 subsets of 1000); se is the standard deviation over the subsets divided by sqrt(subsets). size must lie in
 * [3, min(n, m)], subsets >= 2 (else ERR_USAGE). */
int kd_subsets(struct kd *out, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, int64_t subsets, int64_t size,
               uint64_t seed, struct err *e);

/* The same with the subsets that numpy.random.RandomState(seed).choice(n, size, replace=False) draws; each round draws first from y, the samples,
 * then from x, the reference. This is how torch-fidelity (seed 2020) and clean-fid (any seed of numpy.random) compute KID. xorder (n) and yorder (m)
 * give the row of the i-th picture in those programs' reading order; NULL: row i. sd is the standard deviation over the subsets, as numpy.std. */
int kd_subsets_numpy(double *mean, double *sd, struct pool *pool, const float *x, const int64_t *xorder, int64_t n, const float *y,
                     const int64_t *yorder, int64_t m, int d, int64_t subsets, int64_t size, uint32_t seed, struct err *e);

#endif
