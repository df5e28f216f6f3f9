/* The precompiled character map of SentencePiece, which normalises a text before segmentation: a double-array trie of byte sequences (Yata's
 * darts-clone), and their replacements. */
#ifndef DDM_TEXT_CHARSMAP_H
#define DDM_TEXT_CHARSMAP_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct charsmap {
	uint32_t *trie;
	size_t units; /* of the trie */
	char *texts;  /* the replacements, each NUL-terminated */
	size_t len;   /* bytes of texts */
};

/* Parse data, which is copied: a u32 length of the trie in bytes, the trie, NUL-terminated texts; all little-endian. len 0: an empty map. ERR_DATA
 * naming `where`. Free with charsmap_release. */
int charsmap_new(struct charsmap *m, const void *data, size_t len, const char *where, struct err *e);
void charsmap_release(struct charsmap *m);

/* Find the longest prefix of p (n bytes) that has a replacement: its length, and the replacement in *text (NUL-terminated, borrowed). 0: none. */
size_t charsmap_find(const struct charsmap *m, const char *p, size_t n, const char **text);

#endif
