#include "metric/evalset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/samples.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/npy.h"
#include "metric/evalstats.h"
#include "metric/moments.h"

enum { BATCH = 256, THUMB_SIDE = 32 };

void evalset_release(struct evalset *s)
{
	mem_free(s->features);
	mem_free(s->thumbs);
	mem_free(s->mu);
	mem_free(s->sigma);
	mem_free(s->partition);
	*s = (struct evalset){0};
}

/* Sorting by content */

struct digest {
	char hex[65];
	int64_t at;
};

static int digest_order(const void *a, const void *b)
{
	const struct digest *x = a, *y = b;
	int c = strcmp(x->hex, y->hex);

	return c ? c : x->at < y->at ? -1 : x->at > y->at;
}

/* rows (n, size) in the order of the digests */
static void *reorder(void *rows, const struct digest *d, int64_t n, size_t size, struct err *e)
{
	uint8_t *out = mem_try((size_t)n, size, "a set in the order of its contents", e);

	for (int64_t i = 0; out && i < n; i++)
		memcpy(out + (size_t)i * size, (uint8_t *)rows + (size_t)d[i].at * size, size);
	mem_free(rows);
	return out;
}

/* s->features and s->thumbs into the order of d, and the hash of the set */
static int set_order(struct evalset *s, struct digest *d, struct err *e)
{
	struct sha256 h;

	qsort(d, (size_t)s->n, sizeof *d, digest_order);
	sha256_init(&h);
	for (int64_t i = 0; i < s->n; i++)
		sha256_add(&h, d[i].hex, 64);
	sha256_end(&h, s->hash);
	s->features = reorder(s->features, d, s->n, (size_t)s->recipe.dims * sizeof *s->features, e);
	if (s->features && s->thumbs)
		s->thumbs = reorder(s->thumbs, d, s->n, (size_t)s->thumb, e);
	return s->features && (s->thumbs || !s->thumb) ? 0 : -1;
}

/* Pictures */

/* A set while it is read: capacity grows, digests are still in reading order. */
struct intake {
	struct evalset *s;
	const struct evalset_options *o;
	const struct picture_batch *b;
	struct digest *digest;
	int64_t cap;
	struct err *error; /* [BATCH] */
};

static void thumbnail(uint8_t *out, const struct picture *p, int tw, int th)
{
	for (int v = 0; v < th; v++)
		for (int u = 0; u < tw; u++) {
			int64_t y0 = (int64_t)v * p->height / th, y1 = (int64_t)(v + 1) * p->height / th;
			int64_t x0 = (int64_t)u * p->width / tw, x1 = (int64_t)(u + 1) * p->width / tw, sum[3] = {0};
			int64_t n = (y1 - y0) * (x1 - x0);

			for (int64_t y = y0; y < y1; y++)
				for (int64_t x = x0; x < x1; x++)
					for (int c = 0; c < 3; c++)
						sum[c] += p->pixels[(y * p->width + x) * 3 + c];
			for (int c = 0; c < 3; c++)
				*out++ = (uint8_t)((sum[c] + n / 2) / n);
		}
}

static int least(int a, int b)
{
	return a < b ? a : b;
}

static void picture_digest(char hex[65], const struct picture *p)
{
	struct sha256 h;
	uint8_t head[8];

	for (int k = 0; k < 4; k++)
		head[k] = (uint8_t)(p->width >> 8 * k), head[4 + k] = (uint8_t)(p->height >> 8 * k);
	sha256_init(&h);
	sha256_add(&h, head, sizeof head);
	sha256_add(&h, p->pixels, (size_t)p->width * (size_t)p->height * 3);
	sha256_end(&h, hex);
}

static void picture_task(void *arg, int64_t task, int worker)
{
	struct intake *t = arg;
	struct evalset *s = t->s;
	const struct picture *p = &t->b->picture[task];
	struct picture square = {0};
	int64_t at = s->n + task;

	(void)worker;
	picture_digest(t->digest[at].hex, p);
	t->digest[at].at = at;
	if (t->o->size && (p->width != t->o->size || p->height != t->o->size)) {
		if (picture_square(&square, p, t->o->size, t->o->filter, &t->error[task]))
			return;
		p = &square;
	}
	pixfeat_compute(s->features + at * s->recipe.dims, p->pixels, p->width, p->height, t->o->kind);
	thumbnail(s->thumbs + at * s->thumb, p, least(p->width, THUMB_SIDE), least(p->height, THUMB_SIDE));
	picture_release(&square);
}

