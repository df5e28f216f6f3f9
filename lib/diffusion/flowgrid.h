/* Unevenly spaced times for flow solvers, as in diffusers' FlowMatchEulerDiscreteScheduler. */
#ifndef DDM_DIFFUSION_FLOWGRID_H
#define DDM_DIFFUSION_FLOWGRID_H

#include <stdint.h>

enum flow_law { FLOW_EXPONENTIAL, FLOW_LINEAR };
enum flow_sigmas { FLOW_EVEN, FLOW_KARRAS, FLOW_EXPONENTIALS, FLOW_BETA, FLOW_QUADRATIC, FLOW_LOGSNR };

struct flow_grid {
	double shift; /* t becomes shift t / (1 + (shift - 1) t); 0: no shift. Esser et al. 2024 */
	int dynamic;  /* use mu instead of shift */
	double mu;    /* t becomes m / (m + 1/t - 1) with m = exp(mu); FLOW_LINEAR: m = mu > 0 */
	enum flow_law law;
	double terminal; /* then 1 - t is scaled so that the last time before 0 is this; 0: not scaled */
	/* Finally the times between the first and the last are placed again: evenly in t^(1/7) (Karras et al. 2022), evenly in log t, or at the
	 * quantiles of the beta distribution with parameters .6 and .6 (Lee et al. 2024), evenly in sqrt t, or evenly in the log-SNR,
	 * 2 log((1 - t) / t); a first time of 1, where that is infinite, counts as .999 there. FLOW_EVEN: not placed again. */
	enum flow_sigmas sigmas;
};

int flow_grid_given(const struct flow_grid *g); /* 1 unless *g leaves the even grid as it is */

/* Compute t (steps + 1), decreasing, t[steps] = 0. The grid starts as 1 - i/steps, or with `last` as even steps from 1 to the scheduler's last time,
 * which is .001 after the shift. Then the changes of *g apply in the order of its members. */
void flow_grid_times(const struct flow_grid *g, int64_t steps, int last, double *t);
/* The same in new memory; NULL if flow_grid_given is 0. Caller frees with mem_free. */
double *flow_grid_new(const struct flow_grid *g, int64_t steps, int last);

/* The mu of a picture with this many tokens, on the line through (base_tokens, base_shift) and (max_tokens, max_shift). */
struct flow_line {
	double base_shift, max_shift;
	int64_t base_tokens, max_tokens;
};
double flow_line_mu(const struct flow_line *l, int64_t tokens);

/* The x with I_x(a, a) = p, I being the regularised incomplete beta function; 0 <= p <= 1, a > 0. */
double beta_quantile(double p, double a);

#endif
