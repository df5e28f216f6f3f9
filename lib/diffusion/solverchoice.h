/* Solvers by name: flow solvers (diffusion/solver.h) and discrete-time solvers (diffusion/discrete.h). */
#ifndef DDM_DIFFUSION_SOLVERCHOICE_H
#define DDM_DIFFUSION_SOLVERCHOICE_H

#include "diffusion/discrete.h"
#include "diffusion/flowgrid.h"
#include "diffusion/solver.h"

struct solver_choice {
	const char *name; /* one of solver_names */
	int discrete;     /* 1: `how` is used; 0: `kind` and `grid` */
	enum solver_kind kind;
	struct discrete how;
	struct flow_grid grid; /* for flow solvers */
};

/* NULL at the end. */
extern const char *const solver_names[];

/* NAME[,KEY=VALUE].. : ddpm, ddim, euler-discrete, dpm++1, dpm++2m, dpm++3m, dpm++3m-corrected, dpm++2s, dpm++3s with
 *   spacing=leading|linspace|trailing|respaced  offset=N  clip=L  final=zero|min
 *   variance=small|large|learned (ddpm)  eta=E (ddim)  type=midpoint|heun  lower=yes|no (dpm++)  sigmas=table|karras (euler-discrete, dpm++)
 *   sde=no|yes (dpm++1, dpm++2m)
 * and euler, heun, midpoint, rk4, ab2 (the flow solvers) with
 *   shift=S or mu=M  law=exponential|linear (of mu)  terminal=T  sigmas=even|karras|exponential|beta
 * ERR_USAGE names the part that is wrong. */
int solver_parse(const char *text, struct solver_choice *c, struct err *e);

#endif
