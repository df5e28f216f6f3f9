/* Networks: what they are (a configuration that travels in config.json) and how they are recorded. Each is written once, against
 * the tape. */
#ifndef DDM_NET_NET_H
#define DDM_NET_NET_H

#include <jansson.h>

#include "tape/tape.h"

enum net_kind {
	NET_DIT,   /* Peebles & Xie, "Scalable diffusion models with transformers", adaLN-zero */
	NET_ROUTER /* the same trunk with a class token and K logits: p(cluster | x_t, t) */
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
};

/* A preset by name: dit-nano dit-micro dit-mini dit-s dit-b dit-l dit-xl, each with /PATCH (1, 2, 4, 8 ..), into the fields
 * patch, hidden, depth, heads, mlp_ratio. Unknown: ERR_USAGE, listing them. */
int net_preset(const char *name, struct net_config *c, struct err *e);

/* Whether the numbers fit together (size a multiple of patch, hidden of heads and of 4, ..): ERR_USAGE names what does not. */
int net_check(const struct net_config *c, struct err *e);

/* config.json, both ways. Unknown keys are ignored; missing ones ERR_DATA. net_to_json adds to an object. */
int net_from_json(const json_t *o, const char *where, struct net_config *c, struct err *e);
void net_to_json(const struct net_config *c, json_t *o);

/* 0 when equal, else the name of the first field that differs. */
const char *net_differs(const struct net_config *a, const struct net_config *b);

/* Record the network. x (B, channels, size, size); time (B), t in [0, 1]; label (B) of DT_I32 where classes > 0, else NULL.
 * Returns (B, out_channels, size, size), or logits (B, clusters) for a router, contiguous. B is the tape's capacity. */
struct tensor *net_record(struct tape *t, struct params *p, const struct net_config *c, struct tensor *x, struct tensor *time,
                          struct tensor *label);

/* The table alone (a throw-away recording), laid out. Release with params_release. */
void net_params(const struct net_config *c, struct params *p);

/* Both that and net_flops, from one recording. */
double net_measure(const struct net_config *c, struct params *p);

/* FLOPs of the products of one forward pass of one sample. */
double net_flops(const struct net_config *c);

#endif
