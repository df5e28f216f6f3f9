/* Convolutional networks of others, forward only. Weights lie once on the device under the names of the file; a tape is recorded for a
 * size of picture, and kept until another is asked for.
 *
 *     convnet_init(&n, record, config, 8, COMPACT_NONE, device);
 *     convnet_load(&n, 3, 64, 64, fill, &weights, &e);        (3, 64, 64): any size that the network takes
 *     convnet_run(&n, count, pictures, 3, h, w, outputs, &e); any count, any size */
#ifndef DDM_NET_CONVNET_H
#define DDM_NET_CONVNET_H

#include "file/safetensors.h"
#include "net/weightstore.h"
#include "tape/ops.h"

enum { CONVNET_OUT = 8 };

/* ---- recording: pictures are (B, H, W, C); PREFIX names the parameters PREFIX.weight and PREFIX.bias ---- */

struct layers {
	struct tape *t;
	struct params *p;
};

struct conv {
	int64_t out, kh, kw, stride; /* kw 0: as kh; stride 0: 1 */
	struct padding pad;
	int no_bias;
	int act;            /* enum unary + 1, or 0 */
	int many;           /* as op_conv_many */
	struct tensor *add; /* to the sum before act; or NULL */
};

struct tensor *layer_conv(const struct layers *l, struct tensor *x, const char *prefix, const struct conv *c);
/* 3 x 3, the size kept; and 1 x 1. */
struct tensor *layer_conv3(const struct layers *l, struct tensor *x, const char *prefix, int64_t out, int act, struct tensor *add);
struct tensor *layer_conv1(const struct layers *l, struct tensor *x, const char *prefix, int64_t out, int act);
struct tensor *layer_groupnorm(const struct layers *l, struct tensor *x, const char *prefix, int64_t groups, double eps, int act);
struct tensor *layer_linear(const struct layers *l, struct tensor *x, const char *prefix, int64_t out, int no_bias); /* last dimension */
struct tensor *layer_param(const struct layers *l, const char *prefix, const char *suffix, int rank, const int64_t *shape);
struct tensor *channels_last(struct tape *t, struct tensor *x);  /* of (B, C, H, W) */
struct tensor *channels_first(struct tape *t, struct tensor *x); /* of (B, H, W, C), contiguous */

/* ---- weights ---- */

/* A file whose tensors are taken one after the other, so that what is left over can be told. */
struct weights {
	const struct safetensors *s; /* borrowed */
	const char *where;           /* its name, for errors; borrowed */
	char *taken;                 /* [tensors] */
};

void weights_init(struct weights *w, const struct safetensors *s, const char *where);
void weights_release(struct weights *w);
int weights_has(const struct weights *w, const char *name);
/* A tensor's values for a parameter: of its shape, [O, C, kh, kw] for one of [O, kh, kw, C], or that with sizes of 1 at the end.
 * Another shape, or none of this name: ERR_DATA. */
int weights_take(struct weights *w, const char *name, const struct param *p, float *out, struct err *e);
/* A tensor that was not taken and whose name begins with `prefix`: ERR_DATA naming it. Single numbers, the counters of batch norms, do
 * not matter. */
int weights_end(const struct weights *w, const char *prefix, struct err *e);

/* ---- running ---- */

struct convnet {
	struct device *device; /* borrowed */
	/* Records the network on x (B, C, H, W) and stores what is wanted in out[CONVNET_OUT]; returns how many. */
	int (*record)(const void *config, const struct layers *l, struct tensor *x, struct tensor **out);
	const void *config; /* borrowed */
	struct params params;
	enum compact_type bulk; /* as asked for */
	struct weightstore store;
	float *values;
	int64_t capacity, channels, height, width; /* of the tape */
	struct tape *tape;
	struct tensor *in, *out[CONVNET_OUT];
	int nout;
	float *place; /* of the input, on the device */
};

/* Batches of up to `capacity`. bulk: on a GPU as model_open takes it; on the CPU convolutions are in float, whatever it says. */
void convnet_init(struct convnet *n, int (*record)(const void *config, const struct layers *l, struct tensor *x, struct tensor **out),
                  const void *config, int64_t capacity, enum compact_type bulk, struct device *d);
/* Find the parameters by recording for pictures of this shape, and give each its values by `fill`; nothing is allocated before the
 * first. fill: 0, or -1 and e. ERR_USAGE where the device does not hold weights as asked for. */
int convnet_load(struct convnet *n, int64_t channels, int64_t h, int64_t w,
                 int (*fill)(const void *config, struct weights *file, const struct param *p, float *out, struct err *e),
                 struct weights *file, struct err *e);
/* out[i] (count, elements of output i), NULL: not wanted, of x (count, channels, h, w), of the host. A picture's bits do not depend on
 * its neighbours. Fails where there is no memory for the plan; errors of the device stick to it. */
int convnet_run(struct convnet *n, int64_t count, const float *x, int64_t channels, int64_t h, int64_t w, float *const *out,
                struct err *e);
/* Plan for this shape without running: then shapes and FLOPs are known. */
int convnet_plan(struct convnet *n, int64_t channels, int64_t h, int64_t w, struct err *e);
int64_t convnet_elements(const struct convnet *n, int output); /* of one picture, of the plan */
double convnet_flops(const struct convnet *n);                 /* of one picture, of the plan */
void convnet_release(struct convnet *n);                       /* a zeroed one is allowed */

#endif
