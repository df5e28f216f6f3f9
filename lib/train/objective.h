/* What a network is trained on: noised samples and their targets, every draw keyed by (seed, step, position in the batch). */
#ifndef DDM_TRAIN_OBJECTIVE_H
#define DDM_TRAIN_OBJECTIVE_H

#include <stdint.h>

#include "core/pool.h"
#include "diffusion/path.h"
#include "net/net.h"

enum condition { CONDITION_NONE, CONDITION_CLASS, CONDITION_CLUSTER };

struct objective {
	enum net_kind kind;
	const struct path *path;
	enum prediction prediction; /* DiT */
	struct time_law time;
	enum condition condition; /* where the DiT's labels come from */
	int64_t classes;
	double class_dropout;
	int64_t d; /* elements of a sample */
};

/* Inputs of the network's tape for up to n samples, row by row. */
struct noised {
	float *x, *target; /* (n, d); target of a DiT */
	float *t, *weight; /* (n); weight of a DiT's squared error */
	int32_t *label;    /* (n): a DiT's condition, or a router's cluster */
};

int noised_init(struct noised *z, int64_t n, int64_t d, struct err *e);
void noised_release(struct noised *z);

/* Rows 0 .. n-1 from clean samples x0 (n, d) and their labels; the keys' index of row i is first + i. A missing class (-1) is the
 * null label. */
void objective_noise(const struct objective *o, struct noised *z, int64_t n, const float *x0, const int32_t *label,
                     const int32_t *cluster, uint64_t seed, uint64_t step, uint64_t first, struct pool *pool);

/* The same with the fixed draws of validation: no label dropout, times (first + i + 1/2) / total, noise independent of the seed.
 */
void objective_validate(const struct objective *o, struct noised *z, int64_t n, const float *x0, const int32_t *label,
                        const int32_t *cluster, int64_t first, int64_t total, struct pool *pool);

/* The part of the tape after the network: loss (B) per sample, from its inputs. */
struct loss_tape {
	struct tape *tape;
	struct tensor *x, *t, *label, *target, *weight; /* inputs; label, target, weight NULL where there are none */
	struct tensor *out, *loss, *dloss;
	int forward_end, end; /* marks */
};

/* Record network, loss and, when `backward`, the gradient. Lays p out. Free the tape with tape_free. */
void loss_record(struct loss_tape *l, const struct net_config *c, struct params *p, enum dtype real, int64_t capacity,
                 int backward, int recompute);
void loss_bind(struct loss_tape *l, const struct noised *z, int64_t row, const struct objective *o);

#endif
