/* Layers from which networks are recorded. A layer called NAME has the parameters NAME.weight and NAME.bias with PyTorch's shapes. Their names are
 * prefixed by the scope of the block:
 *
 *     struct layers b = layers_in(l, "blocks.%d.", i);
 *     h = layer_norm(&b, x, "norm1", 1e-6);                                      blocks.3.norm1.weight, blocks.3.norm1.bias
 *     h = layer_linear(&b, h, "mlp.fc1", &(struct linear){.out = 4 * width});   blocks.3.mlp.fc1.weight, .. */
#ifndef DDM_NET_LAYERS_H
#define DDM_NET_LAYERS_H

#include "tape/ops.h"
#include "tape/tape.h"

/* Initial values: zeros; ones; normal with a deviation of .02; uniform by Glorot and Bengio 2010. */
extern const struct init init_zero, init_one, init_small;
struct init init_xavier(int64_t fan_in, int64_t fan_out);

/* A recording in progress. */
struct layers {
	struct tape *t;
	struct params *p;
	char scope[64]; /* comes before every name */
};

/* The same recording with the formatted text, which ends with a dot, appended to the scope. */
struct layers layers_in(const struct layers *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A parameter with this name in the scope. */
struct tensor *layer_param(const struct layers *l, const char *name, int rank, const int64_t *shape);
/* The same with flags (tape/params.h) and an initial value other than zeros. */
struct tensor *layer_param_init(const struct layers *l, const char *name, int rank, const int64_t *shape, int flags, struct init init);

/* ---- any shape; the last dimension holds the channels ---- */

struct linear {
	int64_t out;
	int act; /* enum unary + 1, or 0 */
	int no_bias;
	int edge;         /* 1: first or last layer, where rounding costs most: always float, not PARAM_BULK */
	struct init init; /* of the weight; a bias starts at 0 */
};

/* Linear layer on (.., in): (.., out). */
struct tensor *layer_linear(const struct layers *l, struct tensor *x, const char *name, const struct linear *o);
struct tensor *layer_norm(const struct layers *l, struct tensor *x, const char *name, double eps); /* LayerNorm */
struct tensor *layer_rms(const struct layers *l, struct tensor *x, const char *name, double eps);  /* RMSNorm: only NAME.weight */
struct tensor *layer_groupnorm(const struct layers *l, struct tensor *x, const char *name, int64_t groups, double eps, int act);

/* ---- tokens (B, T, H) ---- */

/* Patchify pictures (B, C, S, S) and apply a linear layer: (B, (S / patch)^2, out). The weight is [out, C, patch, patch] and always float. */
struct tensor *layer_patches(const struct layers *l, struct tensor *x, const char *name, int64_t patch, const struct linear *o);
/* Sinusoidal embedding of scale * numbers, numbers (B), with 128 frequencies from 1 down to 1 / period, then NAME.0, SiLU and NAME.2: (B, width). */
struct tensor *layer_timestep(const struct layers *l, struct tensor *numbers, const char *name, int64_t width, double period, double scale);

/* Multi-head self-attention. */
struct attention {
	const char *weight, *bias; /* names of the packed queries, keys and values: [3 H, H], [3 H] */
	const char *out;           /* name of the output layer */
	int64_t heads;
	int64_t queries; /* compute only the first tokens' outputs; 0, or with `causal`: all */
	int causal;
	struct tensor *cosine, *sine; /* of rotary positions (net/rotarytable.h): (T, H / heads / 2); NULL: none */
	int64_t frames;               /* the tokens are those of so many frames, and each attends to those at its place; 0: to all */
	struct init init, out_init;   /* of the packed weight and of the output layer */
};

struct tensor *layer_attention(const struct layers *l, struct tensor *x, const struct attention *a); /* (B, queries, H) */

/* ---- pictures (B, H, W, C) ---- */

struct conv {
	int64_t out, kh, kw, stride; /* kw 0: as kh; stride 0: 1 */
	struct padding pad;
	int no_bias;
	int act;            /* enum unary + 1, or 0 */
	int many;           /* as in op_conv_many */
	struct tensor *add; /* added before `act`; or NULL */
	struct init init;   /* of the weight */
};

/* NAME.weight is PARAM_CONV. */
struct tensor *layer_conv(const struct layers *l, struct tensor *x, const char *name, const struct conv *c);
/* 3 x 3 with padding 1, and 1 x 1; both keep the height and width. */
struct tensor *layer_conv3(const struct layers *l, struct tensor *x, const char *name, int64_t out, int act, struct tensor *add);
struct tensor *layer_conv1(const struct layers *l, struct tensor *x, const char *name, int64_t out, int act);
/* 3 x 3 with padding 1 whose name is the number *at, which is then increased, as in PyTorch's Sequential. Stride 2 halves height and width. */
struct tensor *layer_conv_next(const struct layers *l, int *at, struct tensor *x, int64_t out, int64_t stride, int bias, int act);
struct tensor *channels_last(struct tape *t, struct tensor *x);  /* (B, C, H, W) to (B, H, W, C) */
struct tensor *channels_first(struct tape *t, struct tensor *x); /* (B, H, W, C) to (B, C, H, W), contiguous */
/* The same with patches of p x p pixels as pixels: (B, C, S, S) to (B, S / p, S / p, p p C), each (row, column, channel), and back. */
struct tensor *patches_last(struct tape *t, struct tensor *x, int64_t p);
struct tensor *patches_first(struct tape *t, struct tensor *x, int64_t p);

#endif
