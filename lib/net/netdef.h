/* The definition of an architecture: one constant in the architecture's own file, and a line in the list below. Private to lib/net; other folders use
 * the functions of net/net.h. */
#ifndef DDM_NET_NETDEF_H
#define DDM_NET_NETDEF_H

#include "net/net.h"
#include "net/rename.h"

enum net_field_type {
	NET_INT,  /* int64_t */
	NET_REAL, /* double */
	NET_INTS, /* int64_t[NET_INTS_MOST]: a list in config.json, zeros behind its end */
	NET_FIXED /* true or false in config.json, as `initial` says; another value is another network: ERR_DATA */
};

enum net_field_flags {
	NET_REQUIRED = 1, /* config.json must have it, and always gets it */
	NET_ALWAYS = 2,   /* config.json always gets it; of the others only what is not 0 is written */
	NET_UNWRITTEN = 4,
	NET_DROPOUT = 8,  /* written where there are classes, or a text that is dropped */
	NET_TRAINING = 16 /* of training alone: networks that differ only in it compute the same */
};

/* One number of a configuration. Reading, writing, comparing, stamps and facts follow from the table of these. */
struct net_field {
	const char *key;   /* in config.json */
	const char *alias; /* read in its place, as the released Paris networks have it; or NULL */
	const char *name;  /* of the fields that a preset sets: in stamps, facts and options; NULL: not one of those */
	enum net_field_type type;
	size_t at; /* in struct net_config */
	double initial, lo, hi;
	unsigned flags; /* enum net_field_flags */
};

#define NET_AT(field) offsetof(struct net_config, field)
/* A field of the architecture's own struct, which lies in struct net_config's `own`. */
#define NET_OWN_AT(type, field) (offsetof(struct net_config, own) + offsetof(type, field))

/* The fields of every architecture, in the order of config.json. Sizes that the released configurations do not tell are `size`; 0: required. */
/* clang-format off */
#define NET_PICTURE_FIELDS(side) \
	{"in_channels", NULL, NULL, NET_INT, NET_AT(channels), 0, 0, INT32_MAX, NET_REQUIRED}, \
	{"out_channels", NULL, NULL, NET_INT, NET_AT(out_channels), 0, 0, INT32_MAX, 0}, \
	{"sample_size", "latent_size", NULL, NET_INT, NET_AT(size), side, 0, INT32_MAX, (side) ? NET_ALWAYS : NET_REQUIRED}
#define NET_CLASS_FIELDS \
	{"num_classes", NULL, NULL, NET_INT, NET_AT(classes), 0, 0, INT32_MAX, 0}
/* An expert's too, whose data may be of so many clusters. */
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

/* A size: a number, or the field of struct net_config (an int64_t) that holds it. */
struct net_size {
	int64_t number; /* 0: */
	size_t at;
};

/* Something that the network reads: floats, or integers of DT_I32. */
struct net_reads {
	enum net_input_kind input;
	size_t when; /* the field of struct net_config (an int64_t) that is not 0 where it is read; 0: always */
	int integers, rank;
	struct net_size shape[3]; /* of one sample: [rank] */
};

/* What the networks here read, of struct net_input. */
/* clang-format off */
#define NET_SIZE_OF(field) {0, NET_AT(field)}
#define NET_READS_X {NET_IN_X, 0, 0, 3, {NET_SIZE_OF(channels), NET_SIZE_OF(size), NET_SIZE_OF(size)}}
#define NET_READS_TIME {NET_IN_TIME, 0, 0, 0, {{0}}}
#define NET_READS_LABEL {NET_IN_LABEL, NET_AT(classes), 1, 0, {{0}}}
#define NET_READS_TEXT {NET_IN_TEXT, 0, 0, 2, {NET_SIZE_OF(text_tokens), NET_SIZE_OF(text_width)}}
#define NET_READS_MASK {NET_IN_MASK, 0, 0, 1, {NET_SIZE_OF(text_tokens)}}
#define NET_READS_MICRO(when) {NET_IN_MICRO, when, 0, 1, {{NET_MICRO, 0}}}
/* clang-format on */

