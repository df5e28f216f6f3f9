/* Finds what is installed with a program. */
#ifndef DDM_CMD_BESIDE_H
#define DDM_CMD_BESIDE_H

/* The path of a file that this process may access as `mode` says (access(2)): beside its program, as in a build folder, or in libexec/ddm below its
 * prefix. NULL if it is in neither. Caller frees with mem_free. */
char *beside_program(const char *name, int mode);

#endif
