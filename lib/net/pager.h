/* Sets of weights of which the device's memory holds only some: each lies in pinned memory of the host, and a few slots on the device
 * take turns in holding one. The order in which they are needed is known a while before, so the next are sent on a stream of their own
 * while one is at work; what gives way is what is needed last. No result depends on it.
 *
 *     pager_order(p, pages, 3);
 *     w = pager_take(p, pages[0]);     and submit what reads w to stream 0
 *     pager_give(p, pages[0]); */
#ifndef DDM_NET_PAGER_H
#define DDM_NET_PAGER_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "kernels/device.h"

struct pager;

/* `slots` >= 1 places of `bytes` each on the device, which is borrowed; with one alone nothing overlaps. Caller frees with pager_free. */
struct pager *pager_new(struct device *d, int slots, size_t bytes, struct err *e);
void pager_free(struct pager *p); /* waits; NULL is allowed */

/* A page of at most the slots' bytes: its number, or -1. *host is its memory, to be filled before it is first needed. */
int pager_add(struct pager *p, size_t bytes, void **host, struct err *e);

/* From now on these n pages are needed in this order, and probably again. Without it every page, in the order of their numbers. */
void pager_order(struct pager *p, const int *page, int n);

/* Where the page is: what is submitted to stream 0 from now on may read it, until pager_give. One page is taken at a time. */
void *pager_take(struct pager *p, int page);
void pager_give(struct pager *p, int page);

int pager_slots(const struct pager *p);
int64_t pager_uploads(const struct pager *p); /* pages sent so far */

#endif
