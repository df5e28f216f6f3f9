/* Computes the warping error of a clip. */
#include "metric/warperror.h"

#include <stdint.h>

#include "core/mem.h"
#include "data/motionfeat.h"

struct work {
	int w, h;
	int64_t n;
	float *grey[2];      /* (h, w) */
	float *there, *back; /* (2, h, w): the flow to the next frame, and from it */
	float *met;          /* (2, h, w): the flow back, where the flow there leads */
	float *inside, *plane, *warped;
};

/* Whether pixel i is seen in both frames: the flow back undoes the flow there, and the flow has no edge (Sundaram, Brox, Keutzer 2010). */
static int is_seen(const struct work *k, int x, int y)
{
	int64_t i = (int64_t)y * k->w + x, n = k->n;
	float vx = k->there[i], vy = k->there[n + i], bx = k->met[i], by = k->met[n + i], sum, slope = 0;
	float there = vx * vx + vy * vy, back = bx * bx + by * by;

	sum = (vx + bx) * (vx + bx) + (vy + by) * (vy + by);
	for (int c = 0; c < 2; c++) {
		const float *v = k->there + c * n + i;
		float right = x + 1 < k->w ? v[1] - v[0] : 0, down = y + 1 < k->h ? v[k->w] - v[0] : 0;

		slope += right * right + down * down;
	}
	return k->inside[i] > 0 && sum <= .01f * (there + back) + .5f && slope <= .01f * there + .002f;
}

static void plane_of(float *out, const struct picture *p, int c, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = (float)p->pixels[3 * i + c] / 255;
}

static double pair_error(const struct work *k, struct flow *f, const struct picture *a, const struct picture *b)
{
	double sum = 0, seen = 0;

	motion_grey(k->grey[0], k->w, k->h, a);
	motion_grey(k->grey[1], k->w, k->h, b);
	flow_between(f, k->there, k->grey[0], k->grey[1]);
	flow_between(f, k->back, k->grey[1], k->grey[0]);
	for (int c = 0; c < 2; c++)
		flow_warp(k->met + c * k->n, k->inside, k->back + c * k->n, k->there, k->w, k->h);
	for (int c = 0; c < 3; c++) {
		plane_of(k->plane, b, c, k->n);
		flow_warp(k->warped, NULL, k->plane, k->there, k->w, k->h);
		plane_of(k->plane, a, c, k->n);
		for (int y = 0; y < k->h; y++)
			for (int x = 0; x < k->w; x++) {
				int64_t i = (int64_t)y * k->w + x;
				double d = (double)k->warped[i] - k->plane[i];

				if (is_seen(k, x, y))
					sum += d * d, seen++;
			}
	}
	return seen > 0 ? sum / seen : 0;
}

int warp_error(double *out, struct flow *f, const struct picture *p, int frames, struct err *e)
{
	struct work k = {.w = p->width, .h = p->height, .n = (int64_t)p->width * p->height};
	float *m = mem_try(11 * (size_t)k.n, sizeof *m, "a warping error", e);

	if (!m)
		return -1;
	k.grey[0] = m, k.grey[1] = m + k.n, k.there = m + 2 * k.n, k.back = m + 4 * k.n, k.met = m + 6 * k.n;
	k.inside = m + 8 * k.n, k.plane = m + 9 * k.n, k.warped = m + 10 * k.n;
	*out = 0;
	for (int t = 0; t + 1 < frames; t++)
		*out += pair_error(&k, f, p + t, p + t + 1) / (frames - 1);
	mem_free(m);
	return 0;
}
