/* Reads and writes statistics files, ours and those of other packages. */
#include "metric/evalstats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "file/npy.h"
#include "file/standing.h"

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

static int key_fits(const json_t *o, const char *key, const char *path, struct err *e)
{
	const char *have = "";

	if (!key)
		return 1;
	if (jsonio_str(o, "key", 1, &have, path, e))
		return 0;
	return !strcmp(have, key) ? 1 : (err_set(e, ERR_DATA, "%s: was made from other inputs", path), 0);
}

static int recipe_parse(struct evalset *s, const struct npy *a, const char *key, const char *path, struct err *e)
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
	         (!json_object_get(o, "input") || !text_into(s->recipe.input, sizeof s->recipe.input, o, "input", path, e)) &&
	         key_fits(o, key, path, e) && !jsonio_i64(o, "width", 1, 0, 1 << 20, &width, path, e) &&
	         !jsonio_i64(o, "height", 1, 0, 1 << 20, &height, path, e) && !jsonio_i64(o, "n", 1, 1, INT64_MAX, &s->n, path, e))
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

static int gaussian_parse(double **mu, double **sigma, int *dims, const struct npz *z, const char *const names[2], const char *path, struct err *e)
{
	const struct npy *m = npz_find(z, names[0]), *v = npz_find(z, names[1]);
	int64_t d;

	if (!m || !v)
		return err_set(e, ERR_DATA, "%s has no statistics \"%s\" and \"%s\"", path, names[0], names[1]);
	d = m->rank == 1 ? m->shape[0] : 0;
	if (d < 1 || d > 65536 || v->rank != 2 || v->shape[0] != d || v->shape[1] != d)
		return err_set(e, ERR_DATA, "%s: %s and %s are not (d) and (d, d)", path, names[0], names[1]);
	*dims = (int)d;
	*mu = doubles(m, path, names[0], e);
	*sigma = *mu ? doubles(v, path, names[1], e) : NULL;
	if (!*sigma)
		return -1;
	for (int64_t i = 0; i < d; i++)
		for (int64_t j = 0; j < i; j++)
			if (fabs((*sigma)[i * d + j] - (*sigma)[j * d + i]) > 1e-6 * sqrt(fabs((*sigma)[i * d + i] * (*sigma)[j * d + j])))
				return err_set(e, ERR_DATA, "%s: %s is not symmetric", path, names[1]);
	return 0;
}

static const char *const main_names[2] = {"mu", "sigma"}, *const spatial_names[2] = {"mu_s", "sigma_s"};

float *evalstats_vectors(const struct npy *a, const char *path, const char *name, struct err *e)
{
	float *x;

	if (a->rank != 2 || a->shape[0] < 1 || a->shape[1] < 1 || a->shape[1] > 65536) {
		err_set(e, ERR_DATA, "%s: %s is not a matrix of feature vectors (n, d) with d up to 65536", path, name);
		return NULL;
	}
	x = mem_try((size_t)npy_count(a), sizeof *x, "feature vectors", e);
	if (!x)
		return NULL;
	npy_to_f32(x, a);
	for (int64_t i = 0; i < npy_count(a); i++)
		if (!isfinite(x[i])) {
			err_set(e, ERR_DATA, "%s: %s, row %lld holds a value that is not finite", path, name, (long long)(i / a->shape[1]));
			mem_free(x);
			return NULL;
		}
	return x;
}

/* Read the vectors of a tap beside the features, if the file has them. */
static int tap_parse(struct evaltap *t, const struct npz *z, int64_t n, const char *name, const char *path, struct err *e)
{
	const struct npy *a = npz_find(z, name);

	if (!a)
		return 0;
	t->x = evalstats_vectors(a, path, name, e);
	if (!t->x)
		return -1;
	if (a->shape[0] != n || (t->dims && t->dims != a->shape[1]))
		return err_set(e, ERR_DATA, "%s: %s does not fit the features", path, name);
	t->dims = (int)a->shape[1];
	return 0;
}

