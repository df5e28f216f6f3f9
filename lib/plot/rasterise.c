/* Draws a scene as pixels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "plot/scene.h"
#include "plot/strokefont.h"

/* SUB scan lines per row of pixels; along a scan line coverage is exact. */
enum { SUB = 16, MOST_PIXELS = 1 << 26 };

/* The point at which an edge crosses a scan line, and whether the edge goes up or down. */
struct crossing {
	int line;
	float x;
	int way;
};

/* The state of drawing; cross holds the edges of one item. Pieces of an item may overlap: a point inside any of them is inside. */
struct raster {
	struct picture *picture;
	double scale;
	struct crossing *cross;
	size_t n, room;
	float *cover; /* (picture->width) */
	double half;  /* half the width of a stroke, in pixels */
	int round;    /* 1: strokes have round ends */
};

static void edge(struct raster *r, double x0, double y0, double x1, double y1)
{
	int way = y0 < y1 ? 1 : -1, from, to;
	double limit = (double)r->picture->height * SUB;

	if (y0 > y1) {
		double x = x0, y = y0;

		x0 = x1, y0 = y1, x1 = x, y1 = y;
	}
	y0 *= SUB;
	y1 *= SUB;
	from = (int)ceil(fmin(fmax(y0, 0), limit) - .5);
	to = (int)ceil(fmin(fmax(y1, 0), limit) - .5);
	for (int line = from < 0 ? 0 : from; line < to; line++) {
		if (r->n == r->room) {
			r->room = r->room ? 2 * r->room : 1024;
			r->cross = mem_resize(r->cross, r->room, sizeof *r->cross);
		}
		r->cross[r->n++] = (struct crossing){line, (float)(x0 + (x1 - x0) * ((line + .5 - y0) / (y1 - y0))), way};
	}
}

static void polygon(struct raster *r, const double *xy, int n)
{
	for (int i = 0; i < n; i++) {
		int j = (i + 1) % n;

		edge(r, xy[2 * i], xy[2 * i + 1], xy[2 * j], xy[2 * j + 1]);
	}
}

/* Add a disc, with the same direction of rotation as the rectangles of `stroke`, so that overlaps do not cancel. */
static void disc(struct raster *r, double x, double y)
{
	int n = r->half < 1.5 ? 10 : 20;
	double xy[40];

	for (int i = 0; i < n; i++) {
		xy[2 * i] = x + r->half * cos(-2 * M_PI * i / n);
		xy[2 * i + 1] = y + r->half * sin(-2 * M_PI * i / n);
	}
	polygon(r, xy, n);
}

/* 1 if the line bends so sharply at p that the rectangles of its two segments leave a gap. */
static int turns(const double *p)
{
	double ax = p[0] - p[-2], ay = p[1] - p[-1], bx = p[2] - p[0], by = p[3] - p[1];
	double cross = ax * by - ay * bx, along = ax * bx + ay * by;

	return along <= 0 || fabs(cross) > .02 * along;
}

/* Add a line in pixels of the picture, as a rectangle for each segment and a disc at sharp bends. */
static void stroke(struct raster *r, const double *xy, int n)
{
	for (int i = 0; i + 1 < n; i++) {
		double x0 = xy[2 * i], y0 = xy[2 * i + 1], x1 = xy[2 * i + 2], y1 = xy[2 * i + 3];
		double length = hypot(x1 - x0, y1 - y0);
		double nx = length > 0 ? -(y1 - y0) / length * r->half : 0, ny = length > 0 ? (x1 - x0) / length * r->half : 0;
		const double box[8] = {x0 + nx, y0 + ny, x1 + nx, y1 + ny, x1 - nx, y1 - ny, x0 - nx, y0 - ny};

		polygon(r, box, 4);
		if (i ? turns(xy + 2 * i) : r->round)
			disc(r, x0, y0);
	}
	if (r->round)
		disc(r, xy[2 * n - 2], xy[2 * n - 1]);
}

static void letter(void *arg, const double *xy, int n)
{
	stroke(arg, xy, n);
}

/* Draw a dashed line. */
static void dashed(struct raster *r, const double *xy, int n, const double *pattern, int patterns)
{
	double *piece = mem_zalloc((size_t)n + 1, 2 * sizeof *piece), left = pattern[0] * r->scale;
	int m = 1, phase = 0;

	memcpy(piece, xy, 2 * sizeof *xy);
	for (int i = 0; i + 1 < n; i++) {
		double x = xy[2 * i], y = xy[2 * i + 1], length = hypot(xy[2 * i + 2] - x, xy[2 * i + 3] - y), at = 0;

		while (length - at > left) {
			at += left;
			piece[2 * m] = x + (xy[2 * i + 2] - x) * (at / length);
			piece[2 * m + 1] = y + (xy[2 * i + 3] - y) * (at / length);
			if (phase % 2 == 0)
				stroke(r, piece, m + 1);
			memmove(piece, piece + 2 * m, 2 * sizeof *piece);
			m = 1;
			phase = (phase + 1) % patterns;
			left = pattern[phase] * r->scale;
		}
		left -= length - at;
		piece[2 * m] = xy[2 * i + 2];
		piece[2 * m + 1] = xy[2 * i + 3];
		m++;
	}
	if (phase % 2 == 0 && m > 1)
		stroke(r, piece, m);
	mem_free(piece);
}

