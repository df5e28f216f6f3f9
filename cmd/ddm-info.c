/* What a file or folder is, what it holds, and what it was made from. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "cmd/infotext.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "data/feed.h"
#include "data/samplefacts.h"
#include "file/fileio.h"
#include "file/kind.h"
#include "file/standing.h"
#include "train/jsonfacts.h"
#include "train/modelfacts.h"

static int as_json;
static struct facts_options want;

static const struct opt options[] = {
    {.name = "--check", .letter = 'c', .value = &want.check, .help = "read everything and verify it: hashes, end marks, numbers, pixels"},
    {.name = "--full", .letter = 'f', .value = &want.full, .help = "list all tensors, arrays, keys, shards; whole hashes"},
    {.name = "--json", .letter = 'j', .value = &as_json, .help = "print one line of JSON an operand"},
    {0},
};

static const struct program program = {
    .name = "ddm-info",
    .synopsis = "[-cfj] FILE...",
    .about = "Say what a file or folder is, what it holds, and what it was made from.",
    .options = options,
};

static const size_t PIPE_MOST = (size_t)1 << 32;

static int describe_bytes(json_t *o, const struct facts_source *s, struct err *e)
{
	static const struct {
		const char *name;
		int (*facts)(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);
	} kinds[] = {
	    [KIND_SAFETENSORS] = {"safetensors", facts_safetensors}, [KIND_NPY] = {"npy", facts_npy},
	    [KIND_TORCH] = {"pytorch", facts_torch},
	    [KIND_NPZ] = {"npz", facts_npz},                         [KIND_SHARD] = {"shard", facts_shard},
	    [KIND_TAR] = {"tar", facts_tar},                         [KIND_TABLE] = {"table", facts_table},
	    [KIND_STILL] = {"picture", facts_still},
	};
	enum kind kind = kind_of_bytes(s->data, s->len);
	const char *name;
	char *line;
	int rc;

	/* The index of a shard needs a file; its samples do not. */
	if (kind == KIND_SHARD && !s->path)
		kind = KIND_TAR;
	if (kind == KIND_JSON) {
		rc = facts_json(o, s, &want, &name, e);
		json_object_set_new(o, "kind", json_string(name));
		return rc;
	}
	if (kind == KIND_UNKNOWN && s->path && (line = standing_stamp(s->path))) {
		json_object_set_new(o, "kind", json_string("drawing"));
		facts_stamp(o, line);
		mem_free(line);
		return 0;
	}
	if (kind == KIND_UNKNOWN)
		return err_set(e, ERR_DATA, s->len ? "%s: nothing that these programs read" : "%s: empty", s->name);
	json_object_set_new(o, "kind", json_string(kinds[kind].name));
	return kinds[kind].facts(o, s, &want, e);
}

static int describe_map(json_t *o, const struct filemap *m, const char *name, const char *path, struct err *e)
{
	struct facts_source s = {.name = name, .path = path, .data = m->data, .len = m->len};

	json_object_set_new(o, "bytes", json_integer((json_int_t)m->len));
	return describe_bytes(o, &s, e);
}

static int describe_stdin(json_t *o, struct err *e)
{
	struct filemap m = {0};
	struct feed f;
	int rc = -1;

	if (!feed_open(&f, e) && !feed_copy(&f, NULL, e) && !filemap_fd(&m, f.fd, "standard input", e))
		rc = describe_map(o, &m, "standard input", NULL, e);
	filemap_close(&m);
	feed_close(&f);
	return rc;
}

static int describe_pipe(json_t *o, const char *path, struct err *e)
{
	struct filemap m = {0};
	void *p = file_load(path, PIPE_MOST, &m.len, e);
	int rc;

	m.data = p;
	rc = p ? describe_map(o, &m, path, NULL, e) : -1;
	mem_free(p);
	return rc;
}

static int describe_folder(json_t *o, const char *path, struct err *e)
{
	static const struct {
		const char *name;
		int (*facts)(json_t *o, const char *path, const struct facts_options *f, struct err *e);
	} kinds[] = {
	    [KIND_SHARDS] = {"shards", facts_shards}, [KIND_MODEL] = {"model", facts_model},
	    [KIND_NETWORK] = {"network", facts_network}, [KIND_TRAIN] = {"checkpoints", facts_train},
	    [KIND_CHECKPOINT] = {"checkpoint", facts_checkpoint}, [KIND_FOLDER] = {"folder", facts_folder},
	};
	enum kind kind;

	if (kind_of_folder(path, &kind, e))
		return -1;
	json_object_set_new(o, "kind", json_string(kinds[kind].name));
	return kinds[kind].facts(o, path, &want, e);
}

static int describe(json_t *o, const char *path, struct err *e)
{
	struct filemap m = {0};
	struct stat st;
	int rc;

	if (!strcmp(path, "-"))
		return describe_stdin(o, e);
	if (stat(path, &st))
		return err_errno(e, "%s", path);
	if (S_ISDIR(st.st_mode))
		return describe_folder(o, path, e);
	if (S_ISFIFO(st.st_mode))
		return describe_pipe(o, path, e);
	rc = filemap_open(&m, path, e) || describe_map(o, &m, path, path, e) ? -1 : 0;
	filemap_close(&m);
	return rc;
}

static void print_json(const json_t *o)
{
	char *line = jsonio_line(o);

	printf("%s\n", line);
	mem_free(line);
}

static void print(json_t *o, const struct err *e)
{
	static int printed;

	if (!e->code && want.check)
		json_object_set_new(o, "check", json_string("passed"));
	if (e->code) {
		json_object_set_new(o, "error", jsonio_text(e->msg));
		json_object_set_new(o, "exit", json_integer(e->code));
	}
	if (as_json) {
		print_json(o);
		return;
	}
	/* What a damaged file still tells is worth printing; a missing one tells nothing. */
	if (e->code && json_object_size(o) <= 4 && !strcmp(json_string_value(json_object_get(o, "kind")), "unknown"))
		return;
	if (printed++)
		putchar('\n');
	info_print(o, want.full);
}

int main(int argc, char **argv)
{
	struct err first = {0};
	int n = cmd_start(&program, argc, argv, 1, -1);

	for (int i = 1; i <= n; i++) {
		json_t *o = json_object();
		struct err e = {0};

		json_object_set_new(o, "file", jsonio_text(argv[i]));
		json_object_set_new(o, "kind", json_string("unknown"));
		describe(o, argv[i], &e);
		print(o, &e);
		json_decref(o);
		/* The status is the first failure's; each is told. */
		if (e.code && first.code) {
			cmd_warn("%s", first.msg);
			memcpy(first.msg, e.msg, sizeof first.msg);
		} else if (e.code) {
			first = e;
		}
	}
	return cmd_end(&first);
}
