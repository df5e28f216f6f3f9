/* Draws lines, markers and intervals, and places labels so that they avoid each other. */
#include "plot/marks.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "plot/charttext.h"
#include "plot/strokefont.h"

int plotbox_has(const struct plotbox *b, double x, double y)
{
	return x >= b->x0 - .5 && x <= b->x1 + .5 && y >= b->y0 - .5 && y <= b->y1 + .5;
}

/* There are eight colours. Further series repeat them with other dashes and markers. */
int mark_dash(int style)
{
	return (style % 8 + style / 8) % SCENE_DASHES;
}

static int marker(int style)
{
	return (style % 8 + style / 8) % 8;
}

static void regular(struct scene *s, int colour, double x, double y, double r, int corners, double turn)
{
	double xy[48];

	for (int i = 0; i < corners; i++) {
		xy[2 * i] = x + r * sin(2 * M_PI * (i + turn) / corners);
		xy[2 * i + 1] = y - r * cos(2 * M_PI * (i + turn) / corners);
	}
	scene_area(s, xy, corners, colour, 1);
}

static void cross(struct scene *s, int colour, double x, double y, double r, double dx, double dy)
{
	const struct scene_pen pen = {colour, r * .55, 1, 0};

	scene_segment(s, x - r * dx, y - r * dy, x + r * dx, y + r * dy, pen);
	scene_segment(s, x + r * dy, y - r * dx, x - r * dy, y + r * dx, pen);
}

void mark_draw(struct scene *s, int style, double x, double y, double r)
{
	int colour = SCENE_SERIES + style % 8;

	switch (marker(style)) {
	case 0:
		regular(s, colour, x, y, r, 16, 0);
		break;
	case 1:
		regular(s, colour, x, y, r * 1.25, 4, .5);
		break;
	case 2:
		regular(s, colour, x, y, r * 1.3, 3, 0);
		break;
	case 3:
		regular(s, colour, x, y, r * 1.3, 4, 0);
		break;
	case 4:
		regular(s, colour, x, y, r * 1.3, 3, .5);
		break;
	case 5:
		cross(s, colour, x, y, r, 1, 0);
		break;
	case 6:
		cross(s, colour, x, y, r, M_SQRT1_2, M_SQRT1_2);
		break;
	default:
		regular(s, colour, x, y, r, 16, 0);
		regular(s, SCENE_PAPER, x, y, r * .5, 12, 0);
	}
}

/* Clip the segment p q to the box (Liang and Barsky). 0 if no part is inside. */
static int cut(const struct plotbox *b, const double *p, const double *q, double out[4])
{
	const double d[2] = {q[0] - p[0], q[1] - p[1]}, lo[2] = {b->x0, b->y0}, hi[2] = {b->x1, b->y1};
	double from = 0, to = 1;

	for (int c = 0; c < 2; c++) {
		if (d[c] == 0) {
			if (p[c] < lo[c] || p[c] > hi[c])
				return 0;
			continue;
		}
		from = fmax(from, fmin((lo[c] - p[c]) / d[c], (hi[c] - p[c]) / d[c]));
		to = fmin(to, fmax((lo[c] - p[c]) / d[c], (hi[c] - p[c]) / d[c]));
	}
	if (from > to)
		return 0;
	for (int c = 0; c < 2; c++) {
		out[c] = p[c] + from * d[c];
		out[2 + c] = p[c] + to * d[c];
	}
	return 1;
}

/* Draw a piece of line without gaps, clipped to the box. */
static void piece_draw(struct scene *s, const struct plotbox *b, const double *xy, int n, struct scene_pen pen)
{
	double *out = mem_zalloc((size_t)n + 1, 2 * sizeof *out), part[4];
	int m = 0;

	for (int i = 0; i + 1 < n; i++) {
		int some = cut(b, xy + 2 * i, xy + 2 * i + 2, part), joined = m && part[0] == out[2 * m - 2] && part[1] == out[2 * m - 1];

		if (!some || !joined) {
			scene_line(s, out, m, pen);
			m = 0;
		}
		if (some && !m)
			memcpy(out + 2 * m++, part, 2 * sizeof *part);
		if (some)
			memcpy(out + 2 * m++, part + 2, 2 * sizeof *part);
	}
	scene_line(s, out, m, pen);
	mem_free(out);
}

