/* A training set at random access: the index of its shards, and the cache of decoded samples. */
#include "data/dataset.h"

#include <limits.h>
#include <math.h>
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
#include "data/texthalves.h"
#include "file/manifest.h"
#include "file/npy.h"
#include "file/shard.h"
#include "net/net.h"

enum { SIDE_LIMIT = 1 << 16 };
enum slot_state { SLOT_EMPTY, SLOT_FILLING, SLOT_READY };

/* The pieces of a sample that the cache holds. */
enum { PIECE_X, PIECE_STD, PIECE_FLIP, PIECE_FLIP_STD, ARRAYS, PIECE_TEXT = ARRAYS, PIECE_POOLED, PIECES };
static const char *const members[PIECES] = {"npy", "std.npy", "flip.npy", "flip.std.npy", "text.npy", "pooled.npy"};

struct part {
	struct shard *shard;
	char *path;
	int64_t first; /* index of its first sample */
	int64_t count; /* samples in it; if they count several times, the indices begin again after them */
	int cluster;
};

struct dataset {
	struct dataset_options o;
	struct dataset_info info;
	struct manifest manifest;
	struct part *part;
	int64_t parts;
	int64_t cached;                   /* samples [0, cached) stay in memory after they are first read */
	size_t stride;                    /* bytes of a cached sample */
	size_t at[PIECES], bytes[PIECES]; /* offset and size of each piece; size 0: absent */
	uint8_t *cache;                   /* (cached, stride): pictures as bytes, arrays as floats, (C, H, W) order */
	size_t cache_bytes;
	int32_t *label, *rows;  /* [cached] */
	_Atomic uint8_t *state; /* [cached] enum slot_state */
};

/* A decoded sample. */
struct decoded {
	int channels, height, width;
	int64_t frames;      /* of a clip; 0: none */
	int array;           /* piece X is floats, not bytes */
	void *piece[PIECES]; /* text: (rows, text_width) of float16; pooled: (pooled_width) of float16 */
	int32_t label;
	int64_t rows, text_width, pooled_width;
};

static void decoded_release(struct decoded *d)
{
	for (int i = 0; i < PIECES; i++)
		mem_free(d->piece[i]);
	*d = (struct decoded){0};
}

/* Whether an array is a clip, (F, C, H, W). fast-DiT stores the latents of a picture with a batch dimension of one. */
static int is_clip(const struct npy *a)
{
	return a->rank == 4 && (a->type == NPY_U1 || a->shape[0] != 1);
}

/* The numbers of an array: floats, or, of a clip of pixels, bytes. */
static void *numbers(const struct npy *a, int pixels, const char *name, struct err *e)
{
	size_t n = (size_t)npy_count(a);
	float *v = pixels && !a->fortran ? NULL : mem_try(n, sizeof *v, name, e);
	uint8_t *bytes = pixels ? mem_try(n, 1, name, e) : NULL;

	if (v)
		npy_to_f32(v, a);
	if (!pixels)
		return v;
	for (size_t i = 0; bytes && v && i < n; i++)
		bytes[i] = (uint8_t)v[i];
	if (bytes && !a->fortran)
		memcpy(bytes, a->data, n);
	mem_free(v);
	return bytes;
}

/* All arrays of a sample must have the shape of its first. */
static int decode_array(struct decoded *out, int piece, const struct sample_member *m, const char *name, struct err *e)
{
	struct decoded was = *out;
	struct npy a;
	int64_t shape[4] = {1, 1, 1, 1};
	int rc = -1, clip, pixels, large = 0;

	if (npy_parse(&a, m->data, m->len, name, e))
		return -1;
	clip = is_clip(&a);
	pixels = clip && a.type == NPY_U1;
	for (int d = 0; d < a.rank && a.rank <= 4; d++) {
		shape[4 - a.rank + d] = a.shape[d];
		large |= a.shape[d] > SIDE_LIMIT;
	}
	if (a.rank < 2 || a.rank > 4)
		err_set(e, ERR_DATA, "%s: an array of rank %d, not (C, H, W), or of a clip (F, C, H, W)", name, a.rank);
	else if (npy_count(&a) < 1 || large)
		err_set(e, ERR_DATA, "%s: an array of impossible size", name);
	else if (pixels && shape[1] != 1 && shape[1] != 3)
		err_set(e, ERR_DATA,
		        "%s: a clip of bytes has %lld channels; pixels have 3 or 1 channels, and the shape is (frames, channels, height, width)",
		        name, (long long)shape[1]);
	else {
		out->frames = clip ? shape[0] : 0;
		out->channels = (int)shape[1];
		out->height = (int)shape[2];
		out->width = (int)shape[3];
		out->array = !pixels;
		if (piece != PIECE_X && (out->frames != was.frames || out->channels != was.channels || out->height != was.height ||
		                         out->width != was.width || out->array != was.array))
			err_set(e, ERR_DATA, "%s: %s is of another shape than npy", name, members[piece]);
		else if ((out->piece[piece] = numbers(&a, pixels, name, e)))
			rc = 0;
	}
	npy_release(&a);
	return rc;
}

