/* The encoder of T5 v1.1 (Raffel et al. 2020; Shazeer 2020 for the gated perceptron) under the tensor names of transformers. */
#ifndef DDM_NET_T5_H
#define DDM_NET_T5_H

#include <jansson.h>

#include "core/err.h"
#include "kernels/compact.h"
#include "kernels/device.h"
#include "tape/params.h"

struct t5_config {
	int64_t hidden, depth, heads, width; /* width: of a head; heads * width need not be hidden */
	int64_t wide, vocabulary;
	int64_t buckets, distance; /* of relative positions; from `distance` on all are alike */
	int64_t tokens;            /* of a text, padded; not in config.json */
	double eps;
};

/* config.json of transformers, model_type t5 with a gated GELU; `tokens` is left alone. */
int t5_from_json(const json_t *o, const char *where, struct t5_config *c, struct err *e);

struct t5;

/* A folder of transformers, the encoder alone or the whole model, for texts of `tokens`. bulk: how matrices are held, as runner_new takes
 * it. */
struct t5 *t5_open(const char *dir, int64_t tokens, int64_t capacity, enum compact_type bulk, struct device *d, struct err *e);
void t5_free(struct t5 *m);
const struct t5_config *t5_config(const struct t5 *m);

/* ids (n, tokens); length (n): tokens before the padding, the end of the text among them, at least 1; NULL: all. hidden (n, tokens,
 * hidden), also of the padding, which no token looks at. */
void t5_run(struct t5 *m, int64_t n, const int32_t *ids, const int32_t *length, float *hidden);

/* The bucket of key - query. */
int32_t t5_bucket(const struct t5_config *c, int64_t relative);

/* The table alone; params_release. */
void t5_params(const struct t5_config *c, struct params *p);

#endif
