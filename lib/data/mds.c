/* Reads MosaicML's shards: index.json, columns, compressed files. */
#include "data/mdsimpl.h"

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
#include "file/unpack.h"

static const int64_t PACKED_MOST = (int64_t)2 << 30; /* most bytes of a decompressed shard, which is held in memory */

static const struct encoding encodings[] = {
    {"bytes", HOW_BYTES, "bin", 0},
    {"str", HOW_STR, "txt", 0},
    {"jpeg", HOW_JPEG, "jpg", 0},
    {"png", HOW_PNG, "png", 0},
    {"pil", HOW_PIL, "png", 0},
    {"json", HOW_JSON, "json", 0},
    {"ndarray", HOW_ARRAY, "npy", 0},
    {"int", HOW_NUMBER, "cls", NPY_I8},
    {"int8", HOW_NUMBER, "cls", NPY_I1},
    {"int16", HOW_NUMBER, "cls", NPY_I2},
    {"int32", HOW_NUMBER, "cls", NPY_I4},
    {"int64", HOW_NUMBER, "cls", NPY_I8},
    {"uint8", HOW_NUMBER, "cls", NPY_U1},
    {"uint16", HOW_NUMBER, "cls", NPY_U2},
    {"uint32", HOW_NUMBER, "cls", NPY_U4},
    {"uint64", HOW_NUMBER, "cls", NPY_U8},
    {"float16", HOW_NUMBER, "", NPY_F2},
    {"float32", HOW_NUMBER, "", NPY_F4},
    {"float64", HOW_NUMBER, "", NPY_F8},
    {"str_int", HOW_DIGITS, "cls", 0},
    {"str_float", HOW_DIGITS, "", 0},
    {"str_decimal", HOW_DIGITS, "", 0},
    {"pkl", HOW_OPAQUE, "pkl", 0},
    {"jpeg_array", HOW_OPAQUE, "jpegs", 0},
    {"jpegarray", HOW_OPAQUE, "jpegs", 0},
    {"list[pil]", HOW_OPAQUE, "list", 0},
    {"list[jpeg]", HOW_OPAQUE, "list", 0},
    {"list[png]", HOW_OPAQUE, "list", 0},
};

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

/* Read the name and size in bytes (below 2^32) of a shard's file. 1; 0 if `key` is null; -1 on error. */
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
		return err_set(e, ERR_DATA, "%s: an element of \"shards\" is not an object", m->where);
	if (jsonio_i64(o, "version", 1, 0, 1000, &version, m->where, e) || jsonio_str(o, "format", 1, &format, m->where, e) ||
	    jsonio_i64(o, "samples", 1, 0, UINT32_MAX / 4, &s->samples, m->where, e))
		return -1;
	if (version != 2 || strcmp(format, "mds"))
		return err_set(e, ERR_DATA, "%s: the shards have format \"%.40s\", version %lld; only \"mds\", version 2, is supported", m->where,
		               format, (long long)version);
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
} types[] = {{"uint8", 8, NPY_U1},    {"int8", 9, NPY_I1},    {"uint16", 16, NPY_U2}, {"int16", 17, NPY_I2},
             {"float16", 18, NPY_F2}, {"uint32", 32, NPY_U4}, {"int32", 33, NPY_I4},  {"float32", 34, NPY_F4},
             {"uint64", 64, NPY_U8},  {"int64", 65, NPY_I8},  {"float64", 66, NPY_F8}};

int mds_find_type(const char *name, size_t n, uint8_t code, enum npy_type *type)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (name ? strlen(types[i].name) == n && !memcmp(types[i].name, name, n) : types[i].code == code) {
			*type = types[i].type;
			return 1;
		}
	return 0;
}

