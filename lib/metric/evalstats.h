/* Reads and writes sets of features as statistics files (.npz), for evalread.c. */
#ifndef DDM_METRIC_EVALSTATS_H
#define DDM_METRIC_EVALSTATS_H

#include "core/err.h"
#include "file/npy.h"
#include "metric/evalset.h"

enum source_kind { SOURCE_SAMPLES, SOURCE_NPY, SOURCE_NPZ };

/* The kind of a regular file, by its first bytes. Everything else is SOURCE_SAMPLES, including standard input and unreadable files. */
enum source_kind evalstats_sniff(const char *source);

/* Fill *s from the arrays of a .npz; path is for messages. A file without a recipe comes from another program, and its features are named "npy".
 * Returns 0; or 1 if the features of the pictures in "arr_0" must still be computed, and *s then holds the statistics beside them, if any. With
 * `statistics` non-zero, a file that has both pictures and statistics gives its statistics, and 0. ERR_DATA: the file is malformed, holds neither
 * statistics, features nor pictures, has shapes that do not fit each other, or values that are not finite. */
int evalstats_parse(struct evalset *s, const struct npz *z, int statistics, const char *path, struct err *e);

/* Read statistics written by evalset_write or evalstats_write, for the cache. ERR_DATA if `key` is not NULL and differs from the file's. */
int evalstats_read_own(struct evalset *s, const char *path, const char *key, struct err *e);
/* Write without checking what exists at `path`. key: stored in the recipe for evalstats_read_own; NULL: none. */
int evalstats_write(const struct evalset *s, const char *path, const char *key, struct err *e);

/* Write s as .npz by the commit protocol: mu, sigma (named as other programs name them), recipe (JSON, u1), feats (n, dims), thumbs, order, and the
 * taps, so that the file can replace the set in any later comparison. Errors of evalset_may_write. */
int evalset_write(const struct evalset *s, const char *path, struct err *e);

/* A copy in float of a matrix (n, d) of finite values, d up to 65536. Caller frees with mem_free. NULL and ERR_DATA otherwise. */
float *evalstats_vectors(const struct npy *a, const char *path, const char *name, struct err *e);

#endif
