/* The members of a sample in one of MosaicML's shards: names by encoding, pictures, numbers and arrays as files. */
#include "data/mdsimpl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "data/entries.h"
#include "file/still.h"

enum { PICTURE_MOST = 1 << 28, LABEL_MOST = 2147483646 };

static int known_name(const char *name)
{
	static const char *const names[] = {"jpg", "png", "webp", "txt", "cls", "json", "npy", "std.npy", "flip.npy", "flip.std.npy", "text.npy"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(name, names[i]))
			return 1;
	return 0;
}

static int taken(const struct mds *m, const char *ext)
{
	for (int i = 0; i < m->exts; i++)
		if (!strcmp(m->ext[i], ext))
			return 1;
	return 0;
}

/* The member's extension: the column's name if that is a known one; else the encoding's, unless an earlier column has it; else both. */
static const char *name_member(struct mds *m, const struct column *c, const char *ext)
{
	const char *last = strrchr(c->name, '.');
	char *name = mem_strdup(c->name), *own;
	int free_form = c->encoding->how == HOW_BYTES || c->encoding->how == HOW_STR;
	int plain = strcmp(ext, "bin") && c->encoding->how != HOW_OPAQUE;

	for (char *p = name; *p; p++)
		*p = isalnum((unsigned char)*p) || strchr("._-", *p) ? (char)tolower((unsigned char)*p) : '_';
	if (*name == '.')
		*name = '_';
	last = last ? last + 1 : c->name;
	if (known_name(c->name) && (free_form || !strcmp(last, ext)) && !taken(m, c->name))
		own = mem_strdup(c->name);
	else if (plain && !taken(m, ext))
		own = mem_strdup(ext);
	else
		own = str_new("%s.%s", *name ? name : "_", ext);
	mem_free(name);
	m->ext[m->exts++] = own;
	return own;
}

static int add_array(const struct mds *m, const struct column *c, const uint8_t *p, size_t n, struct str *out, struct err *e)
{
	enum npy_type type = c->type;
	int64_t shape[NPY_RANK];
	size_t count = 1;
	int rank = c->rank;

	if (!c->typed) {
		if (!n || !mds_find_type(NULL, 0, *p, &type))
			return mds_bad(m, "an array of an unknown type", e);
		p++;
		n--;
	}
	memcpy(shape, c->shape, sizeof shape);
	if (!rank) {
		size_t width = n ? (size_t)1 << (*p & 3) : 0;

		rank = n ? *p >> 2 : 0;
		if (rank < 1 || rank > NPY_RANK || n - 1 < (size_t)rank * width)
			return mds_bad(m, "an array whose shape is invalid, or has more than 8 axes", e);
		for (int i = 0; i < rank; i++) {
			uint64_t v = 0;

			for (size_t b = 0; b < width; b++)
				v |= (uint64_t)p[1 + (size_t)i * width + b] << 8 * b;
			if (!v || v > UINT32_MAX)
				return mds_bad(m, "an array whose shape is invalid", e);
			shape[i] = (int64_t)v;
		}
		p += 1 + (size_t)rank * width;
		n -= 1 + (size_t)rank * width;
	}
	for (int i = 0; i < rank; i++)
		if (__builtin_mul_overflow(count, (size_t)shape[i], &count))
			return mds_bad(m, "an array whose shape is invalid", e);
	if (n % npy_type_size(type) || n / npy_type_size(type) != count)
		return mds_bad(m, "an array whose size does not match its shape", e);
	npy_encode(out, type, rank, shape, p);
	return 1;
}

/* Convert Pillow's width, height, mode and pixels to PNG. */
static int add_pil(const struct mds *m, const uint8_t *p, size_t n, struct str *out, struct err *e)
{
	struct picture picture = {0};
	uint64_t w, h;
	uint8_t *png;
	size_t mode, len;
	int rc;

	if (n < 12 || (mode = mds_u32(p + 8)) > n - 12)
		return mds_bad(m, "too short for a picture of Pillow's", e);
	w = mds_u32(p);
	h = mds_u32(p + 4);
	if (mode == 1 && p[12] == 'L')
		picture.channels = 1;
	else if (mode == 3 && !memcmp(p + 12, "RGB", 3))
		picture.channels = 3;
	else
		return mds_bad(m, "a picture of Pillow's whose mode is neither L nor RGB", e);
	if (!w || !h || w > PICTURE_MOST / h || w * h * (uint64_t)picture.channels != n - 12 - mode)
		return mds_bad(m, "a picture whose bytes do not match its width and height", e);
	picture.width = (int)w;
	picture.height = (int)h;
	picture.pixels = (uint8_t *)(uintptr_t)(p + 12 + mode);
	rc = still_encode_png(&picture, NULL, 0, &png, &len, e);
	if (rc)
		return 2;
	str_add(out, png, len);
	mem_free(png);
	return 1;
}

