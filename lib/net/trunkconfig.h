/* The configuration that DiT and its relatives share: the entries of their field tables, presets, checks. */
#ifndef DDM_NET_TRUNKCONFIG_H
#define DDM_NET_TRUNKCONFIG_H

#include "net/netdef.h"

/* In the order of config.json, around the fields of every architecture (net/netdef.h). */
#define TRUNK_SHAPE_FIELDS \
	{"patch_size", "patch", "patch", NET_INT, NET_AT(patch), 0, 0, INT32_MAX, NET_REQUIRED}, \
	{"hidden_size", "hidden", "hidden", NET_INT, NET_AT(hidden), 0, 0, INT32_MAX, NET_REQUIRED}, \
	{"num_layers", "layers", "depth", NET_INT, NET_AT(depth), 0, 0, INT32_MAX, NET_REQUIRED}, \
	{"num_attention_heads", "heads", "heads", NET_INT, NET_AT(heads), 0, 0, INT32_MAX, NET_REQUIRED}
#define TRUNK_POSITION_FIELD {"learned_positions", NULL, NULL, NET_INT, NET_AT(learned_positions), 0, 0, INT32_MAX, 0}
#define TRUNK_MLP_FIELD {"mlp_ratio", NULL, "mlp_ratio", NET_REAL, NET_AT(mlp_ratio), 4, 0, 64, NET_ALWAYS}
#define TRUNK_NUMBER_FIELDS(eps) \
	{"norm_eps", NULL, NULL, NET_REAL, NET_AT(norm_eps), eps, 1e-12, 1, 0}, \
	{"norm2_eps", NULL, NULL, NET_REAL, NET_AT(norm2_eps), 0, 1e-12, 1, 0}, \
	{"time_frequency_shift", NULL, NULL, NET_REAL, NET_AT(time_shift), 0, 0, 64, 0}, \
	{"position_scale", NULL, NULL, NET_REAL, NET_AT(position_scale), 0, 1e-6, 1e6, 0}

/* NAME/PATCH: nano micro mini s b l xl. */
extern const struct net_presets trunk_presets;

/* For struct net_def. */
int trunk_check(const struct net_config *c, struct err *e);
int trunk_check_noise(const struct net_config *c, struct err *e);

/* What diffusers says of both its DiT and its PixArt. *c holds the initial size and out_channels. norm_type as it must be. */
int trunk_from_diffusers(const json_t *o, const char *where, const char *norm_type, struct net_config *c, struct err *e);

/* Two lines of a family of weight names. */
#define TRUNK_DIFFUSERS_BLOCK "transformer_blocks.#."
#define TRUNK_DIFFUSERS_QKV \
	{"blocks.#.attn.qkv.*", \
	 {TRUNK_DIFFUSERS_BLOCK "attn1.to_q.*", TRUNK_DIFFUSERS_BLOCK "attn1.to_k.*", TRUNK_DIFFUSERS_BLOCK "attn1.to_v.*"}, 0}

#endif
