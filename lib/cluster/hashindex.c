/* An index of hashes by four bands of their bits. */
#include "cluster/hashindex.h"

#include <string.h>

#include "core/mem.h"

enum {
	BANDS = 4,
	BAND_BITS = 16,
	VALUES = 1 << BAND_BITS,
	WIDEST = 2,   /* most differing bits of a band that are enumerated; with more, a scan of all entries is faster at any number */
	SCANNED = 32, /* measured: so many entries are scanned in the time that one value of all bands takes */
	MIDDLE = 1
};

struct hashindex {
	int most;
	uint64_t (*hash)[HASHINDEX_PARTS]; /* [n] */
	uint64_t *middle;                  /* [n] once more, for a fast scan */
	int64_t n, room;
	int32_t *head[BANDS]; /* [VALUES] the last entry with this value of the band, or -1 */
	int32_t *next[BANDS]; /* [n] the entry before with the same value, or -1 */
	uint16_t *mask;       /* values with at most most / BANDS bits; NULL: too many, every search scans */
	int64_t masks;
};

/* Fill the list of masks with the values that have at most `bits` bits. */
static void find_masks(struct hashindex *x, int bits)
{
	x->mask = mem_zalloc(VALUES, sizeof *x->mask);
	for (int v = 0; v < VALUES; v++)
		if (__builtin_popcount((unsigned)v) <= bits)
			x->mask[x->masks++] = (uint16_t)v;
}

struct hashindex *hashindex_new(int most)
{
	struct hashindex *x = mem_zalloc(1, sizeof *x);

	x->most = most;
	if (most / BANDS <= WIDEST)
		find_masks(x, most / BANDS);
	for (int b = 0; b < BANDS; b++) {
		x->head[b] = mem_alloc(VALUES * sizeof *x->head[b]);
		memset(x->head[b], -1, VALUES * sizeof *x->head[b]);
	}
	return x;
}

void hashindex_free(struct hashindex *x)
{
	if (!x)
		return;
	for (int b = 0; b < BANDS; b++) {
		mem_free(x->head[b]);
		mem_free(x->next[b]);
	}
	mem_free(x->hash);
	mem_free(x->middle);
	mem_free(x->mask);
	mem_free(x);
}

static unsigned band_of(uint64_t hash, int band)
{
	return (unsigned)(hash >> (band * BAND_BITS)) & (VALUES - 1);
}

void hashindex_add(struct hashindex *x, const uint64_t hash[HASHINDEX_PARTS])
{
	if (x->n == x->room) {
		x->room = x->room ? 2 * x->room : 1024;
		x->hash = mem_resize(x->hash, (size_t)x->room, sizeof *x->hash);
		x->middle = mem_resize(x->middle, (size_t)x->room, sizeof *x->middle);
		for (int b = 0; b < BANDS; b++)
			x->next[b] = mem_resize(x->next[b], (size_t)x->room, sizeof *x->next[b]);
	}
	memcpy(x->hash[x->n], hash, sizeof *x->hash);
	x->middle[x->n] = hash[MIDDLE];
	for (int b = 0; b < BANDS; b++) {
		unsigned v = band_of(hash[MIDDLE], b);

		x->next[b][x->n] = x->head[b][v];
		x->head[b][v] = (int32_t)x->n;
	}
	x->n++;
}

int hashindex_distance(const uint64_t a[HASHINDEX_PARTS], const uint64_t b[HASHINDEX_PARTS])
{
	int most = 0;

	for (int p = 0; p < HASHINDEX_PARTS; p++) {
		int d = __builtin_popcountll(a[p] ^ b[p]);

		most = d > most ? d : most;
	}
	return most;
}

struct found {
	int64_t entry;
	int distance;
};

static void consider(const struct hashindex *x, int64_t i, const uint64_t hash[HASHINDEX_PARTS], struct found *f)
{
	int d;

	if (__builtin_popcountll(x->middle[i] ^ hash[MIDDLE]) > f->distance)
		return;
	d = hashindex_distance(x->hash[i], hash);
	if (d < f->distance || (d == f->distance && (f->entry < 0 || i < f->entry)))
		*f = (struct found){i, d};
}

int64_t hashindex_nearest(const struct hashindex *x, const uint64_t hash[HASHINDEX_PARTS], int *distance)
{
	struct found f = {-1, x->most};

	if (!x->mask || x->n < SCANNED * x->masks) {
		const uint64_t *middle = x->middle, wanted = hash[MIDDLE];
		int limit = x->most;

		for (int64_t i = 0; i < x->n; i++)
			if (__builtin_popcountll(middle[i] ^ wanted) <= limit) {
				consider(x, i, hash, &f);
				limit = f.distance;
			}
	} else {
		for (int b = 0; b < BANDS; b++)
			for (int64_t m = 0; m < x->masks; m++)
				for (int32_t i = x->head[b][band_of(hash[MIDDLE], b) ^ x->mask[m]]; i >= 0; i = x->next[b][i])
					consider(x, i, hash, &f);
	}
	*distance = f.distance;
	return f.entry;
}
