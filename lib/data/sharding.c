/* Writes samples into shards by an assignment. */
#include "data/sharding.h"

#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "data/keyset.h"
#include "data/provenance.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/notfinite.h"
#include "file/shard.h"
#include "file/spill.h"

enum { BATCH = 64, BATCH_BYTES = 1 << 24 };

/* The shard being written for one cluster and split. */
struct stream {
	struct shard_writer *w;
	char *name;
	int64_t number;
};

/* A sample, which is read, packed and appended in three rounds. */
struct item {
	int stream;                             /* -1: there is an error instead */
	int further, also[ASSIGNMENT_CLUSTERS]; /* further streams */
	int places;                             /* how often it counts besides the first time */
	struct shard_frame frame;
	struct err err;
};

struct batch {
	int n, end; /* end: this is the last batch */
	struct item item[BATCH];
};

struct sharding {
	const char *dir;
	struct sharding_options o;
	struct assignment *a;
	char *stamp;
	/* [streams]: training and held out of each cluster; then both for 2, 3, .. copies; then all of that for further samples */
	struct stream *stream;
	int streams;
	struct spill *spill; /* indexes of the open shards */
	struct manifest_row *row;
	int64_t rows;
	uint8_t *seen;        /* a bit for each row of the assignment */
	struct keyset others; /* keys without a row */
	int repeated;         /* a key appears twice: no sample to skip, but an error */
	int32_t classes;
	int sides[2], unequal; /* smaller and larger side of the first picture */
	json_t *provenance;    /* of the training part (data/provenance.h) */

	struct samples *samples;
	struct sharding_result *result;
	struct shard_packer *packer;
	struct batch *batch[3]; /* being read, packed, appended */
	struct err err;         /* of appending */
};

/* The stream of a cluster and split, where each sample counts as `copies`. */
static int stream_of(const struct sharding *z, int cluster, int held, int further, int copies)
{
	return ((further * MANIFEST_COPIES + copies - 1) * 2 + held) * z->a->clusters + cluster;
}

static int stream_held(const struct sharding *z, int i)
{
	return i / z->a->clusters % 2;
}

static int stream_open(struct sharding *z, int i, struct err *e)
{
	struct stream *t = &z->stream[i];
	struct shard_options so = {.level = z->o.level, .stamp = z->stamp, .spill = z->spill};
	int kind = i / z->a->clusters / 2;
	char *path, *slash;
	int rc;

	t->name = manifest_shared_name(i % z->a->clusters, stream_held(z, i), kind / MANIFEST_COPIES, kind % MANIFEST_COPIES + 1, t->number++);
	path = path_join(z->dir, t->name);
	slash = strrchr(path, '/');
	*slash = 0;
	rc = dir_make(path, e);
	*slash = '/';
	if (!rc)
		t->w = shard_create(path, &so, e);
	mem_free(path);
	return t->w ? 0 : -1;
}

static int stream_close(struct sharding *z, int i, struct err *e)
{
	struct stream *t = &z->stream[i];
	struct manifest_row r = {.path = t->name, .cluster = i % z->a->clusters, .holdout = stream_held(z, i)};
	int rc = shard_commit(t->w, &r, e);

	t->w = NULL;
	t->name = NULL;
	if (rc) {
		manifest_row_release(&r);
		return -1;
	}
	z->row = mem_resize(z->row, (size_t)z->rows + 1, sizeof *z->row);
	z->row[z->rows++] = r;
	return 0;
}

/* Facts for the manifest. A picture's orientation may swap its sides, so they are compared without order. */
static int note(struct sharding *z, const struct sample *x, struct err *e)
{
	const struct sample_member *m = sample_find(x, "npy") ? NULL : sample_picture(x);
	struct err ignored = {0};
	int32_t label;
	int w, h;

	if (sample_class(x, &label, e))
		return -1;
	if (label >= z->classes)
		z->classes = label + 1;
	if (!m || still_size(m->data, m->len, "", &w, &h, &ignored))
		return 0;
	if (!z->sides[0]) {
		z->sides[0] = w < h ? w : h;
		z->sides[1] = w < h ? h : w;
	}
	z->unequal |= z->sides[0] != (w < h ? w : h) || z->sides[1] != (w < h ? h : w);
	return 0;
}

