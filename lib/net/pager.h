/* Pages: sets of weights, of which the device's memory holds only some. Each page lies in pinned host memory and is copied to one of a few slots on
 * the device when it is needed. The order in which pages are needed is given ahead, so the next ones are copied on a stream of their own while one is
 * used. A page replaces the one that is needed last. Results do not depend on it.
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

/* Allocate `slots` (at least 1) of `bytes` each on the device, which is borrowed. With one slot, copies and work do not overlap. Caller frees with
 * pager_free. */
struct pager *pager_new(struct device *d, int slots, size_t bytes, struct err *e);
void pager_free(struct pager *p); /* waits; NULL is allowed */

/* Add a page of at most a slot's bytes. Returns its number, or -1. *host is its memory, which the caller fills before it is first needed. */
int pager_add(struct pager *p, size_t bytes, void **host, struct err *e);

/* From now on these n pages are needed in this order, probably repeatedly. Without a call, all pages are, in the order of their numbers. */
void pager_order(struct pager *p, const int *page, int n);

/* The page's address on the device. Work that is submitted to stream 0 between pager_take and pager_give may read it. Only one page may be taken at a
 * time. */
void *pager_take(struct pager *p, int page);
void pager_give(struct pager *p, int page);

int pager_slots(const struct pager *p);
int64_t pager_uploads(const struct pager *p); /* pages copied so far */

#endif
