/* Completion of command lines: the script a shell needs, made from a program's table of options, so that there is no second
 * list. */
#ifndef DDM_CMD_COMPLETE_H
#define DDM_CMD_COMPLETE_H

#include "core/option.h"
#include "core/err.h"

/* For "bash" (4 or later), "zsh" or "fish": names of options, values of enumerated ones, files for texts and operands, nothing for
 * numbers. Caller frees with mem_free. Another shell: NULL and ERR_USAGE. */
char *complete_script(const struct program *p, const char *shell, struct err *e);

#endif
