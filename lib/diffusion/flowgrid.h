/* The times of a solver of the flow that are not evenly spaced, as diffusers' FlowMatchEulerDiscreteScheduler makes them. */
#ifndef DDM_DIFFUSION_FLOWGRID_H
#define DDM_DIFFUSION_FLOWGRID_H

#include <stdint.h>

enum flow_law { FLOW_EXPONENTIAL, FLOW_LINEAR };
enum flow_sigmas { FLOW_EVEN, FLOW_KARRAS, FLOW_EXPONENTIALS, FLOW_BETA };

struct flow_grid {
	double shift;    /* t becomes shift t / (1 + (shift - 1) t); 0: 1, none. Esser et al. 2024 */
	int dynamic;     /* mu counts and not shift */
	double mu;       /* t becomes m / (m + 1/t - 1), m = exp(mu), or mu itself with FLOW_LINEAR, where it is > 0 */
	enum flow_law law;
	double terminal; /* then 1 - t is stretched so that the last time is this; 0: it is not */
	/* At last the times between are placed anew, between the first and the last: evenly in t^(1/7) (Karras et al. 2022), in log t, or by the
	 * quantiles of the beta distribution of .6 and .6 (Lee et al. 2024). */
	enum flow_sigmas sigmas;
};

int flow_grid_given(const struct flow_grid *g); /* whether any of it is asked for */

/* t (steps + 1), falling, the last 0: first 1 - i/steps, or evenly from 1 to the scheduler's own last time, .001 as shift moves it, where
 * `last` is set; then all that *g asks for. */
void flow_grid_times(const struct flow_grid *g, int64_t steps, int last, double *t);
/* The same in new memory; NULL where none of it is asked for. Caller frees with mem_free. */
double *flow_grid_new(const struct flow_grid *g, int64_t steps, int last);

/* The mu of a picture of so many tokens: what lies on the line through (tokens, mu) of `least` and `most`. */
struct flow_line {
	double base_shift, max_shift;
	int64_t base_tokens, max_tokens;
};
double flow_line_mu(const struct flow_line *l, int64_t tokens);

/* x with I_x(a, a) = p of the regularised incomplete beta function, 0 <= p <= 1, a > 0. */
double beta_quantile(double p, double a);

#endif
