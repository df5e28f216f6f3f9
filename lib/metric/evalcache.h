/* Features of an earlier run, kept in a file so that the same pictures need not be measured again. */
#ifndef DDM_METRIC_EVALCACHE_H
#define DDM_METRIC_EVALCACHE_H

#include "metric/evalset.h"

/* SHA-256, 64 digits, of everything that determines the features of samples: their contents `digest`, the part, the recipe. */
void evalcache_key(char hex[65], const struct evalset_options *o, const char *digest, const char *part);
/* "DIR/NAME.features-HASH.npz" of a set that lies at `path`. Caller frees with mem_free. */
char *evalcache_path(const struct evalset_options *o, const char *path, const char *key);
/* 1 and *s when it is there, whole and of this key. */
int evalcache_load(struct evalset *s, const char *path, const char *key);
/* A failure is told to o->warn. */
void evalcache_store(struct evalset *s, const char *path, const char *key, const struct evalset_options *o);

#endif
