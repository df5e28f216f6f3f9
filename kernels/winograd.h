/* Convolutions of stride 1 with a part of the multiplications: Winograd's minimal filtering (Lavin and Gray 2016, "Fast algorithms for
 * convolutional neural networks"), F(m, r): m outputs of r taps from m + r - 1 products of transforms, along one dimension or both.
 * F(4, 3), F(2, 5) and F(3, 7) evaluate polynomials at points that were searched for the least error, and sum few channels at once: errors
 * are within three times those of the plain sum. F(2, 3) has the smaller transforms of the weights, and less error. */
#ifndef DDM_KERNELS_WINOGRAD_H
#define DDM_KERNELS_WINOGRAD_H

#include "kernels/device.h"

/* Whether an OP_CONV is done so: it pays where the channels are many and the weights' transforms serve many pixels. It depends on the
 * shape of one sample alone. */
int winograd_takes(const struct op_call *c);

size_t winograd_scratch_f32(const struct op_call *c, int workers);
size_t winograd_scratch_f64(const struct op_call *c, int workers);
/* The whole op but for activations other than SiLU, GELU (tanh) and ReLU, which are left to the caller. */
void winograd_run_f32(const struct op_call *c);
void winograd_run_f64(const struct op_call *c);

#endif
