/* The end of a step on the device: norm of the gradient, clipping, AdamW with the average. The host submits it and learns later how
 * it went. Inside lib/train. */
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

struct update {
	struct device *device;
	double *vectors;                              /* on the device: the next five */
	double *plan, *status, *coef, *sumsq, *loss;
	float *grads, *mask;                          /* [trainable], on the device */
	float *tree[32];                              /* [k]: the gradients of 2^k parts, added */
	void *scratch;
	int64_t n;                                    /* trainable */
	int64_t range;                                /* of the moments that are on the device at a time; 0: all are there */
	struct update_lane lane[UPDATE_LANES];
	double *seen;                                 /* (UPDATE_AHEAD, STATUS_COUNT) of the host, as fetched */
	void *event[UPDATE_AHEAD];
	int64_t first, count;                         /* steps not yet heard of: the first one's place is first % UPDATE_AHEAD */
};

/* For gradients of `parts` equal parts of a batch. decay_mask as params_decay_mask. The device and s are borrowed. Release with
 * update_release. */
int update_init(struct update *u, const struct train_state *s, int64_t parts, struct err *e);
void update_release(struct update *u);
uint64_t update_lane_bytes(const struct params *p, int64_t range); /* of the moments on their way */
uint64_t update_bytes(const struct params *p, int64_t parts); /* of gradients: one for the step, and those of the tree */

/* The counts of s, after it was loaded. */
void update_begin(struct update *u, const struct train_state *s);

/* Add the losses (n, on the device) of a part to the step's; i counts the parts. Then keep its gradient, which lies in u->grads. */
void update_part(struct update *u, int64_t i, int64_t parts, const float *loss, int64_t n);

/* After the last part: AdamW by `plan` (PLAN_COUNT). Waits only when UPDATE_AHEAD steps have not been heard of. */
void update_apply(struct update *u, const struct train_state *s, int64_t parts, const double *plan);

/* Status (STATUS_COUNT, borrowed until the next call) of the oldest step not heard of; STATUS_LOSS is the sum over the batch. NULL
 * when there is none, or, without `wait`, when it is not done. */
const double *update_heard(struct update *u, int wait);

#endif
