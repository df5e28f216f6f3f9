/* The encoder of T5 v1.1 (Raffel et al. 2020; its gated MLP: Shazeer 2020) with the tensor names of transformers. */
#ifndef DDM_NET_T5_H
#define DDM_NET_T5_H

#include <jansson.h>

#include "core/err.h"
#include "kernels/compact.h"
#include "kernels/device.h"
#include "tape/params.h"

struct t5_config {
	int64_t hidden, depth, heads, width; /* width: of a head; heads * width may differ from hidden */
	int64_t wide, vocabulary;            /* wide: hidden width of the MLP */
	int64_t buckets, distance;           /* of relative positions; those of `distance` and more share a bucket */
	int64_t tokens;                      /* of a padded text; not in config.json */
	double eps;
};

/* Parse config.json of transformers, model_type t5 with a gated GELU. Does not change `tokens`. */
int t5_from_json(const json_t *o, const char *where, struct t5_config *c, struct err *e);

struct t5;

/* Open a folder of transformers with the encoder or the whole model, for texts of `tokens` tokens and batches of up to `capacity`. bulk: storage type
 * of the matrices, as for runner_new. The device is borrowed. Caller frees with t5_free. */
struct t5 *t5_open(const char *dir, int64_t tokens, int64_t capacity, enum compact_type bulk, struct device *d, struct err *e);
void t5_free(struct t5 *m);
const struct t5_config *t5_config(const struct t5 *m);

/* ids (n, tokens). length (n): number of tokens before the padding, including the end-of-text token, at least 1; NULL: no padding. hidden (n, tokens,
 * hidden): the output, also for the padding, to which no token attends. Errors stick to the device. */
void t5_run(struct t5 *m, int64_t n, const int32_t *ids, const int32_t *length, float *hidden);

/* The bucket of a relative position, key - query. */
int32_t t5_bucket(const struct t5_config *c, int64_t relative);

/* The table of parameters, without weights. Free with params_release. */
void t5_params(const struct t5_config *c, struct params *p);

#endif
