/* Options, declared once. A row of a table says everything about an option: its names, type, default and range, the field it fills, when it does
 * something, and whether it determines the result. Parsing, -h, SYNOPSIS, completion, the refusal of an option that would do nothing
 * (below) and the stamp (file/optionstamp.h) follow from the row. A library function that takes many settings has a struct of them (its
 * request) and a table that fills it; a program adds the rows that are its own. Nothing here prints or exits. */
#ifndef DDM_CORE_OPTION_H
#define DDM_CORE_OPTION_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

enum option_type {
	OPTION_FLAG,     /* int: set to 1 */
	OPTION_INT,      /* int64_t or int, in [lo, hi] */
	OPTION_U64,      /* uint64_t */
	OPTION_REAL,     /* double in [lo, hi] */
	OPTION_TEXT,     /* const char *: borrowed from argv */
	OPTION_LIST,     /* struct option_list: may be given again and again */
	OPTION_DURATION, /* double, seconds: 90, 15m, 2h */
	OPTION_SIZE,     /* uint64_t, bytes: 512, 64K, 3G */
	OPTION_CHOICE,   /* int, int64_t or an enum: index into `choices`, a NULL-terminated array, or the number at that index of `values` */
	OPTION_OFF,      /* int: set to 0, by an option such as --no-verify */
	OPTION_PARSED    /* any: `parse` reads the text */
};

struct option_list {
	const char **v;
	int n;
};

enum option_use {
	USE_UNSAID,  /* a mistake, which tests/cli/idle.sh finds */
	USE_ALWAYS,  /* in every mode, or it can change no result */
	USE_NEEDS,   /* only with one of `with` */
	USE_AGAINST, /* not with any of `with` */
	USE_INPUT    /* what the operands hold decides: the program refuses it, and `with` says what it is for */
};

/* When an option does something. `with` is a list with blanks between: "--grid" is given; "--route=oracle" has this value, given or by default,
 * "--features=clip:*" one that begins so, "--output=*.png" one that ends so; "--metrics~fd" was not given or holds this word of a list;
 * "1=loss" is the first operand; "-" is one of the operands. */
struct option_rule {
	enum option_use use;
	const char *with;
};

enum option_stamp {
	STAMP_NOT,            /* the option changes no result */
	STAMP_ALWAYS,         /* its value stands in the stamp, under `key` */
	STAMP_UNLESS_DEFAULT, /* the same, and is left out where it is the default (without one: 0, NULL) */
	STAMP_OTHERWISE       /* it determines the result, and another row or the content of a file is what the stamp tells of it */
};

enum { OPTION_RULES = 3 };

struct stamp;

struct option {
	const char *name;      /* "--steps"; NULL when there is only a letter */
	char letter;           /* 'n' or 0; without both the row is a field of the request that only C programs set */
	enum option_type type;
	void *value;           /* the variable of a program that it fills; NULL: `field` of the table's request */
	double lo, hi;         /* OPTION_INT, OPTION_REAL: inclusive; both 0: no limit */
	const char *arg;       /* "N"; NULL for a flag */
	const char *help;      /* one line, lower case, no full stop; -h adds the default */
	const char *const *choices; /* OPTION_CHOICE, OPTION_PARSED; -h lists them after the help. Other types: NULL, or words that completion offers */
	int *given;            /* NULL, or set to 1 when the option was seen */

	size_t field, size;    /* OPTION_FIELD(struct request, member) */
	const char *preset;    /* the default, as on the command line; NULL: what the variable holds, 0 in a request */
	const char *said;      /* NULL, or what -h says in place of "default PRESET": "default steps / 20" */
	const char *required;  /* NULL, or what must be given: "the folder for the model". Empty: the program says where it must */
	int either;            /* this option or the row before, one of which is required */
	const int64_t *values; /* OPTION_CHOICE: the numbers that the choices stand for; NULL: 0, 1, 2, ... */
	/* OPTION_PARSED: 0, or -1 and ERR_USAGE; label is the option's name, for the message. */
	int (*parse)(void *field, const char *label, const char *text, struct err *e);
	const char *was;       /* names of an earlier version, with blanks between: "--times", "-c"; taken for one version, with a warning */
	const char *was_value, *is_value; /* the same of a value */
	struct option_rule when[OPTION_RULES];

	enum option_stamp stamp;
	const char *key; /* "recipe/draws": "draws" in the object "recipe" */
	int (*counts)(const void *request); /* NULL, or 0 where the others leave it without effect: the stamp has no such key */
	void (*put)(struct stamp *s, const char *key, const void *field); /* NULL, or what writes a field that is not a number, text or choice */
};

