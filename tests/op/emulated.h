/* A device that runs the CUDA kernels in host memory with tests/op/emulate.h, and products with our own tiled kernels in place of cuBLASLt. It tests
 * networks and training without a GPU. */
#ifndef DDM_TESTS_EMULATED_H
#define DDM_TESTS_EMULATED_H

#include "kernels/device.h"

#define X(id, fn) extern const struct kernel kernel_##fn##_cuda;
OPS(X)
#undef X

/* Caller frees with device_free. The pool is borrowed. */
static inline struct device *device_emulated(struct pool *pool)
{
	struct device *d = device_cpu(pool, DT_F32);

#define X(id, fn) d->kernel[OP_##id] = &kernel_##fn##_cuda;
	OPS(X)
#undef X
	d->name = "emulated";
	d->storage |= 1u << DT_BF16;
	d->compact = 0;
	d->gated_norms = 1;
	return d;
}

#endif
