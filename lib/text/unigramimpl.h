/* Shared by the files of the unigram model: its pieces, and the trie that finds them. */
#ifndef DDM_TEXT_UNIGRAMIMPL_H
#define DDM_TEXT_UNIGRAMIMPL_H

#include "text/charsmap.h"
#include "text/unigram.h"

enum piece_type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

struct piece {
	char *text;
	size_t len;
	double score; /* log-probability */
	enum piece_type type;
};

/* A node of the trie, one byte below its parent. The children of a node are a linked list in order of insertion. */
struct node {
	int32_t child, next, piece; /* first child and next sibling, 0: none; id of the piece that ends here, -1: none */
	uint8_t byte;
};

/* A token that is matched literally in a text. */
struct special {
	char *text;
	size_t len;
	int32_t id;
};

struct unigram {
	struct piece *piece;
	int32_t pieces, cap;
	struct node *node;
	int32_t nodes, node_cap;
	int32_t first[256]; /* children of the root by byte */
	struct special *special;
	size_t specials;
	struct charsmap map;
	int32_t unknown, end, padding, byte[256]; /* ids; byte: tokens of bytes, for byte fallback */
	double least, most;                       /* smallest and largest score of normal pieces */
	int words;                                /* each word is segmented separately, as in the tokenizers library */
	int single;                               /* scores are added in float, as in sentencepiece */
	int dummy_prefix, squeeze, escape, bytes; /* add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces, byte_fallback */
};

static const char mark[] = "\xe2\x96\x81"; /* U+2581, the mark at the start of a word */
enum { MARK = 3 };                         /* bytes of `mark` */

/* The child of node `at` (0: the root) for byte c; 0: none. */
static inline int32_t unigram_step(const struct unigram *u, int32_t at, uint8_t c)
{
	int32_t k = at ? u->node[at].child : u->first[c];

	while (k && u->node[k].byte != c)
		k = u->node[k].next;
	return k;
}

/* The id of the piece with this text; -1: none. */
int32_t unigram_piece(const struct unigram *u, const char *text);

#endif
