/* Exact models of a data set: each expert holds samples in place of a network, and computes the optimal denoiser of the training loss. */
#ifndef DDM_DATA_EXACTMODEL_H
#define DDM_DATA_EXACTMODEL_H

#include <signal.h>

#include "core/clock.h"
#include "core/option.h"
#include "core/pool.h"
#include "net/timerange.h"

struct exact_request {
	const char *program; /* for the stamp */
	const char *shards, *out;
	const char *cluster; /* NULL: every expert and the router; "all", a number or a name: one expert, in `out` itself */
	int64_t limit, size; /* limit: samples of each cluster, 0: all; size: side in pixels, 0: unchanged */
	uint64_t seed;
	int split, prediction; /* indices into the lists of exact_options */
	struct exact_path {
		int kind;          /* index into the list of exact_options */
		double sigma_data; /* of path edm; 0: SIGMA_DATA_USUAL (net/betas.h) */
	} path;
	struct time_range range; /* the times that the experts are for; zeroed: all */
	int verify;
	const struct progress *progress; /* reports the samples read; may be NULL */
};

/* The outcome of exact_make, for a report. */
struct exact_report {
	int made; /* 0: the model existed already */
	int64_t samples, channels, size;
	double flops; /* floating-point operations to denoise one sample */
};

/* The options that fill a request on a command line, and its defaults. */
extern const struct option exact_options[];
struct exact_request exact_defaults(void);

/* Write the folder `out`, unless it exists already and was made from the same request. ERR_AGAIN if *stop became non-zero; ERR_EXISTS: something
 * else has the name; ERR_USAGE, ERR_DATA, ERR_NOINPUT from reading the shards. */
int exact_make(const struct exact_request *r, struct pool *pool, volatile sig_atomic_t *stop, struct exact_report *report, struct err *e);

#endif
