/* The expert of the released Paris ensemble: DiT with adaLN-single and cross-attention to the features of a text, all of them tokens,
 * in the layout and under the tensor names of its files. */
#ifndef DDM_NET_PARIS_H
#define DDM_NET_PARIS_H

#include "net/net.h"

struct tensor *paris_record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in);

#endif
