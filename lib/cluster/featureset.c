/* Reads the features of a set of samples, or computes them. */
#include "cluster/featureset.h"

#include <math.h>
#include <string.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "cluster/clipmotion.h"
#include "cluster/features.h"
#include "cluster/points.h"
#include "data/lookahead.h"
#include "file/fileio.h"
#include "file/npy.h"

enum { BATCH = 256, MEASURED = 64 };

static int is_held(const char *key, const struct featureset_options *o)
{
	const char *slash = o->holdout_by_dir ? strrchr(key, '/') : NULL;
	char *dir;
	int held;

	if (!slash)
		return hash_holdout(key, o->holdout);
	dir = str_new("%.*s", (int)(slash - key), key);
	held = hash_holdout(dir, o->holdout);
	mem_free(dir);
	return held;
}

/* Append a sample: returns its row of features to fill, or NULL if there are no features. */
static float *append(struct featureset *f, char *key, int32_t label, const struct featureset_options *o)
{
	int held = is_held(key, o);
	int64_t row = f->count[held]++;

	if (f->n == f->cap) {
		f->cap = f->cap ? 2 * f->cap : 1024;
		f->key = mem_resize(f->key, (size_t)f->cap, sizeof *f->key);
		f->label = mem_resize(f->label, (size_t)f->cap, sizeof *f->label);
		f->held = mem_resize(f->held, (size_t)f->cap, sizeof *f->held);
		f->row = mem_resize(f->row, (size_t)f->cap, sizeof *f->row);
	}
	f->key[f->n] = key;
	f->label[f->n] = label;
	f->held[f->n] = (uint8_t)held;
	f->row[f->n++] = row;
	if (!f->d)
		return NULL;
	if (row == f->room[held]) {
		f->room[held] = row ? 2 * row : 1024;
		f->x[held] = mem_resize(f->x[held], (size_t)f->room[held], (size_t)f->d * sizeof(float));
	}
	return f->x[held] + row * f->d;
}

struct compute_job {
	const struct picture_batch *b;
	int64_t d; /* hogcolor, and with `motion` the motion behind it */
	int motion;
	float *out; /* (BATCH, d) */
	struct err err[BATCH];
};

/* The features of a clip are the mean of its frames' and, if wanted, those of its motion. */
static void compute_task(void *arg, int64_t task, int worker)
{
	struct compute_job *j = arg;
	struct picture frame = j->b->picture[task];
	float *out = j->out + task * j->d, one[FEATURES_HOGCOLOR_DIM];
	int n = j->b->frames[task];

	(void)worker;
	j->err[task] = (struct err){0};
	frame.height /= n;
	memset(out, 0, sizeof one);
	for (int f = 0; f < n; f++) {
		if (features_hogcolor(one, &frame, &j->err[task]))
			return;
		for (int k = 0; k < FEATURES_HOGCOLOR_DIM; k++)
			out[k] += one[k] / (float)n;
		frame.pixels += (size_t)frame.width * (size_t)frame.height * (size_t)frame.channels;
	}
	if (j->motion)
		clipmotion_compute(out + FEATURES_HOGCOLOR_DIM, &j->b->picture[task], n, j->b->key[task], &j->err[task]);
}

static int compute(struct featureset *f, struct samples *s, const struct featureset_options *o, struct err *e)
{
	struct picture_batch b = {0};
	struct compute_job *j = mem_zalloc(1, sizeof *j);
	int n;

	f->d = FEATURES_HOGCOLOR_DIM + (o->motion ? MOTION_DIMS : 0);
	f->name = mem_strdup(o->motion ? FEATURES_HOGCOLOR "+" MOTION_NAME : FEATURES_HOGCOLOR);
	j->b = &b;
	j->d = f->d;
	j->motion = o->motion;
	j->out = mem_zalloc(BATCH, (size_t)f->d * sizeof(float));
	while ((n = samples_pictures(s, o->pool, BATCH, &b, e)) > 0) {
		pool_run(o->pool, n, compute_task, j);
		for (int i = 0; i < n && n > 0; i++) {
			if (j->err[i].code) {
				n = err_set(e, j->err[i].code, "%s", j->err[i].msg);
				break;
			}
			memcpy(append(f, b.key[i], b.label[i], o), j->out + i * f->d, (size_t)f->d * sizeof(float));
			b.key[i] = NULL;
		}
		if (n > 0 && progress_tell(o->progress, "features", f->n, samples_expected(s)))
			n = err_set(e, ERR_AGAIN, "interrupted");
		if (n < 0)
			break;
	}
	picture_batch_release(&b);
	mem_free(j->out);
	mem_free(j);
	return n;
}

