/* Reads a set of features; the first bytes of the source decide how. */
#include "metric/evalread.h"

#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "metric/evalpictures.h"
#include "metric/evalstats.h"

static int text_copy(char *out, size_t size, const json_t *o, const char *key, const char *where, struct err *e)
{
	const char *v = out;

	if (jsonio_str(o, key, 0, &v, where, e))
		return -1;
	if (v != out && (strlen(v) >= size || strpbrk(v, "\"\\ \t\n")))
		return err_set(e, ERR_DATA, "%s: \"%s\" is not a short word", where, key);
	if (v != out)
		memcpy(out, v, strlen(v) + 1);
	return 0;
}

/* Read the recipe of the vectors in PATH from PATH.json. */
static int sidecar_read(struct recipe *r, const char *path, struct err *e)
{
	char *side = str_new("%s.json", path);
	json_t *o = path_exists(side) ? jsonio_load(side, e) : NULL;
	int rc = o || !path_exists(side) ? 0 : -1;

	if (o && (text_copy(r->features, sizeof r->features, o, "features", side, e) ||
	          text_copy(r->features_hash, sizeof r->features_hash, o, "features-hash", side, e) ||
	          text_copy(r->input, sizeof r->input, o, "input", side, e)))
		rc = -1;
	json_decref(o);
	mem_free(side);
	return rc;
}

static int vectors_read(struct evalset *s, const char *source, struct err *e)
{
	struct npy a;
	int rc;

	if (npy_load(&a, source, e))
		return -1;
	s->recipe = (struct recipe){.features = "npy", .resize = "none"};
	s->features = evalstats_vectors(&a, source, source, e);
	s->n = a.shape[0];
	s->recipe.dims = s->features ? (int)a.shape[1] : 0;
	rc = !s->features || sidecar_read(&s->recipe, source, e) || evalset_hash_rows(s, e) ? -1 : 0;
	npy_release(&a);
	return rc;
}

/* Measure the pictures of an array. Statistics beside them are kept only if the extractor is a network of the same dims. */
static int pictures_parse(struct evalset *s, const struct npy *a, const struct evalset_options *o, const char *path, struct err *e)
{
	struct evalset found = *s;
	int rc;

	*s = (struct evalset){0};
	rc = evalpictures_array(s, a, path, o, e);
	if (!rc && found.mu && *o->extractor->input && found.recipe.dims == s->recipe.dims) {
		s->mu = found.mu;
		s->sigma = found.sigma;
		found.mu = found.sigma = NULL;
		s->foreign = 1;
		if (found.spatial.mu) {
			s->spatial.mu = found.spatial.mu;
			s->spatial.sigma = found.spatial.sigma;
			s->spatial.dims = found.spatial.dims;
			found.spatial.mu = found.spatial.sigma = NULL;
		}
	}
	evalset_release(&found);
	return rc;
}

/* Read a .npz of this program or another. */
static int npz_read(struct evalset *s, const char *path, const struct evalset_options *o, struct err *e)
{
	struct npz *z = npz_load(path, e);
	int rc = z ? evalstats_parse(s, z, o->statistics, path, e) : -1;

	if (rc == 1)
		rc = pictures_parse(s, npz_find(z, "arr_0"), o, path, e);
	npz_free(z);
	return rc;
}

int evalset_read(struct evalset *s, const char *source, const struct evalset_options *o, struct err *e)
{
	int rc;

	*s = (struct evalset){0};
	switch (evalstats_sniff(source)) {
	case SOURCE_NPZ:
		rc = npz_read(s, source, o, e);
		break;
	case SOURCE_NPY:
		rc = vectors_read(s, source, e);
		break;
	default:
		rc = evalpictures_read(s, source, o, e);
	}
	if (rc)
		evalset_release(s);
	return rc;
}

int evalset_logits(struct evalset *s, const char *path, struct err *e)
{
	struct npy a;
	float *x;
	int64_t c;
	int rc = 0;

	if (npy_load(&a, path, e))
		return -1;
	x = evalstats_vectors(&a, path, "the array", e);
	c = a.shape[1];
	if (x && a.shape[0] != s->n)
		rc = err_set(e, ERR_DATA, "%s: %lld rows of logits for %lld samples", path, (long long)a.shape[0], (long long)s->n);
	if (x && !rc && !s->order)
		rc = err_set(e, ERR_DATA, "%s: rows of logits need the order in which the samples were read, and it is unknown", path);
	if (x && !rc) {
		evaltap_release(&s->logits);
		s->logits = (struct evaltap){.dims = (int)c, .x = mem_try((size_t)(s->n * c), sizeof *x, "logits", e)};
		rc = s->logits.x ? 0 : -1;
	}
	for (int64_t i = 0; x && !rc && i < s->n; i++)
		memcpy(s->logits.x + s->order[i] * c, x + i * c, (size_t)c * sizeof *x);
	mem_free(x);
	npy_release(&a);
	return x ? rc : -1;
}
