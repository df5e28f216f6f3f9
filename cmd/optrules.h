/* When an option does something. No option is ignored in silence: one that cannot do anything beside the others is an error. */
#ifndef DDM_CMD_OPTRULES_H
#define DDM_CMD_OPTRULES_H

#include "cmd/opt.h"

enum opt_use {
	USE_ALWAYS,  /* in every mode, or it can change no result */
	USE_NEEDS,   /* only with one of `with` */
	USE_AGAINST, /* not with any of `with` */
	USE_INPUT    /* what the operands hold decides: the program refuses it, and `with` says what it is for */
};

/* A row of a program's table. `with` is a list with blanks between: "--grid" is given; "--route=oracle" has this value, given or by default,
 * "--features=clip:*" one that begins so, "--output=*.png" one that ends so; "--metrics~fd" was not given or holds this word of a list;
 * "1=loss" is the first operand; "-" is one of the operands. */
struct opt_rule {
	const char *options; /* names with blanks between: "--axes --draws"; of options without a long name "-n" */
	enum opt_use use;
	const char *with;
};

/* The table of a program, which ends with an entry without options; NULL: there is none. */
const struct opt_rule *optrules_of(const char *program);

/* -1 and ERR_USAGE naming the option and what it needs, where one that was given does nothing. operand: (n) */
int optrules_check(const struct program *p, const struct opt_given *given, char **operand, int n, struct err *e);

/* The table as text: a line for each option of the program and each of its rules, "--axes<TAB>needs<TAB>--metrics~fd", then a value that it
 * takes and its default; "none" where there is no rule, which is a mistake that tests/cli/idle.sh finds. Caller frees with mem_free. */
char *optrules_text(const struct program *p);

#endif
