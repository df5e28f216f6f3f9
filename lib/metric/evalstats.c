#include "metric/evalstats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "file/npy.h"

enum source_kind evalstats_sniff(const char *source)
{
	enum source_kind kind = SOURCE_SAMPLES;
	unsigned char head[6] = {0};
	struct stat st;
	FILE *f;

	if (!strcmp(source, "-") || stat(source, &st) || !S_ISREG(st.st_mode) || !(f = fopen(source, "rb")))
		return kind;
	if (fread(head, 1, sizeof head, f) == sizeof head)
		kind = !memcmp(head, "\x93NUMPY", 6) ? SOURCE_NPY : memcmp(head, "PK\3\4", 4) ? SOURCE_SAMPLES : SOURCE_NPZ;
	fclose(f);
	return kind;
}

static int text_into(char *out, size_t size, const json_t *o, const char *key, const char *path, struct err *e)
{
	const char *v = "";

	if (jsonio_str(o, key, 1, &v, path, e))
		return -1;
	if (strlen(v) >= size)
		return err_set(e, ERR_DATA, "%s: \"%s\" is too long", path, key);
	memcpy(out, v, strlen(v) + 1);
	return 0;
}

static int recipe_parse(struct evalset *s, const struct npy *a, const char *path, struct err *e)
{
	int64_t width = 0, height = 0;
	json_t *o;
	int rc = -1;

	if (a->type != NPY_U1 || npy_count(a) > 65536)
		return err_set(e, ERR_DATA, "%s: the recipe is not JSON text", path);
	o = json_loadb(a->data, (size_t)npy_count(a), JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(o))
		err_set(e, ERR_DATA, "%s: the recipe is not JSON text", path);
	else if (!text_into(s->recipe.features, sizeof s->recipe.features, o, "features", path, e) &&
	         !text_into(s->recipe.features_hash, sizeof s->recipe.features_hash, o, "features_hash", path, e) &&
	         !text_into(s->recipe.resize, sizeof s->recipe.resize, o, "resize", path, e) &&
	         !text_into(s->hash, sizeof s->hash, o, "content", path, e) &&
	         !jsonio_i64(o, "width", 1, 0, 1 << 20, &width, path, e) &&
	         !jsonio_i64(o, "height", 1, 0, 1 << 20, &height, path, e) &&
	         !jsonio_i64(o, "n", 1, 1, INT64_MAX, &s->n, path, e))
		rc = 0;
	s->recipe.width = (int)width;
	s->recipe.height = (int)height;
	json_decref(o);
	return rc;
}

static double *doubles(const struct npy *a, const char *path, const char *name, struct err *e)
{
	double *v = mem_try((size_t)npy_count(a), sizeof *v, name, e);

	if (!v)
		return NULL;
	npy_to_f64(v, a);
	for (int64_t i = 0; i < npy_count(a); i++)
		if (!isfinite(v[i])) {
			mem_free(v);
			err_set(e, ERR_DATA, "%s: %s holds a value that is not finite", path, name);
			return NULL;
		}
	return v;
}

static int gaussian_parse(struct evalset *s, const struct npz *z, const char *path, struct err *e)
{
	const struct npy *mu = npz_find(z, "mu"), *sigma = npz_find(z, "sigma");
	int64_t d;

	if (!mu || !sigma)
		return err_set(e, ERR_DATA, "%s has no statistics \"mu\" and \"sigma\"", path);
	d = mu->rank == 1 ? mu->shape[0] : 0;
	if (d < 1 || d > 65536 || sigma->rank != 2 || sigma->shape[0] != d || sigma->shape[1] != d)
		return err_set(e, ERR_DATA, "%s: mu and sigma are not (d) and (d, d)", path);
	s->recipe.dims = (int)d;
	s->mu = doubles(mu, path, "mu", e);
	s->sigma = s->mu ? doubles(sigma, path, "sigma", e) : NULL;
	if (!s->sigma)
		return -1;
	for (int64_t i = 0; i < d; i++)
		for (int64_t j = 0; j < i; j++)
			if (fabs(s->sigma[i * d + j] - s->sigma[j * d + i]) >
			    1e-6 * sqrt(fabs(s->sigma[i * d + i] * s->sigma[j * d + j])))
				return err_set(e, ERR_DATA, "%s: sigma is not symmetric", path);
	return 0;
}

