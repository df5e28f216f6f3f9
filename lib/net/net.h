/* Networks: what they are (a configuration that travels in config.json) and how they are recorded. Each is written once, against
 * the tape. */
#ifndef DDM_NET_NET_H
#define DDM_NET_NET_H

#include <jansson.h>

#include "tape/tape.h"

enum net_kind {
	NET_DIT,    /* Peebles & Xie, "Scalable diffusion models with transformers", adaLN-zero */
	NET_ROUTER, /* the same trunk with a class token and K logits: p(cluster | x_t, t) */
	NET_PARIS,  /* DiT with adaLN-single and cross-attention to text: the expert of the released Paris ensemble */
	NET_PIXART  /* PixArt-alpha (Chen et al. 2023): as that, with a perceptron on the text and a mask */
};

struct net_config {
	enum net_kind kind;
	int64_t channels;     /* of the picture or latent */
	int64_t out_channels; /* DiT: as channels, or twice that where a variance is predicted too */
	int64_t size;         /* height = width */
	int64_t patch, hidden, depth, heads;
	double mlp_ratio;
	int64_t classes;      /* 0: unconditional */
	double class_dropout; /* probability of the null label (index `classes`) in training; > 0 adds its row to the table */
	int64_t clusters;     /* router: K */
	double time_scale;    /* the network receives time_scale * t, t in [0, 1] */
	double norm_eps;      /* added to variances; 0 is 1e-6 */
	double norm2_eps;     /* of the second norm of a block; 0: as norm_eps */
	double time_shift;    /* frequencies are 10000^(-i / (128 - time_shift)): 0 as published, 1 in diffusers' DiT */
	int64_t reversed;                /* DiT: 1 where its own time is 0 for noise and 1 for data, and its velocity points to the data: SiT */
	int64_t text_tokens, text_width; /* Paris, PixArt: features of a text */
	int64_t learned_positions;       /* 1: the position table is trained; 0: stored */
	int64_t micro;                   /* PixArt: 1 where it is told the size and aspect ratio of the picture (its 1024 pixel models) */
	double position_scale;           /* PixArt: positions are multiplied by it; 0 is 1 */
};

/* What a network reads; what the configuration has no use for is NULL. */
struct net_input {
	struct tensor *x, *time; /* (B, channels, size, size); (B), in [0, 1] */
	struct tensor *label;    /* (B) of DT_I32, where classes > 0, but not of a router, which predicts it */
	struct tensor *text;     /* (B, text_tokens, text_width) */
	struct tensor *mask;     /* PixArt: (B, text_tokens), 0 for a token and NET_PADDING for padding; NULL: no padding */
	struct tensor *micro;    /* (B, 3): height, width, aspect ratio */
};

/* As config.json says it: "dit", "router", "dit_expert", "pixart". */
const char *net_kind_name(enum net_kind kind);

/* Whether it is given a text: an expert of Paris, PixArt. */
int net_reads_text(enum net_kind kind);

/* In a mask, of what is padding. In `micro`: numbers per row. */
enum { NET_PADDING = -10000, NET_MICRO = 3 };

/* n rows of `micro` for whole square pictures of 8 pixels across an element of a latent, as PixArt's autoencoder makes them. */
void net_micro(const struct net_config *c, int64_t n, float *out);

/* A preset by name: dit-nano dit-micro dit-mini dit-s dit-b dit-l dit-xl, each with /PATCH (1, 2, 4, 8 ..), into the fields
 * patch, hidden, depth, heads, mlp_ratio; and unless the kind is NET_ROUTER, the same with paris- and pixart- in the place of dit-, which
 * is the kind. Unknown: ERR_USAGE, listing them. */
int net_preset(const char *name, struct net_config *c, struct err *e);

/* Whether the numbers fit together (size a multiple of patch, hidden of heads and of 4, ..): ERR_USAGE names what does not. */
int net_check(const struct net_config *c, struct err *e);

/* config.json, both ways: ours, that of the released Paris networks, and diffusers' of DiT and PixArt. Unknown keys are ignored;
 * missing ones ERR_DATA. net_to_json adds to an object. */
int net_from_json(const json_t *o, const char *where, struct net_config *c, struct err *e);
void net_to_json(const struct net_config *c, json_t *o);

/* 0 when equal, else the name of the first field that differs. */
const char *net_differs(const struct net_config *a, const struct net_config *b);

/* Inputs of the tape for text, mask and sizes where the configuration reads them; the rest of *in is NULL. */
void net_text_inputs(struct tape *t, const struct net_config *c, struct net_input *in);
/* Inputs for all that it reads. */
void net_inputs(struct tape *t, const struct net_config *c, struct net_input *in);

/* Record the network. Returns (B, out_channels, size, size), or logits (B, clusters) for a router, contiguous. B is the tape's
 * capacity. */
struct tensor *net_record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in);

/* The table alone (a throw-away recording), laid out. Release with params_release. */
void net_params(const struct net_config *c, struct params *p);

/* Both that and net_flops, from one recording. */
double net_measure(const struct net_config *c, struct params *p);

/* FLOPs of the products of one forward pass of one sample. */
double net_flops(const struct net_config *c);

#endif
