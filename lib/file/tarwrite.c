/* Writes tar: USTAR, with pax headers for names that do not fit, and parses exactly this form (POSIX.1-2017 pax(1)). */
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/seal.h"
#include "file/fileio.h"
#include "file/tarfile.h"
#include "file/tarseal.h"

static const uint64_t size_max = (uint64_t)1 << 33; /* eleven octal digits */

static void put_header(struct str *out, const char *prefix, size_t prefix_len, const char *name, size_t name_len, size_t size, char type)
{
	char h[512] = {0};
	unsigned sum = 0;

	memcpy(h, name, name_len);
	memcpy(h + 100, "0000644", 8);
	memcpy(h + 108, "0000000", 8);
	memcpy(h + 116, "0000000", 8);
	snprintf(h + 124, 12, "%011llo", (unsigned long long)size);
	memcpy(h + 136, "00000000000", 12);
	memset(h + 148, ' ', 8);
	h[156] = type;
	memcpy(h + 257, "ustar\00000", 8);
	memcpy(h + 329, "0000000", 8);
	memcpy(h + 337, "0000000", 8);
	memcpy(h + 345, prefix, prefix_len);
	for (size_t i = 0; i < sizeof h; i++)
		sum += (unsigned char)h[i];
	snprintf(h + 148, 8, "%06o", sum & 0777777);
	str_add(out, h, sizeof h);
}

static void put_content(struct str *out, const void *data, size_t size)
{
	static const char zeros[512];

	str_add(out, data, size);
	str_add(out, zeros, (512 - size % 512) % 512);
}

/* "LENGTH key=value\n", where LENGTH counts itself. */
static void put_record(struct str *out, const char *key, const char *value)
{
	size_t body = strlen(key) + strlen(value) + 3, len = body + 1;

	for (size_t digits = 1, limit = 10; len >= limit; digits++, limit *= 10)
		len = body + digits + 1;
	str_printf(out, "%zu %s=%s\n", len, key, value);
}

static void put_pax(struct str *out, const char *name, char type, const struct str *records)
{
	put_header(out, "", 0, name, strlen(name), records->len, type);
	put_content(out, records->p, records->len);
}

/* Where to cut a long name into prefix (155) and name (100), or 0. */
static size_t split_at(const char *name, size_t n)
{
	for (size_t i = n < 156 ? n - 1 : 155; i > 0 && n - i - 1 <= 100; i--)
		if (name[i] == '/' && n - i - 1 > 0)
			return i;
	return 0;
}

/* sealed: the pax header bears a blank seal. */
static int put_member(struct str *out, const char *name, const void *data, size_t size, int sealed, struct err *e)
{
	size_t n = strlen(name), cut;
	struct str records = {0};

	if (!n || name[n - 1] == '/')
		return err_set(e, ERR_DATA, "'%s' is not a name for a file in a tar", name);
	if (size >= size_max)
		return err_set(e, ERR_DATA, "'%s': %zu bytes are too many for one file in a tar", name, size);
	cut = n <= 100 ? 0 : split_at(name, n);
	if (n > 100 && !cut)
		put_record(&records, "path", name);
	if (sealed)
		put_record(&records, TARSEAL_RECORD, SEAL_BLANK);
	if (records.len)
		put_pax(out, sealed ? TARSEAL_NAME : "PaxHeader", 'x', &records);
	if (cut)
		put_header(out, name, cut, name + cut + 1, n - cut - 1, size, '0');
	else
		put_header(out, "", 0, name, n < 100 ? n : 100, size, '0');
	put_content(out, data, size);
	str_release(&records);
	return 0;
}

int tar_put_member(struct str *out, const char *name, const void *data, size_t size, struct err *e)
{
	return put_member(out, name, data, size, 0, e);
}

static void put_stamp(struct str *out, const char *stamp, int sealed)
{
	struct str records = {0};

	put_record(&records, "DDM.stamp", stamp);
	if (sealed)
		put_record(&records, TARSEAL_RECORD, SEAL_BLANK);
	put_pax(out, sealed ? TARSEAL_NAME : "PaxHeader", 'g', &records);
	str_release(&records);
}

void tar_put_stamp(struct str *out, const char *stamp)
{
	put_stamp(out, stamp, 0);
}

void tar_put_end(struct str *out)
{
	static const char zeros[1024];

	str_add(out, zeros, sizeof zeros);
}

