/* Caches the features of a set in a file, so that a later run with the same pictures and recipe need not compute them again. */
#ifndef DDM_METRIC_EVALCACHE_H
#define DDM_METRIC_EVALCACHE_H

#include "metric/evalset.h"

/* SHA-256 (64 hexadecimal digits) of everything that determines the features of samples: the version, the contents `digest`, the part of a SHARDS
 * directory, the extractor and the options of reading. */
void evalcache_key(char hex[65], const struct evalset_options *o, const char *digest, const char *part);
/* The path "DIR/NAME.features-HASH.npz" for the set at `path`, HASH being the start of `key`. Caller frees with mem_free. */
char *evalcache_path(const struct evalset_options *o, const char *path, const char *key);
/* Returns 1 and fills *s if the file exists, is undamaged and has this key; else 0 and an empty *s. */
int evalcache_load(struct evalset *s, const char *path, const char *key);
/* Write the features. A failure is only reported to o->warn. A set of fewer than 2 samples is not written. */
void evalcache_store(struct evalset *s, const char *path, const char *key, const struct evalset_options *o);

#endif
