/* Describes any file or folder: finds its kind and calls the reader for it. */
#include "inspect/describe.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "data/feed.h"
#include "data/samples.h"
#include "file/bytesource.h"
#include "file/fileio.h"
#include "file/kind.h"
#include "file/remoteinput.h"
#include "file/shard.h"
#include "file/stamp.h"
#include "inspect/samplefacts.h"
#include "inspect/jsonfacts.h"
#include "inspect/modelfacts.h"

static const size_t PIPE_MOST = (size_t)1 << 32;

static int describe_bytes(json_t *o, const struct facts_source *s, const struct facts_options *want, struct err *e)
{
	static const struct {
		const char *name;
		int (*facts)(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);
	} kinds[] = {
	    [KIND_SAFETENSORS] = {"safetensors", facts_safetensors},
	    [KIND_NPY] = {"npy", facts_npy},
	    [KIND_TORCH] = {"pytorch", facts_torch},
	    [KIND_NPZ] = {"npz", facts_npz},
	    [KIND_SHARD] = {"shard", facts_shard},
	    [KIND_TAR] = {"tar", facts_tar},
	    [KIND_TABLE] = {"table", facts_table},
	    [KIND_STILL] = {"picture", facts_still},
	    [KIND_FLAC] = {"sound", facts_flac},
	    [KIND_MARKUP] = {"drawing", facts_markup},
	};
	enum kind kind = kind_of_bytes(s->data, s->len);
	const char *name;
	int rc;

	/* The index of a shard can be read only from a file; through a pipe the shard is read as a tar. */
	if (kind == KIND_SHARD && !s->path)
		kind = KIND_TAR;
	if (kind == KIND_JSON) {
		rc = facts_json(o, s, want, &name, e);
		json_object_set_new(o, "kind", json_string(name));
		return rc;
	}
	if (kind == KIND_UNKNOWN && s->path && stamp_sidecar_seals(s->path)) {
		json_object_set_new(o, "kind", json_string("other"));
		return facts_other(o, s, want, e);
	}
	if (kind == KIND_UNKNOWN)
		return err_set(e, ERR_DATA, s->len ? "%s: not a file or folder that these programs read" : "%s: empty", s->name);
	json_object_set_new(o, "kind", json_string(kinds[kind].name));
	return kinds[kind].facts(o, s, want, e);
}

static int describe_map(json_t *o, const struct filemap *m, const char *name, const char *path, const struct facts_options *want, struct err *e)
{
	struct facts_source s = {.name = name, .path = path, .data = m->data, .len = m->len};

	json_object_set_new(o, "bytes", json_integer((json_int_t)m->len));
	return describe_bytes(o, &s, want, e);
}

static int describe_stdin(json_t *o, const struct facts_options *want, struct err *e)
{
	struct filemap m = {0};
	struct feed f;
	int rc = -1;

	if (!feed_open(&f, e) && !feed_copy(&f, NULL, e) && !filemap_fd(&m, f.fd, "standard input", e))
		rc = describe_map(o, &m, "standard input", NULL, want, e);
	filemap_close(&m);
	feed_close(&f);
	return rc;
}

static int describe_pipe(json_t *o, const char *path, const struct facts_options *want, struct err *e)
{
	struct filemap m = {0};
	void *p = file_load(path, PIPE_MOST, &m.len, e);
	int rc;

	m.data = p;
	rc = p ? describe_map(o, &m, path, NULL, want, e) : -1;
	mem_free(p);
	return rc;
}

static int describe_folder(json_t *o, const char *path, const struct facts_options *want, struct err *e)
{
	static const struct {
		const char *name;
		int (*facts)(json_t *o, const char *path, const struct facts_options *f, struct err *e);
	} kinds[] = {
	    [KIND_SHARDS] = {"shards", facts_shards},       [KIND_MODEL] = {"model", facts_model},
	    [KIND_PIPELINE] = {"pipeline", facts_pipeline}, [KIND_NETWORK] = {"network", facts_network},
	    [KIND_TRAIN] = {"checkpoints", facts_train},    [KIND_CHECKPOINT] = {"checkpoint", facts_checkpoint},
	    [KIND_FOLDER] = {"folder", facts_folder},
	};
	enum kind kind;

	if (kind_of_folder(path, &kind, e))
		return -1;
	json_object_set_new(o, "kind", json_string(kinds[kind].name));
	return kinds[kind].facts(o, path, want, e);
}

/* ---- files on servers ---- */

enum { URL_HEAD = 1 << 16, URL_TABLE_HEAD = 1 << 24, WEIGHTS_HEAD = 100000000 };
static const int64_t URL_TABLE_WHOLE = (int64_t)1 << 27;

struct remote {
	const char *url;
	char *name; /* for messages */
	struct bytesource *source;
	uint8_t *head; /* its first bytes, read in order */
	size_t got;
	int64_t size; /* -1: unknown */
};

/* Read the whole file into a temporary one, and describe that. */
static int describe_copy(json_t *o, const struct remote *r, const struct facts_options *want, struct err *e)
{
	uint8_t *buf = mem_alloc(URL_HEAD);
	struct filemap m = {0};
	size_t got = r->got;
	int fd = file_scratch(NULL, e), rc = fd < 0;

	memcpy(buf, r->head, got);
	while (!rc && got) {
		if (fd_write(fd, buf, got))
			rc = err_errno(e, "%s: copy into a temporary file", r->name);
		else if (r->size < 0 && bytesource_at(r->source) > (int64_t)PIPE_MOST)
			rc = err_set(e, ERR_DATA, "%s: larger than %zu bytes, and the server did not say so", r->name, PIPE_MOST);
		else
			rc = bytesource_read(r->source, buf, URL_HEAD, &got, e);
	}
	if (!rc)
		rc = filemap_fd(&m, fd, r->name, e) || describe_map(o, &m, r->name, NULL, want, e);
	filemap_close(&m);
	if (fd >= 0)
		close(fd);
	mem_free(buf);
	return rc ? -1 : 0;
}

