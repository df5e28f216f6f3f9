/* Division by a number fixed for a launch, as a multiplication and a shift. Exact for 0 <= i < 2^31 and 1 <= by < 2^31
 * (Granlund & Montgomery, "Division by invariant integers using multiplication", 1994). */
#ifndef DDM_KERNELS_DIVIDER_H
#define DDM_KERNELS_DIVIDER_H

#include <stdint.h>

struct divider {
	uint32_t by, multiple, shift;
};

static inline struct divider divider_of(int64_t by)
{
	struct divider d = {(uint32_t)by, 0, 31};

	while ((int64_t)1 << (d.shift - 31) < by)
		d.shift++;
	d.multiple = (uint32_t)((((uint64_t)1 << d.shift) + (uint64_t)by - 1) / (uint64_t)by);
	return d;
}

static __device__ inline uint32_t divide(struct divider d, uint32_t i)
{
	return (uint32_t)((uint64_t)i * d.multiple >> d.shift);
}

static __device__ inline uint32_t divide_rest(struct divider d, uint32_t i, uint32_t *rest)
{
	uint32_t q = divide(d, i);

	*rest = i - q * d.by;
	return q;
}

#endif
