/* The Unicode functions that tokenizers need. A character is a uint32_t; each byte that is not UTF-8 is read as U+FFFD. */
#ifndef DDM_TEXT_UNICODE_H
#define DDM_TEXT_UNICODE_H

#include <stddef.h>
#include <stdint.h>

#include "core/str.h"

int unicode_letter(uint32_t c); /* \p{L} */
int unicode_number(uint32_t c); /* \p{N} */
int unicode_space(uint32_t c);  /* White_Space */

/* The character at p (n > 0 bytes); *len receives its length in bytes. */
uint32_t utf8_read(const char *p, size_t n, size_t *len);
/* s += the UTF-8 bytes of c. */
void utf8_add(struct str *s, uint32_t c);

/* out += text (n bytes) in normal form C, with invalid bytes replaced. */
void unicode_nfc(struct str *out, const char *text, size_t n);
/* out += text (n bytes) in lower case, character by character without context: a final sigma is treated like any other. */
void unicode_lower(struct str *out, const char *text, size_t n);

#endif
