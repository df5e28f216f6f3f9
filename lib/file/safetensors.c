/* Reads safetensors: the checked header and mapped arrays. */
#include "file/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "file/fileio.h"

static const uint64_t header_max = 100000000;

struct entry {
	struct st_tensor t;
	uint64_t begin, end;
	int seen; /* bits: dtype, shape, data_offsets */
};

struct safetensors {
	char *where;
	struct filemap map;
	char *header; /* copy; names and texts point into it, unescaped in place */
	struct entry *entry;
	struct st_tensor *tensor; /* in file order */
	const struct st_tensor **by_name;
	struct st_text *text;
	int n, cap, ntexts, texts_cap;
	int have_texts;
	void *owner;
	void (*release)(void *owner);
};

/* A scanner for the subset of JSON that the format uses. It allocates nothing: strings are unescaped in place, which never makes
 * them longer. A general parser would build a tree of many times the header's size from a hostile file. */
struct scan {
	char *p, *end;
	const char *start, *where;
	struct err *e;
};

static int refuse(const struct scan *s, const char *what)
{
	return err_set(s->e, ERR_DATA, "%s: header, byte %zu: %s", s->where, (size_t)(s->p - s->start) + 8, what);
}

static int peek(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
		s->p++;
	return s->p < s->end ? (unsigned char)*s->p : 0;
}

static int expect(struct scan *s, char c)
{
	char what[] = "'?' expected";

	if (peek(s) == (unsigned char)c) {
		s->p++;
		return 0;
	}
	what[1] = c;
	return refuse(s, what);
}

/* After a value: 1 for ',', 0 for `close`, -1. */
static int more(struct scan *s, char close)
{
	int c = peek(s);

	if (c != ',' && c != close)
		return refuse(s, "',' or the end of a list or object expected");
	s->p++;
	return c == ',';
}

static int hex4(const char *p, unsigned *out)
{
	*out = 0;
	for (int i = 0; i < 4; i++) {
		static const char digits[] = "0123456789abcdef0123456789ABCDEF";
		const char *d = p[i] ? strchr(digits, p[i]) : NULL;

		if (!d)
			return -1;
		*out = *out * 16 + (unsigned)(d - digits) % 16;
	}
	return 0;
}

static char *utf8_put(char *out, unsigned c)
{
	if (c < 0x80) {
		*out++ = (char)c;
	} else if (c < 0x800) {
		*out++ = (char)(0xc0 | c >> 6);
		*out++ = (char)(0x80 | (c & 63));
	} else if (c < 0x10000) {
		*out++ = (char)(0xe0 | c >> 12);
		*out++ = (char)(0x80 | (c >> 6 & 63));
		*out++ = (char)(0x80 | (c & 63));
	} else {
		*out++ = (char)(0xf0 | c >> 18);
		*out++ = (char)(0x80 | (c >> 12 & 63));
		*out++ = (char)(0x80 | (c >> 6 & 63));
		*out++ = (char)(0x80 | (c & 63));
	}
	return out;
}

/* s->p is behind "\u". */
static int unescape_u(struct scan *s, char **out)
{
	unsigned c, low;

	if (s->end - s->p < 4 || hex4(s->p, &c) || !c || (c >= 0xdc00 && c < 0xe000))
		return refuse(s, "a bad \\u escape");
	s->p += 4;
	if (c >= 0xd800 && c < 0xdc00) {
		if (s->end - s->p < 6 || s->p[0] != '\\' || s->p[1] != 'u' || hex4(s->p + 2, &low) || low < 0xdc00 || low > 0xdfff)
			return refuse(s, "half of a surrogate pair");
		s->p += 6;
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	*out = utf8_put(*out, c);
	return 0;
}

/* Length of the UTF-8 sequence at p (RFC 3629), 0 when malformed. */
static int utf8_len(const unsigned char *p, size_t left)
{
	static const unsigned char lead[][5] = {{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
	                                        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
	                                        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};

	if (*p < 0x80)
		return 1;
	for (size_t i = 0; i < sizeof lead / sizeof *lead; i++) {
		if (*p < lead[i][0] || *p > lead[i][1])
			continue;
		if (left < lead[i][4] || p[1] < lead[i][2] || p[1] > lead[i][3])
			return 0;
		for (int k = 2; k < lead[i][4]; k++)
			if ((p[k] & 0xc0) != 0x80)
				return 0;
		return lead[i][4];
	}
	return 0;
}

/* A string, NUL-terminated in place. */
static int scan_string(struct scan *s, const char **text)
{
	static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
	char *out;

	if (expect(s, '"'))
		return -1;
	*text = out = s->p;
	while (s->p < s->end && *s->p != '"') {
		int n = utf8_len((unsigned char *)s->p, (size_t)(s->end - s->p));

		if (!n || (unsigned char)*s->p < 0x20)
			return refuse(s, "a control character or bad UTF-8 in a string");
		if (*s->p != '\\') {
			memmove(out, s->p, (size_t)n);
			out += n;
			s->p += n;
			continue;
		}
		if (s->end - s->p < 2)
			break;
		s->p += 2;
		if (s->p[-1] == 'u') {
			if (unescape_u(s, &out))
				return -1;
			continue;
		}
		for (n = 0; escapes[n] && escapes[n] != s->p[-1]; n += 2)
			;
		if (!escapes[n])
			return refuse(s, "an unknown escape");
		*out++ = escapes[n + 1];
	}
	if (s->p >= s->end)
		return refuse(s, "a string without an end");
	s->p++;
	*out = 0;
	return 0;
}

static int scan_number(struct scan *s, uint64_t *out)
{
	int c = peek(s);
	uint64_t v = 0;

	if (c < '0' || c > '9' || (c == '0' && s->p + 1 < s->end && s->p[1] >= '0' && s->p[1] <= '9'))
		return refuse(s, "a non-negative integer expected");
	for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*s->p - '0'), &v) || v > INT64_MAX)
			return refuse(s, "an integer above 2^63 - 1");
	*out = v;
	return 0;
}

