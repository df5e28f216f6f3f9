/* An exact expert or router on disk: a folder like that of a network (net/model.h), whose config.json says model_type "exact" or
 * "exact_router" and whose weights file holds the samples themselves, one tensor "samples" (n, C, S, S), U8 or F32. */
#ifndef DDM_DIFFUSION_FINITEMODEL_H
#define DDM_DIFFUSION_FINITEMODEL_H

#include <jansson.h>

#include "diffusion/finite.h"
#include "net/model.h"

struct finite_model;

/* As model_open. `hash` (65 bytes, may be NULL) receives the SHA-256 of the weights file; another one than config.json names is
 * ERR_DATA. Caller frees with finite_model_free. */
struct finite_model *finite_model_open(const char *dir, struct pool *pool, char *hash, struct err *e);
void finite_model_free(struct finite_model *m);
const struct model_config *finite_model_config(const struct finite_model *m);
double finite_model_flops(const struct finite_model *m); /* of one sample */

/* An expert's prediction (n, C, S, S), a router's logits (n, K); x (n, C, S, S), t (n), any n. */
void finite_model_run(struct finite_model *m, int64_t n, const float *x, const float *t, float *out);

/* Fill the folder: samples of one expert (s->clusters is not looked at), or of all clusters for a router, as c->net says.
 * cluster_sizes of *c are the sizes of the clusters, of which *s may hold a part. `stamp` goes into both files. */
int finite_model_write(const char *dir, const struct model_config *c, const struct finite_set *s, json_t *stamp, struct err *e);

#endif
