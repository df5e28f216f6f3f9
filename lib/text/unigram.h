/* SentencePiece's unigram model (Kudo 2018): segments a text into the pieces with the largest sum of log-probabilities. */
#ifndef DDM_TEXT_UNIGRAM_H
#define DDM_TEXT_UNIGRAM_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct unigram;

/* Read a .model file of SentencePiece (a protobuf). Ids equal those of the sentencepiece library. ERR_DATA for model types other than unigram.
 * `data` is borrowed during the call. Caller frees with unigram_free. */
struct unigram *unigram_from_model(const void *data, size_t len, const char *where, struct err *e);
/* Read tokenizer.json with model.type Unigram, as T5 has it: words are split at white space, and each begins with the word mark U+2581. Ids equal
 * those of the tokenizers library except in one case: there, a letter that the normaliser rewrites loses its combining mark. */
struct unigram *unigram_from_json(const json_t *tokenizer, const char *where, struct err *e);
void unigram_free(struct unigram *u);

int32_t unigram_end(const struct unigram *u);                     /* </s>; -1: none */
int32_t unigram_padding(const struct unigram *u);                 /* <pad>; 0: none */
int32_t unigram_largest(const struct unigram *u);                 /* largest token id */
int32_t unigram_find(const struct unigram *u, const char *token); /* id; -1: none */

/* Encode a text (len bytes of UTF-8) without an end token. Returns the number of ids; caller frees *ids with mem_free. */
size_t unigram_encode(const struct unigram *u, const char *text, size_t len, int32_t **ids);

#endif