/* Keep at most four points of each column of pixels (see mark_line). Works in place; returns the new number. */
static int thin(double *xy, int n)
{
	int m = 0;

	for (int i = 0; i < n;) {
		int j = i, low = i, high = i, keep[4];

		for (; j < n && floor(xy[2 * j]) == floor(xy[2 * i]); j++) {
			low = xy[2 * j + 1] < xy[2 * low + 1] ? j : low;
			high = xy[2 * j + 1] > xy[2 * high + 1] ? j : high;
		}
		keep[0] = i;
		keep[1] = low < high ? low : high;
		keep[2] = low < high ? high : low;
		keep[3] = j - 1;
		for (int k = 0, last = -1; k < 4; k++)
			if (keep[k] != last) {
				last = keep[k];
				memmove(xy + 2 * m++, xy + 2 * last, 2 * sizeof *xy);
			}
		i = j;
	}
	return m;
}

void mark_line(struct scene *s, const struct plotbox *b, double *xy, int n, struct scene_pen pen)
{
	for (int i = 0; i < n;) {
		int j = i;

		while (j < n && !isnan(xy[2 * j]) && !isnan(xy[2 * j + 1]))
			j++;
		if (j - i >= 2)
			piece_draw(s, b, xy + 2 * i, thin(xy + 2 * i, j - i), pen);
		i = j + 1;
	}
}

void mark_interval(struct scene *s, const struct plotbox *b, double x, double low, double high, struct scene_pen pen)
{
	const double p[2] = {x, low}, q[2] = {x, high};
	double part[4];

	if (!cut(b, p, q, part))
		return;
	scene_segment(s, part[0], part[1], part[2], part[3], pen);
	if (part[1] == low)
		scene_segment(s, x - 4, low, x + 4, low, pen);
	if (part[3] == high)
		scene_segment(s, x - 4, high, x + 4, high, pen);
}

struct naming_point {
	double x, y;
	int style;
	const char *text;
	struct plotbox place;
};

void naming_init(struct naming *m, struct scene *s, const struct plotbox *b)
{
	*m = (struct naming){.scene = s, .box = b};
}

void naming_release(struct naming *m)
{
	mem_free(m->point);
	mem_free(m->taken);
}

void naming_block(struct naming *m, double x0, double y0, double x1, double y1)
{
	m->taken = mem_resize(m->taken, (size_t)m->blocks + 1, sizeof *m->taken);
	m->taken[m->blocks++] = (struct plotbox){x0, y0, x1, y1};
}

void naming_add(struct naming *m, double x, double y, int style, const char *text)
{
	m->point = mem_resize(m->point, (size_t)m->n + 1, sizeof *m->point);
	m->point[m->n++] = (struct naming_point){.x = x, .y = y, .style = style, .text = text};
	naming_block(m, x - 5, y - 5, x + 5, y + 5);
}

static int is_free(const struct naming *m, const struct plotbox *p)
{
	if (p->x0 < m->box->x0 || p->x1 > m->box->x1 + 6 || p->y0 < m->box->y0 || p->y1 > m->box->y1)
		return 0;
	for (int i = 0; i < m->blocks; i++)
		if (p->x0 < m->taken[i].x1 && p->x1 > m->taken[i].x0 && p->y0 < m->taken[i].y1 && p->y1 > m->taken[i].y0)
			return 0;
	return 1;
}

/* Find a free place for a label: right, left, above, below, then the corners. -1 if there is none. */
static int place(struct naming *m, struct naming_point *p)
{
	static const double where[8][2] = {{1, 0}, {-1, 0}, {0, -1}, {0, 1}, {1, -1}, {1, 1}, {-1, -1}, {-1, 1}};
	double width = 1.08 * strokefont_width(p->text, CHARTTEXT_SIZE), height = 13;

	for (int i = 0; i < 8; i++) {
		int corner = where[i][0] != 0 && where[i][1] != 0;
		double x = p->x + where[i][0] * (width / 2 + (corner ? 3 : 8)), y = p->y + where[i][1] * (height / 2 + (corner ? 3 : 6));

		p->place = (struct plotbox){x - width / 2, y - height / 2, x + width / 2, y + height / 2};
		if (is_free(m, &p->place)) {
			naming_block(m, p->place.x0, p->place.y0, p->place.x1, p->place.y1);
			return 0;
		}
	}
	return -1;
}

int naming_draw(struct naming *m)
{
	for (int i = 0; i < m->n; i++)
		if (*m->point[i].text && place(m, &m->point[i]))
			return -1;
	for (int i = 0; i < m->n; i++) {
		const struct naming_point *p = &m->point[i];

		if (*p->text)
			scene_text(m->scene, (p->place.x0 + p->place.x1) / 2, p->place.y1 - 2.5, CHARTTEXT_SIZE, SCENE_MIDDLE, SCENE_INK, 0, p->text);
	}
	return 0;
}
