/* Reads features of texts from a file: .npy, or .npz with a mask of the tokens that count, as PixArt's and other programs write it. */
#ifndef DDM_DATA_TEXTARRAY_H
#define DDM_DATA_TEXTARRAY_H

#include <stdint.h>

#include "core/err.h"
#include "file/npy.h"

struct textarray {
	struct npy a;      /* (n, tokens, width) from .npz; from .npy the shape in the file; always row-major */
	int32_t *length;   /* (n) leading tokens that count; NULL: all */
	struct npy pooled; /* (n, width) pooled vectors of the texts, from .npz; rank 0: the file has none */
	struct npz *npz;   /* private */
};

/* An .npz holds "caption_feature" (or "caption_features", "prompt_embeds") of shape (n, tokens, width), (n, 1, tokens, width) or (tokens, width).
 * It may hold "attention_mask" (or "prompt_attention_mask"), with 1 for the first tokens of a text and 0 for the rest, and
 * "pooled_prompt_embeds" of shape (n, width) or (width). ERR_DATA otherwise. Caller
 * releases with textarray_release. */
int textarray_load(struct textarray *t, const char *path, struct err *e);
/* The same from memory; bytes are borrowed until textarray_release. */
int textarray_parse(struct textarray *t, const void *bytes, size_t len, const char *name, struct err *e);
void textarray_release(struct textarray *t);

#endif
