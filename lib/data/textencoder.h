/* Text encoders as diffusion models carry them: a tokenizer and CLIP's text tower or the encoder of T5, from texts to features.
 *
 *     struct textencoder *t = textencoder_open("MODEL", &(struct textencoder_options){.device = d}, &e);
 *     const struct textencoder_info *i = textencoder_info(t);
 *     textencoder_run(t, n, texts, lens, &(struct text_features){.hidden = h, .length = k}, &e);      h (n, i->tokens, i->width)
 *
 * The features are the last hidden states after the final norm. Of CLIP all places count, padding too, and length is i->tokens; of T5
 * no token looks at the padding, the first `length` rows are the text's with its </s>, and the others are zero. Texts are taken as they
 * are, but with `lower`, and by the encoder of a pipeline whose model_index.json says PixArt, they are put in lower case before (a final sigma
 * like any other), as by diffusers' PixArtAlphaPipeline without clean_caption. */
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
	int lower;              /* texts are put in lower case before they are tokens: those of PixArt's pipelines always are */
	int64_t tokens;         /* of a text; 0: as many as CLIP has places, TEXTENCODER_T5_TOKENS of T5. CLIP has no other than its own */
	int64_t batch;          /* texts at a time; 0: 16. Results do not depend on it */
	enum compact_type bulk; /* of the matrices, as runner_new takes it (net/runner.h) */
	struct device *device;  /* borrowed */
};

struct textencoder_info {
	enum textencoder_kind kind;
	int64_t tokens, width;
	int64_t embedding; /* width of CLIP's pooled vector; T5: 0 */
	int projected;     /* that vector is in the space that CLIP's pictures share */
	char hash[65];     /* SHA-256 of the architecture, the weights, how they are rounded, the tokenizer's files, and `lower`: all that
	                    * features depend on but `tokens` */
};

/* What a run gives; NULL where it is not wanted. */
struct text_features {
	float *hidden;    /* (n, tokens, width) */
	int32_t *length;  /* (n) rows of hidden that count: at least 1 */
	float *embedding; /* (n, embedding): of the end of the text, not normalised; of CLIP */
	int64_t cut;      /* texts that were longer than `tokens`; added to */
};

struct textencoder;

/* dir: a MODEL with text_encoder/ and tokenizer/; that text_encoder/ (or text_encoder_2/, with tokenizer_2/) itself; or one folder of
 * transformers that holds both. Its config.json's model_type is clip, clip_text_model or t5. Padding is what tokenizer_config.json or
 * special_tokens_map.json call pad_token. ERR_NOINPUT: a part is missing; ERR_DATA: another network, a tokenizer of another vocabulary;
 * ERR_USAGE: tokens that it has not. Caller frees with textencoder_free. */
struct textencoder *textencoder_open(const char *dir, const struct textencoder_options *o, struct err *e);
void textencoder_free(struct textencoder *t);                                 /* NULL is allowed */
const struct textencoder_info *textencoder_info(const struct textencoder *t); /* borrowed until textencoder_free */

/* What fetch-weights calls a published text encoder of this width; NULL: there is none. */
const char *textencoder_published(int64_t width);

/* Whether textencoder_open would look for one here: 1 or 0. */
int textencoder_sniff(const char *dir);

/* Texts of lens[i] bytes; lens NULL: they end with a NUL. A text's numbers do not depend on its neighbours. ERR_USAGE where an embedding
 * is wanted of T5; errors of the device. */
int textencoder_run(struct textencoder *t, int64_t n, const char *const *texts, const size_t *lens, struct text_features *f, struct err *e);

#endif
