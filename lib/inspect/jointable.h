/* A table of the numbers in files of JSON lines: a row per label, a column per key. */
#ifndef DDM_INSPECT_JOINTABLE_H
#define DDM_INSPECT_JOINTABLE_H

#include <jansson.h>
#include <stddef.h>

#include "core/err.h"

enum { JOINTABLE_COLUMNS = 64 };

struct jointable_row {
	const char *label; /* borrowed */
	json_t *values;    /* flat: "a.b" -> number, string or boolean; owned */
};

/* Zeroed is empty. */
struct jointable {
	struct jointable_row *row;
	int rows;
	char *name[JOINTABLE_COLUMNS]; /* heading */
	char *key[JOINTABLE_COLUMNS];
	int columns;
};

/* The lines of a file under a label, which stays borrowed. Members of nested objects become "outer.inner"; arrays are left out. Later lines and
 * later files replace what earlier ones said. What is not lines of JSON objects, or empty: ERR_DATA. */
int jointable_read(struct jointable *t, const char *label, const char *path, struct err *e);

/* The columns, once all files are read: "NAME=KEY" or "KEY" with commas between, or, with NULL, every number in the order of appearance. */
int jointable_columns(struct jointable *t, const char *list, struct err *e);

/* The value of column c in row r as text: numbers as the format `number` says, nothing where there is none; tabs and newlines become
 * blanks. */
void jointable_cell(char *text, size_t size, const struct jointable *t, int r, int c, const char *number);

/* As TSV by the commit protocol, stamped as the program's; `title` heads the labels. */
int jointable_write(const struct jointable *t, const char *path, const char *title, const char *program, struct err *e);

void jointable_release(struct jointable *t);

#endif
