/* The end of a training step on the device: sum of the losses, norm of the gradient, clipping, the optimizer and the average (EMA). The host
 * submits it, as a graph if the device supports graphs, and reads the status later. Private to lib/train. */
#ifndef DDM_TRAIN_UPDATE_H
#define DDM_TRAIN_UPDATE_H

#include "kernels/optimizer.h"
#include "train/muonupdate.h"
#include "train/rankupdate.h"
#include "train/state.h"
#include "train/stepdetail.h"

enum { UPDATE_AHEAD = DETAIL_STEPS /* most steps submitted whose status has not been read */ };

/* Buffers on the device for the moments of one range, and events: copied in, used, copied back. */
struct update_lane {
	float *m, *v;
	void *come, *done, *gone;
	int used;
};

enum { UPDATE_LANES = 2 };

/* A submission that repeats at every step, kept as a graph. */
struct update_graph {
	void *graph;      /* NULL before the second submission, or if the capture failed */
	int ran, refused; /* ran: was submitted; refused: the capture failed */
};

struct update {
	struct device *device;
	const struct train_state *state;
	const float *each;      /* (samples), on the device: losses of a part */
	int64_t samples, parts; /* parts: of this rank */
	struct rank_update ranks;
	double *vectors; /* on the device: the next five */
	double *plan, *status, *coef, *sumsq, *loss;
	float *grads, *mask; /* [trainable] (of several ranks memory for [total]), [params_decay_runs], on the device */
	float *tree[32];     /* [k]: the sum of the gradients of 2^k parts, as long as a later part needs it */
	void *scratch;
	int64_t n;              /* trainable */
	struct share_range all; /* what is updated by one rank alone */
	int64_t range;          /* elements whose moments are on the device at a time; 0: all */
	struct update_lane lane[UPDATE_LANES];
	struct block_norms blocks;
	int64_t number;   /* of the step, if its norms by block are wanted; -1: they are not */
	struct muon muon; /* no parameters, unless the optimizer is Muon */
	double *seen;     /* (UPDATE_AHEAD, STATUS_COUNT), host copies of the status */
	void *event[UPDATE_AHEAD];
	struct update_graph whole, part[32]; /* graphs of update_apply, and of update_part: [0] for part 0, else [1 +
	                                               * the number of tree levels that the part completes] */
	int64_t first, count;                /* submitted steps whose status is not read yet; that of `first` is in slot first % UPDATE_AHEAD */
};

/* For gradients of `parts` equal parts of a batch on each rank of comm (NULL: one rank). Before each call of update_part, `each` (samples, on the
 * device) holds the losses of the part. The device, s, `each` and comm are borrowed. With a comm, s has shares. Release with update_release. */
int update_init(struct update *u, const struct train_state *s, int64_t parts, const float *each, int64_t samples, struct comm *comm, struct err *e);
void update_release(struct update *u);
uint64_t update_mask_bytes(const struct params *p);
uint64_t update_lane_bytes(const struct params *p, int64_t range); /* device buffers for offloaded moments */
/* Gradients: the step's, and partial sums of the tree; and what the sums over several ranks need. */
uint64_t update_bytes(const struct params *p, int64_t parts, int ranks);

/* Take over the step counts of s after it was loaded. */
void update_begin(struct update *u, const struct train_state *s);

/* Of several ranks: order the sums of the gradient as the backward pass of t completes it. t is laid out, with the table of the state. */
void update_order(struct update *u, const struct tape *t);

/* Run the backward pass of the last part, nodes [from, to) of t, on n samples. Of several ranks the sums over them begin meanwhile. */
void update_backward(struct update *u, struct tape *t, int64_t n, int from, int to);

/* After part i, unless it is the last: add its losses to the step's, and add its gradient, in u->grads, to the tree. */
void update_part(struct update *u, int64_t i);

/* After the last part (of several ranks: by update_backward): the same, then the sum over the ranks and the optimizer by `plan` (PLAN_COUNT); and,
 * unless `number` is -1, the norms of the gradient by block, as those of the step of this number. Waits only for other ranks, and if the status of
 * UPDATE_AHEAD steps has not been read. ERR_UNAVAILABLE if a rank is lost. */
int update_apply(struct update *u, const double *plan, int64_t number, struct err *e);

/* Status (STATUS_COUNT, borrowed until the next call) of the oldest submitted step not yet read; STATUS_LOSS is the sum over the batch. NULL if
 * there is none, or, without `wait`, if that step has not finished. */
const double *update_finished(struct update *u, int wait);

#endif
