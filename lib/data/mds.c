/* Reads MosaicML's shards: index.json, columns, compressed files. */
#include "data/mds.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "data/entries.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "file/still.h"
#include "file/unpack.h"

enum { COLUMNS = 48, PICTURE_MOST = 1 << 28, LABEL_MOST = 2147483646 };
static const int64_t PACKED_MOST = (int64_t)2 << 30; /* bytes that a packed shard makes: they are held in memory */

enum how { HOW_BYTES, HOW_STR, HOW_JPEG, HOW_PNG, HOW_PIL, HOW_JSON, HOW_ARRAY, HOW_NUMBER, HOW_DIGITS, HOW_OPAQUE };

static const struct encoding {
	const char *name;
	enum how how;
	const char *ext;    /* of its own */
	enum npy_type type; /* HOW_NUMBER */
} encodings[] = {
    {"bytes", HOW_BYTES, "bin", 0},       {"str", HOW_STR, "txt", 0},           {"jpeg", HOW_JPEG, "jpg", 0},
    {"png", HOW_PNG, "png", 0},           {"pil", HOW_PIL, "png", 0},           {"json", HOW_JSON, "json", 0},
    {"ndarray", HOW_ARRAY, "npy", 0},     {"int", HOW_NUMBER, "cls", NPY_I8},   {"int8", HOW_NUMBER, "cls", NPY_I1},
    {"int16", HOW_NUMBER, "cls", NPY_I2}, {"int32", HOW_NUMBER, "cls", NPY_I4}, {"int64", HOW_NUMBER, "cls", NPY_I8},
    {"uint8", HOW_NUMBER, "cls", NPY_U1}, {"uint16", HOW_NUMBER, "cls", NPY_U2}, {"uint32", HOW_NUMBER, "cls", NPY_U4},
    {"uint64", HOW_NUMBER, "cls", NPY_U8}, {"float16", HOW_NUMBER, "", NPY_F2}, {"float32", HOW_NUMBER, "", NPY_F4},
    {"float64", HOW_NUMBER, "", NPY_F8},  {"str_int", HOW_DIGITS, "cls", 0},    {"str_float", HOW_DIGITS, "", 0},
    {"str_decimal", HOW_DIGITS, "", 0},   {"pkl", HOW_OPAQUE, "pkl", 0},        {"jpeg_array", HOW_OPAQUE, "jpegs", 0},
    {"jpegarray", HOW_OPAQUE, "jpegs", 0}, {"list[pil]", HOW_OPAQUE, "list", 0}, {"list[jpeg]", HOW_OPAQUE, "list", 0},
    {"list[png]", HOW_OPAQUE, "list", 0},
};

struct column {
	const char *name; /* borrowed from the index */
	const struct encoding *encoding;
	int64_t size;     /* 0: stands in every sample */
	int typed, rank;  /* HOW_ARRAY: what is not said here stands in every sample; rank 0: not said */
	enum npy_type type;
	int64_t shape[NPY_RANK];
	int favour;       /* the lower, the sooner it has the extension of its encoding */
};

struct shard_entry {
	const json_t *o; /* borrowed from the index */
	int64_t first, samples;
};

struct mds {
	char *dir, *where; /* where: of the index */
	json_t *index;
	struct shard_entry *shard;
	int64_t shards, count;
	int verify;
	size_t most;

	int64_t open;      /* the shard that is; -1: none */
	char *name;        /* path of its file */
	struct filemap map;
	uint8_t *plain;    /* unpacked; NULL: it is the file */
	const uint8_t *data;
	size_t len;
	struct column column[COLUMNS]; /* in the order of the data */
	int order[COLUMNS], columns;   /* in which they become members */

	const uint8_t *value[COLUMNS]; /* of the sample */
	size_t size[COLUMNS];
	int64_t number;    /* in its shard */
	int at;            /* in order */
	char *ext[COLUMNS + 1]; /* of its members */
	int exts;
	json_t *facts;     /* numbers that are no class */
};

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static char *index_path(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode) ? path_join(path, "index.json") : mem_strdup(path);
}

