/* Writes shards: frames of samples, packed in parallel and appended in order. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/shard.h"
#include "file/shardindex.h"
#include "file/spill.h"
#include "file/still.h"
#include "file/tarfile.h"

enum { LEVEL = 3, LEVEL_PACKED = -1, WORKSPACE = 1 << 20 };

static const size_t frame_max = (size_t)1 << 30;

struct shard_packer {
	int level, workers;
	ZSTD_CCtx *zstd[]; /* [workers] */
};

struct shard_writer {
	struct outfile out;
	struct shard_options o;
	struct shard_packer *packer;
	XXH3_state_t *content;
	struct sha256 sha;
	struct shard_frame frame;              /* being filled */
	struct spilled hashes, table, samples; /* the pieces of the index, encoded */
	char *first, *last;
	uint64_t frames, count, bytes, plain;
};

static int emit(struct shard_writer *w, const void *p, size_t n, struct err *e)
{
	sha256_add(&w->sha, p, n);
	return outfile_write(&w->out, p, n, e);
}

/* Empty a string, and free its memory if that is large. */
static void str_empty(struct str *s)
{
	if (s->cap > WORKSPACE)
		str_release(s);
	str_reset(s);
}

static int str_reserve(struct str *s, size_t n, struct err *e)
{
	str_reset(s);
	if (s->cap >= n)
		return 0;
	mem_free(s->p);
	s->p = mem_try(n, 1, "a frame", e);
	s->cap = s->p ? n : 0;
	return s->p ? 0 : -1;
}

struct shard_packer *shard_packer_new(int level, int workers, struct err *e)
{
	struct shard_packer *p = mem_zalloc(1, sizeof *p + (size_t)workers * sizeof *p->zstd);

	p->level = level ? level : LEVEL;
	for (; p->workers < workers; p->workers++) {
		ZSTD_CCtx *z = p->zstd[p->workers] = ZSTD_createCCtx();

		if (!z) {
			err_set(e, ERR_NOMEM, "no memory for a compressor");
			shard_packer_free(p);
			return NULL;
		}
		ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
	}
	return p;
}

void shard_packer_free(struct shard_packer *p)
{
	for (int i = 0; p && i < p->workers; i++)
		ZSTD_freeCCtx(p->zstd[i]);
	mem_free(p);
}

int shard_pack(struct shard_packer *p, int worker, struct shard_frame *f, struct err *e)
{
	ZSTD_CCtx *z = p->zstd[worker];
	size_t bound = ZSTD_compressBound(f->tar.len), n;

	str_empty(&f->packed);
	if (str_reserve(&f->packed, bound, e))
		return -1;
	ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, p->level <= LEVEL && f->pictures > f->tar.len / 2 ? LEVEL_PACKED : p->level);
	n = ZSTD_compress2(z, f->packed.p, f->packed.cap, f->tar.p, f->tar.len);
	if (ZSTD_isError(n))
		return err_set(e, ERR_NOMEM, "'%s': zstd: %s", str_text(&f->key), ZSTD_getErrorName(n));
	f->packed.len = n;
	f->hash = XXH3_64bits(f->packed.p, n);
	f->sum = shard_get32((const uint8_t *)f->packed.p + n - 4); /* zstd's checksum of the frame, also stored in the seek table */
	return 0;
}

void shard_frame_release(struct shard_frame *f)
{
	str_release(&f->key);
	str_release(&f->tar);
	str_release(&f->packed);
	*f = (struct shard_frame){0};
}

static int frame_write(struct shard_writer *w, const struct shard_frame *f, struct err *e)
{
	uint8_t hash[8], entry[SHARD_ENTRY_BYTES];

	if (w->frames >= UINT32_MAX / SHARD_ENTRY_BYTES)
		return err_set(e, ERR_DATA, "%s: too many samples for one shard", w->out.path);
	if (emit(w, f->packed.p, f->packed.len, e))
		return -1;
	XXH3_64bits_update(w->content, f->tar.p, f->tar.len);
	shard_put64(hash, f->hash);
	shard_put32(entry, (uint32_t)f->packed.len);
	shard_put32(entry + 4, (uint32_t)f->tar.len);
	shard_put32(entry + 8, f->sum);
	if (spill_add(w->o.spill, &w->hashes, hash, sizeof hash, e) || spill_add(w->o.spill, &w->table, entry, sizeof entry, e))
		return -1;
	w->bytes += f->packed.len;
	w->plain += f->tar.len;
	w->frames++;
	return 0;
}

static int frame_flush(struct shard_writer *w, struct err *e)
{
	if (!w->frame.tar.len)
		return 0;
	if (shard_pack(w->packer, 0, &w->frame, e))
		return err_prefix(e, "%s", w->out.path);
	if (frame_write(w, &w->frame, e))
		return -1;
	str_empty(&w->frame.tar);
	w->frame.pictures = 0;
	return 0;
}

struct shard_writer *shard_create(const char *path, const struct shard_options *o, struct err *e)
{
	struct shard_writer *w = mem_zalloc(1, sizeof *w);

