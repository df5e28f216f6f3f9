/* .npz: the zip archives numpy writes (PKWARE APPNOTE 6.3.10: stored and deflated members, ZIP64). */
#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "core/mem.h"
#include "file/commit.h"
#include "file/npy.h"

enum {
	LOCAL = 0x04034b50,
	CENTRAL = 0x02014b50,
	END = 0x06054b50,
	END64 = 0x06064b50,
	LOCATOR64 = 0x07064b50,
	LOCAL_BYTES = 30,
	CENTRAL_BYTES = 46,
	END_BYTES = 22,
	END64_BYTES = 56,
	LOCATOR64_BYTES = 20,
	DATE_1980 = 0x21,
	ENTRIES_MAX = 65535,
	PEEK = 1 << 16 /* a header of version 1 is no longer */
};

struct entry {
	char *name;
	struct npy a;
	void *plain; /* inflated, or NULL where the array points into the file */
};

struct npz {
	char *where;
	struct filemap map;
	const uint8_t *data;
	size_t len;
	int peek; /* headers only */
	struct entry *entry;
	int n;
};

static uint32_t get16(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint64_t get32(const uint8_t *p)
{
	return get16(p) | (uint64_t)get16(p + 2) << 16;
}

static uint64_t get64(const uint8_t *p)
{
	return get32(p) | get32(p + 4) << 32;
}

static int damaged(const struct npz *z, uint64_t at, const char *what, struct err *e)
{
	return err_set(e, ERR_DATA, "%s: zip, byte %llu: %s", z->where, (unsigned long long)at, what);
}

/* One line of the directory. */
struct member {
	uint64_t packed, plain, local;
	uint32_t crc;
	int method;
	const char *name;
	size_t name_len;
};

/* The end record, searched from the file's end behind a comment of at most 65535 bytes. */
static int find_end(const struct npz *z, size_t *at, struct err *e)
{
	size_t len = z->len;

	for (size_t i = END_BYTES; i <= len && i <= END_BYTES + 65535; i++)
		if (get32(z->data + len - i) == END && get16(z->data + len - i + 20) == i - END_BYTES) {
			*at = len - i;
			return 0;
		}
	return damaged(z, len, "no end of a zip directory: truncated, or not an npz", e);
}

static int find_directory(const struct npz *z, uint64_t *at, uint64_t *count, struct err *e)
{
	const uint8_t *p = z->data;
	size_t end = 0;
	uint64_t size, record;

	if (find_end(z, &end, e))
		return -1;
	*count = get16(p + end + 10);
	size = get32(p + end + 12);
	*at = get32(p + end + 16);
	record = end;
	if (*count == 0xffff || size == 0xffffffff || *at == 0xffffffff) {
		if (end < LOCATOR64_BYTES || get32(p + end - LOCATOR64_BYTES) != LOCATOR64)
			return damaged(z, end, "no ZIP64 locator", e);
		record = get64(p + end - LOCATOR64_BYTES + 8);
		if (record > end || end - record < END64_BYTES || get32(p + record) != END64)
			return damaged(z, end, "no ZIP64 end record", e);
		*count = get64(p + record + 32);
		size = get64(p + record + 40);
		*at = get64(p + record + 48);
	}
	if (*at > record || size > record - *at)
		return damaged(z, record, "a directory outside the file", e);
	if (*count > ENTRIES_MAX || *count > size / CENTRAL_BYTES)
		return damaged(z, record, "too many members", e);
	return 0;
}

/* Sizes that did not fit into 32 bits are in extra field 1, in this order, only those that did not fit. */
static int take_zip64(struct member *m, const uint8_t *x, size_t n)
{
	uint64_t *const field[] = {&m->plain, &m->packed, &m->local};

	while (n >= 4) {
		size_t id = get16(x), len = get16(x + 2), at = 4;

		if (len > n - 4)
			return -1;
		for (int i = 0; id == 1 && i < 3; i++) {
			if (*field[i] != 0xffffffff)
				continue;
			if (at + 8 > len + 4)
				return -1;
			*field[i] = get64(x + at);
			at += 8;
		}
		x += 4 + len;
		n -= 4 + len;
	}
	return 0;
}

static int take_central(const struct npz *z, uint64_t *at, struct member *m, struct err *e)
{
	const uint8_t *p = z->data + *at;
	size_t left = z->len - (size_t)*at, name, extra, all;

	if (left < CENTRAL_BYTES || get32(p) != CENTRAL)
		return damaged(z, *at, "a damaged directory", e);
	name = get16(p + 28);
	extra = get16(p + 30);
	all = CENTRAL_BYTES + name + extra + get16(p + 32);
	if (all > left)
		return damaged(z, *at, "a directory cut short", e);
	*m = (struct member){.packed = get32(p + 20), .plain = get32(p + 24), .local = get32(p + 42), .crc = (uint32_t)get32(p + 16),
	                     .method = (int)get16(p + 10), .name = (const char *)p + CENTRAL_BYTES, .name_len = name};
	if (take_zip64(m, p + CENTRAL_BYTES + name, extra))
		return damaged(z, *at, "a damaged ZIP64 field", e);
	if (get16(p + 8) & 1)
		return damaged(z, *at, "an encrypted member", e);
	if (m->method != 0 && m->method != 8)
		return damaged(z, *at, "a member neither stored nor deflated", e);
	if (!name || memchr(m->name, 0, name))
		return damaged(z, *at, "a bad name", e);
	*at += all;
	return 0;
}

static const uint8_t *find_data(const struct npz *z, const struct member *m, struct err *e)
{
	const uint8_t *p = z->data + m->local;
	uint64_t len = z->len, head;

	if (m->local > len || len - m->local < LOCAL_BYTES || get32(p) != LOCAL) {
		damaged(z, m->local, "no member where the directory has one", e);
		return NULL;
	}
	head = LOCAL_BYTES + get16(p + 26) + get16(p + 28);
	if (head > len - m->local || m->packed > len - m->local - head) {
		damaged(z, m->local, "a member cut short", e);
		return NULL;
	}
	return p + head;
}

/* The first `want` of m->plain bytes. */
static void *inflate_member(const struct npz *z, const struct member *m, const uint8_t *data, uint64_t want, struct err *e)
{
	z_stream s = {0};
	uint8_t *out = NULL;
	uint64_t in_left = m->packed, out_left = want;
	int rc;

	/* deflate cannot shrink by more than 1032:1. */
	if (m->plain / 1100 > m->packed) {
		damaged(z, m->local, "an impossible size", e);
		return NULL;
	}
	out = mem_try(want, 1, z->where, e);
	if (!out || inflateInit2(&s, -15) != Z_OK) {
		err_set(e, ERR_NOMEM, "%s: no memory to inflate", z->where);
		mem_free(out);
		return NULL;
	}
	s.next_in = (Bytef *)(uintptr_t)data;
	s.next_out = out;
	do {
		uInt in = in_left < INT_MAX ? (uInt)in_left : INT_MAX, room = out_left < INT_MAX ? (uInt)out_left : INT_MAX;

		s.avail_in = in;
		s.avail_out = room;
		rc = inflate(&s, Z_NO_FLUSH);
		in_left -= in - s.avail_in;
		out_left -= room - s.avail_out;
	} while (rc == Z_OK && (in_left || out_left));
	inflateEnd(&s);
	if (want < m->plain ? rc != Z_OK || out_left : rc != Z_STREAM_END || in_left || out_left) {
		damaged(z, m->local, "damaged compressed data", e);
		mem_free(out);
		return NULL;
	}
	return out;
}

static int take_member(struct npz *z, const struct member *m, struct err *e)
{
	const uint8_t *data = find_data(z, m, e);
	struct entry *x = z->entry + z->n;
	size_t n = m->name_len;
	uint64_t have;

	if (!data)
		return -1;
	if (n > 4 && !memcmp(m->name + n - 4, ".npy", 4))
		n -= 4;
	*x = (struct entry){.name = str_new("%.*s", (int)n, m->name)};
	z->n++;
	for (int i = 0; i + 1 < z->n; i++)
		if (!strcmp(z->entry[i].name, x->name))
			return err_set(e, ERR_DATA, "%s: two arrays named '%s'", z->where, x->name);
	have = z->peek && m->plain > PEEK ? PEEK : m->plain;
	if (m->method == 8) {
		data = x->plain = inflate_member(z, m, data, have, e);
		if (!data)
			return -1;
	} else if (m->packed != m->plain) {
		return damaged(z, m->local, "a stored member of two sizes", e);
	}
	if (!z->peek && crc32_z(0, data, (size_t)m->plain) != m->crc)
		return damaged(z, m->local, "altered: the checksum differs", e);
	return npy_parse_head(&x->a, data, (size_t)have, (size_t)m->plain, x->name, e) ? err_prefix(e, "%s", z->where) : 0;
}

static int load(struct npz *z, struct err *e)
{
	uint64_t at, count;

	if (find_directory(z, &at, &count, e))
		return -1;
	z->entry = mem_zalloc((size_t)count, sizeof *z->entry);
	for (uint64_t i = 0; i < count; i++) {
		struct member m;

		if (take_central(z, &at, &m, e))
			return -1;
		if (m.name[m.name_len - 1] != '/' && take_member(z, &m, e))
			return -1;
	}
	return 0;
}

/* Takes z, also when it fails. */
static struct npz *loaded(struct npz *z, const void *data, size_t len, struct err *e)
{
	z->data = data;
	z->len = len;
	if (!load(z, e))
		return z;
	npz_free(z);
	return NULL;
}

struct npz *npz_load(const char *path, struct err *e)
{
	struct npz *z = mem_zalloc(1, sizeof *z);

	z->where = mem_strdup(path);
	if (filemap_open(&z->map, path, e)) {
		npz_free(z);
		return NULL;
	}
	return loaded(z, z->map.data, z->map.len, e);
}

struct npz *npz_parse(const void *data, size_t len, const char *name, struct err *e)
{
	struct npz *z = mem_zalloc(1, sizeof *z);

	z->where = mem_strdup(name);
	return loaded(z, data, len, e);
}

struct npz *npz_peek(const void *data, size_t len, const char *name, struct err *e)
{
	struct npz *z = mem_zalloc(1, sizeof *z);

	z->where = mem_strdup(name);
	z->peek = 1;
	return loaded(z, data, len, e);
}

void npz_free(struct npz *z)
{
	if (!z)
		return;
	for (int i = 0; i < z->n; i++) {
		mem_free(z->entry[i].name);
		mem_free(z->entry[i].plain);
	}
	mem_free(z->entry);
	filemap_close(&z->map);
	mem_free(z->where);
	mem_free(z);
}

int npz_entries(const struct npz *z)
{
	return z->n;
}

const char *npz_name(const struct npz *z, int i)
{
	return z->entry[i].name;
}

const struct npy *npz_find(const struct npz *z, const char *name)
{
	for (int i = 0; i < z->n; i++)
		if (!strcmp(z->entry[i].name, name))
			return &z->entry[i].a;
	return NULL;
}

static void put16(struct str *s, uint64_t v)
{
	uint8_t b[2] = {(uint8_t)v, (uint8_t)(v >> 8)};

	str_add(s, b, 2);
}

static void put32(struct str *s, uint64_t v)
{
	put16(s, v);
	put16(s, v >> 16);
}

static void put64(struct str *s, uint64_t v)
{
	put32(s, v);
	put32(s, v >> 32);
}

/* What local header and directory share: version needed, flags, method, time, date, crc, sizes, name length, extra length. */
static void put_common(struct str *s, const char *name, uint32_t crc, size_t extra)
{
	put16(s, 45);
	put16(s, 0);
	put16(s, 0);
	put16(s, 0);
	put16(s, DATE_1980);
	put32(s, crc);
	put32(s, 0xffffffff);
	put32(s, 0xffffffff);
	put16(s, strlen(name) + 4);
	put16(s, extra);
}

/* Sizes and place always in ZIP64 fields: one form for any size. */
static void put_local(struct str *s, const char *name, uint32_t crc, uint64_t size)
{
	put32(s, LOCAL);
	put_common(s, name, crc, 20);
	str_printf(s, "%s.npy", name);
	put16(s, 1);
	put16(s, 16);
	put64(s, size);
	put64(s, size);
}

static void put_central(struct str *s, const char *name, uint32_t crc, uint64_t size, uint64_t at)
{
	put32(s, CENTRAL);
	put16(s, 45);
	put_common(s, name, crc, 28);
	put16(s, 0);
	put16(s, 0);
	put16(s, 0);
	put32(s, 0);
	put32(s, 0xffffffff);
	str_printf(s, "%s.npy", name);
	put16(s, 1);
	put16(s, 24);
	put64(s, size);
	put64(s, size);
	put64(s, at);
}

static void put_end(struct str *s, int n, uint64_t at)
{
	uint64_t size = s->len;

	put32(s, END64);
	put64(s, END64_BYTES - 12);
	put16(s, 45);
	put16(s, 45);
	put32(s, 0);
	put32(s, 0);
	put64(s, (uint64_t)n);
	put64(s, (uint64_t)n);
	put64(s, size);
	put64(s, at);
	put32(s, LOCATOR64);
	put32(s, 0);
	put64(s, at + size);
	put32(s, 1);
	put32(s, END);
	put16(s, 0);
	put16(s, 0);
	put16(s, 0xffff);
	put16(s, 0xffff);
	put32(s, 0xffffffff);
	put32(s, 0xffffffff);
	put16(s, 0);
}

static int write_entries(struct outfile *o, const struct npz_entry *x, int n, struct str *directory, struct err *e)
{
	struct str head = {0};
	uint64_t at = 0;
	int rc = 0;

	for (int i = 0; i < n && !rc; i++) {
		size_t size = npy_type_size(x[i].type);
		struct str npy = {0};
		uint32_t crc;

		for (int d = 0; d < x[i].rank; d++)
			size *= (size_t)x[i].shape[d];
		npy_encode(&npy, x[i].type, x[i].rank, x[i].shape, NULL);
		crc = (uint32_t)crc32_z(0, (const Bytef *)npy.p, npy.len);
		if (size) /* of nothing, crc32_z gives 0 instead of what it was given */
			crc = (uint32_t)crc32_z(crc, x[i].data, size);
		put_central(directory, x[i].name, crc, npy.len + size, at);
		str_reset(&head);
		put_local(&head, x[i].name, crc, npy.len + size);
		rc = outfile_write(o, head.p, head.len, e) || outfile_write(o, npy.p, npy.len, e) || outfile_write(o, x[i].data, size, e);
		at += head.len + npy.len + size;
		str_release(&npy);
	}
	put_end(directory, n, at);
	str_release(&head);
	return rc ? -1 : outfile_write(o, directory->p, directory->len, e);
}

int npz_write(const char *path, const struct npz_entry *entries, int n, struct err *e)
{
	struct str directory = {0};
	struct outfile o = {0};
	int rc;

	rc = outfile_open(&o, path, e) || write_entries(&o, entries, n, &directory, e) ? -1 : outfile_commit(&o, e);
	outfile_abort(&o);
	str_release(&directory);
	return rc;
}
