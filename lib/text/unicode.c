/* UTF-8, normal form C, lower case and classes of characters, from the tables in unicodetable.h. */
#include "text/unicode.h"

#include <string.h>

#include "core/mem.h"
#include "text/unicodetable.h"

#define COUNT(t) (sizeof(t) / sizeof *(t))

/* The row of a table of `columns` numbers each, the first two a range, that holds c; NULL: none. */
static const uint32_t *find(const uint32_t *t, size_t n, size_t columns, uint32_t c)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (t[mid * columns + 1] < c)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && t[lo * columns] <= c ? t + lo * columns : NULL;
}

int unicode_letter(uint32_t c)
{
	return c < 128 ? (c | 32) - 'a' < 26 : find(letters[0], COUNT(letters), 2, c) != NULL;
}

int unicode_number(uint32_t c)
{
	return c < 128 ? c - '0' < 10 : find(numbers[0], COUNT(numbers), 2, c) != NULL;
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

static uint32_t class_of(uint32_t c)
{
	const uint32_t *r = c < 0x300 ? NULL : find(classes[0], COUNT(classes), 3, c);

	return r ? r[2] : 0;
}

static const uint32_t *decomposition(uint32_t c)
{
	size_t lo = 0, hi = COUNT(decompositions);

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (decompositions[mid][0] < c)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < COUNT(decompositions) && decompositions[lo][0] == c ? decompositions[lo] : NULL;
}

/* Characters in the making. */
struct chars {
	uint32_t *v;
	size_t n, cap;
};

static void push(struct chars *s, uint32_t c)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->v = mem_resize(s->v, s->cap, sizeof *s->v);
	}
	s->v[s->n++] = c;
}

/* Hangul: 11172 syllables from S, of 19 leading consonants from L, 21 vowels from V, 27 trailing consonants after T. */
enum { S = 0xac00, L = 0x1100, V = 0x1161, T = 0x11a7, SYLLABLES = 11172, VOWELS = 21, TAILS = 28 };

static void decompose(struct chars *s, uint32_t c)
{
	const uint32_t *d;

	if (c >= S && c < S + SYLLABLES) {
		push(s, L + (c - S) / (VOWELS * TAILS));
		push(s, V + (c - S) / TAILS % VOWELS);
		if ((c - S) % TAILS)
			push(s, T + (c - S) % TAILS);
		return;
	}
	if (c < 0xc0 || !(d = decomposition(c))) {
		push(s, c);
		return;
	}
	decompose(s, d[1]);
	if (d[2])
		decompose(s, d[2]);
}

/* Marks after a base in the order of their classes, equal ones as they came. */
static void order(struct chars *s)
{
	for (size_t i = 1; i < s->n; i++) {
		uint32_t c = s->v[i], k = class_of(c);
		size_t j = i;

		for (; k && j > 0 && class_of(s->v[j - 1]) > k; j--)
			s->v[j] = s->v[j - 1];
		s->v[j] = c;
	}
}

/* 0: they do not compose. */
static uint32_t composed(uint32_t a, uint32_t b)
{
	size_t lo = 0, hi = b < 0x300 ? 0 : COUNT(compositions);

	if (a - L < 19 && b - V < VOWELS)
		return S + ((a - L) * VOWELS + (b - V)) * TAILS;
	if (a - S < SYLLABLES && (a - S) % TAILS == 0 && b - T - 1 < TAILS - 1)
		return a + (b - T);
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		const uint32_t *r = compositions[mid];

		if (r[0] == a && r[1] == b)
			return r[2];
		if (r[0] < a || (r[0] == a && r[1] < b))
			lo = mid + 1;
		else
			hi = mid;
	}
	return 0;
}

static void compose(struct chars *s)
{
	size_t base = s->n, to = 0;
	uint32_t last = 0; /* class of what was kept after the base */

	for (size_t i = 0; i < s->n; i++) {
		uint32_t c = s->v[i], k = class_of(c), both = 0;

		if (base < to && (base + 1 == to || last < k))
			both = composed(s->v[base], c);
		if (both) {
			s->v[base] = both;
			continue;
		}
		if (!k)
			base = to;
		last = k;
		s->v[to++] = c;
	}
	s->n = to;
}

void unicode_nfc(struct str *out, const char *text, size_t n)
{
	struct chars s = {0};
	size_t len, plain = 0;

	while (plain < n && (uint8_t)text[plain] < 0x80)
		plain++;
	if (plain == n) {
		str_add(out, text, n);
		return;
	}
	for (size_t i = 0; i < n; i += len)
		decompose(&s, utf8_read(text + i, n - i, &len));
	order(&s);
	compose(&s);
	for (size_t i = 0; i < s.n; i++)
		utf8_add(out, s.v[i]);
	mem_free(s.v);
}

void unicode_lower(struct str *out, const char *text, size_t n)
{
	size_t len;

	for (size_t i = 0; i < n; i += len) {
		uint32_t c = utf8_read(text + i, n - i, &len);
		const uint32_t *r = c < 128 ? NULL : find(lower_case[0], COUNT(lower_case), 4, c);

		if (c < 128)
			c += c - 'A' < 26 ? 32 : 0;
		else if (r && (c - r[0]) % r[2] == 0)
			c += r[3];
		utf8_add(out, c == 0x130 ? 'i' : c);
		if (c == 0x130)
			utf8_add(out, 0x307); /* the one that becomes two */
	}
}