/* Find the streams for a sample. Returns that of its cluster, or -1 if the sample is bad. */
static int place(struct sharding *z, const struct sample *x, struct item *it, struct err *e)
{
	int64_t row = assignment_find(z->a, x->key);
	const int32_t *further;
	int cluster, held, n, own = 1;

	z->repeated = row < 0 ? keyset_add(&z->others, x->key) : z->seen[row / 8] >> row % 8 & 1;
	if (z->repeated)
		return err_set(e, ERR_DATA, "%s: the key \"%s\" appears twice", x->origin, x->key);
	if (row < 0)
		return err_set(e, ERR_DATA, "%s: the sample \"%s\" is not in the assignment", x->origin, x->key);
	z->seen[row / 8] |= (uint8_t)(1 << row % 8);
	if (note(z, x, e) || assignment_get(z->a, row, &cluster, &held, e))
		return -1;
	n = assignment_further(z->a, row, &further);
	it->further = 0;
	for (int i = 0; i < n; i++) {
		int copies = 1, first = 1;

		for (int j = 0; j < n; j++) {
			copies += j != i && further[j] == further[i];
			first &= j >= i || further[j] != further[i];
		}
		if (further[i] == cluster)
			own++;
		else if (first)
			it->also[it->further++] = stream_of(z, further[i], held, 1, copies);
	}
	it->places = n;
	return stream_of(z, cluster, held, 0, own);
}

/* Reject NaN and infinity: training would skip every step with such a sample. */
static int check_finite(const struct sample *x, struct err *e)
{
	for (int i = 0; i < x->n; i++) {
		int64_t n = notfinite_count(x->member[i].ext, x->member[i].data, x->member[i].len);

		if (n)
			return err_set(e, ERR_DATA,
			               "%s: the sample \"%s\": %lld number%s of its %s %s NaN or infinite; --skip-bad leaves such samples out",
			               x->origin, x->key, (long long)n, n == 1 ? "" : "s", x->member[i].ext, n == 1 ? "is" : "are");
	}
	return 0;
}

/* Count what the sample says of its origin in each cluster that is trained on it. */
static void note_origin(struct sharding *z, const struct sample *x, const struct item *it)
{
	const struct sample_member *m = sample_find(x, "json");

	for (int i = -1; m && !stream_held(z, it->stream) && i < it->further; i++)
		provenance_add(z->provenance, m->data, m->len, (i < 0 ? it->stream : it->also[i]) % z->a->clusters, z->a->clusters, 1);
}

/* Read the next sample of the assignment: 1; 0 at the end; -1 on error. */
static int item_read(struct sharding *z, struct item *it, struct err *e)
{
	struct shard_member *m;
	struct sample x;
	int rc;

	while ((rc = z->o.encoding ? encoding_next(z->o.encoding, &x, e) : samples_next(z->samples, &x, e)) > 0) {
		it->stream = place(z, &x, it, e);
		if (it->stream >= 0 && !check_finite(&x, e))
			break;
		if (z->repeated || samples_bad(z->samples, e))
			return -1;
	}
	if (rc <= 0)
		return rc;
	note_origin(z, &x, it);
	m = mem_zalloc((size_t)x.n, sizeof *m);
	for (int i = 0; i < x.n; i++)
		m[i] = (struct shard_member){x.member[i].ext, x.member[i].data, x.member[i].len};
	rc = shard_frame_fill(&it->frame, x.key, m, x.n, e) ? -1 : 1;
	mem_free(m);
	return rc;
}

static void batch_read(struct sharding *z, struct batch *b)
{
	size_t bytes = 0;
	int rc = 1;

	for (b->n = 0; b->n < BATCH && bytes < BATCH_BYTES && rc > 0; b->n += rc != 0) {
		struct item *it = &b->item[b->n];

		it->err = (struct err){0};
		rc = item_read(z, it, &it->err);
		if (rc < 0)
			it->stream = -1;
		bytes += it->frame.tar.len;
	}
	b->end = rc <= 0;
}

