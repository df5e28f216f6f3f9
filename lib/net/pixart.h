/* PixArt-alpha (Chen et al. 2023) under the tensor names of PixArt-alpha/PixArt-alpha. */
#ifndef DDM_NET_PIXART_H
#define DDM_NET_PIXART_H

#include "net/net.h"

struct tensor *pixart_record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in);

#endif
