/* The list of solvers. Parsing, the help of --solver, completion and messages are made from it; ddm-sample(1) repeats it and a test compares them.
 *
 * FLOW(kind, name, order, evaluations, noise, help): a flow solver (diffusion/solver.h). It follows the flow on the linear path in continuous time.
 * DISCRETE(kind, name, order, evaluations, noise, help, points, corrected): a solver of discrete time (diffusion/discrete.h); points and corrected
 * are the members `order` and `corrected` of struct discrete.
 *
 * order: of convergence, without the noise that a key adds; for ddpm that of the mean and the deviation of samples. evaluations: how often N steps to
 * t = 0 evaluate the networks. noise: whether steps add noise. */
#ifndef DDM_DIFFUSION_SOLVERLIST_H
#define DDM_DIFFUSION_SOLVERLIST_H

enum solver_noise { NOISE_NONE, NOISE_ALWAYS, NOISE_BY_KEY };

/* clang-format off */
#define SOLVER_LIST(FLOW, DISCRETE) \
	FLOW(EULER, "euler", 1, "N", NOISE_NONE, "Euler's method") \
	FLOW(HEUN, "heun", 2, "2 N - 1", NOISE_NONE, "Heun's method") \
	FLOW(MIDPOINT, "midpoint", 2, "2 N", NOISE_NONE, "the midpoint method") \
	FLOW(RK4, "rk4", 4, "4 N - 1", NOISE_NONE, "the classical Runge-Kutta method") \
	FLOW(AB2, "ab2", 2, "N", NOISE_NONE, "Adams-Bashforth with two points") \
	FLOW(SDE, "sde", 1, "N", NOISE_ALWAYS, "Euler-Maruyama steps of the reverse SDE") \
	FLOW(EDM_HEUN, "edm-heun", 2, "2 N - 1", NOISE_BY_KEY, "Heun's method in sigma / alpha, with churn") \
	FLOW(DOPRI5, "dopri5", 5, "6 M + 3", NOISE_NONE, "adaptive Dormand-Prince, M steps tried") \
	DISCRETE(DDPM, "ddpm", 1, "N", NOISE_ALWAYS, "ancestral sampling", 1, 0) \
	DISCRETE(DDIM, "ddim", 1, "N", NOISE_BY_KEY, "DDIM", 1, 0) \
	DISCRETE(EULER, "euler-discrete", 1, "N", NOISE_NONE, "Euler steps in sigma / alpha", 1, 0) \
	DISCRETE(MULTISTEP, "dpm++1", 1, "N", NOISE_BY_KEY, "DPM-Solver++ with one x0", 1, 0) \
	DISCRETE(MULTISTEP, "dpm++2m", 2, "N", NOISE_BY_KEY, "multistep DPM-Solver++ with two x0", 2, 0) \
	DISCRETE(MULTISTEP, "dpm++3m", 2, "N", NOISE_NONE, "multistep DPM-Solver++ with three x0, as published", 3, 0) \
	DISCRETE(MULTISTEP, "dpm++3m-corrected", 3, "N", NOISE_NONE, "dpm++3m with the full second difference", 3, 1) \
	DISCRETE(SINGLESTEP, "dpm++2s", 2, "N", NOISE_NONE, "singlestep DPM-Solver++ in groups of two", 2, 0) \
	DISCRETE(SINGLESTEP, "dpm++3s", 3, "N", NOISE_NONE, "singlestep DPM-Solver++ in groups of three", 3, 0) \
	DISCRETE(UNIPC, "unipc1", 2, "N", NOISE_NONE, "UniPC with one x0 and the corrector", 1, 0) \
	DISCRETE(UNIPC, "unipc2", 3, "N", NOISE_NONE, "UniPC with two x0 and the corrector", 2, 0) \
	DISCRETE(UNIPC, "unipc3", 4, "N", NOISE_NONE, "UniPC with three x0 and the corrector", 3, 0)
/* clang-format on */

/* Texts of the names, with a comma and a blank after each. */
#define SOLVER_NAME_TEXT(kind, name, ...) name ", "
#define SOLVER_NO_TEXT(...)
#define SOLVER_FLOW_NAMES SOLVER_LIST(SOLVER_NAME_TEXT, SOLVER_NO_TEXT)
#define SOLVER_DISCRETE_NAMES SOLVER_LIST(SOLVER_NO_TEXT, SOLVER_NAME_TEXT)

#endif
