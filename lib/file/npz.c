/* .npz: the zip archives numpy writes, read by file/zipfile and written here: stored members, always with ZIP64 fields. */
#include <assert.h>
#include <string.h>
#include <zlib.h>

#include "core/mem.h"
#include "core/seal.h"
#include "file/commit.h"
#include "file/npy.h"
#include "file/zipfile.h"
#include "file/zipimpl.h"

enum {
	DATE_1980 = 0x21,
	PEEK = 1 << 16 /* a header of version 1 is no longer */
};

struct entry {
	char *name;
	struct npy a;
	void *plain; /* the inflated bytes; NULL if the array points into the file */
};

struct npz {
	char *where;
	struct filemap map;
	struct zip *zip;
	int peek; /* headers only */
	struct entry *entry;
	int n;
};

static int take_member(struct npz *z, const struct zip_member *m, struct err *e)
{
	const void *data = m->data;
	struct entry *x = z->entry + z->n;
	size_t n = strlen(m->name), end = n > 4 && str_ends(m->name, ".npy") ? 4 : 0;
	uint64_t have = z->peek && m->plain > PEEK ? PEEK : m->plain;

	*x = (struct entry){.name = mem_strndup(m->name, n - end)};
	z->n++;
	if (end && zip_find(z->zip, x->name))
		return err_set(e, ERR_DATA, "%s: two arrays named '%s'", z->where, x->name);
	if (m->deflated && !(data = x->plain = zip_inflate(z->zip, m, have, e)))
		return -1;
	if (!z->peek && zip_check(z->zip, m, data, e))
		return -1;
	return npy_parse_head(&x->a, data, (size_t)have, (size_t)m->plain, x->name, e) ? err_prefix(e, "%s", z->where) : 0;
}

static int load(struct npz *z, const void *data, size_t len, struct err *e)
{
	int members;

	z->zip = zip_open(data, len, z->where, e);
	if (!z->zip)
		return -1;
	members = zip_members(z->zip);
	z->entry = mem_zalloc((size_t)members, sizeof *z->entry);
	for (int i = 0; i < members; i++)
		if (take_member(z, zip_get(z->zip, i), e))
			return -1;
	return z->peek ? 0 : zip_check_seal(z->zip, e);
}

/* Takes ownership of z, also on failure. */
static struct npz *loaded(struct npz *z, const void *data, size_t len, struct err *e)
{
	if (!load(z, data, len, e))
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
	zip_free(z->zip);
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

const struct npy *npz_get(const struct npz *z, int i)
{
	return &z->entry[i].a;
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

/* The fields common to local header and directory entry: version needed, flags, method, time, date, crc, sizes, name length, extra length. */
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
	put16(s, SEAL_BYTES);
	str_puts(s, SEAL_BLANK);
}

/* Seals the headers of all members and the directory behind them, as zip_check_seal reads them. */
static void seal_directory(struct str *headers, struct str *directory)
{
	str_add(headers, directory->p, directory->len);
	seal_put(headers->p, headers->len, headers->len - SEAL_BYTES);
	memcpy(directory->p, headers->p + headers->len - directory->len, directory->len);
}

static int write_entries(struct outfile *o, const struct npz_entry *x, int n, struct str *directory, struct err *e)
{
	struct str head = {0}, headers = {0};
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
		str_add(&headers, head.p, head.len);
		rc = outfile_write(o, head.p, head.len, e) || outfile_write(o, npy.p, npy.len, e) || outfile_write(o, x[i].data, size, e);
		at += head.len + npy.len + size;
		str_release(&npy);
	}
	put_end(directory, n, at);
	seal_directory(&headers, directory);
	str_release(&headers);
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

enum { LOCAL_CRC = 14 }; /* offset of the checksum in a local header */

int npz_start(struct npz_stream *s, struct outfile *o, const char *name, enum npy_type type, int rank, const int64_t *shape, struct err *e)
{
	struct str head = {0}, npy = {0};
	int rc;

	if (!o->place)
		return err_set(e, ERR_USAGE, "%s: an .npz is written to a file, not to a stream", o->path);
	*s = (struct npz_stream){o, name, npy_type_size(type), 0, 0};
	for (int d = 0; d < rank; d++)
		s->size *= (uint64_t)shape[d];
	s->left = s->size;
	npy_encode(&npy, type, rank, shape, NULL);
	s->size += npy.len;
	s->crc = (uint32_t)crc32_z(0, (const Bytef *)npy.p, npy.len);
	put_local(&head, name, 0, s->size);
	rc = outfile_write(o, head.p, head.len, e) || outfile_write(o, npy.p, npy.len, e) ? -1 : 0;
	str_release(&head);
	str_release(&npy);
	return rc;
}

int npz_add(struct npz_stream *s, const void *data, size_t bytes, struct err *e)
{
	assert(bytes <= s->left);
	s->left -= bytes;
	if (bytes)
		s->crc = (uint32_t)crc32_z(s->crc, data, bytes);
	return outfile_write(s->out, data, bytes, e);
}

int npz_finish(struct npz_stream *s, struct err *e)
{
	struct str end = {0}, head = {0}, headers = {0};
	int rc;

	assert(!s->left);
	put_local(&head, s->name, s->crc, s->size);
	put_central(&end, s->name, s->crc, s->size, 0);
	put_end(&end, 1, head.len + s->size);
	str_add(&headers, head.p, head.len);
	seal_directory(&headers, &end);
	rc = outfile_write(s->out, end.p, end.len, e);
	if (!rc && (fseeko(s->out->file, LOCAL_CRC, SEEK_SET) || outfile_write(s->out, head.p + LOCAL_CRC, sizeof s->crc, e) ||
	            fseeko(s->out->file, 0, SEEK_END)))
		rc = err_errno(e, "%s: write", s->out->path);
	str_release(&headers);
	str_release(&head);
	str_release(&end);
	return rc;
}
