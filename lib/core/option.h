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
	OPTION_DURATION, /* double, seconds, in [lo, hi]: 90, 15m, 2h */
	OPTION_SIZE,     /* uint64_t, bytes: 512, 64K, 3G */
	OPTION_CHOICE,   /* int, int64_t or an enum: index into `choices`, a NULL-terminated array, or the number at that index of `values` */
	OPTION_OFF,      /* int: set to 0 by an option such as --no-verify */
	OPTION_PARSED    /* any: `parse` reads the text */
};

struct option_list {
	const char **v;
	int n;
};

enum option_use {
	USE_UNSAID,  /* the row does not say; a mistake that tests/cli/idle.sh finds */
	USE_ALWAYS,  /* in every mode, or it can change no result */
	USE_NEEDS,   /* only with one of `with` */
	USE_AGAINST, /* not with any of `with` */
	USE_INPUT    /* it depends on the content of the operands: the program itself refuses the option, and `with` says what it is for */
};

/* When an option does something. `with` is a list with blanks between: "--grid" is given; "--route=oracle" has this value, given or by default,
 * "--features=clip:*" one that begins so, "--output=*.png" one that ends so, "--route=*oracle*" one that contains this; "--metrics~fd" was not
 * given or holds this word of a list; "1=loss" is the first operand; "-" is one of the operands. */
struct option_rule {
	enum option_use use;
	const char *with;
};

enum option_stamp {
	STAMP_NOT,            /* the option changes no result */
	STAMP_ALWAYS,         /* its value stands in the stamp, under `key` */
	STAMP_UNLESS_DEFAULT, /* the same, but the default (0 or NULL if there is none) is left out */
	STAMP_OTHERWISE       /* it determines the result, but another row or the hash of a file records it in the stamp */
};

enum { OPTION_RULES = 3 };

struct stamp;

struct option {
	const char *name; /* "--steps"; NULL if there is only a letter */
	char letter;      /* 'n' or 0; a row with neither name nor letter is a field of the request that only C programs set */
	enum option_type type;
	void *value;                /* the program's variable to fill; NULL: `field` of the table's request */
	double lo, hi;              /* OPTION_INT, OPTION_REAL, OPTION_DURATION: inclusive; both 0: no limit */
	const char *arg;            /* "N"; NULL for a flag */
	const char *help;           /* one line, lower case, no full stop; -h adds the default */
	const char *const *choices; /* OPTION_CHOICE, OPTION_PARSED: -h lists them after the help. Other types: NULL, or words for completion */
	int *given;                 /* NULL, or set to 1 if the option was given */

	size_t field, size;    /* OPTION_FIELD(struct request, member) */
	const char *preset;    /* the default, as on the command line; NULL: the variable's initial value, 0 in a request */
	const char *said;      /* NULL, or the text that -h prints in place of "default PRESET": "default steps / 20" */
	const char *required;  /* NULL, or the option is required and this describes it: "the folder for the model". "": the program itself checks */
	int either;            /* 1: either this option or the one in the row before is required */
	const int64_t *values; /* OPTION_CHOICE: the value of each choice; NULL: 0, 1, 2, ... */
	/* OPTION_PARSED: 0, or -1 and ERR_USAGE; label is the option's name, for the message. */
	int (*parse)(void *field, const char *label, const char *text, struct err *e);
	const char *example;              /* OPTION_PARSED without a preset: a valid value, for tests that try every option; NULL: "x" is one */
	const char *was;                  /* old names, separated by blanks: "--times", "-c"; accepted for one version with a warning */
	const char *was_value, *is_value; /* an old value, accepted the same way, and the value that replaces it */
	struct option_rule when[OPTION_RULES];

	enum option_stamp stamp;
	const char *key;                    /* "recipe/draws": "draws" in the object "recipe" */
	int (*counts)(const void *request); /* NULL, or returns 0 if other fields make this one ineffective; the stamp then omits the key */
	void (*put)(struct stamp *s, const char *key, const void *field); /* NULL, or writes a field that is not a number, text or choice */
};

#define OPTION_FIELD(T, member) .field = offsetof(T, member), .size = sizeof(((T *)0)->member)
#define OPTION_ALWAYS .when = {{USE_ALWAYS, NULL}}

