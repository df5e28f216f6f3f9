/* Perceptual hashes, equal to imagehash's.
 *
 * phash compares coefficients with their median. In a flat or symmetric picture most coefficients are zero but for rounding errors, and these
 * then decide the bits. To agree on such pictures too, the transform rounds as the library below imagehash does: scipy's FFT computes a DCT of 32
 * values as a real transform of half-complex data in one pass of radix 2 and two of radix 4, with its own table of cosines. */
#include "cluster/imagehash.h"

#include <string.h>

#include "core/median.h"
#include "file/resize.h"

enum { SIDE = 32, LOW = 8 };

const char *const imagehash_names[] = {"phash", "dhash", "ahash", NULL};

/* cos and sin of 2 pi i / 32, and cos of 2 pi i / 128 for i = 1 .. 31. The FFT makes them from products of two values, so that some differ from the
 * nearest double in the last bit. */
/* clang-format off */
static const double turn[8][2] = {
    {0x1.0000000000000p+0, 0x0.0p+0},
    {0x1.f6297cff75cb0p-1, 0x1.8f8b83c69a60ap-3},
    {0x1.d906bcf328d46p-1, 0x1.87de2a6aea963p-2},
    {0x1.a9b66290ea1a3p-1, 0x1.1c73b39ae68c8p-1},
    {0x1.6a09e667f3bccp-1, 0x1.6a09e667f3bcdp-1},
    {0x1.1c73b39ae68c8p-1, 0x1.a9b66290ea1a3p-1},
    {0x1.87de2a6aea963p-2, 0x1.d906bcf328d46p-1},
    {0x1.8f8b83c69a60ap-3, 0x1.f6297cff75cb0p-1},
};
static const double cosine[SIDE] = {
    1,
    0x1.ff621e3796d7ep-1, 0x1.fd88da3d12526p-1, 0x1.fa7557f08a517p-1, 0x1.f6297cff75cb0p-1, 0x1.f0a7efb9230d7p-1, 0x1.e9f4156c62ddap-1,
    0x1.e212104f686e5p-1, 0x1.d906bcf328d46p-1, 0x1.ced7af43cc773p-1, 0x1.c38b2f180bdb1p-1, 0x1.b728345196e3ep-1, 0x1.a9b66290ea1a3p-1,
    0x1.9b3e047f38741p-1, 0x1.8bc806b151741p-1, 0x1.7b5df226aafafp-1, 0x1.6a09e667f3bccp-1, 0x1.57d69348cec9fp-1, 0x1.44cf325091dd6p-1,
    0x1.30ff7fce17034p-1, 0x1.1c73b39ae68c8p-1, 0x1.073879922ffedp-1, 0x1.e2b5d3806f639p-2, 0x1.b5d1009e15cbfp-2, 0x1.87de2a6aea961p-2,
    0x1.58f9a75ab1fdbp-2, 0x1.294062ed59f04p-2, 0x1.f19f97b215f1cp-3, 0x1.8f8b83c69a60ap-3, 0x1.2c8106e8e6136p-3, 0x1.917a6bc29b424p-4,
    0x1.91f65f10dd810p-5,
};
/* clang-format on */

static const double root2 = 1.41421356237309504880;

/* (re, im) = turn[i] * (x, y) */
static void rotate(double *re, double *im, int i, double x, double y)
{
	*re = turn[i][0] * x - turn[i][1] * y;
	*im = turn[i][0] * y + turn[i][1] * x;
}

/* The first pass: one half-complex sequence of 32 becomes two of 16. in (2, 16), out (2, 16). */
static void split_in_two(double *out, const double *in)
{
	enum { N = 16 };
	const double *a = in, *b = in + N;
	double *even = out, *odd = out + N;

	even[0] = a[0] + b[N - 1];
	odd[0] = a[0] - b[N - 1];
	even[N - 1] = 2 * a[N - 1];
	odd[N - 1] = -2 * b[0];
	for (int i = 2; i < N; i += 2) {
		int j = N - i;

		even[i - 1] = a[i - 1] + b[j - 1];
		even[i] = a[i] - b[j];
		rotate(&odd[i - 1], &odd[i], i / 2, a[i - 1] - b[j - 1], a[i] + b[j]);
	}
}

/* A pass of radix 4: each of m half-complex sequences of 4 n becomes four of n. in (m, 4, n), out (4, m, n); n is 4 or 1. Rotations are by multiples
 * of 2 i / 32 turns. */