static int elements_parse(struct evalset *s, const struct npz *z, const char *path, struct err *e)
{
	const struct npy *f = npz_find(z, "feats"), *t = npz_find(z, "thumbs");

	if (f) {
		if (f->rank != 2 || f->shape[0] < 1 || f->shape[1] != s->recipe.dims || (s->n && f->shape[0] != s->n))
			return err_set(e, ERR_DATA, "%s: feats do not fit mu or the recipe", path);
		s->n = f->shape[0];
		s->features = mem_try((size_t)npy_count(f), sizeof *s->features, "feature vectors", e);
		if (!s->features)
			return -1;
		npy_to_f32(s->features, f);
		for (int64_t i = 0; i < npy_count(f); i++)
			if (!isfinite(s->features[i]))
				return err_set(e, ERR_DATA, "%s: feats holds a value that is not finite", path);
	}
	if (t) {
		if (t->type != NPY_U1 || t->rank != 2 || t->fortran || t->shape[0] != s->n || t->shape[1] < 1 ||
		    t->shape[1] > 1 << 20)
			return err_set(e, ERR_DATA, "%s: thumbs do not fit the recipe", path);
		s->thumb = (int)t->shape[1];
		s->thumbs = mem_try((size_t)npy_count(t), 1, "thumbnails", e);
		if (!s->thumbs)
			return -1;
		memcpy(s->thumbs, t->data, (size_t)npy_count(t));
	}
	return 0;
}

int evalstats_read(struct evalset *s, const char *path, struct err *e)
{
	struct npz *z = npz_load(path, e);
	const struct npy *recipe;
	int rc = -1;

	if (!z)
		return -1;
	recipe = npz_find(z, "recipe");
	if (!recipe)
		s->recipe = (struct recipe){.features = "npy", .resize = "none"};
	if ((!recipe || !recipe_parse(s, recipe, path, e)) && !gaussian_parse(s, z, path, e))
		rc = elements_parse(s, z, path, e);
	npz_free(z);
	return rc;
}

/* Whether statistics of `recipe` may go to `path`: nothing stands there, or the same statistics. */
static int check_standing(const char *path, const char *recipe, struct err *e)
{
	const struct npy *old;
	struct npz *z;
	struct stat st;
	int rc = 0;

	if (!strcmp(path, "-") || stat(path, &st) || !S_ISREG(st.st_mode) || !st.st_size)
		return 0;
	z = npz_load(path, NULL);
	old = z ? npz_find(z, "recipe") : NULL;
	if (!old || old->type != NPY_U1)
		rc = err_set(e, ERR_EXISTS, "%s: exists and does not hold statistics of this program", path);
	else if ((size_t)npy_count(old) != strlen(recipe) || memcmp(old->data, recipe, strlen(recipe)))
		rc = err_set(e, ERR_EXISTS, "%s: exists and holds other statistics: %.*s -> %s", path, (int)npy_count(old),
		             (const char *)old->data, recipe);
	npz_free(z);
	return rc;
}

int evalset_write(const struct evalset *s, const char *path, struct err *e)
{
	const struct recipe *r = &s->recipe;
	json_t *o =
	    json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:s}", "features", r->features, "features_hash", r->features_hash, "resize",
	              r->resize, "width", r->width, "height", r->height, "n", (json_int_t)s->n, "content", s->hash);
	char *text = jsonio_line(o);
	struct npz_entry entry[5] = {
	    {.name = "mu", .type = NPY_F8, .rank = 1, .shape = {r->dims}, .data = s->mu},
	    {.name = "sigma", .type = NPY_F8, .rank = 2, .shape = {r->dims, r->dims}, .data = s->sigma},
	    {.name = "recipe", .type = NPY_U1, .rank = 1, .shape = {(int64_t)strlen(text)}, .data = text},
	};
	int n = 3, rc;

	if (s->features)
		entry[n++] =
		    (struct npz_entry){.name = "feats", .type = NPY_F4, .rank = 2, .shape = {s->n, r->dims}, .data = s->features};
	if (s->thumbs)
		entry[n++] =
		    (struct npz_entry){.name = "thumbs", .type = NPY_U1, .rank = 2, .shape = {s->n, s->thumb}, .data = s->thumbs};
	rc = check_standing(path, text, e) ? -1 : npz_write(path, entry, n, e);
	mem_free(text);
	json_decref(o);
	return rc;
}
