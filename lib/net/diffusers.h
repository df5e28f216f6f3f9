/* Networks as Hugging Face's diffusers describes them. What is known of each is with its architecture (net/netdef.h: struct net_diffusers). */
#ifndef DDM_NET_DIFFUSERS_H
#define DDM_NET_DIFFUSERS_H

#include "net/net.h"

/* Whether a config.json is one of diffusers. */
int diffusers_config(const json_t *o);
/* A class of the table, or Transformer2DModel with the norm_type of one; another class, or an option that changes the network otherwise, is
 * ERR_DATA. Its DiT differs from the published one in the frequencies of the time embedding and in an epsilon, and weights it was trained
 * with are to be run so. */
int diffusers_parse(const json_t *o, const char *where, struct net_config *c, struct err *e);
/* ERR_DATA where the key is there and another text than `want`. */
int diffusers_expect(const json_t *o, const char *key, const char *want, const char *where, struct err *e);

#endif
