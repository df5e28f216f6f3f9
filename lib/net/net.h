/* Networks: their configurations, which are stored in config.json, and how they are recorded on a tape. */
#ifndef DDM_NET_NET_H
#define DDM_NET_NET_H

#include <jansson.h>

#include "tape/tape.h"

/* The definition of an architecture (net/netdef.h). */
struct net_def;
enum { NET_OWN = 256, NET_INTS_MOST = 8 };

enum net_role {
	NET_EXPERT,    /* its output has the shape of the picture: a velocity, a noise, .. */
	NET_CLASSIFIER /* a router: K logits, p(cluster | x_t, t) */
};

/* A configuration: the numbers common to all architectures, and room for the architecture's own. */
struct net_config {
	const struct net_def *def;
	int64_t channels;                       /* of the picture or latent */
	int64_t out_channels;                   /* as channels, or twice that if a variance is predicted too */
	int64_t size;                           /* height = width */
	int64_t frames;                         /* of a clip; 0: samples are pictures */
	int64_t first_frame;                    /* 1: the network reads the clean first frame of the clip (image to video) */
	double frame_dropout;                   /* probability that it is withheld in training; > 0: the network also works without it */
	int64_t classes;                        /* 0: unconditional */
	double class_dropout;                   /* probability of the null label (index `classes`) in training; > 0 adds its row to the table */
	int64_t clusters;                       /* classifier: K */
	int64_t text_tokens, text_width;        /* features of a text */
	int64_t pooled_width;                   /* of the pooled vector of a text; 0: the network reads none */
	double dropout;                         /* probability that a hidden value is set to 0 in training; see net_has_dropout */
	double time_scale;                      /* the network receives time_scale * t, t in [0, 1] */
	_Alignas(8) unsigned char own[NET_OWN]; /* the architecture's own struct, without pointers */
};

/* A network's definition lists the inputs that it reads, with their shapes (net/netdef.h). */
enum net_input_kind { NET_IN_X, NET_IN_TIME, NET_IN_LABEL, NET_IN_TEXT, NET_IN_MASK, NET_IN_MICRO, NET_IN_POOLED, NET_IN_FIRST, NET_INPUTS };

/* Inputs by name, or by number (enum net_input_kind). Those that the network does not read are NULL. */
struct net_input {
	union {
		struct {
			struct tensor *x, *time; /* (B, channels, size, size), of clips (B, frames, channels, size, size); (B), in [0, 1] */
			struct tensor *label;    /* (B) of DT_I32 */
			struct tensor *text;     /* (B, text_tokens, text_width) */
			struct tensor *mask;     /* (B, text_tokens), 0 for a token and NET_PADDING for padding; NULL: no padding */
			struct tensor *micro;    /* (B, NET_MICRO): height, width, aspect ratio */
			struct tensor *pooled;   /* (B, pooled_width): one vector of the whole text */
			struct tensor *first;    /* (B, 1 + channels, size, size): a plane of ones and the clean first frame; zeros: none */
		};
		struct tensor *v[NET_INPUTS];
	};
	double dropout; /* the configuration's, if the recording is for training; 0: record no dropout. tape_seed's keys can switch it off */
};

/* The value of padding in a mask; the numbers of a row of `micro`. */
enum { NET_PADDING = -10000, NET_MICRO = 3 };

/* ---- questions about a configuration ---- */

enum net_role net_role(const struct net_config *c);
int net_is_classifier(const struct net_config *c);
/* Whether the weights file holds a law of the data instead of a network (diffusion/lawmodel.h). Then only channels, size and clusters have a
 * meaning. */
int net_is_exact(const struct net_config *c);
int net_reads(const struct net_config *c, enum net_input_kind input);
/* Whether a configuration of this architecture may have the input. */
int net_may_read(const struct net_config *c, enum net_input_kind input);
/* Elements of a row of `first`, (1 + channels, size, size); and fill one for a frame (channels, size, size), NULL: without a frame. */
int64_t net_first_elements(const struct net_config *c);
void net_put_first(const struct net_config *c, const float *frame, float *out);
/* Channels of the tensor that an architecture's layers read: those of the sample, and with a first frame its plane and its channels too. */
int64_t net_read_channels(const struct net_config *c);
/* The architecture's name in config.json ("dit", "router", "dit_expert", "pixart"), and its name in reports. */
const char *net_name(const struct net_config *c);
const char *net_title(const struct net_config *c);
/* Whether stamps name the architecture: 0 for the default one of its role. */
int net_is_named(const struct net_config *c);
/* Elements of one sample; its shape, of which the rank is returned: (channels, size, size), of a clip (frames, channels, size, size). */
int64_t net_sample_elements(const struct net_config *c);
int net_sample_shape(const struct net_config *c, int64_t shape[4]);
/* A shape for messages: "3 x 32 x 32", of clips "8 frames of 3 x 32 x 32". Returns text. */
enum { NET_SAMPLE_TEXT = 100 };
const char *net_sample_text(int64_t frames, int64_t channels, int64_t height, int64_t width, char text[NET_SAMPLE_TEXT]);
/* Whether the architecture can read clips. */
int net_takes_clips(const struct net_config *c);
/* Output elements of one sample: those of a sample of out_channels, or clusters. */
int64_t net_elements(const struct net_config *c);
/* The prediction if config.json has none; NULL: config.json must have it. Empty for a classifier. */
const char *net_prediction(const struct net_config *c);
/* The default number of tokens that texts are padded to in training; 0: that of the data. */
int64_t net_text_tokens(const struct net_config *c);
/* Name of the parameter that holds the features of the empty text; NULL: there is none. */
const char *net_null_text(const struct net_config *c);
/* The name of a classifier's last layer, whose parameters are NAME.weight (clusters, ..) and NAME.bias (clusters); NULL: it has none. */
const char *net_head(const struct net_config *c);
/* Whether the architecture has dropout. */
int net_has_dropout(const struct net_config *c);
/* Whether diffusers' networks of this class predict the velocity of the linear path if no scheduler's file says what they predict. */
int net_is_flow(const struct net_config *c);
/* Whether diffusers converts its texts to lower case. */
int net_lower_case(const struct net_config *c);

