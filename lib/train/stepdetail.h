/* What the log says of training steps beside their mean loss: the loss by time, the norm of each block's gradient, and the samples of a step that
 * stands out. Private to lib/train. */
#ifndef DDM_TRAIN_STEPDETAIL_H
#define DDM_TRAIN_STEPDETAIL_H

#include <jansson.h>

#include "kernels/device.h"
#include "tape/params.h"
#include "train/tally.h"

enum {
	DETAIL_STEPS = 4,  /* most steps whose numbers are not read yet */
	SPIKE_WINDOW = 64, /* a gradient's norm is compared with the median of so many before it */
	SPIKE_FACTOR = 5,  /* and stands out from so many times that median on */
	SPIKE_SAMPLES = 4, /* samples named, those with the largest losses */
};

/* The trainable parameters of a block that lie side by side. */
struct block_range {
	int64_t from, to; /* in the flat arena */
	int block;
};

struct block_norms {
	struct block_range *range;
	int ranges, blocks;
	char (*name)[96];         /* (blocks) */
	double *sums;             /* (ranges), on the device: sums of squares */
	double *seen;             /* (DETAIL_STEPS, ranges), on the host */
	int64_t of[DETAIL_STEPS]; /* the step's number plus 1; 0: none yet */
};

/* Blocks by their names: a parameter "blocks.3.attn.qkv.weight" is of block "blocks.3", and "final_layer.mlp.1.weight" of "final_layer". The device is borrowed by all three. */
int block_norms_init(struct block_norms *b, struct device *d, const struct params *p, struct err *e);
void block_norms_release(struct block_norms *b, struct device *d);
/* Submit the sums for `grads` (trainable, on the device) as those of step `number`; scratch is that of OP_SUMSQ over all of them. */
void block_norms_submit(struct block_norms *b, struct device *d, float *grads, void *scratch, int64_t number);
/* An object of the norms by block, of a submitted step that the device has finished; NULL if it was not submitted. Caller frees with json_decref. */
json_t *block_norms_json(const struct block_norms *b, int64_t number);

/* The losses of the samples of the last steps. */
struct step_detail {
	int64_t n;      /* samples of a step on this rank */
	float *loss;    /* (DETAIL_STEPS, n), host memory that the device writes */
	float *t;       /* (DETAIL_STEPS, n) */
	int64_t *index; /* (DETAIL_STEPS, n), in the dataset */
	struct time_losses by;
	double norm[SPIKE_WINDOW]; /* of the last steps with a finite loss; `norms` counts them all */
	int64_t norms;
	int told; /* a spike since the last line of the log */
};

int step_detail_init(struct step_detail *s, struct device *d, int64_t n, struct err *e);
void step_detail_release(struct step_detail *s, struct device *d);
/* Samples [at, at + n) of step `number`: their times and indexes, and `each` (n), the losses on the device, which are fetched. */
void step_detail_put(struct step_detail *s, struct device *d, int64_t number, int64_t at, int64_t n, const float *t, const int64_t *index,
                     const float *each);
/* The device has finished step `number`, with this mean loss and norm of the gradient; finite: the step changed the weights. Returns the facts of a
 * step that stands out, without its samples, at most once between two lines of the log; else NULL. Caller frees with json_decref. */
json_t *step_detail_take(struct step_detail *s, int64_t number, int finite, double loss, double norm);
/* Which samples of step `number` have the largest losses, those that are not finite before all: positions in the batch, SPIKE_SAMPLES at most. Returns
 * how many. */
int step_detail_worst(const struct step_detail *s, int64_t number, int64_t *at);
/* The loss by time since the last call, as time_losses_json; NULL if there was no finite step. Caller frees with json_decref. */
json_t *step_detail_by_time(struct step_detail *s);

#endif