static int features_parse(struct evalset *s, const struct npy *f, const struct npz *z, const char *name, const char *path, struct err *e)
{
	s->features = evalstats_vectors(f, path, name, e);
	if (!s->features)
		return -1;
	if ((s->recipe.dims && f->shape[1] != s->recipe.dims) || (s->n && f->shape[0] != s->n))
		return err_set(e, ERR_DATA, "%s: %s do not fit mu or the recipe", path, name);
	s->n = f->shape[0];
	s->recipe.dims = (int)f->shape[1];
	return tap_parse(&s->spatial, z, s->n, "spatial", path, e) || tap_parse(&s->logits, z, s->n, "logits", path, e) ? -1 : 0;
}

/* Read the reading order, a permutation of the rows. */
static int order_parse(struct evalset *s, const struct npy *a, const char *path, struct err *e)
{
	uint8_t *seen = mem_zalloc((size_t)s->n + 1, 1);
	int rc = a->rank == 1 && a->shape[0] == s->n ? 0 : -1;

	s->order = rc ? NULL : mem_try((size_t)s->n, sizeof *s->order, "the order of a set", e);
	if (s->order)
		rc = npy_to_i64(s->order, a, path, e);
	for (int64_t i = 0; s->order && i < s->n && !rc; i++)
		if (s->order[i] < 0 || s->order[i] >= s->n || seen[s->order[i]]++)
			rc = -1;
	mem_free(seen);
	return rc ? err_set(e, ERR_DATA, "%s: order is not a permutation of the features", path) : 0;
}

static int thumbs_parse(struct evalset *s, const struct npy *t, const char *path, struct err *e)
{
	if (t->type != NPY_U1 || t->rank != 2 || t->fortran || t->shape[0] != s->n || t->shape[1] < 1 || t->shape[1] > 1 << 20)
		return err_set(e, ERR_DATA, "%s: thumbs do not fit the recipe", path);
	s->thumb = (int)t->shape[1];
	s->thumbs = mem_try((size_t)npy_count(t), 1, "thumbnails", e);
	if (!s->thumbs)
		return -1;
	memcpy(s->thumbs, t->data, (size_t)npy_count(t));
	return 0;
}

static int own_parse(struct evalset *s, const struct npz *z, const struct npy *recipe, const char *key, const char *path, struct err *e)
{
	const struct npy *f = npz_find(z, "feats"), *t = npz_find(z, "thumbs"), *order = npz_find(z, "order");

	if (recipe_parse(s, recipe, key, path, e) || gaussian_parse(&s->mu, &s->sigma, &s->recipe.dims, z, main_names, path, e))
		return -1;
	if ((f && features_parse(s, f, z, "feats", path, e)) || (t && thumbs_parse(s, t, path, e)))
		return -1;
	return f && order ? order_parse(s, order, path, e) : 0;
}

static void statistics_hash(struct evalset *s)
{
	size_t d = (size_t)s->recipe.dims;
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, s->mu, d * sizeof *s->mu);
	sha256_add(&h, s->sigma, d * d * sizeof *s->sigma);
	sha256_end(&h, s->hash);
}

static int foreign_parse(struct evalset *s, const struct npz *z, int statistics, const char *path, struct err *e)
{
	static const char *const names[] = {"feats", "reps", "features", "arr_0"};
	const struct npy *a = npz_find(z, "arr_0");

	s->recipe = (struct recipe){.features = "npy", .resize = "none"};
	if (npz_find(z, "mu") && gaussian_parse(&s->mu, &s->sigma, &s->recipe.dims, z, main_names, path, e))
		return -1;
	if (npz_find(z, "mu_s") && gaussian_parse(&s->spatial.mu, &s->spatial.sigma, &s->spatial.dims, z, spatial_names, path, e))
		return -1;
	for (int k = 0; k < 4; k++) {
		const struct npy *f = npz_find(z, names[k]);

		if (f && (k < 3 || f->rank == 2))
			return features_parse(s, f, z, names[k], path, e) || evalset_hash_rows(s, e) ? -1 : 0;
	}
	if (a && a->type == NPY_U1 && a->rank == 4 && a->shape[3] == 3 && !a->fortran && !(s->mu && statistics))
		return 1;
	if (!s->mu)
		return err_set(e, ERR_DATA, "%s has no statistics \"mu\" and \"sigma\", no features and no pictures \"arr_0\"", path);
	statistics_hash(s);
	return 0;
}