/* Read exactly n bytes at an offset of a file of known size. */
static int remote_read(const struct remote *r, void *p, size_t n, int64_t offset, struct err *e)
{
	size_t got;

	if (bytesource_read_at(r->source, p, n, (uint64_t)offset, &got, e))
		return -1;
	return got == n ? 0 : err_set(e, ERR_DATA, "%s: the file ends too early", r->name);
}

/* Describe by the first n bytes a file whose kind needs no others: of memory as large as the file only the pages of these are used. */
static int describe_head(json_t *o, const struct remote *r, size_t n, const struct facts_options *want, struct err *e)
{
	uint8_t *p = mmap(NULL, (size_t)r->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct filemap m = {.data = p, .len = (size_t)r->size};
	int rc;

	if (p == MAP_FAILED)
		return err_errno(e, "%s: address space for %lld bytes", r->name, (long long)r->size);
	memcpy(p, r->head, n < r->got ? n : r->got);
	rc = n > r->got ? remote_read(r, p + r->got, n - r->got, (int64_t)r->got, e) : 0;
	if (!rc)
		rc = describe_map(o, &m, r->name, NULL, want, e);
	munmap(p, m.len);
	return rc;
}

/* The header of safetensors: its length is in the first 8 bytes. A longer one than the file or the limit is refused for that length alone. */
static size_t weights_head(const struct remote *r)
{
	uint64_t n = 0;

	for (int i = 7; i >= 0; i--)
		n = n << 8 | r->head[i];
	return n > (uint64_t)r->size - 8 || n > WEIGHTS_HEAD ? r->got : (size_t)n + 8;
}

/* Describe a large table by both ends. */
static int describe_ends(json_t *o, const struct remote *r, struct err *e)
{
	uint8_t *p = mem_alloc(URL_TABLE_HEAD + URL_HEAD);
	struct facts_source s = {.name = r->name, .data = p, .len = URL_TABLE_HEAD + URL_HEAD};
	int rc = remote_read(r, p, URL_TABLE_HEAD, 0, e) || remote_read(r, p + URL_TABLE_HEAD, URL_HEAD, r->size - URL_HEAD, e);

	if (!rc) {
		json_object_set_new(o, "bytes", json_integer(r->size));
		json_object_set_new(o, "kind", json_string("table"));
		rc = facts_table_ends(o, &s, e);
	}
	mem_free(p);
	return rc ? -1 : 0;
}

/* Describe a tar or shard, which its own reader reads. */
static int describe_archive(json_t *o, const struct remote *r, int shard, const struct facts_options *want, struct err *e)
{
	struct facts_source s = {.name = r->name, .path = r->url};

	if (r->size >= 0)
		json_object_set_new(o, "bytes", json_integer(r->size));
	json_object_set_new(o, "kind", json_string(shard ? "shard" : "tar"));
	return shard ? facts_shard(o, &s, want, e) : facts_tar(o, &s, want, e);
}

static int describe_remote(json_t *o, const struct remote *r, const struct facts_options *want, struct err *e)
{
	enum kind kind = kind_of_bytes(r->head, r->got);
	int some = bytesource_is_seekable(r->source) && !want->check && r->size > URL_HEAD;

	if (kind == KIND_TAR || kind == KIND_SHARD) {
		int shard = bytesource_is_seekable(r->source) ? shard_sniff(r->url, e) : 0;

		return shard < 0 ? -1 : describe_archive(o, r, shard, want, e);
	}
	if (some && kind == KIND_SAFETENSORS)
		return describe_head(o, r, weights_head(r), want, e);
	if (some && (kind == KIND_NPY || kind == KIND_FLAC))
		return describe_head(o, r, r->got, want, e);
	if (some && kind == KIND_TABLE && r->size > URL_TABLE_WHOLE)
		return describe_ends(o, r, e);
	return describe_copy(o, r, want, e);
}

static int describe_url(json_t *o, const char *url, const struct facts_options *want, struct err *e)
{
	struct remote r = {.url = url, .name = remote_shown(url)};
	int shards = kind_promised(r.name) ? 0 : samples_is_shards(url, e), rc = -1;

	if (shards > 0) {
		json_object_set_new(o, "kind", json_string("shards"));
		rc = facts_shards(o, url, want, e);
	} else if (!shards && (r.source = bytesource_open(url, e))) {
		r.size = bytesource_size(r.source);
		r.head = mem_alloc(URL_HEAD);
		rc = bytesource_read(r.source, r.head, URL_HEAD, &r.got, e) || describe_remote(o, &r, want, e) ? -1 : 0;
	}
	bytesource_close(r.source);
	mem_free(r.head);
	mem_free(r.name);
	return rc;
}

int describe_path(json_t *o, const char *path, const struct facts_options *want, struct err *e)
{
	struct filemap m = {0};
	struct stat st;
	int rc;

	if (!strcmp(path, "-"))
		return describe_stdin(o, want, e);
	if (remote_is_url(path))
		return describe_url(o, path, want, e);
	if (stat(path, &st))
		return err_errno(e, "%s", path);
	if (S_ISDIR(st.st_mode))
		return describe_folder(o, path, want, e);
	if (S_ISFIFO(st.st_mode))
		return describe_pipe(o, path, want, e);
	rc = filemap_open(&m, path, e) || describe_map(o, &m, path, path, want, e) ? -1 : 0;
	filemap_close(&m);
	return rc;
}
