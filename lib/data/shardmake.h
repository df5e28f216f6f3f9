/* Makes a SHARDS folder from samples and an assignment; with encoders, latents and caption features are added. */
#ifndef DDM_DATA_SHARDMAKE_H
#define DDM_DATA_SHARDMAKE_H

#include "core/clock.h"
#include "core/option.h"
#include "data/encoding.h"
#include "data/sharding.h"

struct shard_request {
	const char *assign, *out;   /* the assignment (data/assignment.h); the folder */
	const char *const *sources; /* (nsources) sources for samples_open; "-" is standard input */
	int nsources;
	double holdout;                   /* the held-out fraction that the assignment must have been made with; negative: any */
	uint64_t shard_size;              /* a new shard is started from this many bytes on */
	int level;                        /* compression level of zstd */
	struct encoding_options encoding; /* vae and text NULL: nothing is encoded. Pool and device are borrowed */
	int skip_bad, nul_list;           /* as in struct samples_options, like the next two */
	int64_t max_errors;
	const char *spool;
	const struct progress *progress;         /* may be NULL */
	void (*bad)(void *arg, const char *why); /* called for each skipped sample; may be NULL */
	void *bad_arg;
};

/* The options that fill a request on a command line, and its defaults. */
extern const struct option shard_options[];
struct shard_request shard_defaults(void);

/* The outcome of shard_make, for a report. */
struct shard_report {
	int made; /* 0: the folder exists, complete and from the same request: no other field is set */
	int clusters;
	struct sharding_result result;
	int64_t skipped, cut; /* skipped samples; captions longer than the encoder reads */
	size_t class_names;   /* number of class names that the samples have */
};

/* 0 if the folder exists in the end. ERR_EXISTS: it was made from another request; ERR_SKIPPED: more than max_errors samples were skipped, and
 * the folder is complete without them; other errors from reading the assignment, the samples and the encoders. */
int shard_make(const struct shard_request *r, struct shard_report *report, struct err *e);

#endif
