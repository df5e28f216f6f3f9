/* Opens the tokenizer in a folder, and pads and truncates ids. */
#include "text/tokenizer.h"

#include <assert.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "text/bpe.h"
#include "text/unigram.h"
#include "file/fileio.h"

struct tokenizer {
	struct bpe *bpe; /* or */
	struct unigram *unigram;
	int32_t padding;
};

enum { MOST = 64 << 20 };

/* gzip'd bytes as they were, at most MOST; caller frees. */
static char *gunzip(const void *data, size_t len, size_t *out_len, const char *path, struct err *e)
{
	z_stream z = {.next_in = (void *)data, .avail_in = (uInt)len};
	struct str s = {0};
	char part[16384];
	int rc = inflateInit2(&z, 15 + 16);

	while (rc == Z_OK && s.len <= MOST) {
		z.next_out = (Bytef *)part;
		z.avail_out = sizeof part;
		rc = inflate(&z, Z_NO_FLUSH);
		str_add(&s, part, sizeof part - z.avail_out);
	}
	inflateEnd(&z);
	*out_len = s.len;
	if (rc == Z_STREAM_END && s.p)
		return s.p;
	err_set(e, ERR_DATA, "%s: damaged or too large: not a gzipped list of merges", path);
	str_release(&s);
	return NULL;
}

static int open_merges(struct tokenizer *t, const char *path, const json_t *vocab, struct err *e)
{
	size_t len, n;
	char *data = file_load(path, MOST, &len, e), *plain;

	if (data && len > 2 && !memcmp(data, "\x1f\x8b", 2)) {
		plain = gunzip(data, len, &n, path, e);
		mem_free(data);
		data = plain;
		len = n;
	}
	if (data)
		t->bpe = bpe_new(data, len, vocab, path, e);
	mem_free(data);
	return t->bpe ? 0 : -1;
}

static int open_json(struct tokenizer *t, const char *path, struct err *e)
{
	json_t *o = jsonio_load(path, e);
	const char *type = json_string_value(json_object_get(json_object_get(o, "model"), "type"));

	if (o && type && !strcmp(type, "Unigram"))
		t->unigram = unigram_from_json(o, path, e);
	else if (o && (!type || !strcmp(type, "BPE")))
		t->bpe = bpe_from_json(o, path, e);
	else if (o)
		err_set(e, ERR_DATA, "%s: a tokenizer of type %s; only BPE and Unigram are supported", path, type);
	json_decref(o);
	return t->bpe || t->unigram ? 0 : -1;
}

static int open_model(struct tokenizer *t, const char *path, struct err *e)
{
	size_t len;
	void *data = file_load(path, MOST, &len, e);

	if (data)
		t->unigram = unigram_from_model(data, len, path, e);
	mem_free(data);
	return t->unigram ? 0 : -1;
}

static int open_vocab(struct tokenizer *t, const char *merges, const char *vocab, struct err *e)
{
	json_t *o = jsonio_load(vocab, e);
	int rc = o ? open_merges(t, merges, o, e) : -1;

	json_decref(o);
	return rc;
}

/* The files of a tokenizer: one file, or a list of merges and a vocabulary. */
struct files {
	char *path[2];
};

static void files_release(struct files *f)
{
	mem_free(f->path[0]);
	mem_free(f->path[1]);
}

