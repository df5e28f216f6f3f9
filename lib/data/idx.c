/* Reads the pictures and labels of MNIST's idx files. */
#include "data/idx.h"

#include <limits.h>
#include <string.h>

#include "core/mem.h"
#include "file/fileio.h"
#include "file/still.h"
#include "file/unpack.h"

enum { PICTURES = 2051, LABELS = 2049, PICTURES_HEAD = 16, LABELS_HEAD = 8, SIDE_MOST = 65536 };

static const size_t FILE_LIMIT = (size_t)4 << 30;

struct idx {
	uint8_t *file, *labels; /* both with their headers; labels NULL: none */
	char *stem;
	int64_t n;
	int height, width;
};

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The first bytes of a file; 0 if it cannot be read. */
static size_t head_of(const char *path, uint8_t *head, size_t n)
{
	size_t len = 0;
	struct filemap m;

	if (filemap_open(&m, path, NULL))
		return 0;
	len = m.len < n ? m.len : n;
	memcpy(head, m.data, len);
	filemap_close(&m);
	return len;
}

int idx_sniff(const char *path)
{
	uint8_t head[4];

	if (str_ends(path, ".gz"))
		return strstr(base_of(path), "idx3") != NULL && path_exists(path);
	return head_of(path, head, sizeof head) == sizeof head && be32(head) == PICTURES;
}

/* Replace the last `from` in the name of a file by `to`. NULL if there is none. Caller frees with mem_free. */
static char *renamed(const char *path, const char *from, const char *to)
{
	const char *at = NULL, *next = base_of(path);

	while ((next = strstr(next, from)))
		at = next++;
	return at ? str_new("%.*s%s%s", (int)(at - path), path, to, at + strlen(from)) : NULL;
}

/* The path of the file that belongs to this one, under either spelling of its packing; NULL if there is none. Caller frees with mem_free. */
static char *partner(const char *path, const char *images, const char *labels, const char *idx3, const char *idx1)
{
	char *half = renamed(path, images, labels), *whole = half ? renamed(half, idx3, idx1) : NULL;

	mem_free(half);
	if (whole && !path_exists(whole)) {
		size_t n = strlen(whole);
		char *other = str_ends(whole, ".gz") ? str_new("%.*s", (int)n - 3, whole) : str_new("%s.gz", whole);

		mem_free(whole);
		whole = other;
		if (!path_exists(whole)) {
			mem_free(whole);
			whole = NULL;
		}
	}
	return whole;
}

int idx_is_labels(const char *path)
{
	char *pictures = partner(path, "labels", "images", "idx1", "idx3");
	int is = pictures && idx_sniff(pictures);

	mem_free(pictures);
	return is;
}

/* The unpacked contents of a file, *len bytes, or NULL. The last four bytes of a gzip file hold its unpacked length. */
static uint8_t *read_whole(const char *path, size_t *len, struct err *e)
{
	uint8_t *data, *packed = file_load(path, FILE_LIMIT, len, e);
	const uint8_t *last;

	if (!packed || *len < 18 || packed[0] != 0x1f || packed[1] != 0x8b)
		return packed;
	last = packed + *len - 4;
	data = unpack(UNPACK_GZIP, packed, *len, (size_t)last[0] | (size_t)last[1] << 8 | (size_t)last[2] << 16 | (size_t)last[3] << 24, path, e);
	if (data)
		*len = (size_t)last[0] | (size_t)last[1] << 8 | (size_t)last[2] << 16 | (size_t)last[3] << 24;
	mem_free(packed);
	return data;
}

static int read_pictures(struct idx *x, const char *path, struct err *e)
{
	size_t len;
	uint64_t h, w;

	if (!(x->file = read_whole(path, &len, e)))
		return -1;
	if (len < PICTURES_HEAD || be32(x->file) != PICTURES)
		return err_set(e, ERR_DATA, "%s: not an idx file of pictures: it does not begin with the number %d", path, PICTURES);
	x->n = be32(x->file + 4);
	h = be32(x->file + 8);
	w = be32(x->file + 12);
	if (!h || !w || h > SIDE_MOST || w > SIDE_MOST || (len - PICTURES_HEAD) / (h * w) != (uint64_t)x->n || (len - PICTURES_HEAD) % (h * w))
		return err_set(e, ERR_DATA, "%s: damaged: %zu bytes, not %lld pictures of %llu x %llu", path, len, (long long)x->n,
		               (unsigned long long)w, (unsigned long long)h);
	x->height = (int)h;
	x->width = (int)w;
	return 0;
}

static int read_labels(struct idx *x, const char *path, struct err *e)
{
	size_t len;

	if (!(x->labels = read_whole(path, &len, e)))
		return -1;
	if (len < LABELS_HEAD || be32(x->labels) != LABELS || len != LABELS_HEAD + (size_t)be32(x->labels + 4))
		return err_set(e, ERR_DATA, "%s: not an idx file of labels, or damaged", path);
	if (be32(x->labels + 4) != (uint32_t)x->n)
		return err_set(e, ERR_DATA, "%s: %lu labels for %lld pictures", path, (unsigned long)be32(x->labels + 4), (long long)x->n);
	return 0;
}

struct idx *idx_open(const char *path, struct err *e)
{
	struct idx *x = mem_zalloc(1, sizeof *x);
	const char *base = base_of(path);
	char *labels = partner(path, "images", "labels", "idx3", "idx1"), *cut;
	int failed;

	x->stem = mem_strndup(base, strcspn(base, "."));
	if ((cut = strstr(x->stem, "-images")) && cut > x->stem)
		*cut = 0;
	failed = read_pictures(x, path, e) || (labels && read_labels(x, labels, e));
	mem_free(labels);
	if (!failed)
		return x;
	idx_free(x);
	return NULL;
}

void idx_free(struct idx *x)
{
	if (!x)
		return;
	mem_free(x->file);
	mem_free(x->labels);
	mem_free(x->stem);
	mem_free(x);
}

int64_t idx_count(const struct idx *x)
{
	return x->n;
}

void idx_key(const struct idx *x, int64_t i, struct str *key)
{
	str_reset(key);
	str_printf(key, "%s/%06lld", x->stem, (long long)i);
}

int idx_picture(const struct idx *x, int64_t i, struct str *out, struct err *e)
{
	struct picture p = {x->width, x->height, 1, x->file + PICTURES_HEAD + (size_t)i * (size_t)x->height * (size_t)x->width};
	uint8_t *png;
	size_t len;

	if (still_encode_png(&p, NULL, 0, &png, &len, e))
		return -1;
	str_add(out, (const char *)png, len);
	mem_free(png);
	return 0;
}

int32_t idx_label(const struct idx *x, int64_t i)
{
	return x->labels ? x->labels[LABELS_HEAD + i] : -1;
}
