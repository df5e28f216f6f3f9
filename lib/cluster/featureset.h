/* Reads or computes the features of a set of samples and divides them into training and held-out part, for clustering. */
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

/* A network, or another function that turns pictures into vectors. */
struct features_measure {
	int64_t dims;
	const char *name, *hash; /* "dinov2"; SHA-256 of all that determines the features */
	const char *input;       /* the network's input convention, for the stamp; NULL: none */
	int (*run)(void *arg, float *out, const struct picture *p, int n, struct err *e); /* out (n, dims) */
	void *arg;
};

struct featureset_options {
	enum features_kind kind;
	int motion;                             /* 1: append the MOTION_DIMS values of cluster/clipmotion.h to hogcolor */
	const struct features_measure *measure; /* FEATURES_MEASURE */
	const char *file;   /* FEATURES_FILE. A sidecar FILE.json may hold "features", their name, and "keys", see featureset_keys */
	double holdout;     /* fraction held out, by hash_holdout of the key */
	int holdout_by_dir; /* 1: hash only the key's folder, so that a group, such as the frames of a video, stays together */
	/* For FEATURES_NONE: returns a text about the sample, owned by the set, or NULL and *e if the sample is bad. May be NULL. */
	char *(*value)(void *arg, const struct sample *x, struct err *e);
	void *value_arg;
	struct pool *pool;
	const struct progress *progress;
};

/* The features of sample i are row[i] of x[held[i]]. */
struct featureset {
	int64_t n, d;
	int64_t count[2];     /* rows of the training (0) and of the held-out part (1) */
	float *x[2];          /* (count, d) */
	char **key;           /* [n] */
	int32_t *label;       /* [n], -1 without a class */
	char **value;         /* [n] results of o->value; NULL without it */
	uint8_t *held;        /* [n] */
	int64_t *row;         /* [n] */
	int64_t cap, room[2]; /* private */
	char *name;           /* name of the features: "hogcolor-1", "hogcolor-1+motion-1", measure->name, the name in the sidecar, or "file" */
	char hash[65];        /* SHA-256 of the file of features, or measure->hash; empty otherwise */
};

/* Read every sample of s. ERR_DATA if a value is not finite, or the file's number of rows or the sidecar's "keys" do not match the samples;
 * ERR_AGAIN: the progress said stop; errors of samples_next. Release with featureset_release; on failure *f is empty. */
int featureset_read(struct featureset *f, struct samples *s, const struct featureset_options *o, struct err *e);
/* Move the samples i with held [n] to the held-out part, and the others to the training part, each part in sample order. ERR_NOMEM. */
int featureset_split(struct featureset *f, const uint8_t *held, struct err *e);
/* Scale the features of every sample to unit length. ERR_DATA naming a sample whose features are all 0, which have no direction. */
int featureset_unit(struct featureset *f, struct pool *pool, struct err *e);
void featureset_release(struct featureset *f); /* a zeroed one is allowed */

#endif