/* The i-th value that a preset sets, under its name in stamps, facts and options. net_shape returns 0 after the last. */
struct net_value {
	const char *name; /* "patch", "hidden", .. */
	int whole;        /* 1: the value is i; 0: it is f */
	int64_t i;
	double f;
	char text[160]; /* a list, "64,128,128"; then i and f are not used. Else empty */
};
int net_shape(const struct net_config *c, int i, struct net_value *v);
/* ERR_USAGE if the architecture has no such value. */
int net_shape_set(struct net_config *c, const char *name, int64_t value, struct err *e);
/* Copy the architecture and all of these values from another configuration. */
void net_shape_copy(struct net_config *c, const struct net_config *from);

/* Fill n rows of `micro` for square pictures that are not cropped, with 8 pixels per latent position as in PixArt's autoencoder. */
void net_micro(const struct net_config *c, int64_t n, float *out);

/* ---- making one ---- */

/* The default architecture of a role; the architecture of a name in config.json, or NULL. */
const struct net_def *net_first(enum net_role role);
const struct net_def *net_find(const char *name);
/* The architecture whose models hold a law of the data instead of a network. */
const struct net_def *net_exact_of(enum net_role role);
/* Set the architecture, and all fields to their defaults. */
void net_init(struct net_config *c, const struct net_def *def);

/* Set the values of a preset: dit-nano dit-micro dit-mini dit-s dit-b dit-l dit-xl, each with /PATCH (1, 2, 4, 8 ..). For experts also the presets
 * of other architectures (paris-, pixart-, unet-, sd3-, flux-), which set the architecture too. ERR_USAGE lists the presets. */
int net_preset(const char *name, struct net_config *c, struct err *e);

/* Call each() with the name of every preset that net_preset accepts for c, with this patch size where presets have one. */
void net_presets_each(const struct net_config *c, int64_t patch, void (*each)(void *arg, const char *name), void *arg);

/* ERR_USAGE names numbers that do not fit together: size must be a multiple of patch, hidden of heads and of 4, .. */
int net_check(const struct net_config *c, struct err *e);
/* ERR_USAGE if the network is too narrow to predict noise, or a velocity, which contains noise. */
int net_check_noise(const struct net_config *c, struct err *e);

/* Read a config.json of ours, of the released Paris networks, or of diffusers; unknown keys are ignored, missing ones are ERR_DATA. net_to_json adds
 * ours to an object. */
int net_from_json(const json_t *o, const char *where, struct net_config *c, struct err *e);
void net_to_json(const struct net_config *c, json_t *o);

/* 0 when equal, else the name of the first field that differs. */
const char *net_differs(const struct net_config *a, const struct net_config *b);

/* Make the inputs of the tape that the configuration reads and that are still NULL in *in. */
void net_inputs(struct tape *t, const struct net_config *c, struct net_input *in);

/* Record the network. With first_frame, its layers read more channels than x has: after those of x at every frame a plane that is 1 where a clean
 * frame is given, and the channels of that frame, both 0 but at the first frame. This is the image-to-video input of Wan 2.1 (arXiv 2503.20314),
 * for frames that are not joined in time. Returns (B, out_channels, size, size), of clips (B, frames, out_channels, size, size), or
 * logits (B, clusters) for a router, contiguous. B is the tape's capacity. */
struct tensor *net_record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in);

/* The table of parameters, laid out, without a tape. Release with params_release. */
void net_params(const struct net_config *c, struct params *p);

/* The same; returns the FLOPs of the products of one sample's forward pass. */
double net_measure(const struct net_config *c, struct params *p);

#endif
