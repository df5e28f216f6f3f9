/* Histograms of the rules of a selection, one below the other. */
#include "plot/rulechart.h"

#include <math.h>
#include <stdio.h>

#include "core/seal.h"
#include "core/str.h"
#include "file/commit.h"
#include "plot/axis.h"
#include "plot/charttext.h"
#include "plot/strokefont.h"

enum { WIDTH = 760, PANEL = 190, PLAIN = 46, BAR_SPACE = 118, LEFT = 70, MOST = 100 }; /* pixels; most rules that are drawn */

struct panel {
	struct scene *scene;
	const struct select_rule *rule;
	struct axis x, y;
	double top, bottom;
};

static int has_bars(const struct select_rule *r)
{
	return r->bins.values > 0;
}

static double panel_height(const struct select_rule *r)
{
	return has_bars(r) ? PANEL : PLAIN;
}

static void panel_title(struct panel *p)
{
	const struct select_rule *r = p->rule;
	double room = p->scene->width - 2 * CHARTTEXT_MARGIN, taken;
	char text[128];

	snprintf(text, sizeof text, "drops %lld, %lld of them only by this%s", (long long)r->alone, (long long)r->only,
	         has_bars(r) ? "" : "; no numbers");
	taken = strokefont_width(text, CHARTTEXT_SIZE) * 1.04;
	charttext_label(p->scene, p->scene->width - CHARTTEXT_MARGIN, p->top - 10, SCENE_END, SCENE_SOFT, text, room);
	charttext_label(p->scene, CHARTTEXT_MARGIN, p->top - 10, SCENE_START, SCENE_INK, r->text, fmax(40, room - taken - 20));
}

static void panel_scales(struct panel *p)
{
	const struct scene_pen grid = {SCENE_GRID, 1, 1, 0}, line = {SCENE_INK, 1.2, 1, 0};

	for (int i = 0; i < p->y.n; i++) {
		double at = floor(axis_at(&p->y, p->y.tick[i])) + .5;

		scene_segment(p->scene, p->x.from, at, p->x.to, at, grid);
		scene_text(p->scene, p->x.from - 7, at + 4.3, CHARTTEXT_SIZE, SCENE_END, SCENE_SOFT, 0, p->y.label[i]);
	}
	for (int i = 0; i < p->x.n; i++) {
		double at = floor(axis_at(&p->x, p->x.tick[i])) + .5;

		scene_segment(p->scene, at, p->bottom, at, p->bottom + 4, line);
		scene_text(p->scene, at, p->bottom + 17, CHARTTEXT_SIZE, SCENE_MIDDLE, SCENE_SOFT, 0, p->x.label[i]);
	}
	scene_segment(p->scene, p->x.from, p->bottom, p->x.to, p->bottom, line);
}

/* A bar from zero to n; at least two pixels wide, so that a single value can be seen. */
static void panel_bar(struct panel *p, double lo, double hi, double n, double opacity)
{
	double from = axis_at(&p->x, lo), to = axis_at(&p->x, hi);
	double widen = fmax(0, 2 - (to - from)) / 2;

	if (n > 0)
		scene_box(p->scene, from - widen, axis_at(&p->y, n), to + widen, p->bottom, SCENE_SERIES, opacity);
}

static void panel_bars(struct panel *p)
{
	const struct binning *b = &p->rule->bins;
	double width = binning_width(b), shift = b->fractions || width >= 1 ? 0 : -width / 2; /* bars of whole numbers stand above them */

	for (int64_t i = 0; i <= b->last - b->first; i++) {
		double lo = (double)(b->first + i) * width + shift, all = (double)(b->count[i][0] + b->count[i][1]);

		panel_bar(p, lo, lo + width, all, .28);
		panel_bar(p, lo, lo + width, (double)b->count[i][1], 1);
	}
}

static void panel_limit(struct panel *p)
{
	const struct scene_pen pen = {SCENE_INK, 1.4, 1, 1};
	double limit = p->rule->limit, at;
	char number[32], text[64];

	if (!p->rule->has_limit)
		return;
	axis_number(number, limit);
	if (limit < p->x.lo || limit > p->x.hi) {
		snprintf(text, sizeof text, limit < p->x.lo ? "< %s" : "%s >", number);
		charttext_note(p->scene, limit < p->x.lo ? p->x.from + 4 : p->x.to - 4, p->top + 12, limit < p->x.lo ? SCENE_START : SCENE_END, text);
		return;
	}
	at = axis_at(&p->x, limit);
	scene_segment(p->scene, at, p->top, at, p->bottom, pen);
	charttext_note(p->scene, at + (at > p->x.to - 60 ? -5 : 5), p->top + 12, at > p->x.to - 60 ? SCENE_END : SCENE_START, number);
}

