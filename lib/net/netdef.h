/* The definition of an architecture: one constant in the architecture's own file, and a line in the list below. Private to lib/net; other folders use
 * the functions of net/net.h. */
#ifndef DDM_NET_NETDEF_H
#define DDM_NET_NETDEF_H

#include "net/net.h"
#include "net/rename.h"

enum net_field_type {
	NET_INT,  /* int64_t */
	NET_REAL, /* double */
	NET_INTS, /* int64_t[NET_INTS_MOST]: a list in config.json, zeros after its end */
	NET_FIXED /* true or false in config.json, which must be equal to `initial` (ERR_DATA) */
};

enum net_field_flags {
	NET_REQUIRED = 1, /* config.json must have it, and always gets it */
	NET_ALWAYS = 2,   /* always written; without it, a field is written if it is not 0 */
	NET_UNWRITTEN = 4,
	NET_DROPOUT = 8,  /* written if there are classes, or a text that is dropped */
	NET_TRAINING = 16 /* matters only in training: networks that differ only in it compute the same */
};

/* One number of a configuration. Reading, writing, comparing, stamps and facts follow from the table of these. */
struct net_field {
	const char *key;   /* in config.json */
	const char *alias; /* another key that is read, as in the released Paris networks; or NULL */
	const char *name;  /* in stamps, facts and options, of a field that presets set; NULL: presets do not set it */
	enum net_field_type type;
	size_t at; /* offset in struct net_config */
	double initial, lo, hi;
	unsigned flags; /* enum net_field_flags */
};

#define NET_AT(field) offsetof(struct net_config, field)
/* A field of the architecture's own struct, which lies in struct net_config's `own`. */
#define NET_OWN_AT(type, field) (offsetof(struct net_config, own) + offsetof(type, field))

/* The fields of every architecture, in the order of config.json. `side` is the default of sample_size; 0: it is required. */
/* clang-format off */
#define NET_PICTURE_FIELDS(side) \
	{"in_channels", NULL, NULL, NET_INT, NET_AT(channels), 0, 0, INT32_MAX, NET_REQUIRED}, \
	{"out_channels", NULL, NULL, NET_INT, NET_AT(out_channels), 0, 0, INT32_MAX, 0}, \
	{"sample_size", "latent_size", NULL, NET_INT, NET_AT(size), side, 0, INT32_MAX, (side) ? NET_ALWAYS : NET_REQUIRED}
/* An architecture reads clips if it lists this field. */
#define NET_FRAMES_FIELD {"num_frames", NULL, NULL, NET_INT, NET_AT(frames), 0, 0, 65536, 0}
/* One that reads clips reads their first frames if it lists these too, and NET_READS_FIRST. */
#define NET_FIRST_FIELDS \
	{"first_frame", NULL, NULL, NET_INT, NET_AT(first_frame), 0, 0, 1, 0}, \
	{"first_frame_dropout", NULL, NULL, NET_REAL, NET_AT(frame_dropout), 0, 0, 1, 0}
#define NET_CLASS_FIELDS \
	{"num_classes", NULL, NULL, NET_INT, NET_AT(classes), 0, 0, INT32_MAX, 0}
/* For an expert too: the number of clusters of its data. */
#define NET_CLUSTER_FIELDS \
	{"num_clusters", NULL, NULL, NET_INT, NET_AT(clusters), 0, 0, INT32_MAX, 0}
#define NET_TEXT_FIELDS(tokens, width) \
	{"text_tokens", "max_text_length", NULL, NET_INT, NET_AT(text_tokens), tokens, 0, INT32_MAX, 0}, \
	{"text_embed_dim", "text_width", NULL, NET_INT, NET_AT(text_width), width, 0, INT32_MAX, 0}
#define NET_DROPOUT_FIELD(key, alias) {key, alias, NULL, NET_REAL, NET_AT(class_dropout), 0, 0, 1, NET_DROPOUT}
/* An architecture has dropout if it lists this field. */
#define NET_HIDDEN_DROPOUT_FIELD {"dropout", NULL, NULL, NET_REAL, NET_AT(dropout), 0, 0, 1, NET_TRAINING}
#define NET_TIME_FIELD {"time_scale", NULL, NULL, NET_REAL, NET_AT(time_scale), 1000, 1e-6, 1e6, NET_ALWAYS}
/* clang-format on */

/* A size: a number, or, if that is 0, the int64_t at this offset in struct net_config. */
struct net_size {
	int64_t number;
	size_t at;
};

/* An input that the network reads: floats, or, with `integers`, DT_I32. */
struct net_reads {
	enum net_input_kind input;
	size_t when; /* offset of an int64_t in struct net_config: the input is read if that is not 0. 0: always read */
	int integers, rank;
	struct net_size shape[3]; /* of one sample: [rank] */
};

