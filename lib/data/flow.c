/* Computes dense optical flow between two frames, and warps a frame by a flow. */
#include "data/flow.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "core/mem.h"

enum {
	LEVELS_MAX = 6,
	COARSEST = 8,   /* no side of a level is smaller */
	ITERATIONS = 4, /* per level */
	RADIUS = 5,     /* of the window */
	PRODUCTS = 5    /* sums per window: xx, xy, yy, xt, yt */
};

const char flow_definition[] =
    "Flow 1: grey in [0, 1]; pyramid by 1 4 6 4 1 over 16, every second pixel, while both sides stay at least 8, at most 6 levels. From the coarsest "
    "level on, 4 times: warp the second frame by Catmull and Rom's cubic; central differences of the mean of both frames; sums of products, without "
    "positions outside the frame, weighted by 1 10 45 120 210 252 210 120 45 10 1 over 1024 along both axes; solve (A + 1e-5) d = -b, each component "
    "of d at most 1, that of the flow at most half the shorter side; the median of 3 x 3; twice the flow, bilinear, starts the next level. The flow "
    "of the finest level is multiplied by T / (T + 1e-6) before its median, T the weighted sum of squared gradients of the first frame. In float.";

static const float weights[2 * RADIUS + 1] = {1 / 1024.f,   10 / 1024.f,  45 / 1024.f, 120 / 1024.f, 210 / 1024.f, 252 / 1024.f,
                                              210 / 1024.f, 120 / 1024.f, 45 / 1024.f, 10 / 1024.f,  1 / 1024.f};
static const float damping = 1e-5f; /* below the squared gradients of visible texture (.01 a pixel: 1e-4), above those of 8-bit rounding (6e-7) */
static const float flat = 1e-6f;    /* the sum of both squared gradients at which a flow is halved in the end */

struct level {
	int w, h;
	const float *a, *b; /* (h, w) */
	float *own;         /* (2, h, w): both, from level 1 on */
};

struct flow {
	int levels;
	struct level level[LEVELS_MAX]; /* [0]: the frames as they are */
	float *v[2];                    /* (2, h, w) of a level, two for the step from level to level */
	float *warped, *inside, *mean;  /* (h, w) */
	float *product[PRODUCTS];       /* (h, w) */
	float *rows;                    /* (h, w): sums along x */
	float *line;                    /* (w + 2 RADIUS) */
	float *memory;
};

struct flow *flow_new(int width, int height, struct err *e)
{
	struct flow *f = mem_zalloc(1, sizeof *f);
	size_t n = (size_t)width * (size_t)height, line = (size_t)(width + 2 * RADIUS), total = n * (4 + 3 + PRODUCTS + 1) + line;
	float *p;

	assert(width >= FLOW_SIDE_MIN && height >= FLOW_SIDE_MIN);
	for (int w = width, h = height; f->levels < LEVELS_MAX && w >= COARSEST && h >= COARSEST; w = (w + 1) / 2, h = (h + 1) / 2) {
		f->level[f->levels++] = (struct level){.w = w, .h = h};
		total += f->levels > 1 ? 2 * (size_t)w * (size_t)h : 0;
	}
	f->memory = p = mem_try(total, sizeof *p, "an optical flow", e);
	if (!p) {
		mem_free(f);
		return NULL;
	}
	f->v[0] = p, f->v[1] = p + 2 * n, p += 4 * n;
	f->warped = p, f->inside = p + n, f->mean = p + 2 * n, p += 3 * n;
	for (int k = 0; k < PRODUCTS; k++, p += n)
		f->product[k] = p;
	f->rows = p, p += n;
	f->line = p, p += line;
	for (int l = 1; l < f->levels; l++) {
		size_t m = (size_t)f->level[l].w * (size_t)f->level[l].h;

		f->level[l].own = p, p += 2 * m;
	}
	return f;
}

void flow_free(struct flow *f)
{
	if (f)
		mem_free(f->memory);
	mem_free(f);
}

