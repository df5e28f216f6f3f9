/* Makes a contact sheet as PNG: labelled rows of pictures from several sources. */
#ifndef DDM_PLOT_GRIDSHEET_H
#define DDM_PLOT_GRIDSHEET_H

#include "core/err.h"
#include "core/option.h"

struct grid_request {
	const char *program;       /* for the stamp */
	const char *const *source; /* (n) "LABEL=SAMPLES": a tar, folder, list or SHARDS folder */
	int n;
	int64_t columns, rows, skip; /* pictures in a row; rows of each source; number of pictures to skip at the start of each source */
	int64_t scale, size;         /* integer factor of enlargement; side of a picture before it, 0: that of the first picture */
	int spread, holdout;
	const char *out; /* "-": standard output */
};

/* The option table that fills a request (core/option.h), and the defaults. */
extern const struct option grid_options[];
struct grid_request grid_defaults(void);

/* Read the pictures and write the sheet. ERR_USAGE: a source is not LABEL=SAMPLES, or the sheet would be too large; ERR_DATA: no picture; ERR_EXISTS:
 * the output exists and is something else. */
int grid_make(const struct grid_request *r, struct err *e);

#endif
