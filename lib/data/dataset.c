#include "data/dataset.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/jsonio.h"
#include "core/machine.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/samples.h"
#include "file/manifest.h"
#include "file/npy.h"
#include "file/shard.h"

enum { SIDE_LIMIT = 1 << 16 };
enum slot_state { SLOT_EMPTY, SLOT_FILLING, SLOT_READY };

struct part {
	struct shard *shard;
	char *path;
	int64_t first; /* index of its first sample */
	int cluster;
};

struct dataset {
	struct dataset_options o;
	struct dataset_info info;
	struct manifest manifest;
	struct part *part;
	int64_t parts;
	int64_t numel;       /* of a sample */
	int64_t cached;      /* samples [0, cached) are kept once they have been read */
	size_t stride;       /* bytes of a kept sample */
	uint8_t *cache;      /* (cached, stride): pictures as bytes, arrays as floats, (C, H, W) order */
	size_t cache_bytes;
	int32_t *label;      /* [cached] */
	_Atomic uint8_t *state; /* [cached] enum slot_state */
};

/* What a sample decodes to. */
struct decoded {
	int channels, height, width;
	uint8_t *pixels; /* (C, H, W), or */
	float *values;
	int32_t label;
};

static void decoded_release(struct decoded *d)
{
	mem_free(d->pixels);
	mem_free(d->values);
	*d = (struct decoded){0};
}

static int decode_array(struct decoded *out, const struct sample_member *m, const char *name, struct err *e)
{
	struct npy a;
	const int64_t *shape;
	int rc = -1;

	if (npy_parse(&a, m->data, m->len, name, e))
		return -1;
	/* fast-DiT keeps the batch of one it encoded. */
	if (a.rank == 4 && a.shape[0] == 1) {
		memmove(a.shape, a.shape + 1, 3 * sizeof *a.shape);
		a.rank = 3;
	}
	shape = a.shape + (a.rank == 3);
	if (a.rank != 2 && a.rank != 3)
		err_set(e, ERR_DATA, "%s: an array of rank %d, not (C, H, W)", name, a.rank);
	else if (npy_count(&a) < 1 || shape[0] > SIDE_LIMIT || shape[1] > SIDE_LIMIT || (a.rank == 3 && a.shape[0] > SIDE_LIMIT))
		err_set(e, ERR_DATA, "%s: an array of impossible size", name);
	else if ((out->values = mem_try((size_t)npy_count(&a), sizeof *out->values, name, e))) {
		npy_to_f32(out->values, &a);
		out->channels = a.rank == 3 ? (int)a.shape[0] : 1;
		out->height = (int)shape[0];
		out->width = (int)shape[1];
		rc = 0;
	}
	npy_release(&a);
	return rc;
}

static int decode_picture(struct decoded *out, const struct sample *s, const struct dataset_options *o, struct err *e)
{
	struct samples_options so = {.size = o->size, .channels = o->channels};
	struct picture p;
	size_t area;

	if (sample_pixels(&p, s, &so, e))
		return -1;
	area = (size_t)p.width * (size_t)p.height;
	out->channels = p.channels;
	out->height = p.height;
	out->width = p.width;
	out->pixels = mem_try(area, (size_t)p.channels, "decoded picture", e);
	for (size_t i = 0; out->pixels && i < area; i++)
		for (int c = 0; c < p.channels; c++)
			out->pixels[(size_t)c * area + i] = p.pixels[i * (size_t)p.channels + (size_t)c];
	picture_release(&p);
	return out->pixels ? 0 : -1;
}

/* Is it like the first sample? */
static int compare(const struct decoded *x, const struct dataset *d, const char *name, struct err *e)
{
	const struct dataset_info *f = &d->info;

	if (d->info.arrays != (x->values != NULL))
		return err_set(e, ERR_DATA, "%s is %s, the others are not", name, x->values ? "an array" : "a picture");
	if (x->channels == f->channels && x->height == f->height && x->width == f->width)
		return 0;
	return err_set(e, ERR_DATA, "%s is %d x %d x %d, the others are %d x %d x %d%s", name, x->channels, x->height, x->width,
	               f->channels, f->height, f->width, d->info.arrays ? "" : ": resize them (--size)");
}

/* Is the label one of those the manifest counts? */
static int check_label(int32_t label, const struct dataset *d, const char *name, struct err *e)
{
	if (label < 0 && d->o.labelled)
		return err_set(e, ERR_DATA, "%s has no class label, and with --class-dropout 0 there is no null class for it", name);
	if (d->info.classes && label >= d->info.classes)
		return err_set(e, ERR_DATA, "%s is of class %d, the manifest counts %d", name, (int)label, d->info.classes);
	return 0;
}

