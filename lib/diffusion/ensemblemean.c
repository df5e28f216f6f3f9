/* Reads the mean of an expert's data, for the conversion of what it predicts. */
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "diffusion/convert.h"
#include "diffusion/ensembleimpl.h"
#include "file/fileio.h"
#include "file/npy.h"

int ensemble_add_mean(struct ensemble *s, struct member *m, const char *folder, const char *sub, const char *slash, const struct ensemble_options *o,
                      struct err *e)
{
	const struct net_config *c = &m->config->net;
	char *path = path_join(folder, MODEL_MEAN_NAME), hash[65];
	int64_t shape[4];
	float *host = NULL;
	struct npy a = {0};
	int rc = -1;

	if (o->own || o->mode != CONVERT_MATCH || prediction_find(m->config->prediction) != PREDICT_EPSILON || !path_exists(path)) {
		mem_free(path);
		return 0;
	}
	if (npy_load(&a, path, e) || sha256_file(path, hash, NULL, e))
		goto out;
	if (a.rank != net_sample_shape(c, shape) || memcmp(a.shape, shape, (size_t)a.rank * sizeof *shape) || npy_not_finite(&a)) {
		err_set(e, ERR_DATA, "%s: the mean of the expert's samples should be %s%lld x %lld x %lld finite numbers", path,
		        c->frames ? "frames of " : "", (long long)c->channels, (long long)c->size, (long long)c->size);
		goto out;
	}
	host = mem_alloc((size_t)m->d * sizeof *host);
	npy_to_f32(host, &a);
	if (!(m->mean = m->device->alloc(m->device, (size_t)m->d * sizeof *m->mean, "mean of the data", e)))
		goto out;
	device_put(m->device, m->mean, host, (size_t)m->d * sizeof *host);
	ensemble_add_file(s, str_new("%s%s" MODEL_MEAN_NAME, sub, slash), hash);
	rc = 0;
out:
	npy_release(&a);
	mem_free(host);
	mem_free(path);
	return rc;
}
