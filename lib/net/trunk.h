/* What DiT and its relatives share. */
#ifndef DDM_NET_TRUNK_H
#define DDM_NET_TRUNK_H

#include "net/net.h"

/* Names of a family's tensors: printf formats with the block number where there is one. */
struct trunk_names {
	const char *patch, *time;                  /* prefix of .weight/.bias; prefix of .0.weight .. .2.bias */
	const char *qkv_weight, *qkv_bias;         /* (block) */
	const char *proj, *fc1, *fc2, *modulation; /* (block), prefix of .weight/.bias */
};

/* A recording in progress. */
struct trunk {
	struct tape *t;
	struct params *p;
	const struct net_config *c;
	const struct trunk_names *names;
};

/* Linear layer PREFIX.weight [out, in], PREFIX.bias [out] applied to x [.., in]. act < 0: none. */
struct tensor *trunk_linear(const struct trunk *k, struct tensor *x, const char *prefix, int64_t out, struct init init, int act);
struct init init_xavier(int64_t fan_in, int64_t fan_out);
extern const struct init init_zero, init_one, init_small; /* init_small: normal, std .02 */

/* Patches and positions: x (B, C, S, S) -> (B, T, H). Positions are the fixed 2D sin-cos table under the name `pos_embed` [1, T,
 * H]. */
struct tensor *trunk_tokens(const struct trunk *k, struct tensor *x);
/* The time embedding (B, H): sinusoid of time_scale t, Linear, SiLU, Linear. */
struct tensor *trunk_time(const struct trunk *k, struct tensor *time);
/* One adaLN-zero block on tokens (B, T, H); act (B, H) = SiLU of the conditioning. */
struct tensor *trunk_block(const struct trunk *k, int64_t block, struct tensor *tokens, struct tensor *act);

#endif
