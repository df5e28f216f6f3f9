/* The gradient of a training by several ranks, cut into buckets: ranges of the arena, each complete at some node of the backward pass. The sum of a
 * bucket over the ranks runs while the nodes after it compute. Buckets and their order follow from the network and the number of ranks alone, and are
 * the same on all ranks; no result depends on them. Private to lib/train. */
#ifndef DDM_TRAIN_BUCKETS_H
#define DDM_TRAIN_BUCKETS_H

#include "tape/tape.h"

enum { BUCKETS = 16 /* at most */ };

/* Elements [lo, hi), complete when the tape has run up to `mark`. cut (ranks + 1): the shares of the ranks (comm/comm.h). Every cut but the last of
 * the arena is a multiple of SUMSQ_CHUNK (kernels/optimizer.h), so that each chunk of the norm belongs to one rank. */
struct bucket {
	int64_t lo, hi;
	int mark;
	int64_t *cut;
};

struct buckets {
	struct bucket v[BUCKETS];
	int n;
	int64_t *cuts; /* (n, ranks + 1) */
};

/* For a gradient of n numbers. All are complete at the end of the backward pass, until buckets_order finds out more. Release with buckets_release. */
void buckets_init(struct buckets *b, int64_t n, int ranks);
/* Order them as the backward pass of t, which is laid out, completes them; p is its table. */
void buckets_order(struct buckets *b, const struct tape *t, const struct params *p);
void buckets_release(struct buckets *b);

#endif
