/* A trained network on disk, opened for inference: a folder with config.json and weights (file/weightfile.h). */
#ifndef DDM_NET_MODEL_H
#define DDM_NET_MODEL_H

#include "kernels/compact.h"
#include "net/betas.h"
#include "net/net.h"
#include "net/timerange.h"

/* The contents of config.json: the network, the meaning of its output, and its training data. */
struct model_config {
	struct net_config net;
	char prediction[16];     /* "velocity", "x0", "epsilon", .. (diffusion/path.h); empty for a router */
	char path[24];           /* "linear", .. */
	int scheduled;           /* prediction and path come from a scheduler_config.json */
	int lower;               /* diffusers' model whose texts are in lower case (struct textencoder_options) */
	struct betas betas;      /* of a path with discrete time (betas_path). Owned, like the following: model_config_release */
	double sigma_data;       /* of path "edm"; 0: SIGMA_DATA_USUAL */
	struct time_range range; /* the times that an expert was trained on; zeroed: all */
	int told_cluster;        /* its classes are clusters: "condition" is "cluster". 0: they are classes, or it has none */
	int64_t cluster;         /* the cluster it was trained on; -1: all, or unknown */
	int64_t clusters;        /* K of the data it was trained on; 0: unknown */
	int64_t *cluster_sizes;  /* [clusters] training samples per cluster; NULL: unknown */
	double *cluster_shares;  /* [clusters] probabilities of the clusters where they have no sizes; NULL: unknown */
	json_t *extends;         /* the partitions that this one extends (core/extends.h); NULL: none. Owned */
	char partition[65];      /* identifies the partition into these clusters (data/sharding.h); empty: unknown */
	json_t *cluster_names;   /* [clusters] (core/names.h); NULL: none */
	json_t *class_names;     /* [net.classes]; NULL: none */
	char expert_weights[65]; /* SHA-256 of the weights of the expert whose learned uncertainty this is; empty: it is none */
};

/* Load config.json of the folder. For a diffusers network, prediction and path come from the scheduler (scheduler_find); without one they are
 * epsilon and linear_betas. Free with model_config_release. */
int model_config_load(const char *dir, struct model_config *c, struct err *e);
/* The scheduler's part of model_config_load: set *c from the scheduler of a diffusers network. Other networks, and those without one, are unchanged.
 * */
int model_config_schedule(const char *dir, const json_t *config, struct model_config *c, struct err *e);
/* Parse config.json without the scheduler; `where` is its name in messages. */
int model_config_parse(const json_t *o, const char *where, struct model_config *c, struct err *e);
void model_config_release(struct model_config *c);
/* The text of config.json, followed by the keys of `extra` (may be NULL; borrowed). Caller frees with mem_free. */
char *model_config_text(const struct model_config *c, const json_t *extra);

/* Name of the weights file that this program writes for a role: "diffusion_pytorch_model.safetensors" or "model.safetensors". */
const char *model_weights_name(enum net_role role);
/* Name of an optional file beside the weights: the mean of the expert's training samples, .npy, (C, S, S). */
#define MODEL_MEAN_NAME "data_mean.npy"
/* The averaged weights in a checkpoint of the trainers, beside its MANIFEST.json. */
#define CHECKPOINT_AVERAGE "ema.safetensors"
/* The path of the weights to read: the average in a checkpoint, or model_weights_name, or what weightfile_locate finds. NULL and *e: none. Caller
 * frees with mem_free. */
char *model_weights_path(const char *dir, enum net_role role, struct err *e);

struct model;

/* Load configuration and weights of `dir` for batches of up to `capacity`. bulk: storage type of the blocks' matrices, as for runner_new
 * (net/runner.h). `hash` (65 bytes, may be NULL) receives the SHA-256 of the weights (weightfile_hash). The device is borrowed. ERR_DATA for tensors
 * that are missing, superfluous or of another shape, and for an exact model, which holds a law instead of a network. Free with model_free. */
