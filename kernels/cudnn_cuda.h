/* cuDNN on the CUDA device. */
#ifndef DDM_KERNELS_CUDNN_CUDA_H
#define DDM_KERNELS_CUDNN_CUDA_H

#include "kernels/device.h"

struct cudnn_cuda;
struct cublaslt_host;

/* Set d->cudnn. host: borrowed. NULL, and the reason in d->no_cudnn, if the library is missing; attention then runs on our kernels. Caller frees
 * with cudnn_cuda_free, before the streams. */
struct cudnn_cuda *cudnn_cuda_new(struct device *d, const struct cublaslt_host *host);
void cudnn_cuda_free(struct cudnn_cuda *c); /* NULL is allowed */

#endif
