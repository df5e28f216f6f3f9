/* Byte-pair encoding of texts as CLIP has it: normal form C, white space to one blank, lower case, words by letters, numbers and the
 * rest, bytes as characters, a mark at the end of a word. What transformers' CLIPTokenizer gives. */
#ifndef DDM_TEXT_BPE_H
#define DDM_TEXT_BPE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct bpe;

/* From a list of merges, one "a b" a line after a line of version; vocab NULL: numbered as OpenAI does, 256 bytes, 256 bytes that end a
 * word, the merges in order, start and end of text, from at most 48894 merges. Otherwise vocab gives each token its number and must hold
 * all that the merges make. vocab and merges are borrowed during the call. */
struct bpe *bpe_new(const char *merges, size_t len, const json_t *vocab, const char *where, struct err *e);
/* The same from tokenizer.json: model.type BPE, merges as texts or as pairs. */
struct bpe *bpe_from_json(const json_t *tokenizer, const char *where, struct err *e);
void bpe_free(struct bpe *b);

int32_t bpe_start(const struct bpe *b);   /* <|startoftext|> */
int32_t bpe_end(const struct bpe *b);     /* <|endoftext|> */
int32_t bpe_largest(const struct bpe *b); /* of the numbers of its tokens */

/* The number of a token, -1 where there is none. From now on that token in a text is this number whatever is around it, as tokenizers
 * take what pads. One token at a time. */
int32_t bpe_special(struct bpe *b, const char *token);

/* Tokens of a text without start and end; caller frees *ids with mem_free. Returns how many. <|startoftext|> and <|endoftext|> in the
 * text are those tokens. */
size_t bpe_encode(const struct bpe *b, const char *text, size_t len, int32_t **ids);

#endif
