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
#include "file/tarfile.h"

enum { LEVEL = 3 };

static const size_t frame_max = (size_t)1 << 30;

struct shard_writer {
	struct outfile out;
	struct shard_options o;
	ZSTD_CCtx *zstd;
	XXH3_state_t *content;
	struct sha256 sha;
	struct str tar;    /* the frame being filled */
	struct str packed;
	struct str hashes, table, samples; /* the pieces of the index, encoded */
	char *first, *last;
	uint64_t frames, count, bytes, plain;
};

static void put32(struct str *s, uint64_t v)
{
	uint8_t b[4];

	shard_put32(b, (uint32_t)v);
	str_add(s, b, 4);
}

static void put64(struct str *s, uint64_t v)
{
	uint8_t b[8];

	shard_put64(b, v);
	str_add(s, b, 8);
}

static int emit(struct shard_writer *w, const void *p, size_t n, struct err *e)
{
	sha256_add(&w->sha, p, n);
	return outfile_write(&w->out, p, n, e);
}

static int frame_flush(struct shard_writer *w, struct err *e)
{
	size_t bound = ZSTD_compressBound(w->tar.len), n;

	if (!w->tar.len)
		return 0;
	if (w->frames >= UINT32_MAX / SHARD_ENTRY_BYTES)
		return err_set(e, ERR_DATA, "%s: too many samples for one shard", w->out.path);
	str_reset(&w->packed);
	if (w->packed.cap < bound) {
		mem_free(w->packed.p);
		w->packed.p = mem_try(bound, 1, w->out.path, e);
		w->packed.cap = w->packed.p ? bound : 0;
		if (!w->packed.p)
			return -1;
	}
	n = ZSTD_compress2(w->zstd, w->packed.p, w->packed.cap, w->tar.p, w->tar.len);
	if (ZSTD_isError(n))
		return err_set(e, ERR_NOMEM, "%s: zstd: %s", w->out.path, ZSTD_getErrorName(n));
	if (emit(w, w->packed.p, n, e))
		return -1;
	XXH3_64bits_update(w->content, w->tar.p, w->tar.len);
	put64(&w->hashes, XXH3_64bits(w->packed.p, n));
	put32(&w->table, n);
	put32(&w->table, w->tar.len);
	put32(&w->table, XXH64(w->tar.p, w->tar.len, 0));
	w->bytes += n;
	w->plain += w->tar.len;
	w->frames++;
	str_reset(&w->tar);
	return 0;
}

struct shard_writer *shard_create(const char *path, const struct shard_options *o, struct err *e)
{
	struct shard_writer *w = mem_zalloc(1, sizeof *w);

