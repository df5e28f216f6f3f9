/* Features of prompts and negative prompts, encoded once each or read from files, and those of a batch. */
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
	const struct prompts *prompts;     /* may be empty where `features` is given */
	const char *negative;              /* negative prompt of the prompts without one */
	const char *encoder;               /* folder of a text encoder (data/textencoder.h); NULL: not needed */
	const char *features;              /* file of the prompts' features (data/textarray.h), or NULL */
	const char *negative_features;     /* file of one text's, or NULL */
	int64_t tokens, width;             /* that the experts read */
	int masked, guided;                /* the experts are told the padding; guidance needs the negative prompt */
	int lower;                         /* prompts are put in lower case before they are encoded */
	enum compact_type bulk;            /* of the encoder's matrices */
	struct device *device;
};

struct textsource;

/* Opens the encoder or the files; nothing is encoded yet. Borrows *o. Features of another width or of more tokens than the experts read:
 * ERR_DATA. Caller frees with textsource_free. */
struct textsource *textsource_open(const struct textsource_options *o, struct err *e);
void textsource_free(struct textsource *t);
int64_t textsource_count(const struct textsource *t); /* texts that pictures are made of */
/* What the features depend on, besides the prompts, into a stamp. */
void textsource_stamp(const struct textsource *t, struct stamp *s);
/* Encodes all texts and frees the encoder. *cut: texts longer than the encoder reads. */
int textsource_encode(struct textsource *t, int64_t *cut, struct err *e);
/* For n pictures: prompt (n) numbers their prompts. Into text (n) and negative (n) the rows of *texts, which stay until the next call. Without
 * guidance `negative` repeats `text`. */
int textsource_batch(struct textsource *t, int64_t n, const int64_t *prompt, int32_t *text, int32_t *negative, struct texts *texts,
                     struct err *e);

#endif
