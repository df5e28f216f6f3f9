/* Tables that programs exchange: tab-separated text for cut, sort, join and awk, with a last line that detects truncation.
 *
 *     #key	cluster	distance        column names after one '#'
 *     #stamp {"program":"ddm-cluster",...}     always the second line; {} without a stamp
 *     a/0001	2	0.731                   rows; no field holds a tab, newline or NUL
 *     #end 1 5f3c...                  rows, XXH3-64 of every byte before this line in 16 hex digits; nothing follows
 */
#ifndef DDM_FILE_TSV_H
#define DDM_FILE_TSV_H

#include <stdint.h>

#include "core/err.h"
#include "file/commit.h"
#include "file/stamp.h"

/* A whole table in memory. */
struct tsv;

/* Read a table of this format. "-" is standard input. ERR_DATA names the first line that does not follow the format. Caller frees with tsv_free. */
struct tsv *tsv_load(const char *path, struct err *e);
struct tsv *tsv_parse(const void *text, size_t len, const char *name, struct err *e); /* copies */
/* Read a table of this format or of another program. The latter has a line with the column names, with or without '#', then rows; fields are
 * separated by tabs, else by commas or semicolons, and may be in double quotes as in RFC 4180. Blank lines are skipped, and so are later lines that
 * begin with '#' if the first line does. Its stamp is "{}", and its end is not verified. ERR_DATA names line and column. Free with tsv_free. */
struct tsv *tsv_load_any(const char *path, struct err *e);
struct tsv *tsv_parse_any(const void *text, size_t len, const char *name, struct err *e); /* copies */
void tsv_free(struct tsv *t);

int64_t tsv_rows(const struct tsv *t);
int64_t tsv_line(const struct tsv *t, int64_t row); /* line number of a row in the file, from 1 */
int tsv_is_ours(const struct tsv *t);               /* 1: in this format, verified by its last line */
int tsv_columns(const struct tsv *t);
const char *tsv_name(const struct tsv *t, int column);
const char *tsv_stamp(const struct tsv *t);  /* one line of JSON */
const char *tsv_sha256(const struct tsv *t); /* SHA-256 of the file, in hexadecimal */

int tsv_column(const struct tsv *t, const char *name);              /* index; -1: none */
int tsv_need(const struct tsv *t, const char *name, struct err *e); /* index; -1 and ERR_DATA: none */

const char *tsv_get(const struct tsv *t, int64_t row, int column); /* borrowed until tsv_free */
/* Parse a number in [lo, hi]. ERR_DATA names line and column. */
int tsv_i64(const struct tsv *t, int64_t row, int column, int64_t lo, int64_t hi, int64_t *out, struct err *e);
int tsv_f64(const struct tsv *t, int64_t row, int column, double lo, double hi, double *out, struct err *e);

/* Index one column for tsv_lookup. A value that occurs twice is ERR_DATA naming both lines. */
int tsv_index(struct tsv *t, int column, struct err *e);
int64_t tsv_lookup(const struct tsv *t, const char *value); /* row, or -1; needs tsv_index */

/* Write a table: put the fields of each row in column order, then call tsv_row. The first error is kept, and tsv_row and tsv_commit report it. */
struct tsv_writer;

/* Create the table with n columns. "-" is standard output. The stamp may be NULL. End with tsv_commit or tsv_abort. */
struct tsv_writer *tsv_create(const char *path, const char *const *names, int n, const struct stamp *s, struct err *e);
void tsv_put(struct tsv_writer *w, const char *text);
void tsv_put_i64(struct tsv_writer *w, int64_t v);
void tsv_put_f64(struct tsv_writer *w, double v); /* nine significant digits, enough to restore a float exactly */
int tsv_row(struct tsv_writer *w, struct err *e);
int tsv_commit(struct tsv_writer *w, struct err *e); /* writes the last line and moves the file into place; frees w, also on failure */
void tsv_abort(struct tsv_writer *w);                /* discards the table and frees w; NULL is allowed */

#endif
