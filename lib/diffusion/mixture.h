/* The ensemble's velocity u(x, t) = sum_k w_k(x, t) v_k(x, t) (arXiv 2501.05450, section 3).
 *
 * Samples are grouped by expert at every call: each expert runs only on the rows that use it, so top-1 costs one expert per sample for any K. A row's
 * contributions are added in the order of the experts' indices, so its result does not depend on the other rows of the batch. Samples stay on the
 * device: the host reads only the router's logits, chooses the experts, and sends back the rows of each group. */
#ifndef DDM_DIFFUSION_MIXTURE_H
#define DDM_DIFFUSION_MIXTURE_H

#include <stdint.h>

#include "diffusion/confidence.h"
#include "diffusion/denoiser.h"
#include "diffusion/guidance.h"
#include "diffusion/owners.h"
#include "diffusion/path.h"
#include "diffusion/route.h"
#include "kernels/device.h"

struct comm;

struct mixture {
	int k;
	int64_t d;                   /* elements of a sample */
	const struct expert *expert; /* (k); velocity NULL: absent, and the other weights are renormalised */
	struct owners owners;        /* zeroed: every expert is for all times */
	int clusters;                /* columns of the router, shares and distances; 0: k */
	const struct router *router; /* logits (clusters); may be NULL for policies that take no weights from it */
	const struct router
	    *uncertainty; /* its logits (k) are the negative logarithms of the squared errors that the experts expect; NULL: as `router` */
	struct policy policy;
	double cfg;               /* scale of guidance, by label, by text or by `guide`; 1: none */
	struct guidance guidance; /* how; zeroed: v_null + cfg (v_cond - v_null) inside each expert */
	/* Autoguidance: (k) weaker experts, of which expert k is guided by guide[k], with the same condition and weight. An expert may stand for many.
	 * NULL: experts are guided away from their own predictions for the null label or the negative prompt. */
	const struct expert *guide;
	const struct guidance_native *native; /* (k) what the experts predict, for rescaling inside them; NULL: the kind of `own`, else velocities */
	enum prediction kind;                 /* with `own`: of the experts' outputs */
	uint64_t seed;                        /* for draws of the policy */
	struct device *device;                /* device of the experts and the router, borrowed; NULL: the host */
	int64_t out;                          /* elements of an expert's output, whose first d are the prediction; 0: d */
	int64_t guided;                       /* guidance changes so many of them, from the first; 0: d */
	const struct path *own; /* path of x, t and the experts' outputs; the router stays on the linear path. NULL: all on the linear path */
	/* For weights by the clusters' shares: shares (clusters); class_shares (classes, clusters), if not NULL, replace them for rows with a class.
	 * They need not sum to 1. Both may be NULL for other policies. */
	const double *shares, *class_shares;
	int classes;
	/* For weights by distance: squared (n, clusters) = squared distances of predicted samples x0 (n, d), in host memory, to the clusters' centroids.
	 * NULL for other policies. Needs the linear path (own is NULL). */
	int (*distances)(void *arg, double *squared, const float *x0, int64_t n, struct err *e);
	void *distances_arg;
	double distances_flops;              /* of one sample */
	const struct confidence *confidence; /* (k) losses of the experts, for weights by confidence; NULL for other policies */
	int steps_told; /* the caller reports every step by mixer_stepped, or with `pull` by mixer_moved. Weights by density need it */
	/* Products with the experts' Jacobians, as puller_expert computes them (diffusion/ensemblepull.h): weights by density then follow the flow. NULL:
	 * they follow ancestral steps. */
	int (*pull)(void *arg, int k, int64_t n, const float *x, const float *t, const float *r, float *v, float *g, struct err *e);
	void *pull_arg;
	/* Ranks that share the experts (diffusion/rankorder.h), borrowed. The first calls mixer_velocity, the others mixer_answer. NULL: all experts are
	 * here. */
	struct comm *comm;
	int branches; /* with comm: of a guided expert rank 2i predicts with the condition, and rank 2i + 1 what guidance leads away from */
};

/* Statistics, in integers so that sums do not depend on the order of batches. Weights and entropies are in units of 2^-32. */
#define MIXTURE_UNIT 4294967296.
struct mixture_stats {
	int k;
	int64_t steps;
	int64_t evaluations; /* rows x calls */
	int64_t longest;     /* dopri5: most evaluations of an image */
	int64_t used;        /* experts with a weight above 0, summed over evaluations */
	int64_t
	    *rows; /* (k) rows run by each expert, twice per guided sample without `guide`; weights by density run experts of weight 0 too, and those
	                 * along the flow each expert and its gradient, as three rows */
	int64_t *guide_rows;                     /* (k) rows run by the guide of each */
	int64_t *mass;                           /* (k) sum of weights */
	int64_t router_rows, distance_rows;      /* rows whose logits were computed, and whose distances */
	int64_t uncertainty_rows;                /* rows whose uncertainties were computed */
	int64_t *entropy;                        /* (steps) entropy of the router's posterior at the first evaluation of a step, summed over rows */
	int64_t *entropy_rows;                   /* (steps) 0 where the policy did not ask the router */
	int64_t *density_entropy, *density_rows; /* (steps) the same for weights by density */
};

void mixture_stats_init(struct mixture_stats *s, int k, int64_t steps);
void mixture_stats_release(struct mixture_stats *s);
void mixture_stats_reset(struct mixture_stats *s); /* all counts to 0 */

