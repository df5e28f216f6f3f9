/* Charts: series of points and lines over two scales, and bars with intervals. */
#ifndef DDM_PLOT_CHART_H
#define DDM_PLOT_CHART_H

#include "core/err.h"
#include "plot/axis.h"
#include "plot/scene.h"

enum { CHART_LINE = 1, CHART_POINTS = 2 };
#define CHART_LIMIT 1e100 /* values must be smaller */

/* Points in the order of drawing. A y that is not a number, or not positive on a logarithmic scale, is a gap. */
struct chart_series {
	char *label;        /* "" or NULL: not in the legend */
	double *x, *y;      /* (n) */
	double *low, *high; /* (n) or NULL: intervals, NaN where there is none */
	int n, room;
	int marks; /* CHART_LINE | CHART_POINTS */
	int style; /* colour, dash and marker: equal for what belongs together */
	int faint; /* in the background */
};

struct chart_rule { /* a value to compare with, across the chart */
	double y;
	char *label;
};

/* Zero-initialised is an empty chart; chart_release frees all, labels too. */
struct chart {
	char *title, *x_label, *y_label; /* owned; may be NULL */
	double width, height;            /* pixels of the drawing */
	int log_x, log_y;
	int reverse_x; /* larger values on the left */
	int has_x_range, has_y_range;
	double x_range[2], y_range[2];
	int from_zero;   /* the scale of y begins there */
	int name_points; /* labels beside the points, where there is room for all; else a legend */
	struct chart_series *series;
	int n;
	struct chart_rule *rule;
	int rules;
};

void chart_release(struct chart *c);
/* A new series, borrowed until the next; copies the label. Its style is the number of the series with a label before it. */
struct chart_series *chart_series_add(struct chart *c, const char *label, int marks);
void chart_point(struct chart_series *s, double x, double y);
void chart_interval(struct chart_series *s, double x, double y, double low, double high);
void chart_rule_add(struct chart *c, double y, const char *label);
void chart_text_set(char **text, const char *value); /* copies */

/* Draws into an empty scene, which gets a description in words. ERR_DATA when there is no point to show, or a value beyond
 * CHART_LIMIT. */
int chart_draw(struct scene *s, const struct chart *c, struct err *e);

struct bar {
	char *label;
	double value, low, high; /* low, high: NaN where there is none */
};

/* One horizontal bar below the other, from zero. */
struct bars {
	char *title, *x_label;
	double width; /* the height follows from the number of bars */
	struct bar *bar;
	int n;
};

void bars_release(struct bars *b);
void bars_add(struct bars *b, const char *label, double value, double low, double high);
/* ERR_DATA when there is no finite bar, or one beyond CHART_LIMIT. */
int bars_draw(struct scene *s, const struct bars *b, struct err *e);

#endif