/* Presets NAME of an architecture, PREFIX NAME on the command line. Architectures may share one. */
struct net_presets {
	const char *const *names; /* ends with NULL */
	const char *tail;         /* what follows a name in a list: "/P" */
	const char *example;      /* what follows one that is proposed: "/4" */
	const char *note;         /* what the tail means */
	/* Set the fields of struct net_config that have a name, by what follows the prefix: 1; 0 where it is none of these presets. */
	int (*apply)(struct net_config *c, const char *text);
};

/* How diffusers describes it. */
struct net_diffusers {
	const char *class;     /* _class_name */
	const char *norm_type; /* by which class Transformer2DModel is known to be this one; NULL: it never is */
	int (*parse)(const json_t *o, const char *where, struct net_config *c, struct err *e); /* ERR_DATA */
};

/* How the time and the class modulate the blocks. */
enum net_modulation {
	NET_MODULATION_NONE,
	NET_MODULATION_EACH,  /* adaLN-zero: blocks.I.adaLN_modulation.1 of each block */
	NET_MODULATION_SHARED /* adaLN-single: t_block.1 for all blocks, and blocks.I.scale_shift_table of each, which is added */
};

/* A weight's name, and what relatives call it (patterns of net/rename.h). */
struct net_alias {
	const char *common, *own;
};

struct net_def {
	const char *name;  /* model_type of config.json */
	const char *title; /* in reports; NULL: the name */
	enum net_role role;
	int trunk; /* its own struct is struct trunk_config (net/trunkconfig.h) */
	const struct net_field *fields;
	int nfields;
	const struct net_reads *inputs;
	int ninputs;
	/* ERR_USAGE names the numbers that do not fit together. net_check sees to what is common. */
	int (*check)(const struct net_config *c, struct err *e);
	/* What config.json says that the table of fields does not, read after those and written after those; or NULL. */
	int (*read)(const json_t *o, const char *where, struct net_config *c, struct err *e);
	void (*write)(const struct net_config *c, json_t *o);
	/* ERR_USAGE where most of a noise cannot pass through the network; NULL: it can. */
	int (*check_noise)(const struct net_config *c, struct err *e);
	/* NULL: no network; the weights file holds samples (diffusion/finitemodel.h). */
	struct tensor *(*record)(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in);
	const char *prefix; /* of its presets; NULL: it has none */
	const struct net_presets *presets;
	const char *prediction;                /* of a config.json that names none; NULL: it must */
	int64_t text_tokens;                   /* to which texts are padded in training, where nothing else is said; 0: as in the data */
	const char *null_text;                 /* the parameter with the features of no text, or NULL */
	int lower_case;                        /* diffusers gives it texts in lower case */
	const struct net_diffusers *diffusers; /* or NULL */
	const struct renames *const *families; /* of weight names beside ours; ends with NULL; or NULL */
	/* What net/adopt.h asks, to begin one network with the weights of another: */
	const char *last; /* the last layer, which another prediction needs anew: what its weights' names begin with */
	enum net_modulation modulation;
	const struct net_alias *aliases; /* names other than those of relatives (`trunk`); ends with NULL; or NULL */
};

/* Every architecture: net_NAME is defined in its file. The first of a role is what a new configuration begins as. */
#define NET_DEFS(X) X(dit) X(router) X(paris) X(pixart) X(unet) X(unet_text) X(mnist_unet) X(exact) X(exact_router)

#define NET_DECLARE(name) extern const struct net_def net_##name;
NET_DEFS(NET_DECLARE)
#undef NET_DECLARE

/* The architectures by number; NULL behind the last. */
const struct net_def *net_def_at(int i);

/* Read what the table of fields lists, and then what read() does. */
int net_read_fields(const json_t *o, const char *where, struct net_config *c, struct err *e);

/* The family of names that a file of weights is in; NULL: ours. */
const struct renames *net_names(const struct safetensors *s);

#define NET_COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* Initialisers of a struct net_def: its two tables with their lengths. */
#define NET_TABLES(fields_, inputs_) .fields = (fields_), .nfields = NET_COUNT(fields_), .inputs = (inputs_), .ninputs = NET_COUNT(inputs_)

#endif
