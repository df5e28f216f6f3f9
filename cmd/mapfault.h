/* Reports a mapped file that was truncated or cannot be read; the kernel sends SIGBUS then. */
#ifndef DDM_CMD_MAPFAULT_H
#define DDM_CMD_MAPFAULT_H

/* From now on SIGBUS within a mapped file is an error: one line naming the file, the temporaries removed, exit 74. */
void mapfault_catch(const char *program_name);

#endif