/* The first picture fixes the size of a set that is not resized. */
static int batch_fits(struct intake *t, struct err *e)
{
	struct recipe *r = &t->s->recipe;

	for (int i = 0; i < t->b->n; i++) {
		const struct picture *p = &t->b->picture[i];

		if (!r->width) {
			r->width = t->o->size ? t->o->size : p->width;
			r->height = t->o->size ? t->o->size : p->height;
			t->s->thumb = 3 * least(r->width, THUMB_SIDE) * least(r->height, THUMB_SIDE);
		}
		if (!t->o->size && (p->width < PIXFEAT_SIDE_MIN || p->height < PIXFEAT_SIDE_MIN))
			return err_set(e, ERR_DATA,
			               "\"%s\" is %d x %d: too small for these features (at least %d); --size resizes",
			               t->b->key[i], p->width, p->height, PIXFEAT_SIDE_MIN);
		if (!t->o->size && (p->width != r->width || p->height != r->height))
			return err_set(e, ERR_DATA, "\"%s\" is %d x %d among pictures of %d x %d: --size makes them equal",
			               t->b->key[i], p->width, p->height, r->width, r->height);
	}
	return 0;
}

static int batch_add(struct intake *t, struct err *e)
{
	struct evalset *s = t->s;
	int n = t->b->n;

	if (batch_fits(t, e))
		return -1;
	if (s->n + n > t->cap) {
		t->cap = 2 * t->cap + BATCH;
		s->features = mem_resize(s->features, (size_t)t->cap, (size_t)s->recipe.dims * sizeof *s->features);
		s->thumbs = mem_resize(s->thumbs, (size_t)t->cap, (size_t)s->thumb);
		t->digest = mem_resize(t->digest, (size_t)t->cap, sizeof *t->digest);
	}
	memset(t->error, 0, BATCH * sizeof *t->error);
	pool_run(t->o->pool, n, picture_task, t);
	for (int i = 0; i < n; i++)
		if (t->error[i].code)
			return err_set(e, t->error[i].code, "%s", t->error[i].msg);
	s->n += n;
	return progress_tell(t->o->progress, "pictures measured", s->n, 0) ? err_set(e, ERR_AGAIN, "stopped") : 0;
}

static int pictures_read(struct evalset *s, const char *source, const struct samples_options *so, const struct evalset_options *o,
                         struct err *e)
{
	struct picture_batch b = {0};
	struct intake t = {.s = s, .o = o, .b = &b};
	struct samples *in = samples_open(&source, 1, so, e);
	int n, rc = -1;

	if (!in)
		return -1;
	t.error = mem_alloc(BATCH * sizeof *t.error);
	while ((n = samples_pictures(in, o->pool, BATCH, &b, e)) > 0)
		if (batch_add(&t, e)) {
			n = -1;
			break;
		}
	if (n == 0 && !samples_check(in, e))
		rc = s->n ? set_order(s, t.digest, e) : err_set(e, ERR_DATA, "%s holds no picture", source);
	s->skipped = samples_skipped(in);
	picture_batch_release(&b);
	mem_free(t.digest);
	mem_free(t.error);
	samples_close(in);
	return rc;
}

/* "SHARDS:holdout" -> the folder and the part. Anything that exists under its whole name is taken as it is. */
static char *split_part(const char *source, enum samples_part *part)
{
	static const char *const suffix[] = {":all", ":train", ":holdout"};

	*part = SAMPLES_TRAIN;
	for (int i = 0; i < 3; i++)
		if (str_ends(source, suffix[i]) && !path_exists(source)) {
			*part = (enum samples_part[]){SAMPLES_ALL, SAMPLES_TRAIN, SAMPLES_HOLDOUT}[i];
			return str_new("%.*s", (int)(strlen(source) - strlen(suffix[i])), source);
		}
	return mem_strdup(source);
}

/* The features a partition was made from: the last "features" text in the stamps that lead to it. */
static const char *features_named(const json_t *j)
{
	const char *key, *found = NULL, *f;
	json_t *v;

	json_object_foreach((json_t *)j, key, v) {
		if (!strcmp(key, "features") && json_is_string(v))
			found = json_string_value(v);
		else if (json_is_object(v) && (f = features_named(v)))
			found = f;
	}
	return found;
}

static int partition_read(char **out, const char *dir, struct err *e)
{
	struct manifest m;
	const char *f;
	json_t *j;

	if (manifest_load(&m, dir, e))
		return -1;
	j = m.stamp ? json_loads(m.stamp, 0, NULL) : NULL;
	f = j ? features_named(j) : NULL;
	if (f)
		*out = mem_strdup(f);
	json_decref(j);
	manifest_release(&m);
	return 0;
}