/* Extend the range of values to the limit if that does not make the bars much narrower. */
static void panel_range(const struct select_rule *r, double *lo, double *hi)
{
	const struct binning *b = &r->bins;
	double span;

	*lo = (double)b->first * binning_width(b);
	*hi = (double)(b->last + 1) * binning_width(b);
	span = *hi - *lo;
	if (!r->has_limit)
		return;
	if (r->limit < *lo && *lo - r->limit < span)
		*lo = r->limit;
	if (r->limit > *hi && r->limit - *hi < span)
		*hi = r->limit;
}

static void panel_draw(struct panel *p)
{
	const struct binning *b = &p->rule->bins;
	int64_t most = 1;
	double lo, hi;

	panel_title(p);
	if (!has_bars(p->rule))
		return;
	for (int64_t i = 0; i <= b->last - b->first; i++)
		most = b->count[i][0] + b->count[i][1] > most ? b->count[i][0] + b->count[i][1] : most;
	panel_range(p->rule, &lo, &hi);
	axis_fit(&p->x, lo, hi, 0, 7, 0);
	axis_fit(&p->y, 0, (double)most, 0, 3, 1);
	p->x.from = LEFT;
	p->x.to = p->scene->width - CHARTTEXT_MARGIN;
	p->bottom = p->top + BAR_SPACE;
	p->y.from = p->bottom;
	p->y.to = p->top;
	panel_scales(p);
	panel_bars(p);
	panel_limit(p);
	charttext_label(p->scene, (p->x.from + p->x.to) / 2, p->bottom + 34, SCENE_MIDDLE, SCENE_SOFT, p->rule->measured, p->x.to - p->x.from);
}

static void describe(struct scene *s, const struct select_report *r, const char *title)
{
	struct str text = {0};

	str_puts(&text, "Histograms of the values that the rules compare. Dark: samples that all rules keep; pale: the others.");
	for (int i = 0; i < r->rules && i < MOST; i++)
		str_printf(&text, " %s drops %lld.", r->rule[i].text, (long long)r->rule[i].alone);
	scene_name(s, title, str_text(&text));
	str_release(&text);
}

/* The meaning of the two shades, beside the title. */
static void draw_key(struct scene *s, double y)
{
	double at = s->width - CHARTTEXT_MARGIN - strokefont_width("dropped", CHARTTEXT_SIZE);

	scene_text(s, s->width - CHARTTEXT_MARGIN, y, CHARTTEXT_SIZE, SCENE_END, SCENE_SOFT, 0, "dropped");
	scene_box(s, at - 17, y - 10, at - 5, y + 1, SCENE_SERIES, .28);
	at -= 30;
	scene_text(s, at, y, CHARTTEXT_SIZE, SCENE_END, SCENE_SOFT, 0, "kept");
	at -= strokefont_width("kept", CHARTTEXT_SIZE);
	scene_box(s, at - 17, y - 10, at - 5, y + 1, SCENE_SERIES, 1);
}

void rulechart_draw(struct scene *s, const struct select_report *r)
{
	char title[96];
	double y;

	s->width = WIDTH;
	snprintf(title, sizeof title, "kept %lld of %lld samples", (long long)r->kept, (long long)r->samples);
	y = charttext_title(s, title, CHARTTEXT_MARGIN) + 6;
	draw_key(s, CHARTTEXT_MARGIN + 12);
	for (int i = 0; i < r->rules && i < MOST; i++) {
		struct panel p = {.scene = s, .rule = &r->rule[i], .top = y + 28};

		panel_draw(&p);
		y += panel_height(p.rule);
	}
	s->height = y + CHARTTEXT_MARGIN;
	describe(s, r, title);
}

int rulechart_write(const char *path, const struct select_report *r, const char *stamp, struct err *e)
{
	struct scene s = {0};
	struct str text = {0};
	int rc;

	rulechart_draw(&s, r);
	scene_svg(&text, &s, "chart", stamp);
	seal_markup(&text);
	rc = commit_bytes(path, text.p, text.len, e);
	str_release(&text);
	scene_release(&s);
	return rc;
}
