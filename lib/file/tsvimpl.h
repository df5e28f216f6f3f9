/* The contents of struct tsv, shared by the readers of our tables (tsv.c) and of other programs' tables (foreign.c). */
#ifndef DDM_FILE_TSVIMPL_H
#define DDM_FILE_TSVIMPL_H

#include "file/tsv.h"

enum { COLUMNS_MAX = 1000 };

struct tsv {
	char *where;
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

/* Parse another program's table in t->text, which holds len bytes and a NUL. ERR_DATA. */
int foreign_parse(struct tsv *t, size_t len, struct err *e);

#endif
