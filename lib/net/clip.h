/* Runs the text and vision towers of CLIP (Radford et al. 2021), with the tensor names of openai/CLIP (the same as open_clip) or of transformers. */
#ifndef DDM_NET_CLIP_H
#define DDM_NET_CLIP_H

#include <jansson.h>

#include "core/err.h"
#include "kernels/compact.h"
#include "kernels/device.h"
#include "net/vit.h"
#include "tape/params.h"

struct clip_config {
	int64_t hidden, depth, heads, wide; /* wide: hidden width of the MLPs */
	int64_t projection;                 /* width of the embedding shared by texts and pictures; 0: none */
	int quick;                          /* 1: x sigmoid(1.702 x), as in OpenAI's models; 0: GELU */
	double eps;
	int64_t vocabulary, tokens; /* text */
	int64_t eos; /* text: id of the token whose first position is pooled; 2 (older configurations): the position of the largest id */
	int64_t size, patch, channels; /* vision */
};

/* Set the configurations (either may be NULL) of "ViT-B/32", "ViT-B/16", "ViT-L/14" or "ViT-L/14@336px". ERR_USAGE lists the names. */
int clip_preset(const char *name, struct clip_config *text, struct clip_config *vision, struct err *e);
/* Parse config.json of transformers: model_type clip, or the model_type of one tower (clip_text_model, clip_vision_model). ERR_DATA if the requested
 * tower is missing. */
int clip_text_from_json(const json_t *o, const char *where, struct clip_config *c, struct err *e);
int clip_vision_from_json(const json_t *o, const char *where, struct clip_config *c, struct err *e);

struct clip_text;
struct clip_vision;

/* Open a folder of transformers with config.json; its weights may also hold the other tower. If they have no projection, the tower has none.
 * Batches of up to `capacity`. bulk: storage type of the matrices, as for runner_new. The device is borrowed. Free with clip_text_free or
 * clip_vision_free. */
struct clip_text *clip_text_open(const char *dir, int64_t capacity, enum compact_type bulk, struct device *d, struct err *e);
struct clip_vision *clip_vision_open(const char *dir, enum vit_tokens tokens, int64_t capacity, enum compact_type bulk, struct device *d,
                                     struct err *e);
void clip_text_free(struct clip_text *m);
void clip_vision_free(struct clip_vision *m);
const struct clip_config *clip_text_config(const struct clip_text *m);
const struct clip_config *clip_vision_config(const struct clip_vision *m);
double clip_vision_flops(const struct clip_vision *m); /* of one picture */

/* ids (n, tokens). hidden (n, tokens, hidden): the output of the final norm, which diffusion networks read. embedding (n, projection), or (n, hidden)
 * without a projection: the pooled end-of-text token, projected, not normalised. Either may be NULL. Errors of the device stick to it. */
void clip_text_run(struct clip_text *m, int64_t n, const int32_t *ids, float *hidden, float *embedding);
/* pixels (n, channels, size, size), normalised. hidden (n, 1 + T, hidden): the input of the final norm. embedding: as above, from the class token.
 * With VIT_CLASS hidden must be NULL. */
void clip_vision_run(struct clip_vision *m, int64_t n, const float *pixels, float *hidden, float *embedding);

/* The tables of parameters, without weights. Free with params_release. */
void clip_text_params(const struct clip_config *c, struct params *p);
void clip_vision_params(const struct clip_config *c, struct params *p);

#endif
