/* Options of a program: one table drives parsing, -h and the checks of the manual page. */
#ifndef DDM_CMD_OPT_H
#define DDM_CMD_OPT_H

#include <stdint.h>

#include "core/err.h"

enum opt_type {
	OPT_FLAG,     /* int: set to 1 */
	OPT_INT,      /* int64_t in [lo, hi] */
	OPT_U64,      /* uint64_t */
	OPT_REAL,     /* double in [lo, hi] */
	OPT_TEXT,     /* const char *: borrowed from argv */
	OPT_LIST,     /* struct opt_list: may be given again and again */
	OPT_DURATION, /* double, seconds: 90, 15m, 2h */
	OPT_SIZE,     /* uint64_t, bytes: 512, 64K, 3G */
	OPT_CHOICE    /* int: index into `choices`, a NULL-terminated array */
};

struct opt_list {
	const char **v;
	int n;
};

struct opt {
	const char *name;          /* "--steps"; NULL when there is only a letter */
	char letter;               /* 'n' or 0 */
	enum opt_type type;
	void *value;               /* keeps its default when the option is absent */
	double lo, hi;             /* OPT_INT, OPT_REAL: inclusive; both 0: no limit */
	const char *arg;           /* "N"; NULL for a flag */
	const char *help;          /* one line, lower case, no full stop; "(default X)" where it has one */
	const char *const *choices; /* OPT_CHOICE; -h lists them after the help. OPT_TEXT: NULL, or words that completion offers */
	int *given;                /* NULL, or set to 1 when the option was seen */
};

struct program {
	const char *name;     /* "ddm-cluster" */
	const char *synopsis; /* what follows the name, without "[-hV]": "-k K [--fine N] ... SAMPLES..."; same as the manual's */
	const char *about;    /* one sentence */
	const struct opt *options; /* ends with an entry whose name is NULL and letter is 0 */
};

extern const struct opt opt_builtin[]; /* -h and -V, which every program has */

/* Parse argv: "--steps 5", "--steps=5", "-n 5", "-n5", bundled letters of flags, "--" ends options, "-" is an operand, options
 * and operands may mix. A long option may be cut short where that is unique. Unknown or
 * ambiguous options, missing or bad values: -1 and ERR_USAGE naming the option, the value and the
 * allowed range. -h/--help and -V/--version are handled here: they print to stdout and exit 0 (--version names the build), and so is
 * "--completion SHELL" where it is all there is (cmd/complete.h). Leaves the operands in argv[1 .. *operands]. */
int opt_parse(const struct program *p, int argc, char **argv, int *operands, struct err *e);

/* What -h prints. Caller frees with mem_free. */
char *opt_help(const struct program *p);

#endif
