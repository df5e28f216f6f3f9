/* The table of ddm-status. */
#ifndef DDM_CMD_STATUSTABLE_H
#define DDM_CMD_STATUSTABLE_H

#include "core/str.h"
#include "inspect/runstatus.h"

enum { STATUS_CURVE = 6, STATUS_COLUMNS = 13 };

struct status_style {
	double cost_per_hour; /* 0: no column for the cost */
	int utf8;             /* 1: text may hold characters outside ASCII */
	int errors;           /* 1: the notes include the logs that cannot be read whole */
};

/* The headings, and the cells of a run; caller frees each with mem_free. Returns how many columns are used. */
extern const char *const status_heading[STATUS_COLUMNS];
int status_cells(char *cell[STATUS_COLUMNS], const struct run *x, const struct status_style *s);

/* The line below the table: how many are in each state, and the cost of all. Caller frees with mem_free. */
char *status_summary(const struct runs *r, const struct status_style *s);

/* Append the table with aligned columns, the summary and the notes. Text from files is escaped. */
void status_table(struct str *out, const struct runs *r, const struct status_style *s);

/* Name the logs that could not be read whole: the first becomes the error, and the others are warned of. */
void status_errors(const struct runs *r, struct err *e);

/* Print text over what the terminal on stdout shows, cut to its size. */
void status_redraw(const char *text);

#endif
