/* The Mersenne Twister of numpy.random.RandomState and of PyTorch on a CPU, to repeat published results from their seeds. Our own results use
 * core/rng.h. */
#ifndef DDM_CORE_MT19937_H
#define DDM_CORE_MT19937_H

#include <stdint.h>

struct mt19937 {
	uint32_t s[624];
	int at;
};

void mt19937_seed(struct mt19937 *r, uint32_t seed); /* RandomState(seed), torch.manual_seed(seed) */
uint32_t mt19937_next(struct mt19937 *r);

/* out (n) = RandomState.permutation(n); its first k elements are choice(n, k, replace=False). 1 <= n <= 2^32. */
void mt19937_permutation(struct mt19937 *r, int64_t *out, int64_t n);

#endif
