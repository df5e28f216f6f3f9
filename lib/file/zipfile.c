/* Reads zip archives: directory, members, checksums. */
#include "file/zipfile.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/mem.h"
#include "core/seal.h"
#include "core/str.h"
#include "file/zipimpl.h"

enum { MEMBERS_MAX = 1 << 20 };

struct zip {
	const char *where; /* owned, as the names are, by names */
	const uint8_t *data;
	size_t len;
	struct zip_member *member;
	const struct zip_member **by_name;
	int n;
	size_t directory, comment; /* where they begin */
	struct arena names;
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

static int damaged(const struct zip *z, uint64_t at, const char *what, struct err *e)
{
	return err_set(e, ERR_DATA, "%s: zip, byte %llu: %s", z->where, (unsigned long long)at, what);
}

/* The position of the central directory. */
struct directory {
	uint64_t at, size, count;
};

/* The end record, searched from the file's end behind a comment of at most 65535 bytes. */
static int find_end(const struct zip *z, size_t *at, struct err *e)
{
	size_t len = z->len;

	for (size_t i = END_BYTES; i <= len && i <= END_BYTES + 65535; i++)
		if (get32(z->data + len - i) == END && get16(z->data + len - i + 20) == i - END_BYTES) {
			*at = len - i;
			return 0;
		}
	return damaged(z, len, "no end of a zip directory: truncated, or not a zip", e);
}

static int find_directory(struct zip *z, struct directory *d, struct err *e)
{
	const uint8_t *p = z->data;
	size_t end = 0;
	uint64_t record;

	if (find_end(z, &end, e))
		return -1;
	d->count = get16(p + end + 10);
	d->size = get32(p + end + 12);
	d->at = get32(p + end + 16);
	record = end;
	if (d->count == 0xffff || d->size == 0xffffffff || d->at == 0xffffffff) {
		if (end < LOCATOR64_BYTES || get32(p + end - LOCATOR64_BYTES) != LOCATOR64)
			return damaged(z, end, "no ZIP64 locator", e);
		record = get64(p + end - LOCATOR64_BYTES + 8);
		if (record > end || end - record < END64_BYTES || get32(p + record) != END64)
			return damaged(z, end, "no ZIP64 end record", e);
		d->count = get64(p + record + 32);
		d->size = get64(p + record + 40);
		d->at = get64(p + record + 48);
	}
	if (d->at > record || d->size > record - d->at)
		return damaged(z, record, "a directory outside the file", e);
	if (d->count > MEMBERS_MAX || d->count > d->size / CENTRAL_BYTES)
		return damaged(z, record, "too many members", e);
	z->directory = d->at;
	z->comment = end + END_BYTES;
	return 0;
}

/* Sizes that did not fit into 32 bits are in extra field 1, in this order, only those that did not fit. */
static int take_zip64(struct zip_member *m, const uint8_t *x, size_t n)
{
	uint64_t *const field[] = {&m->plain, &m->packed, &m->at};

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

/* One entry of the directory; its name, of *n bytes, is not yet the member's. */
static int take_central(const struct zip *z, const struct directory *d, uint64_t *at, struct zip_member *m, const char **name, size_t *n,
                        struct err *e)
{
	const uint8_t *p = z->data + *at;
	uint64_t left = d->at + d->size - *at, all, method;
	size_t extra;

	if (left < CENTRAL_BYTES || get32(p) != CENTRAL)
		return damaged(z, *at, "a damaged directory", e);
	*n = get16(p + 28);
	extra = get16(p + 30);
	all = CENTRAL_BYTES + *n + extra + get16(p + 32);
	if (all > left)
		return damaged(z, *at, "a directory cut short", e);
	method = get16(p + 10);
	*name = (const char *)p + CENTRAL_BYTES;
	*m = (struct zip_member){
	    .packed = get32(p + 20), .plain = get32(p + 24), .at = get32(p + 42), .crc = (uint32_t)get32(p + 16), .deflated = method == 8};
	if (take_zip64(m, p + CENTRAL_BYTES + *n, extra))
		return damaged(z, *at, "a damaged ZIP64 field", e);
	if (get16(p + 8) & 1)
		return damaged(z, *at, "an encrypted member", e);
	if (method != 0 && method != 8)
		return damaged(z, *at, "a member neither stored nor deflated", e);
	if (!m->deflated && m->packed != m->plain)
		return damaged(z, *at, "a stored member of two sizes", e);
	if (!*n || memchr(*name, 0, *n))
		return damaged(z, *at, "a bad name", e);
	*at += all;
	return 0;
}

/* The member's own header, before the directory, of the same name. */
static int find_data(const struct zip *z, const struct directory *d, struct zip_member *m, const char *name, size_t n, struct err *e)
{
	const uint8_t *p = z->data + m->at;
	uint64_t head;

	if (m->at > d->at || d->at - m->at < LOCAL_BYTES || get32(p) != LOCAL)
		return damaged(z, m->at, "no member where the directory has one", e);
	head = LOCAL_BYTES + get16(p + 26) + get16(p + 28);
	if (head > d->at - m->at || m->packed > d->at - m->at - head)
		return damaged(z, m->at, "a member cut short", e);
	if (get16(p + 26) != n || memcmp(p + LOCAL_BYTES, name, n))
		return damaged(z, m->at, "a member of another name than the directory's", e);
	m->data = p + head;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(const struct zip_member *const *)a)->name, (*(const struct zip_member *const *)b)->name);
}

