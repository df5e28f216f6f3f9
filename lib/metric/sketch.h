/* Short vectors (sketches) whose distances bound those of long vectors from below. A sketch holds the coordinates along a few orthonormal axes, where
 * the set varies most, and the length of the rest. The map to sketches never lengthens a distance: |Px - Py|^2 + (|x'| - |y'|)^2 <= |x - y|^2 for the
 * parts x' and y' that the axes do not reach. So a pair whose sketches are far apart needs no long product. */
#ifndef DDM_METRIC_SKETCH_H
#define DDM_METRIC_SKETCH_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

/* The origin and the axes. */
struct axes {
	int d, k;     /* k axes; 0: none were worth it */
	double *mean; /* (d) */
	double *axis; /* (k, d), orthonormal rows; some may be zero */
	double slack; /* private: bound of the error of a sketch relative to the centred vector */
};

/* The number of axes that axes_find chooses itself. */
enum { AXES_AUTO = -1 };

/* Find k <= d axes of x (n, d) and y (m, d) together, from at most 4096 evenly chosen vectors, by orthogonal iteration. AXES_AUTO: enough to leave
 * an eighth of the variance, but at most a third of d and 640; none for few vectors, where the products that they save cost less than they do, and if
 * the axes would leave more than a third of the variance. No axes either for values too large or too small for float products, or not finite.
 * Deterministic, and independent of the pool (NULL: serial). ERR_NOMEM. Release with axes_release, also after a failure. */
int axes_find(struct axes *a, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, int k, struct err *e);
void axes_release(struct axes *a);

/* The sketches of a set, ordered so that vectors of a block of GRAM_TILE are close to each other, and blocks i and j are the closer, the
 * smaller i ^ j is. */
struct sketch {
	int64_t n;
	int dims;       /* of a sketch: axes + 1 */
	float *z;       /* (n, dims) */
	double *low;    /* (n): see sketch_bound */
	int64_t *order; /* (n): index of the vector at each place */
};

/* Make the sketches of x (n, d), whose squared lengths are xx (n). a must have axes. ERR_NOMEM. Release with sketch_release, also after a failure. */
int sketch_make(struct sketch *s, struct pool *pool, const struct axes *a, const float *x, const double *xx, int64_t n, struct err *e);
void sketch_release(struct sketch *s);

/* low[i] + low[j] - SKETCH_SCALE z_i . z_j, with the product of gemm.h in float, is at most the distance that distance_tile_exact computes. */
#define SKETCH_BENT 0x1p-16
#define SKETCH_SCALE (2 * (1 - SKETCH_BENT))

#endif
