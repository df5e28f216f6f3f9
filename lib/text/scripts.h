/* Scripts by name, as sets of characters: letters of Latin, Greek, Han and others, and digits. */
#ifndef DDM_TEXT_SCRIPTS_H
#define DDM_TEXT_SCRIPTS_H

#include <stdint.h>

extern const char *const script_names[]; /* NULL at the end */

/* The number in script_names of the script that c is a letter of, or of the digits; -1: of none of them. */
int script_of(uint32_t c);

#endif
