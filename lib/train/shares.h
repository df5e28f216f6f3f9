/* Which elements of the optimizer's moments and of the averages a rank keeps (ZeRO stage 1, Rajbhandari et al. 2019, arXiv 1910.02054). Every rank
 * has all weights. It updates those of its share alone, and then all ranks gather the new weights.
 *
 * AdamW and its schedule-free form change each element by itself: each bucket of the gradient (train/buckets.h) is cut into one range of equal length
 * for each rank, which receives the sum of the gradient for it alone. Muon needs whole matrices: the arena is cut once, between matrices, so that the
 * ranks have about equal numbers of elements, and the sum of the gradient goes to all. Private to lib/train. */
#ifndef DDM_TRAIN_SHARES_H
#define DDM_TRAIN_SHARES_H

#include "comm/comm.h"
#include "train/buckets.h"

/* Elements [at, at + n) of the arenas. In the memory of its rank they begin at `packed`. */
struct share_range {
	int64_t at, n, packed;
};

struct shares {
	int rank, ranks, groups;
	int whole_gradient;      /* Muon: each rank receives the sum of the whole gradient */
	int64_t n;               /* trainable elements */
	int64_t *cuts;           /* (groups, ranks + 1): the shares of a part of the arena (comm/comm.h) */
	struct share_range *own; /* [groups], of which some may be empty */
	int64_t count;           /* elements of this rank */
	int64_t most;            /* of the rank that has most */
};

/* Release with shares_release; a zeroed struct may be released. */
void shares_init(struct shares *s, const struct params *p, int muon, int rank, int ranks);
void shares_release(struct shares *s);

/* The cuts of group g. */
const int64_t *shares_cut(const struct shares *s, int g);

/* x [n] on the host: every rank gets the others' shares. */
int shares_gather(const struct shares *s, struct comm *c, float *x, struct err *e);

#endif