	if (o)
		w->o = *o;
	w->packer = shard_packer_new(w->o.level, 1, e);
	w->content = hash64_state();
	if (!w->packer) {
		err_set(e, ERR_NOMEM, "%s: no memory for a compressor", path);
		shard_abort(w);
		return NULL;
	}
	sha256_init(&w->sha);
	if (outfile_open(&w->out, path, e)) {
		shard_abort(w);
		return NULL;
	}
	if (w->o.stamp) {
		tar_put_stamp(&w->frame.tar, w->o.stamp);
		if (frame_flush(w, e)) {
			shard_abort(w);
			return NULL;
		}
	}
	return w;
}

static int ext_cmp(const void *a, const void *b)
{
	return strcmp(((const struct shard_member *)a)->ext, ((const struct shard_member *)b)->ext);
}

/* The member names must split into the same key and extensions again when read. */
static int check_names(const char *key, const struct shard_member *m, int n, struct err *e)
{
	const char *base = strrchr(key, '/');

	base = base ? base + 1 : key;
	if (!*base || strchr(base, '.') || strpbrk(key, "\t\n") || !strncmp(key, "./", 2))
		return err_set(e, ERR_DATA, "'%s' cannot be the key of a sample", key);
	if (n < 1)
		return err_set(e, ERR_DATA, "'%s': a sample without members", key);
	for (int i = 0; i < n; i++) {
		char *name = str_new("%s.%s", key, m[i].ext), ext[64];
		size_t len;
		int bad = tar_key(name, &len, ext) || len != strlen(key) || strcmp(ext, m[i].ext) || strpbrk(ext, "\t\n");

		mem_free(name);
		if (bad)
			return err_set(e, ERR_DATA, "'%s': '%s' cannot be an extension", key, m[i].ext);
		if (i && !strcmp(m[i - 1].ext, m[i].ext))
			return err_set(e, ERR_DATA, "'%s': two members '.%s'", key, m[i].ext);
	}
	return 0;
}

static int put_members(struct shard_frame *f, const char *key, const struct shard_member *m, int n, struct err *e)
{
	for (int i = 0; i < n; i++) {
		char *name = str_new("%s.%s", key, m[i].ext);
		int rc = m[i].size > frame_max - f->tar.len ? err_set(e, ERR_DATA, "'%s': a sample of more than %zu bytes", key, frame_max)
		                                            : tar_put_member(&f->tar, name, m[i].data, m[i].size, e);

		mem_free(name);
		if (rc)
			return -1;
		if (still_sniff(m[i].data, m[i].size) != STILL_UNKNOWN)
			f->pictures += m[i].size;
	}
	if (f->tar.len > frame_max)
		return err_set(e, ERR_DATA, "'%s': a sample of more than %zu bytes", key, frame_max);
	return 0;
}

static int put_sample(struct shard_frame *f, const char *key, const struct shard_member *m, int n, struct err *e)
{
	struct shard_member *sorted = mem_zalloc((size_t)(n > 0 ? n : 1), sizeof *sorted);
	int rc;

	if (n > 0)
		memcpy(sorted, m, (size_t)n * sizeof *m);
	qsort(sorted, (size_t)(n > 0 ? n : 0), sizeof *sorted, ext_cmp);
	rc = check_names(key, sorted, n, e) || put_members(f, key, sorted, n, e) ? -1 : 0;
	mem_free(sorted);
	return rc;
}

int shard_frame_fill(struct shard_frame *f, const char *key, const struct shard_member *m, int n, struct err *e)
{
	str_empty(&f->tar);
	f->pictures = 0;
	str_reset(&f->key);
	str_puts(&f->key, key);
	return put_sample(f, key, m, n, e);
}

/* The sample that fills bytes [start, start + size) of the frame to be written next. */
static int note_sample(struct shard_writer *w, const char *key, size_t start, size_t size, struct err *e)
{
	uint8_t record[16];
	size_t len = strlen(key);

	shard_put32(record, (uint32_t)w->frames);
	shard_put32(record + 4, (uint32_t)start);
	shard_put32(record + 8, (uint32_t)size);
	shard_put32(record + 12, (uint32_t)len);
	if (spill_add(w->o.spill, &w->samples, record, sizeof record, e) || spill_add(w->o.spill, &w->samples, key, len, e))
		return -1;
	w->count++;
	if (!w->first)
		w->first = mem_strdup(key);
	mem_free(w->last);
	w->last = mem_strdup(key);
	return 0;
}

static int check_new(const struct shard_writer *w, const char *key, struct err *e)
{
	return w->last && !strcmp(w->last, key) ? err_set(e, ERR_DATA, "%s: two samples with the key '%s'", w->out.path, key) : 0;
}

int shard_append(struct shard_writer *w, const struct shard_frame *f, struct err *e)
{
	if (check_new(w, str_text(&f->key), e) || frame_flush(w, e))
		return -1;
	return note_sample(w, str_text(&f->key), 0, f->tar.len, e) ? -1 : frame_write(w, f, e);
}

