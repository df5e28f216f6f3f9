/* The end of a step on the device: the losses' sum, norm of the gradient, clipping, AdamW with the average. The host submits it, as a graph
 * where the device keeps some, and learns later how it went. Inside lib/train. */
#ifndef DDM_TRAIN_UPDATE_H
#define DDM_TRAIN_UPDATE_H

#include "kernels/optimizer.h"
#include "train/state.h"

enum { UPDATE_AHEAD = 4 /* steps submitted and not yet heard of, at most */ };

/* Room on the device for the moments of one range; events: they have come, were used, have gone back. */
struct update_lane {
	float *m, *v;
	void *come, *done, *gone;
	int used;
};

enum { UPDATE_LANES = 2 };

/* What is submitted again and again, kept as a graph. */
struct update_graph {
	void *graph;      /* NULL: it was submitted once at most, or could not be captured */
	int ran, refused; /* it was submitted; the capture failed */
};

struct update {
	struct device *device;
	const struct train_state *state;
	const float *each;                            /* (samples), on the device: losses of a part */
	int64_t samples, parts;
	double *vectors;                              /* on the device: the next five */
	double *plan, *status, *coef, *sumsq, *loss;
	float *grads, *mask;                          /* [trainable], [params_decay_runs], on the device */
	float *tree[32];                              /* [k]: the gradients of 2^k parts, added */
	void *scratch;
	int64_t n;                                    /* trainable */
	int64_t range;                                /* of the moments that are on the device at a time; 0: all are there */
	struct update_lane lane[UPDATE_LANES];
	double *seen;                                 /* (UPDATE_AHEAD, STATUS_COUNT) of the host, as fetched */
	void *event[UPDATE_AHEAD];
	struct update_graph whole, part[32];          /* what update_apply submits, and update_part by what part i does: 0 of part 0, else 1 +
	                                               * the levels of the tree that it closes */
	int64_t first, count;                         /* steps not yet heard of: the first one's place is first % UPDATE_AHEAD */
};

/* For gradients of `parts` equal parts of a batch; the losses of each are found in `each` (samples, on the device). The device, s and `each`
 * are borrowed. Release with update_release. */
int update_init(struct update *u, const struct train_state *s, int64_t parts, const float *each, int64_t samples, struct err *e);
void update_release(struct update *u);
uint64_t update_mask_bytes(const struct params *p);
uint64_t update_lane_bytes(const struct params *p, int64_t range); /* of the moments on their way */
uint64_t update_bytes(const struct params *p, int64_t parts); /* of gradients: one for the step, and those of the tree */

/* The counts of s, after it was loaded. */
void update_begin(struct update *u, const struct train_state *s);

/* After part i, if it is not the last: add its losses to the step's, and keep its gradient, which lies in u->grads. */
void update_part(struct update *u, int64_t i);

/* After the last part: the same, then AdamW by `plan` (PLAN_COUNT). Waits only when UPDATE_AHEAD steps have not been heard of. */
void update_apply(struct update *u, const double *plan);

/* Status (STATUS_COUNT, borrowed until the next call) of the oldest step not heard of; STATUS_LOSS is the sum over the batch. NULL
 * when there is none, or, without `wait`, when it is not done. */
const double *update_heard(struct update *u, int wait);

#endif
