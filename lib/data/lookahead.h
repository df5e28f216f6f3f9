/* Batches of pictures in order; the next one is read and decoded in the background while a network runs on the current one. */
#ifndef DDM_DATA_LOOKAHEAD_H
#define DDM_DATA_LOOKAHEAD_H

#include "data/samples.h"

struct lookahead;

/* At most `max` at a time, decoded by as many threads as the pool has. s is borrowed, and nobody else's until lookahead_next gave 0 or -1
 * or lookahead_free. Caller frees with lookahead_free. */
struct lookahead *lookahead_new(struct samples *s, const struct pool *pool, int max, struct err *e);
void lookahead_free(struct lookahead *l); /* NULL is allowed */

/* As samples_pictures: how many, 0 at the end, -1. *b is good until the next call; a key that is taken from it is set to NULL. */
int lookahead_next(struct lookahead *l, struct picture_batch **b, struct err *e);

/* samples_expected, as of the last lookahead_next. */
int64_t lookahead_expected(const struct lookahead *l);

#endif