static int stream_append(struct sharding *z, int i, const struct item *it, struct err *e)
{
	struct stream *t = &z->stream[i];

	if ((!t->w && stream_open(z, i, e)) || shard_append(t->w, &it->frame, e))
		return -1;
	return shard_writer_bytes(t->w) >= z->o.shard_size ? stream_close(z, i, e) : 0;
}

static int item_append(struct sharding *z, const struct item *it, struct err *e)
{
	if (it->stream < 0 || it->err.code)
		return err_set(e, it->err.code, "%s", it->err.msg);
	if (stream_append(z, it->stream, it, e))
		return -1;
	for (int i = 0; i < it->further; i++)
		if (stream_append(z, it->also[i], it, e))
			return -1;
	z->result->further += it->places;
	if (!stream_held(z, it->stream))
		z->result->train++;
	else
		z->result->held++;
	return 0;
}

/* Task 0 reads the next batch, 1 appends the last one, the others pack the samples of the one between. */
static void pass_task(void *arg, int64_t task, int worker)
{
	struct sharding *z = arg;

	if (task == 0) {
		if (!z->o.encoding && !z->batch[1]->end && !z->batch[2]->end)
			batch_read(z, z->batch[0]);
	} else if (task == 1) {
		for (int i = 0; i < z->batch[2]->n; i++)
			if (item_append(z, &z->batch[2]->item[i], &z->err))
				return;
	} else {
		struct item *it = &z->batch[1]->item[task - 2];

		if (it->stream >= 0)
			shard_pack(z->packer, worker, &it->frame, &it->err);
	}
}

/* Every round moves all three batches one stage on. The order of appending does not depend on the threads. */
static int fill(struct sharding *z, struct err *e)
{
	const struct sharding_result *r = z->result;

	for (int end = 0; !end;) {
		struct batch *done = z->batch[2];

		/* Encoders use all threads, so they run alone. */
		if (z->o.encoding && !z->batch[1]->end && !z->batch[2]->end)
			batch_read(z, z->batch[0]);
		pool_run(z->o.pool, 2 + z->batch[1]->n, pass_task, z);
		if (z->err.code)
			return err_set(e, z->err.code, "%s", z->err.msg);
		if (progress_tell(z->o.progress, "samples", r->train + r->held, z->a->rows))
			return err_set(e, ERR_AGAIN, "interrupted");
		end = done->end;
		done->n = done->end = 0;
		z->batch[2] = z->batch[1];
		z->batch[1] = z->batch[0];
		z->batch[0] = done;
	}
	return 0;
}

static int check_unused(struct sharding *z, struct sharding_result *r, const struct samples *s, struct err *e)
{
	const char *key;
	int64_t first = -1;

	for (int64_t i = 0; i < z->a->rows; i++)
		if (!(z->seen[i / 8] >> i % 8 & 1)) {
			first = first < 0 ? i : first;
			r->unused++;
		}
	if (!r->unused || samples_settings(s)->skip_bad)
		return 0;
	key = assignment_key(z->a, first, e);
	return err_set(e, ERR_DATA, "\"%s\" is in the assignment, but there is no such sample (%lld of %lld are missing)", key ? key : "?",
	               (long long)r->unused, (long long)z->a->rows);
}

/* Write an array of the empty text, and its hash into the object `files`. */
static int write_null(const struct sharding *z, const char *name, const struct str *npy, json_t *files, struct err *e)
{
	char *path = path_join(z->dir, name), sha[65];
	int rc = commit_bytes(path, npy->p, npy->len, e) || sha256_file(path, sha, NULL, e) ? -1 : 0;

	if (!rc)
		json_object_set_new(files, name, json_string(sha));
	mem_free(path);
	return rc;
}

