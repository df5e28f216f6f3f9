/* The contents of struct tsv, shared by the readers of our tables (tsv.c), of other programs' tables (foreign.c) and of rows in files (tsvfile.c). */
#ifndef DDM_FILE_TSVIMPL_H
#define DDM_FILE_TSVIMPL_H

#include "core/str.h"
#include "file/tsv.h"

enum { COLUMNS_MAX = 1000 };

struct tsv {
	char *where;
	char *head;   /* what `names` and `stamp` point to, unless that is `text` */
	char *text;   /* every field NUL-terminated in place */
	char **names; /* [columns] */
	char **cell;  /* [rows][columns] */
	const char *stamp;
	int64_t *line; /* [rows] line number of each row in another program's table; NULL: row + 3 */
	char sha256[65];
	int columns;
	int64_t rows;
	int indexed;   /* indexed column; -1: none */
	int64_t *slot; /* [mask + 1] hash table of row + 1; 0: free */
	uint64_t mask;
};

/* A table with its name and hash, but without columns and rows. */
struct tsv *tsv_begin(const char *text, size_t len, const char *name);
int tsv_text_is_ours(const char *text, size_t len);
/* Verify the end of a table of ours, and set columns, names, stamp and number of rows. *first: offset of the first row. ERR_DATA. */
int tsv_parse_head(struct tsv *t, const char *text, size_t len, size_t *first, struct err *e);
/* Cut the text of a row of ours into exactly t->columns fields. ERR_DATA. */
int tsv_cut_row(const struct tsv *t, char *line, char **cell, int64_t number, struct err *e);

/* Where rows of another program's table are. Offsets in its text, line numbers from 1. */
struct foreign {
	size_t at;
	int64_t line;
	char separator;
	int comments;
};
/* Set columns and names from the first line; f: the place behind it. ERR_DATA. */
int foreign_head(struct tsv *t, const char *text, size_t len, struct foreign *f, struct err *e);
/* Move f to the next line that is a row; 0 at the end. */
int foreign_find(const char *text, size_t len, struct foreign *f);
/* Copy the row at f into *copy, cut it into cell [columns], and move f behind it. ERR_DATA. */
int foreign_row(const struct tsv *t, const char *text, size_t len, struct foreign *f, struct str *copy, char **cell, struct err *e);
/* Move f behind the row at f. */
void foreign_skip(const char *text, size_t len, struct foreign *f);

/* Parse another program's table in t->text, which holds len bytes and a NUL. ERR_DATA. */
int foreign_parse(struct tsv *t, size_t len, struct err *e);

#endif
