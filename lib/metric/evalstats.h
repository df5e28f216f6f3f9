/* Sets of features as statistics files (.npz), for evalread.c. */
#ifndef DDM_METRIC_EVALSTATS_H
#define DDM_METRIC_EVALSTATS_H

#include "core/err.h"
#include "file/npy.h"
#include "metric/evalset.h"

enum source_kind { SOURCE_SAMPLES, SOURCE_NPY, SOURCE_NPZ };

/* By the first bytes of a regular file; anything else is samples, stdin and what cannot be read included. */
enum source_kind evalstats_sniff(const char *source);

/* Into *s what the arrays of a .npz say; path is for messages. A file without a recipe is another tool's: its features become "npy". Returns 1
 * where the features of the pictures in "arr_0" are still to be computed; s then holds the statistics beside them, if any. With `statistics`
 * non-zero, a file that has both gives its statistics, and 0. ERR_DATA: it is malformed, holds neither statistics, features nor pictures, has
 * shapes that do not fit each other, or values that are not finite. */
int evalstats_parse(struct evalset *s, const struct npz *z, int statistics, const char *path, struct err *e);

/* Statistics that evalset_write or evalcache_store wrote, when `key` is theirs: for the cache. */
int evalstats_read_own(struct evalset *s, const char *path, const char *key, struct err *e);
/* Without a look at what stands there. key: NULL, or to be found again by it. */
int evalstats_write(const struct evalset *s, const char *path, const char *key, struct err *e);

/* As .npz by the commit protocol: mu, sigma (as other tools call them), recipe (JSON, u1), feats (n, dims), thumbs, order, and the
 * taps, so that it can stand for the set in any later comparison. */
int evalset_write(const struct evalset *s, const char *path, struct err *e);

/* A matrix (n, d) of finite values, d up to 65536: mem_free it. NULL and ERR_DATA otherwise. */
float *evalstats_vectors(const struct npy *a, const char *path, const char *name, struct err *e);

#endif
