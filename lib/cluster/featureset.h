/* The features of a set of samples, separated by split; the input of clustering. */
#ifndef DDM_CLUSTER_FEATURESET_H
#define DDM_CLUSTER_FEATURESET_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/pool.h"
#include "data/samples.h"

enum features_kind {
	FEATURES_COMPUTE, /* hogcolor of each picture */
	FEATURES_MEASURE, /* the output of `measure` for each picture */
	FEATURES_FILE,    /* rows of a .npy (N, D), in sample order */
	FEATURES_NONE     /* only keys and splits */
};

/* A network, or whatever turns pictures into vectors. */
struct features_measure {
	int64_t dims;
	const char *name, *hash; /* "dinov2"; SHA-256 of all that determines the numbers */
	const char *input;       /* how pictures are fed to a network, for the stamp; NULL: nothing to say */
	int (*run)(void *arg, float *out, const struct picture *p, int n, struct err *e); /* out (n, dims) */
	void *arg;
};

struct featureset_options {
	enum features_kind kind;
	const struct features_measure *measure; /* FEATURES_MEASURE */
	const char *file;                       /* FEATURES_FILE. A sidecar FILE.json may hold "features", a name, and "keys", see featureset_keys */
	double holdout;                         /* fraction held out, by hash_holdout of the key */
	int holdout_by_dir;                     /* of the key's folder instead: a video's frames, a group, stay together */
	/* FEATURES_NONE: a text of each sample in new memory, or NULL and *e for a bad one; may be NULL. */
	char *(*value)(void *arg, const struct sample *x, struct err *e);
	void *value_arg;
	struct pool *pool;
	const struct progress *progress;
};

/* Sample i has row[i] of x[held[i]]. */
struct featureset {
	int64_t n, d;
	int64_t count[2];     /* rows of the training (0) and of the held-out part (1) */
	float *x[2];          /* (count, d) */
	char **key;           /* [n] */
	int32_t *label;       /* [n], -1 without a class */
	char **value;         /* [n] what o->value said; NULL where it was not asked */
	uint8_t *held;        /* [n] */
	int64_t *row;         /* [n] */
	int64_t cap, room[2]; /* private */
	char *name;           /* of the features: "hogcolor-1", measure->name, what the sidecar says, or "file" */
	char hash[65];        /* SHA-256 of the file of features, or measure->hash; empty otherwise */
};

/* Whether a key is held out. */
int featureset_held(const char *key, const struct featureset_options *o);

/* Read every sample. ERR_DATA when a file's rows are not as many as the samples, or its sidecar's "keys" differ. */
int featureset_read(struct featureset *f, struct samples *s, const struct featureset_options *o, struct err *e);
void featureset_release(struct featureset *f);

/* SHA-256 of the keys in order, each followed by a newline: what a sidecar's "keys" holds. */
void featureset_keys(const struct featureset *f, char hex[65]);

#endif