static int samples_read(struct evalset *s, const char *source, const struct evalset_options *o, struct err *e)
{
	struct samples_options so = {
	    .skip_bad = o->skip_bad, .max_errors = o->max_errors, .bad = o->bad, .bad_arg = o->bad_arg, .spool = o->spool};
	char *path = split_part(source, &so.part), *manifest = path_join(path, "MANIFEST.tsv");
	int shards = path_exists(manifest), rc;

	snprintf(s->recipe.features, sizeof s->recipe.features, "%s", pixfeat_names[o->kind]);
	pixfeat_hash(o->kind, s->recipe.features_hash);
	s->recipe.dims = pixfeat_dims(o->kind);
	if (o->size)
		snprintf(s->recipe.resize, sizeof s->recipe.resize, "centre square, %s", resize_filter_names[o->filter]);
	else
		snprintf(s->recipe.resize, sizeof s->recipe.resize, "none");
	if (!shards && strcmp(path, source))
		rc = err_set(e, path_exists(path) ? ERR_DATA : ERR_NOINPUT, "%s: %s is no folder of shards with a MANIFEST.tsv",
		             source, path);
	else
		rc = pictures_read(s, path, &so, o, e);
	if (rc && strcmp(path, source))
		err_prefix(e, "%s", source);
	if (!rc && shards)
		rc = partition_read(&s->partition, path, e);
	mem_free(manifest);
	mem_free(path);
	return rc;
}

/* Vectors made elsewhere */

static int vectors_read(struct evalset *s, const char *source, struct err *e)
{
	struct digest *d = NULL;
	struct npy a;
	int rc = -1;

	if (npy_load(&a, source, e))
		return -1;
	if (a.rank != 2 || a.shape[0] < 1 || a.shape[1] < 1 || a.shape[1] > 65536) {
		err_set(e, ERR_DATA, "%s is not a matrix of feature vectors (n, d) with d up to 65536", source);
		goto out;
	}
	s->n = a.shape[0];
	s->recipe = (struct recipe){.features = "npy", .resize = "none", .dims = (int)a.shape[1]};
	s->features = mem_try((size_t)npy_count(&a), sizeof *s->features, "feature vectors", e);
	d = s->features ? mem_try((size_t)s->n, sizeof *d, "hashes of feature vectors", e) : NULL;
	if (!d)
		goto out;
	npy_to_f32(s->features, &a);
	for (int64_t i = 0; i < npy_count(&a); i++)
		if (!isfinite(s->features[i])) {
			err_set(e, ERR_DATA, "%s: row %lld holds a value that is not finite", source,
			        (long long)(i / a.shape[1]));
			goto out;
		}
	for (int64_t i = 0; i < s->n; i++) {
		struct sha256 h;

		sha256_init(&h);
		sha256_add(&h, s->features + i * s->recipe.dims, (size_t)s->recipe.dims * sizeof *s->features);
		sha256_end(&h, d[i].hex);
		d[i].at = i;
	}
	rc = set_order(s, d, e);
out:
	mem_free(d);
	npy_release(&a);
	return rc;
}

int evalset_read(struct evalset *s, const char *source, const struct evalset_options *o, struct err *e)
{
	int rc;

	*s = (struct evalset){0};
	switch (evalstats_sniff(source)) {
	case SOURCE_NPZ:
		rc = evalstats_read(s, source, e);
		break;
	case SOURCE_NPY:
		rc = vectors_read(s, source, e);
		break;
	default:
		rc = samples_read(s, source, o, e);
	}
	if (rc)
		evalset_release(s);
	return rc;
}

int evalset_statistics(struct evalset *s, struct pool *pool, struct err *e)
{
	size_t d = (size_t)s->recipe.dims;
	struct moments m;
	int rc;

	if (s->mu)
		return 0;
	s->mu = mem_try(d, sizeof *s->mu, "a feature mean", e);
	s->sigma = s->mu ? mem_try(d * d, sizeof *s->sigma, "a feature covariance", e) : NULL;
	if (!s->sigma || moments_init(&m, s->recipe.dims, e))
		return -1;
	moments_add(&m, pool, s->features, s->n);
	rc = moments_result(&m, pool, s->mu, s->sigma, e);
	moments_release(&m);
	return rc;
}

int evalset_agree(const struct evalset *a, const char *name_a, const struct evalset *b, const char *name_b, struct err *e)
{
	const struct recipe *p = &a->recipe, *q = &b->recipe;

	if (strcmp(p->features, q->features) || p->dims != q->dims)
		return err_set(e, ERR_DATA, "%s has %d features \"%s\", %s has %d \"%s\": they cannot be compared", name_a,
		               p->dims, p->features, name_b, q->dims, q->features);
	if (strcmp(p->features_hash, q->features_hash))
		return err_set(e, ERR_DATA, "%s and %s were made by different definitions of \"%s\" (%.12s, %.12s)", name_a,
		               name_b, p->features, p->features_hash, q->features_hash);
	if (p->width != q->width || p->height != q->height)
		return err_set(e, ERR_DATA, "%s was measured at %d x %d, %s at %d x %d: --size makes them equal", name_a,
		               p->width, p->height, name_b, q->width, q->height);
	if (strcmp(p->resize, q->resize))
		return err_set(e, ERR_DATA, "%s and %s were resized differently (%s; %s)", name_a, name_b, p->resize, q->resize);
	return 0;
}