static int is_folder(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static int locate(struct files *f, const char *path, struct err *e)
{
	static const char *const names[] = {"tokenizer.json", "merges.txt", "spiece.model"};

	*f = (struct files){{NULL}};
	if (!is_folder(path)) {
		f->path[0] = mem_strdup(path);
		return 0;
	}
	for (int i = 0; i < 3 && !f->path[0]; i++) {
		f->path[0] = path_join(path, names[i]);
		if (!path_exists(f->path[0])) {
			mem_free(f->path[0]);
			f->path[0] = NULL;
		} else if (i == 1) {
			f->path[1] = path_join(path, "vocab.json");
		}
	}
	return f->path[0] ? 0 : err_set(e, ERR_NOINPUT, "%s: holds no tokenizer.json, merges.txt or spiece.model", path);
}

static int open_files(struct tokenizer *t, const struct files *f, struct err *e)
{
	if (f->path[1])
		return open_vocab(t, f->path[0], f->path[1], e);
	if (str_ends(f->path[0], ".json"))
		return open_json(t, f->path[0], e);
	return str_ends(f->path[0], ".model") ? open_model(t, f->path[0], e) : open_merges(t, f->path[0], NULL, e);
}

struct tokenizer *tokenizer_open(const char *path, struct err *e)
{
	struct tokenizer *t = mem_zalloc(1, sizeof *t);
	struct files f;
	int rc = locate(&f, path, e) || open_files(t, &f, e);

	files_release(&f);
	if (rc) {
		mem_free(t);
		return NULL;
	}
	t->padding = t->bpe ? bpe_end(t->bpe) : unigram_padding(t->unigram);
	return t;
}

int tokenizer_hash(const char *path, char hex[65], struct err *e)
{
	struct files f;
	struct sha256 all;
	int rc = locate(&f, path, e);

	sha256_init(&all);
	for (int i = 0; i < 2 && !rc && f.path[i]; i++) {
		const char *slash = strrchr(f.path[i], '/');
		char *line;

		rc = sha256_file(f.path[i], hex, NULL, e);
		line = str_new("%s  %s\n", rc ? "" : hex, slash ? slash + 1 : f.path[i]);
		sha256_add(&all, line, strlen(line));
		mem_free(line);
	}
	if (!rc && f.path[1])
		sha256_end(&all, hex);
	files_release(&f);
	return rc;
}

void tokenizer_free(struct tokenizer *t)
{
	if (!t)
		return;
	bpe_free(t->bpe);
	unigram_free(t->unigram);
	mem_free(t);
}

void tokenizer_pad_with(struct tokenizer *t, int32_t id)
{
	t->padding = id;
}

int tokenizer_pad_token(struct tokenizer *t, const char *token, const char *where, struct err *e)
{
	int32_t id = t->bpe ? bpe_special(t->bpe, token) : unigram_find(t->unigram, token);

	if (id < 0)
		return err_set(e, ERR_DATA, "%s: pads with \"%.60s\", which the vocabulary does not have", where, token);
	t->padding = id;
	return 0;
}

int32_t tokenizer_padding(const struct tokenizer *t)
{
	return t->padding;
}

int32_t tokenizer_largest(const struct tokenizer *t)
{
	return t->bpe ? bpe_largest(t->bpe) : unigram_largest(t->unigram);
}

static int32_t end_of(const struct tokenizer *t)
{
	return t->bpe ? bpe_end(t->bpe) : unigram_end(t->unigram);
}

int64_t tokenizer_encode_all(const struct tokenizer *t, const char *text, size_t len, int32_t **ids)
{
	int32_t *own, *all;
	size_t n = t->bpe ? bpe_encode(t->bpe, text, len, &own) : unigram_encode(t->unigram, text, len, &own), k = 0;

	all = mem_alloc((n + 2) * sizeof *all);
	if (t->bpe)
		all[k++] = bpe_start(t->bpe);
	memcpy(all + k, own, n * sizeof *all);
	k += n;
	if (end_of(t) >= 0)
		all[k++] = end_of(t);
	mem_free(own);
	*ids = all;
	return (int64_t)k;
}

int64_t tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, int64_t n, int32_t *ids)
{
	int32_t *all;
	int64_t k = tokenizer_encode_all(t, text, len, &all), kept = k < n ? k : n;

	assert(n > 0);
	memcpy(ids, all, (size_t)kept * sizeof *ids);
	if (k > n && end_of(t) >= 0)
		ids[n - 1] = end_of(t);
	for (int64_t i = kept; i < n; i++)
		ids[i] = t->padding;
	mem_free(all);
	return k;
}
