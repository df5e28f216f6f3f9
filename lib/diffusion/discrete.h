/* Solvers of discrete time, on the experts' own path: DDPM, DDIM, DPM-Solver++ and Euler, as diffusers' schedulers and DiT's sampling
 * loops have them.
 *
 * Each is a list of steps, known before the first: a step asks the network once and adds up, with fixed coefficients, x, the x0 that
 * the network predicts now and did before, and noise. */
#ifndef DDM_DIFFUSION_DISCRETE_H
#define DDM_DIFFUSION_DISCRETE_H

#include <stdint.h>

#include "diffusion/schedule.h"
#include "kernels/device.h"

enum discrete_kind {
	DISCRETE_DDPM,      /* Ho et al. 2020 */
	DISCRETE_DDIM,      /* Song et al. 2021 */
	DISCRETE_EULER,     /* on sigma / alpha: EulerDiscreteScheduler */
	DISCRETE_MULTISTEP, /* DPM-Solver++ (Lu et al. 2022): DPMSolverMultistepScheduler */
	DISCRETE_SINGLESTEP /* DPMSolverSinglestepScheduler */
};

/* Which of the T steps: the first three as diffusers names them, the last DiT's timestep_respacing = "N". */
enum discrete_spacing { SPACING_LEADING, SPACING_LINSPACE, SPACING_TRAILING, SPACING_RESPACED };

/* Of DDPM: the posterior's (fixed_small), beta (fixed_large), or between them as the network's other half of channels says
 * (learned_range); AUTO is the last where there is that half, else the first. */
enum discrete_variance { VARIANCE_AUTO, VARIANCE_SMALL, VARIANCE_LARGE, VARIANCE_LEARNED };

struct discrete {
	enum discrete_kind kind;
	int order;          /* DPM-Solver++: 1 to 3 */
	enum discrete_spacing spacing;
	int64_t offset;     /* of SPACING_LEADING: steps_offset */
	enum discrete_variance variance;
	double eta;         /* DDIM: 0 no noise, 1 as much as DDPM */
	double clip;        /* x0 is kept within -clip .. clip; 0: as it is */
	int final_min;      /* end at the noise of step 0, not at none: final_sigmas_type sigma_min; DDIM: set_alpha_to_one false */
	int any_final;      /* DPM-Solver++: lower_order_final false: the order goes down at the end only where the noise ends */
	int heun;           /* DPM-Solver++: solver_type heun, not midpoint */
	int karras;         /* of Euler and DPM-Solver++: the sigmas of Karras et al. 2022, rho 7, and not those of the spacing */
	int corrected;      /* DISCRETE_MULTISTEP of order 3: the second difference counts in full, see discreteplan.c */
	int sde;            /* DISCRETE_MULTISTEP of orders 1 and 2: algorithm_type sde-dpmsolver++ */
};

struct discrete_step {
	double time;            /* the network is asked at */
	double scale;           /* its input = scale x */
	double x0_x, x0_out;    /* x0 = x0_x x + x0_out out */
	double x, saved, out;   /* what x, a saved one and the network's output count in the next x */
	double x0[3];           /* this x0, that of the step before, and before that */
	double noise;           /* its standard deviation, */
	double log_lo, log_hi;  /* or where learned (log_hi > log_lo): of the logs of the variance at -1 and 1 */
	int save;               /* x is saved before it changes */
};

struct discrete_plan {
	int64_t steps;
	double start, clip; /* x begins as start times standard normals */
	int noisy;          /* whether any step draws */
	struct discrete_step *step; /* (steps) */
};

/* The default of each kind, as in diffusers but without clipping. */
struct discrete discrete_default(enum discrete_kind kind);

/* `steps` steps on s for a network that predicts `kind` (x0, epsilon, v_prediction) and has a learned variance beside it or not. ERR_USAGE
 * for what cannot be: more steps than there are, a variance that is not there. Release with discrete_plan_release. */
int discrete_plan_make(struct discrete_plan *p, const struct discrete *how, int64_t steps, const struct schedule *s, enum prediction kind,
                       int has_variance, struct err *e);
void discrete_plan_release(struct discrete_plan *p);

/* out (n, out_cols) of the network at x (n, cols) and the step's time; z (n, cols) of standard normals. */
typedef int discrete_field(void *arg, float *out, const float *x, double time, int64_t step, struct err *e);
typedef int discrete_noise(void *arg, float *z, int64_t step, struct err *e);

struct discrete_run {
	struct device *device;
	int64_t n, cols, out_cols; /* out_cols >= cols: of the output's columns the first `cols` are the prediction, the next the variance */
	discrete_field *field;
	discrete_noise *noise;
	void *arg;
};

/* x (n, cols) from standard normals to samples, in place. x and work (discrete_work floats) are memory of the device. */
int discrete_solve(const struct discrete_plan *p, const struct discrete_run *r, float *x, float *work, struct err *e);
int64_t discrete_work(int64_t n, int64_t cols, int64_t out_cols);

#endif
