/* Solvers by name: flow solvers (diffusion/solver.h) and discrete-time solvers (diffusion/discrete.h). */
#ifndef DDM_DIFFUSION_SOLVERCHOICE_H
#define DDM_DIFFUSION_SOLVERCHOICE_H

#include "diffusion/discrete.h"
#include "diffusion/flowgrid.h"
#include "diffusion/solver.h"

struct solver_choice {
	const char *name; /* one of solver_names */
	const struct solver_info *info;
	int discrete; /* 1: `how` is used; 0: `kind` and `grid` */
	enum solver_kind kind;
	struct discrete how;
	struct flow_grid grid; /* for flow solvers */
	struct stochastic add;
	struct tolerance adapt;
};

/* The rows of diffusion/solverlist.h, and their names alone; name NULL, or NULL, at the end. */
struct solver_info {
	const char *name, *evaluations, *help;
	int discrete, kind, order; /* kind: an enum solver_kind, or with `discrete` an enum discrete_kind */
	enum solver_noise noise;
	int points, corrected; /* of struct discrete */
};
extern const struct solver_info solver_table[];
extern const char *const solver_names[];

/* NAME[,KEY=VALUE].. : the solvers of discrete time with
 *   spacing=leading|linspace|trailing|respaced|quadratic  offset=N  clip=L  final=zero|min
 *   variance=small|large|learned (ddpm)  eta=E (ddim)  type=midpoint|heun (dpm++) or bh2|bh1 (unipc)  lower=yes|no (dpm++, unipc)
 *   sigmas=table|karras|logsnr (euler-discrete, dpm++, unipc)
 *   sde=no|yes (dpm++1, dpm++2m)
 * and the flow solvers with
 *   shift=S or mu=M  law=exponential|linear (of mu)  terminal=T  sigmas=even|karras|exponential|beta|quadratic|logsnr
 *   strength=C (sde)  churn=C  churn-min=S  churn-max=S  churn-noise=F (edm-heun)
 * dopri5 takes rtol=R and atol=A alone.
 * ERR_USAGE names the part that is wrong. */
int solver_parse(const char *text, struct solver_choice *c, struct err *e);

#endif
