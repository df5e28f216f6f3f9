/* Escapes text that came from files: control characters, bidirectional marks, invalid UTF-8. */
#include "core/escape.h"

#include <stdint.h>
#include <string.h>

/* The length in bytes of the UTF-8 sequence at c, and its code point; 0 if it is invalid. */
static int sequence(const unsigned char *c, uint32_t *point)
{
	int n = *c < 0x80 ? 1 : *c >= 0xc2 && *c < 0xe0 ? 2 : *c >= 0xe0 && *c < 0xf0 ? 3 : *c >= 0xf0 && *c < 0xf5 ? 4 : 0;
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};

	if (n < 2) {
		*point = *c;
		return n;
	}
	*point = *c & (0x7f >> n);
	for (int i = 1; i < n; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return 0;
		*point = *point << 6 | (c[i] & 0x3f);
	}
	return *point < least[n] || *point > 0x10ffff || (*point >= 0xd800 && *point < 0xe000) ? 0 : n;
}

static int is_plain(uint32_t c)
{
	return c >= 0x20 && c != 0x7f && !(c >= 0x80 && c < 0xa0) && c != 0xad && c != 0x61c && !(c >= 0x200b && c <= 0x200f) &&
	       !(c >= 0x2028 && c <= 0x202e) && !(c >= 0x2060 && c <= 0x206f) && c != 0xfeff && !(c >= 0xfff9 && c <= 0xfffb) &&
	       !(c >= 0xe0000 && c <= 0xe0fff);
}

char *escape_text(char *out, size_t size, const char *text, int utf8)
{
	static const char digit[] = "0123456789abcdef";
	size_t at = 0;

	for (const unsigned char *c = (const unsigned char *)text; *c;) {
		uint32_t point;
		int n = sequence(c, &point), plain = n && is_plain(point) && (utf8 || n == 1);
		size_t room = plain ? (size_t)n : 4 * (size_t)(n ? n : 1);

		if (at + room + 1 > size)
			break;
		if (plain) {
			memcpy(out + at, c, (size_t)n);
		} else {
			for (int i = 0; i < (n ? n : 1); i++)
				memcpy(out + at + 4 * i, (const char[]){'\\', 'x', digit[c[i] >> 4], digit[c[i] & 15]}, 4);
		}
		at += room;
		c += n ? n : 1;
	}
	out[at] = 0;
	return out;
}