int mds_sniff(const char *path)
{
	char *where = index_path(path);
	const char *slash = strrchr(where, '/');
	json_t *o = !strcmp(slash ? slash + 1 : where, "index.json") && path_exists(where) ? jsonio_load(where, NULL) : NULL;
	int is = json_is_integer(json_object_get(o, "version")) && json_is_array(json_object_get(o, "shards")) &&
	         (!json_array_size(json_object_get(o, "shards")) ||
	          json_is_string(json_object_get(json_array_get(json_object_get(o, "shards"), 0), "format")));

	json_decref(o);
	mem_free(where);
	return is;
}

/* Of a file in the folder, with its bytes, which four of a shard's can count. 1, or 0 where it is null. */
static int read_file(const json_t *shard, const char *key, const char **name, int64_t *bytes, const char *where, struct err *e)
{
	const json_t *o = json_object_get(shard, key);

	*name = NULL;
	if (!o || json_is_null(o))
		return 0;
	if (!json_is_object(o))
		return err_set(e, ERR_DATA, "%s: \"%s\" is not an object", where, key);
	if (jsonio_str(o, "basename", 1, name, where, e) || jsonio_i64(o, "bytes", 1, 0, UINT32_MAX, bytes, where, e))
		return -1;
	if (!**name || **name == '.' || strchr(*name, '/') || strlen(*name) > 255)
		return err_set(e, ERR_DATA, "%s: \"basename\": \"%.80s\" is not the name of a file beside it", where, *name);
	for (const char *p = *name; *p; p++)
		if (iscntrl((unsigned char)*p))
			return err_set(e, ERR_DATA, "%s: \"basename\" has control characters", where);
	return 1;
}

static int read_entry(struct mds *m, const json_t *o, struct shard_entry *s, struct err *e)
{
	const char *format = "", *name;
	int64_t version = 0, bytes;
	int rc;

	*s = (struct shard_entry){.o = o, .first = m->count};
	if (!json_is_object(o))
		return err_set(e, ERR_DATA, "%s: a shard that is not an object", m->where);
	if (jsonio_i64(o, "version", 1, 0, 1000, &version, m->where, e) || jsonio_str(o, "format", 1, &format, m->where, e) ||
	    jsonio_i64(o, "samples", 1, 0, UINT32_MAX / 4, &s->samples, m->where, e))
		return -1;
	if (version != 2 || strcmp(format, "mds"))
		return err_set(e, ERR_DATA, "%s: shards of format \"%.40s\", version %lld: \"mds\", version 2, is read", m->where, format,
		               (long long)version);
	rc = read_file(o, "raw_data", &name, &bytes, m->where, e);
	if (rc < 0 || (rc && read_file(o, "zip_data", &name, &bytes, m->where, e) < 0))
		return -1;
	m->count += s->samples;
	return rc ? 0 : err_set(e, ERR_DATA, "%s: a shard without \"raw_data\"", m->where);
}

struct mds *mds_open(const char *path, int verify, size_t most, struct err *e)
{
	struct mds *m = mem_zalloc(1, sizeof *m);
	const json_t *list;
	const char *slash;
	int rc = -1;

	m->open = -1;
	m->verify = verify;
	m->most = most;
	m->where = index_path(path);
	slash = strrchr(m->where, '/');
	m->dir = slash ? mem_strndup(m->where, (size_t)(slash - m->where) + !(slash - m->where)) : mem_strdup(".");
	if ((m->index = jsonio_load(m->where, e))) {
		list = json_object_get(m->index, "shards");
		m->shards = (int64_t)json_array_size(list);
		m->shard = mem_zalloc((size_t)m->shards + 1, sizeof *m->shard);
		rc = json_is_array(list) ? 0 : err_set(e, ERR_DATA, "%s: \"shards\" is not a list", m->where);
		for (int64_t i = 0; i < m->shards && !rc; i++)
			rc = read_entry(m, json_array_get(list, (size_t)i), &m->shard[i], e);
	}
	if (!rc)
		return m;
	mds_free(m);
	return NULL;
}

