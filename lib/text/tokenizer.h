/* Converts texts to the token ids that CLIP and T5 read. */
#ifndef DDM_TEXT_TOKENIZER_H
#define DDM_TEXT_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct tokenizer;

/* path: a folder of transformers (tokenizer.json; or vocab.json and merges.txt; or spiece.model), or one file: tokenizer.json, a SentencePiece
 * model, or OpenAI's list of merges (bpe_simple_vocab_16e6.txt, compressed with gzip or not). Caller frees with tokenizer_free. */
struct tokenizer *tokenizer_open(const char *path, struct err *e);
void tokenizer_free(struct tokenizer *t);

/* Encode a text to ids (n > 0) with the model's special tokens (CLIP: start and end; SentencePiece: end). A longer text is truncated and keeps the
 * end token; a shorter one is padded, in CLIP with the end token, otherwise with <pad>. Returns the number of ids before truncation and padding. */
int64_t tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, int64_t n, int32_t *ids);
/* The same without truncation and padding. Returns the number of ids; caller frees *ids with mem_free. */
int64_t tokenizer_encode_all(const struct tokenizer *t, const char *text, size_t len, int32_t **ids);

/* Set the id that pads, e.g. 0 as in OpenAI's code and SDXL's second tokenizer. */
void tokenizer_pad_with(struct tokenizer *t, int32_t id);
/* The same by name ("pad_token" of tokenizer_config.json). From now on a CLIP tokenizer matches this token literally in texts. ERR_DATA naming
 * `where` if the vocabulary does not have it. */
int tokenizer_pad_token(struct tokenizer *t, const char *token, const char *where, struct err *e);
int32_t tokenizer_padding(const struct tokenizer *t); /* the id that pads */
int32_t tokenizer_largest(const struct tokenizer *t); /* largest token id */

/* SHA-256 of the file that tokenizer_open reads at this path. For two files: SHA-256 of the lines that sha256sum prints for them, with base names. */
int tokenizer_hash(const char *path, char hex[65], struct err *e);

#endif
