/* Rows with named columns, from a table of ours (file/tsv.h) or from JSON lines, where members of nested objects are reached with
 * a dot and a row need not have every column. */
#ifndef DDM_PLOT_FRAME_H
#define DDM_PLOT_FRAME_H

#include <stdint.h>

#include "core/err.h"

struct frame;

/* "-": standard input. Told by its first byte; neither, or damaged, or no row: ERR_DATA. Caller frees with frame_free. */
struct frame *frame_load(const char *path, struct err *e);
void frame_free(struct frame *f);

int64_t frame_rows(const struct frame *f);
const char *frame_sha256(const struct frame *f); /* of all bytes, in hexadecimal */

/* The name of the first column; "label" of JSON lines. Borrowed. */
const char *frame_first(const struct frame *f);
/* 1 when some row has the column, 0 when none has. */
int frame_has(const struct frame *f, const char *column);
/* -1 and ERR_DATA when no row has it. */
int frame_need(const struct frame *f, const char *column, struct err *e);

/* 1 and the number; 0 where there is none (no such member, empty, null, "-", "nan", not finite); -1 and ERR_DATA for anything that
 * is not a number. */
int frame_number(const struct frame *f, int64_t row, const char *column, double *out, struct err *e);
/* The text, numbers as they are shown elsewhere; "" where there is none. Borrowed until the next call. */
const char *frame_text(struct frame *f, int64_t row, const char *column);

/* The last member of that name in JSON lines as a line of JSON, or NULL. Caller frees with mem_free. */
char *frame_json(const struct frame *f, const char *column);

#endif