/* null-text.npy and null-pooled.npy, and their hashes in the stamp. */
static int write_null_text(const struct sharding *z, struct stamp *stamp, struct err *e)
{
	json_t *files = json_object();
	struct str npy = {0}, pooled = {0};
	int rc = encoding_null_text(z->o.encoding, &npy, &pooled, e) || write_null(z, "null-text.npy", &npy, files, e) ? -1 : 0;

	if (!rc && pooled.len)
		rc = write_null(z, "null-pooled.npy", &pooled, files, e);
	stamp_json(stamp, "files", files);
	str_release(&npy);
	str_release(&pooled);
	return rc;
}

/* Add the samples' class names, if there are enough of them. */
static void put_class_names(struct sharding *z, struct stamp *stamp)
{
	const json_t *names = samples_class_names(z->samples);

	z->result->names_lacking = names && json_array_size(names) < (size_t)z->classes;
	if (names && !z->result->names_lacking)
		stamp_json(stamp, "class_names", json_incref((json_t *)(uintptr_t)names));
}

static int finish(struct sharding *z, struct sharding_result *r, struct samples *s, struct stamp *stamp, struct err *e)
{
	char digest[65];

	for (int i = 0; i < z->streams; i++)
		if (z->stream[i].w && stream_close(z, i, e))
			return -1;
	r->shards = z->rows;
	if (!z->rows)
		return err_set(e, ERR_DATA, "no sample is in the assignment");
	samples_digest(s, digest);
	stamp_input(stamp, "samples", digest);
	stamp_text(stamp, "partition", z->a->partition);
	if (z->a->extends)
		stamp_json(stamp, "extends", json_incref(z->a->extends));
	if (z->a->names)
		stamp_json(stamp, "cluster_names", json_incref(z->a->names));
	put_class_names(z, stamp);
	if (json_object_size(z->provenance))
		stamp_json(stamp, "provenance", json_incref(z->provenance));
	stamp_i64(stamp, "classes", z->classes);
	stamp_json(stamp, "equal_sizes", json_boolean(!z->unequal));
	if (z->o.encoding && encoding_reads_texts(z->o.encoding) && write_null_text(z, stamp, e))
		return -1;
	return manifest_write(z->dir, z->row, z->rows, z->a->clusters, stamp, e);
}

int sharding_run(struct sharding_result *r, const char *dir, struct samples *s, struct assignment *a, struct stamp *stamp,
                 const struct sharding_options *o, struct err *e)
{
	struct sharding z = {.dir = dir, .o = *o, .a = a, .samples = s, .result = r};
	int rc;

	*r = (struct sharding_result){0};
	for (int i = 0; i < 3; i++)
		z.batch[i] = mem_zalloc(1, sizeof *z.batch[i]);
	if (o->encoding)
		encoding_begin(o->encoding, s);
	z.packer = shard_packer_new(o->level, pool_threads(o->pool), e);
	if (!z.o.shard_size)
		z.o.shard_size = (uint64_t)256 << 20;
	z.stamp = stamp_line(stamp);
	z.streams = (a->also >= 0 ? 4 * MANIFEST_COPIES : 2) * a->clusters;
	z.stream = mem_zalloc((size_t)z.streams, sizeof *z.stream);
	z.seen = mem_zalloc((size_t)a->rows / 8 + 1, 1);
	z.spill = spill_new(dir);
	z.provenance = json_object();
	rc = z.packer ? fill(&z, e) : -1;
	if (!rc)
		rc = check_unused(&z, r, s, e);
	if (!rc)
		rc = finish(&z, r, s, stamp, e);
	for (int i = 0; i < z.streams; i++) {
		shard_abort(z.stream[i].w);
		mem_free(z.stream[i].name);
	}
	for (int64_t i = 0; i < z.rows; i++)
		manifest_row_release(&z.row[i]);
	for (int i = 0; i < 3 * BATCH; i++)
		shard_frame_release(&z.batch[i / BATCH]->item[i % BATCH].frame);
	for (int i = 0; i < 3; i++)
		mem_free(z.batch[i]);
	shard_packer_free(z.packer);
	json_decref(z.provenance);
	mem_free(z.row);
	mem_free(z.stream);
	mem_free(z.seen);
	keyset_release(&z.others);
	spill_free(z.spill);
	mem_free(z.stamp);
	return rc;
}