static int decode_pooled(struct decoded *out, const struct sample *s, const char *name, struct err *e)
{
	const struct sample_member *m = sample_find(s, members[PIECE_POOLED]);

	if (m)
		out->piece[PIECE_POOLED] = texthalves_pooled(m->data, m->len, name, &out->pooled_width, e);
	return m && !out->piece[PIECE_POOLED] ? -1 : 0;
}

static int decode_text(struct decoded *out, const struct sample *s, const struct dataset *d, const char *name, struct err *e)
{
	const struct sample_member *m = sample_find(s, members[PIECE_TEXT]);

	if (!m)
		return err_set(e, ERR_DATA, "%s has no features of a text (%s)", name, members[PIECE_TEXT]);
	out->piece[PIECE_TEXT] = texthalves_tokens(m->data, m->len, name, d->o.text_tokens, &out->rows, &out->text_width, e);
	return !out->piece[PIECE_TEXT] || (d->o.pooled && decode_pooled(out, s, name, e)) ? -1 : 0;
}

static int decode_picture(struct decoded *out, const struct sample *s, const struct dataset_options *o, struct err *e)
{
	struct samples_options so = {.size = o->size, .channels = o->channels};
	struct picture p;
	uint8_t *pixels;
	size_t area;

	if (sample_pixels(&p, s, &so, e))
		return -1;
	area = (size_t)p.width * (size_t)p.height;
	out->channels = p.channels;
	out->height = p.height;
	out->width = p.width;
	out->piece[PIECE_X] = pixels = mem_try(area, (size_t)p.channels, "decoded picture", e);
	for (size_t i = 0; pixels && i < area; i++)
		for (int c = 0; c < p.channels; c++)
			pixels[(size_t)c * area + i] = p.pixels[i * (size_t)p.channels + (size_t)c];
	picture_release(&p);
	return pixels ? 0 : -1;
}

/* Decode a sample that is an array: the latent, its deviations, and its mirrored forms. */
static int decode_arrays(struct decoded *out, const struct sample *s, const struct dataset_options *o, const char *name, struct err *e)
{
	const int wanted[ARRAYS] = {1, o->deviations, o->mirrored, o->mirrored && o->deviations};

	for (int i = 0; i < ARRAYS; i++) {
		const struct sample_member *m = wanted[i] ? sample_find(s, members[i]) : NULL;

		if (m && decode_array(out, i, m, name, e))
			return -1;
		if (!out->array)
			return 0; /* pixels: they are mirrored where they are read */
	}
	if (o->mirrored && !out->piece[PIECE_FLIP])
		return err_set(e, ERR_DATA, "%s has no %s: unlike a picture, an array needs its mirrored version there", name, members[PIECE_FLIP]);
	if (o->mirrored && !out->piece[PIECE_STD] != !out->piece[PIECE_FLIP_STD])
		return err_set(e, ERR_DATA, "%s has %s without %s", name, members[out->piece[PIECE_STD] ? PIECE_STD : PIECE_FLIP_STD],
		               members[out->piece[PIECE_STD] ? PIECE_FLIP_STD : PIECE_STD]);
	return 0;
}

/* Check that a sample has the shape of the first one. */
static int compare(const struct decoded *x, const struct dataset *d, const char *name, struct err *e)
{
	const struct dataset_info *f = &d->info;
	char its[NET_SAMPLE_TEXT], theirs[NET_SAMPLE_TEXT];

	if (d->info.arrays != x->array)
		return err_set(e, ERR_DATA, "%s is %s, the others are not", name,
		               x->array    ? "an array"
		               : x->frames ? "a clip of pixels"
		                           : "a picture");
	if (d->info.deviations != (x->piece[PIECE_STD] != NULL))
		return err_set(e, ERR_DATA, "%s has %s %s, unlike the others", name, d->info.deviations ? "no" : "a", members[PIECE_STD]);
	if (x->text_width != d->info.text_width)
		return err_set(e, ERR_DATA, "%s has a text of width %lld, the others of %lld", name, (long long)x->text_width,
		               (long long)d->info.text_width);
	if (x->pooled_width != d->info.pooled_width)
		return err_set(e, ERR_DATA, "%s has a pooled vector of width %lld (%s), the others of %lld", name, (long long)x->pooled_width,
		               members[PIECE_POOLED], (long long)d->info.pooled_width);
	if (x->rows > d->info.text_tokens)
		return err_set(e, ERR_DATA,
		               "%s has a text of %lld tokens, and the first sample one of %lld: give the largest number with --text-tokens", name,
		               (long long)x->rows, (long long)d->info.text_tokens);
	if (x->frames == f->frames && x->channels == f->channels && x->height == f->height && x->width == f->width)
		return 0;
	return err_set(e, ERR_DATA, "%s is %s, the others are %s%s", name, net_sample_text(x->frames, x->channels, x->height, x->width, its),
	               net_sample_text(f->frames, f->channels, f->height, f->width, theirs),
	               d->info.arrays || f->frames ? "" : ": resize them (--size)");
}