/* Append the rows of a batch; takes ownership of the batch's keys. */
static int take_rows(struct featureset *f, struct picture_batch *b, const float *x, int64_t expected, const struct featureset_options *o,
                     struct err *e)
{
	for (int i = 0; i < b->n; i++) {
		for (int64_t k = 0; k < f->d; k++)
			if (!isfinite(x[i * f->d + k]))
				return err_set(e, ERR_DATA, "\"%s\": its %s features are not finite", b->key[i], f->name);
		memcpy(append(f, b->key[i], b->label[i], o), x + i * f->d, (size_t)f->d * sizeof *x);
		b->key[i] = NULL;
	}
	return progress_tell(o->progress, "features", f->n, expected) ? err_set(e, ERR_AGAIN, "interrupted") : 0;
}

static int measure(struct featureset *f, struct samples *s, const struct featureset_options *o, struct err *e)
{
	const struct features_measure *m = o->measure;
	struct lookahead *l = lookahead_new(s, o->pool, MEASURED, e);
	struct picture_batch *b;
	float *x = l ? mem_try((size_t)(MEASURED * m->dims), sizeof *x, "features", e) : NULL;
	int n = -1;

	f->d = m->dims;
	f->name = mem_strdup(m->name);
	snprintf(f->hash, sizeof f->hash, "%s", m->hash);
	while (x && (n = lookahead_next(l, &b, e)) > 0)
		if (m->run(m->arg, x, b->picture, n, e) || take_rows(f, b, x, lookahead_expected(l), o, e)) {
			n = -1;
			break;
		}
	lookahead_free(l);
	mem_free(x);
	return n;
}

static int read_keys(struct featureset *f, struct samples *s, const struct featureset_options *o, struct err *e)
{
	struct sample x;
	int rc;

	while ((rc = samples_next(s, &x, e)) > 0) {
		char *value = NULL;
		int32_t label;

		if (sample_class(&x, &label, e) || (o->value && !(value = o->value(o->value_arg, &x, e)))) {
			if (samples_bad(s, e))
				return -1;
			continue;
		}
		append(f, mem_strdup(x.key), label, o);
		if (value) {
			f->value = mem_resize(f->value, (size_t)f->cap, sizeof *f->value);
			f->value[f->n - 1] = value;
		}
		if (progress_tell(o->progress, "samples", f->n, samples_expected(s)))
			return err_set(e, ERR_AGAIN, "interrupted");
	}
	return rc;
}

static void hash_keys(const struct featureset *f, char hex[65])
{
	struct sha256 h;

	sha256_init(&h);
	for (int64_t i = 0; i < f->n; i++) {
		sha256_add(&h, f->key[i], strlen(f->key[i]));
		sha256_add(&h, "\n", 1);
	}
	sha256_end(&h, hex);
}

static int read_sidecar(struct featureset *f, const char *path, struct err *e)
{
	char *side = str_new("%s.json", path), hex[65];
	const char *keys = NULL, *name = "file";
	json_t *o;
	int rc = -1;

	if (!path_exists(side)) {
		mem_free(side);
		f->name = mem_strdup("file");
		return 0;
	}
	o = jsonio_load(side, e);
	if (o && !jsonio_str(o, "keys", 0, &keys, side, e) && !jsonio_str(o, "features", 0, &name, side, e)) {
		hash_keys(f, hex);
		if (keys && strcmp(keys, hex))
			err_set(e, ERR_DATA, "%s belongs to other samples or to another order (hash of the keys in %s: %.12s, expected %.12s)", path,
			        side, keys, hex);
		else
			rc = 0;
		f->name = mem_strdup(name);
	}
	json_decref(o);
	mem_free(side);
	return rc;
}

static int check_finite(const struct featureset *f, const float *x, const char *path, struct err *e)
{
	for (int64_t i = 0; i < f->n * f->d; i++)
		if (!isfinite(x[i]))
			return err_set(e, ERR_DATA, "%s: row %lld, column %lld is not finite (\"%s\")", path, (long long)(i / f->d),
			               (long long)(i % f->d), f->key[i / f->d]);
	return 0;
}

