/* The precompiled character map of SentencePiece: what a text is rewritten by before it is cut, a double-array trie of byte sequences
 * (Yata's darts-clone) and the texts that take their place. */
#ifndef DDM_TEXT_CHARSMAP_H
#define DDM_TEXT_CHARSMAP_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct charsmap {
	uint32_t *trie;
	size_t units;
	char *texts; /* ends with NUL */
	size_t len;
};

/* From u32 length of the trie in bytes, the trie, NUL-terminated texts, little-endian. No bytes: an empty map. */
int charsmap_new(struct charsmap *m, const void *data, size_t len, const char *where, struct err *e);
void charsmap_release(struct charsmap *m);

/* The longest sequence at p that is rewritten: its length, *text (NUL-terminated, borrowed) being what takes its place; 0: none. */
size_t charsmap_find(const struct charsmap *m, const char *p, size_t n, const char **text);

#endif