/* Check that the label is below the number of classes in the manifest. */
static int check_label(int32_t label, const struct dataset *d, const char *name, struct err *e)
{
	if (label < 0 && d->o.labelled)
		return err_set(e, ERR_DATA, "%s has no class label, and with --class-dropout 0 there is no null class for it", name);
	if (d->info.classes && label >= d->info.classes)
		return err_set(e, ERR_DATA, "%s has class %d, but the manifest counts %d classes", name, (int)label, d->info.classes);
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
		rc = array ? decode_arrays(out, &s, &d->o, name, e) : decode_picture(out, &s, &d->o, e);
	if (!rc && d->o.text)
		rc = decode_text(out, &s, d, name, e);
	if (!rc && d->info.numel)
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

/* A quarter of the memory of this machine, or of its control group's limit. */
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

	(void)worker;
	j->d->part[task].shard = manifest_shard_open(&j->d->manifest, j->row[task], j->d->o.verify, &j->err[task]);
}

/* Open the shards of this part in parallel. The error reported is that of the first shard in order, for any number of threads. */
static int open_parts(struct dataset *d, struct err *e)
{
	struct open_job job = {d, mem_zalloc((size_t)d->manifest.n, sizeof *job.row), NULL};
	struct pool_pass pass = {.what = "shards"};
	int rc;

	d->part = mem_zalloc((size_t)d->manifest.n, sizeof *d->part);
	for (int64_t i = 0; i < d->manifest.n; i++) {
		const struct manifest_row *r = &d->manifest.rows[i];

		if (!wanted(d, r))
			continue;
		d->part[d->parts] = (struct part){NULL, manifest_shard_path(&d->manifest, i), d->info.count, r->samples, r->cluster};
		job.row[d->parts++] = i;
		d->info.count += r->samples * r->copies;
	}
	job.err = mem_zalloc((size_t)d->parts, sizeof *job.err);
	pass.total = d->parts;
	rc = pool_run_pass(d->o.pool, &pass, 1, d->parts, open_task, &job, e);
	for (int64_t i = 0; i < d->parts && !rc; i++)
		if (!d->part[i].shard)
			rc = err_set(e, job.err[i].code, "%s", job.err[i].msg);
	mem_free(job.err);
	mem_free(job.row);
	return rc;
}

/* Read the facts that ddm-shard recorded: the number of classes, and whether all pictures have one size. */
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

/* Bytes that a piece of a sample takes, if it has it. */
static size_t piece_bytes(const struct dataset *d, int piece)
{
	const struct dataset_info *f = &d->info;

	if (piece == PIECE_TEXT)
		return (size_t)(f->text_tokens * f->text_width) * sizeof(uint16_t);
	if (piece == PIECE_POOLED)
		return (size_t)f->pooled_width * sizeof(uint16_t);
	return (size_t)f->numel * (f->arrays ? sizeof(float) : 1);
}

/* Lay out the pieces that the first sample has, one after the other. */
static void lay_out(struct dataset *d, const struct decoded *x)
{
	for (int i = 0; i < PIECES; i++) {
		d->at[i] = d->stride;
		if (x->piece[i])
			d->bytes[i] = piece_bytes(d, i);
		d->stride += (d->bytes[i] + 3) / 4 * 4;
	}
}

