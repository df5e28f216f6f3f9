/* The training objective of a network: the path from data to noise, the kind of prediction, the weighting of errors, and the distribution of times.
 *
 * Each is an entry of a table, found by name. The trainer (train/noised.h) uses its coefficients at t, the sampler and the mixture convert
 * predictions with them (diffusion/convert.h), and config.json and the stamp hold the names. */
#ifndef DDM_DIFFUSION_OBJECTIVE_H
#define DDM_DIFFUSION_OBJECTIVE_H

#include <stdint.h>

#include "core/err.h"
#include "core/rng.h"
#include "diffusion/path.h"
#include "diffusion/schedule.h"
#include "net/timerange.h"

/* A path that a network can be trained on. */
struct path_choice {
	const char *name;   /* on the command line: "ddpm" */
	const char *config; /* "path" in config.json: "linear_betas" */
	struct betas betas; /* of a discrete-time path; steps 0: continuous time. Its table is never owned */
	double sigma_data;  /* of edm; 0: SIGMA_DATA_USUAL */
};

/* clang-format off */
/* The struct named (core/named.h) of a path: with count 1 a sigma_data may follow the name, which is 0 if it does not. */
#define SIGMA_DATA_NAMED(text, count) \
	{text, (count) ? ":S" : NULL, count, count, 0, {{0, SIGMA_DATA_LEAST, SIGMA_DATA_MOST}}}
/* clang-format on */

/* In the order of the manual; NULL at the end. */
extern const char *const path_choice_names[];
/* Parse one of these names, or edm:S, S the standard deviation of the data; else ERR_USAGE. */
int path_choice_parse(const char *text, struct path_choice *c, struct err *e);
/* The path of a choice: a constant, or one inside *s, which must then not move. Release *s with schedule_release in both cases. */
const struct path *path_choice_open(const struct path_choice *c, struct schedule *s);

enum weighting_kind {
	WEIGHTING_USUAL, /* the usual one of the prediction: velocity for x0, none for others */
	WEIGHTING_NONE,
	WEIGHTING_VELOCITY,
	WEIGHTING_MIN_SNR,
	WEIGHTING_EDM,
	WEIGHTING_SIGMOID
};

struct weighting {
	enum weighting_kind kind;
	double by; /* GAMMA, STD or BIAS; an STD of 0 is the path's sigma_data */
};

/* Parse a weighting, else ERR_USAGE:
 *   none              1
 *   velocity          the squared error of the velocity that follows from the prediction: 1/t^2 for x0 on the linear path. t is clamped to at
 *                     least WEIGHTING_LEAST_T, so that the smallest times do not dominate the loss
 *   min-snr[:GAMMA]   min(SNR, gamma) on the error of x0 (Hang et al. 2023); gamma 5
 *   edm[:STD]         (s^2 + std^2) / (s std)^2 on the error of x0, s = sigma/alpha (Karras et al. 2022); std the path's sigma_data
 *   sigmoid[:BIAS]    -1/2 dlogSNR/dt e^b sigmoid(logSNR - b) on the error of x0 (Kingma and Gao 2023); b 0
 * Each is applied as a factor of the prediction's own squared error. */
int weighting_parse(const char *text, struct weighting *w, struct err *e);
/* The name; NULL for WEIGHTING_USUAL. *numbered: this kind has a number. */
const char *weighting_name(const struct weighting *w, int *numbered);
/* w, or WEIGHTING_USUAL if w is the usual weighting of the prediction. */
struct weighting weighting_reduced(struct weighting w, enum prediction kind);

#define WEIGHTING_LEAST_T .05
/* Times are kept at least this far from 0 and 1, where some weights are unbounded. */
#define WEIGHTING_EDGE 1e-4
/* The factor of the prediction's squared error at time t. */
double weighting_at(const struct weighting *w, const struct path *path, enum prediction kind, double t);

enum time_kind {
	TIME_UNIFORM,      /* between the ends of the path */
	TIME_LOGIT_NORMAL, /* logit t is normal (Esser et al. 2024) */
	TIME_LOGNORMAL,    /* log sigma/alpha is normal (Karras et al. 2022) on any path; the same as logit-normal on the linear path */
	TIME_DISCRETE      /* one of the path's steps; 1/1000 .. 1 on a continuous path */
};

/* The distribution of training times. */
struct time_law {
	enum time_kind kind;
	double mean, std; /* of the normal distribution */
};

/* Parse uniform, logit-normal[:MEAN,STD] (default 0, 1), lognormal[:MEAN,STD] (default -1.2, 1.2) or discrete; else ERR_USAGE. */
int time_law_parse(const char *text, struct time_law *law, struct err *e);
/* *numbered: this law has mean and std. */
const char *time_law_name(const struct time_law *law, int *numbered);
/* The time of sample `index` at training step `step`, a pure function of the arguments. It is between path->lo and path->hi, and below 1 for
 * TIME_UNIFORM and TIME_LOGIT_NORMAL. With a range it is drawn from the law conditioned on the range: the law's density there, divided by the
 * law's probability of the range. NULL or the zeroed range: all times. */
double time_sample(const struct time_law *law, const struct time_range *range, const struct path *path, uint64_t seed, enum rng_purpose purpose,
                   uint64_t step, uint64_t index);
/* ERR_USAGE if the law never draws a time in the range: it holds none of the path's times or none of its steps, or has probability 0 in double
 * precision. */
int time_check(const struct time_law *law, struct time_range range, const struct path *path, struct err *e);
/* The ends of the range, inside those of the path: the interval that validation covers. */
void time_span(struct time_range range, const struct path *path, double *lo, double *hi);

enum loss_kind {
	LOSS_SQUARED,  /* weighted squared error of the prediction */
	LOSS_CLASS,    /* cross-entropy of the cluster, for a router */
	LOSS_SOFT,     /* cross-entropy of probabilities of the clusters, for a router */
	LOSS_ERRORS,   /* cross-entropy of numbers that follow from the errors of experts, for a router */
	LOSS_VARIANCE, /* negative log-likelihood of the errors of experts, each with a variance of its own, for a router */
	LOSS_MIXTURE,  /* squared error of the mixture of experts, for a router */
	LOSS_ANCHORED  /* the same, plus a multiple of the cross-entropy of the cluster */
};

struct objective_def {
	struct path_choice path;
	enum prediction prediction;
	struct weighting weighting;
	struct time_law time;
	struct time_range range; /* of the times; zeroed: all */
	enum loss_kind loss;
};

/* The coefficients for training on one sample at time t. */
struct objective_point {
	struct path_point at;     /* x_t = alpha x0 + sigma eps */
	double from_x0, from_eps; /* the target is from_x0 x0 + from_eps eps */
	double weight;            /* of its squared error */
};

struct objective_point objective_at(const struct objective_def *o, const struct path *path, double t);

#endif