int evalstats_parse(struct evalset *s, const struct npz *z, int statistics, const char *path, struct err *e)
{
	const struct npy *recipe = npz_find(z, "recipe");

	return recipe ? own_parse(s, z, recipe, NULL, path, e) : foreign_parse(s, z, statistics, path, e);
}

int evalstats_read_own(struct evalset *s, const char *path, const char *key, struct err *e)
{
	struct npz *z = npz_load(path, e);
	const struct npy *recipe = z ? npz_find(z, "recipe") : NULL;
	int rc = recipe ? own_parse(s, z, recipe, key, path, e) : -1;

	npz_free(z);
	return rc;
}

int evalset_may_write(const char *path, const char *recipe, struct err *e)
{
	const struct npy *old;
	struct npz *z;
	int rc = 0;

	if (!standing_is_file(path))
		return 0;
	z = npz_load(path, NULL);
	old = z ? npz_find(z, "recipe") : NULL;
	if (!old || old->type != NPY_U1)
		rc = err_set(e, ERR_EXISTS, "%s: exists and does not hold statistics of this program", path);
	else if (recipe && ((size_t)npy_count(old) != strlen(recipe) || memcmp(old->data, recipe, strlen(recipe))))
		rc = err_set(e, ERR_EXISTS, "%s: exists and holds other statistics: %.*s -> %s", path, (int)npy_count(old), (const char *)old->data,
		             recipe);
	npz_free(z);
	return rc;
}

static char *recipe_text(const struct evalset *s, const char *key)
{
	const struct recipe *r = &s->recipe;
	json_t *o = json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:s}", "features", r->features, "features_hash", r->features_hash, "resize", r->resize,
	                      "width", r->width, "height", r->height, "n", (json_int_t)s->n, "content", s->hash);
	char *text;

	if (*r->input)
		json_object_set_new(o, "input", json_string(r->input));
	if (key)
		json_object_set_new(o, "key", json_string(key));
	text = jsonio_line(o);
	json_decref(o);
	return text;
}

static int entries_write(const struct evalset *s, const char *path, const char *text, struct err *e)
{
	const struct recipe *r = &s->recipe;
	struct npz_entry entry[8] = {
	    {.name = "mu", .type = NPY_F8, .rank = 1, .shape = {r->dims}, .data = s->mu},
	    {.name = "sigma", .type = NPY_F8, .rank = 2, .shape = {r->dims, r->dims}, .data = s->sigma},
	    {.name = "recipe", .type = NPY_U1, .rank = 1, .shape = {(int64_t)strlen(text)}, .data = text},
	};
	const struct npz_entry rest[] = {
	    {.name = "feats", .type = NPY_F4, .rank = 2, .shape = {s->n, r->dims}, .data = s->features},
	    {.name = "thumbs", .type = NPY_U1, .rank = 2, .shape = {s->n, s->thumb}, .data = s->thumbs},
	    {.name = "order", .type = NPY_I8, .rank = 1, .shape = {s->n}, .data = s->features ? s->order : NULL},
	    {.name = "spatial", .type = NPY_F4, .rank = 2, .shape = {s->n, s->spatial.dims}, .data = s->spatial.x},
	    {.name = "logits", .type = NPY_F4, .rank = 2, .shape = {s->n, s->logits.dims}, .data = s->logits.x},
	};
	int n = 3;

	for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
		if (rest[i].data)
			entry[n++] = rest[i];
	return npz_write(path, entry, n, e);
}

int evalstats_write(const struct evalset *s, const char *path, const char *key, struct err *e)
{
	char *text = recipe_text(s, key);
	int rc = entries_write(s, path, text, e);

	mem_free(text);
	return rc;
}

int evalset_write(const struct evalset *s, const char *path, struct err *e)
{
	char *text = recipe_text(s, NULL);
	int rc = evalset_may_write(path, text, e) ? -1 : entries_write(s, path, text, e);

	mem_free(text);
	return rc;
}
