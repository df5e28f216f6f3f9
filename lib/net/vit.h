/* Vision transformers: DINOv2 (Oquab et al. 2023), with and without registers (Darcet et al. 2024), and the plain one of timm. */
#ifndef DDM_NET_VIT_H
#define DDM_NET_VIT_H

#include <jansson.h>

#include "file/safetensors.h"
#include "kernels/compact.h"
#include "kernels/device.h"
#include "tape/params.h"

struct vit_config {
	int64_t size; /* of the pictures it is run on */
	int64_t grid; /* side of the position table in the file, in patches */
	int64_t channels, patch, hidden, depth, heads;
	int64_t wide; /* of the hidden layer of the perceptron; with swiglu of each half */
	int64_t registers;
	int swiglu;                  /* silu(a) b in the place of GELU */
	int timm;                    /* its names; with registers the class token's place is added to it, and not in the table */
	int layer_scale, mask_token; /* there are such parameters; the mask token is not read */
	double eps;
	/* How the position table comes to another size. The models of torch.hub without registers scale by (n + .1) / grid, which shifts
	 * every position but the first's neighbourhood by a part of a cell; with registers, and transformers and timm always, it is n / grid.
	 * Those with registers, and timm's, are low-pass filtered. */
	double offset;
	int antialias;
};

/* By the name torch.hub has: dinov2_vits14 dinov2_vitb14 dinov2_vitl14 dinov2_vitg14, each with or without _reg. For pictures of 224.
 * ERR_USAGE lists them. */
int vit_preset(const char *name, struct vit_config *c, struct err *e);
/* config.json of transformers, model_type dinov2 or dinov2_with_registers. */
int vit_from_json(const json_t *o, const char *where, struct vit_config *c, struct err *e);
/* A DINOv2 under the names of torch.hub or of timm, all of it from the shapes of its tensors. ERR_DATA where they are not those. */
int vit_from_weights(const struct safetensors *s, const char *where, struct vit_config *c, struct err *e);
int vit_check(const struct vit_config *c, struct err *e);

struct vit;

/* What it is run for. Of a class token alone the last block does that token's part: its bits on the CPU are the same. */
enum vit_tokens { VIT_ALL, VIT_CLASS };

/* The weights are a file of any kind weightfile_open reads, under the names of torch.hub, transformers or timm, or a folder with one.
 * bulk: of the matrices, as runner_new takes it. */
struct vit *vit_new(const struct vit_config *c, const char *weights, enum vit_tokens tokens, int64_t capacity, enum compact_type bulk,
                    struct device *d, struct err *e);
/* A folder of transformers (vit_from_json); or one of timm's hub, or a file or folder of weights alone (vit_from_weights). size 0: 224. */
struct vit *vit_open(const char *path, int64_t size, enum vit_tokens tokens, int64_t capacity, enum compact_type bulk, struct device *d,
                     struct err *e);
void vit_free(struct vit *v);
const struct vit_config *vit_config(const struct vit *v);

/* pixels (n, channels, size, size), normalised. After the final norm: class_token (n, hidden), patches (n, T, hidden), T = (size /
 * patch)^2 without the registers; either may be NULL, and patches is with VIT_CLASS. */
void vit_run(struct vit *v, int64_t n, const float *pixels, float *class_token, float *patches);

/* The table alone; params_release. */
void vit_params(const struct vit_config *c, struct params *p);

#endif