static void end_sample(struct mds *m)
{
	for (int i = 0; i < m->exts; i++)
		mem_free(m->ext[i]);
	m->exts = m->at = 0;
	json_decref(m->facts);
	m->facts = NULL;
}

static void end_shard(struct mds *m)
{
	filemap_close(&m->map);
	m->map = (struct filemap){0};
	mem_free(m->plain);
	mem_free(m->name);
	m->plain = NULL;
	m->name = NULL;
	m->data = NULL;
	m->open = -1;
}

void mds_free(struct mds *m)
{
	if (!m)
		return;
	end_sample(m);
	end_shard(m);
	json_decref(m->index);
	mem_free(m->shard);
	mem_free(m->where);
	mem_free(m->dir);
	mem_free(m);
}

int64_t mds_count(const struct mds *m)
{
	return m->count;
}

int64_t mds_shards(const struct mds *m)
{
	return m->shards;
}

const char *mds_file(const struct mds *m)
{
	return m->name ? m->name : m->where;
}

json_t *mds_columns(const struct mds *m)
{
	const json_t *o = m->shards ? m->shard[0].o : NULL, *names = json_object_get(o, "column_names");
	json_t *columns = json_object();

	for (size_t i = 0; i < json_array_size(names); i++) {
		const json_t *encoding = json_array_get(json_object_get(o, "column_encodings"), i);

		if (json_is_string(json_array_get(names, i)) && json_is_string(encoding))
			json_object_set_new(columns, json_string_value(json_array_get(names, i)), json_string(json_string_value(encoding)));
	}
	return columns;
}

/* ---- Columns ---- */

/* The types of arrays, and the numbers that stand for them in samples. */
static const struct {
	const char *name;
	uint8_t code;
	enum npy_type type;
} types[] = {{"uint8", 8, NPY_U1},    {"int8", 9, NPY_I1},     {"uint16", 16, NPY_U2},  {"int16", 17, NPY_I2},
             {"float16", 18, NPY_F2}, {"uint32", 32, NPY_U4},  {"int32", 33, NPY_I4},   {"float32", 34, NPY_F4},
             {"uint64", 64, NPY_U8},  {"int64", 65, NPY_I8},   {"float64", 66, NPY_F8}};

/* By the name's n characters, or where it is NULL by the number; 0 where there is none. */
static int find_type(const char *name, size_t n, uint8_t code, enum npy_type *type)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (name ? strlen(types[i].name) == n && !memcmp(types[i].name, name, n) : types[i].code == code) {
			*type = types[i].type;
			return 1;
		}
	return 0;
}

/* "", "float32", "float32:4,32,32" */
static int parse_array(struct column *c, const char *text)
{
	size_t n = strcspn(text, ":");

	if (n && !find_type(text, n, 0, &c->type))
		return -1;
	c->typed = n > 0;
	for (text += n; *text; text += n) {
		char digits[24];

		n = 1 + strcspn(text + 1, ",");
		if (c->rank == NPY_RANK || n >= sizeof digits)
			return -1;
		memcpy(digits, text + 1, n - 1);
		digits[n - 1] = 0;
		if (parse_i64(digits, 1, UINT32_MAX, &c->shape[c->rank++]))
			return -1;
	}
	return 0;
}

static int parse_encoding(struct column *c, const char *text)
{
	size_t n = strcspn(text, ":");

	for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
		if (strlen(encodings[i].name) == n && !memcmp(encodings[i].name, text, n)) {
			c->encoding = &encodings[i];
			return encodings[i].how == HOW_ARRAY ? parse_array(c, text[n] ? text + n + 1 : "") : text[n] ? -1 : 0;
		}
	return -1;
}

/* Of several columns that are pictures, or texts, or classes, the one so called is the sample's. */
static int favour(const char *name)
{
	static const char *const names[] = {"image", "jpg",    "jpeg",    "png",    "picture", "caption", "text", "txt",
	                                    "prompt", "latents", "latent", "npy",    "class",   "label",   "cls",  NULL};
	int i = 0;

	while (names[i] && strcmp(name, names[i]))
		i++;
	return i;
}

