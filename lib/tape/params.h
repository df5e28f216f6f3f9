/* The parameter table of a network: one list of names, shapes, initial values and flags drives the layout in flat arenas,
 * initialisation, weight decay and the names in files. It is filled by recording the network (tape_param), so there is no
 * second list to keep in step. */
#ifndef DDM_TAPE_PARAMS_H
#define DDM_TAPE_PARAMS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/device.h"

enum {
	PARAM_DECAY = 1,  /* weight decay applies */
	PARAM_FROZEN = 2, /* stored, not trained: no gradient (position tables) */
	PARAM_BULK = 4,   /* a large matrix that only op_linear reads: may be stored as bf16 or int8 (kernels/compact.h) */
	PARAM_THIRDS = 8, /* op_linear reads it as three matrices, of a third of its rows each, never as one */
	PARAM_QKV = 32,   /* [3 H, H], packed queries, keys and values: three matrices to an optimizer */
	PARAM_CONV = 16,  /* [O, kh, kw, C], read only by op_conv; files hold it as [O, C, kh, kw] */
	PARAM_CONV3D = 64 /* [kt, O, kh, kw, C], read only by op_conv, as kt weights; files hold it as [O, C, kt, kh, kw]; not trained */
};

enum init_kind {
	INIT_ZERO,
	INIT_ONE,
	INIT_NORMAL, /* std a */
	INIT_XAVIER, /* uniform in +-sqrt(6 / (fan_in + fan_out)), fans a and b */
	INIT_FILL    /* fill(), given a, computes the values */
};

struct init {
	enum init_kind kind;
	double a, b;
	void (*fill)(float *out, const int64_t *shape, double a);
};

struct param {
	char name[96];
	int rank, flags;
	int64_t shape[ARRAY_RANK];
	struct init init;
	int parts, part; /* parts: matrices stacked in it that are read separately; part: index of the first among the parts of all parameters */
	int64_t count;   /* elements */
	int64_t offset;  /* in the flat arena, a multiple of DECAY_RUN elements (kernels/optimizer.h); set by params_layout */
};

/* Trainable parameters come first: gradients, moments and updates cover [0, trainable). Alignment gaps hold zeros. A zeroed struct is an
 * empty table. */
struct params {
	struct param *v;
	int n, cap, parts;
	const char *trained;      /* parameters whose names do not begin with this are added frozen; NULL: none are. Borrowed until then */
	int64_t trainable, total; /* elements, gaps included; set by params_layout */
};

void params_release(struct params *p);

/* Whether `trained` freezes a parameter of this name. */
int params_freezes(const struct params *p, const char *name);

/* Index of a name, or -1. */
int params_find(const struct params *p, const char *name);

/* Add a parameter, or find one of the same name, which must have the same shape (a bug otherwise). Returns its index. */
int params_add(struct params *p, const char *name, int rank, const int64_t *shape, int flags, struct init init);

/* Assign offsets, in order of declaration. Call after recording and before any values exist. params_layout_but: parameters with any
 * of `flags` get offset -1, no memory. */
void params_layout(struct params *p);
void params_layout_but(struct params *p, int flags);
/* For inference: parameters with any of `flags` come last. Returns the offset of the first of them. */
int64_t params_layout_apart(struct params *p, int flags);

/* Number of scalars: trainable ones, or all. */
int64_t params_count(const struct params *p, int trainable_only);

/* Fill values[total] with initial values; a parameter's values depend only on the seed and its name. */
void params_init(const struct params *p, uint64_t seed, float *values);

/* The initial values of one parameter: out[q->count]. */
void param_init(const struct param *q, uint64_t seed, float *out);

/* decay[params_decay_runs] for runs of DECAY_RUN elements (kernels/optimizer.h): 1 where weight decay applies, 0 elsewhere. */
void params_decay_mask(const struct params *p, float *decay);
int64_t params_decay_runs(const struct params *p);

#endif
