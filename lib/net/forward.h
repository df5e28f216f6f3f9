/* A pretrained network that is run and not trained: its tape, weights, inputs and outputs.
 *
 *     forward_begin(&f, 32, COMPACT_NONE, device);
 *     x = forward_input(&f, DT_F32, 3, (int64_t[]){3, 224, 224}, 1);    (32, 3, 224, 224)
 *     forward_output(&f, network(f.tape, &f.params, x));
 *     forward_load(&f, weights, names, 1, path, &e);
 *     forward_run(&f, n, &pixels, &features);                          for any n */
#ifndef DDM_NET_FORWARD_H
#define DDM_NET_FORWARD_H

#include "net/rename.h"
#include "net/weightstore.h"

enum { FORWARD_IN = 4, FORWARD_OUT = 2 };

struct forward {
	struct device *device; /* borrowed */
	struct tape *tape;
	struct params params;
	int64_t capacity;
	int nin, nout;
	struct tensor *in[FORWARD_IN], *out[FORWARD_OUT];
	enum compact_type bulk;     /* as asked for */
	struct weightstore store;
	struct compact *matrices;   /* by part; NULL: none */
	float *values;              /* the other weights, on the device, as */
	void *place[FORWARD_IN];    /* the inputs are */
};

/* bulk: of the matrices, as model_open takes it, but no COMPACT_VIEW. */
void forward_begin(struct forward *f, int64_t capacity, enum compact_type bulk, struct device *d);
/* An input of this shape, per sample where `batched`. */
struct tensor *forward_input(struct forward *f, enum dtype dtype, int rank, const int64_t *shape, int batched);
void forward_output(struct forward *f, struct tensor *x);

/* Lay out, allocate, and read the weights of a file that is in one of n families of names, or in ours. ERR_DATA where it is not this
 * network's, ERR_USAGE where the device does not hold matrices so. */
int forward_load(struct forward *f, const struct safetensors *s, const struct renames *const *names, int n, const char *where,
                 struct err *e);

/* Input i where it is not batched: the same for all samples. */
void forward_set(struct forward *f, int i, const void *data);
/* in[i] (n, ..) for the batched inputs, NULL for the others; out[i] (n, ..), NULL: not wanted. All of the host. A sample's bits do not
 * depend on its neighbours. Errors stick to the device. */
void forward_run(struct forward *f, int64_t n, const void *const *in, float *const *out);

int64_t forward_elements(const struct forward *f, int output); /* of one sample */
int64_t forward_bytes(const struct forward *f);                /* that the weights take */
void forward_release(struct forward *f);                       /* a zeroed one is allowed */

/* Layers under their usual names. PREFIX.weight [out, in] and, if `bias`, PREFIX.bias [out]; act < 0: none. */
struct tensor *forward_linear(struct forward *f, struct tensor *x, const char *prefix, int64_t out, int bias, int act);
struct tensor *forward_norm(struct forward *f, struct tensor *x, const char *prefix, double eps); /* LayerNorm with .weight, .bias */
/* PREFIX.weight [hidden, C, patch, patch] on (B, C, S, S): (B, T, hidden). */
struct tensor *forward_patches(struct forward *f, struct tensor *x, const char *prefix, int64_t hidden, int64_t patch, int bias);
/* Multi-head attention within (B, T, H) by the packed WEIGHT [3 H, H] and BIAS [3 H] (whole names) and the output layer PREFIX: (B, queries,
 * H), of the first tokens; fewer than T only without `causal`. */
struct tensor *forward_attention(struct forward *f, struct tensor *x, const char *weight, const char *bias, const char *prefix,
                                 int64_t heads, int64_t queries, int causal);
/* A parameter of a format: name with a block number. */
const char *forward_name(char *buf, size_t size, const char *format, int64_t block);

#endif
