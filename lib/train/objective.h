/* What a network is trained on: noised samples and their targets, every draw keyed by (seed, step, position in the batch). */
#ifndef DDM_TRAIN_OBJECTIVE_H
#define DDM_TRAIN_OBJECTIVE_H

#include <stdint.h>

#include "diffusion/path.h"
#include "net/net.h"

enum condition_kind { CONDITION_NONE, CONDITION_CLASS, CONDITION_CLUSTER };

struct objective {
	enum net_kind kind;
	const struct path *path;
	enum prediction prediction; /* DiT */
	struct time_law time;
	enum condition_kind condition; /* where the DiT's labels come from */
	int64_t classes;
	double class_dropout;
	int64_t d; /* elements of a sample */
};

/* The part of the tape around the network: noise, x_t and target from clean samples, the network, loss (B) per sample, and the
 * gradient. */
struct loss_tape {
	struct tape *tape;
	struct tensor *x0, *alpha, *sigma, *t, *label, *weight; /* inputs; label, weight NULL where there are none */
	struct tensor *from_x0, *from_eps;                      /* inputs: target = from_x0 x0 + from_eps eps; NULL for a router */
	struct tensor *x, *out, *loss, *dloss;                  /* x, out and loss are kept */
	int network, forward_end, end;                          /* marks: x is there; loss is there; the gradient is there */
};

/* Record noise, network, loss and, when `backward`, the gradient. Lays p out. Free the tape with tape_free. */
void loss_record(struct loss_tape *l, const struct net_config *c, struct params *p, enum dtype real, int64_t capacity,
                 int backward, int recompute);

/* A batch: what the host decides about each sample, and the inputs of a loss tape on the device. */
struct noised {
	struct device *device;
	int64_t rows, d;
	float *t, *weight, *alpha, *sigma, *from_x0, *from_eps; /* (rows), host */
	int32_t *label;                                         /* (rows), host: a DiT's condition, or a router's cluster */
	float *inputs;                                          /* on the device: the vectors above in this order, then x0 (rows, d) */
	/* On a device of several streams a batch arrives beside the work on the one before it, in one of two places by turns. */
	float *arriving[2];
	void *arrived[2], *taken[2]; /* events */
	int64_t batches;
};

/* For up to n samples of d elements. The device is borrowed. */
int noised_init(struct noised *z, struct device *device, int64_t n, int64_t d, struct err *e);
void noised_release(struct noised *z);
uint64_t noised_bytes(int64_t n, int64_t d, int streams);
float *noised_x0(const struct noised *z); /* (rows, d), on the device */
void loss_bind(struct loss_tape *l, const struct noised *z);

/* Rows 0 .. n-1 from clean samples x0 (n, d) and their labels, all of the host; the keys' index of row i is first + i. A missing
 * class (-1) is the null label. Sets the keys of the tape. */
void objective_noise(const struct objective *o, struct noised *z, struct loss_tape *l, int64_t n, const float *x0,
                     const int32_t *label, const int32_t *cluster, uint64_t seed, uint64_t step, uint64_t first);

/* The same with the fixed draws of validation: no label dropout, times (first + i + 1/2) / total, noise independent of the seed.
 */
void objective_validate(const struct objective *o, struct noised *z, struct loss_tape *l, int64_t n, const float *x0,
                        const int32_t *label, const int32_t *cluster, int64_t first, int64_t total);

/* Put t and label of rows 0 .. n-1 as they stand: for runs of the tape from `network` on, whose x the caller puts. */
void noised_put(struct noised *z);

#endif
