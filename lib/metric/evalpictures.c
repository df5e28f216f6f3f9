/* Reads pictures of any source and extracts their features. */
#include "metric/evalpictures.h"

#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/lookahead.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "metric/evalcache.h"

enum { BATCH = 256, THUMB_SIDE = 32 };

/* The state of reading a set. The capacity grows as needed; digests are in reading order. */
struct intake {
	struct evalset *s;
	const struct evalset_options *o;
	int64_t expected;        /* estimated number of pictures; 0: unknown */
	const struct picture *p; /* the current batch */
	char *const *key;
	struct digest *digest;
	int64_t cap;
	struct picture *measured; /* [BATCH]: pictures of p, or resized squares that the intake owns */
	struct err *error;        /* [BATCH] */
};

static void intake_begin(struct intake *t, struct evalset *s, const struct evalset_options *o)
{
	const struct extractor *x = o->extractor;

	*t = (struct intake){.s = s, .o = o};
	t->error = mem_alloc(BATCH * sizeof *t->error);
	t->measured = mem_zalloc(BATCH, sizeof *t->measured);
	snprintf(s->recipe.features, sizeof s->recipe.features, "%s", x->name);
	snprintf(s->recipe.features_hash, sizeof s->recipe.features_hash, "%s", x->hash);
	snprintf(s->recipe.input, sizeof s->recipe.input, "%s", x->input);
	s->recipe.dims = x->dims[TAP_MAIN];
	s->spatial.dims = o->taps & 1u << TAP_SPATIAL ? x->dims[TAP_SPATIAL] : 0;
	s->logits.dims = o->taps & 1u << TAP_LOGITS ? x->dims[TAP_LOGITS] : 0;
	if (o->size)
		snprintf(s->recipe.resize, sizeof s->recipe.resize, "centre square, %s", resize_filter_names[o->filter]);
	else
		snprintf(s->recipe.resize, sizeof s->recipe.resize, "none");
}

static void intake_end(struct intake *t)
{
	mem_free(t->digest);
	mem_free(t->error);
	mem_free(t->measured);
}

void picture_thumbnail(uint8_t *out, const struct picture *p, int tw, int th)
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
	const struct picture *p = &t->p[task];
	int64_t at = s->n + task;

	(void)worker;
	picture_digest(t->digest[at].hex, p);
	t->digest[at].at = at;
	t->measured[task] = *p;
	if (t->o->size && (p->width != t->o->size || p->height != t->o->size)) {
		t->measured[task] = (struct picture){0};
		if (picture_square(&t->measured[task], p, t->o->size, t->o->filter, &t->error[task]))
			return;
	}
	p = &t->measured[task];
	picture_thumbnail(s->thumbs + at * s->thumb, p, least(p->width, THUMB_SIDE), least(p->height, THUMB_SIDE));
}

/* Check the sizes of a batch. Without resizing, the first picture fixes the size of the set. */
static int batch_fits(struct intake *t, int n, struct err *e)
{
	struct recipe *r = &t->s->recipe;
	int side = t->o->extractor->least;

	for (int i = 0; i < n; i++) {
		const struct picture *p = &t->p[i];

		if (!r->width) {
			r->width = t->o->size ? t->o->size : p->width;
			r->height = t->o->size ? t->o->size : p->height;
			t->s->thumb = 3 * least(r->width, THUMB_SIDE) * least(r->height, THUMB_SIDE);
		}
		if (!t->o->size && (p->width < side || p->height < side))
			return err_set(e, ERR_DATA, "\"%s\" is %d x %d: too small for these features (at least %d); --size resizes", t->key[i],
			               p->width, p->height, side);
		if (!t->o->size && (p->width != r->width || p->height != r->height))
			return err_set(e, ERR_DATA, "\"%s\" is %d x %d among pictures of %d x %d: --size makes them equal", t->key[i], p->width,
			               p->height, r->width, r->height);
	}
	return 0;
}

