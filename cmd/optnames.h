/* What options are called: names of earlier versions, names that other programs of the field use, and the one that was probably meant. */
#ifndef DDM_CMD_OPTNAMES_H
#define DDM_CMD_OPTNAMES_H

#include <stddef.h>

#include "cmd/opt.h"

/* A name that an earlier version had, or a value: {"--weights", "--weight-dtype"}, {"-c", "--columns"}, {"--predict=v", "--predict=velocity"}.
 * It is accepted for one version, and a line on stderr tells the new one. ddm(7) lists them. */
struct opt_alias {
	const char *program; /* "ddm-sample", or NULL: every one that has the new name */
	const char *old, *now;
};

/* The new name of a long option, or of a letter ("-c"), that `program` no longer has; NULL where there is none. name: n characters. */
const char *optnames_renamed(const char *program, const char *name, size_t n);

/* The new spelling of the value of option `name`; NULL where it is none of an earlier version. */
const char *optnames_value(const char *program, const char *name, const char *value);

/* The option of the program that `name` (n characters, dashes included) was probably meant to be: by what other programs call it
 * (--learning-rate), by spelling, or by a word they share; NULL: none. */
const char *optnames_meant(const struct program *p, const char *name, size_t n);

/* The operands of a synopsis without its options: "KIND [LABEL=]FILE...". Caller frees with mem_free. */
char *optnames_operands(const struct program *p);

#endif
