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
	const char *name;          /* "--steps"; NULL when there is only a letter, and in OPT_GROUP */
	char letter;               /* 'n' or 0 */
	enum opt_type type;
	void *value;               /* keeps its default when the option is absent */
	double lo, hi;             /* OPT_INT, OPT_REAL: inclusive; both 0: no limit */
	const char *arg;           /* "N"; NULL for a flag */
	const char *help;          /* one line, lower case, no full stop; "(default X)" where it has one */
	const char *const *choices; /* OPT_CHOICE; -h lists them after the help. OPT_TEXT: NULL, or words that completion offers */
	int *given;                /* NULL, or set to 1 when the option was seen */
};

/* A row of the table that heads the options after it in -h. */
#define OPT_GROUP(title) {.help = title}

struct program {
	const char *name;     /* "ddm-cluster" */
	const char *synopsis; /* what follows the name, without "[-hV]": "-k K [--fine N] ... SAMPLES..."; same as the manual's */
	const char *about;    /* one sentence */
	const struct opt *options; /* ends with an entry without name, letter and help */
};

extern const struct opt opt_builtin[]; /* -h and -V, which every program has */

int opt_is_end(const struct opt *o);
int opt_is_group(const struct opt *o);

/* Options as they were given, in that order, each once. */
enum { OPT_MOST = 128 };
struct opt_given {
	const struct opt *v[OPT_MOST];
	int n;
};

/* Parse argv: "--steps 5", "--steps=5", "-n 5", "-n5", bundled letters of flags, "--" ends options, "-" is an operand, options
 * and operands may mix. A long option may be cut short where that is unique. Unknown or ambiguous options, missing or bad values: -1 and
 * ERR_USAGE naming the option, the value and the allowed range, and what was probably meant. A name of an earlier version is taken and told
 * on stderr (cmd/optnames.h). -h/--help and -V/--version are handled here: they print to stdout and exit 0 (--version names the build),
 * and so is "--completion SHELL" where it is all there is (cmd/complete.h). Leaves the operands in argv[1 .. *operands] and the options that
 * were seen in *given (NULL: not wanted). */
int opt_parse(const struct program *p, int argc, char **argv, int *operands, struct opt_given *given, struct err *e);

/* What -h prints. Caller frees with mem_free. */
char *opt_help(const struct program *p);

#endif
