/* What ddm-diagnose measures a model against: the optimum of the training part of a folder of shards, or of a law of ddm-synth. */
#ifndef DDM_CMD_DIAGNOSE_REFERENCE_H
#define DDM_CMD_DIAGNOSE_REFERENCE_H

#include "core/pool.h"
#include "data/gather.h"
#include "diffusion/ensemble.h"
#include "diffusion/gaussians.h"
#include "diffusion/law.h"
#include "file/manifest.h"
#include "file/stamp.h"

struct law_model;

struct diagnose_reference_options {
	int holdout; /* SHARDS: states are made from the held-out part */
	int verify;  /* SHARDS: check the hashes first */
	struct pool *pool;
};

/* Zero-initialised is empty. */
struct diagnose_reference {
	struct law *law; /* the optimum, after diagnose_reference_load */
	int whole;       /* as in struct budget_plan: a law, and the model's clusters are not its components */
	/* of SHARDS */
	struct manifest manifest;
	struct gathered train, items; /* the training part; the held-out part if states are made from it, else empty */
	int64_t first[2];             /* bounds of the training part as one cluster */
	struct law *samples;
	/* of a law */
	struct law_model *model;
	const struct gaussians *g; /* NULL: of SHARDS */
	char hash[65];
};

/* Find out what is at `path`. ERR_NOINPUT if it is neither, ERR_DATA for samples in place of a law. */
int diagnose_reference_find(struct diagnose_reference *r, const char *path, const struct diagnose_reference_options *o, struct err *e);
/* Compare it with the model, without reading samples: sets `whole`. ERR_DATA if a law is of another size. */
int diagnose_reference_match(struct diagnose_reference *r, const char *path, const struct ensemble *s, struct err *e);
/* Add the content to a stamp. */
void diagnose_reference_stamp(const struct diagnose_reference *r, struct stamp *s);
/* Load the samples of shards. ERR_DATA if sizes or numbers of clusters do not fit the model. */
int diagnose_reference_load(struct diagnose_reference *r, const char *path, const struct ensemble *s, const struct diagnose_reference_options *o,
                            struct err *e);
/* Noised sample `index` at time t: x0 (d), eps (d), x (d) and target (d) as of velocity_state. The sample, of shards in an order that the seed
 * gives and of a law a new one, follows from the seed and the index, the noise also from t. Returns its cluster. */
int diagnose_reference_state(const struct diagnose_reference *r, uint64_t seed, uint64_t index, float t, int64_t d, float *x0, float *eps, float *x,
                             float *target);
void diagnose_reference_release(struct diagnose_reference *r);

#endif
