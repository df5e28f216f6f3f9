/* The coefficients that turn a prediction of any kind on any path into a velocity on the linear path. */
#include "diffusion/convert.h"

#include <math.h>

static struct convert native(const struct path *own, enum prediction kind, double t)
{
	struct path_point p = path_at(&path_linear, t);
	struct convert c = {.time = t, .scale = 1, .t = fmax(t, CONVERT_MIN_T)};

	p.sigma_data = own->sigma_data;
	if (kind == PREDICT_VELOCITY) {
		c.identity = 1;
	} else if (kind == PREDICT_EPSILON) {
		c.eps_minus = c.clamp = 1;
		c.a = 1 / fmax(p.alpha, .01);
		c.b = -p.sigma * c.a;
	} else {
		prediction_relate(&p, kind, PREDICT_X0, &c.a, &c.b);
	}
	return c;
}

/* The input scale is hypot(alpha_s, sigma_s) / hypot(alpha, sigma), s being the network's time. At equal log-SNR this equals alpha_s / alpha, but it
 * stays finite at t = 1 and keeps the variance of the input if s is clamped. */
struct convert convert_at(const struct path *own, enum prediction kind, enum convert_mode mode, double t)
{
	struct convert c = {.t = fmax(t, CONVERT_MIN_T)};
	struct path_point p, lin;

	if (mode == CONVERT_NATIVE || (own == &path_linear && kind == PREDICT_VELOCITY))
		return native(own, kind, t);
	lin = path_at(&path_linear, t);
	c.time = own == &path_linear ? t : fmin(fmax(path_time(own, lin.logsnr), own->lo), own->hi);
	/* At t = 1 of the linear path x0 cannot be computed from epsilon. */
	if (kind == PREDICT_EPSILON)
		c.time = fmin(c.time, 1 - CONVERT_MIN_T);
	p = path_at(own, c.time);
	c.scale = hypot(p.alpha, p.sigma) / hypot(lin.alpha, lin.sigma);
	prediction_relate(&p, kind, PREDICT_X0, &c.a, &c.b);
	c.a *= c.scale;
	if (kind == PREDICT_EPSILON) {
		c.clamp = 1;
		c.blend = fmax(0, (t - CONVERT_BLEND_T) / (1 - CONVERT_BLEND_T));
	}
	return c;
}
