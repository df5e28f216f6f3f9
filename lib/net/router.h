/* The router: a DiT trunk with a learned class token (without position) and a head of K logits on it, in the layout and under the
 * tensor names of the released Paris router. */
#ifndef DDM_NET_ROUTER_H
#define DDM_NET_ROUTER_H

#include "net/net.h"

struct tensor *router_record(struct tape *t, struct params *p, const struct net_config *c, struct tensor *x, struct tensor *time);

#endif