/* Octal digits ended by NUL or a blank. */
static int parse_octal(const uint8_t *p, size_t n, uint64_t *out)
{
	uint64_t v = 0;
	size_t i;

	for (i = 0; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v * 8 + (p[i] - '0');
	if (!i || (i < n && p[i] && p[i] != ' '))
		return -1;
	*out = v;
	return 0;
}

static int header_is_sound(const uint8_t *h, uint64_t *size)
{
	uint64_t sum = 0, want;

	for (size_t i = 0; i < 512; i++)
		sum += i >= 148 && i < 156 ? ' ' : h[i];
	return !parse_octal(h + 148, 8, &want) && want == sum && !memcmp(h + 257, "ustar", 6) && !parse_octal(h + 124, 12, size);
}

static int is_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return 0;
	return 1;
}

/* Find `key` in pax records; its value goes to *out, reset first. -1 when the records are malformed. */
static int pax_find(const uint8_t *p, size_t n, const char *key, struct str *out)
{
	size_t klen = strlen(key);

	while (n) {
		size_t len = 0, i = 0;

		for (; i < n && i < 10 && p[i] >= '0' && p[i] <= '9'; i++)
			len = len * 10 + (size_t)(p[i] - '0');
		if (!i || i >= n || p[i] != ' ' || len > n || len < i + 4 || p[len - 1] != '\n')
			return -1;
		i++;
		if (len - i > klen + 1 && !memcmp(p + i, key, klen) && p[i + klen] == '=') {
			const uint8_t *value = p + i + klen + 1;
			size_t vlen = len - i - klen - 2;

			if (memchr(value, 0, vlen))
				return -1;
			str_reset(out);
			str_add(out, value, vlen);
		}
		p += len;
		n -= len;
	}
	return 0;
}

static void header_name(const uint8_t *h, struct str *name)
{
	str_reset(name);
	if (h[345]) {
		str_add(name, h + 345, strnlen((const char *)h + 345, 155));
		str_puts(name, "/");
	}
	str_add(name, h, strnlen((const char *)h, 100));
}

int tar_parse(const uint8_t *buf, size_t len, size_t *pos, struct tar_member *m, struct str *name, struct str *stamp, const char *where,
              struct err *e)
{
	int extended = 0, long_name = 0; /* the member after a pax header, its name in there */

	if (stamp)
		str_reset(stamp);
	for (;;) {
		const uint8_t *h = buf + *pos;
		size_t at = *pos;
		struct str ignored = {0};
		uint64_t size;
		int bad = 0;

		if (at == len && !extended)
			return 0;
		if (len - at < 512)
			return err_set(e, ERR_DATA, "%s: a header cut short at byte %zu of the tar", where, at);
		if (!extended && is_zero(h, 512)) {
			if (len - at < 1024 || !is_zero(h, len - at))
				return err_set(e, ERR_DATA, "%s: bad end-of-archive blocks at byte %zu of the tar", where, at);
			*pos = len;
			return 0;
		}
		if (!header_is_sound(h, &size))
			return err_set(e, ERR_DATA, "%s: a damaged header at byte %zu of the tar", where, at);
		if (size > len - at - 512 || (size + 511) / 512 * 512 > len - at - 512)
			return err_set(e, ERR_DATA, "%s: content cut short at byte %zu of the tar", where, at);
		*pos = at + 512 + (size_t)((size + 511) / 512 * 512);
		if (h[156] == 'g') {
			bad = pax_find(h + 512, (size_t)size, "DDM.stamp", stamp ? stamp : &ignored);
		} else if (h[156] == 'x') {
			str_reset(name);
			bad = pax_find(h + 512, (size_t)size, "path", name) ||
			      (!name->len && (pax_find(h + 512, (size_t)size, TARSEAL_RECORD, &ignored) || !ignored.len));
			extended = 1;
			long_name = name->len > 0;
		} else if (h[156] == '0') {
			if (!long_name)
				header_name(h, name);
			m->name = str_text(name);
			m->data = h + 512;
			m->size = (size_t)size;
			m->offset = (int64_t)at;
			return 1;
		} else {
			bad = 1;
		}
		str_release(&ignored);
		if (bad)
			return err_set(e, ERR_DATA, "%s: a header of a kind we do not write at byte %zu of the tar", where, at);
	}
}

/* The last addition is held back if the output is a pipe; in a file it can be overwritten. */
static int is_held(const struct tar_writer *w)
{
	return !w->out->place;
}