static int decode(struct decoded *out, const struct dataset *d, const struct part *p, int64_t i, struct err *e)
{
	struct shard_sample raw = {0};
	struct sample s;
	struct sample_member *member;
	const struct sample_member *array;
	char *name;
	int rc;

	*out = (struct decoded){.label = -1};
	if (shard_read(p->shard, i - p->first, &raw, e))
		return -1;
	member = mem_zalloc((size_t)raw.members, sizeof *member);
	for (int m = 0; m < raw.members; m++)
		member[m] = (struct sample_member){raw.member[m].ext, raw.member[m].data, raw.member[m].size};
	s = (struct sample){raw.key, p->path, raw.members, member};
	name = str_new("%s: \"%s\"", p->path, raw.key);
	array = sample_find(&s, "npy");
	rc = sample_class(&s, &out->label, e) || check_label(out->label, d, name, e) ? -1 : 0;
	if (!rc)
		rc = array ? decode_array(out, array, name, e) : decode_picture(out, &s, &d->o, e);
	if (!rc && d->numel)
		rc = compare(out, d, name, e);
	mem_free(name);
	mem_free(member);
	shard_sample_release(&raw);
	if (rc)
		decoded_release(out);
	return rc;
}

static const struct part *find(const struct dataset *d, int64_t i)
{
	int64_t lo = 0, hi = d->parts;

	while (hi - lo > 1) {
		int64_t mid = (lo + hi) / 2;

		if (d->part[mid].first <= i)
			lo = mid;
		else
			hi = mid;
	}
	return &d->part[lo];
}

/* A quarter of what this machine, or the control group we are in, has. */
static uint64_t default_budget(void)
{
	struct machine_memory m;

	machine_memory(&m, "");
	return m.total / 4;
}

static int wanted(const struct dataset *d, const struct manifest_row *r)
{
	return r->holdout == (d->o.holdout != 0) && (d->o.cluster == DATASET_ALL || d->o.cluster == r->cluster);
}

struct open_job {
	struct dataset *d;
	int64_t *row; /* [parts] */
	struct err *err;
};

static void open_task(void *arg, int64_t task, int worker)
{
	struct open_job *j = arg;
	struct part *p = &j->d->part[task];
	struct err *e = &j->err[task];

	(void)worker;
	if ((j->d->o.verify ? manifest_check : manifest_check_quick)(&j->d->manifest, j->row[task], e))
		return;
	p->shard = shard_open(p->path, e);
}

/* Open the shards of this part; the first in order that fails is the one reported, whatever the threads. */
static int open_parts(struct dataset *d, struct err *e)
{
	struct open_job job = {d, mem_zalloc((size_t)d->manifest.n, sizeof *job.row), NULL};
	int rc = 0;

	d->part = mem_zalloc((size_t)d->manifest.n, sizeof *d->part);
	for (int64_t i = 0; i < d->manifest.n; i++) {
		const struct manifest_row *r = &d->manifest.rows[i];

		if (!wanted(d, r))
			continue;
		d->part[d->parts] = (struct part){NULL, manifest_shard_path(&d->manifest, i), d->info.count, r->cluster};
		job.row[d->parts++] = i;
		d->info.count += r->samples;
	}
	job.err = mem_zalloc((size_t)d->parts, sizeof *job.err);
	pool_run(d->o.pool, d->parts, open_task, &job);
	for (int64_t i = 0; i < d->parts && !rc; i++)
		if (!d->part[i].shard)
			rc = err_set(e, job.err[i].code, "%s", job.err[i].msg);
	mem_free(job.err);
	mem_free(job.row);
	return rc;
}

/* Facts that ddm-shard noted: the number of classes, whether all pictures are of one size. */
static int read_stamp(struct dataset *d, struct err *e)
{
	json_t *o = d->manifest.stamp ? json_loads(d->manifest.stamp, 0, NULL) : NULL;
	int64_t classes = 0;
	int equal = 1, rc = 0;

	if (o)
		rc = jsonio_i64(o, "classes", 0, 0, INT32_MAX, &classes, d->manifest.dir, e) ||
		     jsonio_bool(o, "equal_sizes", 0, &equal, d->manifest.dir, e);
	json_decref(o);
	if (!rc && !equal && !d->o.size)
		rc = err_set(e, ERR_DATA, "%s: the pictures are of unequal sizes: resize them (--size)", d->manifest.dir);
	d->info.classes = (int)classes;
	return rc ? -1 : 0;
}

