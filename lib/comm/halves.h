/* The ranges of a vector that ranks exchange while they sum it (comm.h): recursive halving. The same on the host and on devices. */
#ifndef DDM_COMM_HALVES_H
#define DDM_COMM_HALVES_H

#include <stddef.h>

#include "comm/comm.h"

/* A range of elements. */
struct range {
	int64_t lo, hi;
};

static inline size_t bytes_of(struct range r)
{
	return (size_t)(r.hi - r.lo) * sizeof(float);
}

static inline int levels_of(int ranks)
{
	int levels = 0;

	while (1 << levels < ranks)
		levels++;
	return levels;
}

/* The range that `rank` holds after `levels` halvings: the shares of the places that begin with the same bits. */
static inline struct range range_at(int rank, int ranks, const int64_t *cut, int levels)
{
	int span = ranks >> levels, first = comm_place(rank, ranks) / span * span;

	return (struct range){cut[first], cut[first + span]};
}

/* At level l, `mine` is what a rank keeps of its range, and `other` what its partner keeps. */
static inline void halves(int rank, int ranks, const int64_t *cut, int l, struct range *mine, struct range *other)
{
	*mine = range_at(rank, ranks, cut, l + 1);
	*other = range_at(rank ^ (1 << l), ranks, cut, l + 1);
}

#endif
