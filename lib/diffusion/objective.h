/* What a network is trained for: the path from data to noise, what it predicts there, how its errors are weighted, at which times.
 *
 * Each of these is one entry of a table, found by name: the trainer (train/noised.h) asks it for coefficients at t, the sampler and the
 * mixture convert by them (diffusion/convert.h), and config.json and the stamp hold the names. */
#ifndef DDM_DIFFUSION_OBJECTIVE_H
#define DDM_DIFFUSION_OBJECTIVE_H

#include <stdint.h>

#include "core/err.h"
#include "core/rng.h"
#include "diffusion/path.h"
#include "diffusion/schedule.h"

/* A path that a network can be trained on. */
struct path_choice {
	const char *name;   /* "ddpm", as the command line has it */
	const char *config; /* "linear_betas": "path" of config.json */
	struct betas betas; /* of a path of discrete time; steps 0: continuous */
};

/* In the order of the manual; NULL at the end. */
extern const char *const path_choice_names[];
/* One of these, the first for NULL; NULL where `name` is none of them. */
const struct path_choice *path_choice_find(const char *name);
/* Its path: a constant one, or *s made for it, which must stay where it is. *s is to be released (schedule_release). */
const struct path *path_choice_open(const struct path_choice *c, struct schedule *s);

enum weighting_kind {
	WEIGHTING_USUAL, /* of the prediction: velocity for x0, none for the others */
	WEIGHTING_NONE,
	WEIGHTING_VELOCITY,
	WEIGHTING_MIN_SNR,
	WEIGHTING_EDM,
	WEIGHTING_SIGMOID
};

struct weighting {
	enum weighting_kind kind;
	double by; /* its number */
};

/* ERR_USAGE for what is none of
 *   none              1
 *   velocity          the squared error of the velocity that follows from the prediction, with t clamped to at least WEIGHTING_LEAST_T, so
 *                     that the last twentieth of the way to the data does not drown the rest: 1/t^2 for x0 on the linear path
 *   min-snr[:GAMMA]   min(SNR, gamma) on the error of x0 (Hang et al. 2023); gamma 5
 *   edm[:STD]         (s^2 + std^2) / (s std)^2 on the error of x0, s = sigma/alpha (Karras et al. 2022); std .5
 *   sigmoid[:BIAS]    -1/2 dlogSNR/dt e^b sigmoid(logSNR - b) on the error of x0 (Kingma and Gao 2023); b 0
 * all but the first expressed as factors of the prediction's own squared error. */
int weighting_parse(const char *text, struct weighting *w, struct err *e);
/* NULL for WEIGHTING_USUAL, and *w is of a kind that has a number where *numbered. */
const char *weighting_name(const struct weighting *w, int *numbered);
/* The same weighting, said as WEIGHTING_USUAL where it is the usual one of the prediction. */
struct weighting weighting_reduced(struct weighting w, enum prediction kind);

#define WEIGHTING_LEAST_T .05
/* Weights at times within this of 0 and of 1 are those at this distance from them: some have no limit there. */
#define WEIGHTING_EDGE 1e-4
/* What the squared error of the prediction is multiplied by. */
double weighting_at(const struct weighting *w, const struct path *path, enum prediction kind, double t);

enum time_kind {
	TIME_UNIFORM,      /* between the ends of the path */
	TIME_LOGIT_NORMAL, /* logit t is normal (Esser et al. 2024) */
	TIME_LOGNORMAL,    /* log sigma/alpha is normal (Karras et al. 2022), whatever the path; on the linear one that is logit-normal */
	TIME_DISCRETE      /* one of the path's steps; of a continuous path 1/1000 .. 1 */
};

/* The distribution of training times. */
struct time_law {
	enum time_kind kind;
	double mean, std; /* of a normal one */
};

/* ERR_USAGE for what is none of uniform, logit-normal[:MEAN,STD] (0, 1), lognormal[:MEAN,STD] (-1.2, 1.2), discrete. */
int time_law_parse(const char *text, struct time_law *law, struct err *e);
/* *numbered: it has mean and std. */
const char *time_law_name(const struct time_law *law, int *numbered);
/* The time of sample `index` at step `step`: a pure function of its arguments; between the ends of the path, below 1 where drawn from
 * TIME_UNIFORM and TIME_LOGIT_NORMAL. */
double time_sample(const struct time_law *law, const struct path *path, uint64_t seed, enum rng_purpose purpose, uint64_t step,
                   uint64_t index);

enum loss_kind {
	LOSS_SQUARED, /* of the prediction, weighted */
	LOSS_CLASS    /* cross-entropy of the cluster, of a router, which predicts nothing else */
};

struct objective_def {
	const struct path_choice *path; /* NULL: linear */
	enum prediction prediction;
	struct weighting weighting;
	struct time_law time;
	enum loss_kind loss;
};

/* What the trainer wants to know of one sample at time t. */
struct objective_point {
	struct path_point at;    /* x_t = alpha x0 + sigma eps */
	double from_x0, from_eps; /* the target is from_x0 x0 + from_eps eps */
	double weight;           /* of its squared error */
};

struct objective_point objective_at(const struct objective_def *o, const struct path *path, double t);

#endif