int shard_add(struct shard_writer *w, const char *key, const struct shard_member *m, int n, struct err *e)
{
	size_t start, pictures;

	if (check_new(w, key, e))
		return -1;
	/* A frame is closed when the next sample would not fit any more. */
	if (w->frame.tar.len > frame_max / 2 && frame_flush(w, e))
		return -1;
	start = w->frame.tar.len;
	pictures = w->frame.pictures;
	if (put_sample(&w->frame, key, m, n, e)) {
		w->frame.tar.len = start;
		w->frame.pictures = pictures;
		return err_prefix(e, "%s", w->out.path);
	}
	if (note_sample(w, key, start, w->frame.tar.len - start, e))
		return -1;
	return w->frame.tar.len >= w->o.frame ? frame_flush(w, e) : 0;
}

uint64_t shard_writer_bytes(const struct shard_writer *w)
{
	return w->bytes;
}

/* The end of a shard while it is written: its bytes are hashed, and emitted unless `hashed_only`. */
struct ending {
	struct shard_writer *w;
	XXH3_state_t *hash;
	int hashed_only;
};

static int end_take(void *arg, const void *p, size_t n, struct err *e)
{
	struct ending *x = arg;

	if (x->hash)
		XXH3_64bits_update(x->hash, p, n);
	if (x->hashed_only)
		return 0;
	x->w->bytes += n;
	return emit(x->w, p, n, e);
}

static int end_seek_table(struct ending *x, struct err *e)
{
	struct shard_writer *w = x->w;
	uint8_t head[8], foot[SHARD_FOOT_BYTES];

	shard_put32(head, SHARD_TABLE_MAGIC);
	shard_put32(head + 4, (uint32_t)(spilled_bytes(&w->table) + sizeof foot));
	shard_put32(foot, (uint32_t)w->frames);
	foot[4] = 0x80;
	shard_put32(foot + 5, SHARD_SEEK_MAGIC);
	return end_take(x, head, sizeof head, e) || spill_each(w->o.spill, &w->table, end_take, x, e) || end_take(x, foot, sizeof foot, e) ? -1 : 0;
}

/* The hash that ends the index is also of the seek table behind it, so that is read twice. */
static int put_end(struct shard_writer *w, struct err *e)
{
	struct ending x = {.w = w};
	uint8_t head[16], end[SHARD_END_BYTES];
	uint64_t size;
	int rc;

	tar_put_end(&w->frame.tar);
	if (frame_flush(w, e))
		return -1;
	size = 8 + spilled_bytes(&w->hashes) + spilled_bytes(&w->samples) + SHARD_END_BYTES;
	if (size > UINT32_MAX)
		return err_set(e, ERR_DATA, "%s: too many samples for one shard", w->out.path);
	shard_put32(head, SHARD_INDEX_MAGIC);
	shard_put32(head + 4, (uint32_t)size);
	memcpy(head + 8, SHARD_NAME, 8);
	shard_put64(end, w->frames);
	shard_put64(end + 8, w->count);
	shard_put64(end + 16, w->bytes);
	shard_put64(end + 24, w->plain);
	shard_put64(end + 32, XXH3_64bits_digest(w->content));
	x.hash = hash64_state();
	rc = end_take(&x, head, sizeof head, e) || spill_each(w->o.spill, &w->hashes, end_take, &x, e) ||
	     spill_each(w->o.spill, &w->samples, end_take, &x, e) || end_take(&x, end, 40, e);
	x.hashed_only = 1;
	rc = rc || end_seek_table(&x, e);
	shard_put64(end + 40, XXH3_64bits_digest(x.hash));
	XXH3_freeState(x.hash);
	x.hash = NULL;
	x.hashed_only = 0;
	return rc || end_take(&x, end + 40, 8, e) || end_seek_table(&x, e) ? -1 : 0;
}

int shard_commit(struct shard_writer *w, struct manifest_row *row, struct err *e)
{
	int rc;

	if (!w->count)
		rc = err_set(e, ERR_DATA, "%s: a shard without samples", w->out.path);
	else
		rc = frame_flush(w, e) || put_end(w, e) || outfile_commit(&w->out, e) ? -1 : 0;
	if (!rc && row) {
		row->bytes = w->bytes;
		row->samples = (int64_t)w->count;
		sha256_end(&w->sha, row->sha256);
		row->first_key = w->first;
		row->last_key = w->last;
		w->first = w->last = NULL;
	}
	shard_abort(w);
	return rc;
}

void shard_abort(struct shard_writer *w)
{
	if (!w)
		return;
	outfile_abort(&w->out);
	shard_packer_free(w->packer);
	XXH3_freeState(w->content);
	shard_frame_release(&w->frame);
	spill_clear(w->o.spill, &w->hashes);
	spill_clear(w->o.spill, &w->table);
	spill_clear(w->o.spill, &w->samples);
	mem_free(w->first);
	mem_free(w->last);
	mem_free(w);
}
