/* Finds out which networks of a model saw certain samples in training, from what their stamps record. */
#ifndef DDM_INSPECT_LINEAGE_H
#define DDM_INSPECT_LINEAGE_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"

/* The samples, by where they were in a SHARDS folder. All borrowed. */
struct lineage_samples {
	const json_t *known;         /* a list of SHA-256: the manifests of that folder and of those of which it is a part */
	int clusters;                /* K */
	const int64_t *train, *held; /* [clusters] how many of the samples were in each cluster's training and held-out part */
};

/* What a network saw of the samples. */
enum lineage_saw {
	LINEAGE_NOT,       /* nothing */
	LINEAGE_VALIDATED, /* its loss on held-out samples was measured with them; its weights do not depend on them */
	LINEAGE_TRAINED,   /* its weights depend on them */
	LINEAGE_UNKNOWN    /* no record says so */
};
extern const char *const lineage_saws[]; /* "no", "validated", "trained", "unknown" */

struct lineage_network {
	char *name, *dir; /* "expert_0", "uncertainty_0" or "router"; MODEL/expert_0 */
	int model;        /* index of the folder */
	enum lineage_saw saw;
	int keep;                /* set by the caller: it is not to be trained again, whatever it saw */
	char *why;               /* one clause */
	const char *input;       /* the input of its training that the samples were in: "shards", or "pictures" (--pictures) */
	json_t *stamp;           /* of its training; NULL: none is recorded */
	const char *init, *from; /* borrowed paths of the networks that it started from (train/traincommand.h); NULL: none, or unknown */
	char weights[65];        /* SHA-256 of its weights, if some network started from others; else empty */
};

struct lineage {
	struct lineage_network *v;
	int n;
};

/* ERR_NOINPUT or ERR_DATA unless each of n folders is there and holds networks. */
int lineage_check(const char *const *model, int n, struct err *e);

/* Examine the experts, their uncertainties and the router of each of n model folders. The first is the ensemble; the others may hold networks that
 * its networks started from, which are recognised by the hashes of their weights. A folder may also be a single network. ERR_NOINPUT or ERR_DATA
 * if a folder cannot be read. Release with lineage_release, after an error too. */
int lineage_find(struct lineage *l, const char *const *model, int n, const struct lineage_samples *s, struct err *e);
void lineage_release(struct lineage *l);

#endif
