/* A network's prediction, of any kind and on its own path, as a velocity on the linear path. */
#ifndef DDM_DIFFUSION_CONVERT_H
#define DDM_DIFFUSION_CONVERT_H

#include <stdint.h>

#include "diffusion/path.h"

enum convert_mode {
	CONVERT_MATCH,  /* ask at the time of equal log-SNR, input scaled to the network's path: exact */
	CONVERT_NATIVE  /* feed x and t unchanged; x0hat = (x - sigma eps) / max(alpha, .01), v = eps - x0hat (arXiv 2603.06741) */
};

/* |x0hat| of an epsilon prediction is clamped to this. */
#define CONVERT_X0_LIMIT 20
/* An epsilon prediction's x0hat is blended towards the mean of the data from here (all of it at t = 1): there a 1% error of eps
 * is 48% of v at .98 and 960% at .999. */
#define CONVERT_BLEND_T .98
/* v = (x - x0hat) / t divides by at least this. */
#define CONVERT_MIN_T 1e-4

struct convert {
	double time;   /* what the network is asked at, on its own path, before its time_scale */
	double scale;  /* network input = scale * x */
	int identity;  /* the output is the velocity itself */
	int eps_minus; /* v = out - x0hat, not (x - x0hat) / t */
	int clamp;
	double a, b;   /* x0hat = a x + b out, x being the unscaled input */
	double blend;  /* weight of the mean in x0hat; used when there is a mean */
	double t;      /* divisor */
};

/* The conversion at time t of the linear path, t in [0, 1]; ondevice_convert does it. The time asked for is clamped to [own->lo,
 * own->hi]; there x0hat is taken with the network's own alpha and sigma. */
struct convert convert_at(const struct path *own, enum prediction kind, enum convert_mode mode, double t);

#endif
