/* A trained network on disk: a folder with config.json and weights (file/weightfile.h), for use (not training). */
#ifndef DDM_NET_MODEL_H
#define DDM_NET_MODEL_H

#include "kernels/compact.h"
#include "net/betas.h"
#include "net/net.h"

/* config.json. Beside the network: what its output means. */
struct model_config {
	struct net_config net;
	char prediction[16];    /* "velocity", "x0", "epsilon", .. (diffusion/path.h); empty for a router */
	char path[24];          /* "linear", .. */
	int scheduled;          /* prediction and path are a scheduler's */
	int lower;              /* of diffusers, where its texts are in lower case (struct textencoder_options) */
	struct betas betas;     /* of a path of discrete time (betas_path). Owned, as the next: model_config_release */
	double sigma_data;      /* of path "edm"; 0: SIGMA_DATA_USUAL */
	int64_t cluster;        /* the cluster it was trained on; -1: all, or unknown */
	int64_t clusters;       /* K of the data it was trained on; 0 unknown */
	int64_t *cluster_sizes; /* [clusters] training samples per cluster; NULL unknown */
	char partition[65];     /* what tells the partition into those clusters from others (data/sharding.h); empty: unknown */
	json_t *cluster_names;  /* [clusters] (core/names.h); NULL: they have none */
	json_t *class_names;    /* [net.classes]; NULL: they have none */
};

/* The folder's config.json; a network of diffusers is told what it predicts, and on which path, by its scheduler (scheduler_find), and
 * without one predicts epsilon on linear_betas. */
int model_config_load(const char *dir, struct model_config *c, struct err *e);
/* That much of it: what the scheduler says goes into *c. Nothing for other networks, or where there is no scheduler. */
int model_config_schedule(const char *dir, const json_t *config, struct model_config *c, struct err *e);
/* The same of an object that was read from `where`. */
int model_config_parse(const json_t *o, const char *where, struct model_config *c, struct err *e);
void model_config_release(struct model_config *c);
/* The text of config.json, with the keys of `extra` (may be NULL; borrowed) after its own. Caller frees with mem_free. */
char *model_config_text(const struct model_config *c, const json_t *extra);

/* Name of the weights file that is written to a folder of this role: "diffusion_pytorch_model.safetensors" or "model.safetensors". */
const char *model_weights_name(enum net_role role);
/* Name of the file, beside the weights, with the mean of the samples that an expert was trained on: .npy, (C, S, S). It may be absent. */
#define MODEL_MEAN_NAME "data_mean.npy"
/* The averaged weights in a checkpoint of the trainers, beside its MANIFEST.json. */
#define CHECKPOINT_AVERAGE "ema.safetensors"
/* The path of those that are read: that of a checkpoint; that file, or another's as weightfile_locate finds it. NULL: none. Caller frees with
 * mem_free. */
char *model_weights_path(const char *dir, enum net_role role, struct err *e);

struct model;

/* Load config and weights of DIR for batches of up to `capacity`. bulk: how the matrices of the blocks are held, as runner_new takes it
 * (net/runner.h). `hash` (65 bytes, may be NULL) receives the SHA-256 of the weights (weightfile_hash). The device is borrowed. ERR_DATA for
 * tensors that are missing, superfluous or of another shape, and for an exact model, which holds samples and no network. */
struct model *model_open(const char *dir, int64_t capacity, enum compact_type bulk, struct device *d, char *hash, struct err *e);
/* The same without reading the weights: their file is mapped, and its names and shapes are checked. */
struct model *model_find(const char *dir, int64_t capacity, enum compact_type bulk, struct device *d, char *hash, struct err *e);
/* Read the weights of a model from model_find, before its first run; later calls do nothing. lender: NULL, or a model that lends
 * (model_lends), in whose work space this one computes. pager: NULL, or the weights become a page of it, whose slots are large enough;
 * borrowed until model_free. */
struct pager;
int model_load(struct model *m, const struct model *lender, struct pager *pager, struct err *e);
/* Whether both models can use the same work space; whether lender has allocated one that m can use. */
int model_alike(const struct model *a, const struct model *b);
int model_lends(const struct model *lender, const struct model *m);
/* Bytes that weights and work space will take, on a device that does not compute in memory of the host. */
void model_needs(struct model *m, uint64_t *weights, uint64_t *work);
/* Bytes that the weights will occupy on the CPU with matrices held as `bulk` (COMPACT_NONE: the type chosen at open). */
uint64_t model_takes(const struct model *m, enum compact_type bulk);
int model_loaded(const struct model *m);
int model_page(const struct model *m); /* its number with the pager; -1: it has none */
void model_free(struct model *m);
const struct model_config *model_config(const struct model *m);
double model_flops(const struct model *m);             /* of one sample */
int64_t model_elements(const struct model *m);         /* output elements of one sample */
int64_t model_bytes(const struct model *m);            /* that the weights take: none before they are loaded */
const char *model_weights_file(const struct model *m); /* base name of the file or index they came from */

/* What n samples are given to the network with (net/net.h: struct net_input), on the host. */
struct model_input {
	const float *x, *t;        /* (n, C, S, S); (n), in [0, 1] */
	const int32_t *label;      /* (n), or NULL where there are no classes */
	const float *text;         /* (n, text_tokens, text_width), or NULL where no text is read */
	const float *mask, *micro; /* (n, text_tokens) or NULL: no padding; (n, 3) */
};

/* out (n, model_elements) of the host; any n: it is cut into batches of the capacity. A sample's bits do not depend on its
 * neighbours. Errors stick to the device. */
void model_run(struct model *m, int64_t n, const struct model_input *in, float *out);
/* The same with x, text, mask and out in memory of the device; does not wait. */
void model_submit(struct model *m, int64_t n, const struct model_input *in, float *out);

/* Read the tensors of a file (weightfile_open) into a flat arena of the device, or of the host where d is NULL, laid out by p
 * (values[p->total]). */
int model_read_weights(const char *path, const struct params *p, struct device *d, float *values, struct err *e);
/* Whether its tensors are the table's, in names (ours or those of diffusers), shapes and floating type: ERR_DATA naming the first that
 * is not. */
struct safetensors;
int model_match_weights(const struct safetensors *s, const char *where, const struct params *p, struct err *e);
/* One parameter of a file that matches, out[q->count]. */
void model_read_weight(const struct safetensors *s, const struct param *q, float *out);
/* Write values[p->total] of the device, or of the host where d is NULL, under the table's names, float32, with texts in the metadata.
 * Takes memory of the host for all of them. */
struct st_text;
int model_write_weights(const char *path, const struct params *p, struct device *d, const float *values, const struct st_text *texts, int ntexts,
                        struct err *e);

#endif
