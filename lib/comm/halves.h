/* The ranges of a vector that ranks exchange while they sum it (comm.h): recursive halving. The same on the host and on devices. */
#ifndef DDM_COMM_HALVES_H
#define DDM_COMM_HALVES_H

#include <stddef.h>
#include <stdint.h>

/* A range of elements, and its halves by a bit of the rank. */
struct range {
	int64_t lo, hi;
};

static inline struct range half_of(struct range r, int upper)
{
	int64_t mid = r.lo + (r.hi - r.lo + 1) / 2;

	return upper ? (struct range){mid, r.hi} : (struct range){r.lo, mid};
}

/* The range that `rank` holds after `levels` halvings of n elements. */
static inline struct range range_at(int64_t n, int rank, int levels)
{
	struct range r = {0, n};

	for (int l = 0; l < levels; l++)
		r = half_of(r, rank >> l & 1);
	return r;
}

static inline size_t bytes_of(struct range r)
{
	return (size_t)(r.hi - r.lo) * sizeof(float);
}

#endif
