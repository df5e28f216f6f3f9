/* Turns the programs' files into charts. Each function adds the content of one file to a chart and sets labels and scales that the chart lacks. If
 * `hash` is not NULL it receives the SHA-256 of the file. Errors: ERR_DATA for a damaged file or a missing column; those of reading a file. */
#ifndef DDM_PLOT_SOURCES_H
#define DDM_PLOT_SOURCES_H

#include <stdint.h>

#include "core/err.h"
#include "plot/chart.h"

/* A training log: the loss against the step, smoothed over `smooth` lines (0: a twentieth of the lines), the unsmoothed loss behind it, and val_loss
 * as points. When a run resumed at an earlier step, lines logged beyond that step are dropped. */
int source_loss(struct chart *c, const char *path, const char *label, int64_t smooth, char hash[65], struct err *e);

/* Columns x and y of a table or of JSON lines. `group` is the column whose values name the series; NULL: one series, `label`. low and high (NULL:
 * none) are columns of intervals. Returns the number of rows without x or y, or -1. */
int64_t source_columns(struct chart *c, const char *path, const char *label, const char *x, const char *y, const char *group, const char *low,
                       const char *high, int marks, char hash[65], struct err *e);

/* A metric against the cost of a sample. One point an arm: the arm's rows are those with the same name in the column `arm`, in all tables (paths, n).
 * If there are several rows, as from several seeds, the point is their mean and the interval Student's at `level`. `floor` (NULL: none) is a column
 * whose mean becomes a rule. hash [n] or NULL. */
int source_cost(struct chart *c, char *const *path, int n, const char *arm, const char *x, const char *y, const char *floor, double level,
                char (*hash)[65], struct err *e);

/* The name of the first column of a table, which holds the arms; for JSON lines "label". Caller frees with mem_free. */
char *source_arm_column(const char *path, struct err *e);

/* 1 if the file can be read and has the column. */
int source_has(const char *path, const char *column);

/* A log of ddm-sample --log: each expert's weight against t, from noise to data, as the mean over pictures; and the mean entropy of a picture's
 * weights. Either chart may be NULL. */
int source_router(struct chart *weights, struct chart *entropy, const char *path, char hash[65], struct err *e);

/* A router's training log: its accuracy on held-out pictures at the last validation, against t. */
int source_accuracy(struct chart *c, const char *path, const char *label, char hash[65], struct err *e);

/* Lines or a table of ddm-compare: the differences of `key` with their intervals. NULL: the only key in the file, ERR_USAGE if there are several. */
int source_compare(struct bars *b, const char *path, const char *key, char hash[65], struct err *e);

/* Rows of a table: the column `label` names the bars. Rows of equal name become one bar, their mean with Student's interval, unless low and high name
 * columns of intervals. */
int source_bars(struct bars *b, const char *path, const char *label, const char *value, const char *low, const char *high, double level,
                char hash[65], struct err *e);

/* The label of file i of n: the part of its path that differs from the others; for a single file, the last telling part of its path. Caller frees
 * with mem_free. */
char *source_label(char *const *path, int n, int i);

#endif
