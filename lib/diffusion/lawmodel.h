/* Reads and writes exact experts and routers. They are model folders (net/model.h) with model_type "exact" or "exact_router" in config.json; the
 * weights file holds the samples themselves, one tensor "samples" (n, C, S, S), U8 or F32. */
#ifndef DDM_DIFFUSION_LAWMODEL_H
#define DDM_DIFFUSION_LAWMODEL_H

#include <jansson.h>

#include "diffusion/finite.h"
#include "net/model.h"

struct law_model;

/* As model_open. `hash` (65 bytes, may be NULL) receives the SHA-256 of the weights file; ERR_DATA if config.json names another hash. Caller frees
 * with law_model_free. */
struct law_model *law_model_open(const char *dir, struct pool *pool, char *hash, struct err *e);
void law_model_free(struct law_model *m);
const struct model_config *law_model_config(const struct law_model *m);
double law_model_flops(const struct law_model *m); /* of one sample */

/* out = an expert's prediction (n, C, S, S) or a router's logits (n, K) at x (n, C, S, S), t (n), for any n. */
void law_model_run(struct law_model *m, int64_t n, const float *x, const float *t, float *out);

/* Write the folder. For an expert *s holds its samples (s->clusters is ignored); for a router (by c->net) the samples of all clusters.
 * c->cluster_sizes are the full sizes of the clusters; *s may hold a part of each. `stamp` is written into both files. */
int law_model_write(const char *dir, const struct model_config *c, const struct finite_set *s, json_t *stamp, struct err *e);

#endif
