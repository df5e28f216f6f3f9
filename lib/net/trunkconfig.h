/* The configuration that DiT and its relatives share: the entries of their field tables, presets, checks. */
#ifndef DDM_NET_TRUNKCONFIG_H
#define DDM_NET_TRUNKCONFIG_H

#include "net/netdef.h"

/* The contents of struct net_config's `own`. A field is 0 in an architecture whose table does not list it. */
struct trunk_config {
	int64_t patch, hidden, depth, heads;
	double mlp_ratio;
	double norm_eps;           /* added to variances; 0: 1e-6 */
	double norm2_eps;          /* the same in the second norm of a block; 0: as norm_eps */
	double time_shift;         /* frequencies are 10000^(-i / (128 - time_shift)): 0 as published, 1 in diffusers' DiT */
	double position_scale;     /* positions are multiplied by it; 0: 1 */
	int64_t learned_positions; /* 1: the position table is trained; 0: it stays as it is */
	int64_t reversed;          /* DiT: 1 if its own time is 0 for noise and 1 for data, and its velocity points to the data, as in SiT */
	int64_t micro;             /* PixArt: 1 if it reads the size and aspect ratio of the picture, as the 1024-pixel models do */
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

/* Entries of field tables, to be listed in the order of config.json together with those of net/netdef.h. */
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

/* Presets NAME/PATCH with the names nano micro mini s b l xl. */
extern const struct net_presets trunk_presets;

/* Initialisers of a struct net_def in a file that calls its tables `fields` and `inputs` and its function `record`. */
#define TRUNK_DEF .trunk = 1, NET_TABLES(fields, inputs), .record = record, .presets = &trunk_presets, .last = "final_layer."

/* The functions `check` and `check_noise` of a struct net_def. */
int trunk_check(const struct net_config *c, struct err *e);
int trunk_check_noise(const struct net_config *c, struct err *e);

/* Read the keys that diffusers' DiT and PixArt share. On entry *c holds the default size and out_channels. ERR_DATA if norm_type is another. */
int trunk_from_diffusers(const json_t *o, const char *where, const char *norm_type, struct net_config *c, struct err *e);

/* Parts of a family of weight names. */
#define TRUNK_DIFFUSERS_BLOCK "transformer_blocks.#."
/* clang-format off */
#define TRUNK_DIFFUSERS_QKV \
	{"blocks.#.attn.qkv.*", \
	 {TRUNK_DIFFUSERS_BLOCK "attn1.to_q.*", TRUNK_DIFFUSERS_BLOCK "attn1.to_k.*", TRUNK_DIFFUSERS_BLOCK "attn1.to_v.*"}, 0}
/* clang-format on */

#endif