/* The first sample says what all are. */
static int measure(struct dataset *d, struct err *e)
{
	struct decoded x;
	uint64_t budget = d->o.budget ? d->o.budget : default_budget();

	if (decode(&x, d, &d->part[0], 0, e))
		return -1;
	d->info.channels = x.channels;
	d->info.height = x.height;
	d->info.width = x.width;
	d->info.arrays = x.values != NULL;
	d->numel = (int64_t)x.channels * x.height * x.width;
	d->stride = (size_t)d->numel * (d->info.arrays ? sizeof(float) : 1);
	decoded_release(&x);
	d->cached = budget / d->stride < (uint64_t)d->info.count ? (int64_t)(budget / d->stride) : d->info.count;
	if (!d->cached)
		return 0;
	/* Pages are had when they are first written: a run that sees few samples needs few. */
	d->info.kept_bytes = d->cache_bytes = (size_t)d->cached * d->stride;
	d->cache = mmap(NULL, d->cache_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (d->cache == MAP_FAILED) {
		d->cache = NULL;
		return err_set(e, ERR_NOMEM, "decoded samples: %zu bytes cannot be had", d->cache_bytes);
	}
	d->label = mem_try((size_t)d->cached, sizeof *d->label, "labels", e);
	d->state = mem_try((size_t)d->cached, sizeof *d->state, "sample states", e);
	return d->label && d->state ? 0 : -1;
}

struct dataset *dataset_open(const char *shards, const struct dataset_options *o, struct err *e)
{
	struct dataset *d = mem_zalloc(1, sizeof *d);
	const char *which = o->holdout ? "held-out" : "training";
	int rc;

	d->o = *o;
	rc = manifest_load(&d->manifest, shards, e);
	if (!rc && o->cluster != DATASET_ALL && (o->cluster < 0 || o->cluster >= d->manifest.clusters))
		rc = err_set(e, ERR_USAGE, "%s: no cluster %d, there are %d (0 to %d)", shards, o->cluster, d->manifest.clusters,
		             d->manifest.clusters - 1);
	if (!rc)
		rc = open_parts(d, e);
	if (!rc && !d->info.count && o->cluster == DATASET_ALL)
		rc = err_set(e, ERR_DATA, "%s: the %s part is empty", shards, which);
	else if (!rc && !d->info.count)
		rc = err_set(e, ERR_DATA, "%s: the %s part of cluster %d is empty", shards, which, o->cluster);
	if (!rc)
		rc = read_stamp(d, e) || measure(d, e);
	if (rc) {
		dataset_free(d);
		return NULL;
	}
	d->info.clusters = d->manifest.clusters;
	d->info.sizes = d->manifest.train;
	d->info.held = d->manifest.held;
	d->info.manifest_hash = d->manifest.sha256;
	return d;
}

void dataset_free(struct dataset *d)
{
	if (!d)
		return;
	for (int64_t i = 0; i < d->parts; i++) {
		shard_free(d->part[i].shard);
		mem_free(d->part[i].path);
	}
	mem_free(d->part);
	if (d->cache)
		munmap(d->cache, d->cache_bytes);
	mem_free(d->label);
	mem_free((void *)d->state);
	manifest_release(&d->manifest);
	mem_free(d);
}

const struct dataset_info *dataset_info(const struct dataset *d)
{
	return &d->info;
}

static void expand(float *x, const uint8_t *pixels, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = (float)pixels[i] / 127.5f - 1.f;
}

static void deliver(const struct dataset *d, float *x, const void *kept)
{
	if (!x)
		return;
	if (d->info.arrays)
		memcpy(x, kept, d->stride);
	else
		expand(x, kept, d->numel);
}

/* Whoever comes first fills a slot; a reader that finds it being filled decodes for itself rather than wait. */
int dataset_read(struct dataset *d, int64_t i, float *x, int32_t *label, int32_t *cluster, struct err *e)
{
	const struct part *p = find(d, i);
	struct decoded v;
	uint8_t empty = SLOT_EMPTY;

	if (cluster)
		*cluster = p->cluster;
	if (i < d->cached && atomic_load_explicit(&d->state[i], memory_order_acquire) == SLOT_READY) {
		deliver(d, x, d->cache + (size_t)i * d->stride);
		if (label)
			*label = d->label[i];
		return 0;
	}
	if (decode(&v, d, p, i, e))
		return -1;
	deliver(d, x, d->info.arrays ? (void *)v.values : v.pixels);
	if (label)
		*label = v.label;
	if (i < d->cached && atomic_compare_exchange_strong(&d->state[i], &empty, SLOT_FILLING)) {
		memcpy(d->cache + (size_t)i * d->stride, d->info.arrays ? (void *)v.values : v.pixels, d->stride);
		d->label[i] = v.label;
		atomic_store_explicit(&d->state[i], SLOT_READY, memory_order_release);
	}
	decoded_release(&v);
	return 0;
}

const char *dataset_key(struct dataset *d, int64_t i)
{
	const struct part *p = find(d, i);

	return shard_key(p->shard, i - p->first);
}
