/* Conditions on the columns of a sample, such as
 *
 *     motion > .1 && (sharp > .3 || has(aesthetic) && aesthetic >= 5) && key ~ 'roses/?*'
 *
 * From loose to tight: ||; &&; ! before a condition; the comparisons == != < <= > >= ~; + and -; * and /; - before a value. Parentheses group.
 * A value is a number, a text in single or double quotes, or a column. A column is a name of letters, digits, '_' and '.', or any text in
 * backquotes. A value in place of a condition holds if it is a number other than 0. text ~ 'pattern' compares with a pattern in which * stands for
 * any characters and ? for one. == and != compare two numbers if both values are numbers, otherwise two texts. A comparison with a missing value, or
 * with a result that is not finite (a division by zero), is false. has(column) is true where the sample has the column.
 *
 * The parts of the condition that && joins at the top are its rules. */
#ifndef DDM_DATA_CONDITION_H
#define DDM_DATA_CONDITION_H

#include <stdint.h>

#include "core/err.h"

enum { CONDITION_LENGTH = 8192, CONDITION_DEPTH = 100, CONDITION_NODES = 1000 }; /* limits: characters, nesting, operators and values together */

struct condition;

/* The value of a column in a sample. */
struct condition_value {
	int there;     /* 0: the sample lacks the column */
	int is_number; /* `number` is a finite number */
	double number;
	const char *text; /* the value as text; NULL if it has none */
};

/* NULL and ERR_USAGE for a text that is no condition; the message names the position. Caller frees with condition_free. */
struct condition *condition_parse(const char *text, struct err *e);
void condition_free(struct condition *c); /* NULL is allowed */

/* Its columns, each once, in the order in which they appear. */
int condition_columns(const struct condition *c);
const char *condition_column(const struct condition *c, int i);
int condition_needs(const struct condition *c, int i); /* 0: the column appears in has() alone */

int condition_rules(const struct condition *c);
const char *condition_rule(const struct condition *c, int rule); /* its text */
/* Whether a rule holds for a sample with these columns (condition_columns). Every part is evaluated: lacks[i] (the same number) is set to 1 if a
 * comparison lacked column i, or lacked a number in it; *undefined is increased for each comparison with a result that is not finite. */
int condition_holds(const struct condition *c, int rule, const struct condition_value *column, uint8_t *lacks, int64_t *undefined);

/* The number that a rule compares with a constant, or otherwise its first column that is a number: 1 and *v, or 0. For histograms. */
int condition_measure(const struct condition *c, int rule, const struct condition_value *column, double *v);
/* The text of what condition_measure gives; and 1 and the constant, if the rule compares with one. NULL: nothing can be a number. */
const char *condition_measured(const struct condition *c, int rule, int *has_limit, double *limit);

#endif