/* At most `max` numbers in brackets; their count, or -1. */
static int scan_numbers(struct scan *s, uint64_t *v, int max)
{
	int n = 0, rc;

	if (expect(s, '['))
		return -1;
	if (peek(s) == ']') {
		s->p++;
		return 0;
	}
	do {
		if (n == max)
			return refuse(s, "too many numbers in a list");
		if (scan_number(s, v + n++))
			return -1;
		rc = more(s, ']');
	} while (rc > 0);
	return rc ? -1 : n;
}

static int scan_type(struct scan *s, enum st_type *type)
{
	const char *name;

	if (scan_string(s, &name))
		return -1;
	for (int i = 0; i < ST_TYPES; i++)
		if (!strcmp(name, st_type_name((enum st_type)i))) {
			*type = (enum st_type)i;
			return 0;
		}
	return err_set(s->e, ERR_DATA, "%s: header, byte %zu: elements of type '%.40s' are not supported", s->where, (size_t)(s->p - s->start) + 8,
	               name);
}

static int scan_field(struct scan *s, struct entry *t)
{
	uint64_t v[ST_RANK];
	const char *field;
	int n, bit;

	if (scan_string(s, &field) || expect(s, ':'))
		return -1;
	bit = !strcmp(field, "dtype") ? 1 : !strcmp(field, "shape") ? 2 : !strcmp(field, "data_offsets") ? 4 : 0;
	if (!bit || t->seen & bit)
		return refuse(s, bit ? "a field given twice" : "an unknown field of a tensor");
	t->seen |= bit;
	if (bit == 1)
		return scan_type(s, &t->t.type);
	n = scan_numbers(s, v, bit == 2 ? ST_RANK : 2);
	if (n < 0)
		return -1;
	if (bit == 4) {
		if (n != 2 || v[0] > v[1])
			return refuse(s, "data_offsets must be [begin, end]");
		t->begin = v[0];
		t->end = v[1];
		return 0;
	}
	t->t.rank = n;
	for (int i = 0; i < n; i++)
		t->t.shape[i] = (int64_t)v[i];
	return 0;
}

static int check_size(struct scan *s, const struct entry *t)
{
	uint64_t bytes = st_type_size(t->t.type);

	if (t->seen != 7)
		return refuse(s, "a tensor without dtype, shape or data_offsets");
	for (int i = 0; i < t->t.rank; i++)
		if (__builtin_mul_overflow(bytes, (uint64_t)t->t.shape[i], &bytes))
			return refuse(s, "a shape whose size overflows");
	return bytes == t->end - t->begin ? 0 : refuse(s, "data_offsets that disagree with shape and dtype");
}

static int scan_tensor(struct scan *s, struct safetensors *st, const char *name)
{
	struct entry *t;
	int rc;

	if (st->n == st->cap)
		st->entry = mem_resize(st->entry, (size_t)(st->cap = st->cap ? 2 * st->cap : 64), sizeof *st->entry);
	t = st->entry + st->n++;
	*t = (struct entry){.t.name = name};
	if (expect(s, '{'))
		return -1;
	do
		rc = scan_field(s, t) ? -1 : more(s, '}');
	while (rc > 0);
	return rc ? -1 : check_size(s, t);
}