static void room(struct intake *t, int n)
{
	struct evalset *s = t->s;

	if (s->n + n <= t->cap)
		return;
	t->cap = 2 * t->cap + BATCH;
	s->features = mem_resize(s->features, (size_t)t->cap, (size_t)s->recipe.dims * sizeof *s->features);
	s->thumbs = mem_resize(s->thumbs, (size_t)t->cap, (size_t)s->thumb);
	t->digest = mem_resize(t->digest, (size_t)t->cap, sizeof *t->digest);
	if (s->spatial.dims)
		s->spatial.x = mem_resize(s->spatial.x, (size_t)t->cap, (size_t)s->spatial.dims * sizeof(float));
	if (s->logits.dims)
		s->logits.x = mem_resize(s->logits.x, (size_t)t->cap, (size_t)s->logits.dims * sizeof(float));
}

static int batch_measure(struct intake *t, int n, struct err *e)
{
	struct evalset *s = t->s;
	float *out[TAPS] = {s->features + s->n * s->recipe.dims, s->spatial.x ? s->spatial.x + s->n * s->spatial.dims : NULL,
	                    s->logits.x ? s->logits.x + s->n * s->logits.dims : NULL};

	for (int i = 0; i < n; i++)
		if (t->error[i].code)
			return err_set(e, t->error[i].code, "%s", t->error[i].msg);
	return t->o->extractor->run(t->o->extractor, t->o->pool, out, t->measured, n, e);
}

static int batch_add(struct intake *t, int n, struct err *e)
{
	struct evalset *s = t->s;
	int rc;

	if (batch_fits(t, n, e))
		return -1;
	room(t, n);
	memset(t->error, 0, BATCH * sizeof *t->error);
	pool_run(t->o->pool, n, picture_task, t);
	rc = batch_measure(t, n, e);
	for (int i = 0; i < n; i++)
		if (t->measured[i].pixels != t->p[i].pixels)
			picture_release(&t->measured[i]);
	if (rc)
		return -1;
	s->n += n;
	return progress_tell(t->o->progress, "pictures measured", s->n, t->expected) ? err_set(e, ERR_AGAIN, "interrupted") : 0;
}

int evalpictures_array(struct evalset *s, const struct npy *a, const char *name, const struct evalset_options *o, struct err *e)
{
	int64_t n = a->shape[0], h = a->shape[1], w = a->shape[2];
	struct picture p[BATCH];
	char *key[BATCH];
	struct intake t;
	int rc = 0;

	if (h < 1 || w < 1 || h > 1 << 15 || w > 1 << 15)
		return err_set(e, ERR_DATA, "%s: pictures of %lld x %lld", name, (long long)w, (long long)h);
	intake_begin(&t, s, o);
	t.p = p;
	t.key = key;
	for (int64_t i = 0; i < n && !rc; i += BATCH) {
		int count = n - i < BATCH ? (int)(n - i) : BATCH;

		for (int k = 0; k < count; k++) {
			p[k] = (struct picture){(int)w, (int)h, 3, (uint8_t *)(uintptr_t)a->data + (i + k) * h * w * 3};
			key[k] = str_new("%s, picture %lld", name, (long long)(i + k));
		}
		rc = batch_add(&t, count, e);
		for (int k = 0; k < count; k++)
			mem_free(key[k]);
	}
	if (!rc)
		rc = s->n ? evalset_sort(s, t.digest, e) : err_set(e, ERR_DATA, "%s contains no pictures", name);
	intake_end(&t);
	return rc;
}

static int pictures_measure(struct evalset *s, struct samples *in, const char *source, const struct evalset_options *o, struct err *e)
{
	struct lookahead *l = lookahead_new(in, o->pool, BATCH, e);
	struct picture_batch *b;
	struct intake t;
	int n = -1, rc = -1;

	intake_begin(&t, s, o);
	while (l && (n = lookahead_next(l, &b, e)) > 0) {
		t.p = b->picture;
		t.key = b->key;
		t.expected = lookahead_expected(l);
		if (batch_add(&t, n, e)) {
			n = -1;
			break;
		}
	}
	lookahead_free(l);
	if (n == 0 && !samples_check(in, e))
		rc = s->n ? evalset_sort(s, t.digest, e) : err_set(e, ERR_DATA, "%s contains no pictures", source);
	s->skipped = samples_skipped(in);
	intake_end(&t);
	return rc;
}