/* A row of the table that heads the options after it in -h. Several tables may have rows under one title. */
/* clang-format off */
#define OPTION_GROUP(title) {.help = title}
/* clang-format on */

/* A library's table of options, and the request that its rows fill. */
struct option_table {
	const struct option *options;
	void *request;
};

struct program {
	const char *name;                  /* "ddm-cluster" */
	const char *about;                 /* one sentence */
	const struct option *options;      /* its own; ends with an entry of zeros. NULL: none */
	const struct option_table *tables; /* those of the library, which come first; ends with an entry of zeros. NULL: none */
	const char *operands;              /* "KIND [LABEL=]FILE..." */
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

/* Every option that a user can give, in the order of -h: by group, within a group by table, -h and -V last. Returns their number. */
int option_rows(const struct program *p, struct option_row rows[OPTION_MOST]);

/* The field or variable that the option fills. */
void *option_field(const struct option *o, void *request);
/* The value of a field of OPTION_FLAG, _OFF, _INT or _CHOICE in a request. */
int64_t option_integer(const struct option *o, const void *field);
/* Set from text. -1 and ERR_USAGE naming the option, the value and the allowed range. */
int option_set(const struct option *o, void *request, const char *text, struct err *e);
/* The index of `text` in the NULL-terminated list `choices`, or -1 and ERR_USAGE listing them. The message begins with `label` if not NULL. */
int option_choice(const char *label, const char *text, const char *const *choices, struct err *e);
/* Check a request that a C program filled: -1 and ERR_USAGE naming the first option whose field is out of range. A field that equals the one
 * in `defaults`, a request of the same type, is always accepted. */
int option_check_request(const struct option *table, const void *request, const void *defaults, struct err *e);
/* Set every field that has a default. Allocates nothing, so that a program may call it before it says what a failed allocation does. */
void option_presets(const struct option *table, void *request);
/* "--steps"; or "-n", written to buf, if there is only a letter. */
const char *option_label(const struct option *o, char buf[3]);

/* The options that were given, each once, in the order of the command line. */
struct option_given {
	const struct option *v[OPTION_MOST];
	int n;
};

/* Parse argv: "--steps 5", "--steps=5", "-n 5", "-n5", bundled letters of flags, "--" ends options, "-" is an operand, options
 * and operands may mix. A unique prefix of a long option is enough. Unknown or ambiguous options, missing or bad values: -1 and ERR_USAGE
 * naming the option, the value, the allowed range and the nearest option. An option's old name is accepted and reported through `warn`
 * (which may be NULL). The program's own options are set to their defaults first; the caller has set those of a request. Leaves the operands
 * in argv[1 .. *operands] and the options that were given in *given (which may be NULL). Returns 0, or 'h' or 'V' if that option comes
 * before any error. */
int option_parse(const struct program *p, int argc, char **argv, int *operands, struct option_given *given, void (*warn)(const char *line),
                 struct err *e);

/* Check the rules of use: -1 and ERR_USAGE if an option was given that does nothing, naming what it needs, or if a required one is missing.
 * operand: (n) */
int option_check(const struct program *p, const struct option_given *given, char **operand, int n, struct err *e);
int option_was_given(const struct option_given *given, const struct option *o);

/* The text that -h prints, and the part of its first line after the program's name. Caller frees with mem_free. */
char *option_help(const struct program *p);
char *option_synopsis(const struct program *p);
/* Append the help of an option and its default. */
void option_describe(struct str *s, const struct option *o);

/* The rules of use as text, for tests: a line for each rule of each option, "--axes<TAB>needs<TAB>--metrics~fd", then a valid value and the
 * default. The rule "none" marks a row that lacks one (USE_UNSAID). Caller frees with mem_free. */
char *option_rules_text(const struct program *p);

/* The option nearest to the unknown `name` (n characters, dashes included): one that other programs call so (--learning-rate), one spelt
 * almost so, or one that shares a word. NULL if there is none. */
const char *option_suggest(const struct program *p, const char *name, size_t n);
/* The option whose old name this is ("--times", "-c"); NULL if there is none. */
const struct option *option_renamed(const struct program *p, const char *name, size_t n);

#endif
