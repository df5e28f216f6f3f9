/* Exact models of a data set: each expert holds samples in place of a network, and computes the optimal denoiser of the training loss. */
#ifndef DDM_DATA_EXACTMODEL_H
#define DDM_DATA_EXACTMODEL_H

#include <signal.h>

#include "core/clock.h"
#include "core/option.h"
#include "core/pool.h"

struct exact_request {
	const char *program; /* for the stamp */
	const char *shards, *out;
	const char *cluster; /* NULL: every expert and the router; "all", a number or a name: one expert, in `out` itself */
	int64_t limit, size; /* 0: all samples of a cluster; as they are */
	uint64_t seed;
	int split, prediction; /* numbers in the lists of exact_options */
	struct exact_path {
		int kind;          /* number in the list of exact_options */
		double sigma_data; /* of path edm; 0: SIGMA_DATA_USUAL (net/betas.h) */
	} path;
	int verify;
	const struct progress *progress; /* told of the samples that are read; NULL: not told */
};

/* What made the model, for a report. */
struct exact_report {
	int made; /* 0: it was there */
	int64_t samples, channels, size;
	double flops; /* of a denoised sample */
};

/* The options that fill a request on a command line, and its defaults. */
extern const struct option exact_options[];
struct exact_request exact_defaults(void);

/* Writes the folder `out`, or finds it there from the same request. ERR_AGAIN where *stop became non-zero; ERR_EXISTS: the name is taken;
 * ERR_USAGE, ERR_DATA, ERR_NOINPUT as reading the shards says. */
int exact_make(const struct exact_request *r, struct pool *pool, volatile sig_atomic_t *stop, struct exact_report *report, struct err *e);

#endif
