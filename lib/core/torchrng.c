/* PyTorch's CPU generator: the Mersenne Twister, and the normals that torch.randn computes from it. */
#include "core/torchrng.h"

#include <math.h>
#include <string.h>

enum { GROUP = 16, HALF = GROUP / 2 };

void torch_seed(struct torch_rng *r, uint64_t seed)
{
	mt19937_seed(&r->words, (uint32_t)seed);
	r->has_spare = 0;
}

static uint32_t bits_of(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof u);
	return u;
}

static float of_bits(uint32_t u)
{
	float x;

	memcpy(&x, &u, sizeof x);
	return x;
}

static float poly(const float *c, int n, float x)
{
	float y = c[0];

	for (int i = 1; i < n; i++)
		y = fmaf(y, x, c[i]);
	return y;
}

/* Cephes' logf and sincosf as in PyTorch's avx_mathfun.h, with fma where PyTorch's compiler fuses a product and a sum. x > 0, normal. */
static float cephes_log(float x)
{
	static const float c[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,  -1.2420140846e-1f, 1.4249322787e-1f,
	                          -1.6668057665e-1f, 2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
	uint32_t u = bits_of(x);
	float m = of_bits((u & 0x807fffffu) | 0x3f000000u), e = (float)((int)(u >> 23) - 126), y, z;

	if (m < .707106781186547524f) {
		e -= 1;
		m = m - 1 + m;
	} else {
		m -= 1;
	}
	z = m * m;
	y = fmaf(poly(c, 9, m) * m, z, e * -2.12194440e-4f);
	y = fmaf(-z, .5f, y);
	return fmaf(e, .693359375f, m + y);
}

/* x >= 0 */
static void cephes_sincos(float x, float *s, float *c)
{
	static const float cosine[] = {2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f};
	static const float sine[] = {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f};
	uint32_t j = ((uint32_t)(x * 1.27323954473516f) + 1) & ~1u, sine_sign = (j & 4) << 29, cosine_sign = (~(j - 2) & 4) << 29;
	float q = (float)j, z, y, y2;

	x = fmaf(q, -.78515625f, x);
	x = fmaf(q, -2.4187564849853515625e-4f, x);
	x = fmaf(q, -3.77489497744594108e-8f, x);
	z = x * x;
	y = fmaf(poly(cosine, 3, z) * z, z, -(z * .5f)) + 1;
	y2 = fmaf(poly(sine, 3, z) * z, x, x);
	*s = of_bits(bits_of(j & 2 ? y : y2) ^ sine_sign);
	*c = of_bits(bits_of(j & 2 ? y2 : y) ^ cosine_sign);
}

static float uniform(struct torch_rng *r)
{
	return (float)(mt19937_next(&r->words) & 0xffffffu) * 0x1p-24f;
}

/* Box-Muller: the first half are radii, the second angles. */
static void normal_group(float *x)
{
	for (int i = 0; i < HALF; i++) {
		float radius = sqrtf(-2 * cephes_log(1 - x[i])), s, c;

		cephes_sincos(6.2831853071795864769f * x[i + HALF], &s, &c);
		x[i] = radius * c;
		x[i + HALF] = radius * s;
	}
}

static double uniform53(struct torch_rng *r)
{
	uint64_t high = mt19937_next(&r->words);

	return (double)((high << 32 | mt19937_next(&r->words)) & 0x1fffffffffffffu) * 0x1p-53;
}

static float normal_one(struct torch_rng *r)
{
	double angle, radius;

	if (r->has_spare) {
		r->has_spare = 0;
		return (float)r->spare;
	}
	angle = 2 * 3.14159265358979323846 * uniform53(r);
	radius = sqrt(-2 * log1p(-uniform53(r)));
	r->spare = radius * sin(angle);
	r->has_spare = 1;
	return (float)(radius * cos(angle));
}

void torch_randn(struct torch_rng *r, float *out, int64_t n)
{
	if (n < GROUP) {
		for (int64_t i = 0; i < n; i++)
			out[i] = normal_one(r);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		out[i] = uniform(r);
	for (int64_t i = 0; i + GROUP <= n; i += GROUP)
		normal_group(out + i);
	if (n % GROUP == 0)
		return;
	for (int64_t i = n - GROUP; i < n; i++)
		out[i] = uniform(r);
	normal_group(out + n - GROUP);
}
