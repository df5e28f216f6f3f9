/* Caches the features of a set in a file whose name holds the hash of everything that determines them. */
#include "metric/evalcache.h"

#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "core/version.h"
#include "metric/evalstats.h"

enum { SHORT = 16 };

void evalcache_key(char hex[65], const struct evalset_options *o, const char *digest, const char *part)
{
	const struct extractor *x = o->extractor;
	char *text = str_new("%s\n%s\n%s\n%s\n%s\n%u\n%d\n%s\n%d\n", DDM_VERSION, digest, part, x->name, x->hash, o->taps, o->size,
	                     o->size ? resize_filter_names[o->filter] : "", o->skip_bad);

	sha256_text(text, hex);
	mem_free(text);
}

char *evalcache_path(const struct evalset_options *o, const char *path, const char *key)
{
	int len = (int)strlen(path);
	const char *name;

	while (len > 1 && path[len - 1] == '/')
		len--;
	if (!*o->cache)
		return str_new("%.*s.features-%.*s.npz", len, path, SHORT, key);
	for (name = path + len; name > path && name[-1] != '/'; name--)
		;
	return str_new("%s/%.*s.features-%.*s.npz", o->cache, (int)(path + len - name), name, SHORT, key);
}

int evalcache_load(struct evalset *s, const char *path, const char *key)
{
	if (evalstats_sniff(path) == SOURCE_NPZ && !evalstats_read_own(s, path, key, NULL) && s->features)
		return 1;
	evalset_release(s);
	return 0;
}

void evalcache_store(struct evalset *s, const char *path, const char *key, const struct evalset_options *o)
{
	struct err e = {0};

	if (s->n < 2) /* no covariance */
		return;
	if ((evalset_statistics(s, o->pool, &e) || evalstats_write(s, path, key, &e)) && o->warn && e.code != ERR_AGAIN)
		o->warn(o->bad_arg, e.msg);
}
