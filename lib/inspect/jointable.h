/* Joins the numbers of several files of JSON lines into one table: a row per label, a column per key. */
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

/* A zeroed table is empty. Release with jointable_release. */
struct jointable {
	struct jointable_row *row;
	int rows;
	char *name[JOINTABLE_COLUMNS]; /* heading */
	char *key[JOINTABLE_COLUMNS];
	int columns;
};

/* Read the lines of a file into the row of `label`, which stays borrowed. Members of nested objects become "outer.inner"; arrays are left out. Later
 * lines and later files replace earlier values. ERR_DATA if the file is empty or a line is not a JSON object. */
int jointable_read(struct jointable *t, const char *label, const char *path, struct err *e);

/* Set the columns after all files are read. list: "NAME=KEY" or "KEY", separated by commas; NULL: every key with a number, in the order of
 * appearance. ERR_USAGE for a malformed list or too many columns. */
int jointable_columns(struct jointable *t, const char *list, struct err *e);

/* The value of column c in row r as text: a real number by the printf format `number`, "" if the row lacks the value. Tabs and newlines become
 * blanks. */
void jointable_cell(char *text, size_t size, const struct jointable *t, int r, int c, const char *number);

/* Write the table as TSV by the commit protocol, with the stamp of `program`; `title` is the heading of the labels. */
int jointable_write(const struct jointable *t, const char *path, const char *title, const char *program, struct err *e);

void jointable_release(struct jointable *t);

#endif
