/* EDM (Karras et al. 2022): its noise levels as a path, and its preconditioned network as a prediction.
 *
 * With s = sigma/alpha the paper's denoiser is D(y; s) = c_skip y + c_out F(c_in y; c_noise), y = x0 + s eps. c_in is the path's alpha, so
 * the network's input is x_t = c_in y without further scaling. F is the prediction,
 *
 *     F = (x0 - c_skip y) / c_out,  c_skip = std^2 / (s^2 + std^2),  c_out = s std / sqrt(s^2 + std^2),  c_in = 1 / sqrt(s^2 + std^2),
 *
 * and its unweighted squared error is the paper's loss, because the paper's weight lambda(s) times c_out^2 is 1. c_noise is log s: time is linear
 * in log s, from 0 at s = .002 to 1 at s = 80. */
#include <math.h>

#include "diffusion/path.h"

#define STD .5 /* sigma_data of the paper, for pictures in [-1, 1]; with other data the variance of F is not 1 at every time */
#define LEAST .002
#define MOST 80.

static double log_range(void)
{
	return log(MOST / LEAST);
}

static struct path_point edm_at(const struct path *path, double t)
{
	double s = LEAST * exp(t * log_range()), r = hypot(s, STD), ds = s * log_range();

	(void)path;
	return (struct path_point){1 / r, s / r, -s * ds / (r * r * r), ds * STD * STD / (r * r * r), -2 * log(s)};
}

static double edm_time(const struct path *path, double logsnr)
{
	(void)path;
	return fmin(fmax((-.5 * logsnr - log(LEAST)) / log_range(), 0), 1);
}

const struct path path_edm = {"edm", 0, 1, edm_at, edm_time, 0};

/* F = (s x0 - std^2 eps) / (std sqrt(s^2 + std^2)), multiplied through by alpha so that it is finite at alpha = 0. */
void edm_weights(const struct path_point *p, double *c, double *d)
{
	double r = hypot(p->sigma, STD * p->alpha);

	*c = p->sigma / (STD * r);
	*d = -STD * p->alpha / r;
}