static void split_in_four(double *out, const double *in, int n, int m)
{
	for (int k = 0; k < m; k++) {
		const double *a = in + 4 * n * k, *b = a + n, *c = b + n, *d = c + n;
		double *o[4] = {out + n * k, out + n * (m + k), out + n * (2 * m + k), out + n * (3 * m + k)};
		double plus = a[0] + d[n - 1], minus = a[0] - d[n - 1], p = 2 * b[n - 1], q = 2 * c[0];

		o[0][0] = plus + p;
		o[2][0] = plus - p;
		o[3][0] = minus + q;
		o[1][0] = minus - q;
		if (n == 1)
			continue;
		o[0][3] = (a[3] + c[3]) + (a[3] + c[3]);
		o[1][3] = root2 * ((a[3] - c[3]) - (d[0] + b[0]));
		o[2][3] = (d[0] - b[0]) + (d[0] - b[0]);
		o[3][3] = -root2 * ((a[3] - c[3]) + (d[0] + b[0]));
		{ /* the pair of real parts 1 and imaginary parts 2 */
			double r2 = a[1] + d[1], r1 = a[1] - d[1], i1 = a[2] + d[2], i2 = a[2] - d[2];
			double r4 = c[2] + b[2], i3 = c[2] - b[2], r3 = c[1] + b[1], i4 = c[1] - b[1];

			o[0][1] = r2 + r3;
			o[0][2] = i2 + i3;
			rotate(&o[1][1], &o[1][2], 2, r1 - r4, i1 + i4);
			rotate(&o[2][1], &o[2][2], 4, r2 - r3, i2 - i3);
			rotate(&o[3][1], &o[3][2], 6, r1 + r4, i1 - i4);
		}
	}
}

void imagehash_dct(double x[SIDE])
{
	double y[SIDE];

	x[0] *= 2;
	x[SIDE - 1] *= 2;
	for (int k = 1; k < SIDE - 1; k += 2) {
		double before = x[k + 1];

		x[k + 1] -= x[k];
		x[k] = before + x[k];
	}
	split_in_two(y, x);
	split_in_four(x, y, 4, 2);
	split_in_four(y, x, 1, 8);
	x[0] = y[0];
	for (int k = 1, j = SIDE - 1; k < SIDE / 2; k++, j--) {
		double plus = cosine[k] * y[j] + cosine[j] * y[k], minus = cosine[k] * y[k] - cosine[j] * y[j];

		x[k] = .5 * (plus + minus);
		x[j] = .5 * (plus - minus);
	}
	x[SIDE / 2] = y[SIDE / 2] * cosine[SIDE / 2];
}

/* The lowest LOW x LOW coefficients of a transform of the columns, then of the rows. */
static void low_frequencies(double low[LOW * LOW], const uint8_t *pixels)
{
	double rows[LOW][SIDE], line[SIDE];

	for (int x = 0; x < SIDE; x++) {
		for (int y = 0; y < SIDE; y++)
			line[y] = pixels[y * SIDE + x];
		imagehash_dct(line);
		for (int y = 0; y < LOW; y++)
			rows[y][x] = line[y];
	}
	for (int y = 0; y < LOW; y++) {
		imagehash_dct(rows[y]);
		memcpy(low + y * LOW, rows[y], LOW * sizeof *low);
	}
}

static uint64_t phash_bits(const uint8_t *pixels)
{
	double low[LOW * LOW], sorted[LOW * LOW], middle;
	uint64_t bits = 0;

	low_frequencies(low, pixels);
	memcpy(sorted, low, sizeof low);
	middle = median(sorted, LOW * LOW);
	for (int i = 0; i < LOW * LOW; i++)
		bits = bits << 1 | (low[i] > middle);
	return bits;
}

static uint64_t dhash_bits(const uint8_t *pixels)
{
	uint64_t bits = 0;

	for (int y = 0; y < LOW; y++)
		for (int x = 0; x < LOW; x++)
			bits = bits << 1 | (pixels[y * (LOW + 1) + x + 1] > pixels[y * (LOW + 1) + x]);
	return bits;
}

static uint64_t ahash_bits(const uint8_t *pixels)
{
	uint64_t bits = 0;
	int sum = 0;

	for (int i = 0; i < LOW * LOW; i++)
		sum += pixels[i];
	for (int i = 0; i < LOW * LOW; i++)
		bits = bits << 1 | (LOW * LOW * pixels[i] > sum);
	return bits;
}

int imagehash_of(uint64_t *hash, const struct picture *grey, enum imagehash_kind kind, struct err *e)
{
	int height = kind == IMAGEHASH_PHASH ? SIDE : LOW, width = kind == IMAGEHASH_DHASH ? LOW + 1 : height;
	struct picture small = {0};

	if (picture_resize(&small, grey, width, height, RESIZE_LANCZOS, e))
		return -1;
	*hash = kind == IMAGEHASH_PHASH ? phash_bits(small.pixels) : kind == IMAGEHASH_DHASH ? dhash_bits(small.pixels) : ahash_bits(small.pixels);
	picture_release(&small);
	return 0;
}
