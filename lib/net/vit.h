/* Vision transformers: DINOv2 (Oquab et al. 2023), with and without registers (Darcet et al. 2024), and timm's plain ViT. */
#ifndef DDM_NET_VIT_H
#define DDM_NET_VIT_H

#include <jansson.h>

#include "file/safetensors.h"
#include "kernels/compact.h"
#include "kernels/device.h"
#include "tape/params.h"

struct vit_config {
	int64_t size; /* height = width of the pictures */
	int64_t grid; /* side of the position table in the file, in patches */
	int64_t channels, patch, hidden, depth, heads;
	int64_t wide; /* hidden width of the MLP; with swiglu, of each half */
	int64_t registers;
	int swiglu;                  /* 1: silu(a) b instead of GELU */
	int timm;                    /* 1: timm's names; with registers, the position table then has no row for the class token */
	int layer_scale, mask_token; /* 1: these parameters exist; the mask token is not used */
	double eps;
	/* How the position table is resized to n patches a side. The scale is (n + offset) / grid. offset is .1 in torch.hub's models without
	 * registers, which shifts positions by a fraction of a cell, and 0 in all others. antialias: low-pass filtered, as in models with registers
	 * and in timm. */
	double offset;
	int antialias;
};

/* Set the configuration of a model of torch.hub, for pictures of 224: dinov2_vits14 dinov2_vitb14 dinov2_vitl14 dinov2_vitg14, each with or without
 * _reg. ERR_USAGE lists the names. */
int vit_preset(const char *name, struct vit_config *c, struct err *e);
/* Parse config.json of transformers, model_type dinov2 or dinov2_with_registers. */
int vit_from_json(const json_t *o, const char *where, struct vit_config *c, struct err *e);
/* Derive the configuration of a DINOv2 with the names of torch.hub or timm from the shapes of its tensors. ERR_DATA if they do not fit. */
int vit_from_weights(const struct safetensors *s, const char *where, struct vit_config *c, struct err *e);
int vit_check(const struct vit_config *c, struct err *e);

struct vit;

/* The outputs that are computed. For the class token alone, the last block computes only that token; on the CPU its bits are the same. */
enum vit_tokens { VIT_ALL, VIT_CLASS };

/* weights: a file that weightfile_open reads, with the names of torch.hub, transformers or timm, or a folder with one. For batches of up to
 * `capacity`. bulk: storage type of the matrices, as for runner_new. The device is borrowed. Caller frees with vit_free. */
struct vit *vit_new(const struct vit_config *c, const char *weights, enum vit_tokens tokens, int64_t capacity, enum compact_type bulk,
                    struct device *d, struct err *e);
/* Open a folder of transformers (vit_from_json), a folder of timm's hub, or a file or folder with weights only (vit_from_weights). size 0: 224. */
struct vit *vit_open(const char *path, int64_t size, enum vit_tokens tokens, int64_t capacity, enum compact_type bulk, struct device *d,
                     struct err *e);
void vit_free(struct vit *v);
const struct vit_config *vit_config(const struct vit *v);
double vit_flops(const struct vit *v); /* of one picture */

/* pixels (n, channels, size, size), normalised. Outputs after the final norm: class_token (n, hidden), patches (n, T, hidden) with T = (size /
 * patch)^2, without the registers. Either may be NULL; with VIT_CLASS patches must be NULL. Errors stick to the device. */
void vit_run(struct vit *v, int64_t n, const float *pixels, float *class_token, float *patches);

/* The table of parameters, without weights. Free with params_release. */
void vit_params(const struct vit_config *c, struct params *p);

#endif
