/* Draws bars with intervals. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "plot/chart.h"
#include "plot/charttext.h"
#include "plot/marks.h"
#include "plot/strokefont.h"

enum { PITCH = 27, THICK = 15 };

void bars_release(struct bars *b)
{
	for (int i = 0; i < b->n; i++)
		mem_free(b->bar[i].label);
	mem_free(b->bar);
	mem_free(b->title);
	mem_free(b->x_label);
	memset(b, 0, sizeof *b);
}

void bars_add(struct bars *b, const char *label, double value, double low, double high)
{
	b->bar = mem_resize(b->bar, (size_t)b->n + 1, sizeof *b->bar);
	b->bar[b->n++] = (struct bar){mem_strdup(label), value, low, high};
}

static int extent(const struct bars *b, double *lo, double *hi, struct err *e)
{
	int shown = 0;

	*lo = *hi = 0;
	for (int i = 0; i < b->n; i++) {
		const double v[3] = {b->bar[i].value, b->bar[i].low, b->bar[i].high};

		for (int j = 0; j < 3; j++) {
			if (!isfinite(v[j]))
				continue;
			if (fabs(v[j]) > CHART_LIMIT)
				return err_set(e, ERR_DATA, "%g of '%.100s' is beyond what can be drawn", v[j], b->bar[i].label);
			*lo = fmin(*lo, v[j]);
			*hi = fmax(*hi, v[j]);
			shown += j == 0;
		}
	}
	return shown ? 0 : err_set(e, ERR_DATA, "no bar to draw");
}

static void whisker(struct scene *s, const struct axis *x, const struct bar *b, double y)
{
	const struct scene_pen pen = {SCENE_INK, 1.4, 1, 0};
	double low = axis_at(x, b->low), high = axis_at(x, b->high);

	scene_segment(s, low, y, high, y, pen);
	scene_segment(s, low, y - 4, low, y + 4, pen);
	scene_segment(s, high, y - 4, high, y + 4, pen);
}

static void bar_draw(struct scene *s, const struct axis *x, const struct bar *b, double y, double left)
{
	double zero = axis_at(x, 0), at, beyond;
	char text[32];

	charttext_label(s, left - 8, y + 4.3, SCENE_END, SCENE_INK, b->label, left - CHARTTEXT_MARGIN - 8);
	if (!isfinite(b->value)) {
		scene_text(s, zero + 6, y + 4.3, CHARTTEXT_SIZE, SCENE_START, SCENE_SOFT, 0, "no value");
		return;
	}
	at = axis_at(x, b->value);
	scene_box(s, fmin(zero, at), y - THICK / 2., fmax(zero, at), y + THICK / 2., SCENE_PAPER, 1);
	scene_box(s, fmin(zero, at), y - THICK / 2., fmax(zero, at), y + THICK / 2., SCENE_SERIES, .7);
	beyond = b->value < 0 ? fmin(at, zero) : fmax(at, zero);
	if (isfinite(b->low) && isfinite(b->high)) {
		whisker(s, x, b, y);
		beyond = b->value < 0 ? fmin(beyond, axis_at(x, b->low)) : fmax(beyond, axis_at(x, b->high));
	}
	axis_number(text, b->value);
	charttext_note(s, beyond + (b->value < 0 ? -6 : 6), y + 4.3, b->value < 0 ? SCENE_END : SCENE_START, text);
}

static void describe(struct scene *s, const struct bars *b)
{
	struct str text = {0};

	str_printf(&text, "Bars of %s.", b->x_label && *b->x_label ? b->x_label : "values");
	for (int i = 0; i < b->n; i++) {
		char v[32], low[32], high[32];

		if (!isfinite(b->bar[i].value))
			continue;
		axis_number(v, b->bar[i].value);
		str_printf(&text, " %s: %s", b->bar[i].label, v);
		if (isfinite(b->bar[i].low) && isfinite(b->bar[i].high)) {
			axis_number(low, b->bar[i].low);
			axis_number(high, b->bar[i].high);
			str_printf(&text, ", interval %s to %s", low, high);
		}
		str_puts(&text, ".");
	}
	scene_name(s, b->title ? b->title : "Bars", str_text(&text));
	str_release(&text);
}

static void scale_draw(struct scene *s, const struct axis *x, double top, double bottom)
{
	const struct scene_pen grid = {SCENE_GRID, 1, 1, 0}, line = {SCENE_INK, 1.2, 1, 0};
	double zero = axis_at(x, 0);

	for (int i = 0; i < x->n; i++) {
		double at = floor(axis_at(x, x->tick[i])) + .5;

		scene_segment(s, at, top, at, bottom, grid);
		scene_text(s, at, bottom + 17, CHARTTEXT_SIZE, SCENE_MIDDLE, SCENE_SOFT, 0, x->label[i]);
	}
	scene_segment(s, zero, top, zero, bottom, line);
}

int bars_draw(struct scene *s, const struct bars *b, struct err *e)
{
	double lo, hi, left = 0, top, value = strokefont_width("-0.0000", CHARTTEXT_SIZE) + 8;
	struct axis x;

	scene_release(s);
	s->width = b->width;
	if (extent(b, &lo, &hi, e))
		return -1;
	for (int i = 0; i < b->n; i++)
		left = fmax(left, strokefont_width(b->bar[i].label, CHARTTEXT_SIZE));
	left = ceil(fmin(left, .4 * s->width)) + CHARTTEXT_MARGIN + 10;
	top = charttext_title(s, b->title, CHARTTEXT_MARGIN) + 4;
	s->height = top + PITCH * b->n + (b->x_label && *b->x_label ? 46 : 28);
	axis_fit(&x, lo, hi, 0, (int)fmax(3, (s->width - left) / 95), (lo < 0 ? 0 : 1) | (hi > 0 ? 0 : 2));
	x.from = left + (lo < 0 ? value : 0);
	x.to = s->width - CHARTTEXT_MARGIN - (hi > 0 ? value : 4);
	scale_draw(s, &x, top, top + PITCH * b->n);
	for (int i = 0; i < b->n; i++)
		bar_draw(s, &x, &b->bar[i], top + PITCH * (i + .5), left);
	if (b->x_label && *b->x_label) {
		double room = s->width - 2 * CHARTTEXT_MARGIN, half = fmin(strokefont_width(b->x_label, CHARTTEXT_SIZE) * 1.04, room) / 2;
		double at = fmin((x.from + x.to) / 2, s->width - CHARTTEXT_MARGIN - half);

		charttext_label(s, at, s->height - 9, SCENE_MIDDLE, SCENE_SOFT, b->x_label, room);
	}
	describe(s, b);
	return 0;
}
