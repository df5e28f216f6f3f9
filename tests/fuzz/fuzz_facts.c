/* Any bytes as a file given to ddm-info, with and without --check and --full. Every fault is ERR_DATA, other files can be printed, and a file that
 * passes --check is also read without it. The same as a training log, and as a file in a training's folder. */
#include <stdlib.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "inspect/samplefacts.h"
#include "inspect/facts.h"
#include "file/kind.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/replay.h"
#include "tests/fuzz/tablehash.h"
#include "inspect/jsonfacts.h"
#include "inspect/modelfacts.h"
#include "train/trainlog.h"

static int json_facts(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	const char *kind;
	int rc = facts_json(o, s, f, &kind, e);

	if (!*kind)
		abort();
	return rc;
}

static int log_facts(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	return trainlog_read(o, (const char *)s->data, s->len, s->name, f->check, e);
}

static int network_facts(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	char *dir = folder_path("network");
	int rc;

	folder_put("network/config.json", s->data, s->len);
	folder_put("network/train.jsonl", s->data, s->len);
	rc = facts_network(o, dir, f, e);
	mem_free(dir);
	return rc;
}

static int checkpoint_facts(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	char *dir = folder_path("step-00000001");
	int rc;

	folder_put("step-00000001/MANIFEST.json", s->data, s->len);
	rc = facts_checkpoint(o, dir, f, e);
	mem_free(dir);
	return rc;
}

typedef int facts(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);

static int ask(facts *of, const struct facts_source *s, int full, int check)
{
	struct facts_options f = {full, check};
	struct err e = {0};
	json_t *o = json_object();
	int rc = of(o, s, &f, &e);
	char *line = jsonio_line(o);

	if ((rc < 0) != (e.code != 0) || (e.code && e.code != ERR_DATA && e.code != ERR_NOINPUT) || !line)
		abort();
	mem_free(line);
	json_decref(o);
	return rc;
}

static void use(facts *of, const struct facts_source *s)
{
	int look = ask(of, s, 0, 0), check = ask(of, s, 1, 1);

	ask(of, s, 1, 0);
	if (look && !check)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static facts *const of[] = {
	    [KIND_SAFETENSORS] = facts_safetensors,
	    [KIND_NPY] = facts_npy,
	    [KIND_NPZ] = facts_npz,
	    [KIND_SHARD] = facts_shard,
	    [KIND_TORCH] = facts_torch,
	    [KIND_TAR] = facts_tar,
	    [KIND_TABLE] = facts_table,
	    [KIND_JSON] = json_facts,
	    [KIND_STILL] = facts_still,
	    [KIND_FLAC] = facts_flac,
	};
	uint8_t *copy = table_hashed(data, len);
	char *path = folder_path("file");
	struct facts_source s = {path, path, copy, len};
	enum kind kind = kind_of_bytes(copy, len);

	folder_put("file", copy, len);
	if (kind != KIND_UNKNOWN)
		use(of[kind], &s);
	if (kind == KIND_JSON) {
		use(log_facts, &s);
		use(network_facts, &s);
		use(checkpoint_facts, &s);
	}
	mem_free(path);
	mem_free(copy);
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/facts")
