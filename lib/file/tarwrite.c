/* Our own tar: USTAR with pax headers where a name does not fit, and a strict parser of exactly that (POSIX.1-2017 pax(1)). */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "file/tarfile.h"

static const uint64_t size_max = (uint64_t)1 << 33; /* eleven octal digits */

static void put_header(struct str *out, const char *prefix, size_t prefix_len, const char *name, size_t name_len, size_t size,
                       char type)
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
static void put_pax(struct str *out, char type, const char *key, const char *value)
{
	size_t body = strlen(key) + strlen(value) + 3, len = body + 1;
	struct str record = {0};

	for (size_t digits = 1, limit = 10; len >= limit; digits++, limit *= 10)
		len = body + digits + 1;
	str_printf(&record, "%zu %s=%s\n", len, key, value);
	put_header(out, "", 0, "PaxHeader", 9, record.len, type);
	put_content(out, record.p, record.len);
	str_release(&record);
}

/* Where to cut a long name into prefix (155) and name (100), or 0. */
static size_t split_at(const char *name, size_t n)
{
	for (size_t i = n < 156 ? n - 1 : 155; i > 0 && n - i - 1 <= 100; i--)
		if (name[i] == '/' && n - i - 1 > 0)
			return i;
	return 0;
}

int tar_put_member(struct str *out, const char *name, const void *data, size_t size, struct err *e)
{
	size_t n = strlen(name), cut;

	if (!n || name[n - 1] == '/')
		return err_set(e, ERR_DATA, "'%s' is not a name for a file in a tar", name);
	if (size >= size_max)
		return err_set(e, ERR_DATA, "'%s': %zu bytes are too many for one file in a tar", name, size);
	if (n <= 100) {
		put_header(out, "", 0, name, n, size, '0');
	} else if ((cut = split_at(name, n))) {
		put_header(out, name, cut, name + cut + 1, n - cut - 1, size, '0');
	} else {
		put_pax(out, 'x', "path", name);
		put_header(out, "", 0, name, 100, size, '0');
	}
	put_content(out, data, size);
	return 0;
}

void tar_put_stamp(struct str *out, const char *stamp)
{
	put_pax(out, 'g', "DDM.stamp", stamp);
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

int tar_parse(const uint8_t *buf, size_t len, size_t *pos, struct tar_member *m, struct str *name, struct str *stamp,
              const char *where, struct err *e)
{
	int long_name = 0;

	if (stamp)
		str_reset(stamp);
	for (;;) {
		const uint8_t *h = buf + *pos;
		size_t at = *pos;
		struct str ignored = {0};
		uint64_t size;
		int bad = 0;

		if (at == len && !long_name)
			return 0;
		if (len - at < 512)
			return err_set(e, ERR_DATA, "%s: a header cut short at byte %zu of the tar", where, at);
		if (!long_name && is_zero(h, 512)) {
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
			bad = pax_find(h + 512, (size_t)size, "path", name) || !name->len;
			long_name = 1;
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

static int head_flush(struct tar_writer *w, struct err *e)
{
	int rc = outfile_write(w->out, w->head.p, w->head.len, e);

	str_reset(&w->head);
	return rc;
}

int tar_start(struct tar_writer *w, struct outfile *o, const char *stamp, struct err *e)
{
	*w = (struct tar_writer){.out = o};
	if (!stamp)
		return 0;
	tar_put_stamp(&w->head, stamp);
	return head_flush(w, e);
}

int tar_add(struct tar_writer *w, const char *name, const void *data, size_t size, struct err *e)
{
	str_reset(&w->head);
	return tar_put_member(&w->head, name, data, size, e) || head_flush(w, e) ? -1 : 0;
}

int tar_finish(struct tar_writer *w, struct err *e)
{
	int rc;

	str_reset(&w->head);
	tar_put_end(&w->head);
	rc = head_flush(w, e);
	str_release(&w->head);
	return rc;
}