/* Take shape and kind of the whole set from its first sample. */
static int measure(struct dataset *d, struct err *e)
{
	struct decoded x;
	uint64_t budget = d->o.budget ? d->o.budget : default_budget();

	if (decode(&x, d, &d->part[0], 0, e))
		return -1;
	d->info.channels = x.channels;
	d->info.height = x.height;
	d->info.width = x.width;
	d->info.frames = x.frames;
	d->info.arrays = x.array;
	d->info.deviations = x.piece[PIECE_STD] != NULL;
	d->info.text_tokens = d->o.text && d->o.text_tokens ? d->o.text_tokens : x.rows;
	d->info.text_width = x.text_width;
	d->info.pooled_width = x.pooled_width;
	d->info.numel = (x.frames ? x.frames : 1) * x.channels * x.height * x.width;
	lay_out(d, &x);
	decoded_release(&x);
	d->cached = budget / d->stride < (uint64_t)d->info.count ? (int64_t)(budget / d->stride) : d->info.count;
	if (!d->cached)
		return 0;
	/* The kernel allocates pages at the first write, so a run that reads few samples uses little memory. */
	d->info.kept_bytes = d->cache_bytes = (size_t)d->cached * d->stride;
	d->cache = mmap(NULL, d->cache_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (d->cache == MAP_FAILED) {
		d->cache = NULL;
		return err_set(e, ERR_NOMEM, "out of memory: decoded samples need %zu bytes", d->cache_bytes);
	}
	d->label = mem_try((size_t)d->cached, sizeof *d->label, "labels", e);
	d->rows = mem_try((size_t)d->cached, sizeof *d->rows, "tokens of texts", e);
	d->state = mem_try((size_t)d->cached, sizeof *d->state, "sample states", e);
	return d->label && d->rows && d->state ? 0 : -1;
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
	d->info.manifest = &d->manifest;
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
	mem_free(d->rows);
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

static void mirror(float *x, int64_t rows, int64_t width)
{
	for (int64_t r = 0; r < rows; r++, x += width)
		for (int64_t a = 0, b = width - 1; a < b; a++, b--) {
			float t = x[a];

			x[a] = x[b];
			x[b] = t;
		}
}

/* Copy a sample, from the cache or just decoded, to its places in a batch. */
static void deliver(const struct dataset *d, struct dataset_item *it, const void *const *piece)
{
	const struct dataset_info *f = &d->info;
	int x = it->mirrored && f->arrays ? PIECE_FLIP : PIECE_X;
	size_t text = (size_t)it->rows * (size_t)f->text_width * sizeof *it->text;

	if (it->x && f->arrays)
		memcpy(it->x, piece[x], d->bytes[x]);
	else if (it->x)
		expand(it->x, piece[x], d->info.numel);
	if (it->x && it->mirrored && !f->arrays)
		mirror(it->x, f->numel / f->width, f->width);
	if (it->std && f->deviations)
		memcpy(it->std, piece[x + PIECE_STD], d->bytes[PIECE_STD]);
	if (it->pooled && d->bytes[PIECE_POOLED])
		memcpy(it->pooled, piece[PIECE_POOLED], d->bytes[PIECE_POOLED]);
	if (!it->text || !d->bytes[PIECE_TEXT])
		return;
	memcpy(it->text, piece[PIECE_TEXT], text);
	memset((char *)it->text + text, 0, d->bytes[PIECE_TEXT] - text);
}

static void keep(struct dataset *d, int64_t i, const struct decoded *v)
{
	uint8_t *slot = d->cache + (size_t)i * d->stride;
	size_t text = (size_t)v->rows * (size_t)v->text_width * sizeof(uint16_t);

	for (int k = 0; k < PIECES; k++)
		if (d->bytes[k])
			memcpy(slot + d->at[k], v->piece[k], k == PIECE_TEXT ? text : d->bytes[k]);
	d->label[i] = v->label;
	d->rows[i] = (int32_t)v->rows;
	atomic_store_explicit(&d->state[i], SLOT_READY, memory_order_release);
}

/* The first reader fills a slot of the cache. Another reader that finds the slot being filled decodes the sample itself instead of waiting. */
int dataset_item(struct dataset *d, int64_t i, struct dataset_item *it, struct err *e)
{
	const struct part *p = find(d, i);
	const void *piece[PIECES];
	struct decoded v;
	uint8_t empty = SLOT_EMPTY;

	it->cluster = p->cluster;
	i = p->first + (i - p->first) % p->count;
	if (i < d->cached && atomic_load_explicit(&d->state[i], memory_order_acquire) == SLOT_READY) {
		for (int k = 0; k < PIECES; k++)
			piece[k] = d->cache + (size_t)i * d->stride + d->at[k];
		it->label = d->label[i];
		it->rows = d->rows[i];
		deliver(d, it, piece);
		return 0;
	}
	if (decode(&v, d, p, i, e))
		return -1;
	for (int k = 0; k < PIECES; k++)
		piece[k] = v.piece[k];
	it->label = v.label;
	it->rows = (int32_t)v.rows;
	deliver(d, it, piece);
	if (i < d->cached && atomic_compare_exchange_strong(&d->state[i], &empty, SLOT_FILLING))
		keep(d, i, &v);
	decoded_release(&v);
	return 0;
}

int dataset_read(struct dataset *d, int64_t i, float *x, int32_t *label, int32_t *cluster, struct err *e)
{
	struct dataset_item it = {.x = x};

	if (dataset_item(d, i, &it, e))
		return -1;
	if (label)
		*label = it.label;
	if (cluster)
		*cluster = it.cluster;
	return 0;
}

const char *dataset_key(const struct dataset *d, int64_t i, struct str *key)
{
	const struct part *p = find(d, i);

	return shard_key(p->shard, (i - p->first) % p->count, key);
}
