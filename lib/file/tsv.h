/* Tables between programs: tab-separated text that cut, sort, join and awk read, and whose truncation is noticed.
 *
 *     #key	cluster	distance        column names after one '#'
 *     #stamp {"program":"ddm-cluster",...}     always the second line; {} when there is none
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

/* "-" is standard input. Any departure from the format is ERR_DATA naming the line. Caller frees with tsv_free. */
struct tsv *tsv_load(const char *path, struct err *e);
struct tsv *tsv_parse(const void *text, size_t len, const char *name, struct err *e); /* copies */
/* The same, or a table that another program made, which has no stamp ("{}") and no end to verify: a line with the names of the columns,
 * with or without '#', then rows; fields are separated by tabs, else by commas or semicolons and may be in double quotes as in RFC 4180. Blank
 * lines and, where the first line begins with '#', later ones that do are passed over. ERR_DATA names line and column. */
struct tsv *tsv_load_any(const char *path, struct err *e);
struct tsv *tsv_parse_any(const void *text, size_t len, const char *name, struct err *e); /* copies */
void tsv_free(struct tsv *t);

int64_t tsv_rows(const struct tsv *t);
int64_t tsv_line(const struct tsv *t, int64_t row); /* where a row stands in the file, from 1 */
int tsv_is_ours(const struct tsv *t);               /* it was verified by its last line */
int tsv_columns(const struct tsv *t);
const char *tsv_name(const struct tsv *t, int column);
const char *tsv_stamp(const struct tsv *t);  /* one line of JSON */
const char *tsv_sha256(const struct tsv *t); /* of all its bytes, in hexadecimal */

int tsv_column(const struct tsv *t, const char *name);              /* -1 when there is none */
int tsv_need(const struct tsv *t, const char *name, struct err *e); /* -1 and ERR_DATA when there is none */

const char *tsv_get(const struct tsv *t, int64_t row, int column); /* borrowed from t */
int tsv_i64(const struct tsv *t, int64_t row, int column, int64_t lo, int64_t hi, int64_t *out, struct err *e);
int tsv_f64(const struct tsv *t, int64_t row, int column, double lo, double hi, double *out, struct err *e);

/* Index one column for lookup; a value that occurs twice is ERR_DATA naming both lines. */
int tsv_index(struct tsv *t, int column, struct err *e);
int64_t tsv_lookup(const struct tsv *t, const char *value); /* row, or -1; needs tsv_index */

/* Writing: fields in column order, tsv_row after the last. The first error sticks and comes out of tsv_row and tsv_commit.
 * The stamp may be NULL. */
struct tsv_writer;

struct tsv_writer *tsv_create(const char *path, const char *const *names, int n, const struct stamp *s, struct err *e);
void tsv_put(struct tsv_writer *w, const char *text);
void tsv_put_i64(struct tsv_writer *w, int64_t v);
void tsv_put_f64(struct tsv_writer *w, double v); /* nine digits, which bring a float back exactly */
int tsv_row(struct tsv_writer *w, struct err *e);
int tsv_commit(struct tsv_writer *w, struct err *e); /* writes the last line, publishes, frees w, whatever happens */
void tsv_abort(struct tsv_writer *w);                /* frees w; NULL is allowed */

#endif