#define OPTION_FIELD(T, member) .field = offsetof(T, member), .size = sizeof(((T *)0)->member)
#define OPTION_ALWAYS .when = {{USE_ALWAYS, NULL}}

/* A row of the table that heads the options after it in -h. Several tables may have rows under one title. */
#define OPTION_GROUP(title) {.help = title}

/* The rows of a library's request, and the request that they fill. */
struct option_table {
	const struct option *options;
	void *request;
};

struct program {
	const char *name;     /* "ddm-cluster" */
	const char *about;    /* one sentence */
	const struct option *options;      /* its own; ends with an entry of zeros. NULL: none */
	const struct option_table *tables; /* those of the library, which come first; ends with an entry of zeros. NULL: none */
	const char *operands; /* "KIND [LABEL=]FILE..." */
};

extern const struct option option_builtin[]; /* -h and -V, which every program has */

int option_is_end(const struct option *o);
int option_is_group(const struct option *o);

/* An option of a program. */
struct option_row {
	const struct option *o;
	void *request;     /* of its table, or NULL */
	const char *group; /* NULL: the program has no groups */
};

enum { OPTION_MOST = 160 };

/* Every option that a user can give, in the order of -h: group by group, in a group table by table, -h and -V last. Returns how many. */
int option_rows(const struct program *p, struct option_row rows[OPTION_MOST]);

/* What the option fills. */
void *option_field(const struct option *o, void *request);
/* The value of a field of OPTION_FLAG, _OFF, _INT or _CHOICE in a request. */
int64_t option_integer(const struct option *o, const void *field);
/* Set from text. -1 and ERR_USAGE naming the option, the value and the allowed range. */
int option_set(const struct option *o, void *request, const char *text, struct err *e);
/* Which of `choices`, which NULL ends, the text is; -1 and ERR_USAGE listing them. label: what the message begins with, or NULL. */
int option_choice(const char *label, const char *text, const char *const *choices, struct err *e);
/* -1 and ERR_USAGE naming the first option whose field a C program has set beyond its range or choices. A field that equals the one of
 * `defaults`, a request of the same type, is as it should be. */
int option_check_request(const struct option *table, const void *request, const void *defaults, struct err *e);
/* Every field with a default gets it. */
void option_presets(const struct option *table, void *request);
/* "--steps", or "-n" in buf where there is only a letter. */
const char *option_label(const struct option *o, char buf[3]);

/* Options as they were given, in that order, each once. */
struct option_given {
	const struct option *v[OPTION_MOST];
	int n;
};

/* Parse argv: "--steps 5", "--steps=5", "-n 5", "-n5", bundled letters of flags, "--" ends options, "-" is an operand, options
 * and operands may mix. A long option may be cut short where that is unique. Unknown or ambiguous options, missing or bad values: -1 and
 * ERR_USAGE naming the option, the value and the allowed range, and what was probably meant. A name of an earlier version is taken and told
 * by `warn` (NULL: not told). The program's own options get their defaults first; a request has them already. Leaves the operands in
 * argv[1 .. *operands] and the options that were seen in *given (NULL: not wanted). Returns 0, or 'h' or 'V' where that stands
 * before any error. */
int option_parse(const struct program *p, int argc, char **argv, int *operands, struct option_given *given, void (*warn)(const char *line),
                 struct err *e);

/* -1 and ERR_USAGE where an option that was given does nothing, naming what it needs, or where a required one is missing. operand: (n) */
int option_check(const struct program *p, const struct option_given *given, char **operand, int n, struct err *e);
int option_was_given(const struct option_given *given, const struct option *o);

/* What -h prints; what follows the program's name in it. Caller frees with mem_free. */
char *option_help(const struct program *p);
char *option_synopsis(const struct program *p);
/* Appends the help of an option and its default. */
void option_describe(struct str *s, const struct option *o);

/* When the options do something, as text: a line for each option and each of its rules, "--axes<TAB>needs<TAB>--metrics~fd", then a value that it
 * takes and its default; "none" where there is no rule, which is a mistake. Caller frees with mem_free. */
char *option_rules_text(const struct program *p);

/* The option of the program that `name` (n characters, dashes included) was probably meant to be: by what other programs call it
 * (--learning-rate), by spelling, or by a word they share; NULL: none. */
const char *option_meant(const struct program *p, const char *name, size_t n);
/* The option that had this name, of a long option or a letter ("-c"), in an earlier version; NULL: none. */
const struct option *option_renamed(const struct program *p, const char *name, size_t n);

#endif
