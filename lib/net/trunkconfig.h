/* The configuration that DiT and its relatives share: the entries of their field tables, presets, checks. */
#ifndef DDM_NET_TRUNKCONFIG_H
#define DDM_NET_TRUNKCONFIG_H

#include "net/netdef.h"

/* What lies in struct net_config's `own`. A field that is in the table of one of them alone is 0 in the others. */
struct trunk_config {
	int64_t patch, hidden, depth, heads;
	double mlp_ratio;
	double norm_eps;           /* added to variances; 0 is 1e-6 */
	double norm2_eps;          /* of the second norm of a block; 0: as norm_eps */
	double time_shift;         /* frequencies are 10000^(-i / (128 - time_shift)): 0 as published, 1 in diffusers' DiT */
	double position_scale;     /* positions are multiplied by it; 0 is 1 */
	int64_t learned_positions; /* 1: the position table is trained; 0: stored */
	int64_t reversed;          /* DiT: 1 where its own time is 0 for noise and 1 for data, and its velocity points to the data: SiT */
	int64_t micro;             /* PixArt: 1 where it is told the size and aspect ratio of the picture (its 1024 pixel models) */
};
_Static_assert(sizeof(struct trunk_config) <= NET_OWN, "fits into struct net_config");

static inline const struct trunk_config *trunk_config(const struct net_config *c)
{
	return (const void *)c->own;
}

static inline struct trunk_config *trunk_edit(struct net_config *c)
{
	return (void *)c->own;
}

#define TRUNK_AT(field) NET_OWN_AT(struct trunk_config, field)

/* In the order of config.json, around the fields of every architecture (net/netdef.h). */
/* clang-format off */
#define TRUNK_SHAPE_FIELDS \
	{"patch_size", "patch", "patch", NET_INT, TRUNK_AT(patch), 0, 0, INT32_MAX, NET_REQUIRED}, \
	{"hidden_size", "hidden", "hidden", NET_INT, TRUNK_AT(hidden), 0, 0, INT32_MAX, NET_REQUIRED}, \
	{"num_layers", "layers", "depth", NET_INT, TRUNK_AT(depth), 0, 0, INT32_MAX, NET_REQUIRED}, \
	{"num_attention_heads", "heads", "heads", NET_INT, TRUNK_AT(heads), 0, 0, INT32_MAX, NET_REQUIRED}
#define TRUNK_POSITION_FIELD {"learned_positions", NULL, NULL, NET_INT, TRUNK_AT(learned_positions), 0, 0, INT32_MAX, 0}
#define TRUNK_MLP_FIELD {"mlp_ratio", NULL, "mlp_ratio", NET_REAL, TRUNK_AT(mlp_ratio), 4, 0, 64, NET_ALWAYS}
#define TRUNK_NUMBER_FIELDS(eps) \
	{"norm_eps", NULL, NULL, NET_REAL, TRUNK_AT(norm_eps), eps, 1e-12, 1, 0}, \
	{"norm2_eps", NULL, NULL, NET_REAL, TRUNK_AT(norm2_eps), 0, 1e-12, 1, 0}, \
	{"time_frequency_shift", NULL, NULL, NET_REAL, TRUNK_AT(time_shift), 0, 0, 64, 0}, \
	{"position_scale", NULL, NULL, NET_REAL, TRUNK_AT(position_scale), 0, 1e-6, 1e6, 0}
/* clang-format on */

/* NAME/PATCH: nano micro mini s b l xl. */
extern const struct net_presets trunk_presets;

/* Initialisers of a struct net_def in a file that calls its tables `fields` and `inputs` and its function `record`. */
#define TRUNK_DEF .trunk = 1, NET_TABLES(fields, inputs), .record = record, .presets = &trunk_presets, .last = "final_layer."

/* For struct net_def. */
int trunk_check(const struct net_config *c, struct err *e);
int trunk_check_noise(const struct net_config *c, struct err *e);

/* What diffusers says of both its DiT and its PixArt. *c holds the initial size and out_channels. norm_type as it must be. */
int trunk_from_diffusers(const json_t *o, const char *where, const char *norm_type, struct net_config *c, struct err *e);

/* Two lines of a family of weight names. */
#define TRUNK_DIFFUSERS_BLOCK "transformer_blocks.#."
/* clang-format off */
#define TRUNK_DIFFUSERS_QKV \
	{"blocks.#.attn.qkv.*", \
	 {TRUNK_DIFFUSERS_BLOCK "attn1.to_q.*", TRUNK_DIFFUSERS_BLOCK "attn1.to_k.*", TRUNK_DIFFUSERS_BLOCK "attn1.to_v.*"}, 0}
/* clang-format on */

#endif
