/* Attention over few tokens on the CPU, such as the frames of a clip: a head's scores fit in registers, and calls of the matrix product would cost
 * more than its arithmetic. For kernels/attention.c. */
#ifndef DDM_KERNELS_ATTENTIONSHORT_H
#define DDM_KERNELS_ATTENTIONSHORT_H

#include "kernels/attentionhead.h"

/* Most queries and keys of a head. */
enum { ATTENTION_SHORT = 16 };

/* Begin with heads of this many channels and of one number of keys. scratch: attention_short_bytes. */
void REAL_NAME(attention_short_begin)(void *scratch, int64_t channels);
/* The head (b, h) of ATTENTION without a bias, and of its gradient. `next` is prefetched meanwhile. */
void REAL_NAME(attention_short)(const struct op_call *c, int64_t b, int64_t h, void *scratch, const struct hint *next);
void REAL_NAME(attention_short_grad)(const struct op_call *c, int64_t b, int64_t h, void *scratch, const struct hint *next);

/* Bytes of scratch, a multiple of 64, for heads of so many channels. */
size_t REAL_NAME(attention_short_bytes)(int64_t channels);

#endif
