/* Layers shared by DiT, PixArt, Paris and the router.
 *
 * Of a clip, each block attends within the frames, and a block of the same kind that attends across the frames at each place (a time block)
 * follows it: Latte (Ma et al. 2024), variant 1, but with rotary positions of time in these blocks instead of a table that is added to the tokens.
 * Initially each adds nothing to its tokens, so the network computes of every frame what the network for
 * pictures does. No weight depends on the number of frames. */
#ifndef DDM_NET_TRUNK_H
#define DDM_NET_TRUNK_H

#include "net/layers.h"
#include "net/trunkconfig.h"

/* Names of a family's tensors. */
struct trunk_names {
	const char *patch, *time;                  /* layer_patches, layer_timestep */
	const char *blocks;                        /* the names in block i begin with BLOCKS.i; the following are within a block */
	const char *qkv_weight, *qkv_bias;         /* tensors: packed queries, keys and values */
	const char *proj, *fc1, *fc2, *modulation; /* layers */
	/* adaLN-single: */
	const char *table;                     /* a tensor */
	const char *cross_weight, *cross_bias; /* tensors: packed queries, keys and values; or NULL, and then */
	const char *cross_q, *cross_kv;        /* layers */
	const char *cross_proj;
};

/* Initialisers of a struct trunk_names: what DiT and PixArt share, and what the expert and the router of Paris share. */
#define TRUNK_META_NAMES \
	.patch = "x_embedder.proj", .time = "t_embedder.mlp", .blocks = "blocks", .qkv_weight = "attn.qkv.weight", .qkv_bias = "attn.qkv.bias", \
	.proj = "attn.proj", .fc1 = "mlp.fc1", .fc2 = "mlp.fc2"
#define TRUNK_PARIS_NAMES \
	.patch = "patch_embed", .time = "time_embed.mlp", .blocks = "layers", .qkv_weight = "attn.in_proj_weight", .qkv_bias = "attn.in_proj_bias", \
	.proj = "attn.out_proj", .fc1 = "mlp.0", .fc2 = "mlp.2"

/* A recording in progress. */
struct trunk {
	struct layers l;
	const struct net_config *net;
	const struct trunk_config *c; /* within `net` */
	const struct trunk_names *names;
	int64_t frames;               /* of clips, whose tokens are (B, frames T, H); 0: pictures */
	struct tensor *cosine, *sine; /* of clips: rotary positions of time, (frames T, H / heads / 2) */
};

/* The names of the weights of time blocks begin with this. */
#define TRUNK_TIME_BLOCKS "time_blocks."

/* Begin to record an expert. The router, which reads a clip as one picture, fills a struct trunk itself. */
struct trunk trunk_begin(struct tape *t, struct params *p, const struct net_config *c, const struct trunk_names *names);

/* Patches plus positions: x (B, C, S, S) -> (B, T, H), of clips (B, F, C, S, S) -> (B, F T, H). The positions in a frame are the parameter
 * `pos_embed` [1, T, H], initially the 2D sin-cos table. */
struct tensor *trunk_tokens(const struct trunk *k, struct tensor *x);
/* The initial values of a table of positions [1, side^2, H]: DiT's 2D sin-cos table of positions that are multiplied by `scale`. */
struct init trunk_positions(double scale);
/* The time embedding (B, H): sinusoid of time_scale t, Linear, SiLU, Linear. */
struct tensor *trunk_time(const struct trunk *k, struct tensor *time);
/* One adaLN-zero block on tokens (B, T, H), and of clips its time block; act (B, H) = SiLU of the conditioning. What all blocks
 * read (act, modulation and text here and below) should be given to tape_float_grad: its gradient is a sum over the blocks. trunk_modulation does so
 * for its own arguments and result. */
struct tensor *trunk_block(const struct trunk *k, int64_t block, struct tensor *tokens, struct tensor *act);

/* adaLN-single (Chen et al. 2023, PixArt-alpha): one modulation for all blocks, to which each block adds its own table. */

/* Linear of SiLU(time (B, H)) under PREFIX: (B, 6, 1, H). */
struct tensor *trunk_modulation(const struct trunk *k, struct tensor *time, const char *prefix);
/* A block on tokens (B, T, H) with cross attention to text (B, S, H), and of clips its time block, which reads no text. mask (B, S), or NULL, is
 * added to the scores. */
struct tensor *trunk_block_single(const struct trunk *k, int64_t block, struct tensor *tokens, struct tensor *modulation, struct tensor *text,
                                  struct tensor *mask);
/* "final_layer.linear" on tokens (B, T, H): (B, T, patch^2 out_channels). */
struct tensor *trunk_last(const struct trunk *k, struct tensor *tokens);
/* The last layer under the names final_layer.{scale_shift_table, linear}, and unpatchified: (B, out_channels, S, S). */
struct tensor *trunk_final_single(const struct trunk *k, struct tensor *tokens, struct tensor *time);

/* Token vectors (B, T, patch^2 out_channels), each (row in patch, column in patch, channel), to pictures (B, out_channels, S, S) or clips
 * (B, F, out_channels, S, S), contiguous. */
struct tensor *trunk_unpatchify(const struct trunk *k, struct tensor *h);

double trunk_eps(const struct trunk_config *c); /* of all norms except the second of a block */

#endif
