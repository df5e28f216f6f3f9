/* Batches of pictures in order; the next one is read and decoded in the background while a network runs on the current one. */
#ifndef DDM_DATA_LOOKAHEAD_H
#define DDM_DATA_LOOKAHEAD_H

#include "data/samples.h"

struct lookahead;

/* Batches of at most `max` pictures, decoded by as many threads as the pool has. s is borrowed; nobody else may use it until lookahead_next
 * returned 0 or -1, or lookahead_free. Caller frees with lookahead_free. */
struct lookahead *lookahead_new(struct samples *s, const struct pool *pool, int max, struct err *e);
void lookahead_free(struct lookahead *l); /* NULL is allowed */

/* Like samples_pictures: the number of pictures, 0 at the end, -1 on error. *b is valid until the next call. A caller that takes over a key sets
 * it to NULL in the batch. */
int lookahead_next(struct lookahead *l, struct picture_batch **b, struct err *e);

/* samples_expected at the time of the last lookahead_next. */
int64_t lookahead_expected(const struct lookahead *l);

#endif
