/* SentencePiece's unigram model (Kudo 2018): the segmentation of a text into pieces of the largest sum of log-probabilities. */
#ifndef DDM_TEXT_UNIGRAM_H
#define DDM_TEXT_UNIGRAM_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct unigram;

/* A .model file of SentencePiece (a protobuf): ids are those of the sentencepiece library. Other model types than unigram are ERR_DATA.
 * Nothing is borrowed after the call. */
struct unigram *unigram_from_model(const void *data, size_t len, const char *where, struct err *e);
/* tokenizer.json with model.type Unigram, as T5 has it: words by white space, each with the mark of a word before it. Ids are those of
 * the tokenizers library, but for one case: a letter that the normaliser rewrites and that has a combining mark loses the mark there. */
struct unigram *unigram_from_json(const json_t *tokenizer, const char *where, struct err *e);
void unigram_free(struct unigram *u);

int32_t unigram_end(const struct unigram *u);                     /* </s>; -1: none */
int32_t unigram_padding(const struct unigram *u);                 /* <pad>; 0 where there is none */
int32_t unigram_largest(const struct unigram *u);                 /* of the numbers of its pieces and other tokens */
int32_t unigram_find(const struct unigram *u, const char *token); /* its number; -1: none */

/* Tokens of a text, without an end; caller frees *ids with mem_free. Returns how many. */
size_t unigram_encode(const struct unigram *u, const char *text, size_t len, int32_t **ids);

#endif