/* Parse what follows "ndarray": "", "float32", or "float32:4,32,32". */
static int parse_array(struct column *c, const char *text)
{
	size_t n = strcspn(text, ":");

	if (n && !mds_find_type(text, n, 0, &c->type))
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

/* Rank of a column by its name. If several columns hold pictures, texts or classes, the one of lowest rank is the sample's. */
static int favour(const char *name)
{
	static const char *const names[] = {"image",  "jpg",     "jpeg",   "png", "picture", "caption", "text", "txt",
	                                    "prompt", "latents", "latent", "npy", "class",   "label",   "cls",  NULL};
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
		return err_set(e, ERR_DATA, "%s: the lists of columns must have equal lengths from 1 to %d", m->where, COLUMNS);
	for (size_t i = 0; i < n; i++) {
		struct column *c = &m->column[i];
		const char *encoding = json_string_value(json_array_get(list, i));
		const json_t *size = json_array_get(sizes, i);
		int at = m->columns;

		*c = (struct column){.name = json_string_value(json_array_get(names, i)), .size = json_integer_value(size)};
		if (!c->name || !encoding || parse_encoding(c, encoding))
			return err_set(e, ERR_DATA, "%s: column \"%.60s\" has encoding \"%.60s\", which is not supported", m->where,
			               c->name ? c->name : "?", encoding ? encoding : "?");
		if (!(json_is_null(size) || json_is_integer(size)) || c->size < 0 || c->size > UINT32_MAX)
			return err_set(e, ERR_DATA, "%s: the size of column \"%.60s\" is invalid", m->where, c->name);
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

/* Check the hashes of the file that the index lists under `key`. */
static int check_hashes(const struct mds *m, const json_t *shard, const char *key, const void *p, size_t n, struct err *e)
{
	const json_t *hashes = json_object_get(json_object_get(shard, key), "hashes"), *v;
	const char *algorithm;
	char hex[65];

	if (!m->verify || !json_is_object(hashes))
		return 0;
	json_object_foreach ((json_t *)(uintptr_t)hashes, algorithm, v) {
		const char *said = json_string_value(v);

		if (hash_known(algorithm, p, n, hex) && (!said || strcmp(said, hex)))
			return err_set(e, ERR_DATA, "%s: damaged: its %s is %s, and the index says %.64s", m->name, algorithm, hex,
			               said ? said : "nothing");
	}
	return 0;
}

/* Map the file `name` to m->map; its size must be `bytes`. */
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
		return err_set(e, ERR_DATA, "%s: compressed with \"%.20s\"; only zstd and gz are supported: decompress it to %.200s", m->name, how,
		               json_string_value(json_object_get(json_object_get(o, "raw_data"), "basename")));
	if (raw > PACKED_MOST)
		return err_set(e, ERR_DATA, "%s: decompresses to %lld bytes, more than the limit of %lld", m->name, (long long)raw,
		               (long long)PACKED_MOST);
	m->plain = unpack(n == 4 ? UNPACK_ZSTD : UNPACK_GZIP, m->map.data, m->map.len, (size_t)raw, m->name, e);
	return m->plain ? 0 : -1;
}

/* Open the uncompressed file, or else the compressed one. */
static int load_shard(struct mds *m, const json_t *o, struct err *e)
{
	const char *raw, *zip;
	int64_t raw_bytes = 0, zip_bytes = 0;

	if (read_file(o, "raw_data", &raw, &raw_bytes, m->where, e) < 0 || read_file(o, "zip_data", &zip, &zip_bytes, m->where, e) < 0)
		return -1;
	if (!zip || path_holds(m->dir, raw)) {
		if (map_file(m, raw, raw_bytes, e))
			return -1;
	} else if (map_file(m, zip, zip_bytes, e) || check_hashes(m, o, "zip_data", m->map.data, m->map.len, e) || unpack_shard(m, o, raw_bytes, e)) {
		return -1;
	}
	m->data = m->plain ? m->plain : m->map.data;
	m->len = (size_t)raw_bytes;
	return check_hashes(m, o, "raw_data", m->data, m->len, e);
}

static int check_offsets(const struct mds *m, int64_t samples, struct err *e)
{
	size_t n = (size_t)samples, head = 4 * (n + 2), last = head;

	if (m->len < head || mds_u32(m->data) != n)
		return err_set(e, ERR_DATA, "%s: not a shard of %lld samples", m->name, (long long)samples);
	for (size_t i = 0; i <= n; i++) {
		size_t offset = mds_u32(m->data + 4 + 4 * i);

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

int mds_bad(const struct mds *m, const char *what, struct err *e)
{
	err_set(e, ERR_DATA, "%s: sample %lld: %s", m->name, (long long)m->number, what);
	return 2;
}

/* Find the bytes of each column in the sample. */
static int split(struct mds *m, struct err *e)
{
	const uint8_t *p = m->data + mds_u32(m->data + 4 + 4 * m->number), *end = m->data + mds_u32(m->data + 8 + 4 * m->number), *head = p;
	size_t sized = 0;

	for (int c = 0; c < m->columns; c++)
		sized += !m->column[c].size;
	if ((size_t)(end - p) < 4 * sized)
		return mds_bad(m, "too short for the sizes of its columns", e);
	if ((size_t)(end - p) > m->most)
		return mds_bad(m, "larger than a sample may be", e);
	p += 4 * sized;
	for (int c = 0; c < m->columns; c++) {
		m->size[c] = m->column[c].size ? (size_t)m->column[c].size : mds_u32(head);
		head += m->column[c].size ? 0 : 4;
		m->value[c] = p;
		if (m->size[c] > (size_t)(end - p))
			return mds_bad(m, "a column that ends beyond the sample", e);
		p += m->size[c];
	}
	return p == end ? 1 : mds_bad(m, "more bytes than its columns have", e);
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
