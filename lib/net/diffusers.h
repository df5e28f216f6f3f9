/* DiT and PixArt as Hugging Face's diffusers describes and names them. */
#ifndef DDM_NET_DIFFUSERS_H
#define DDM_NET_DIFFUSERS_H

#include "net/net.h"
#include "net/rename.h"

/* Whether a config.json is one of diffusers. */
int diffusers_config(const json_t *o);
/* Class DiTTransformer2DModel or PixArtTransformer2DModel, or Transformer2DModel with the norm_type of one of them; another, or an
 * option that changes the network otherwise, is ERR_DATA. Its DiT differs from the published one in the frequencies of the time
 * embedding and in an epsilon, and weights it was trained with are to be run so. */
int diffusers_parse(const json_t *o, const char *where, struct net_config *c, struct err *e);

extern const struct renames dit_diffusers, pixart_diffusers;

#endif