static int read_columns(struct mds *m, const json_t *o, struct err *e)
{
	const json_t *names = json_object_get(o, "column_names"), *list = json_object_get(o, "column_encodings");
	const json_t *sizes = json_object_get(o, "column_sizes");
	size_t n = json_array_size(names);

	m->columns = 0;
	if (!json_is_array(names) || json_array_size(list) != n || json_array_size(sizes) != n || n > COLUMNS || !n)
		return err_set(e, ERR_DATA, "%s: the lists of columns are not of the same 1 to %d", m->where, COLUMNS);
	for (size_t i = 0; i < n; i++) {
		struct column *c = &m->column[i];
		const char *encoding = json_string_value(json_array_get(list, i));
		const json_t *size = json_array_get(sizes, i);
		int at = m->columns;

		*c = (struct column){.name = json_string_value(json_array_get(names, i)), .size = json_integer_value(size)};
		if (!c->name || !encoding || parse_encoding(c, encoding))
			return err_set(e, ERR_DATA, "%s: column \"%.60s\" of encoding \"%.60s\", which is not known here", m->where,
			               c->name ? c->name : "?", encoding ? encoding : "?");
		if (!(json_is_null(size) || json_is_integer(size)) || c->size < 0 || c->size > UINT32_MAX)
			return err_set(e, ERR_DATA, "%s: column \"%.60s\" of a size that is none", m->where, c->name);
		c->favour = favour(c->name);
		for (; at > 0 && m->column[m->order[at - 1]].favour > c->favour; at--)
			m->order[at] = m->order[at - 1];
		m->order[at] = (int)i;
		m->columns++;
	}
	return 0;
}

/* ---- A shard ---- */

