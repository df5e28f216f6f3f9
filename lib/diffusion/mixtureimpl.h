/* The state of a mixer, shared by mixture.c, which runs the experts, mixtureroute.c, which weighs them, and mixtureremote.c, which asks other
 * ranks. */
#ifndef DDM_DIFFUSION_MIXTUREIMPL_H
#define DDM_DIFFUSION_MIXTUREIMPL_H

#include "diffusion/mixture.h"

struct mixer {
	const struct mixture *m;
	int64_t capacity, chunk;                           /* chunk: rows of the largest expert call */
	unsigned char *present;                            /* (k) */
	void (*tell)(void *arg, const int *expert, int n); /* see mixer_tell; NULL: not set */
	void *tell_arg;
	int *order;                  /* (k) */
	struct device *device, *own; /* own: the device if mixer_new made it, else NULL */
	float *logits;               /* (capacity, clusters) */
	double *prob, *w;            /* (capacity, k) */
	int32_t *heaviest;           /* (capacity) */
	int32_t *label;              /* (chunk) */
	float *t;                    /* (max(capacity, chunk)) */
	unsigned char *begun;        /* (capacity) v already holds a contribution */
	double *inverse;             /* (k) of a call: 1 / the measured loss of each expert, for weights by confidence */
	double *cost;                /* (k) GFLOP of one evaluation of each expert */
	float *x0, *host_v;          /* (capacity, d) for distances: predicted samples of the call before, and room for velocities; else NULL */
	double *squared;             /* (capacity, clusters) */
	int guided, moved;           /* this call is guided; `momentum` holds differences of an earlier call */
	double *spent, *entropy;     /* (capacity) of a budget: GFLOP so far, entropy of the weights at the first evaluation */
	int32_t *group;              /* (4, chunk): the vectors of struct group_rows (weights as floats), then rows of the texts */
	int following;               /* this call's velocities are kept for weights by density */
	double *density;             /* (capacity, k) for weights by density: the log of share times density; else NULL */
	float *own_v;                /* (capacity, k, d) the experts' own velocities at the last call, without guidance */
	float *mixed, *noise;        /* (capacity, d) the last call's result, and room for a step's noise */
	float *group_v;              /* (chunk, d) */
	int flowing;                 /* this call's rates are kept for weights by density along the flow */
	double *kept, *rate;         /* (capacity, k), (SOLVER_STAGES, capacity, k): log-densities at the last step's end, and their rates */
	float *sign, *flow_x;        /* (capacity, d) of Hutchinson's estimate, and the call's states */
	float *pulled_v, *pulled;    /* (capacity, d) one expert's velocities and products */
	struct mixer_ranks *ranks;   /* of experts on several ranks; else NULL */
	/* on the device */
	float *out;         /* (capacity, clusters) */
	float *x, *v;       /* (chunk, d), (chunk, columns) */
	float *u;           /* (capacity, columns) what guidance leads away from, mixed; NULL unless guided after mixing */
	float *momentum;    /* (capacity, d) of guidance; NULL without */
	float *routed;      /* (capacity, d) the router's input if the path is not linear */
	float *text, *mask; /* (chunk, text_tokens, text_width), (chunk, text_tokens); NULL if no expert reads text */
	float *pooled;      /* (chunk, pooled_width), or NULL */
	int64_t pooled_width;
	float *first;         /* (chunk, first_frame), or NULL */
	int32_t *group_there; /* copy of group */
};

/* Elements of one expert's output. */
int64_t mixture_columns(const struct mixture *m);
/* Columns of the router, the shares and the distances. */
int mixture_clusters(const struct mixture *m);
/* Whether an expert's predictions are guided, and whether the expert is then asked twice, with its condition and without. */
int mixture_guides(const struct mixture *m, const struct expert *x);
int mixture_pairs(const struct mixture *m, const struct expert *x);
/* The time of the linear path where the log-SNR is that of time t of the mixture's path. */
double mixture_linear_time(const struct mixture *m, double t);
/* cost (k) = GFLOP of one row by each expert, with guidance twice or with its guide; 0 for absent ones. */
void mixture_costs(const struct mixture *m, double *cost);
/* The time of row i. */
double mixture_time(const struct mixture_call *c, int64_t i);
/* Compute the weights and the heaviest expert of every row of a call. stats may be NULL. */
int mixer_route(struct mixer *x, const struct mixture_call *c, struct mixture_stats *s, struct err *e);
/* Keep the samples that this call predicted with the velocities v, x0 = x - t v, for the distances of the next. */
int mixer_keep_prediction(struct mixer *x, const float *v, const struct mixture_call *c, struct err *e);
/* The shares of the clusters for row i: those of its class, or of all samples; NULL: unknown. */
const double *mixture_shares(const struct mixture *m, const struct mixture_call *c, int64_t i);

/* mixturedensity.c: ERR_USAGE if weights by density are asked of a mixture that cannot have them. */
int mixture_check_density(const struct mixture *m, struct err *e);
int mixer_alloc_density(struct mixer *x, struct err *e);
void mixer_free_density(struct mixer *x);
/* Begin a call: sets x->following, and at evaluation 0 the densities of t = 1. */
void mixer_follow(struct mixer *x, const struct mixture_call *c);
/* Whether expert k runs on row i for its density. */
int mixer_needs(const struct mixer *x, int64_t i, int k);
/* Keep the velocities x->v of expert k for the n rows in x->group. */
void mixer_keep_own(struct mixer *x, int k, int64_t n);
/* Keep the call's result v (n, d). */
int mixer_keep_mixed(struct mixer *x, const float *v, int64_t n, struct err *e);
/* Find the rates of a call's log-densities along the flow, with its result v (n, d). */
int mixer_find_rates(struct mixer *x, const float *v, const struct mixture_call *c, struct err *e);
/* Whether expert k's gradient is taken for row i. */
int mixer_probes(const struct mixer *x, int64_t i, int k);

/* Call fn with every group of rows in x->group (n) that expert k runs on: the rows where it has a weight, if `mixed`, or else the others that
 * need its density. */
typedef int mixer_group_fn(struct mixer *x, const struct mixture_call *c, int k, int64_t n, int mixed, void *arg, struct err *e);
int mixer_groups(struct mixer *x, const struct mixture_call *c, int k, int mixed, mixer_group_fn *fn, void *arg, struct err *e);
/* The predictions of a group: all, or of a guided group those with the condition, or those that guidance leads away from. */
enum branch { BRANCH_BOTH, BRANCH_GIVEN, BRANCH_AWAY };
/* Compute x->v, the predictions of expert k, and of its guide, for such a group; and how many numbers that are. */
int mixer_predict(struct mixer *x, const struct mixture_call *c, int k, int64_t n, int mixed, enum branch branch, struct err *e);
int64_t mixer_predicted(const struct mixer *x, int k, int64_t n, int mixed, enum branch branch);
/* Whether such a group is guided, so that it has both branches. */
int mixer_has_branches(const struct mixer *x, int k, int mixed);

/* mixtureremote.c: get the predictions of all groups of a call from the ranks; then copy those of the next group, of n rows of expert k, to x->v. */
int mixer_alloc_ranks(struct mixer *x, struct err *e);
void mixer_free_ranks(struct mixer *x);
int mixer_ask_ranks(struct mixer *x, const struct mixture_call *c, struct err *e);
void mixer_take(struct mixer *x, int k, int64_t n, int mixed);

#endif
