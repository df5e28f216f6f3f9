/* Reads shards: index, frames, samples at random, and verification of every byte. */
#include "file/shard.h"

#include <pthread.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/bytesource.h"
#include "file/fileio.h"
#include "file/remoteinput.h"
#include "file/shardindex.h"
#include "file/tarfile.h"

struct frame {
	uint64_t offset, hash;
	uint32_t packed, plain, sum;
};

/* A sample's record in the index. */
struct sample_at {
	uint32_t frame, offset, bytes, key_len;
	const char *key; /* not terminated */
};

enum { IDLE = 16, RECORD = 16, STEP = 8 };

/* The index stays as it is stored: mapped from the file, so that the kernel may drop its pages, or in memory if it came from a server. Of every
 * STEP-th frame and sample it is noted where it lies; those between are found by walking from there. */
struct shard {
	char *path; /* for messages */
	struct bytesource *source;
	struct filemap map;
	uint8_t *memory;                        /* without a map */
	const uint8_t *hashes, *entry, *record; /* in the index: 8 bytes a frame; SHARD_ENTRY_BYTES a frame; the samples */
	uint32_t records;                       /* bytes of the samples */
	uint64_t *frame_at;                     /* [frames / STEP + 1] offset in the file of frame STEP i */
	uint32_t *sample_at;                    /* [count / STEP + 1] offset in `record` of sample STEP i */
	uint64_t frames, count, packed, plain, content;
	struct str stamp;
	pthread_mutex_t lock; /* of the idle decompressors */
	ZSTD_DCtx *idle[IDLE];
	int nidle;
};

static int damaged(const struct shard *s, uint64_t offset, const char *what, struct err *e)
{
	return err_set(e, ERR_DATA, "%s: at byte %llu: %s", s->path, (unsigned long long)offset, what);
}

/* Exactly n bytes at offset. */
static int read_at(const struct shard *s, void *p, size_t n, uint64_t offset, struct err *e)
{
	size_t got;

	if (bytesource_read_at(s->source, p, n, offset, &got, e))
		return -1;
	return got == n ? 0 : damaged(s, offset + got, "the file ends too early", e);
}

/* Both skippable frames in one buffer. *table is where the second one starts in it. */
static const uint8_t *load_tail(struct shard *s, uint64_t size, size_t *len, size_t *table, struct err *e)
{
	uint8_t foot[SHARD_FOOT_BYTES], end[SHARD_END_BYTES];
	uint64_t frames, table_len;

	if (size < SHARD_FOOT_BYTES || read_at(s, foot, sizeof foot, size - sizeof foot, e)) {
		damaged(s, size, "too short for a shard", e);
		return NULL;
	}
	if (shard_get32(foot + 5) != SHARD_SEEK_MAGIC || foot[4] != 0x80) {
		damaged(s, size, "no seek table at the end: truncated, or not one of our shards", e);
		return NULL;
	}
	frames = shard_get32(foot);
	table_len = 8 + frames * SHARD_ENTRY_BYTES + SHARD_FOOT_BYTES;
	if (table_len + SHARD_END_BYTES > size || read_at(s, end, sizeof end, size - table_len - sizeof end, e)) {
		damaged(s, size, "a seek table larger than the file", e);
		return NULL;
	}
	s->frames = shard_get64(end);
	s->count = shard_get64(end + 8);
	s->packed = shard_get64(end + 16);
	s->plain = shard_get64(end + 24);
	s->content = shard_get64(end + 32);
	if (s->frames != frames || s->packed > size - table_len - sizeof end) {
		damaged(s, size - table_len - sizeof end, "index and seek table disagree: truncated or altered", e);
		return NULL;
	}
	*len = (size_t)(size - s->packed);
	*table = (size_t)(*len - table_len);
	if (bytesource_map(s->source, &s->map, s->packed, *len))
		return s->map.data;
	s->memory = mem_try(*len, 1, s->path, e);
	return s->memory && !read_at(s, s->memory, *len, s->packed, e) ? s->memory : NULL;
}