static int scan_texts(struct scan *s, struct safetensors *st)
{
	int rc;

	if (st->have_texts++)
		return refuse(s, "__metadata__ given twice");
	if (expect(s, '{'))
		return -1;
	if (peek(s) == '}') {
		s->p++;
		return 0;
	}
	do {
		struct st_text *t;

		if (st->ntexts == st->texts_cap)
			st->text = mem_resize(st->text, (size_t)(st->texts_cap = st->texts_cap ? 2 * st->texts_cap : 16), sizeof *st->text);
		t = st->text + st->ntexts++;
		if (scan_string(s, &t->key) || expect(s, ':') || scan_string(s, &t->value))
			return -1;
		rc = more(s, '}');
	} while (rc > 0);
	return rc;
}

static int scan_header(struct scan *s, struct safetensors *st)
{
	const char *name;
	int rc = 0;

	if (expect(s, '{'))
		return -1;
	if (peek(s) == '}')
		s->p++;
	else
		do {
			if (scan_string(s, &name) || expect(s, ':'))
				return -1;
			if (strcmp(name, "__metadata__") ? scan_tensor(s, st, name) : scan_texts(s, st))
				return -1;
			rc = more(s, '}');
		} while (rc > 0);
	if (rc)
		return -1;
	peek(s);
	return s->p == s->end ? 0 : refuse(s, "something after the header's end");
}

static int entry_cmp(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
	       : x->end != y->end   ? (x->end > y->end) - (x->end < y->end)
	                            : strcmp(x->t.name, y->t.name);
}

static int name_cmp(const void *a, const void *b)
{
	return strcmp((*(const struct st_tensor *const *)a)->name, (*(const struct st_tensor *const *)b)->name);
}

static int text_cmp(const void *a, const void *b)
{
	return strcmp(((const struct st_text *)a)->key, ((const struct st_text *)b)->key);
}

/* The arrays must tile the rest of the file: no hole, no overlap, nothing after the last. */
static int place(struct safetensors *st, const uint8_t *data, uint64_t len, struct err *e)
{
	uint64_t at = 0;

	if (st->n)
		qsort(st->entry, (size_t)st->n, sizeof *st->entry, entry_cmp);
	st->tensor = mem_zalloc((size_t)st->n, sizeof *st->tensor);
	st->by_name = mem_zalloc((size_t)st->n, sizeof *st->by_name);
	for (int i = 0; i < st->n; i++) {
		struct entry *t = st->entry + i;

		if (t->begin != at)
			return err_set(e, ERR_DATA, "%s: tensor '%.200s' starts at byte %llu of the data, where %llu was expected", st->where,
			               t->t.name, (unsigned long long)t->begin, (unsigned long long)at);
		if (t->end > len)
			return err_set(e, ERR_DATA, "%s: truncated: tensor '%.200s' ends at byte %llu of the data, which has %llu", st->where,
			               t->t.name, (unsigned long long)t->end, (unsigned long long)len);
		t->t.data = data + at;
		at = t->end;
		st->tensor[i] = t->t;
		st->by_name[i] = st->tensor + i;
	}
	if (at != len)
		return err_set(e, ERR_DATA, "%s: %llu bytes after the last tensor", st->where, (unsigned long long)(len - at));
	if (st->n)
		qsort(st->by_name, (size_t)st->n, sizeof *st->by_name, name_cmp);
	for (int i = 1; i < st->n; i++)
		if (!strcmp(st->by_name[i]->name, st->by_name[i - 1]->name))
			return err_set(e, ERR_DATA, "%s: two tensors named '%.200s'", st->where, st->by_name[i]->name);
	if (st->ntexts)
		qsort(st->text, (size_t)st->ntexts, sizeof *st->text, text_cmp);
	for (int i = 1; i < st->ntexts; i++)
		if (!strcmp(st->text[i].key, st->text[i - 1].key))
			return err_set(e, ERR_DATA, "%s: two texts named '%.200s' in __metadata__", st->where, st->text[i].key);
	mem_free(st->entry);
	st->entry = NULL;
	return 0;
}

static int parse(struct safetensors *st, const uint8_t *p, size_t len, struct err *e)
{
	struct scan s = {.where = st->where, .e = e};
	uint64_t n = 0;

	if (len < 8)
		return err_set(e, ERR_DATA, "%s: %zu bytes are too few for a safetensors file", st->where, len);
	for (int i = 0; i < 8; i++)
		n |= (uint64_t)p[i] << 8 * i;
	if (n > header_max || n > len - 8)
		return err_set(e, ERR_DATA, "%s: a header of %llu bytes in a file of %zu: truncated, or no safetensors file", st->where,
		               (unsigned long long)n, len);
	st->header = mem_try(n + 1, 1, st->where, e);
	if (!st->header)
		return -1;
	memcpy(st->header, p + 8, n);
	s.start = s.p = st->header;
	s.end = st->header + n;
	return scan_header(&s, st) || place(st, p + 8 + n, len - 8 - n, e) ? -1 : 0;
}

