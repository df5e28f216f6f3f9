/* EDM (Karras et al. 2022): its noise levels as a path, and its preconditioned network as a prediction.
 *
 * With s = sigma/alpha the paper's denoiser is D(y; s) = c_skip y + c_out F(c_in y; c_noise), y = x0 + s eps. c_in is the path's alpha, so
 * the network's input is x_t = c_in y without further scaling. F is the prediction,
 *
 *     F = (x0 - c_skip y) / c_out,  c_skip = std^2 / (s^2 + std^2),  c_out = s std / sqrt(s^2 + std^2),  c_in = 1 / sqrt(s^2 + std^2),
 *
 * std being sigma_data, the standard deviation of the data: with it the variance of F is 1 at every s. Its unweighted squared error is the paper's
 * loss, because the paper's weight lambda(s) times c_out^2 is 1. Time is linear in log s, from 0 at s = .002 to 1 at s = 80, so that the network's
 * input, time_scale times t, is an affine function of the paper's c_noise = log(s) / 4. */
#include <math.h>

#include "core/samemath.h"
#include "diffusion/path.h"
#include "net/betas.h"

#define LEAST .002
#define MOST 80.

static double log_range(void)
{
	return same_log(MOST / LEAST);
}

static struct path_point edm_at(const struct path *path, double t)
{
	double std = path->sigma_data, s = LEAST * same_exp(t * log_range()), r = same_hypot(s, std), ds = s * log_range();

	return (struct path_point){
	    .alpha = 1 / r, .sigma = s / r, .dalpha = -s * ds / (r * r * r), .dsigma = ds * std * std / (r * r * r), .logsnr = -2 * same_log(s)};
}

static double edm_time(const struct path *path, double logsnr)
{
	(void)path;
	return fmin(fmax((-.5 * logsnr - same_log(LEAST)) / log_range(), 0), 1);
}

const struct path path_edm = {"edm", 0, 1, edm_at, edm_time, 0, SIGMA_DATA_USUAL};

/* F = (s x0 - std^2 eps) / (std sqrt(s^2 + std^2)), multiplied through by alpha so that it is finite at alpha = 0. */
void edm_weights(const struct path_point *p, double *c, double *d)
{
	double std = p->sigma_data, r = same_hypot(p->sigma, std * p->alpha);

	*c = p->sigma / (std * r);
	*d = -std * p->alpha / r;
}