static int is_label(const char *name)
{
	static const char *const names[] = {"cls", "class", "label", "labels", "class_id", "target", "y"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(name, names[i]))
			return 1;
	return 0;
}

/* 1: the number is the class; 3: it is kept for the facts. */
static int add_number(struct mds *m, const struct column *c, const uint8_t *p, size_t n, struct str *out, struct err *e)
{
	enum npy_type type = c->encoding->type;
	struct npy a = {.type = type, .rank = 1, .shape = {1}, .data = p};
	int whole = type != NPY_F2 && type != NPY_F4 && type != NPY_F8;
	int64_t v = 0;
	char digits[64];
	double x;

	if (c->encoding->how == HOW_DIGITS) {
		snprintf(digits, sizeof digits, "%.*s", (int)(n < 63 ? n : 63), (const char *)p);
		whole = *c->encoding->ext && !parse_i64(digits, INT64_MIN, INT64_MAX, &v);
	} else {
		if (n != npy_type_size(type))
			return mds_bad(m, "a number whose size does not match its encoding", e);
		whole = whole && !npy_to_i64(&v, &a, m->name, NULL);
	}
	if (whole && is_label(c->name) && v >= 0 && v <= LABEL_MOST && !taken(m, "cls")) {
		str_printf(out, "%lld\n", (long long)v);
		return 1;
	}
	m->facts = m->facts ? m->facts : json_object();
	if (whole) {
		json_object_set_new(m->facts, c->name, json_integer(v));
	} else if (c->encoding->how == HOW_DIGITS) {
		json_object_set_new(m->facts, c->name, jsonio_text(digits));
	} else {
		npy_to_f64(&x, &a);
		json_object_set_new(m->facts, c->name, jsonio_real(x));
	}
	return 3;
}

static int add_value(struct mds *m, const struct column *c, const uint8_t *p, size_t n, struct str *out, struct err *e)
{
	switch (c->encoding->how) {
	case HOW_ARRAY:
		return add_array(m, c, p, n, out, e);
	case HOW_PIL:
		return add_pil(m, p, n, out, e);
	case HOW_NUMBER:
	case HOW_DIGITS:
		return add_number(m, c, p, n, out, e);
	default:
		str_add(out, p, n);
		return 1;
	}
}

static const char *extension(const struct column *c, const uint8_t *p, size_t n)
{
	const char *picture = c->encoding->how == HOW_BYTES ? entry_picture_ext(still_sniff(p, n)) : "";

	if (*picture)
		return picture;
	if (c->encoding->how == HOW_BYTES && n > 6 && !memcmp(p, "\x93NUMPY", 6))
		return "npy";
	return c->encoding->how == HOW_NUMBER || c->encoding->how == HOW_DIGITS ? "cls" : c->encoding->ext;
}

int mds_member(struct mds *m, const char **ext, struct str *out, struct err *e)
{
	static const struct encoding json = {"json", HOW_JSON, "json", 0};
	static const struct column facts = {.name = "facts", .encoding = &json};
	char *line;

	while (m->at < m->columns) {
		int c = m->order[m->at++], rc = add_value(m, &m->column[c], m->value[c], m->size[c], out, e);

		if (rc == 1)
			*ext = name_member(m, &m->column[c], extension(&m->column[c], m->value[c], m->size[c]));
		if (rc != 3)
			return rc;
	}
	if (!m->facts || m->at++ > m->columns)
		return 0;
	line = jsonio_line(m->facts);
	str_puts(out, line);
	mem_free(line);
	*ext = name_member(m, &facts, "json");
	return 1;
}
