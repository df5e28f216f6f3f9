/* Entries common to all configurations of Hugging Face's diffusers. Each architecture's definition describes its own class (net/netdef.h: struct
 * net_diffusers); net_from_json selects it. */
#ifndef DDM_NET_DIFFUSERS_H
#define DDM_NET_DIFFUSERS_H

#include "net/net.h"

/* 1 if a config.json is diffusers'. */
int diffusers_config(const json_t *o);
/* ERR_DATA if the key is present with a value other than `want`. */
int diffusers_expect(const json_t *o, const char *key, const char *want, const char *where, struct err *e);

#endif
