/* Text encoders of diffusion models: a tokenizer and CLIP's text tower or the encoder of T5, from texts to features.
 *
 *     struct textencoder *t = textencoder_open("MODEL", &(struct textencoder_options){.device = d}, &e);
 *     const struct textencoder_info *i = textencoder_info(t);
 *     textencoder_run(t, n, texts, lens, &(struct text_features){.hidden = h, .length = k}, &e);      h (n, i->tokens, i->width)
 *
 * The features are the last hidden states after the final norm. With CLIP all positions count, padding too, and length is i->tokens. With T5
 * padding is masked in attention: the first `length` rows belong to the text and its </s>, the others are zero. Texts are converted to lower case
 * (a final sigma like any other) only with `lower`, or if the encoder belongs to a pipeline whose model_index.json says PixArt, like diffusers'
 * PixArtAlphaPipeline without clean_caption. */
#ifndef DDM_DATA_TEXTENCODER_H
#define DDM_DATA_TEXTENCODER_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "kernels/compact.h"
#include "kernels/device.h"

enum textencoder_kind { TEXTENCODER_CLIP, TEXTENCODER_T5 };

enum { TEXTENCODER_T5_TOKENS = 120 }; /* PixArt-alpha's */

struct textencoder_options {
	int lower;      /* convert texts to lower case before tokenizing; always done for PixArt's pipelines */
	int64_t tokens; /* tokens of a text; 0: the number of CLIP's positions, or TEXTENCODER_T5_TOKENS for T5. CLIP accepts no other number */
	int64_t batch;  /* texts at a time; 0: 16. Results do not depend on it */
	enum compact_type bulk; /* storage type of the matrices, as for runner_new (net/runner.h) */
	struct device *device;  /* borrowed */
};

struct textencoder_info {
	enum textencoder_kind kind;
	int64_t tokens, width;
	int64_t embedding; /* width of CLIP's pooled vector; T5: 0 */
	int projected;     /* the pooled vector is projected into the space shared with CLIP's pictures */
	char hash[65];     /* SHA-256 of the architecture, the weights, how they are rounded, the tokenizer's files, and `lower`: all that
	                    * features depend on but `tokens` */
};

/* The outputs of a run; NULL: not wanted. */
struct text_features {
	float *hidden;    /* (n, tokens, width) */
	int32_t *length;  /* (n) rows of hidden that count: at least 1 */
	float *embedding; /* (n, embedding): at the end-of-text token, not normalised; CLIP only */
	int64_t cut;      /* the number of texts longer than `tokens` is added to this */
};

struct textencoder;

/* dir: a MODEL with text_encoder/ and tokenizer/; or that text_encoder/ itself (or text_encoder_2/, with tokenizer_2/ beside it); or one folder
 * of transformers that holds both. The model_type in its config.json is clip, clip_text_model or t5. Padding uses the pad_token of
 * tokenizer_config.json or special_tokens_map.json. ERR_NOINPUT: a part is missing; ERR_DATA: another kind of network, or a tokenizer of another
 * vocabulary; ERR_USAGE: a number of tokens that the network does not support. Caller frees with textencoder_free. */
struct textencoder *textencoder_open(const char *dir, const struct textencoder_options *o, struct err *e);
void textencoder_free(struct textencoder *t);                                 /* NULL is allowed */
const struct textencoder_info *textencoder_info(const struct textencoder *t); /* borrowed until textencoder_free */

/* The name that fetch-weights gives to a published text encoder of this width; NULL: there is none. */
const char *textencoder_published(int64_t width);

/* 1 if textencoder_open would look for a text encoder here, else 0. */
int textencoder_sniff(const char *dir);

/* Encode n texts of lens[i] bytes; lens NULL: they end with a NUL. The results of a text do not depend on the other texts. ERR_USAGE if an
 * embedding is requested from T5; errors of the device. */
int textencoder_run(struct textencoder *t, int64_t n, const char *const *texts, const size_t *lens, struct text_features *f, struct err *e);

#endif
