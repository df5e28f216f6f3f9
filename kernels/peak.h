/* Measures the peak speed of the CPU, the denominators of "percent of peak" in logs. No result depends on them. */
#ifndef DDM_KERNELS_PEAK_H
#define DDM_KERNELS_PEAK_H

#include "core/pool.h"

/* Each takes about 0.1 s and returns the best of several tries over the pool's threads (NULL: one thread). The result is too
 * low if other processes use the machine. */
double peak_fma_flops(struct pool *p);  /* FLOP/s of independent float multiply-adds in registers, 2 per lane */
double peak_gemm_flops(struct pool *p); /* FLOP/s of one-thread 384 x 384 x 384 float products, one per thread, in cache */
double peak_bf16_flops(struct pool *p); /* the same of bf16 numbers (kernels/gemm_bf16.h), by the CPU's fastest instructions */
double peak_copy_bytes(struct pool *p); /* bytes/s read plus written by memcpy between buffers of 64 MiB */

#endif
