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
	const char *numbers; /* how a manual writes the numbers after the name: "-K", ":P", ":MEAN,STD"; NULL: the name takes none */
	int count;           /* how many numbers */
	int optional;        /* 1: the name may stand alone; the numbers are then the `usual` ones */
	int whole;           /* 1: the numbers are integers */
	struct {
		double usual, lo, hi;
	} number[NAMED_NUMBERS];
};

struct named_table {
	const void *row;
	size_t rows, size; /* size: of one row, in bytes */
};

/* clang-format off */
#define NAMED_TABLE(table) {table, sizeof(table) / sizeof *(table), sizeof *(table)}
/* clang-format on */

/* Find the row that `text` names. Returns its index and fills in its numbers, or -1 with ERR_USAGE: the message states the allowed numbers of
 * that name, or lists the table if no row has the name. The caller prefixes the option's name (err_prefix). */
int named_parse(const struct named_table *t, const char *text, double number[NAMED_NUMBERS], struct err *e);
const struct named *named_row(const struct named_table *t, size_t i);

#endif
