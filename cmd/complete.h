/* Makes a shell's completion script from a program's table of options. */
#ifndef DDM_CMD_COMPLETE_H
#define DDM_CMD_COMPLETE_H

#include "core/option.h"
#include "core/err.h"

/* The script for "bash" (4 or later), "zsh" or "fish". It completes names of options, the values of options with choices, and file names for other
 * texts and operands. NULL and ERR_USAGE for another shell. Caller frees with mem_free. */
char *complete_script(const struct program *p, const char *shell, struct err *e);

#endif
