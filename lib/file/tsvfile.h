/* Tables whose rows stay in their file, which is mapped: for tables of samples, of which there may be tens of millions. Memory for a row is less than
 * half a byte, and about 5 more with an index. A table through a pipe is held in memory. */
#ifndef DDM_FILE_TSVFILE_H
#define DDM_FILE_TSVFILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "file/tsv.h"

struct tsvfile;

/* The fields of a row, borrowed until another row is read into it. Zeroed holds none. Release with tsvfile_row_release. */
struct tsvfile_row {
	char **cell;  /* [columns] */
	int64_t row;  /* number, from 0 */
	int64_t line; /* number in the file, from 1 */
	/* private: the text of the fields, and where the next row is */
	struct str text;
	size_t next;
	int64_t next_line;
};

/* Open a table, of this format or of another program, as tsv_load_any does, and check every row. The file must not change meanwhile. Free with
 * tsvfile_free. */
struct tsvfile *tsvfile_open(const char *path, struct err *e);
void tsvfile_free(struct tsvfile *t); /* NULL is allowed */
/* Columns, stamp, hash and number of rows, for the functions of file/tsv.h that do not take the number of a row. Borrowed. */
const struct tsv *tsvfile_head(const struct tsvfile *t);

/* Read a row; the one after that which *r holds is found fastest. ERR_DATA: the file was altered since it was opened. */
int tsvfile_read(const struct tsvfile *t, int64_t row, struct tsvfile_row *r, struct err *e);
void tsvfile_row_release(struct tsvfile_row *r);
/* As tsv_i64, of a row that was read. */
int tsvfile_i64(const struct tsvfile *t, const struct tsvfile_row *r, int column, int64_t lo, int64_t hi, int64_t *out, struct err *e);

/* Index a column for tsvfile_find. A value that occurs twice is ERR_DATA naming both lines. */
int tsvfile_index(struct tsvfile *t, int column, struct err *e);
/* Read the row that holds the value in the indexed column: its number; -1: there is none, and *r holds any row or none. */
int64_t tsvfile_find(const struct tsvfile *t, const char *value, struct tsvfile_row *r);

#endif
