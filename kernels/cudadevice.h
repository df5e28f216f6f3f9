/* The CUDA device, in builds that have one (configure --with-cuda). */
#ifndef DDM_KERNELS_CUDADEVICE_H
#define DDM_KERNELS_CUDADEVICE_H

#include "kernels/device.h"

/* Open GPU number `index`, computing in float32 with storage in float32 or bfloat16. The pool is borrowed. NULL with ERR_UNAVAILABLE
 * if there is no driver, no such GPU, or no code for it in this build. Caller frees with device_free. */
struct device *device_cuda(int index, struct pool *pool, struct err *e);
/* The GPUs that this process may use; 0 if none can be used. */
int device_cuda_count(void);

#endif
