/* CLIP (Radford et al. 2021): its text and its vision tower, under the tensor names of openai/CLIP (open_clip has the same) or of
 * transformers. */
#ifndef DDM_NET_CLIP_H
#define DDM_NET_CLIP_H

#include <jansson.h>

#include "core/err.h"
#include "kernels/compact.h"
#include "kernels/device.h"
#include "net/vit.h"
#include "tape/params.h"

struct clip_config {
	int64_t hidden, depth, heads, wide; /* wide: of the hidden layer of the perceptrons */
	int64_t projection;                 /* of the embedding that text and picture share; 0: there is none */
	int quick;                          /* x sigmoid(1.702 x), as OpenAI trained it; else GELU */
	double eps;
	int64_t vocabulary, tokens;    /* text */
	int64_t eos;                   /* text: whose first place is pooled; 2: the place of the largest token, as older configurations have it */
	int64_t size, patch, channels; /* vision */
};

/* "ViT-B/32" "ViT-B/16" "ViT-L/14" "ViT-L/14@336px". Either tower may be NULL. ERR_USAGE lists them. */
int clip_preset(const char *name, struct clip_config *text, struct clip_config *vision, struct err *e);
/* config.json of transformers: model_type clip, or that of the one tower (clip_text_model, clip_vision_model). ERR_DATA where the tower
 * asked for is not there. */
int clip_text_from_json(const json_t *o, const char *where, struct clip_config *c, struct err *e);
int clip_vision_from_json(const json_t *o, const char *where, struct clip_config *c, struct err *e);

struct clip_text;
struct clip_vision;

/* The weights are a file of any kind weightfile_open reads, or a folder with one; the other tower may be in it. A file without a projection
 * is taken as such. bulk: of the matrices, as runner_new takes it. */
struct clip_text *clip_text_new(const struct clip_config *c, const char *weights, int64_t capacity, enum compact_type bulk, struct device *d,
                                struct err *e);
struct clip_vision *clip_vision_new(const struct clip_config *c, const char *weights, enum vit_tokens tokens, int64_t capacity,
                                    enum compact_type bulk, struct device *d, struct err *e);
/* A folder of transformers. */
struct clip_text *clip_text_open(const char *dir, int64_t capacity, enum compact_type bulk, struct device *d, struct err *e);
struct clip_vision *clip_vision_open(const char *dir, enum vit_tokens tokens, int64_t capacity, enum compact_type bulk, struct device *d,
                                     struct err *e);
void clip_text_free(struct clip_text *m);
void clip_vision_free(struct clip_vision *m);
const struct clip_config *clip_text_config(const struct clip_text *m);
const struct clip_config *clip_vision_config(const struct clip_vision *m);

/* ids (n, tokens). hidden (n, tokens, hidden): after the final norm, what diffusion networks read. embedding (n, projection): of the
 * end of the text, projected, not normalised; (n, hidden) where there is no projection. Either may be NULL. */
void clip_text_run(struct clip_text *m, int64_t n, const int32_t *ids, float *hidden, float *embedding);
/* pixels (n, channels, size, size), normalised. hidden (n, 1 + T, hidden): before the last norm; embedding as above, of the class
 * token. With VIT_CLASS hidden is NULL. */
void clip_vision_run(struct clip_vision *m, int64_t n, const float *pixels, float *hidden, float *embedding);

/* The tables alone; params_release. */
void clip_text_params(const struct clip_config *c, struct params *p);
void clip_vision_params(const struct clip_config *c, struct params *p);

#endif
