/* Turns the programs' files into charts. Each function adds the content of one file to a chart; labels and scales that the chart lacks are
 * set. They hand back the SHA-256 of the file where `hash` is not NULL. */
#ifndef DDM_PLOT_SOURCES_H
#define DDM_PLOT_SOURCES_H

#include <stdint.h>

#include "core/err.h"
#include "plot/chart.h"

/* A log of training: the loss against the step, smoothed over `smooth` lines (0: a twentieth of them) with the lines themselves
 * behind it, and val_loss as points. What a killed run had logged beyond the step at which it went on is passed over. */
int source_loss(struct chart *c, const char *path, const char *label, int64_t smooth, char hash[65], struct err *e);

/* Columns x and y of a table or of JSON lines; `group`, where not NULL, is the column whose values name the series, below which
 * rows of equal value stand; else there is one series, `label`. low and high (NULL: none) are columns of intervals. Returns how
 * many rows were without x or y, or -1. */
int64_t source_columns(struct chart *c, const char *path, const char *label, const char *x, const char *y, const char *group, const char *low,
                       const char *high, int marks, char hash[65], struct err *e);

/* A metric against what a sample costs: one point an arm, its rows being those of all tables (paths, n) with the same name in the
 * first column `arm`; with several of them, as those of several seeds, the point is the mean and the interval Student's at
 * `level`. `floor` (NULL: none) is a column whose mean becomes a rule. hash [n] or NULL. */
int source_cost(struct chart *c, char *const *path, int n, const char *arm, const char *x, const char *y, const char *floor, double level,
                char (*hash)[65], struct err *e);

/* The first column of a table, in which the arms stand; "label" of JSON lines. Caller frees with mem_free. */
char *source_arm_column(const char *path, struct err *e);

/* Whether a file can be read and has the column. */
int source_has(const char *path, const char *column);

/* Weights of ddm-sample --log: the mean over pictures of each expert's weight against t, from noise to data. And the mean entropy of
 * a picture's weights. Either chart may be NULL. */
int source_router(struct chart *weights, struct chart *entropy, const char *path, char hash[65], struct err *e);

/* A router's log of training: at which share of the held-out pictures the last validation found the cluster, against t. */
int source_accuracy(struct chart *c, const char *path, const char *label, char hash[65], struct err *e);

/* Lines or a table of ddm-compare: differences of `key` with their intervals. NULL: the only key there is, ERR_USAGE where there are
 * several. */
int source_compare(struct bars *b, const char *path, const char *key, char hash[65], struct err *e);

/* Rows of a table: the column `label` names the bars, of equal names the mean is shown and Student's interval, unless low and high
 * name columns. */
int source_bars(struct bars *b, const char *path, const char *label, const char *value, const char *low, const char *high, double level,
                char hash[65], struct err *e);

/* Labels for files that have none: the parts of their paths in which they differ; of one alone, the last telling part. Caller
 * frees with mem_free. */
char *source_label(char *const *path, int n, int i);

#endif
