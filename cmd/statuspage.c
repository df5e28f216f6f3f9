/* Writes the page of ddm-status: the table, the notes, and charts of the losses and the rates. */
#include "cmd/statuspage.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "cmd/page.h"
#include "core/mem.h"
#include "core/seal.h"
#include "file/commit.h"
#include "file/stamp.h"
#include "plot/sources.h"

enum { CHART_WIDTH = 400, CHART_HEIGHT = 300, POINTS = 400 /* most of a line: means of neighbours replace more */ };

static void written_at(struct page *p, double now)
{
	char text[80];
	time_t t = (time_t)now;
	struct tm utc;

	gmtime_r(&t, &utc);
	strftime(text, sizeof text, "As of %Y-%m-%d %H:%M:%S UTC.", &utc);
	page_paragraph(p, text);
}

/* The table without the curve of the loss, of which there is a chart. */
static void table(struct page *p, const struct runs *r, const struct status_style *s)
{
	char *summary = status_summary(r, s);
	const char *heading[STATUS_COLUMNS];
	int columns = 0, all = STATUS_COLUMNS - !(s->cost_per_hour > 0);

	for (int c = 0; c < all; c++)
		if (c != STATUS_CURVE)
			heading[columns++] = status_heading[c];
	page_table(p, summary, heading, columns);
	for (int i = 0; i < r->n; i++) {
		char *cell[STATUS_COLUMNS];
		const char *shown[STATUS_COLUMNS];
		int n = 0;

		status_cells(cell, &r->v[i], s);
		for (int c = 0; c < all; c++)
			if (c != STATUS_CURVE)
				shown[n++] = cell[c];
		page_row(p, shown, n);
		for (int c = 0; c < all; c++)
			mem_free(cell[c]);
	}
	page_table_end(p);
	mem_free(summary);
}

static void notes(struct page *p, const struct runs *r)
{
	for (int i = 0; i < r->notes; i++)
		page_paragraph(p, r->note[i]);
	for (int i = 0; i < r->n; i++)
		if (r->v[i].why.code)
			page_paragraph(p, r->v[i].why.msg);
}

/* The mean of the finite numbers in v (n); NaN if there is none. */
static double mean_of(const double *v, int64_t n)
{
	double sum = 0;
	int64_t finite = 0;

	for (int64_t i = 0; i < n; i++)
		if (isfinite(v[i])) {
			sum += v[i];
			finite++;
		}
	return finite ? sum / (double)finite : NAN;
}

/* Draw a column of the log as a line of at most POINTS points. Where the numbers are not finite there is a gap; `sparse`: the line goes on, because
 * not every line of the log has the number. */
static void line_add(struct chart *c, const struct run *x, const char *column, int sparse)
{
	const struct log_column *v = loghistory_column(x->log, column);
	int64_t n = x->log->n, share = n / POINTS + 1;
	struct chart_series *s;

	if (!v || !n)
		return;
	s = chart_series_add(c, x->name, sparse ? CHART_LINE | CHART_POINTS : CHART_LINE);
	for (int64_t i = 0; i < n; i += share) {
		int64_t end = i + share < n ? i + share : n;
		double y = mean_of(v->v + i, end - i);

		if (!sparse || isfinite(y))
			chart_point(s, (double)x->log->step[end - 1], y);
	}
}

static int is_drawn(const struct chart *c)
{
	for (int i = 0; i < c->n; i++)
		for (int j = 0; j < c->series[i].n; j++)
			if (isfinite(c->series[i].y[j]))
				return 1;
	return 0;
}

/* A chart of one column of all experts or of all routers, unless they have no number there. Losses are on a logarithmic scale. */
static int chart(struct page *p, const struct runs *r, int routers, const char *column, const char *title, const char *y, int sparse,
                 const char *caption, struct err *e)
{
	int loss = !strcmp(y, "loss"), rc = 0;
	struct chart c = {.width = CHART_WIDTH, .height = CHART_HEIGHT, .log_y = loss, .from_zero = !loss};
	struct scene s = {0};

	chart_text_set(&c.title, title);
	chart_text_set(&c.x_label, "training step");
	chart_text_set(&c.y_label, y);
	for (int i = 0; i < r->n; i++)
		if (r->v[i].router == routers)
			line_add(&c, &r->v[i], column, sparse);
	if (is_drawn(&c)) {
		rc = chart_draw(&s, &c, e);
		if (!rc)
			page_chart(p, &s, caption);
	}
	scene_release(&s);
	chart_release(&c);
	return rc;
}

static int charts(struct page *p, const struct runs *r, struct err *e)
{
	int rc;

	page_charts(p);
	rc = chart(p, r, 0, "loss", "Loss of the experts", "loss", 0, "Mean loss of the steps since the line before.", e) ||
	     chart(p, r, 1, "loss", "Loss of the router", "loss", 0, "Mean loss of the steps since the line before.", e) ||
	     chart(p, r, 0, "val_loss", "Loss on held-out samples", "loss", 1, "Of the averaged weights.", e) ||
	     chart(p, r, 0, "images_per_s", "Rate of the experts", "images per second", 0, "Validation and checkpoints count as time.", e);
	page_charts_end(p);
	return rc ? -1 : 0;
}

/* The page's stamp, by which a later call knows that it may replace the page. It holds no state of the runs. */
static char *stamp(const char *program)
{
	struct stamp *s = stamp_new(program);
	char *line = stamp_line(s);

	stamp_free(s);
	return line;
}

int status_page(const char *path, const struct runs *r, const struct status_style *s, const char *program, double now, int refresh, struct err *e)
{
	struct page p = {.refresh = runs_count(r, RUN_FINISHED) < r->n ? refresh : 0};
	const struct status_style style = {.cost_per_hour = s->cost_per_hour, .utf8 = 1};
	char *line = stamp(program);
	int rc;

	page_start(&p, "State of the trainings", line);
	written_at(&p, now);
	notes(&p, r);
	table(&p, r, &style);
	rc = charts(&p, r, e);
	page_end(&p);
	seal_markup(&p.html);
	if (!rc)
		rc = commit_bytes(path, p.html.p, p.html.len, e);
	mem_free(line);
	str_release(&p.html);
	return rc;
}
