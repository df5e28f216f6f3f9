/* The environment variables for inputs on servers (file/remoteinput.h, man/ddm.7). */
#ifndef DDM_CMD_REMOTEENV_H
#define DDM_CMD_REMOTEENV_H

#include "core/err.h"

/* Pass the variables on to remote_configure. ERR_USAGE names one whose value is wrong. */
int remoteenv_read(struct err *e);

#endif
