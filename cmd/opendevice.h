/* The device a program computes on. Apart from cmd.h: what includes this links the kernels. */
#ifndef DDM_CMD_OPENDEVICE_H
#define DDM_CMD_OPENDEVICE_H

#include "kernels/compact.h"
#include "kernels/device.h"

/* As device_open; a GPU's choices of algorithms, and on any device the hashes of large files, the weights of models
 * (file/filehash.h), are kept in a folder of the user's, if there is or can be one. */
struct device *open_device(const char *name, struct pool *pool, struct err *e);

/* $XDG_CACHE_HOME/ddm, or ~/.cache/ddm; NULL where neither variable is set to an absolute path. Caller frees with mem_free. */
char *tuning_folder(void);

/* Keep d's choices in tuning_folder(), made if it is not there: 1. 0 where it cannot be written: the library's first recommendations are
 * used, which are the same in every run. */
int keep_tuning(struct device *d);

#endif
