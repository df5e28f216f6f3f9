/* Things that are chosen by name and up to two numbers: "full", "top-2", "min-snr:5", "logit-normal:-.4,1.2".
 *
 * A table of such things has rows of any struct whose first member is a struct named. */
#ifndef DDM_CORE_NAMED_H
#define DDM_CORE_NAMED_H

#include <stddef.h>

#include "core/err.h"

enum { NAMED_NUMBERS = 2 };

struct named {
	const char *name;
	const char *numbers; /* what stands behind the name, as a manual writes it: "-K", ":P", ":MEAN,STD"; NULL: nothing does */
	int count;           /* of these numbers */
	int optional;        /* the name may stand alone: then they are as usual */
	int whole;           /* they are whole numbers */
	struct {
		double usual, lo, hi;
	} number[NAMED_NUMBERS];
};

struct named_table {
	const void *row;
	size_t rows, size; /* size: of one row, in bytes */
};

#define NAMED_TABLE(table) {table, sizeof(table) / sizeof *(table), sizeof *(table)}

/* The index of the row that `text` names, and its numbers. -1 with ERR_USAGE, which says what the numbers of that name must be, or lists the
 * table where no row has the name; the caller puts the option's name before it (err_prefix). */
int named_parse(const struct named_table *t, const char *text, double number[NAMED_NUMBERS], struct err *e);
const struct named *named_row(const struct named_table *t, size_t i);

#endif
