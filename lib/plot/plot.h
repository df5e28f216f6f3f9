/* Draws a chart from a request, for ddm-plot. */
#ifndef DDM_PLOT_PLOT_H
#define DDM_PLOT_PLOT_H

#include <stdint.h>

#include "core/err.h"
#include "core/option.h"

/* Kinds of charts by their sources: training logs; tables of ddm-report; logs of ddm-sample or of a router's training; lines of ddm-compare;
 * columns of any table or JSON lines. */
enum plot_kind { PLOT_LOSS, PLOT_COST, PLOT_ROUTER, PLOT_COMPARE, PLOT_LINES, PLOT_POINTS, PLOT_BARS };

enum plot_format { PLOT_BY_NAME = -1, PLOT_SVG, PLOT_PNG };

/* Which scales are logarithmic. PLOT_LOG_USUAL: y of loss, x of cost, none for other kinds. */
enum plot_log { PLOT_LOG_USUAL = -1, PLOT_LOG_NONE, PLOT_LOG_X, PLOT_LOG_Y, PLOT_LOG_XY };

/* A request. Texts are borrowed; NULL is the default that plot_options states. */
struct plot_request {
	const char *program; /* for the stamp */
	enum plot_kind kind;
	const char *const *source; /* (n) "[LABEL=]FILE"; "-" is standard input; a folder stands for the training logs in it */
	int n;

	const char *x, *y, *group, *low, *high; /* names of columns */
	const char *floor;                      /* column of the floor; "": none */
	double level;                           /* confidence level of intervals, 0.5..1 */
	int64_t smooth;                         /* smoothing window in lines; 1: none, 0: a twentieth of the lines */
	enum plot_log log;
	const char *x_range, *y_range; /* "LO:HI" */
	const char *title, *x_label, *y_label;
	int64_t width, height; /* size in pixels; the height of bars follows from their number */
	double scale;          /* pixels of a PNG per pixel of the chart */
	enum plot_format format;
	const char *out; /* "-": standard output */
};

/* The option table that fills a request (core/option.h), and the defaults. */
extern const struct option plot_options[];
struct plot_request plot_defaults(void);

/* Parse the name of a kind. ERR_USAGE lists the kinds. */
int plot_kind_parse(enum plot_kind *kind, const char *name, struct err *e);

/* 1 if the output is a PNG, by the format or by the name of the output. */
int plot_is_png(const struct plot_request *r);

/* Read the files and write the chart. *absent: number of rows without a value for x or y. ERR_USAGE: columns, ranges, the number of files or the size
 * do not suit the kind; ERR_NOINPUT: a file is missing; ERR_DATA: a file is damaged or nothing is left to draw; ERR_EXISTS: the output exists and is
 * not an older chart. */
int plot_make(const struct plot_request *r, int64_t *absent, struct err *e);

#endif
