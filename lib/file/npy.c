/* Reads .npy files and converts their numbers. */
#include "file/npy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/shortfloat.h"
#include "file/commit.h"
#include "file/stamp.h"

static const struct {
	const char *code;
	size_t size;
} types[] = {
    [NPY_F4] = {"<f4", 4}, [NPY_F8] = {"<f8", 8}, [NPY_F2] = {"<f2", 2}, [NPY_I8] = {"<i8", 8}, [NPY_I4] = {"<i4", 4}, [NPY_I2] = {"<i2", 2},
    [NPY_I1] = {"|i1", 1}, [NPY_U1] = {"|u1", 1}, [NPY_U2] = {"<u2", 2}, [NPY_U4] = {"<u4", 4}, [NPY_U8] = {"<u8", 8},
};

enum { TYPES = sizeof types / sizeof *types, MAGIC = 6, ALIGN = 64 };

size_t npy_type_size(enum npy_type t)
{
	return types[t].size;
}

const char *npy_type_code(enum npy_type t)
{
	return types[t].code;
}

int64_t npy_count(const struct npy *a)
{
	int64_t n = 1;

	for (int i = 0; i < a->rank; i++)
		n *= a->shape[i];
	return n;
}

/* A scanner for the dict literal: 'key': value pairs where a value is a quoted string, True, False or a tuple of integers. */
struct scan {
	const char *p, *end;
	const char *name;
	struct err *e;
};

static int refuse(const struct scan *s, const char *what)
{
	return err_set(s->e, ERR_DATA, "%s: npy header: %s", s->name, what);
}

static int next(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\n'))
		s->p++;
	return s->p < s->end ? (unsigned char)*s->p : 0;
}

static int take(struct scan *s, char c)
{
	if (next(s) != (unsigned char)c)
		return 0;
	s->p++;
	return 1;
}

static int take_word(struct scan *s, const char *word)
{
	size_t n = strlen(word);

	next(s);
	if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n))
		return 0;
	s->p += n;
	return 1;
}

static int scan_string(struct scan *s, char *out, size_t size)
{
	int quote = next(s);
	size_t n = 0;

	if (quote != '\'' && quote != '"')
		return -1;
	for (s->p++; s->p < s->end && *s->p != quote; s->p++) {
		if (n + 1 >= size || *s->p == '\\' || *s->p < ' ')
			return -1;
		out[n++] = *s->p;
	}
	out[n] = 0;
	if (s->p >= s->end)
		return -1;
	s->p++;
	return 0;
}

static int scan_shape(struct scan *s, struct npy *a)
{
	if (!take(s, '('))
		return refuse(s, "the shape is not a tuple");
	for (a->rank = 0; !take(s, ')');) {
		uint64_t v = 0;
		int digits = 0;

		if (a->rank == NPY_RANK)
			return refuse(s, "more dimensions than are supported");
		for (next(s); s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++, digits++)
			if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*s->p - '0'), &v) || v > INT64_MAX)
				return refuse(s, "a dimension above 2^63 - 1");
		if (!digits)
			return refuse(s, "a dimension that is not a number");
		take(s, 'L');
		a->shape[a->rank++] = (int64_t)v;
		if (!take(s, ',') && next(s) != ')')
			return refuse(s, "the shape is malformed");
	}
	return 0;
}

static int scan_descr(struct scan *s, struct npy *a)
{
	char code[64];

	if (scan_string(s, code, sizeof code))
		return refuse(s, "elements of a structured type are not supported");
	if (!strcmp(code, "|b1")) {
		a->type = NPY_U1;
		return 0;
	}
	for (int i = 0; i < TYPES; i++)
		if (!strcmp(code + 1, types[i].code + 1) && (*code == *types[i].code || (*code == '>' && types[i].size > 1))) {
			a->type = (enum npy_type)i;
			a->swapped = *code == '>';
			return 0;
		}
	if (strchr(code, 'O'))
		return refuse(s, "arrays of Python objects are not supported");
	return err_set(s->e, ERR_DATA, "%s: npy header: elements of type '%s' are not supported", s->name, code);
}