struct model *model_open(const char *dir, int64_t capacity, enum compact_type bulk, struct device *d, char *hash, struct err *e);
/* The same without reading the weights: the file is mapped, and names and shapes are checked. model_load reads them. */
struct model *model_find(const char *dir, int64_t capacity, int64_t frames, enum compact_type bulk, struct device *d, char *hash, struct err *e);
/* The same for a model that model_pull differentiates. Its weights are plain floats, and its work space holds what the gradient needs. */
struct model *model_find_gradient(const char *dir, int64_t capacity, int64_t frames, struct device *d, char *hash, struct err *e);
/* Read the weights of a model from model_find, before its first run; later calls do nothing. lender: NULL, or a model (see model_lends) whose work
 * space this one shares. pager: NULL, or a pager with large enough slots, to which the weights are added as a page; borrowed until model_free. */
struct pager;
int model_load(struct model *m, const struct model *lender, struct pager *pager, struct err *e);
/* model_alike: 1 if both models can use the same work space. model_lends: 1 if lender has allocated one that m can use. */
int model_alike(const struct model *a, const struct model *b);
int model_lends(const struct model *lender, const struct model *m);
/* Bytes that weights and work space take, or will take. */
void model_needs(struct model *m, uint64_t *weights, uint64_t *work);
/* Bytes that the weights will occupy on the CPU with matrices held as `bulk` (COMPACT_NONE: the type chosen at open). */
uint64_t model_takes(const struct model *m, enum compact_type bulk);
int model_loaded(const struct model *m);
int model_page(const struct model *m); /* its page number in the pager; -1: none */
void model_free(struct model *m);
const struct model_config *model_config(const struct model *m);
double model_flops(const struct model *m);             /* of one sample */
int64_t model_elements(const struct model *m);         /* output elements of one sample */
int64_t model_bytes(const struct model *m);            /* bytes of the loaded weights; 0 before model_load */
const char *model_weights_file(const struct model *m); /* base name of the weights file or index; borrowed */

/* Inputs for n samples (net/net.h: struct net_input), in host memory. */
struct model_input {
	const float *x, *t;        /* (n, C, S, S); (n), in [0, 1] */
	const int32_t *label;      /* (n), or NULL without classes */
	const float *text;         /* (n, text_tokens, text_width), or NULL without text */
	const float *mask, *micro; /* mask (n, text_tokens), NULL: no padding; micro (n, NET_MICRO) */
	const float *pooled;       /* (n, pooled_width), or NULL */
	const float *first;        /* (n, 1 + C, S, S): rows of net_put_first, or NULL: no first frames */
};

/* Run on n samples, in batches of up to `capacity`; out (n, model_elements) is host memory. A sample's output does not depend, to the bit, on the
 * other samples. Errors stick to the device. */
void model_run(struct model *m, int64_t n, const struct model_input *in, float *out);
/* The same with x, text, mask, pooled, first and out in device memory; does not wait. */
void model_submit(struct model *m, int64_t n, const struct model_input *in, float *out);

/* out as model_submit, and dx (n, C, S, S) = J' dy for dy (n, model_elements), where J is the Jacobian of a sample's output with respect to its x; dy
 * and dx in device memory. For a model of model_find_gradient. */
void model_pull(struct model *m, int64_t n, const struct model_input *in, const float *dy, float *out, float *dx);

/* Read the tensors of a file (weightfile_open) into values[p->total], laid out by p, in memory of device d or, if d is NULL, in host memory. */
int model_read_weights(const char *path, const struct params *p, struct device *d, float *values, struct err *e);
/* ERR_DATA naming the first tensor whose name (ours or diffusers'), shape or floating-point dtype does not match the table p. */
struct safetensors;
int model_match_weights(const struct safetensors *s, const char *where, const struct params *p, struct err *e);
/* Read one parameter, out[q->count], from a file that matches. */
void model_read_weight(const struct safetensors *s, const struct param *q, float *out);
/* Copy a parameter v[q->count] in the order of files, which is another for convolutions. */
void model_file_order(const struct param *q, float *out, const float *v);
/* Write values[p->total], in memory of device d or, if d is NULL, in host memory, as float32 under the table's names, with `texts` in the metadata.
 * Needs host memory for all values. */
struct st_text;
struct sha256;
int model_write_weights(const char *path, const struct params *p, struct device *d, const float *values, const struct st_text *texts, int ntexts,
                        struct err *e);
/* The same; sum, which may be NULL, takes in the bytes of the file. */
int model_write_summed(const char *path, const struct params *p, struct device *d, const float *values, const struct st_text *texts, int ntexts,
                       struct sha256 *sum, struct err *e);

#endif
