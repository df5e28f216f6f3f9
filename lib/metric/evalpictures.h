/* Pictures to a set of features, for evalset.c. */
#ifndef DDM_METRIC_EVALPICTURES_H
#define DDM_METRIC_EVALPICTURES_H

#include "core/err.h"
#include "data/samples.h"
#include "file/npy.h"
#include "metric/evalset.h"

/* Sorting by content: what the i-th as read hashes to. */
struct digest {
	char hex[65];
	int64_t at;
};

/* Features, taps and thumbnails into the order of d (n), s->order, and the hash of the set. */
int evalset_sort(struct evalset *s, struct digest *d, struct err *e);

/* The same for vectors alone, by their rows. */
int evalset_hash_rows(struct evalset *s, struct err *e);

/* Samples of any kind, through the cache where there is one. */
int evalpictures_read(struct evalset *s, const char *source, const struct evalset_options *o, struct err *e);

/* The samples that evalpictures_read would read, from the start and without telling what is bad: to look at them again. Caller closes. */
struct samples *evalpictures_open(const char *source, const struct evalset_options *o, struct err *e);

/* An array (n, h, w, 3) of NPY_U1, row-major. */
int evalpictures_array(struct evalset *s, const struct npy *a, const char *name, const struct evalset_options *o, struct err *e);

/* SHA-256, 64 digits, of everything that determines the features of samples: their contents `digest`, the part, the recipe. */
void evalcache_key(char hex[65], const struct evalset_options *o, const char *digest, const char *part);
/* "DIR/NAME.features-HASH.npz" of a set that lies at `path`. Caller frees with mem_free. */
char *evalcache_path(const struct evalset_options *o, const char *path, const char *key);
/* 1 and *s when it is there, whole and of this key. */
int evalcache_load(struct evalset *s, const char *path, const char *key);
/* A failure is told to o->warn. */
void evalcache_store(struct evalset *s, const char *path, const char *key, const struct evalset_options *o);

#endif
