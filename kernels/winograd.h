/* 3 x 3 convolutions of stride 1 with 4/9 of the multiplications: Winograd's F(2 x 2, 3 x 3) (Lavin and Gray 2016, "Fast algorithms for
 * convolutional neural networks"). Every 2 x 2 of the output is 16 products of transforms instead of 36; the transforms are sums of a few
 * values with coefficients 1 and 1/2, so the result is about as exact as the plain sum's. */
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
