/* The features of one text as float16 numbers: those of its tokens, and the pooled vector of the whole text. */
#ifndef DDM_DATA_TEXTHALVES_H
#define DDM_DATA_TEXTHALVES_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Text features from an .npy of shape (rows, width) or (1, rows, width), as float16. Caller frees with mem_free. ERR_DATA for a value that
 * float16 cannot hold, or for more rows than `most` (0: any number). */
uint16_t *texthalves_tokens(const void *npy, size_t len, const char *name, int64_t most, int64_t *rows, int64_t *width, struct err *e);

/* The pooled vector of a text from an .npy of shape (width) or (1, width), as float16. Caller frees with mem_free. ERR_DATA as above. */
uint16_t *texthalves_pooled(const void *npy, size_t len, const char *name, int64_t *width, struct err *e);

#endif