/* The entries of the inputs in struct net_input. */
/* clang-format off */
#define NET_SIZE_OF(field) {0, NET_AT(field)}
/* Of a clip: the frames come first. */
#define NET_READS_X {NET_IN_X, 0, 0, 3, {NET_SIZE_OF(channels), NET_SIZE_OF(size), NET_SIZE_OF(size)}}
#define NET_READS_TIME {NET_IN_TIME, 0, 0, 0, {{0}}}
#define NET_READS_LABEL {NET_IN_LABEL, NET_AT(classes), 1, 0, {{0}}}
#define NET_READS_TEXT {NET_IN_TEXT, 0, 0, 2, {NET_SIZE_OF(text_tokens), NET_SIZE_OF(text_width)}}
#define NET_READS_MASK {NET_IN_MASK, 0, 0, 1, {NET_SIZE_OF(text_tokens)}}
#define NET_READS_POOLED {NET_IN_POOLED, NET_AT(pooled_width), 0, 1, {NET_SIZE_OF(pooled_width)}}
#define NET_READS_MICRO(when) {NET_IN_MICRO, when, 0, 1, {{NET_MICRO, 0}}}
/* One plane more than the sample's channels. */
#define NET_READS_FIRST {NET_IN_FIRST, NET_AT(first_frame), 0, 3, {NET_SIZE_OF(channels), NET_SIZE_OF(size), NET_SIZE_OF(size)}}
/* clang-format on */

/* The presets of an architecture: PREFIX NAME TAIL on the command line. Architectures may share a set of presets. */
struct net_presets {
	const char *const *names; /* ends with NULL */
	const char *tail;         /* follows a name in a list: "/P" */
	const char *example;      /* follows a name that a message proposes: "/4" */
	const char *note;         /* what the tail means */
	/* Set the named fields of struct net_config from the text after the prefix. 1, or 0 if the text is none of these presets. */
	int (*apply)(struct net_config *c, const char *text);
	/* The variants of a name, as full names after the prefix, with this patch size; NULL after the last. Not all need be presets. NULL: a name has
	 * one variant. Caller frees with mem_free. */
	char *(*variant)(const char *name, int i, int64_t patch);
};

/* How diffusers describes an architecture. */
struct net_diffusers {
	const char *class;     /* _class_name */
	const char *norm_type; /* a Transformer2DModel with this norm_type is this architecture; NULL: none is */
	int (*parse)(const json_t *o, const char *where, struct net_config *c, struct err *e); /* ERR_DATA */
	int flow; /* without a scheduler's file it predicts the velocity of the linear path, not noise */
};

/* How the time and the class modulate the blocks. */
enum net_modulation {
	NET_MODULATION_NONE,
	NET_MODULATION_EACH,  /* adaLN-zero: blocks.I.adaLN_modulation.1 of each block */
	NET_MODULATION_SHARED /* adaLN-single: t_block.1 for all blocks, plus blocks.I.scale_shift_table of each block */
};

/* An architecture's own name of a weight, and the name common to related architectures (patterns of net/rename.h). */
struct net_alias {
	const char *common, *own;
};

struct net_def {
	const char *name;  /* model_type of config.json */
	const char *title; /* in reports; NULL: the name */
	enum net_role role;
	int trunk; /* 1: its own struct is struct trunk_config (net/trunkconfig.h) */
	const struct net_field *fields;
	int nfields;
	const struct net_reads *inputs;
	int ninputs;
	/* ERR_USAGE names the numbers that do not fit together. net_check has checked the common fields. NULL: nothing to check. */
	int (*check)(const struct net_config *c, struct err *e);
	/* Read and write parts of config.json that the table of fields does not describe, after the table; or NULL. */
	int (*read)(const json_t *o, const char *where, struct net_config *c, struct err *e);
	void (*write)(const struct net_config *c, json_t *o);
	/* ERR_USAGE if the network is too narrow to predict noise; NULL: it never is. */
	int (*check_noise)(const struct net_config *c, struct err *e);
	/* Record the network. NULL: there is none, and the weights file holds a law (diffusion/lawmodel.h). */
	struct tensor *(*record)(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in);
	int frames_fixed;   /* of clips: the weights depend on the number of frames */
	const char *prefix; /* of the presets; NULL: there are none */
	const struct net_presets *presets;
	const char *prediction;                /* if config.json has none; NULL: it must have one */
	int64_t text_tokens;                   /* default length of padded texts in training; 0: that of the data */
	const char *null_text;                 /* the parameter with the features of the empty text, or NULL */
	int lower_case;                        /* diffusers converts its texts to lower case */
	const struct net_diffusers *diffusers; /* or NULL */
	const struct renames *const *families; /* other families of weight names; ends with NULL; or NULL */
	/* For net/adopt.h, which starts a network from the weights of another: */
	const char *head; /* of a classifier: the last layer's weights are HEAD.weight (K, ..) and HEAD.bias (K) */
	const char *last; /* the names of the last layer's weights begin with this; another prediction needs a new last layer */
	enum net_modulation modulation;
	const struct net_alias *aliases; /* names that differ from those of related architectures (`trunk`); ends with NULL; or NULL */
};

/* Every architecture: net_NAME is defined in its file. The first of a role is the default. */
#define NET_DEFS(X) X(dit) X(router) X(paris) X(pixart) X(video_dit) X(unet) X(unet_text) X(mnist_unet) X(sd3) X(flux) X(exact) X(exact_router)

#define NET_DECLARE(name) extern const struct net_def net_##name;
NET_DEFS(NET_DECLARE)
#undef NET_DECLARE

/* The architectures by number; NULL after the last. */
const struct net_def *net_def_at(int i);

/* Read the fields of the table, then call read(). */
int net_read_fields(const json_t *o, const char *where, struct net_config *c, struct err *e);

/* The family of names that a file of weights uses; NULL: ours. */
const struct renames *net_names(const struct safetensors *s);

#define NET_COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* Initialisers of a struct net_def: its two tables with their lengths. */
#define NET_TABLES(fields_, inputs_) .fields = (fields_), .nfields = NET_COUNT(fields_), .inputs = (inputs_), .ninputs = NET_COUNT(inputs_)

#endif
