/* UTF-8, and through utf8proc normal form C, lower case and classes of characters. */
#include "text/unicode.h"

#include <utf8proc.h>

#include "core/mem.h"

int unicode_letter(uint32_t c)
{
	utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);

	return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

int unicode_number(uint32_t c)
{
	utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);

	return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
}

int unicode_space(uint32_t c)
{
	return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
	       c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

uint32_t utf8_read(const char *p, size_t n, size_t *len)
{
	static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
	uint8_t b = (uint8_t)p[0];
	size_t k = b < 0x80 ? 1 : b >> 5 == 6 ? 2 : b >> 4 == 14 ? 3 : b >> 3 == 30 ? 4 : 0;
	uint32_t c = k == 1 ? b : b & (0xffu >> (k + 1));

	*len = 1;
	if (!k || k > n)
		return 0xfffd;
	for (size_t i = 1; i < k; i++) {
		if (((uint8_t)p[i] & 0xc0) != 0x80)
			return 0xfffd;
		c = c << 6 | ((uint8_t)p[i] & 0x3f);
	}
	if (c < least[k] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0xfffd;
	*len = k;
	return c;
}

void utf8_add(struct str *s, uint32_t c)
{
	char b[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	if (n == 1)
		b[0] = (char)c;
	else
		b[0] = (char)((0xf00u >> n & 0xff) | c >> (6 * (n - 1)));
	for (size_t i = 1; i < n; i++)
		b[i] = (char)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3f));
	str_add(s, b, n);
}

enum { TRAILING_BASE = 0x11a7 }; /* the number before that of the first trailing Hangul consonant; composes with nothing */

/* out += valid UTF-8 in normal form C. */
static void compose(struct str *out, const struct str *text)
{
	const utf8proc_option_t form = (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
	const uint8_t *p = (const uint8_t *)str_text(text);
	utf8proc_ssize_t len = (utf8proc_ssize_t)text->len, n = utf8proc_decompose(p, len, NULL, 0, form);
	utf8proc_int32_t *c = mem_alloc((size_t)n * sizeof *c);

	n = utf8proc_normalize_utf32(c, utf8proc_decompose(p, len, c, n, form), form);
	for (utf8proc_ssize_t i = 0; i < n; i++)
		utf8_add(out, (uint32_t)c[i]);
	mem_free(c);
}

/* utf8proc 2.8 loses a TRAILING_BASE behind a Hangul syllable, so that the text is cut there. */
void unicode_nfc(struct str *out, const char *text, size_t n)
{
	struct str piece = {0};
	size_t len, plain = 0;

	while (plain < n && (uint8_t)text[plain] < 0x80)
		plain++;
	if (plain == n) {
		str_add(out, text, n);
		return;
	}
	for (size_t i = 0; i < n; i += len) {
		uint32_t c = utf8_read(text + i, n - i, &len);

		if (c != TRAILING_BASE) {
			utf8_add(&piece, c);
			continue;
		}
		compose(out, &piece);
		utf8_add(out, c);
		str_reset(&piece);
	}
	compose(out, &piece);
	str_release(&piece);
}

void unicode_lower(struct str *out, const char *text, size_t n)
{
	size_t len;

	for (size_t i = 0; i < n; i += len) {
		uint32_t c = utf8_read(text + i, n - i, &len);

		/* U+0130 alone becomes two characters. */
		utf8_add(out, c == 0x130 ? 'i' : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
		if (c == 0x130)
			utf8_add(out, 0x307);
	}
}
