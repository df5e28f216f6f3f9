/* Draws charts of series over two axes. */
#include "plot/chart.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "plot/charttext.h"
#include "plot/marks.h"
#include "plot/strokefont.h"

void chart_text_set(char **text, const char *value)
{
	char *copy = mem_strdup(value);

	mem_free(*text);
	*text = copy;
}

void chart_release(struct chart *c)
{
	for (int i = 0; i < c->n; i++) {
		struct chart_series *s = &c->series[i];

		mem_free(s->label);
		mem_free(s->x);
		mem_free(s->y);
		mem_free(s->low);
		mem_free(s->high);
	}
	for (int i = 0; i < c->rules; i++)
		mem_free(c->rule[i].label);
	mem_free(c->series);
	mem_free(c->rule);
	mem_free(c->title);
	mem_free(c->x_label);
	mem_free(c->y_label);
	memset(c, 0, sizeof *c);
}

struct chart_series *chart_series_add(struct chart *c, const char *label, int marks)
{
	int style = 0;

	for (int i = 0; i < c->n; i++)
		style += c->series[i].label && *c->series[i].label;
	c->series = mem_resize(c->series, (size_t)c->n + 1, sizeof *c->series);
	c->series[c->n] = (struct chart_series){.label = mem_strdup(label), .marks = marks, .style = style};
	return &c->series[c->n++];
}

void chart_interval(struct chart_series *s, double x, double y, double low, double high)
{
	if (s->n == s->room) {
		s->room = s->room ? 2 * s->room : 64;
		s->x = mem_resize(s->x, (size_t)s->room, sizeof *s->x);
		s->y = mem_resize(s->y, (size_t)s->room, sizeof *s->y);
		s->low = mem_resize(s->low, (size_t)s->room, sizeof *s->low);
		s->high = mem_resize(s->high, (size_t)s->room, sizeof *s->high);
	}
	s->x[s->n] = x;
	s->y[s->n] = y;
	s->low[s->n] = low;
	s->high[s->n++] = high;
}

void chart_point(struct chart_series *s, double x, double y)
{
	chart_interval(s, x, y, NAN, NAN);
}

void chart_rule_add(struct chart *c, double y, const char *label)
{
	c->rule = mem_resize(c->rule, (size_t)c->rules + 1, sizeof *c->rule);
	c->rule[c->rules++] = (struct chart_rule){y, mem_strdup(label)};
}

/* A chart being drawn, with its axes and the box between them. */
struct view {
	struct scene *scene;
	const struct chart *chart;
	struct axis x, y;
	struct plotbox box;
};

static int is_named(const struct chart_series *s)
{
	return s->label && *s->label;
}

static int is_shown(const struct chart *c, double x, double y)
{
	return isfinite(x) && isfinite(y) && !(c->log_x && x <= 0) && !(c->log_y && y <= 0);
}

struct extent {
	double lo, hi;
};

static void widen(struct extent *r, double v, int log)
{
	if (!isfinite(v) || (log && v <= 0))
		return;
	r->lo = fmin(r->lo, v);
	r->hi = fmax(r->hi, v);
}

static int extents(const struct chart *c, struct extent *x, struct extent *y, struct err *e)
{
	*x = *y = (struct extent){INFINITY, -INFINITY};
	for (int i = 0; i < c->n; i++) {
		const struct chart_series *s = &c->series[i];

		for (int j = 0; j < s->n; j++) {
			if (!is_shown(c, s->x[j], s->y[j]))
				continue;
			if (fabs(s->x[j]) > CHART_LIMIT || fabs(s->y[j]) > CHART_LIMIT)
				return err_set(e, ERR_DATA, "the point (%g, %g) of '%.100s' is beyond what can be drawn", s->x[j], s->y[j],
				               s->label ? s->label : "");
			widen(x, s->x[j], c->log_x);
			widen(y, s->y[j], c->log_y);
			widen(y, s->low[j], c->log_y);
			widen(y, s->high[j], c->log_y);
		}
	}
	if (x->lo > x->hi)
		return err_set(e, ERR_DATA, "no point to draw%s", c->log_x || c->log_y ? ": a logarithmic scale shows positive values only" : "");
	for (int i = 0; i < c->rules; i++)
		widen(y, c->rule[i].y, c->log_y);
	return 0;
}

