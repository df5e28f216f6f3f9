/* Inside struct tsv: shared by the two readers, of our tables (tsv.c) and of others' (foreign.c). */
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
	int64_t *line; /* [rows] of a table by others: where each stands; NULL: row + 3 */
	char sha256[65];
	int columns;
	int64_t rows;
	int indexed;   /* column, -1: none */
	int64_t *slot; /* [mask + 1] row + 1, 0: free */
	uint64_t mask;
};

/* t->text holds len bytes and a NUL, of a table that another program made. */
int foreign_parse(struct tsv *t, size_t len, struct err *e);

#endif
