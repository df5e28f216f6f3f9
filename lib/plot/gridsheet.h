/* A contact sheet as PNG: labelled rows of pictures from several sources. */
#ifndef DDM_PLOT_GRIDSHEET_H
#define DDM_PLOT_GRIDSHEET_H

#include "core/err.h"
#include "core/option.h"

struct grid_request {
	const char *program;       /* for the stamp */
	const char *const *source; /* (n) "LABEL=SAMPLES": a tar, folder, list or SHARDS folder */
	int n;
	int64_t columns, rows, skip; /* pictures in a row, rows of each source; the first of each that are passed over */
	int64_t scale, size;         /* whole factor; side of a picture before it, 0: that of the first */
	int spread, holdout;
	const char *out; /* "-": standard output */
};

/* The options that fill a request on a command line, and its defaults. */
extern const struct option grid_options[];
struct grid_request grid_defaults(void);

/* Reads the pictures and writes the sheet. ERR_USAGE: a source is not LABEL=SAMPLES, the sheet would be too large; ERR_DATA: no picture;
 * ERR_EXISTS: something else stands under the name. */
int grid_make(const struct grid_request *r, struct err *e);

#endif