/* The arrays of the counts, with names for files. */
enum { STATS_ROWS = 13 };
struct stats_row {
	const char *name;
	int64_t *v, n;
};
void mixture_stats_rows(struct mixture_stats *s, struct stats_row row[STATS_ROWS]);
/* Append all counts to *to, and add such counts of other pictures to those here: returns where they end. */
struct str;
void mixture_stats_pack(struct mixture_stats *s, struct str *to);
const int64_t *mixture_stats_add(struct mixture_stats *s, const int64_t *packed);

struct mixer;

/* Allocate the work space for up to `capacity` rows. Borrows *m and everything it points to. ERR_USAGE if the policy needs a missing router, missing
 * shares, missing centroids or centroids off the linear path, a caller that tells no steps, an expert that is absent or out of range, or more
 * than K experts, or for guidance of experts without classes, text or guide, or with a momentum inside experts, or with a budget and steps without
 * guidance, or for owners_check. Caller frees with mixer_free. */
struct mixer *mixer_new(const struct mixture *m, int64_t capacity, struct err *e);
void mixer_free(struct mixer *x);

/* Set a callback: every evaluation calls order(arg, experts, n) with the experts that it will run, in that order, before the first of them runs. */
void mixer_tell(struct mixer *x, void (*order)(void *arg, const int *expert, int n), void *arg);

/* Sizes of the text features and first frames that the experts read: the same for all that read them; 0: none does. */
struct text_sizes {
	int64_t tokens, width, pooled;
	int64_t first_frame; /* of a first frame, in struct expert; 0: no expert reads one */
};
struct text_sizes mixture_texts(const struct mixture *m);

/* Text features and first frames of clips, in device memory. */
struct texts {
	const float *features; /* (rows, text_tokens, text_width) */
	const float *mask;     /* (rows, text_tokens), as in struct condition, or NULL */
	int64_t rows;
	const float *pooled; /* (rows, pooled_width), or NULL if no expert reads it */
	const float *first;  /* (firsts, first_frame) of net_put_first, row 0 without a frame; or NULL: no clip has a first frame */
	int64_t firsts;
};

/* A policy with hysteresis takes the weights of the call before for those of the same rows, unless step and stage are 0; one with a
 * budget what they spent, one with distances what was predicted for them, and one with densities what they and mixer_stepped added up, from
 * evaluation 0 on. So does guidance with a momentum. */
struct mixture_call {
	int64_t n;                       /* rows */
	int64_t step;                    /* number of the step, for statistics and draws of the policy */
	int stage;                       /* evaluation within the step */
	int64_t evaluation, evaluations; /* number of the evaluation, and how many the rows take in all, for budgets */
	double t;
	const double *times;            /* (n) the times of the rows, all alike to t (mixer_alike), if the mixture has no path `own`; NULL: all t */
	const float *x;                 /* (n, d), on the device */
	const int64_t *index;           /* (n) image number of each row, or NULL: 0 .. n-1 */
	const uint64_t *seed;           /* (n) seeds for draws of the policy, or NULL: the mixture's */
	const int32_t *label;           /* (n) class labels, -1: null; or NULL: all null */
	const int32_t *chosen;          /* (n) expert of each row, for the weights of an oracle; NULL: none */
	const struct texts *texts;      /* for experts that read text */
	const int32_t *text, *negative; /* (n) rows of `texts`; negative may be NULL without guidance */
	const int32_t *first;           /* (n) rows of texts->first; NULL without first frames */
};

/* Whether rows at the times t and u can be in one call: the same entry of the policy holds at both, the same experts own them, and both are guided or
 * neither. */
int mixer_alike(const struct mixer *x, double t, double u);

/* Compute v (n, out or d), on the device. stats may be NULL. */
int mixer_velocity(struct mixer *x, float *v, const struct mixture_call *c, struct mixture_stats *stats, struct err *e);

/* On another rank than the first: carry out an ORDER_EVALUATE, with the texts kept, and append the predictions to *answer. */
int mixer_answer(struct mixer *x, const struct texts *texts, const struct str *order, struct str *answer, struct err *e);

/* Tell the step that followed the last call of mixer_velocity: from its x to a x + b v + s z, with ratio = b / s and z (n, d) on the device. For
 * weights by density; does nothing where the policy has none from that call's time on. A step without noise needs no call if it is the last. */
int mixer_stepped(struct mixer *x, double ratio, const float *z, int64_t n, struct err *e);

/* Tell how the flow got to the state of the next call of mixer_velocity, for weights by density (solver_beside): the log-densities are those kept
 * last plus h SUM f[j] times their rates at stage j. keep: the state is the end of a step, and they are kept. */
void mixer_moved(struct mixer *x, double h, const double *f, int stages, int64_t n, int keep);

/* The device of the mixer: the mixture's, or a CPU device of its own. Borrowed. */
struct device *mixer_device(const struct mixer *x);

/* Results of the last call: weights (n, k), and the heaviest expert of each row (n). Borrowed until the next call. */
const double *mixer_weights(const struct mixer *x);
const int32_t *mixer_heaviest(const struct mixer *x);

/* GFLOP of a row with one expert, the most expensive, at each of so many evaluations, and the weights of the policy: the least that a budget must
 * hold. */
double mixture_least_gflop(const struct mixture *m, int64_t evaluations);
/* GFLOP of all network calls counted in *s. */
double mixture_gflop(const struct mixture *m, const struct mixture_stats *s);

#endif