static int by_place(const void *a, const void *b)
{
	const struct zip_member *x = *(const struct zip_member *const *)a, *y = *(const struct zip_member *const *)b;

	return (x->at > y->at) - (x->at < y->at);
}

/* Names must be unique, and members must not overlap: with overlaps a small file could unpack to a huge one. */
static int check_members(struct zip *z, struct err *e)
{
	const struct zip_member **v = z->by_name = mem_zalloc((size_t)z->n, sizeof *v);

	for (int i = 0; i < z->n; i++)
		v[i] = z->member + i;
	if (z->n)
		qsort(v, (size_t)z->n, sizeof *v, by_place);
	for (int i = 1; i < z->n; i++)
		if (v[i - 1]->data + v[i - 1]->packed > z->data + v[i]->at)
			return damaged(z, v[i]->at, "two members in one place", e);
	if (z->n)
		qsort(v, (size_t)z->n, sizeof *v, by_name);
	for (int i = 1; i < z->n; i++)
		if (!strcmp(v[i]->name, v[i - 1]->name))
			return err_set(e, ERR_DATA, "%s: zip: two members named '%.200s'", z->where, v[i]->name);
	return 0;
}

static int load(struct zip *z, struct err *e)
{
	struct directory d;
	uint64_t at;

	if (find_directory(z, &d, e))
		return -1;
	z->member = mem_zalloc((size_t)d.count, sizeof *z->member);
	at = d.at;
	for (uint64_t i = 0; i < d.count; i++) {
		struct zip_member *m = z->member + z->n;
		const char *name = "";
		size_t n = 0;

		if (take_central(z, &d, &at, m, &name, &n, e))
			return -1;
		if (name[n - 1] == '/')
			continue;
		if (find_data(z, &d, m, name, n, e))
			return -1;
		m->name = memcpy(arena_alloc(&z->names, n + 1), name, n);
		z->n++;
	}
	return check_members(z, e);
}

struct zip *zip_open(const void *data, size_t len, const char *where, struct err *e)
{
	struct zip *z = mem_zalloc(1, sizeof *z);

	z->where = arena_strdup(&z->names, where);
	z->data = data;
	z->len = len;
	if (!load(z, e))
		return z;
	zip_free(z);
	return NULL;
}

void zip_free(struct zip *z)
{
	if (!z)
		return;
	mem_free(z->member);
	mem_free(z->by_name);
	arena_release(&z->names);
	mem_free(z);
}

int zip_members(const struct zip *z)
{
	return z->n;
}

const struct zip_member *zip_get(const struct zip *z, int i)
{
	return z->member + i;
}

const struct zip_member *zip_find(const struct zip *z, const char *name)
{
	struct zip_member key = {.name = name};
	const struct zip_member *k = &key, *const *found = z->n ? bsearch(&k, z->by_name, (size_t)z->n, sizeof k, by_name) : NULL;

	return found ? *found : NULL;
}

void *zip_inflate(const struct zip *z, const struct zip_member *m, uint64_t want, struct err *e)
{
	z_stream s = {0};
	uint8_t *out;
	uint64_t in_left = m->packed, out_left = want;
	int rc;

	/* deflate cannot shrink by more than 1032:1. */
	if (m->plain / 1100 > m->packed) {
		damaged(z, m->at, "an impossible size", e);
		return NULL;
	}
	out = mem_try(want, 1, z->where, e);
	if (!out || inflateInit2(&s, -15) != Z_OK) {
		err_set(e, ERR_NOMEM, "%s: no memory to inflate", z->where);
		mem_free(out);
		return NULL;
	}
	s.next_in = (Bytef *)(uintptr_t)m->data;
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
		damaged(z, m->at, "damaged compressed data", e);
		mem_free(out);
		return NULL;
	}
	return out;
}

int zip_check_seal(const struct zip *z, struct err *e)
{
	int64_t at = seal_find(z->data + z->comment, z->len - z->comment);
	struct str sealed = {0};
	size_t tail = z->len - z->directory;
	int holds;

	if (at < 0)
		return 0;
	for (int i = 0; i < z->n; i++)
		str_add(&sealed, (const char *)z->data + z->member[i].at, (size_t)(z->member[i].data - z->data) - z->member[i].at);
	str_add(&sealed, (const char *)z->data + z->directory, tail);
	holds = seal_holds(sealed.p, sealed.len, sealed.len - tail + (z->comment - z->directory) + (size_t)at);
	str_release(&sealed);
	return holds ? 0 : seal_broken(z->where, e);
}

int zip_check(const struct zip *z, const struct zip_member *m, const void *plain, struct err *e)
{
	return crc32_z(0, plain, (size_t)m->plain) == m->crc ? 0 : damaged(z, m->at, "altered: the checksum differs", e);
}
