/* Lists on the command line and tables of the commands of ddm-diagnose. */
#ifndef DDM_CMD_DIAGNOSE_TABLE_H
#define DDM_CMD_DIAGNOSE_TABLE_H

#include <jansson.h>

#include "core/err.h"
#include "diffusion/ensemble.h"
#include "file/stamp.h"

/* The words of a list separated by commas. */
struct words {
	char **v;
	int n;
};

/* Append the words of a list, or its routes: the entries of a schedule stay together. */
void words_cut(struct words *w, const char *text);
void words_cut_routes(struct words *w, const char *text);
void words_release(struct words *w);
json_t *words_list(const struct words *w);

/* Parse the times of --timesteps into time, and their number into *n. ERR_USAGE for one that is not from .001 to 1, or too many. */
enum { DIAGNOSE_TIMES = 1000 };
int diagnose_times(double time[DIAGNOSE_TIMES], int *n, const char *text, struct err *e);

json_t *diagnose_time_list(const double *time, int n);

/* Add all files of the model to a stamp. */
void diagnose_stamp_model(struct stamp *s, const struct ensemble *m);

/* Write rows as a table. All rows have the same keys, which become the columns. A value that is no string and no number is written as nan. */
int diagnose_table(const char *path, const json_t *rows, const struct stamp *stamp, struct err *e);

/* Write {"stamp": .., "rows": rows, name: list}; list NULL: without it. Does nothing if path is NULL. */
int diagnose_json(const char *path, json_t *rows, const char *name, json_t *list, const struct stamp *stamp, struct err *e);

/* 1 if all outputs, two tables and a JSON text, exist with this stamp; 0 if there is work to do; -1 on error: another file has the name of an
 * output, a table is damaged, or two outputs are standard output. Each may be NULL. */
int diagnose_finished(const char *table, const char *other, const char *json, const struct stamp *stamp, struct err *e);

#endif