static int measure(struct evalset *s, char digest[65], const char *path, const struct samples_options *so, const struct evalset_options *o,
                   struct err *e)
{
	struct samples *in = samples_open(&path, 1, so, e);
	int rc = in ? pictures_measure(s, in, path, o, e) : -1;

	if (in)
		samples_digest(in, digest);
	samples_close(in);
	return rc;
}

/* Compute only the digest of the contents. */
static int scan(char digest[65], const char *path, const struct samples_options *so, const struct evalset_options *o, struct err *e)
{
	struct samples_options silent = *so;
	struct samples *in;
	struct sample x;
	int rc = -1;

	silent.bad = NULL;
	in = samples_open(&path, 1, &silent, e);
	while (in && (rc = samples_next(in, &x, e)) > 0)
		if (progress_tell(o->progress, "samples hashed", samples_count(in), samples_expected(in))) {
			rc = err_set(e, ERR_AGAIN, "interrupted");
			break;
		}
	if (in)
		samples_digest(in, digest);
	samples_close(in);
	return rc;
}

/* Read through the cache. The lookup uses the hash of the current contents; a new entry is stored under the hash of the contents that were read. */
static int pictures_read(struct evalset *s, const char *path, const struct samples_options *so, const char *part, const struct evalset_options *o,
                         struct err *e)
{
	char digest[65], key[65], *file;
	int rc = 0;

	if (!o->cache || samples_is_stream(path))
		return measure(s, digest, path, so, o, e);
	if (scan(digest, path, so, o, e))
		return -1;
	evalcache_key(key, o, digest, part);
	file = evalcache_path(o, path, key);
	if (!evalcache_load(s, file, key)) {
		rc = measure(s, digest, path, so, o, e);
		mem_free(file);
		evalcache_key(key, o, digest, part);
		file = evalcache_path(o, path, key);
		if (!rc && !s->skipped)
			evalcache_store(s, file, key, o);
	}
	mem_free(file);
	return rc;
}

char *evalpictures_split(const char *source, enum samples_part *part)
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

struct samples *evalpictures_open(const char *source, const struct evalset_options *o, struct err *e)
{
	struct samples_options so = {.skip_bad = o->skip_bad, .max_errors = -1, .spool = o->spool};
	char *path = evalpictures_split(source, &so.part);
	const char *one = path;
	struct samples *s = samples_open(&one, 1, &so, e);

	mem_free(path);
	return s;
}

/* The name of the features that the partition was made from: the last "features" text in the nested stamps. */
static const char *features_named(const json_t *j)
{
	const char *key, *found = NULL, *f;
	json_t *v;

	json_object_foreach ((json_t *)j, key, v) {
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

int evalpictures_partition(struct evalset *s, const char *path, struct err *e)
{
	int rc = samples_is_shards(path, e);

	return rc > 0 ? partition_read(&s->partition, path, e) : rc;
}

int evalpictures_read(struct evalset *s, const char *source, const struct evalset_options *o, struct err *e)
{
	static const char *const parts[] = {[SAMPLES_ALL] = "all", [SAMPLES_TRAIN] = "train", [SAMPLES_HOLDOUT] = "holdout"};
	struct samples_options so = {.skip_bad = o->skip_bad, .max_errors = o->max_errors, .bad = o->bad, .bad_arg = o->bad_arg, .spool = o->spool};
	char *path = evalpictures_split(source, &so.part);
	int shards = samples_is_shards(path, e), rc;

	if (shards < 0)
		rc = -1;
	else if (!shards && strcmp(path, source))
		rc = err_set(e, path_exists(path) ? ERR_DATA : ERR_NOINPUT, "%s: %s is not a folder of shards with a MANIFEST.tsv", source, path);
	else
		rc = pictures_read(s, path, &so, shards ? parts[so.part] : "", o, e);
	if (rc && strcmp(path, source))
		err_prefix(e, "%s", source);
	if (!rc)
		rc = evalpictures_partition(s, path, e);
	mem_free(path);
	return rc;
}
