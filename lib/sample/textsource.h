/* Text features of prompts and negative prompts: encodes each distinct text once or reads files, and gathers the features of a batch. */
#ifndef DDM_SAMPLE_TEXTSOURCE_H
#define DDM_SAMPLE_TEXTSOURCE_H

#include <stdint.h>

#include "core/err.h"
#include "diffusion/mixture.h"
#include "file/stamp.h"
#include "kernels/compact.h"
#include "kernels/device.h"
#include "sample/prompts.h"

struct textsource_options {
	const struct prompts *prompts; /* may be empty if `features` is given */
	const char *negative;          /* negative prompt of the prompts without one */
	const char *encoder;           /* folder of a text encoder (data/textencoder.h); NULL: not needed */
	const char *features;          /* file of the prompts' features (data/textarray.h), or NULL */
	const char *negative_features; /* file of the negative prompt's features, or NULL */
	int64_t tokens, width;         /* size of the features that the experts read */
	int64_t pooled;                /* width of the pooled vectors that they read; 0: none */
	int masked, guided;            /* masked: the experts read a padding mask; guided: the negative prompt is needed */
	int lower;                     /* convert prompts to lower case before encoding */
	enum compact_type bulk;        /* storage of the encoder's matrices */
	struct device *device;
};

struct textsource;

/* Open the encoder or the files; nothing is encoded yet. Borrows *o. ERR_DATA for features of another width or of more tokens than the experts read.
 * Caller frees with textsource_free. */
struct textsource *textsource_open(const struct textsource_options *o, struct err *e);
void textsource_free(struct textsource *t);
int64_t textsource_count(const struct textsource *t); /* number of prompts */
/* Add the hashes of the encoder or the feature files to a stamp. */
void textsource_stamp(const struct textsource *t, struct stamp *s);
/* Encode all texts and free the encoder. *cut = the number of texts truncated to the encoder's length. */
int textsource_encode(struct textsource *t, int64_t *cut, struct err *e);
/* Gather the features for n pictures with prompt numbers prompt (n). text (n) and negative (n) receive rows of *texts, which is borrowed until the
 * next call. Without guidance negative equals text. */
int textsource_batch(struct textsource *t, int64_t n, const int64_t *prompt, int32_t *text, int32_t *negative, struct texts *texts, struct err *e);

#endif
