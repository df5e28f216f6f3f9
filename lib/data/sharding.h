/* Writes samples into shards by an assignment: the folder that training reads. */
#ifndef DDM_DATA_SHARDING_H
#define DDM_DATA_SHARDING_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/pool.h"
#include "data/assignment.h"
#include "data/encoding.h"
#include "data/samples.h"
#include "file/stamp.h"

struct sharding_options {
	uint64_t shard_size;       /* start another shard once it holds this many bytes; 0: 256 MiB */
	int level;                 /* as of struct shard_options */
	struct encoding *encoding; /* its outputs are added to the samples, and null-text.npy to dir if it has a text encoder; NULL: none */
	struct pool *pool;
	const struct progress *progress;
};

struct sharding_result {
	int64_t train, held, shards; /* samples of each part, each counted once; shards */
	int64_t further;             /* times that samples count besides the first (assignment_further) */
	int names_lacking;           /* the samples name fewer classes than there are, so no names are kept */
	int64_t unused;              /* rows of the assignment without a sample, ignored with skip_bad */
};

/* Fill `dir` (an outdir's temporary folder): cluster-K/NNNNNN.tar.zst, holdout/cluster-K/..., for samples of several clusters the shards of
 * manifest_shared_name, MANIFEST.tsv, SHA256SUMS. `stamp` goes into every shard. The manifest's stamp also has the samples' digest and the facts
 * "classes" (1 + the largest class), "equal_sizes" (of all pictures), "partition", "extends" and "cluster_names" (of the assignment), "class_names"
 * (of the samples) and "provenance" (data/provenance.h). A sample that is missing in the assignment, or a row without a sample, is ERR_DATA naming
 * the key, or is counted as bad if the iterator skips bad samples. */
int sharding_run(struct sharding_result *r, const char *dir, struct samples *s, struct assignment *a, struct stamp *stamp,
                 const struct sharding_options *o, struct err *e);

#endif