static int load_file(struct featureset *f, const char *path, struct err *e)
{
	struct npy a;
	float *all;
	int rc = -1;

	if (npy_load(&a, path, e))
		return -1;
	if (a.rank != 2 || a.shape[0] != f->n || a.shape[1] < 1)
		err_set(e, ERR_DATA, "%s: an array of rank %d with %lld rows, not (%lld, D): a row of features for each sample", path, a.rank,
		        (long long)(a.rank ? a.shape[0] : 0), (long long)f->n);
	else if ((all = mem_try((size_t)(f->n * a.shape[1]), sizeof *all, path, e))) {
		f->d = a.shape[1];
		npy_to_f32(all, &a);
		rc = check_finite(f, all, path, e) ? -1 : sha256_file(path, f->hash, NULL, e);
		for (int h = 0; h < 2 && !rc; h++)
			if (!(f->x[h] = mem_try((size_t)(f->count[h] * f->d + 1), sizeof(float), path, e)))
				rc = -1;
		for (int64_t i = 0; i < f->n && !rc; i++)
			memcpy(f->x[f->held[i]] + f->row[i] * f->d, all + i * f->d, (size_t)f->d * sizeof(float));
		mem_free(all);
	}
	npy_release(&a);
	return rc;
}

int featureset_read(struct featureset *f, struct samples *s, const struct featureset_options *o, struct err *e)
{
	int rc;

	*f = (struct featureset){0};
	if (o->kind == FEATURES_COMPUTE)
		rc = compute(f, s, o, e);
	else if (o->kind == FEATURES_MEASURE)
		rc = measure(f, s, o, e);
	else
		rc = read_keys(f, s, o, e);
	if (!rc && o->kind == FEATURES_FILE)
		rc = read_sidecar(f, o->file, e) || load_file(f, o->file, e) ? -1 : 0;
	if (!rc && o->kind == FEATURES_NONE)
		f->name = mem_strdup("none");
	if (rc)
		featureset_release(f);
	return rc;
}

int featureset_split(struct featureset *f, const uint8_t *held, struct err *e)
{
	int64_t count[2] = {0};
	float *x[2] = {NULL};

	for (int64_t i = 0; i < f->n; i++)
		count[held[i] != 0]++;
	for (int h = 0; h < 2; h++)
		if (!(x[h] = mem_try((size_t)(count[h] * f->d + 1), sizeof(float), "features", e))) {
			mem_free(x[0]);
			return -1;
		}
	count[0] = count[1] = 0;
	for (int64_t i = 0; i < f->n; i++) {
		int h = held[i] != 0;

		if (f->d)
			memcpy(x[h] + count[h] * f->d, f->x[f->held[i]] + f->row[i] * f->d, (size_t)f->d * sizeof(float));
		f->held[i] = (uint8_t)h;
		f->row[i] = count[h]++;
	}
	for (int h = 0; h < 2; h++) {
		mem_free(f->x[h]);
		f->x[h] = x[h];
		f->count[h] = f->room[h] = count[h];
	}
	return 0;
}

int featureset_unit(struct featureset *f, struct pool *pool, struct err *e)
{
	int64_t zero[2];

	for (int h = 0; h < 2; h++)
		zero[h] = points_unit_rows(f->x[h], f->count[h], f->d, pool);
	for (int64_t i = 0; i < f->n && (zero[0] >= 0 || zero[1] >= 0); i++)
		if (f->row[i] == zero[f->held[i]])
			return err_set(e, ERR_DATA, "\"%s\": its %s features are all 0 and have no direction, which --distance cosine compares",
			               f->key[i], f->name);
	return 0;
}

void featureset_release(struct featureset *f)
{
	for (int64_t i = 0; i < f->n; i++) {
		mem_free(f->key[i]);
		if (f->value)
			mem_free(f->value[i]);
	}
	mem_free(f->value);
	mem_free(f->key);
	mem_free(f->label);
	mem_free(f->held);
	mem_free(f->row);
	mem_free(f->x[0]);
	mem_free(f->x[1]);
	mem_free(f->name);
	*f = (struct featureset){0};
}
