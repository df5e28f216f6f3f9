/* Features of texts in a file: .npy, or .npz with a mask of the tokens that count, as PixArt's and others' programs write it. */
#ifndef DDM_DATA_TEXTARRAY_H
#define DDM_DATA_TEXTARRAY_H

#include <stdint.h>

#include "core/err.h"
#include "file/npy.h"

struct textarray {
	struct npy a;    /* (n, tokens, width) or, of a .npy alone, what it holds; row-major or refused */
	int32_t *length; /* (n) leading tokens that count; NULL: all */
	struct npz *npz; /* private */
};

/* An .npz holds "caption_feature" (or "caption_features", "prompt_embeds") of shape (n, tokens, width), (n, 1, tokens, width) or
 * (tokens, width), and may hold "attention_mask" (or "prompt_attention_mask") with a 1 for each of a text's first tokens and 0 after
 * them. ERR_DATA otherwise. Caller releases. */
int textarray_load(struct textarray *t, const char *path, struct err *e);
int textarray_parse(struct textarray *t, const void *bytes, size_t len, const char *name, struct err *e); /* bytes must stay */
void textarray_release(struct textarray *t);

#endif
