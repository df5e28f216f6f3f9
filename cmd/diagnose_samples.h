/* The samples of SHARDS at whose noised states a model is measured: the same, in the same order and with the same noise, for every model and every
 * partition. */
#ifndef DDM_CMD_DIAGNOSE_SAMPLES_H
#define DDM_CMD_DIAGNOSE_SAMPLES_H

#include "core/err.h"
#include "core/hash.h"
#include "core/pool.h"
#include "core/str.h"
#include "diffusion/ensemble.h"
#include "diffusion/velocityloss.h"
#include "file/manifest.h"
#include "file/stamp.h"

/* What the networks are told. */
enum told { TOLD_NOTHING, TOLD_CLASS, TOLD_CLUSTER };

/* Zeroed: empty. */
struct diagnose_samples {
	enum told told;
	int64_t n;                   /* samples that are measured */
	struct velocity_samples now; /* those read last, in memory held here */
	/* private */
	struct dataset *data;
	struct diagnose_pick *pick; /* (n) */
	struct str key;             /* the key asked for last */
	int64_t d;
	struct sha256 hash;
	float *x0, *std;
	uint64_t *id;
	int64_t *index;
	int32_t *label, *cluster;
};

/* Whether the samples are those of the held-out part. */
int diagnose_holdout(void);

/* Set what the networks are told. ERR_USAGE for a model that reads texts, always needs a first frame, or cannot do without its condition; ERR_DATA
 * for one that was told the clusters of another partition. */
int diagnose_samples_check(struct diagnose_samples *s, const struct ensemble *m, const struct manifest *shards_of, const char *model,
                           const char *shards, struct err *e);
/* ERR_DATA if the clusters of the shards are not those of the model. */
int diagnose_same_clusters(const struct ensemble *m, const struct manifest *shards_of, const char *model, const char *shards, struct err *e);
/* Stamp which samples are measured, at which times, of which model. */
void diagnose_samples_stamp(struct stamp *s, const double *time, int times, const struct manifest *shards_of, const struct ensemble *m);
/* Open the samples and choose those to measure, at most --count. Call after diagnose_samples_check. ERR_DATA if they do not fit the model. */
int diagnose_samples_open(struct diagnose_samples *s, const struct ensemble *m, const char *shards, struct pool *pool, struct err *e);
/* Read the next samples, from `first` on and up to --batch, into s->now. */
int diagnose_samples_read(struct diagnose_samples *s, int64_t first, struct err *e);
/* Borrowed until the next call of a function of these samples. */
const char *diagnose_samples_key(struct diagnose_samples *s, int64_t i);
/* The SHA-256 of the keys and the samples, once all were read. Returns `hash`. */
const char *diagnose_samples_hash(const struct diagnose_samples *s, char hash[65]);
void diagnose_samples_release(struct diagnose_samples *s);

#endif
