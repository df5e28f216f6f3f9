/* cuBLASLt on the CUDA device. */
#ifndef DDM_KERNELS_CUBLASLT_CUDA_H
#define DDM_KERNELS_CUBLASLT_CUDA_H

#include "kernels/device.h"

struct cublaslt_cuda;
struct cudaDeviceProp;

/* Set d->cublaslt. stream: the cudaStream_t of each stream, borrowed; `failed` records an error in the device. ERR_UNAVAILABLE if the library
 * is missing; there is no slower substitute. Caller frees with cublaslt_cuda_free, before the streams. */
struct cublaslt_cuda *cublaslt_cuda_new(struct device *d, const struct cudaDeviceProp *gpu, void *const *stream,
                                        void (*failed)(struct device *d, const struct err *e), struct err *e);
/* The table of functions, as long as c. */
const struct cublaslt_host *cublaslt_cuda_host(const struct cublaslt_cuda *c);
void cublaslt_cuda_free(struct cublaslt_cuda *c); /* NULL is allowed */

#endif
