/* Convolutions of stride 1 with fewer multiplications, by Winograd's minimal filtering (Lavin and Gray 2016, "Fast algorithms for
 * convolutional neural networks"). F(m, r) computes m outputs of r taps from m + r - 1 products of transforms, along one dimension or both.
 * F(4, 3), F(2, 5) and F(3, 7) use evaluation points that were searched for the least error, and sum few channels at once; their errors are
 * within three times those of the plain sum. F(2, 3) has smaller weight transforms and less error. */
#ifndef DDM_KERNELS_WINOGRAD_H
#define DDM_KERNELS_WINOGRAD_H

#include "kernels/device.h"

/* Whether an OP_CONV uses Winograd's method, which is faster with many channels and many pixels per sample. It depends on the shape of one
 * sample and the attribute `many`. */
int winograd_takes_f32(const struct op_call *c);
int winograd_takes_f64(const struct op_call *c);

size_t winograd_scratch_f32(const struct op_call *c, int workers);
size_t winograd_scratch_f64(const struct op_call *c, int workers);
/* Run the op. The caller applies activations other than SiLU, GELU (tanh) and ReLU. */
void winograd_run_f32(const struct op_call *c);
void winograd_run_f64(const struct op_call *c);

#endif
