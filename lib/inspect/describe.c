/* Describes any file or folder: finds its kind and calls the reader for it. */
#include "inspect/describe.h"

#include <string.h>
#include <sys/stat.h>

#include "core/mem.h"
#include "data/feed.h"
#include "inspect/samplefacts.h"
#include "file/fileio.h"
#include "file/kind.h"
#include "file/stamp.h"
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

int describe_path(json_t *o, const char *path, const struct facts_options *want, struct err *e)
{
	struct filemap m = {0};
	struct stat st;
	int rc;

	if (!strcmp(path, "-"))
		return describe_stdin(o, want, e);
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
