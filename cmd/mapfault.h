/* Reports a mapped file that was truncated or cannot be read. The kernel sends SIGBUS in both cases. */
#ifndef DDM_CMD_MAPFAULT_H
#define DDM_CMD_MAPFAULT_H

/* Handle SIGBUS from now on: if the address lies in a mapped file, print one line that names the file, remove temporary files and exit with 74. */
void mapfault_catch(const char *program_name);

#endif
