/* Charts: series of points and lines over two axes, and bars with intervals. */
#ifndef DDM_PLOT_CHART_H
#define DDM_PLOT_CHART_H

#include "core/err.h"
#include "plot/axis.h"
#include "plot/scene.h"

enum { CHART_LINE = 1, CHART_POINTS = 2 };
#define CHART_LIMIT 1e100 /* values must be smaller */

/* A series of points in the order of drawing. A y that is NaN, or not positive on a logarithmic scale, leaves a gap. */
struct chart_series {
	char *label;        /* "" or NULL: not in the legend */
	double *x, *y;      /* (n) */
	double *low, *high; /* (n) or NULL: interval of each point, NaN: none */
	int n, room;
	int marks; /* CHART_LINE | CHART_POINTS */
	int style; /* colour, dash and marker; series that belong together share one */
	int faint; /* 1: drawn thin and pale, behind the others */
};

struct chart_rule { /* a horizontal line across the chart, to compare values with */
	double y;
	char *label;
};

/* A zeroed chart is empty. chart_release frees everything, labels too. */
struct chart {
	char *title, *x_label, *y_label; /* owned; may be NULL */
	double width, height;            /* size in pixels */
	int log_x, log_y;
	int reverse_x; /* 1: larger values on the left */
	int has_x_range, has_y_range;
	double x_range[2], y_range[2];
	int from_zero;   /* 1: the y scale begins at zero */
	int name_points; /* 1: labels beside the points if there is room for all, else a legend */
	struct chart_series *series;
	int n;
	struct chart_rule *rule;
	int rules;
};

void chart_release(struct chart *c);
/* Add a series; the pointer is valid until the next call. Copies the label. Its style is the number of labelled series before it. */
struct chart_series *chart_series_add(struct chart *c, const char *label, int marks);
/* Append a point to a series, without and with an interval of y. */
void chart_point(struct chart_series *s, double x, double y);
void chart_interval(struct chart_series *s, double x, double y, double low, double high);
void chart_rule_add(struct chart *c, double y, const char *label); /* copies the label */
void chart_text_set(char **text, const char *value);               /* *text = a copy of value; frees the old text */

/* Draw into an empty scene, and set its title and description in words. ERR_DATA if there is no point to show, or a value exceeds CHART_LIMIT. */
int chart_draw(struct scene *s, const struct chart *c, struct err *e);

struct bar {
	char *label;
	double value, low, high; /* low, high: the interval, NaN: none */
};

/* Horizontal bars from zero, one below the other. */
struct bars {
	char *title, *x_label;
	double width; /* the height follows from the number of bars */
	struct bar *bar;
	int n;
};

void bars_release(struct bars *b);                                                       /* frees labels and texts too */
void bars_add(struct bars *b, const char *label, double value, double low, double high); /* copies the label */
/* Draw into an empty scene. ERR_DATA if there is no finite bar, or one exceeds CHART_LIMIT. */
int bars_draw(struct scene *s, const struct bars *b, struct err *e);

#endif