static int check_tail(const struct shard *s, const uint8_t *p, size_t len, size_t table, struct err *e)
{
	XXH3_state_t *h = hash64_state();
	uint64_t got;

	XXH3_64bits_update(h, p, table - 8);
	XXH3_64bits_update(h, p + table, len - table);
	got = XXH3_64bits_digest(h);
	XXH3_freeState(h);
	if (got != shard_get64(p + table - 8))
		return damaged(s, s->packed, "the index is altered (its hash differs)", e);
	if (table < 16 + SHARD_END_BYTES || shard_get32(p) != SHARD_INDEX_MAGIC || shard_get32(p + 4) != table - 8 || memcmp(p + 8, SHARD_NAME, 8) ||
	    shard_get32(p + table) != SHARD_TABLE_MAGIC || shard_get32(p + table + 4) != len - table - 8)
		return damaged(s, s->packed, "the index is not one of ddm-shard", e);
	return 0;
}

/* Walk through the frames: note where they lie, and check that they fill the file up to the index. */
static int take_frames(struct shard *s, struct err *e)
{
	uint64_t packed = 0, plain = 0;

	s->frame_at = mem_try(s->frames / STEP + 1, sizeof *s->frame_at, s->path, e);
	if (!s->frame_at)
		return -1;
	for (uint64_t i = 0; i < s->frames; i++) {
		const uint8_t *entry = s->entry + SHARD_ENTRY_BYTES * i;

		if (i % STEP == 0)
			s->frame_at[i / STEP] = packed;
		packed += shard_get32(entry);
		plain += shard_get32(entry + 4);
	}
	if (packed != s->packed || plain != s->plain)
		return damaged(s, s->packed, "the sizes of the frames do not add up", e);
	return 0;
}

static struct frame frame_get(const struct shard *s, uint64_t i)
{
	const uint8_t *entry = s->entry + SHARD_ENTRY_BYTES * i;
	struct frame f = {.offset = s->frame_at[i / STEP],
	                  .hash = shard_get64(s->hashes + 8 * i),
	                  .packed = shard_get32(entry),
	                  .plain = shard_get32(entry + 4),
	                  .sum = shard_get32(entry + 8)};

	for (uint64_t before = i % STEP; before; before--)
		f.offset += shard_get32(entry - SHARD_ENTRY_BYTES * before);
	return f;
}

/* Read the record at *at and advance *at. Its bytes are in `record`, whatever they say. */
static int record_read(const struct shard *s, struct sample_at *a, uint32_t *at, struct err *e)
{
	const uint8_t *p = s->record + *at;
	uint32_t left = s->records - *at;

	if (left < RECORD || shard_get32(p + 12) > left - RECORD)
		return damaged(s, s->packed, "the index is cut short", e);
	*a = (struct sample_at){shard_get32(p), shard_get32(p + 4), shard_get32(p + 8), shard_get32(p + 12), (const char *)p + RECORD};
	*at += RECORD + a->key_len;
	return 0;
}

static int record_check(const struct shard *s, const struct sample_at *a, struct err *e)
{
	if (a->frame >= s->frames || (uint64_t)a->offset + a->bytes > shard_get32(s->entry + SHARD_ENTRY_BYTES * (uint64_t)a->frame + 4) ||
	    !a->key_len || memchr(a->key, 0, a->key_len))
		return damaged(s, s->packed, "the index places a sample outside the file", e);
	return 0;
}

/* Walk through the samples: check each, and note where their records lie. */
static int take_samples(struct shard *s, struct err *e)
{
	struct sample_at a;
	uint32_t at = 0;

	if (s->count > s->records / RECORD)
		return damaged(s, s->packed, "more samples than the index has room for", e);
	s->sample_at = mem_try(s->count / STEP + 1, sizeof *s->sample_at, s->path, e);
	if (!s->sample_at)
		return -1;
	for (uint64_t i = 0; i < s->count; i++) {
		if (i % STEP == 0)
			s->sample_at[i / STEP] = at;
		if (record_read(s, &a, &at, e) || record_check(s, &a, e))
			return -1;
	}
	return at == s->records ? 0 : damaged(s, s->packed, "the index is too long", e);
}

/* A mapped index may have been altered since it was checked, so each record is checked again. */
static int sample_get(const struct shard *s, uint64_t i, struct sample_at *a, struct err *e)
{
	uint32_t at = s->sample_at[i / STEP];

	for (uint64_t before = i % STEP + 1; before; before--)
		if (record_read(s, a, &at, e))
			return -1;
	return record_check(s, a, e);
}