static struct safetensors *parsed(struct safetensors *st, const uint8_t *p, size_t len, struct err *e)
{
	if (!parse(st, p, len, e))
		return st;
	st_free(st);
	return NULL;
}

struct safetensors *st_open(const char *path, struct err *e)
{
	struct safetensors *st = mem_zalloc(1, sizeof *st);

	st->where = mem_strdup(path);
	if (filemap_open(&st->map, path, e)) {
		st_free(st);
		return NULL;
	}
	return parsed(st, st->map.data, st->map.len, e);
}

struct safetensors *st_open_memory(const void *data, size_t len, const char *name, struct err *e)
{
	struct safetensors *st = mem_zalloc(1, sizeof *st);

	st->where = mem_strdup(name);
	return parsed(st, data, len, e);
}

void st_own(struct safetensors *s, void *owner, void (*release)(void *owner))
{
	s->owner = owner;
	s->release = release;
}

struct safetensors *st_of(const struct st_tensor *t, int n, const char *where, void *owner, void (*release)(void *owner))
{
	struct safetensors *s = mem_zalloc(1, sizeof *s);

	s->where = mem_strdup(where);
	s->n = n;
	s->tensor = mem_zalloc((size_t)n, sizeof *s->tensor);
	s->by_name = mem_zalloc((size_t)n, sizeof *s->by_name);
	for (int i = 0; i < n; i++) {
		s->tensor[i] = t[i];
		s->by_name[i] = s->tensor + i;
	}
	if (n)
		qsort(s->by_name, (size_t)n, sizeof *s->by_name, name_cmp);
	st_own(s, owner, release);
	return s;
}

void st_free(struct safetensors *s)
{
	void *owner = s ? s->owner : NULL;
	void (*release)(void *owner) = s ? s->release : NULL;

	if (!s)
		return;
	filemap_close(&s->map);
	mem_free(s->where);
	mem_free(s->header);
	mem_free(s->entry);
	mem_free(s->tensor);
	mem_free(s->by_name);
	mem_free(s->text);
	mem_free(s);
	if (release)
		release(owner);
}

int st_tensors(const struct safetensors *s)
{
	return s->n;
}

const struct st_tensor *st_get(const struct safetensors *s, int i)
{
	return s->tensor + i;
}

const struct st_tensor *st_find(const struct safetensors *s, const char *name)
{
	int lo = 0, hi = s->n;

	while (lo < hi) {
		int mid = (lo + hi) / 2, c = strcmp(s->by_name[mid]->name, name);

		if (!c)
			return s->by_name[mid];
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

static const char *shape_text(char *buf, size_t size, int rank, const int64_t *shape)
{
	size_t n = 1;

	buf[0] = '(';
	buf[1] = 0;
	for (int i = 0; i < rank && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, "%s%lld", i ? ", " : "", (long long)shape[i]);
	if (n < size)
		snprintf(buf + n, size - n, ")");
	return buf;
}

int st_fits(const struct st_tensor *t, int rank, const int64_t *shape, const char *where, struct err *e)
{
	char have[200], want[200];

	if (!st_type_is_float(t->type))
		return err_set(e, ERR_DATA, "%s: tensor '%s' is of type %s, not of floats", where, t->name, st_type_name(t->type));
	if (rank >= 0 && (t->rank != rank || (rank && memcmp(t->shape, shape, (size_t)rank * sizeof *shape))))
		return err_set(e, ERR_DATA, "%s: tensor '%s' has shape %s where %s is needed", where, t->name,
		               shape_text(have, sizeof have, t->rank, t->shape), shape_text(want, sizeof want, rank, shape));
	return 0;
}

const struct st_tensor *st_need(const struct safetensors *s, const char *name, int rank, const int64_t *shape, struct err *e)
{
	const struct st_tensor *t = st_find(s, name);

	if (!t) {
		err_set(e, ERR_DATA, "%s: no tensor '%s'", s->where, name);
		return NULL;
	}
	return st_fits(t, rank, shape, s->where, e) ? NULL : t;
}

int st_texts(const struct safetensors *s)
{
	return s->ntexts;
}

const struct st_text *st_text(const struct safetensors *s, int i)
{
	return s->text + i;
}

const char *st_meta(const struct safetensors *s, const char *key)
{
	for (int i = 0; i < s->ntexts; i++)
		if (!strcmp(s->text[i].key, key))
			return s->text[i].value;
	return NULL;
}
