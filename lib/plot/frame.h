/* Rows with named columns, from a table of ours (file/tsv.h) or from JSON lines. In JSON lines, "outer.inner" names a member of a nested object, and
 * a row may lack columns. */
#ifndef DDM_PLOT_FRAME_H
#define DDM_PLOT_FRAME_H

#include <stdint.h>

#include "core/err.h"

struct frame;

/* Load a file, "-" for standard input; the first byte decides between table and JSON lines. NULL and ERR_DATA if it is neither, damaged, or has no
 * row. Caller frees with frame_free. */
struct frame *frame_load(const char *path, struct err *e);
void frame_free(struct frame *f); /* NULL is allowed */

int64_t frame_rows(const struct frame *f);
const char *frame_sha256(const struct frame *f); /* of all bytes, in hexadecimal */

/* The name of the first column; for JSON lines "label". Borrowed. */
const char *frame_first(const struct frame *f);
/* 1 if at least one row has the column, else 0. */
int frame_has(const struct frame *f, const char *column);
/* 0 if at least one row has the column, else -1 and ERR_DATA. */
int frame_need(const struct frame *f, const char *column, struct err *e);

/* 1 and *out; 0 if there is no number (no such member, empty, null, "-", "nan", not finite); -1 and ERR_DATA for anything else that is not a
 * number. */
int frame_number(const struct frame *f, int64_t row, const char *column, double *out, struct err *e);
/* The value as text, numbers as axis_number prints them; "" if there is none. Borrowed until the next call. */
const char *frame_text(struct frame *f, int64_t row, const char *column);

/* The object that is the last member of that name in JSON lines, as a line of JSON, or NULL. Caller frees with mem_free. */
char *frame_json(const struct frame *f, const char *column);

#endif