static ZSTD_DCtx *borrow(struct shard *s)
{
	ZSTD_DCtx *d = NULL;

	pthread_mutex_lock(&s->lock);
	if (s->nidle)
		d = s->idle[--s->nidle];
	pthread_mutex_unlock(&s->lock);
	return d ? d : ZSTD_createDCtx();
}

static void give_back(struct shard *s, ZSTD_DCtx *d)
{
	pthread_mutex_lock(&s->lock);
	if (s->nidle < IDLE) {
		s->idle[s->nidle++] = d;
		d = NULL;
	}
	pthread_mutex_unlock(&s->lock);
	ZSTD_freeDCtx(d);
}

static int unpack(struct shard *s, const struct frame *f, const void *packed, void *plain, struct err *e)
{
	ZSTD_DCtx *d;
	size_t n;

	if (XXH3_64bits(packed, f->packed) != f->hash)
		return damaged(s, f->offset, "a frame is altered (its hash differs)", e);
	/* Before decompressing: the frame must declare the size in the table. */
	if (ZSTD_getFrameContentSize(packed, f->packed) != f->plain)
		return damaged(s, f->offset, "a frame's size disagrees with the seek table", e);
	d = borrow(s);
	if (!d)
		return err_set(e, ERR_NOMEM, "%s: no memory for a decompressor", s->path);
	n = ZSTD_decompressDCtx(d, plain, f->plain, packed, f->packed);
	give_back(s, d);
	if (ZSTD_isError(n) && ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation)
		return err_set(e, ERR_NOMEM, "%s: no memory to decompress", s->path);
	if (ZSTD_isError(n))
		return damaged(s, f->offset, ZSTD_getErrorName(n), e);
	if (n != f->plain || (uint32_t)XXH64(plain, n, 0) != f->sum)
		return damaged(s, f->offset, "a frame's content disagrees with the seek table", e);
	return 0;
}

/* One whole frame; caller frees with mem_free. */
static uint8_t *load_frame(struct shard *s, const struct frame *f, struct err *e)
{
	uint8_t *packed = mem_try(f->packed, 1, s->path, e), *plain = NULL;

	/* zstd cannot shrink by more than this factor, so a larger size is false; refuse it before allocating. */
	if (packed && f->plain / 200000 > f->packed)
		damaged(s, f->offset, "a frame promises an impossible size", e);
	else if (packed && !read_at(s, packed, f->packed, f->offset, e))
		plain = mem_try(f->plain, 1, s->path, e);
	if (plain && unpack(s, f, packed, plain, e)) {
		mem_free(plain);
		plain = NULL;
	}
	mem_free(packed);
	return plain;
}

/* A frame before the first sample holds only the stamp. */
static int take_stamp(struct shard *s, struct err *e)
{
	struct str name = {0};
	struct sample_at first;
	struct tar_member m;
	struct frame f;
	uint8_t *p;
	size_t pos = 0;
	int rc = 0;

	if (!s->count)
		return 0;
	if (sample_get(s, 0, &first, e))
		return -1;
	if (first.frame == 0)
		return 0;
	f = frame_get(s, 0);
	p = load_frame(s, &f, e);
	if (!p)
		return -1;
	if (tar_parse(p, f.plain, &pos, &m, &name, &s->stamp, s->path, e) != 0)
		rc = damaged(s, 0, "the first frame is not a stamp", e);
	str_release(&name);
	mem_free(p);
	return rc;
}

static int load(struct shard *s, struct err *e)
{
	size_t len, table;
	const uint8_t *p = load_tail(s, (uint64_t)bytesource_size(s->source), &len, &table, e);

	if (!p)
		return -1;
	if (table < 16 + SHARD_END_BYTES || s->frames > (table - 16 - SHARD_END_BYTES) / 8)
		return damaged(s, s->packed, "the index is not one of ddm-shard", e);
	if (check_tail(s, p, len, table, e))
		return -1;
	s->hashes = p + 16;
	s->record = s->hashes + 8 * s->frames;
	s->records = (uint32_t)(p + table - SHARD_END_BYTES - s->record);
	s->entry = p + table + 8;
	if (take_frames(s, e) || take_samples(s, e) || take_stamp(s, e))
		return -1;
	bytesource_trim(s->source);
	return 0;
}