static int clamp(int i, int n)
{
	return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* out ((h + 1) / 2, (w + 1) / 2) from in (h, w). */
static void halve(float *out, const float *in, int w, int h)
{
	static const float taps[5] = {1 / 16.f, 4 / 16.f, 6 / 16.f, 4 / 16.f, 1 / 16.f};

	for (int y = 0; y < h; y += 2)
		for (int x = 0; x < w; x += 2) {
			float s = 0;

			for (int j = 0; j < 5; j++) {
				const float *row = in + (int64_t)clamp(y + j - 2, h) * w;
				float t = 0;

				for (int i = 0; i < 5; i++)
					t += taps[i] * row[clamp(x + i - 2, w)];
				s += taps[j] * t;
			}
			*out++ = s;
		}
}

static void level_fill(struct level *l, const struct level *finer)
{
	float *a = l->own, *b = a + (int64_t)l->w * l->h;

	halve(a, finer->a, finer->w, finer->h);
	halve(b, finer->b, finer->w, finer->h);
	l->a = a;
	l->b = b;
}

/* Weights of the pixels at -1, 0, 1 and 2 for position 0 <= f < 1 (Catmull and Rom). */
static void cubic(float k[4], float f)
{
	k[0] = ((-.5f * f + 1) * f - .5f) * f;
	k[1] = (1.5f * f - 2.5f) * f * f + 1;
	k[2] = ((-1.5f * f + 2) * f + .5f) * f;
	k[3] = (.5f * f - .5f) * f * f;
}

/* Linear interpolation would dampen fine texture between pixels, and so bias displacements towards whole pixels. */
void flow_warp(float *out, float *inside, const float *b, const float *v, int w, int h)
{
	int64_t n = (int64_t)w * h;

	for (int y = 0; y < h; y++)
		for (int x = 0; x < w; x++) {
			int64_t i = (int64_t)y * w + x;
			float px = (float)x + v[i], py = (float)y + v[n + i], kx[4], ky[4], s = 0;
			float cx = px < 0                ? 0
			           : px > (float)(w - 1) ? (float)(w - 1)
			                                 : px,
			      cy = py < 0                ? 0
			           : py > (float)(h - 1) ? (float)(h - 1)
			                                 : py;
			int ix = (int)cx, iy = (int)cy, at[4];

			cubic(kx, cx - (float)ix);
			cubic(ky, cy - (float)iy);
			for (int k = 0; k < 4; k++)
				at[k] = clamp(ix + k - 1, w);
			for (int k = 0; k < 4; k++) {
				const float *row = b + (int64_t)clamp(iy + k - 1, h) * w;

				s += ky[k] * (kx[0] * row[at[0]] + kx[1] * row[at[1]] + kx[2] * row[at[2]] + kx[3] * row[at[3]]);
			}
			out[i] = s;
			if (inside)
				inside[i] = px == cx && py == cy;
		}
}

/* Products of the gradients of the mean frame and the difference in time. */
static void products(struct flow *f, const struct level *l)
{
	int w = l->w, h = l->h;

	for (int64_t i = 0; i < (int64_t)w * h; i++)
		f->mean[i] = .5f * (l->a[i] + f->warped[i]);
	for (int y = 0; y < h; y++) {
		const float *above = f->mean + (int64_t)clamp(y - 1, h) * w, *below = f->mean + (int64_t)clamp(y + 1, h) * w;
		const float *row = f->mean + (int64_t)y * w;

		for (int x = 0; x < w; x++) {
			int64_t i = (int64_t)y * w + x;
			float gx = .5f * (row[x + 1 < w ? x + 1 : x] - row[x > 0 ? x - 1 : x]), gy = .5f * (below[x] - above[x]);
			float gt = f->warped[i] - l->a[i], m = f->inside[i];

			f->product[0][i] = m * gx * gx;
			f->product[1][i] = m * gx * gy;
			f->product[2][i] = m * gy * gy;
			f->product[3][i] = m * gx * gt;
			f->product[4][i] = m * gy * gt;
		}
	}
}

/* Sums over windows, in place; zeros lie outside the frame. */
static void windows(struct flow *f, float *p, int w, int h)
{
	memset(f->line, 0, (size_t)(w + 2 * RADIUS) * sizeof *f->line);
	for (int y = 0; y < h; y++) {
		float *out = f->rows + (int64_t)y * w;

		memcpy(f->line + RADIUS, p + (int64_t)y * w, (size_t)w * sizeof *p);
		memset(out, 0, (size_t)w * sizeof *out);
		for (int k = 0; k <= 2 * RADIUS; k++)
			for (int x = 0; x < w; x++)
				out[x] += weights[k] * f->line[x + k];
	}
	memset(p, 0, (size_t)w * (size_t)h * sizeof *p);
	for (int y = 0; y < h; y++)
		for (int k = 0; k <= 2 * RADIUS; k++) {
			int from = y + k - RADIUS;
			const float *in = f->rows + (int64_t)from * w;

			if (from < 0 || from >= h)
				continue;
			for (int x = 0; x < w; x++)
				p[(int64_t)y * w + x] += weights[k] * in[x];
		}
}

static float limited(float x, float most)
{
	return x < -most ? -most : x > most ? most : x;
}

/* One step of Gauss and Newton for every window. */
static void improve(struct flow *f, float *v, const struct level *l)
{
	int64_t n = (int64_t)l->w * l->h;
	float most = .5f * (float)(l->w < l->h ? l->w : l->h);

	flow_warp(f->warped, f->inside, l->b, v, l->w, l->h);
	products(f, l);
	for (int k = 0; k < PRODUCTS; k++)
		windows(f, f->product[k], l->w, l->h);
	for (int64_t i = 0; i < n; i++) {
		float xx = f->product[0][i] + damping, xy = f->product[1][i], yy = f->product[2][i] + damping;
		float xt = f->product[3][i], yt = f->product[4][i], scale = 1 / (xx * yy - xy * xy);

		v[i] = limited(v[i] + limited((xy * yt - yy * xt) * scale, 1), most);
		v[n + i] = limited(v[n + i] + limited((xy * xt - xx * yt) * scale, 1), most);
	}
}

/* Coarser levels carry the flow of textured places far into flat ones, where nothing is seen to move. */
static void settle(struct flow *f, float *v, const struct level *l)
{
	int64_t n = (int64_t)l->w * l->h;
	float *t = f->product[0];

	for (int y = 0; y < l->h; y++)
		for (int x = 0; x < l->w; x++) {
			const float *row = l->a + (int64_t)y * l->w;
			float gx = .5f * (row[clamp(x + 1, l->w)] - row[clamp(x - 1, l->w)]);
			float gy = .5f * (l->a[(int64_t)clamp(y + 1, l->h) * l->w + x] - l->a[(int64_t)clamp(y - 1, l->h) * l->w + x]);

			t[(int64_t)y * l->w + x] = gx * gx + gy * gy;
		}
	windows(f, t, l->w, l->h);
	for (int64_t i = 0; i < n; i++) {
		float keep = t[i] / (t[i] + flat);

		v[i] *= keep;
		v[n + i] *= keep;
	}
}

static void order(float *a, float *b)
{
	float low = *a < *b ? *a : *b, high = *a < *b ? *b : *a;

	*a = low;
	*b = high;
}

/* The median of nine by 19 comparisons (Paeth, "Median finding on a 3 x 3 grid", Graphics Gems, 1990). */
static float median9(float p[9])
{
	static const unsigned char net[19][2] = {{1, 2}, {4, 5}, {7, 8}, {0, 1}, {3, 4}, {6, 7}, {1, 2}, {4, 5}, {7, 8}, {0, 3},
	                                         {5, 8}, {4, 7}, {3, 6}, {1, 4}, {2, 5}, {4, 7}, {4, 2}, {6, 4}, {4, 2}};

	for (int k = 0; k < 19; k++)
		order(p + net[k][0], p + net[k][1]);
	return p[4];
}

/* Removes single outliers, which a window with little texture gives. */
static void median(float *out, const float *in, int w, int h)
{
	for (int y = 0; y < h; y++)
		for (int x = 0; x < w; x++) {
			float p[9];

			for (int j = 0; j < 3; j++)
				for (int i = 0; i < 3; i++)
					p[3 * j + i] = in[(int64_t)clamp(y + j - 1, h) * w + clamp(x + i - 1, w)];
			out[(int64_t)y * w + x] = median9(p);
		}
}

/* out (h, w): twice in (hc, wc), bilinear; pixel x of the finer level lies at x / 2 of the coarser. */
static void enlarge(float *out, int w, int h, const float *in, int wc, int hc)
{
	for (int y = 0; y < h; y++)
		for (int x = 0; x < w; x++) {
			const float *p = in + (int64_t)(y / 2) * wc + x / 2;
			int right = x % 2 && x / 2 + 1 < wc, down = y % 2 && y / 2 + 1 < hc ? wc : 0;

			out[(int64_t)y * w + x] = .5f * (p[0] + p[right] + p[down] + p[down + right]);
		}
}

void flow_between(struct flow *f, float *v, const float *a, const float *b)
{
	int w = f->level[0].w, h = f->level[0].h;
	size_t n = (size_t)w * (size_t)h;

	if (!memcmp(a, b, n * sizeof *a)) {
		memset(v, 0, 2 * n * sizeof *v); /* no difference in time, so no step leaves 0 */
		return;
	}
	f->level[0].a = a;
	f->level[0].b = b;
	for (int l = 1; l < f->levels; l++)
		level_fill(&f->level[l], &f->level[l - 1]);
	for (int l = f->levels - 1; l >= 0; l--) {
		const struct level *now = &f->level[l], *coarser = now + 1;
		size_t m = (size_t)now->w * (size_t)now->h, c = l + 1 < f->levels ? (size_t)coarser->w * (size_t)coarser->h : 0;

		if (!c)
			memset(f->v[0], 0, 2 * m * sizeof *f->v[0]);
		for (int k = 0; k < 2 && c; k++)
			enlarge(f->v[0] + (size_t)k * m, now->w, now->h, f->v[1] + (size_t)k * c, coarser->w, coarser->h);
		for (int k = 0; k < ITERATIONS; k++)
			improve(f, f->v[0], now);
		if (!l)
			settle(f, f->v[0], now);
		for (int k = 0; k < 2; k++)
			median((l ? f->v[1] : v) + (size_t)k * m, f->v[0] + (size_t)k * m, now->w, now->h);
	}
}