static int by_place(const void *a, const void *b)
{
	const struct crossing *p = a, *q = b;

	if (p->line != q->line)
		return p->line < q->line ? -1 : 1;
	if (p->x != q->x)
		return p->x < q->x ? -1 : 1;
	return p->way - q->way;
}

static void span(struct raster *r, float x0, float x1)
{
	int width = r->picture->width, first, last;

	x0 = x0 < 0 ? 0 : x0;
	x1 = x1 > (float)width ? (float)width : x1;
	if (x1 <= x0)
		return;
	first = (int)x0;
	last = (int)x1;
	if (first == last) {
		r->cover[first] += (x1 - x0) / SUB;
		return;
	}
	r->cover[first] += ((float)(first + 1) - x0) / SUB;
	for (int i = first + 1; i < last; i++)
		r->cover[i] += 1.f / SUB;
	if (last < width)
		r->cover[last] += (x1 - (float)last) / SUB;
}

static void blend(struct raster *r, int row, const struct scene_pen *pen)
{
	uint8_t *p = r->picture->pixels + (size_t)row * (size_t)r->picture->width * 3;
	uint32_t rgb = scene_rgb(pen->colour);

	for (int i = 0; i < r->picture->width; i++, p += 3) {
		double a = pen->opacity * fmin(r->cover[i], 1);

		for (int c = 0; c < 3 && a > 0; c++)
			p[c] = (uint8_t)lrint(p[c] + a * ((double)(rgb >> (16 - 8 * c) & 255) - p[c]));
	}
}

/* Fill the area enclosed by the collected edges, and clear the list. */
static void fill(struct raster *r, const struct scene_pen *pen)
{
	qsort(r->cross, r->n, sizeof *r->cross, by_place);
	for (size_t i = 0; i < r->n;) {
		int row = r->cross[i].line / SUB;

		memset(r->cover, 0, (size_t)r->picture->width * sizeof *r->cover);
		while (i < r->n && r->cross[i].line / SUB == row) {
			int line = r->cross[i].line, inside = 0;
			float from = 0;

			for (; i < r->n && r->cross[i].line == line; i++) {
				if (!inside)
					from = r->cross[i].x;
				inside += r->cross[i].way;
				if (!inside)
					span(r, from, r->cross[i].x);
			}
		}
		blend(r, row, pen);
	}
	r->n = 0;
}

static void text_fill(struct raster *r, const struct scene_item *item)
{
	double size = item->size * r->scale, width = strokefont_width(item->text, size);
	double x = item->xy[0] * r->scale - (item->anchor == SCENE_START ? 0 : item->anchor == SCENE_MIDDLE ? width / 2 : width);

	r->half = size * (item->bold ? .115 : .078) / 2;
	r->round = 1;
	strokefont_draw(item->text, x, item->xy[1] * r->scale, size, letter, r);
}

static void item_draw(struct raster *r, const struct scene_item *item)
{
	double *xy = mem_zalloc((size_t)item->n, 2 * sizeof *xy);
	const double *pattern;
	int dashes = scene_dash(item->pen.dash, &pattern);

	for (int i = 0; i < 2 * item->n; i++)
		xy[i] = item->xy[i] * r->scale;
	r->half = item->pen.width * r->scale / 2;
	r->round = 0;
	if (item->text)
		text_fill(r, item);
	else if (item->pen.width > 0 && dashes)
		dashed(r, xy, item->n, pattern, dashes);
	else if (item->pen.width > 0)
		stroke(r, xy, item->n);
	else
		polygon(r, xy, item->n);
	fill(r, &item->pen);
	mem_free(xy);
}

int scene_picture(struct picture *p, const struct scene *s, double scale, struct err *e)
{
	struct raster r = {.picture = p, .scale = scale};
	double width = ceil(s->width * scale), height = ceil(s->height * scale);

	if (!(width >= 1 && height >= 1 && width * height <= MOST_PIXELS))
		return err_set(e, ERR_USAGE, "a picture of %g x %g pixels is beyond the limit of %d pixels", width, height, MOST_PIXELS);
	if (picture_alloc(p, (int)width, (int)height, 3, e))
		return -1;
	memset(p->pixels, 255, (size_t)p->width * (size_t)p->height * 3);
	r.cover = mem_zalloc((size_t)p->width + 1, sizeof *r.cover);
	for (int i = 0; i < s->n; i++)
		item_draw(&r, &s->item[i]);
	mem_free(r.cover);
	mem_free(r.cross);
	return 0;
}
