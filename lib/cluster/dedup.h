/* Finds near duplicates among samples, also between training and held-out part, and drops them, for ddm-dedup. */
#ifndef DDM_CLUSTER_DEDUP_H
#define DDM_CLUSTER_DEDUP_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/option.h"
#include "core/pool.h"

struct dedup_request {
	const char *const *sources; /* (nsources) as for samples_open */
	int nsources;
	int hash;               /* index in dedup_hashes: enum imagehash_kind, or one more for none */
	int64_t distance;       /* most bits in which near hashes differ; negative: dedup_distances[hash] */
	const char *features;   /* NULL, or a .npy with a row for each sample */
	double cosine;          /* features with a larger cosine are near */
	const char *clusters;   /* NULL, or an assignment: features are compared within its clusters, and it says what is held out */
	double holdout;         /* negative, or the fraction that is held out by hash_holdout of the key */
	int table;              /* write a table of all samples in place of a tar of the kept ones */
	int check;              /* fail if near samples are in the training and in the held-out part */
	const char *out;        /* "-": standard output */
	const char *report;     /* a JSON file; NULL: none */
	int skip_bad, nul_list; /* this and the next two as in struct samples_options */
	int64_t max_errors;
	const char *spool;
	struct pool *pool;
	const struct progress *progress;         /* may be NULL */
	void (*bad)(void *arg, const char *why); /* reports a skipped sample; may be NULL */
	void *arg;
};

/* "phash", "dhash", "ahash", "none", NULL-terminated; and the usual distance of each. */
extern const char *const dedup_hashes[];
extern const int dedup_distances[];

/* The option table that fills a request (core/option.h), and the defaults. */
extern const struct option dedup_options[];
struct dedup_request dedup_defaults(void);

/* A training sample that is near a held-out one. */
struct dedup_crossing {
	char *train, *held; /* keys */
	int distance;       /* of the hashes; -1: not near by them */
	double cosine;      /* of the features; 0: not near by them */
};

/* The result. Free with dedup_report_release. */
struct dedup_report {
	int judged; /* 1: the numbers below are set */
	int made;   /* 1: every output is written */
	int there;  /* 1: they were there already; no other field is set */
	int64_t samples, skipped;
	int64_t kept;
	int64_t by_hash, by_cosine;      /* dropped samples */
	int64_t groups, largest;         /* groups of several samples; samples of the largest */
	int64_t held;                    /* held-out samples */
	int has_parts;                   /* 1: something says what is held out */
	struct dedup_crossing *crossing; /* [crossings] in the order of the training samples' keys */
	int64_t crossings;
	int64_t crossed; /* different held-out samples among them */
};

/* Read the samples, find near ones and write the outputs. Held-out samples come first, then training samples, each in the order of their keys. By
 * hashes, a sample is dropped if it is near an earlier one that is kept; so no two kept samples are near, and each dropped one has a kept one near
 * it. Then, by features, semdedup_near decides within each cluster. The result depends neither on the order of the sources nor on the pool.
 * ERR_USAGE: the options do not fit together; ERR_DATA: damaged samples, samples without pixels, features or clusters of other samples;
 * ERR_EXISTS: an output exists and came from another request; ERR_FAIL: `check`, and near samples are in both parts; ERR_SKIPPED: more than
 * max_errors samples were skipped. After the last two all outputs are complete. ERR_AGAIN: `progress` said stop. Call dedup_report_release in any
 * case. */
int dedup_make(const struct dedup_request *r, struct dedup_report *report, struct err *e);
void dedup_report_release(struct dedup_report *report);

#endif
