/* Layers that SD3 and FLUX share. These multimodal diffusion transformers (MM-DiT, Esser et al. 2024, arXiv 2403.03206) have a stream of text tokens
 * and a stream of picture tokens, each with weights of its own. In every block the tokens of both streams attend to each other. */
#ifndef DDM_NET_MMDIT_H
#define DDM_NET_MMDIT_H

#include "net/layers.h"
#include "net/net.h"

enum mmdit_stream { MMDIT_TEXT, MMDIT_PICTURE, MMDIT_STREAMS };

/* The parts of a modulation, in the order of its rows. The last three belong to the second attention. */
enum mmdit_modulation {
	MMDIT_SHIFT,
	MMDIT_SCALE,
	MMDIT_GATE,
	MMDIT_MLP_SHIFT,
	MMDIT_MLP_SCALE,
	MMDIT_MLP_GATE,
	MMDIT_SHIFT2,
	MMDIT_SCALE2,
	MMDIT_GATE2,
	MMDIT_PARTS
};

/* Names within a block of the layers of one stream. */
struct mmdit_names {
	const char *qkv, *proj;      /* layers; qkv is [3 H, H]: queries, keys and values */
	const char *norm_q, *norm_k; /* tensors [H / heads]: RMSNorm of each head */
	const char *fc1, *fc2;       /* layers of the MLP */
	const char *modulation;      /* layer */
};

/* A recording in progress. */
struct mmdit {
	struct layers l;
	int64_t hidden, heads;
	int qk_norm;                  /* queries and keys pass through an RMSNorm */
	struct tensor *bias;          /* mmdit_bias */
	struct tensor *cosine, *sine; /* (text_tokens + n, H / heads / 2): rotary positions of text, then picture; NULL: none */
	struct tensor *act;           /* (B, hidden): SiLU of the conditioning, which every modulation reads */
};

/* One block of two streams. */
struct mmdit_block {
	const struct mmdit_names *names[MMDIT_STREAMS];
	const struct mmdit_names *second; /* a second attention among the picture's tokens alone: qkv, proj and norms; NULL: none */
	int last;                         /* 1: no later block reads the text, so this stream has only queries, keys and values */
};

/* Names within a block of one stream: a linear layer for queries, keys, values and the MLP together, [7 H, H], and one for the outputs of both. */
struct mmdit_single_names {
	const char *linear1, *linear2;
	const char *norm_q, *norm_k;
	const char *modulation;
};

/* What joint attention adds to its scores, (B, 1, 1, text_tokens + n): the mask (B, text_tokens) of the text, which excludes padding, and 0 for the n
 * tokens of the picture. */
struct tensor *mmdit_bias(struct tape *t, struct tensor *mask, int64_t n);

/* `parts` rows of width H from the layer NAME of k->act: m[i] is (B, 1, H). The layer starts at zero, as in adaLN-zero. */
void mmdit_modulation(const struct mmdit *k, const struct layers *l, const char *name, int parts, struct tensor **m);

/* Run a block. x[MMDIT_STREAMS] are tokens (B, T, H) of each stream, and are replaced by the block's output; after a last block x[MMDIT_TEXT] is
 * NULL. */
void mmdit_joint_block(const struct mmdit *k, const struct layers *l, const struct mmdit_block *b, struct tensor **x);

/* A block of one stream on tokens (B, T, H), the text's before the picture's. Attention and MLP run side by side (Dehghani et al. 2023, arXiv
 * 2302.05442). */
struct tensor *mmdit_single_block(const struct mmdit *k, const struct layers *l, const struct mmdit_single_names *names, struct tensor *x);

/* The layers NAME.FIRST, SiLU and NAME.SECOND on (B, in): (B, width). */
struct tensor *mmdit_embedding(const struct layers *l, struct tensor *x, const char *name, const char *first, const char *second, int64_t width);

/* SiLU of the sum of n embeddings (B, H). */
struct tensor *mmdit_conditioning(const struct layers *l, int n, struct tensor *const *parts);

/* "final_layer": modulated norm and linear layer on tokens (B, T, H): (B, T, out). */
struct tensor *mmdit_final(const struct mmdit *k, struct tensor *tokens, int64_t out);

#endif
