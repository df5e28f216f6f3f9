/* Histograms whose bins double in width as the range of the values grows. */
#include "core/binning.h"

#include <math.h>
#include <string.h>

enum { LEAST = -1000, DIGITS = 40 }; /* exponents: of the narrowest bin; below that of a value, so that the numbers of bins are exact integers */

double binning_width(const struct binning *b)
{
	return ldexp(1, b->exponent);
}

/* floor(i / 2) */
static int64_t half_of(int64_t i)
{
	return (i - (i < 0 ? i & 1 : 0)) / 2;
}

/* Double the width. */
static void binning_coarsen(struct binning *b)
{
	int64_t first = half_of(b->first), last = half_of(b->last);
	int64_t count[BINNING_BINS][BINNING_KINDS] = {{0}};

	for (int64_t i = b->first; i <= b->last && b->values; i++)
		for (int k = 0; k < BINNING_KINDS; k++)
			count[half_of(i) - first][k] += b->count[i - b->first][k];
	memcpy(b->count, count, sizeof count);
	b->first = first;
	b->last = last;
	b->exponent++;
}

void binning_add(struct binning *b, double v, int kind)
{
	int need = v != 0 ? ilogb(v) - DIGITS : LEAST;
	int64_t i, first, last;

	need = need < LEAST ? LEAST : need;
	if (!b->values)
		b->exponent = need;
	while (b->exponent < need)
		binning_coarsen(b);
	i = (int64_t)floor(ldexp(v, -b->exponent));
	if (v < 0 && !i) /* the quotient was too small for a double */
		i = -1;
	for (;;) {
		first = b->values && b->first < i ? b->first : i;
		last = b->values && b->last > i ? b->last : i;
		if (last - first < BINNING_BINS)
			break;
		binning_coarsen(b);
		i = half_of(i);
	}
	if (b->values && first < b->first) {
		memmove(b->count[b->first - first], b->count[0], (size_t)(b->last - b->first + 1) * sizeof b->count[0]);
		memset(b->count, 0, (size_t)(b->first - first) * sizeof b->count[0]);
	}
	b->first = first;
	b->last = last;
	b->count[i - first][kind]++;
	b->values++;
	b->fractions += v != floor(v);
}