struct shard *shard_open(const char *path, struct err *e)
{
	struct shard *s = mem_zalloc(1, sizeof *s);

	s->path = remote_shown(path);
	pthread_mutex_init(&s->lock, NULL);
	s->source = bytesource_open_seekable(path, e);
	if (!s->source || load(s, e)) {
		shard_free(s);
		return NULL;
	}
	return s;
}

void shard_free(struct shard *s)
{
	if (!s)
		return;
	bytesource_close(s->source);
	for (int i = 0; i < s->nidle; i++)
		ZSTD_freeDCtx(s->idle[i]);
	pthread_mutex_destroy(&s->lock);
	str_release(&s->stamp);
	filemap_close(&s->map);
	mem_free(s->memory);
	mem_free(s->frame_at);
	mem_free(s->sample_at);
	mem_free(s->path);
	mem_free(s);
}

uint64_t shard_bytes(const struct shard *s)
{
	return (uint64_t)bytesource_size(s->source);
}

int64_t shard_count(const struct shard *s)
{
	return (int64_t)s->count;
}

const char *shard_key(const struct shard *s, int64_t i, struct str *key)
{
	struct sample_at a;

	str_reset(key);
	if (!sample_get(s, (uint64_t)i, &a, NULL))
		str_add(key, a.key, a.key_len);
	return str_text(key);
}

/* A frame may hold several samples, so the place in it counts too. */
uint64_t shard_mark(const struct shard *s, int64_t i)
{
	uint64_t at[3] = {0};
	struct sample_at a;

	if (!sample_get(s, (uint64_t)i, &a, NULL)) {
		at[0] = frame_get(s, a.frame).hash;
		at[1] = a.offset;
		at[2] = a.bytes;
	}
	return XXH3_64bits(at, sizeof at);
}

void shard_totals(const struct shard *s, struct shard_totals *t)
{
	*t = (struct shard_totals){s->frames, s->count, s->packed, s->plain, s->content};
}

const char *shard_stamp(const struct shard *s)
{
	return s->stamp.len ? s->stamp.p : NULL;
}

void shard_sample_release(struct shard_sample *s)
{
	mem_free(s->memory);
	*s = (struct shard_sample){0};
}

static int count_members(const uint8_t *tar, size_t len, const char *where, struct err *e)
{
	struct tar_member m;
	struct str name = {0};
	size_t pos = 0;
	int n = 0, rc;

	while ((rc = tar_parse(tar, len, &pos, &m, &name, NULL, where, e)) == 1)
		n++;
	str_release(&name);
	return rc ? -1 : n;
}

/* Cut a sample's tar, `where` in the file, into members. One allocation holds the array, the extensions, the key and the contents (aligned to 16). */
static int split(const struct shard *s, const struct sample_at *a, uint64_t where, const uint8_t *tar, struct shard_sample *out, struct err *e)
{
	int n = count_members(tar, a->bytes, s->path, e), k = 0, rc = 0;
	size_t own = (size_t)(n > 0 ? n : 0) * (sizeof(struct shard_member) + 64), head = (own + a->key_len + 64) & ~(size_t)63, pos = 0, at = head;
	struct shard_member *member;
	char *key;
	struct str name = {0};
	struct tar_member m;
	uint8_t *mem;

	if (n < 1)
		return damaged(s, where, "a sample without members", e);
	mem = mem_try(head + a->bytes, 1, s->path, e);
	if (!mem)
		return -1;
	member = (struct shard_member *)mem;
	key = (char *)mem + own;
	memcpy(key, a->key, a->key_len);
	for (; !rc && k < n && tar_parse(tar, a->bytes, &pos, &m, &name, NULL, s->path, e) == 1; k++) {
		char *ext = (char *)(member + n) + 64 * k;
		size_t key_len;

		if (tar_key(m.name, &key_len, ext) || key_len != a->key_len || memcmp(m.name, key, key_len))
			rc = err_set(e, ERR_DATA, "%s: at byte %llu: member '%s' where the index has key '%s'", s->path, (unsigned long long)where,
			             m.name, key);
		memcpy(mem + at, m.data, m.size);
		member[k] = (struct shard_member){ext, mem + at, m.size};
		at += (m.size + 15) & ~(size_t)15;
	}
	str_release(&name);
	*out = (struct shard_sample){key, n, member, mem};
	if (rc)
		shard_sample_release(out);
	return rc;
}