static int hash_known(const char *algorithm, const void *p, size_t n, char hex[65])
{
	struct sha256 s;
	XXH128_hash_t h;

	if (!strcmp(algorithm, "sha256")) {
		sha256_init(&s);
		sha256_add(&s, p, n);
		sha256_end(&s, hex);
	} else if (!strcmp(algorithm, "xxh32")) {
		snprintf(hex, 65, "%08x", XXH32(p, n, 0));
	} else if (!strcmp(algorithm, "xxh64")) {
		snprintf(hex, 65, "%016llx", (unsigned long long)XXH64(p, n, 0));
	} else if (!strcmp(algorithm, "xxh3_64")) {
		snprintf(hex, 65, "%016llx", (unsigned long long)XXH3_64bits(p, n));
	} else if (!strcmp(algorithm, "xxh128") || !strcmp(algorithm, "xxh3_128")) {
		h = XXH3_128bits(p, n);
		snprintf(hex, 65, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
	} else {
		return 0;
	}
	return 1;
}

/* Those of the file that `key` tells of. */
static int check_hashes(const struct mds *m, const json_t *shard, const char *key, const void *p, size_t n, struct err *e)
{
	const json_t *hashes = json_object_get(json_object_get(shard, key), "hashes"), *v;
	const char *algorithm;
	char hex[65];

	if (!m->verify || !json_is_object(hashes))
		return 0;
	json_object_foreach((json_t *)(uintptr_t)hashes, algorithm, v) {
		const char *said = json_string_value(v);

		if (hash_known(algorithm, p, n, hex) && (!said || strcmp(said, hex)))
			return err_set(e, ERR_DATA, "%s: damaged: its %s is %s, and the index says %.64s", m->name, algorithm, hex,
			               said ? said : "nothing");
	}
	return 0;
}

/* The file `name` as m->map, which must be of that size. */
static int map_file(struct mds *m, const char *name, int64_t bytes, struct err *e)
{
	mem_free(m->name);
	m->name = path_join(m->dir, name);
	if (filemap_open(&m->map, m->name, e))
		return -1;
	if (m->map.len != (size_t)bytes)
		return err_set(e, ERR_DATA, "%s: %zu bytes where the index says %lld", m->name, m->map.len, (long long)bytes);
	return 0;
}

static int unpack_shard(struct mds *m, const json_t *o, int64_t raw, struct err *e)
{
	const char *how = "";
	size_t n;

	if (jsonio_str(o, "compression", 1, &how, m->where, e))
		return -1;
	n = strcspn(how, ":");
	if (!(n == 4 && !memcmp(how, "zstd", n)) && !(n == 2 && !memcmp(how, "gz", n)))
		return err_set(e, ERR_DATA, "%s: packed with \"%.20s\": zstd and gz are read; unpack it to %.200s", m->name, how,
		               json_string_value(json_object_get(json_object_get(o, "raw_data"), "basename")));
	if (raw > PACKED_MOST)
		return err_set(e, ERR_DATA, "%s: makes %lld bytes, more than %lld in memory", m->name, (long long)raw, (long long)PACKED_MOST);
	m->plain = unpack(n == 4 ? UNPACK_ZSTD : UNPACK_GZIP, m->map.data, m->map.len, (size_t)raw, m->name, e);
	return m->plain ? 0 : -1;
}

/* The file as it is, or else the packed one. */
static int load_shard(struct mds *m, const json_t *o, struct err *e)
{
	const char *raw, *zip;
	int64_t raw_bytes = 0, zip_bytes = 0;

	if (read_file(o, "raw_data", &raw, &raw_bytes, m->where, e) < 0 || read_file(o, "zip_data", &zip, &zip_bytes, m->where, e) < 0)
		return -1;
	if (!zip || path_holds(m->dir, raw)) {
		if (map_file(m, raw, raw_bytes, e))
			return -1;
	} else if (map_file(m, zip, zip_bytes, e) || check_hashes(m, o, "zip_data", m->map.data, m->map.len, e) ||
	           unpack_shard(m, o, raw_bytes, e)) {
		return -1;
	}
	m->data = m->plain ? m->plain : m->map.data;
	m->len = (size_t)raw_bytes;
	return check_hashes(m, o, "raw_data", m->data, m->len, e);
}

static int check_offsets(const struct mds *m, int64_t samples, struct err *e)
{
	size_t n = (size_t)samples, head = 4 * (n + 2), last = head;

	if (m->len < head || get32(m->data) != n)
		return err_set(e, ERR_DATA, "%s: not a shard of %lld samples", m->name, (long long)samples);
	for (size_t i = 0; i <= n; i++) {
		size_t offset = get32(m->data + 4 + 4 * i);

		if (offset < last || offset > m->len)
			return err_set(e, ERR_DATA, "%s: offset %zu of sample %zu is not within %zu and %zu", m->name, offset, i, last, m->len);
		last = offset;
	}
	return last == m->len ? 0 : err_set(e, ERR_DATA, "%s: %zu bytes after the last sample", m->name, m->len - last);
}

static int open_shard(struct mds *m, int64_t k, struct err *e)
{
	const json_t *o = m->shard[k].o;

	end_shard(m);
	if (read_columns(m, o, e) || load_shard(m, o, e) || check_offsets(m, m->shard[k].samples, e))
		return -1;
	m->open = k;
	return 0;
}

/* ---- A sample ---- */

static int64_t shard_of(const struct mds *m, int64_t i)
{
	int64_t lo = 0, hi = m->shards;

	while (hi - lo > 1) {
		int64_t mid = (lo + hi) / 2;

		*(m->shard[mid].first <= i ? &lo : &hi) = mid;
	}
	return lo;
}

static int bad(const struct mds *m, const char *what, struct err *e)
{
	err_set(e, ERR_DATA, "%s: sample %lld: %s", m->name, (long long)m->number, what);
	return 2;
}

/* Where its columns lie. */
static int split(struct mds *m, struct err *e)
{
	const uint8_t *p = m->data + get32(m->data + 4 + 4 * m->number), *end = m->data + get32(m->data + 8 + 4 * m->number), *head = p;
	size_t sized = 0;

	for (int c = 0; c < m->columns; c++)
		sized += !m->column[c].size;
	if ((size_t)(end - p) < 4 * sized)
		return bad(m, "too short for the sizes of its columns", e);
	if ((size_t)(end - p) > m->most)
		return bad(m, "larger than a sample may be", e);
	p += 4 * sized;
	for (int c = 0; c < m->columns; c++) {
		m->size[c] = m->column[c].size ? (size_t)m->column[c].size : get32(head);
		head += m->column[c].size ? 0 : 4;
		m->value[c] = p;
		if (m->size[c] > (size_t)(end - p))
			return bad(m, "a column that leads beyond its end", e);
		p += m->size[c];
	}
	return p == end ? 1 : bad(m, "more bytes than its columns have", e);
}

int mds_seek(struct mds *m, int64_t i, struct str *key, struct err *e)
{
	int64_t k = shard_of(m, i);
	size_t from = key->len;
	const char *name;

	end_sample(m);
	if (k != m->open && open_shard(m, k, e))
		return -1;
	m->number = i - m->shard[k].first;
	name = json_string_value(json_object_get(json_object_get(m->shard[k].o, "raw_data"), "basename"));
	str_add(key, name, strlen(name) - (str_ends(name, ".mds") ? 4 : 0));
	for (char *p = key->p + from; *p; p++)
		*p = *p == '.' ? '-' : *p;
	str_printf(key, "/%06lld", (long long)m->number);
	return split(m, e);
}

/* ---- Its members ---- */

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

/* The name that says what it is; else that of its encoding, if no column before has it; else both. */
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
		if (!n || !find_type(NULL, 0, *p, &type))
			return bad(m, "an array of a type that is none", e);
		p++;
		n--;
	}
	memcpy(shape, c->shape, sizeof shape);
	if (!rank) {
		size_t width = n ? (size_t)1 << (*p & 3) : 0;

		rank = n ? *p >> 2 : 0;
		if (rank < 1 || rank > NPY_RANK || n - 1 < (size_t)rank * width)
			return bad(m, "an array of a shape that is none, or of more than 8 axes", e);
		for (int i = 0; i < rank; i++) {
			uint64_t v = 0;

			for (size_t b = 0; b < width; b++)
				v |= (uint64_t)p[1 + (size_t)i * width + b] << 8 * b;
			if (!v || v > UINT32_MAX)
				return bad(m, "an array of a shape that is none", e);
			shape[i] = (int64_t)v;
		}
		p += 1 + (size_t)rank * width;
		n -= 1 + (size_t)rank * width;
	}
	for (int i = 0; i < rank; i++)
		if (__builtin_mul_overflow(count, (size_t)shape[i], &count))
			return bad(m, "an array of a shape that is none", e);
	if (n % npy_type_size(type) || n / npy_type_size(type) != count)
		return bad(m, "an array of another size than its shape", e);
	npy_encode(out, type, rank, shape, p);
	return 1;
}

/* Width, height and mode of Pillow, and the pixels: as PNG. */
static int add_pil(const struct mds *m, const uint8_t *p, size_t n, struct str *out, struct err *e)
{
	struct picture picture = {0};
	uint64_t w, h;
	uint8_t *png;
	size_t mode, len;
	int rc;

	if (n < 12 || (mode = get32(p + 8)) > n - 12)
		return bad(m, "a picture that is none", e);
	w = get32(p);
	h = get32(p + 4);
	if (mode == 1 && p[12] == 'L')
		picture.channels = 1;
	else if (mode == 3 && !memcmp(p + 12, "RGB", 3))
		picture.channels = 3;
	else
		return bad(m, "a picture of Pillow's that is neither L nor RGB", e);
	if (!w || !h || w > PICTURE_MOST / h || w * h * (uint64_t)picture.channels != n - 12 - mode)
		return bad(m, "a picture of another size than it says", e);
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

/* A class, 1; or kept for the facts, 3. */
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
			return bad(m, "a number of another size than its encoding", e);
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
