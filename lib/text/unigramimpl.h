/* Shared by the files of the unigram model: its pieces, and the trie that finds them. */
#ifndef DDM_TEXT_UNIGRAMIMPL_H
#define DDM_TEXT_UNIGRAMIMPL_H

#include "text/charsmap.h"
#include "text/unigram.h"

enum piece_type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

struct piece {
	char *text;
	size_t len;
	double score;
	enum piece_type type;
};

/* A node of the trie: one byte after its parent; children of a node are a list in the order they were made. */
struct node {
	int32_t child, next, piece; /* 0: none; -1: none */
	uint8_t byte;
};

/* Text that is a token whatever is around it. */
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
	int32_t unknown, end, padding, byte[256];
	double least, most; /* of the scores of normal pieces */
	int words;          /* as the tokenizers library cuts: each word for itself */
	int single;         /* sums in float, as sentencepiece has them */
	int dummy_prefix, squeeze, escape, bytes;
};

static const char mark[] = "\xe2\x96\x81"; /* of the begin of a word */
enum { MARK = 3 };

/* The child of node `at` (0: the root) for byte c; 0: none. */
static inline int32_t unigram_step(const struct unigram *u, int32_t at, uint8_t c)
{
	int32_t k = at ? u->node[at].child : u->first[c];

	while (k && u->node[k].byte != c)
		k = u->node[k].next;
	return k;
}

/* The number of the piece with this text; -1: none. */
int32_t unigram_piece(const struct unigram *u, const char *text);

#endif