static int fit(struct view *v, struct err *e)
{
	const struct chart *c = v->chart;
	struct extent x, y;
	int zero;

	if (extents(c, &x, &y, e))
		return -1;
	if (c->has_x_range)
		x = (struct extent){c->x_range[0], c->x_range[1]};
	if (c->has_y_range)
		y = (struct extent){c->y_range[0], c->y_range[1]};
	/* The y scale begins at zero if the data then still fill most of it. */
	zero = !c->has_y_range && !c->log_y && y.lo >= 0 && (c->from_zero || y.lo < .4 * y.hi);
	axis_fit(&v->x, x.lo, x.hi, c->log_x, (int)fmax(3, v->scene->width / 95), c->has_x_range ? 3 : 0);
	axis_fit(&v->y, zero ? 0 : y.lo, y.hi, c->log_y, (int)fmax(3, v->scene->height / 62), c->has_y_range ? 3 : zero ? 1 : 0);
	return 0;
}

enum { SWATCH = 26, ENTRY_GAP = 16 };

static void swatch(struct scene *s, const struct chart_series *series, double x, double y)
{
	const struct scene_pen pen = {SCENE_SERIES + series->style % 8, 2, 1, mark_dash(series->style)};

	if (series->marks & CHART_LINE)
		scene_segment(s, x, y, x + SWATCH - 6, y, pen);
	if (series->marks & CHART_POINTS)
		mark_draw(s, series->style, x + (SWATCH - 6) / 2., y, 4.2);
}

/* Draw the legend, rows of samples and labels, below `top`. Returns the y below it. */
static double legend(struct scene *s, const struct chart *c, double top)
{
	double left = CHARTTEXT_MARGIN, x = left, y = top + 12;
	int any = 0;

	for (int i = 0; i < c->n; i++) {
		const struct chart_series *series = &c->series[i];
		double width = is_named(series) ? fmin(strokefont_width(series->label, CHARTTEXT_SIZE), s->width - 2 * left - SWATCH) : 0;

		if (!is_named(series))
			continue;
		if (any++ && x + SWATCH + width > s->width - CHARTTEXT_MARGIN) {
			x = left;
			y += CHARTTEXT_LINE;
		}
		swatch(s, series, x, y - 4);
		charttext_label(s, x + SWATCH, y, SCENE_START, SCENE_INK, series->label, width + .01);
		x += SWATCH + width + ENTRY_GAP;
	}
	return any ? y + 9 : top;
}

static int named(const struct chart *c)
{
	int n = 0;

	for (int i = 0; i < c->n; i++)
		n += is_named(&c->series[i]);
	return n;
}

static void y_ticks(struct view *v)
{
	const struct scene_pen grid = {SCENE_GRID, 1, 1, 0};

	for (int i = 0; i < v->y.n; i++) {
		double at = floor(axis_at(&v->y, v->y.tick[i])) + .5;

		scene_segment(v->scene, v->box.x0, at, v->box.x1, at, grid);
		scene_text(v->scene, v->box.x0 - 7, at + 4.2, CHARTTEXT_SIZE, SCENE_END, SCENE_SOFT, 0, v->y.label[i]);
	}
}

static void x_ticks(struct view *v)
{
	const struct scene_pen grid = {SCENE_GRID, 1, 1, 0}, line = {SCENE_SOFT, 1, 1, 0};
	double end[2] = {INFINITY, -INFINITY}; /* pixels covered by the labels so far */

	for (int i = 0; i < v->x.n; i++) {
		double at = floor(axis_at(&v->x, v->x.tick[i])) + .5, half = strokefont_width(v->x.label[i], CHARTTEXT_SIZE) / 2 + 4;

		scene_segment(v->scene, at, v->box.y0, at, v->box.y1, grid);
		if (at - half < end[1] && at + half > end[0])
			continue;
		scene_text(v->scene, fmin(at, v->scene->width - half), v->box.y1 + 17, CHARTTEXT_SIZE, SCENE_MIDDLE, SCENE_SOFT, 0, v->x.label[i]);
		end[0] = fmin(end[0], at - half);
		end[1] = fmax(end[1], at + half);
	}
	scene_segment(v->scene, v->box.x0, v->box.y1, v->box.x1, v->box.y1, line);
}

