/* Configurations of Hugging Face's diffusers. What is known of each class is with its architecture (net/netdef.h: struct net_diffusers), and
 * lib/net/net.c finds it. */
#ifndef DDM_NET_DIFFUSERS_H
#define DDM_NET_DIFFUSERS_H

#include "net/net.h"

/* Whether a config.json is one of diffusers. */
int diffusers_config(const json_t *o);
/* ERR_DATA where the key is there and another text than `want`. */
int diffusers_expect(const json_t *o, const char *key, const char *want, const char *where, struct err *e);

#endif
