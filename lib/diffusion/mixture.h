/* The ensemble's velocity u(x, t) = sum_k w_k(x, t) v_k(x, t) (arXiv 2501.05450, section 3).
 *
 * Samples are grouped by expert at every call: each expert runs on the gathered rows that use it and on no others, so top-1
 * costs one expert per sample whatever K is. A row's contributions are added in the order of the experts' indices, so its
 * result does not depend on which other rows were in the batch. Pictures stay on the device: the host sees the router's logits alone,
 * decides, and sends back which rows make a group. */
#ifndef DDM_DIFFUSION_MIXTURE_H
#define DDM_DIFFUSION_MIXTURE_H

#include <stdint.h>

#include "diffusion/denoiser.h"
#include "diffusion/path.h"
#include "diffusion/route.h"
#include "kernels/device.h"

struct mixture {
	int k;
	int64_t d;                   /* elements of a sample */
	const struct expert *expert; /* (k); velocity NULL where absent: masked, and the rest renormalised */
	const struct router *router; /* logits (k); NULL is fine for policies that need none */
	struct policy policy;
	double cfg;                  /* classifier-free guidance: v_null + cfg (v_label - v_null) inside each expert, or of texts; 1: none */
	uint64_t seed;               /* of POLICY_SAMPLE */
	struct device *device;       /* that experts and router compute on, borrowed; NULL: the host */
	int64_t out;                 /* elements of an expert's answer, the prediction before all else; 0: d */
	int64_t guided;              /* how many of them guidance changes, from the first; 0: the prediction's */
	const struct path *own;      /* x, t and the answers are of this path, the router's of the linear one; NULL: all of that */
};

/* Counts, in integers so that sums do not depend on the order of batches. Weights and entropies are in units of 2^-32. */
#define MIXTURE_UNIT 4294967296.
struct mixture_stats {
	int k;
	int64_t steps;
	int64_t evaluations;    /* rows x calls */
	int64_t used;           /* experts with a weight above 0, summed over evaluations */
	int64_t *rows;          /* (k) rows run by each expert, twice per guided sample */
	int64_t *mass;          /* (k) sum of weights */
	int64_t router_rows;
	int64_t *entropy;       /* (steps) of the router's posterior, summed over rows, first evaluation of a step */
	int64_t *entropy_rows;  /* (steps) */
};

void mixture_stats_init(struct mixture_stats *s, int k, int64_t steps);
void mixture_stats_release(struct mixture_stats *s);

struct mixer;

/* Work space for up to `capacity` rows. The mixture and what it points to must outlive it. ERR_USAGE when the policy asks for
 * what is not there: a router, an expert out of range or absent, more than K experts; guidance without classes or text. Caller frees
 * with mixer_free. */
struct mixer *mixer_new(const struct mixture *m, int64_t capacity, struct err *e);
void mixer_free(struct mixer *x);

/* Call order(arg, experts, n) at every evaluation, once it is known which experts will run, in the order that they will. */
void mixer_tell(struct mixer *x, void (*order)(void *arg, const int *expert, int n), void *arg);

/* Features of texts, in memory of the device. */
struct texts {
	const float *features; /* (rows, text_tokens, text_width) */
	const float *mask;     /* (rows, text_tokens), as in struct condition, or NULL */
	int64_t rows;
};

struct mixture_call {
	int64_t n;              /* rows */
	int64_t step;           /* number of the step, for statistics and POLICY_SAMPLE */
	int stage;              /* evaluation within the step */
	double t;
	const float *x;         /* (n, d), on the device */
	const int64_t *index;   /* (n) which image a row is, or NULL: 0 .. n-1 */
	const uint64_t *seed;   /* (n) of POLICY_SAMPLE, or NULL: the mixture's */
	const int32_t *label;   /* (n) class labels, -1: null; or NULL: all null */
	const int32_t *chosen;  /* (n) expert of each row: policies without a router */
	const struct texts *texts; /* of experts that read text */
	const int32_t *text, *negative; /* (n) rows of `texts`: of the prompts and of the negative prompts (NULL without guidance) */
};

/* v (n, d), or of `out` columns, on the device. stats may be NULL. */
int mixer_velocity(struct mixer *x, float *v, const struct mixture_call *c, struct mixture_stats *stats, struct err *e);

/* What mixer and experts compute on: the mixture's device, or the host's own. Borrowed. */
struct device *mixer_device(const struct mixer *x);

/* Of the last call: weights (n, k), and the heaviest expert of each row (n). Borrowed until the next call. */
const double *mixer_weights(const struct mixer *x);
const int32_t *mixer_heaviest(const struct mixer *x);

/* GFLOP of all that was counted. */
double mixture_gflop(const struct mixture *m, const struct mixture_stats *s);

#endif
