/* Reads and writes exact experts and routers. They are model folders (net/model.h) with model_type "exact" or "exact_router" in config.json. The
 * weights file holds the law that they compute from: samples, one tensor "samples" (n, C, S, S), U8 or F32; or a mixture of Gaussians, the F64
 * tensors "mean" (k, C, S, S), "basis" (k, rank, C, S, S), "variance" (k, rank), "noise" (k) and "weight" (k). */
#ifndef DDM_DIFFUSION_LAWMODEL_H
#define DDM_DIFFUSION_LAWMODEL_H

#include <jansson.h>

#include "diffusion/finite.h"
#include "diffusion/gaussians.h"
#include "file/stamp.h"
#include "net/model.h"

struct law_model;

/* As model_open. `hash` (65 bytes, may be NULL) receives the SHA-256 of the weights file; ERR_DATA if config.json names another hash. Caller frees
 * with law_model_free. */
struct law_model *law_model_open(const char *dir, struct pool *pool, char *hash, struct err *e);
void law_model_free(struct law_model *m);
const struct model_config *law_model_config(const struct law_model *m);
double law_model_flops(const struct law_model *m); /* of one sample */
/* The law, borrowed: a router's has its clusters, an expert's one. Its Gaussians; NULL if it is a set of samples. */
struct law *law_model_law(struct law_model *m);
const struct gaussians *law_model_gaussians(const struct law_model *m);

/* out = an expert's prediction (n, C, S, S) or a router's logits (n, K) at x (n, C, S, S), t (n), for any n. */
void law_model_run(struct law_model *m, int64_t n, const float *x, const float *t, float *out);

/* For a router: out (n, C, S, S) = sum_k r_k d logit_k / dx, for r (n, K) whose rows sum to 0. */
void law_model_pull(struct law_model *m, int64_t n, const float *x, const float *t, const float *r, float *out);

/* Write the folder. For an expert *s holds its samples (s->clusters is ignored); for a router (by c->net) the samples of all clusters.
 * c->cluster_sizes are the full sizes of the clusters; *s may hold a part of each. `stamp` is written into both files. */
int law_model_write(const char *dir, const struct model_config *c, const struct finite_set *s, json_t *stamp, struct err *e);
/* The same for Gaussians: one or more components for an expert; for a router those of all clusters, whose weights are c->cluster_shares. */
int law_model_write_gaussians(const char *dir, const struct model_config *c, const struct gaussians *g, json_t *stamp, struct err *e);
/* Write config.json of a folder of such folders, expert_K and router. */
int law_model_write_summary(const char *dir, int64_t experts, json_t *stamp, struct err *e);
/* Whether `dir`, such a folder or one expert, stands already: 1 if the same command made it (its stamp) and all of it loads, 0 if there is none, -1
 * if something else has the name (ERR_EXISTS) or a part of it is damaged (ERR_DATA). */
int law_model_finished(const char *dir, const struct stamp *stamp, struct pool *pool, struct err *e);

#endif
