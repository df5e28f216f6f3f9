/* What tokenizers need of Unicode. A character is a uint32_t; bytes that are not UTF-8 are U+FFFD, one each. */
#ifndef DDM_TEXT_UNICODE_H
#define DDM_TEXT_UNICODE_H

#include <stddef.h>
#include <stdint.h>

#include "core/str.h"

int unicode_letter(uint32_t c); /* \p{L} */
int unicode_number(uint32_t c); /* \p{N} */
int unicode_space(uint32_t c);  /* White_Space */

/* The character at p, n > 0 bytes being there; *len of them are its own. */
uint32_t utf8_read(const char *p, size_t n, size_t *len);
void utf8_add(struct str *s, uint32_t c);

/* out += text in normal form C, bytes that are not UTF-8 replaced. */
void unicode_nfc(struct str *out, const char *text, size_t n);
/* out += text with every character in lower case for itself (a final sigma like any other). */
void unicode_lower(struct str *out, const char *text, size_t n);

#endif
