/* ATTENTION and its gradient on the CPU with bf16 products, for training with --precision bf16. Queries, keys, values, outputs and the gradients
 * of all of them may be stored in bf16 instead of float. Queries, keys, values, the softmax's weights and, in the gradient, dy and o are rounded to
 * bf16 where they are read; sums, the softmax and its gradient are float.
 *
 * The bits of an output depend only on its own sample and head, on the shapes, and on the order in which the device's instructions add
 * (kernels/compact.h). The arguments are those of the ops (kernels/op.h). c->device says which instructions to use. */
#ifndef DDM_KERNELS_ATTENTION_BF16_H
#define DDM_KERNELS_ATTENTION_BF16_H

#include "kernels/device.h"

size_t attention_bf16_scratch(const struct op_call *c, int workers);
void attention_bf16_run(const struct op_call *c);
size_t attention_bf16_grad_scratch(const struct op_call *c, int workers);
void attention_bf16_grad_run(const struct op_call *c);

#endif
