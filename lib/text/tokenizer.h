/* Texts to the token ids that CLIP and T5 read. */
#ifndef DDM_TEXT_TOKENIZER_H
#define DDM_TEXT_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct tokenizer;

/* A folder of transformers (tokenizer.json; or vocab.json and merges.txt; or spiece.model), or one file: tokenizer.json, a SentencePiece
 * model, or OpenAI's list of merges (bpe_simple_vocab_16e6.txt, gzip'd or not). Caller frees with tokenizer_free. */
struct tokenizer *tokenizer_open(const char *path, struct err *e);
void tokenizer_free(struct tokenizer *t);

/* ids (n): the text with what the model puts around it (CLIP: start and end; SentencePiece: end), cut so that the end stays, and padded:
 * CLIP with its end, others with <pad>. Returns how many there are before the cut: more than n, and the text was too long. */
int64_t tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, int64_t n, int32_t *ids);
/* All of them, with what the model puts around; caller frees *ids with mem_free. */
int64_t tokenizer_encode_all(const struct tokenizer *t, const char *text, size_t len, int32_t **ids);

/* What is written after the end: CLIP's end, or 0 as OpenAI's own code and SDXL's second tokenizer have it. */
void tokenizer_pad_with(struct tokenizer *t, int32_t id);
/* The same by name, as tokenizer_config.json has it ("pad_token"): such a token in a text is then that one too. ERR_DATA, with `where`,
 * where the vocabulary has none. */
int tokenizer_pad_token(struct tokenizer *t, const char *token, const char *where, struct err *e);
int32_t tokenizer_padding(const struct tokenizer *t);
int32_t tokenizer_largest(const struct tokenizer *t); /* of the numbers that it can give */

/* SHA-256 of the files that tokenizer_open reads of this path; of two, that of what sha256sum prints of them by base name. */
int tokenizer_hash(const char *path, char hex[65], struct err *e);

#endif