static int scan_header(struct scan *s, struct npy *a)
{
	int seen = 0;

	if (!take(s, '{'))
		return refuse(s, "no dictionary");
	while (!take(s, '}')) {
		char key[32];
		int bit, rc = 0;

		if (scan_string(s, key, sizeof key) || !take(s, ':'))
			return refuse(s, "a key is malformed");
		bit = !strcmp(key, "descr") ? 1 : !strcmp(key, "fortran_order") ? 2 : !strcmp(key, "shape") ? 4 : 0;
		if (!bit || seen & bit)
			return refuse(s, "an unknown or repeated key");
		seen |= bit;
		if (bit == 1)
			rc = scan_descr(s, a);
		else if (bit == 4)
			rc = scan_shape(s, a);
		else if (!(a->fortran = take_word(s, "True")) && !take_word(s, "False"))
			rc = refuse(s, "fortran_order is neither True nor False");
		if (rc)
			return -1;
		if (!take(s, ',') && next(s) != '}')
			return refuse(s, "',' or '}' expected");
	}
	if (seen != 7)
		return refuse(s, "descr, fortran_order or shape is missing");
	return next(s) ? refuse(s, "something after the dictionary") : 0;
}

int npy_parse(struct npy *a, const void *bytes, size_t len, const char *name, struct err *e)
{
	return npy_parse_head(a, bytes, len, len, name, e);
}

int npy_parse_head(struct npy *a, const void *bytes, size_t have, size_t len, const char *name, struct err *e)
{
	const uint8_t *p = bytes;
	struct scan s = {.name = name, .e = e};
	uint64_t head, start, size;

	*a = (struct npy){0};
	if (have < 10 || memcmp(p, "\x93NUMPY", MAGIC))
		return err_set(e, ERR_DATA, "%s: not an npy array", name);
	if (p[6] < 1 || p[6] > 3 || p[7])
		return err_set(e, ERR_DATA, "%s: npy version %d.%d is not known", name, p[6], p[7]);
	start = p[6] == 1 ? 10 : 12;
	head = p[8] | (uint64_t)p[9] << 8;
	if (p[6] > 1 && have >= 12)
		head |= (uint64_t)p[10] << 16 | (uint64_t)p[11] << 24;
	if (start > have || head > have - start)
		return err_set(e, ERR_DATA, "%s: truncated in the header", name);
	s.p = (const char *)p + start;
	s.end = s.p + head;
	if (scan_header(&s, a))
		return -1;
	size = types[a->type].size;
	for (int i = 0; i < a->rank; i++)
		if (__builtin_mul_overflow(size, (uint64_t)a->shape[i], &size))
			return refuse(&s, "a shape whose size overflows");
	if (size != len - start - head)
		return err_set(e, ERR_DATA, "%s: %llu bytes of data where the shape needs %llu", name, (unsigned long long)(len - start - head),
		               (unsigned long long)size);
	a->data = p + start + head;
	return 0;
}

int npy_load(struct npy *a, const char *path, struct err *e)
{
	struct filemap map = {0};
	const char *name = strcmp(path, "-") ? path : "standard input";
	void *owned = NULL;
	size_t len;
	int rc;

	*a = (struct npy){0};
	if (!strcmp(path, "-")) {
		owned = file_load(path, (size_t)1 << 40, &len, e);
		rc = owned ? npy_parse(a, owned, len, name, e) : -1;
	} else {
		rc = filemap_open(&map, path, e) || npy_parse(a, map.data, map.len, name, e) || stamp_sidecar_check(path, map.data, map.len, e);
	}
	a->map = map;
	a->owned = owned;
	if (rc)
		npy_release(a);
	return rc ? -1 : 0;
}

void npy_release(struct npy *a)
{
	filemap_close(&a->map);
	mem_free(a->owned);
	*a = (struct npy){0};
}

/* Where element i in row-major order lies in column-major data. */
static int64_t fortran_index(const struct npy *a, int64_t i)
{
	int64_t at = 0, stride = npy_count(a);

	for (int d = a->rank - 1; d >= 0; d--) {
		stride /= a->shape[d];
		at += i % a->shape[d] * stride;
		i /= a->shape[d];
	}
	return at;
}

/* The n bytes of a big-endian number, in the machine's order. */
static void swap(void *v, const uint8_t *p, size_t n)
{
	for (size_t k = 0; k < n; k++)
		((uint8_t *)v)[k] = p[n - 1 - k];
}

