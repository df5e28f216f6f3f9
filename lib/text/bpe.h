/* CLIP's byte-pair encoding of texts, with the same tokens as transformers' CLIPTokenizer: normal form C, white space collapsed to one blank, lower
 * case, split into runs of letters, single numbers and runs of other characters, bytes mapped to characters, </w> at the end of a word. */
#ifndef DDM_TEXT_BPE_H
#define DDM_TEXT_BPE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct bpe;

/* Build from a list of merges: a line with the version, then one merge "a b" a line. vocab: object of token -> id; it must hold every token that the
 * merges produce. vocab NULL: OpenAI's ids, that is 256 bytes, 256 bytes that end a word, the first 48894 merges at most in order, start and end of
 * text. vocab and merges are borrowed during the call. ERR_DATA naming `where`. Caller frees with bpe_free. */
struct bpe *bpe_new(const char *merges, size_t len, const json_t *vocab, const char *where, struct err *e);
/* The same from tokenizer.json with model.type BPE; merges are strings or pairs. */
struct bpe *bpe_from_json(const json_t *tokenizer, const char *where, struct err *e);
void bpe_free(struct bpe *b);

int32_t bpe_start(const struct bpe *b);   /* <|startoftext|> */
int32_t bpe_end(const struct bpe *b);     /* <|endoftext|> */
int32_t bpe_largest(const struct bpe *b); /* largest token id */

/* The id of a token; -1 if it is not in the vocabulary. From now on this token is matched literally in texts, as tokenizers do with the padding
 * token. A later call replaces it. */
int32_t bpe_special(struct bpe *b, const char *token);

/* Encode a text (len bytes of UTF-8) without start and end tokens. Returns the number of ids; caller frees *ids with mem_free. <|startoftext|> and
 * <|endoftext|> in the text become those tokens. */
size_t bpe_encode(const struct bpe *b, const char *text, size_t len, int32_t **ids);

#endif
