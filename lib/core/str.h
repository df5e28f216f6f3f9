/* Growing strings, and numbers parsed with their range. */
#ifndef DDM_CORE_STR_H
#define DDM_CORE_STR_H

#include <stddef.h>
#include <stdint.h>

/* A zero-initialised struct is the empty string. p is NUL-terminated once something was added and NULL before; str_text is never NULL. */
struct str {
	char *p;
	size_t len, cap;
};

void str_add(struct str *s, const void *bytes, size_t n);
void str_puts(struct str *s, const char *text);
void str_printf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *str_text(const struct str *s); /* borrowed until s changes */
void str_reset(struct str *s);             /* length 0, memory kept */
void str_release(struct str *s);

/* printf into new memory; caller frees with mem_free. */
char *str_new(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Whole-string numbers: no blanks, no trailing characters, finite, lo <= value <= hi. 0 on success, -1 otherwise and *out
 * is untouched. */
int parse_i64(const char *text, int64_t lo, int64_t hi, int64_t *out);
int parse_u64(const char *text, uint64_t *out);
int parse_f64(const char *text, double lo, double hi, double *out);
/* The inverse: the fewest digits that give v back, "0.8", "16", "1e-05". */
enum { F64_TEXT = 32 };
void print_f64(char text[F64_TEXT], double v);
/* "90", "90s", "15m", "2h", "1d" -> seconds. */
int parse_duration(const char *text, double *seconds);
/* "512", "64K", "20M", "3G" (powers of 1024) -> bytes. */
int parse_size(const char *text, uint64_t *bytes);

int str_ends(const char *s, const char *suffix); /* 1 when s ends in suffix */

#endif
