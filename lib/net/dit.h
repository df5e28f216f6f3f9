/* DiT with adaLN-zero, unconditional or class-conditional, under the tensor names of facebookresearch/DiT. */
#ifndef DDM_NET_DIT_H
#define DDM_NET_DIT_H

#include "net/net.h"

struct tensor *dit_record(struct tape *t, struct params *p, const struct net_config *c, struct tensor *x, struct tensor *time,
                          struct tensor *label);

#endif
