/* Draws a chart from a request, as ddm-plot does. */
#ifndef DDM_PLOT_PLOT_H
#define DDM_PLOT_PLOT_H

#include <stdint.h>

#include "core/err.h"
#include "core/option.h"

/* Logs of training, tables of ddm-report, logs of ddm-sample or of a router's training, lines of ddm-compare; columns of any table or JSON lines. */
enum plot_kind { PLOT_LOSS, PLOT_COST, PLOT_ROUTER, PLOT_COMPARE, PLOT_LINES, PLOT_POINTS, PLOT_BARS };

enum plot_format { PLOT_BY_NAME = -1, PLOT_SVG, PLOT_PNG };

/* Which scales are logarithmic. PLOT_LOG_USUAL: y of loss, x of cost, none of the others. */
enum plot_log { PLOT_LOG_USUAL = -1, PLOT_LOG_NONE, PLOT_LOG_X, PLOT_LOG_Y, PLOT_LOG_XY };

/* Texts are borrowed; NULL is the default that plot_options states. */
struct plot_request {
	const char *program; /* for the stamp */
	enum plot_kind kind;
	const char *const *source; /* (n) "[LABEL=]FILE"; "-" is standard input, a folder stands for the logs of training in it */
	int n;

	const char *x, *y, *group, *low, *high; /* columns */
	const char *floor;                      /* column, "": none */
	double level;                           /* of intervals, 0.5..1 */
	int64_t smooth;                         /* lines, 1: none, 0: a twentieth of them */
	enum plot_log log;
	const char *x_range, *y_range; /* "LO:HI" */
	const char *title, *x_label, *y_label;
	int64_t width, height; /* pixels; of bars the height follows from their number */
	double scale;          /* pixels of a PNG to one of these */
	enum plot_format format;
	const char *out; /* "-": standard output */
};

/* The options that fill a request on a command line, and its defaults. */
extern const struct option plot_options[];
struct plot_request plot_defaults(void);

/* 0, or -1 and ERR_USAGE naming the kinds there are. */
int plot_kind_parse(enum plot_kind *kind, const char *name, struct err *e);

/* Whether the request is for a PNG, by its format or by the name of its output. */
int plot_is_png(const struct plot_request *r);

/* Reads the files and writes the chart. Sets *absent to the number of rows without a value for x or y. ERR_USAGE: columns, ranges, the number of
 * files or the size are not for this kind; ERR_NOINPUT: a file is missing; ERR_DATA: a file is damaged or nothing is left to draw; ERR_EXISTS:
 * something other than an older chart stands under the name. */
int plot_make(const struct plot_request *r, int64_t *absent, struct err *e);

#endif
