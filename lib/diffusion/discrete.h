/* Discrete-time solvers on the experts' own path: DDPM, DDIM, DPM-Solver++, UniPC and Euler, as in diffusers' schedulers and DiT's sampling loops.
 *
 * A solver is a list of steps with coefficients computed in advance. A step evaluates the network once; the next x is a linear combination of x,
 * the x0 predicted now and in up to two earlier steps, and noise. A corrector first replaces x by a linear combination of the saved x and of the x0
 * predicted now and in up to three earlier steps. */
#ifndef DDM_DIFFUSION_DISCRETE_H
#define DDM_DIFFUSION_DISCRETE_H

#include <stdint.h>

#include "diffusion/schedule.h"
#include "kernels/device.h"

enum discrete_kind {
	DISCRETE_DDPM,       /* Ho et al. 2020 */
	DISCRETE_DDIM,       /* Song et al. 2021 */
	DISCRETE_EULER,      /* on sigma / alpha: EulerDiscreteScheduler */
	DISCRETE_MULTISTEP,  /* DPM-Solver++ (Lu et al. 2022): DPMSolverMultistepScheduler */
	DISCRETE_SINGLESTEP, /* DPMSolverSinglestepScheduler */
	DISCRETE_UNIPC       /* UniPC on x0 (Zhao et al. 2023): UniPCMultistepScheduler */
};

/* How steps are chosen from the T of training: the first three have diffusers' names, RESPACED is DiT's timestep_respacing = "N", and QUADRATIC takes
 * steps whose square roots are even between those of 0 and T - 1, rounded, each at least one above the next. */
enum discrete_spacing { SPACING_LEADING, SPACING_LINSPACE, SPACING_TRAILING, SPACING_RESPACED, SPACING_QUADRATIC };

/* The sigma / alpha of the steps: those of the spacing, or between its ends (for DPM-Solver++ and UniPC those of the table) even in the power
 * 1/7 (Karras et al. 2022) or in the log-SNR (Lu et al. 2022). */
enum discrete_sigmas { SIGMAS_TABLE, SIGMAS_KARRAS, SIGMAS_LOGSNR };

/* The variance of DDPM's noise: SMALL is the posterior's (fixed_small), LARGE is beta (fixed_large), LEARNED lies between them as given by the
 * network's second half of output channels (learned_range). AUTO is LEARNED if the network has that half, else SMALL. */
enum discrete_variance { VARIANCE_AUTO, VARIANCE_SMALL, VARIANCE_LARGE, VARIANCE_LEARNED };

struct discrete {
	enum discrete_kind kind;
	int order; /* DPM-Solver++ and UniPC: 1 to 3 */
	enum discrete_spacing spacing;
	int64_t offset; /* for SPACING_LEADING: steps_offset */
	enum discrete_variance variance;
	double eta;                  /* DDIM: 0 adds no noise, 1 as much as DDPM */
	double clip;                 /* x0 is clamped to -clip .. clip; 0: not clamped */
	int final_min;               /* end at the noise of step 0 instead of zero: final_sigmas_type sigma_min; for DDIM set_alpha_to_one false */
	int any_final;               /* DPM-Solver++ and UniPC: lower_order_final false: only a last step to zero noise has a lower order */
	int heun;                    /* DPM-Solver++: solver_type heun instead of midpoint */
	enum discrete_sigmas sigmas; /* Euler, DPM-Solver++ and UniPC */
	int corrected;               /* DISCRETE_MULTISTEP of order 3: full weight of the second difference, see discreteplan.c */
	int bh1;                     /* UniPC: solver_type bh1 instead of bh2 */
	int sde;                     /* DISCRETE_MULTISTEP of orders 1 and 2: algorithm_type sde-dpmsolver++ */
};

struct discrete_step {
	double time;         /* time input of the network */
	double scale;        /* its input = scale x */
	double x0_x, x0_out; /* x0 = x0_x x + x0_out out */
	int correct;         /* replace x by corrected_saved times the saved x + sum corrected[k] x0 of k steps before, k from 0 */
	double corrected_saved, corrected[4];
	double x, saved, out;  /* weights of x, the saved x and the network's output in the next x */
	double x0[3];          /* weights of x0 of this step and of the two before it */
	double noise;          /* standard deviation of the added noise */
	double log_lo, log_hi; /* if log_hi > log_lo the variance is learned: its logs at network outputs -1 and 1 */
	int save;              /* save x, corrected, before the step changes it */
};

struct discrete_plan {
	int64_t steps;
	double start, clip;         /* the initial x is start times standard normals; clip as in struct discrete */
	int noisy;                  /* some step adds noise */
	struct discrete_step *step; /* (steps) */
};

/* The defaults of a kind: those of diffusers, but without clipping. */
struct discrete discrete_default(enum discrete_kind kind);

/* Plan `steps` steps on s for a network that predicts `kind` (x0, epsilon, v_prediction); has_variance: it also outputs a learned variance.
 * ERR_USAGE for more steps than s allows, or a learned variance without has_variance. Release with discrete_plan_release. */
int discrete_plan_make(struct discrete_plan *p, const struct discrete *how, int64_t steps, const struct schedule *s, enum prediction kind,
                       int has_variance, struct err *e);
void discrete_plan_release(struct discrete_plan *p);

/* discrete_field: out (n, out_cols) = the network's output at x (n, cols) and the step's time. discrete_noise: z (n, cols) = standard normals. */
typedef int discrete_field(void *arg, float *out, const float *x, double time, int64_t step, struct err *e);
typedef int discrete_noise(void *arg, float *z, int64_t step, struct err *e);

struct discrete_run {
	struct device *device;
	int64_t n, cols, out_cols; /* out_cols >= cols: the first `cols` columns of the output are the prediction, the next `cols` the variance */
	discrete_field *field;
	discrete_noise *noise;
	void *arg;
};

/* Turn x (n, cols) of standard normals into samples, in place. x and work (discrete_work floats) are in device memory. */
int discrete_solve(const struct discrete_plan *p, const struct discrete_run *r, float *x, float *work, struct err *e);
int64_t discrete_work(int64_t n, int64_t cols, int64_t out_cols);

#endif
