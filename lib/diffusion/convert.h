/* Converts a network's prediction, of any kind and on its own path, to a velocity on the linear path. */
#ifndef DDM_DIFFUSION_CONVERT_H
#define DDM_DIFFUSION_CONVERT_H

#include <stdint.h>

#include "diffusion/path.h"

enum convert_mode {
	CONVERT_MATCH, /* evaluate at the time of equal log-SNR, with the input scaled to the network's path: exact */
	CONVERT_NATIVE /* pass x and t unchanged; x0hat = (x - sigma eps) / max(alpha, .01), v = eps - x0hat (arXiv 2603.06741) */
};

/* |x0hat| of an epsilon prediction is clamped to this. */
#define CONVERT_X0_LIMIT 20
/* From this time on, x0hat of an epsilon prediction is blended linearly towards the mean of the data, which replaces it at t = 1. A 1% error of eps
 * is an error of 48% in v at t = .98 and of 960% at t = .999. */
#define CONVERT_BLEND_T .98
/* v = (x - x0hat) / t divides by at least this. */
#define CONVERT_MIN_T 1e-4

struct convert {
	double time;   /* the network's time, on its own path, before its time_scale */
	double scale;  /* network input = scale * x */
	int identity;  /* the output is the velocity itself */
	int eps_minus; /* v = out - x0hat instead of (x - x0hat) / t */
	int clamp;
	double a, b;  /* x0hat = a x + b out, x being the unscaled input */
	double blend; /* weight of the mean in x0hat; used when there is a mean */
	double t;     /* divisor */
};

/* The coefficients of the conversion at time t of the linear path, t in [0, 1]; ondevice_convert applies them. The network's time is clamped to
 * [own->lo, own->hi], and x0hat is computed with the network's alpha and sigma at that time. */
struct convert convert_at(const struct path *own, enum prediction kind, enum convert_mode mode, double t);

#endif
