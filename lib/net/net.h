/* Networks: what they are (a configuration that travels in config.json) and how they are recorded. Each is written once, against
 * the tape. */
#ifndef DDM_NET_NET_H
#define DDM_NET_NET_H

#include <jansson.h>

#include "tape/tape.h"

/* One per architecture (net/netdef.h). */
struct net_def;
enum { NET_OWN = 256, NET_INTS_MOST = 8 };

enum net_role {
	NET_EXPERT,    /* predicts something of a picture, of its shape */
	NET_CLASSIFIER /* K logits: p(cluster | x_t, t). A router */
};

/* The facts that everybody may need, and a place for the architecture's own. */
struct net_config {
	const struct net_def *def;
	int64_t channels;                       /* of the picture or latent */
	int64_t out_channels;                   /* as channels, or twice that where a variance is predicted too */
	int64_t size;                           /* height = width */
	int64_t classes;                        /* 0: unconditional */
	double class_dropout;                   /* probability of the null label (index `classes`) in training; > 0 adds its row to the table */
	int64_t clusters;                       /* classifier: K */
	int64_t text_tokens, text_width;        /* features of a text */
	double dropout;                         /* probability of 0 in training, where net_has_dropout */
	double time_scale;                      /* the network receives time_scale * t, t in [0, 1] */
	_Alignas(8) unsigned char own[NET_OWN]; /* a struct that the architecture's file knows; no pointers in it */
};

/* Which of them a network reads, and their shapes, stand in its definition (net/netdef.h). */
enum net_input_kind { NET_IN_X, NET_IN_TIME, NET_IN_LABEL, NET_IN_TEXT, NET_IN_MASK, NET_IN_MICRO, NET_INPUTS };

/* What a network reads; what the configuration has no use for is NULL. By name, or by number (enum net_input_kind). */
struct net_input {
	union {
		struct {
			struct tensor *x, *time; /* (B, channels, size, size); (B), in [0, 1] */
			struct tensor *label;    /* (B) of DT_I32 */
			struct tensor *text;     /* (B, text_tokens, text_width) */
			struct tensor *mask;     /* (B, text_tokens), 0 for a token and NET_PADDING for padding; NULL: no padding */
			struct tensor *micro;    /* (B, NET_MICRO): height, width, aspect ratio */
		};
		struct tensor *v[NET_INPUTS];
	};
	double dropout; /* of a recording that trains: the configuration's; 0: none is recorded. tape_seed's keys switch it off */
};

/* In a mask, of what is padding. In `micro`: numbers per row. */
enum { NET_PADDING = -10000, NET_MICRO = 3 };

/* ---- what a configuration is asked for ---- */

enum net_role net_role(const struct net_config *c);
int net_is_classifier(const struct net_config *c);
/* There is no network: the weights file holds the samples (diffusion/finitemodel.h). Only channels, size and clusters say something. */
int net_is_exact(const struct net_config *c);
int net_reads(const struct net_config *c, enum net_input_kind input);
/* As config.json says it: "dit", "router", "dit_expert", "pixart"; and as reports do. */
const char *net_name(const struct net_config *c);
const char *net_title(const struct net_config *c);
/* Whether it is another architecture than that a new configuration of its role begins as: then stamps name it. */
int net_is_named(const struct net_config *c);
/* Output elements of one sample: out_channels size size, or clusters. */
int64_t net_elements(const struct net_config *c);
/* What it predicts where config.json does not say; NULL: config.json must. Empty for a classifier. */
const char *net_prediction(const struct net_config *c);
/* Tokens that texts are padded to in training where nothing else is said; 0: as many as the data has. */
int64_t net_text_tokens(const struct net_config *c);
/* Name of the parameter that keeps the features of no text; NULL: there is none. */
const char *net_null_text(const struct net_config *c);
/* Whether the architecture has dropout. */
int net_has_dropout(const struct net_config *c);
/* Whether diffusers gives it texts in lower case. */
int net_lower_case(const struct net_config *c);

/* What a preset sets, as stamps, facts and options call it: number i of the configuration; 0 behind the last. */
struct net_value {
	const char *name; /* "patch", "hidden", .. */
	int whole;        /* i says it, else f */
	int64_t i;
	double f;
	char text[160]; /* of a list, "64,128,128", and then alone; else empty */
};
int net_shape(const struct net_config *c, int i, struct net_value *v);
/* ERR_USAGE where the architecture has no such value. */
int net_shape_set(struct net_config *c, const char *name, int64_t value, struct err *e);
/* The other's architecture and all of these values. */
void net_shape_copy(struct net_config *c, const struct net_config *from);

/* n rows of `micro` for whole square pictures of 8 pixels across an element of a latent, as PixArt's autoencoder makes them. */
void net_micro(const struct net_config *c, int64_t n, float *out);

/* ---- making one ---- */

/* The architecture that is the first of its role; that of a name in config.json, or NULL. */
const struct net_def *net_first(enum net_role role);
const struct net_def *net_find(const char *name);
/* No network, but samples. */
const struct net_def *net_exact_of(enum net_role role);
/* All fields as they are where nothing is said of them. */
void net_init(struct net_config *c, const struct net_def *def);

/* A preset by name sets what net_shape lists: dit-nano dit-micro dit-mini dit-s dit-b dit-l dit-xl, each with /PATCH (1, 2, 4, 8 ..). Unless
 * it is a classifier, the same with paris- and pixart- in the place of dit-, which sets the architecture. Unknown: ERR_USAGE, listing them. */
int net_preset(const char *name, struct net_config *c, struct err *e);

/* Whether the numbers fit together (size a multiple of patch, hidden of heads and of 4, ..): ERR_USAGE names what does not. */
int net_check(const struct net_config *c, struct err *e);
/* Whether it can predict noise, or what holds noise as a velocity does: ERR_USAGE where most of it cannot pass through the network. */
int net_check_noise(const struct net_config *c, struct err *e);

/* config.json, both ways: ours, that of the released Paris networks, and diffusers' of DiT and PixArt. Unknown keys are ignored;
 * missing ones ERR_DATA. net_to_json adds to an object. */
int net_from_json(const json_t *o, const char *where, struct net_config *c, struct err *e);
void net_to_json(const struct net_config *c, json_t *o);

/* 0 when equal, else the name of the first field that differs. */
const char *net_differs(const struct net_config *a, const struct net_config *b);

/* Make inputs of the tape for what the configuration reads and *in does not have yet. */
void net_inputs(struct tape *t, const struct net_config *c, struct net_input *in);

/* Record the network. Returns (B, out_channels, size, size), or logits (B, clusters) for a router, contiguous. B is the tape's
 * capacity. */
struct tensor *net_record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in);

/* The table alone (a throw-away recording), laid out. Release with params_release. */
void net_params(const struct net_config *c, struct params *p);

/* The same, and the FLOPs of the products of one forward pass of one sample. */
double net_measure(const struct net_config *c, struct params *p);

#endif
