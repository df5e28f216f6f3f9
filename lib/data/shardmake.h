/* Makes a SHARDS folder from samples and an assignment; with encoders, latents and caption features are added. */
#ifndef DDM_DATA_SHARDMAKE_H
#define DDM_DATA_SHARDMAKE_H

#include "core/clock.h"
#include "core/option.h"
#include "data/encoding.h"
#include "data/sharding.h"

struct shard_request {
	const char *assign, *out;   /* the assignment (data/assignment.h); the folder */
	const char *const *sources; /* (nsources) of samples, as samples_open takes them; "-" is standard input */
	int nsources;
	double holdout;                   /* the held-out fraction that the assignment must have been made with; negative: any */
	uint64_t shard_size;              /* bytes, from which on another shard is begun */
	int level;                        /* of zstd */
	struct encoding_options encoding; /* vae and text NULL: nothing is encoded. Pool and device are borrowed */
	int skip_bad, nul_list;           /* as struct samples_options has them, and the next two */
	int64_t max_errors;
	const char *spool;
	const struct progress *progress;         /* NULL: not told */
	void (*bad)(void *arg, const char *why); /* a sample that is passed over; NULL: not told */
	void *bad_arg;
};

/* The options that fill a request on a command line, and its defaults. */
extern const struct option shard_options[];
struct shard_request shard_defaults(void);

/* What was made, for a report. */
struct shard_report {
	int made; /* 0: the folder was there, whole, from the same request: no other field is set */
	int clusters;
	struct sharding_result result;
	int64_t skipped, cut; /* samples; captions that were longer than the encoder reads */
	size_t class_names;   /* that the samples came with */
};

/* 0 where the folder is there in the end. ERR_EXISTS: it was made of another request; ERR_SKIPPED where more samples than max_errors were
 * skipped: the folder is complete without them; else as reading the assignment, the samples and the encoders says. */
int shard_make(const struct shard_request *r, struct shard_report *report, struct err *e);

#endif
