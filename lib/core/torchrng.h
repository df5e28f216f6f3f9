/* torch.randn on a CPU, bit for bit: published samples and the expected values of diffusers' tests start from its noise. */
#ifndef DDM_CORE_TORCHRNG_H
#define DDM_CORE_TORCHRNG_H

#include <stdint.h>

#include "core/mt19937.h"

struct torch_rng {
	struct mt19937 words;
	double spare; /* the unused second normal of a pair, for the next call of fewer than 16 */
	int has_spare;
};

void torch_seed(struct torch_rng *r, uint64_t seed); /* torch.Generator().manual_seed(seed) */

/* out (n): torch.randn(n, generator=r) in float32, with PyTorch's AVX2 code, which machines with AVX-512 run too. As in
 * PyTorch, one call of 16 or more draws other numbers than several smaller calls do. n >= 1. */
void torch_randn(struct torch_rng *r, float *out, int64_t n);

#endif
