/* The batches that a network is trained on: noised samples and their targets, every draw keyed by (seed, step, position in the batch). */
#ifndef DDM_TRAIN_NOISED_H
#define DDM_TRAIN_NOISED_H

#include <stdint.h>

#include "diffusion/objective.h"
#include "net/net.h"

enum condition_kind { CONDITION_NONE, CONDITION_CLASS, CONDITION_CLUSTER };

struct objective {
	struct objective_def def;
	const struct path *path;       /* of `def`; borrowed */
	enum condition_kind condition; /* where an expert's labels come from */
	int64_t classes;
	double class_dropout, frame_dropout; /* frame_dropout 1: first frames are always withheld, in validation too */
	double smoothing; /* LOSS_SOFT: targets in training are 1 - smoothing of the cluster and `smoothing` of all clusters equally */
	int64_t d;        /* elements of a sample */
};

/* The part of the tape around the network: noise, x_t and target from clean samples, the network, loss (B) per sample, and the
 * gradient. */
struct loss_tape {
	struct tape *tape;
	struct tensor *x0, *alpha, *sigma, *t, *label, *weight; /* inputs; label and weight may be NULL */
	struct tensor *text, *mask, *micro, *pooled, *first;    /* inputs (net/net.h: struct net_input), or NULL */
	struct tensor *target;                 /* input of a router, in place of label: (B, clusters), of LOSS_MIXTURE (B, clusters, clusters), of
	                                    * LOSS_ANCHORED (B, clusters + 1, clusters); or NULL */
	struct tensor *from_x0, *from_eps;     /* inputs: an expert's target = from_x0 x0 + from_eps eps; NULL for a router without experts */
	struct tensor *velocity;               /* of a loss from the errors of experts: that target of theirs, kept; else NULL */
	struct tensor *x, *out, *loss, *dloss; /* x, out and loss are kept */
	int network, forward_end, end;         /* tape positions: after x_t; after the loss; after the gradient */
};

/* Record noise, network with its dropout, loss and, with `backward`, the gradient. LOSS_SQUARED is for experts, the other kinds for routers. Lays out
 * p. Caller frees the tape with tape_free. */
void loss_record(struct loss_tape *l, const struct net_config *c, enum loss_kind kind, struct params *p, enum dtype real, int64_t capacity,
                 int backward, enum recompute recompute);

/* Clean samples in host memory. */
struct clean {
	const float *x0;                /* (n, d) */
	const int32_t *label, *cluster; /* (n) */
	const float *text;              /* (n, text_tokens, text_width), or NULL if the network reads no text */
	const int32_t *rows;            /* (n): tokens of each text; the rest of its row is padding */
	const float *pooled;            /* (n, pooled_width), or NULL if the network reads none */
};

/* The parts of a batch on the device. */
enum noised_part { NOISED_VECTORS, NOISED_X0, NOISED_TEXT, NOISED_MASK, NOISED_MICRO, NOISED_POOLED, NOISED_TARGET, NOISED_FIRST, NOISED_PARTS };

/* A batch: what the host decides about each sample, and the inputs of a loss tape on the device. */
struct noised {
	struct device *device;
	int64_t rows, d, text_tokens;
	size_t row_bytes[NOISED_PARTS];                         /* bytes of one sample; 0: the network does not read this part */
	float *t, *weight, *alpha, *sigma, *from_x0, *from_eps; /* (rows), host */
	int32_t *label;                                         /* (rows), host: an expert's condition, or a router's cluster */
	float *mask;                                            /* (rows, text_tokens), host, or NULL */
	float *target;                                          /* (rows, numbers of the loss tape's `target`), host, or NULL */
	float *first;                                           /* rows of net_put_first, host, or NULL */
	struct net_config net;
	enum loss_kind kind;
	float *inputs; /* on the device: the parts; the vectors in the order above */
	/* On a device with several streams, a batch is copied into one of two buffers in turn while the device works on the batch before it. */
	float *arriving[2];
	void *arrived[2], *taken[2]; /* events */
	int64_t batches;
};

/* For up to n samples. The device is borrowed. */
int noised_init(struct noised *z, struct device *device, int64_t n, const struct net_config *c, enum loss_kind kind, struct err *e);
void noised_release(struct noised *z);
uint64_t noised_bytes(int64_t n, const struct net_config *c, enum loss_kind kind, int streams);
void *noised_part(const struct noised *z, enum noised_part part); /* (rows, ..), on the device */
void loss_bind(struct loss_tape *l, const struct noised *z);

/* Fill rows 0 .. n-1 from clean samples, of which first frames are taken where the network reads them; row i draws its random numbers with index
 * first + i. A missing class (-1) becomes the null label. Sets the random keys of the tape. */
void objective_noise(const struct objective *o, struct noised *z, struct loss_tape *l, int64_t n, const struct clean *clean, uint64_t seed,
                     uint64_t step, uint64_t first);

/* The same with the fixed draws of validation: no dropout of labels, of first frames or in the network, no smoothing, times (first + i + 1/2) /
 * total of the range, noise independent of the seed. */
void objective_validate(const struct objective *o, struct noised *z, struct loss_tape *l, int64_t n, const struct clean *clean, int64_t first,
                        int64_t total);

/* Copy the targets of rows 0 .. n-1 to the device. For losses from the errors of experts, whose targets follow from x_t. */
void noised_put_target(struct noised *z, int64_t n);
/* Copy t and label of rows 0 .. n-1 to the device unchanged, for runs of the tape from `network` on; the caller writes x. */
void noised_put(struct noised *z);
/* Copy the first frames of n clean samples x0 to the device. */
void noised_put_first(struct noised *z, int64_t n, const float *x0);
/* Copy n texts, and what else is known of them, to the device. */
void noised_put_text(struct noised *z, int64_t n, const struct clean *clean);

#endif
