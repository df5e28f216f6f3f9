/* Follows the log-densities of experts along a trajectory, with noise or without (SuperDiff, arXiv 2412.17762, theorem 1 and appendix D).
 *
 * Every expert k has marginals p_k(x, t) that start from the same Gaussian at t = 1, so log w_k, the log of a cluster's share and of p_k at the state
 * up to a constant of all experts, starts from the shares. An ancestral step (diffusion/solver.h) with the velocity of expert k is a draw from
 * N(m_k, s^2 I), which is in short steps the law of the noising process of p_k in reverse. The noising process is the same for all experts, so the
 * factor between p_k(x', t') and p_k(x, t) is N(x'; m_k, s^2 I) up to a constant. No divergence is needed. With exact experts the error is of first
 * order in the length of the steps; the softmax of log w is then the posterior of the router's optimum. */
#ifndef DDM_DIFFUSION_LOGDENSITY_H
#define DDM_DIFFUSION_LOGDENSITY_H

#include <stdint.h>

/* l (k) = the log-densities at t = 1: log of the shares (k; NULL: the same for all) of the experts that are present (k), -infinity for the
 * others. */
void logdensity_start(int k, double *l, const double *shares, const unsigned char *present);

/* Add a step's log-densities to l (k). The step went from x with velocity u (d), whatever it was mixed from, and noise z (d) to
 * x' = a x + b u + s z; ratio is b / s. v (k, d) are the experts' own velocities at x; those of experts at -infinity are not read. As
 * x' - m_k = b (u - v_k) + s z, log N(x'; m_k, s^2 I) is -|ratio (u - v_k) + z|^2 / 2 up to a constant; |z|^2, which is common, is left out. */
void logdensity_step(int k, int64_t d, double *l, double ratio, const float *u, const float *v, const float *z);

/* The rate dl/dt of each log-density along a flow dx/dt = u, whatever it was mixed from (the continuity equation; SuperDiff, proposition 6): -div v_k
 * + <u - v_k, score_k> with score_k = -(x + (1 - t) v_k) / t on the linear path. For one expert at x (d), with its velocity v (d) and
 * the divergence. */
double logdensity_rate(int64_t d, double t, const float *x, const float *u, const float *v, double divergence);

#endif
