/* A file that is mapped and becomes shorter, or whose disk fails, is told by a signal. */
#ifndef DDM_CMD_MAPFAULT_H
#define DDM_CMD_MAPFAULT_H

/* From now on SIGBUS within a mapped file is an error: one line naming the file, the temporaries removed, exit 74. */
void mapfault_catch(const char *program_name);

#endif