static void series_draw(struct view *v, const struct chart_series *s)
{
	double *xy = mem_zalloc((size_t)s->n + 1, 2 * sizeof *xy);
	const struct scene_pen pen = {SCENE_SERIES + s->style % 8, s->faint ? 1 : 2, s->faint ? .3 : 1, s->faint ? 0 : mark_dash(s->style)};
	const struct scene_pen bar = {SCENE_SERIES + s->style % 8, 1.3, 1, 0};

	for (int i = 0; i < s->n; i++) {
		int shown = is_shown(v->chart, s->x[i], s->y[i]);

		xy[2 * i] = shown ? axis_at(&v->x, s->x[i]) : NAN;
		xy[2 * i + 1] = shown ? axis_at(&v->y, s->y[i]) : NAN;
		if (shown && isfinite(s->low[i]) && isfinite(s->high[i])) {
			double low = v->y.log && s->low[i] <= 0 ? v->box.y1 : axis_at(&v->y, s->low[i]);

			mark_interval(v->scene, &v->box, xy[2 * i], low, axis_at(&v->y, s->high[i]), bar);
		}
	}
	if (s->marks & CHART_LINE)
		mark_line(v->scene, &v->box, xy, s->n, pen);
	for (int i = 0; i < s->n; i++) {
		int alone = (i == 0 || isnan(xy[2 * i - 1])) && (i + 1 == s->n || isnan(xy[2 * i + 3]));

		if (((s->marks & CHART_POINTS) || alone) && plotbox_has(&v->box, xy[2 * i], xy[2 * i + 1]))
			mark_draw(v->scene, s->style, xy[2 * i], xy[2 * i + 1], s->n > 60 ? 2.6 : s->n > 12 ? 3.3 : 4.4);
	}
	mem_free(xy);
}

static void rules_draw(struct view *v)
{
	const struct scene_pen pen = {SCENE_SOFT, 1.3, 1, 1};

	for (int i = 0; i < v->chart->rules; i++) {
		const struct chart_rule *r = &v->chart->rule[i];
		double at;

		if (!is_shown(v->chart, 1, r->y))
			continue;
		at = axis_at(&v->y, r->y);
		if (at < v->box.y0 || at > v->box.y1)
			continue;
		scene_segment(v->scene, v->box.x0, at, v->box.x1, at, pen);
		charttext_note(v->scene, v->box.x1 - 4, at - 5 < v->box.y0 + 12 ? at + 14 : at - 5, SCENE_END, r->label);
	}
}

/* Describe the chart in words for screen readers: where each series begins and ends. */
static void describe(struct scene *s, const struct chart *c)
{
	struct str text = {0};

	str_printf(&text, "%s against %s.", c->y_label ? c->y_label : "values", c->x_label ? c->x_label : "position");
	for (int i = 0; i < c->n; i++) {
		const struct chart_series *series = &c->series[i];
		int first = -1, last = -1;
		char from[2][32], to[2][32];

		for (int j = 0; j < series->n; j++)
			if (is_shown(c, series->x[j], series->y[j])) {
				first = first < 0 ? j : first;
				last = j;
			}
		if (first < 0 || !is_named(series))
			continue;
		axis_number(from[0], series->x[first]);
		axis_number(from[1], series->y[first]);
		axis_number(to[0], series->x[last]);
		axis_number(to[1], series->y[last]);
		if (first == last)
			str_printf(&text, " %s: %s at %s.", series->label, from[1], from[0]);
		else
			str_printf(&text, " %s: from %s at %s to %s at %s.", series->label, from[1], from[0], to[1], to[0]);
	}
	for (int i = 0; i < c->rules; i++) {
		char at[32];

		axis_number(at, c->rule[i].y);
		str_printf(&text, " %s: %s.", c->rule[i].label, at);
	}
	scene_name(s, c->title ? c->title : "Chart", str_text(&text));
	str_release(&text);
}

