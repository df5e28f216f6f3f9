/* Opens the device named by --device, and enables the caches of tuning choices and file hashes for a GPU. */
#include "cmd/opendevice.h"

#include <stdlib.h>
#include <unistd.h>

#include "comm/hosts.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/filehash.h"
#include "file/fileio.h"
#include "kernels/cublaslt.h"
#include "kernels/cudnn.h"

enum { LARGE = 1 << 26 }; /* least bytes of a file whose hash is cached */

/* The path in an environment variable; NULL if it is not absolute, as the XDG Base Directory Specification demands. */
static const char *absolute(const char *variable)
{
	const char *value = getenv(variable);

	return value && *value == '/' ? value : NULL;
}

char *tuning_folder(void)
{
	const char *cache = absolute("XDG_CACHE_HOME"), *home = absolute("HOME");

	return cache ? path_join(cache, "ddm") : home ? path_join(home, ".cache/ddm") : NULL;
}

int keep_tuning(struct device *d)
{
	char *dir = tuning_folder();
	int kept = dir && !dir_make(dir, NULL) && !access(dir, W_OK);

	if (kept)
		cublaslt_tune_in(d->cublaslt, dir);
	if (kept && d->cudnn)
		cudnn_tune_in(d->cudnn, dir);
	mem_free(dir);
	return kept;
}

static void keep_hashes(void)
{
	char *dir = tuning_folder();

	if (dir && !dir_make(dir, NULL))
		filehash_remember(dir, LARGE);
	mem_free(dir);
}

static struct device *open_among(const char *name, int process, struct pool *pool, struct err *e)
{
	struct device *d = device_open_among(name, process, pool, e);

	if (d && !d->host)
		keep_hashes();
	if (d && d->cublaslt)
		keep_tuning(d);
	return d;
}

struct device *open_device(const char *name, struct pool *pool, struct err *e)
{
	return open_among(name, 0, pool, e);
}

int open_rank_device(struct device **d, const char *name, struct comm *c, int ready, struct pool *pool, struct err *e)
{
	int place;

	*d = NULL;
	if (comm_local_rank(c, &place, e))
		return -1;
	if (ready)
		*d = open_among(name, place, pool, e);
	return comm_agree(c, *d ? 0 : -1, e);
}