int shard_read(struct shard *s, int64_t i, struct shard_sample *out, struct err *e)
{
	struct sample_at a;
	struct frame f;
	uint8_t *tar;
	int rc;

	*out = (struct shard_sample){0};
	if (sample_get(s, (uint64_t)i, &a, e))
		return -1;
	f = frame_get(s, a.frame);
	tar = load_frame(s, &f, e);
	if (!tar)
		return -1;
	/* Of a mapped index that is altered meanwhile, the sizes may not be those that record_check saw. */
	if ((uint64_t)a.offset + a.bytes > f.plain)
		rc = damaged(s, f.offset, "the index is altered", e);
	else
		rc = split(s, &a, f.offset, tar + a.offset, out, e);
	mem_free(tar);
	return rc;
}

/* The samples of frame number f, which start at *i, must fill it from start to end. */
static int verify_frame(struct shard *s, uint64_t number, const struct frame *f, const uint8_t *tar, uint64_t *i, struct err *e)
{
	uint32_t at = 0;

	for (; *i < s->count; ++*i) {
		struct shard_sample one;
		struct sample_at a;

		if (sample_get(s, *i, &a, e))
			return -1;
		if (a.frame != number)
			break;
		if (a.offset != at)
			return damaged(s, f->offset, "bytes between two samples", e);
		if (a.bytes > f->plain - at)
			return damaged(s, f->offset, "the index is altered", e);
		if (split(s, &a, f->offset, tar + at, &one, e))
			return -1;
		shard_sample_release(&one);
		at += a.bytes;
	}
	if (at)
		return at == f->plain ? 0 : damaged(s, f->offset, "bytes after the last sample of a frame", e);
	if (number == 0)
		return 0;
	if (number + 1 != s->frames || count_members(tar, f->plain, s->path, e))
		return damaged(s, f->offset, "a frame that is not in the index", e);
	return 0;
}

int shard_verify(struct shard *s, struct err *e)
{
	XXH3_state_t *h = hash64_state();
	uint64_t i = 0;
	int rc = 0;

	for (uint64_t n = 0; n < s->frames && !rc; n++) {
		struct frame f = frame_get(s, n);
		uint8_t *tar = load_frame(s, &f, e);

		if (tar)
			XXH3_64bits_update(h, tar, f.plain);
		rc = tar ? verify_frame(s, n, &f, tar, &i, e) : -1;
		mem_free(tar);
	}
	if (!rc && i != s->count)
		rc = damaged(s, s->packed, "the index lists samples out of order", e);
	if (!rc && XXH3_64bits_digest(h) != s->content)
		rc = damaged(s, s->packed, "the content differs from its hash", e);
	XXH3_freeState(h);
	return rc;
}

int shard_sniff(const char *path, struct err *e)
{
	struct err none = {0};
	struct bytesource *s = remote_is_url(path) ? bytesource_open(path, e) : bytesource_open_seekable(path, &none);
	int64_t size = s && bytesource_is_seekable(s) ? bytesource_size(s) : 0;
	uint8_t magic[4], foot[SHARD_FOOT_BYTES];
	size_t got = 0;
	int yes = 0;

	/* The first bytes of a URL are there once it is open; the last are another request. */
	if (size > SHARD_FOOT_BYTES && !bytesource_read_at(s, magic, sizeof magic, 0, &got, NULL) && got == sizeof magic &&
	    shard_get32(magic) == ZSTD_MAGICNUMBER && !bytesource_read_at(s, foot, sizeof foot, (uint64_t)size - SHARD_FOOT_BYTES, &got, NULL))
		yes = got == sizeof foot && shard_get32(foot + 5) == SHARD_SEEK_MAGIC && foot[4] == 0x80;
	bytesource_close(s);
	return s || !remote_is_url(path) ? yes : -1;
}
