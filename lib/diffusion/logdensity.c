/* Log-densities of experts along a trajectory. */
#include "diffusion/logdensity.h"

#include <math.h>

void logdensity_start(int k, double *l, const double *shares, const unsigned char *present)
{
	for (int i = 0; i < k; i++)
		l[i] = !present[i] ? -INFINITY : shares ? log(shares[i]) : 0;
}

void logdensity_step(int k, int64_t d, double *l, double ratio, const float *u, const float *v, const float *z)
{
	for (int i = 0; i < k; i++) {
		double square = 0, product = 0;

		if (l[i] == -INFINITY)
			continue;
		for (int64_t c = 0; c < d; c++) {
			double apart = (double)u[c] - v[i * d + c];

			square += apart * apart;
			product += apart * z[c];
		}
		l[i] -= ratio * (.5 * ratio * square + product);
	}
}

double logdensity_rate(int64_t d, double t, const float *x, const float *u, const float *v, double divergence)
{
	double product = 0;

	for (int64_t c = 0; c < d; c++)
		product += ((double)u[c] - v[c]) * (x[c] + (1 - t) * v[c]);
	return -divergence - product / t;
}