/* w->head as what was added last. */
static int put_last(struct tar_writer *w, struct err *e)
{
	int rc;

	XXH3_copyState(w->before, w->after);
	XXH3_64bits_update(w->after, w->head.p, w->head.len);
	w->last = w->end;
	w->end += w->head.len;
	rc = is_held(w) ? outfile_write(w->out, w->held.p, w->held.len, e) : outfile_write(w->out, w->head.p, w->head.len, e);
	if (is_held(w)) {
		struct str t = w->held;

		w->held = w->head;
		w->head = t;
	}
	str_reset(&w->head);
	return rc;
}

/* Members of a file that is gone on with: their hash, and the last one. */
static int take_earlier(struct tar_writer *w, uint64_t len, struct err *e)
{
	struct filemap map = {0};
	struct tar_member m;
	struct str name = {0};
	size_t pos = 0;
	int rc = fflush(w->out->file) ? err_errno(e, "%s: write", w->out->path) : filemap_open(&map, w->out->tmp, e);

	if (!rc && map.len < len)
		rc = err_set(e, ERR_IO, "%s: shorter than what was written", w->out->path);
	while (!rc && (size_t)w->end < len && (rc = tar_parse(map.data, (size_t)len, &pos, &m, &name, NULL, w->out->path, e)) == 1) {
		w->last = w->end;
		w->end = pos;
		rc = 0;
	}
	if (!rc) {
		XXH3_64bits_update(w->before, map.data, (size_t)w->last);
		XXH3_copyState(w->after, w->before);
		XXH3_64bits_update(w->after, (const uint8_t *)map.data + w->last, (size_t)(len - w->last));
		w->end = len;
	}
	filemap_close(&map);
	str_release(&name);
	return rc;
}

int tar_start(struct tar_writer *w, struct outfile *o, const char *stamp, struct err *e)
{
	off_t at = o->place ? ftello(o->file) : 0;
	int rc = 0;

	*w = (struct tar_writer){.out = o, .before = hash64_state(), .after = hash64_state()};
	if (at > 0)
		rc = take_earlier(w, (uint64_t)at, e);
	if (!rc && stamp) {
		tar_put_stamp(&w->head, stamp);
		rc = put_last(w, e);
	}
	return rc;
}

int tar_add(struct tar_writer *w, const char *name, const void *data, size_t size, struct err *e)
{
	str_reset(&w->head);
	return tar_put_member(&w->head, name, data, size, e) || put_last(w, e) ? -1 : 0;
}

/* What was added last, again and with the seal, in w->head. */
static int seal_last(struct tar_writer *w, struct err *e)
{
	struct str name = {0}, stamp = {0};
	struct filemap map = {0};
	const uint8_t *p = (const uint8_t *)w->held.p;
	struct tar_member m;
	size_t pos = 0, len = (size_t)(w->end - w->last);
	int rc = 0, got;

	if (!is_held(w)) {
		rc = fflush(w->out->file) ? err_errno(e, "%s: write", w->out->path) : filemap_open(&map, w->out->tmp, e);
		p = rc ? NULL : (const uint8_t *)map.data + w->last;
	}
	str_reset(&w->head);
	if (!rc && map.len && map.len < w->end)
		rc = err_set(e, ERR_IO, "%s: shorter than what was written", w->out->path);
	if (!rc && (got = tar_parse(p, len, &pos, &m, &name, &stamp, w->out->path, e)) < 0)
		rc = -1;
	else if (!rc && got)
		rc = put_member(&w->head, m.name, m.data, m.size, 1, e);
	else if (!rc)
		put_stamp(&w->head, str_text(&stamp), 1);
	if (!rc) {
		XXH3_64bits_update(w->before, w->head.p, w->head.len);
		seal_put_hash(w->head.p + seal_find(w->head.p, w->head.len), XXH3_64bits_digest(w->before));
	}
	if (!rc && !is_held(w) && fseeko(w->out->file, (off_t)w->last, SEEK_SET))
		rc = err_errno(e, "%s: seek", w->out->path);
	filemap_close(&map);
	str_release(&name);
	str_release(&stamp);
	return rc;
}

int tar_finish(struct tar_writer *w, struct err *e)
{
	int rc = w->end ? seal_last(w, e) : 0;

	if (!rc) {
		tar_put_end(&w->head);
		rc = outfile_write(w->out, w->head.p, w->head.len, e);
	}
	tar_release(w);
	return rc;
}

void tar_release(struct tar_writer *w)
{
	str_release(&w->head);
	str_release(&w->held);
	XXH3_freeState(w->before);
	XXH3_freeState(w->after);
	*w = (struct tar_writer){0};
}
