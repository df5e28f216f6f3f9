/* Opens the device that a program computes on. It is not part of cmd.h because it links the kernels. */
#ifndef DDM_CMD_OPENDEVICE_H
#define DDM_CMD_OPENDEVICE_H

#include "comm/comm.h"
#include "kernels/compact.h"
#include "kernels/device.h"

/* As device_open. For a GPU, also keeps the choices of matrix product algorithms (kernels/cublaslt.h) and the hashes of large files
 * (file/filehash.h) in tuning_folder(), if that folder can be made. */
struct device *open_device(const char *name, struct pool *pool, struct err *e);
/* The same for ranks that work together; c may be NULL. All ranks call it: ready says whether this one could prepare itself, else *e says why not. On
 * one computer each rank gets a GPU of its own, as by device_open_among. 0 with *d on every rank, or -1 on every rank (comm_agree). */
int open_rank_device(struct device **d, const char *name, struct comm *c, int ready, struct pool *pool, struct err *e);

/* $XDG_CACHE_HOME/ddm, or else $HOME/.cache/ddm; NULL if neither variable is an absolute path. Caller frees with mem_free. */
char *tuning_folder(void);

/* Keep the choices of a GPU's matrix product algorithms in tuning_folder(), which is made if needed. Returns 1; or 0 if the folder cannot be
 * written: nothing is timed then, and cuBLASLt's first recommendations are used, which are the same in every run. */
int keep_tuning(struct device *d);

#endif