/* Label each point with the name of its series, in the order of the series. -1 if there is no room for all labels. */
static int names_draw(struct view *v)
{
	struct naming names;
	int rc;

	naming_init(&names, v->scene, &v->box);
	for (int i = 0; i < v->chart->n; i++) {
		const struct chart_series *s = &v->chart->series[i];

		for (int j = 0; j < s->n; j++)
			if (is_shown(v->chart, s->x[j], s->y[j])) {
				double x = axis_at(&v->x, s->x[j]);

				naming_add(&names, x, axis_at(&v->y, s->y[j]), s->style, is_named(s) ? s->label : "");
				if (isfinite(s->low[j]) && isfinite(s->high[j]) && !(v->y.log && s->low[j] <= 0))
					naming_block(&names, x - 5, axis_at(&v->y, s->high[j]), x + 5, axis_at(&v->y, s->low[j]));
			}
	}
	for (int i = 0; i < v->chart->rules; i++) {
		double width = strokefont_width(v->chart->rule[i].label, CHARTTEXT_SIZE), at;

		if (!is_shown(v->chart, 1, v->chart->rule[i].y))
			continue;
		at = axis_at(&v->y, v->chart->rule[i].y);
		naming_block(&names, v->box.x1 - width - 4, at - 18, v->box.x1, at + 2);
	}
	rc = naming_draw(&names);
	naming_release(&names);
	return rc;
}

static void layout(struct view *v, int with_legend)
{
	const struct chart *c = v->chart;
	double left = CHARTTEXT_MARGIN, top = charttext_title(v->scene, c->title, left), label = 0;

	if (with_legend)
		top = legend(v->scene, c, top);
	if (c->y_label && *c->y_label) {
		charttext_label(v->scene, left, top + 12, SCENE_START, SCENE_SOFT, c->y_label, v->scene->width - 2 * left);
		top += CHARTTEXT_LINE;
	}
	for (int i = 0; i < v->y.n; i++)
		label = fmax(label, strokefont_width(v->y.label[i], CHARTTEXT_SIZE));
	v->box = (struct plotbox){ceil(left + label + 8), ceil(top + 7), v->scene->width - CHARTTEXT_MARGIN - 6,
	                          v->scene->height - (c->x_label && *c->x_label ? 42 : 26)};
	v->x.from = c->reverse_x ? v->box.x1 : v->box.x0;
	v->x.to = c->reverse_x ? v->box.x0 : v->box.x1;
	v->y.from = v->box.y1;
	v->y.to = v->box.y0;
	y_ticks(v);
	x_ticks(v);
	if (c->x_label && *c->x_label)
		charttext_label(v->scene, (v->box.x0 + v->box.x1) / 2, v->scene->height - 9, SCENE_MIDDLE, SCENE_SOFT, c->x_label,
		                v->scene->width - 2 * left);
	for (int faint = 1; faint >= 0; faint--)
		for (int i = 0; i < c->n; i++)
			if (c->series[i].faint == faint)
				series_draw(v, &c->series[i]);
	rules_draw(v);
}

static void start(struct scene *s, const struct chart *c)
{
	scene_release(s);
	s->width = c->width;
	s->height = c->height;
}

int chart_draw(struct scene *s, const struct chart *c, struct err *e)
{
	struct view v = {.scene = s, .chart = c};
	int many = named(c) > 1;

	start(s, c);
	if (fit(&v, e))
		return -1;
	layout(&v, many && !c->name_points);
	if (c->name_points && many && names_draw(&v)) {
		start(s, c);
		layout(&v, 1);
	}
	describe(s, c);
	return 0;
}
