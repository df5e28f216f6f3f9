/* The blocks of Unicode that hold the letters of each script. */
#include "text/scripts.h"

#include <stddef.h>

#include "text/unicode.h"

enum { PARTS = 6 };

/* clang-format off */
/* Name; 1: its characters are numbers, not letters; first and last character of each block. */
#define SCRIPTS(X) \
	X("latin", 0, {0x41, 0x5a}, {0x61, 0x7a}, {0xc0, 0x24f}, {0x1e00, 0x1eff}) \
	X("greek", 0, {0x370, 0x3ff}, {0x1f00, 0x1fff}) \
	X("cyrillic", 0, {0x400, 0x52f}) \
	X("armenian", 0, {0x531, 0x58a}) \
	X("hebrew", 0, {0x5d0, 0x5f2}) \
	X("arabic", 0, {0x620, 0x6ff}, {0x750, 0x77f}) \
	X("devanagari", 0, {0x900, 0x97f}) \
	X("bengali", 0, {0x980, 0x9ff}) \
	X("tamil", 0, {0xb80, 0xbff}) \
	X("thai", 0, {0xe00, 0xe7f}) \
	X("georgian", 0, {0x10a0, 0x10ff}, {0x1c90, 0x1cbf}) \
	X("ethiopic", 0, {0x1200, 0x139f}) \
	X("cherokee", 0, {0x13a0, 0x13ff}) \
	X("hiragana", 0, {0x3041, 0x3096}) \
	X("katakana", 0, {0x30a1, 0x30fa}) \
	X("hangul", 0, {0xac00, 0xd7a3}) \
	X("han", 0, {0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xf900, 0xfaff}, {0x20000, 0x323af}) \
	X("digits", 1, {0x30, 0x39})

static const struct script {
	int digits;
	uint32_t part[PARTS][2]; /* zeros at the end */
} scripts[] = {
#define SCRIPT_ROW(name, digits, ...) {digits, {__VA_ARGS__}},
	SCRIPTS(SCRIPT_ROW)
#undef SCRIPT_ROW
};

const char *const script_names[] = {
#define SCRIPT_NAME(name, digits, ...) name,
	SCRIPTS(SCRIPT_NAME)
#undef SCRIPT_NAME
	NULL};
/* clang-format on */

int script_of(uint32_t c)
{
	for (int s = 0; s < (int)(sizeof scripts / sizeof *scripts); s++)
		for (int i = 0; i < PARTS && scripts[s].part[i][1]; i++)
			if (c >= scripts[s].part[i][0] && c <= scripts[s].part[i][1])
				return (scripts[s].digits ? unicode_number(c) : unicode_letter(c)) ? s : -1;
	return -1;
}