	if (o)
		w->o = *o;
	w->zstd = ZSTD_createCCtx();
	w->content = XXH3_createState();
	if (!w->zstd || !w->content) {
		err_set(e, ERR_NOMEM, "%s: no memory for a compressor", path);
		shard_abort(w);
		return NULL;
	}
	XXH3_64bits_reset(w->content);
	sha256_init(&w->sha);
	ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, w->o.level ? w->o.level : LEVEL);
	ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_checksumFlag, 1);
	if (outfile_open(&w->out, path, e)) {
		shard_abort(w);
		return NULL;
	}
	if (w->o.stamp) {
		tar_put_stamp(&w->tar, w->o.stamp);
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

/* The names must come apart again into this key and these extensions. */
static int check_names(const struct shard_writer *w, const char *key, const struct shard_member *m, int n, struct err *e)
{
	const char *base = strrchr(key, '/');

	base = base ? base + 1 : key;
	if (!*base || strchr(base, '.') || strpbrk(key, "\t\n") || !strncmp(key, "./", 2))
		return err_set(e, ERR_DATA, "%s: '%s' cannot be the key of a sample", w->out.path, key);
	if (w->last && !strcmp(w->last, key))
		return err_set(e, ERR_DATA, "%s: two samples with the key '%s'", w->out.path, key);
	if (n < 1)
		return err_set(e, ERR_DATA, "%s: '%s': a sample without members", w->out.path, key);
	for (int i = 0; i < n; i++) {
		char *name = str_new("%s.%s", key, m[i].ext), ext[64];
		size_t len;
		int bad = tar_key(name, &len, ext) || len != strlen(key) || strcmp(ext, m[i].ext) || strpbrk(ext, "\t\n");

		mem_free(name);
		if (bad)
			return err_set(e, ERR_DATA, "%s: '%s': '%s' cannot be an extension", w->out.path, key, m[i].ext);
		if (i && !strcmp(m[i - 1].ext, m[i].ext))
			return err_set(e, ERR_DATA, "%s: '%s': two members '.%s'", w->out.path, key, m[i].ext);
	}
	return 0;
}

static int put_sample(struct shard_writer *w, const char *key, const struct shard_member *m, int n, struct err *e)
{
	size_t start = w->tar.len;

	for (int i = 0; i < n; i++) {
		char *name = str_new("%s.%s", key, m[i].ext);
		int rc = m[i].size > frame_max - w->tar.len ?
		             err_set(e, ERR_DATA, "%s: '%s': a sample of more than %zu bytes", w->out.path, key, frame_max) :
		             tar_put_member(&w->tar, name, m[i].data, m[i].size, e);

		mem_free(name);
		if (rc)
			return -1;
	}
	if (w->tar.len > frame_max)
		return err_set(e, ERR_DATA, "%s: '%s': a sample of more than %zu bytes", w->out.path, key, frame_max);
	put32(&w->samples, w->frames);
	put32(&w->samples, start);
	put32(&w->samples, w->tar.len - start);
	put32(&w->samples, strlen(key));
	str_puts(&w->samples, key);
	return 0;
}

int shard_add(struct shard_writer *w, const char *key, const struct shard_member *m, int n, struct err *e)
{
	struct shard_member *sorted = mem_zalloc((size_t)(n > 0 ? n : 1), sizeof *sorted);
	int rc;

	if (n > 0)
		memcpy(sorted, m, (size_t)n * sizeof *m);
	qsort(sorted, (size_t)(n > 0 ? n : 0), sizeof *sorted, ext_cmp);
	rc = check_names(w, key, sorted, n, e);
	/* A frame is closed when the next sample would not fit any more. */
	if (!rc && w->tar.len > frame_max / 2)
		rc = frame_flush(w, e);
	if (!rc)
		rc = put_sample(w, key, sorted, n, e);
	mem_free(sorted);
	if (rc)
		return -1;
	w->count++;
	if (!w->first)
		w->first = mem_strdup(key);
	mem_free(w->last);
	w->last = mem_strdup(key);
	return w->tar.len >= w->o.frame ? frame_flush(w, e) : 0;
}

int64_t shard_writer_count(const struct shard_writer *w)
{
	return (int64_t)w->count;
}

uint64_t shard_writer_bytes(const struct shard_writer *w)
{
	return w->bytes;
}

static int put_end(struct shard_writer *w, struct err *e)
{
	struct str index = {0}, table = {0};
	XXH3_state_t *h = XXH3_createState();
	uint64_t size;
	int rc;

	tar_put_end(&w->tar);
	if (frame_flush(w, e)) {
		XXH3_freeState(h);
		return -1;
	}
	size = 8 + w->hashes.len + w->samples.len + SHARD_END_BYTES;
	if (size > UINT32_MAX) {
		XXH3_freeState(h);
		return err_set(e, ERR_DATA, "%s: too many samples for one shard", w->out.path);
	}
	put32(&index, SHARD_INDEX_MAGIC);
	put32(&index, size);
	str_add(&index, SHARD_NAME, 8);
	str_add(&index, w->hashes.p, w->hashes.len);
	str_add(&index, w->samples.p, w->samples.len);
	put64(&index, w->frames);
	put64(&index, w->count);
	put64(&index, w->bytes);
	put64(&index, w->plain);
	put64(&index, XXH3_64bits_digest(w->content));
	put32(&table, SHARD_TABLE_MAGIC);
	put32(&table, w->table.len + SHARD_FOOT_BYTES);
	str_add(&table, w->table.p, w->table.len);
	put32(&table, w->frames);
	str_add(&table, "\x80", 1);
	put32(&table, SHARD_SEEK_MAGIC);
	XXH3_64bits_reset(h);
	XXH3_64bits_update(h, index.p, index.len);
	XXH3_64bits_update(h, table.p, table.len);
	put64(&index, XXH3_64bits_digest(h));
	XXH3_freeState(h);
	rc = emit(w, index.p, index.len, e) || emit(w, table.p, table.len, e) ? -1 : 0;
	w->bytes += index.len + table.len;
	str_release(&index);
	str_release(&table);
	return rc;
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
	ZSTD_freeCCtx(w->zstd);
	XXH3_freeState(w->content);
	str_release(&w->tar);
	str_release(&w->packed);
	str_release(&w->hashes);
	str_release(&w->table);
	str_release(&w->samples);
	mem_free(w->first);
	mem_free(w->last);
	mem_free(w);
}