static double element(const struct npy *a, int64_t i)
{
	const uint8_t *p = (const uint8_t *)a->data + i * (int64_t)types[a->type].size;

#define FETCH(v) (a->swapped ? swap(&(v), p, sizeof(v)) : (void)memcpy(&(v), p, sizeof(v)))
#define AS(type) \
	do { \
		type v; \
\
		FETCH(v); \
		return (double)v; \
	} while (0)
	switch (a->type) {
	case NPY_F4:
		AS(float);
	case NPY_F8:
		AS(double);
	case NPY_F2: {
		uint16_t v;

		FETCH(v);
		return (double)f16_to_f32(v);
	}
	case NPY_I8:
		AS(int64_t);
	case NPY_I4:
		AS(int32_t);
	case NPY_I2:
		AS(int16_t);
	case NPY_I1:
		AS(int8_t);
	case NPY_U1:
		AS(uint8_t);
	case NPY_U2:
		AS(uint16_t);
	case NPY_U4:
		AS(uint32_t);
	case NPY_U8:
		AS(uint64_t);
	}
#undef AS
#undef FETCH
	return 0;
}

void npy_to_f32(float *out, const struct npy *a)
{
	int64_t n = npy_count(a);

	if (a->type == NPY_F4 && !a->fortran && !a->swapped && n) {
		memcpy(out, a->data, (size_t)n * sizeof *out);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		out[i] = (float)element(a, a->fortran ? fortran_index(a, i) : i);
}

void npy_to_f64(double *out, const struct npy *a)
{
	int64_t n = npy_count(a);

	for (int64_t i = 0; i < n; i++)
		out[i] = element(a, a->fortran ? fortran_index(a, i) : i);
}

int npy_to_i64(int64_t *out, const struct npy *a, const char *name, struct err *e)
{
	int64_t n = npy_count(a);

	for (int64_t i = 0; i < n; i++) {
		int64_t at = a->fortran ? fortran_index(a, i) : i;
		double v = element(a, at);

		if (a->type == NPY_I8 || a->type == NPY_U8) {
			const uint8_t *p = (const uint8_t *)a->data + 8 * at;

			a->swapped ? swap(out + i, p, 8) : (void)memcpy(out + i, p, 8);
			if (a->type == NPY_U8 && out[i] < 0)
				return err_set(e, ERR_DATA, "%s: element %lld, %g, is above 2^63 - 1", name, (long long)i, v);
			continue;
		}
		if (!(v >= -0x1p62 && v <= 0x1p62) || v != floor(v))
			return err_set(e, ERR_DATA, "%s: element %lld, %g, is not an integer", name, (long long)i, v);
		out[i] = (int64_t)v;
	}
	return 0;
}

int64_t npy_not_finite(const struct npy *a)
{
	int64_t n = npy_count(a), bad = 0;

	if (a->type != NPY_F4 && a->type != NPY_F8 && a->type != NPY_F2)
		return 0;
	for (int64_t i = 0; i < n; i++)
		bad += !isfinite(element(a, i));
	return bad;
}

void npy_encode(struct str *out, enum npy_type type, int rank, const int64_t *shape, const void *data)
{
	struct str head = {0};
	size_t size = types[type].size;
	uint8_t len[2];

	str_printf(&head, "{'descr': '%s', 'fortran_order': False, 'shape': (", types[type].code);
	for (int i = 0; i < rank; i++) {
		str_printf(&head, "%s%lld", i ? ", " : "", (long long)shape[i]);
		size *= (size_t)shape[i];
	}
	str_puts(&head, rank == 1 ? ",), }" : "), }");
	/* numpy leaves room for the first dimension to grow to 21 digits; the same bytes are easier to compare. */
	if (rank)
		str_printf(&head, "%*s", 21 - snprintf(NULL, 0, "%lld", (long long)shape[0]), "");
	while ((head.len + 1 + 10) % ALIGN)
		str_puts(&head, " ");
	str_puts(&head, "\n");
	len[0] = (uint8_t)head.len;
	len[1] = (uint8_t)(head.len >> 8);
	str_add(out, "\x93NUMPY\x01\x00", 8);
	str_add(out, len, 2);
	str_add(out, head.p, head.len);
	if (data)
		str_add(out, data, size);
	str_release(&head);
}

int npy_write(const char *path, enum npy_type type, int rank, const int64_t *shape, const void *data, struct err *e)
{
	size_t size = types[type].size;
	struct outfile o = {0};
	struct str head = {0};
	int rc;

	for (int i = 0; i < rank; i++)
		size *= (size_t)shape[i];
	npy_encode(&head, type, rank, shape, NULL);
	rc = outfile_open(&o, path, e) || outfile_write(&o, head.p, head.len, e) || outfile_write(&o, data, size, e) ? -1 : outfile_commit(&o, e);
	outfile_abort(&o);
	str_release(&head);
	return rc;
}
