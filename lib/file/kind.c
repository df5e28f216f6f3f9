/* Recognises the kind of a file by its bytes and of a folder by the names in it. */
#include "file/kind.h"

#include <string.h>

#include "core/seal.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/flac.h"
#include "file/shardindex.h"
#include "file/still.h"
#include "file/tarfile.h"
#include "file/torchfile.h"

enum {
	MARKUP_MOST = 1 << 20,
	SEAL_TAIL = 8 /* what may follow a seal at the end of a text */
};

static int begins(const uint8_t *p, size_t len, const char *magic, size_t n)
{
	return len >= n && !memcmp(p, magic, n);
}

/* A length below 2^32, then the brace of its JSON. The length may pass the end of a file that was cut. */
static int is_safetensors(const uint8_t *p, size_t len)
{
	return len > 8 && p[8] == '{' && !memcmp(p + 4, "\0\0\0\0", 4);
}

static int is_shard(const uint8_t *p, size_t len)
{
	const uint8_t *foot = len > SHARD_FOOT_BYTES ? p + len - SHARD_FOOT_BYTES : NULL;

	return foot && shard_get32(foot + 5) == SHARD_SEEK_MAGIC && foot[4] == 0x80;
}

/* '#', names, and the stamp on the second line. */
static int is_table(const uint8_t *p, size_t len)
{
	static const char stamp[] = "\n#stamp ";
	const uint8_t *line = len && *p == '#' ? memchr(p, '\n', len < 65536 ? len : 65536) : NULL;

	return line && len - (size_t)(line - p) >= sizeof stamp - 1 && !memcmp(line, stamp, sizeof stamp - 1);
}

static int is_json(const uint8_t *p, size_t len)
{
	size_t i = 0;

	while (i < len && strchr(" \t\r\n", p[i] ? p[i] : 'x'))
		i++;
	return i < len && p[i] == '{';
}

/* A stamp in the form file/standing.c reads; or a seal at the end of a text whose beginning is damaged. */
static int is_markup(const uint8_t *p, size_t len)
{
	static const char *const stamp[] = {"<metadata id=\"ddm\">", "<meta name=\"ddm\" content=\""};
	size_t most = len < MARKUP_MOST ? len : MARKUP_MOST;

	for (size_t i = 0; len && *p == '<' && i < sizeof stamp / sizeof *stamp; i++)
		if (memmem(p, most, stamp[i], strlen(stamp[i])))
			return 1;
	return seal_find_last(p, len, SEAL_TAIL) >= 0;
}

enum kind kind_of_bytes(const void *data, size_t len)
{
	const uint8_t *p = data;

	if (begins(p, len, "\x93NUMPY", 6))
		return KIND_NPY;
	if (torch_sniff(p, len, "", NULL))
		return KIND_TORCH;
	if (begins(p, len, "PK\3\4", 4) || begins(p, len, "PK\5\6", 4))
		return KIND_NPZ;
	if (still_sniff(p, len) != STILL_UNKNOWN)
		return KIND_STILL;
	if (flac_sniff(p, len))
		return KIND_FLAC;
	if (is_shard(p, len))
		return KIND_SHARD;
	if (is_safetensors(p, len))
		return KIND_SAFETENSORS;
	if (is_table(p, len))
		return KIND_TABLE;
	if (is_json(p, len))
		return KIND_JSON;
	return tar_sniff(p, len) ? KIND_TAR : is_markup(p, len) ? KIND_MARKUP : KIND_UNKNOWN;
}

int kind_promised(const char *name)
{
	static const char *const ends[] = {".png",  ".jpg", ".jpeg", ".webp", ".npy",     ".npz",    ".safetensors", ".pt",     ".pth",
	                                   ".ckpt", ".tar", ".tgz",  ".tsv",  ".tar.zst", ".tar.gz", ".tar.xz",      ".tar.bz2"};

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (str_ends(name, ends[i]))
			return 1;
	return 0;
}

/* A mark that ends in '_' or '-' matches every name in which a number follows it. */
static int is_marked(const char *name, const char *mark)
{
	size_t n = strlen(mark);

	if (mark[n - 1] != '_' && mark[n - 1] != '-')
		return !strcmp(name, mark);
	return !strncmp(name, mark, n) && name[n] && strspn(name + n, "0123456789") == strlen(name + n);
}

int kind_of_folder(const char *path, enum kind *kind, struct err *e)
{
	/* The first match counts, so the more specific names come first. */
	static const struct {
		const char *name;
		enum kind kind;
	} marks[] = {
	    {"MANIFEST.tsv", KIND_SHARDS},
	    {"expert_", KIND_MODEL},
	    {"router", KIND_MODEL},
	    {"model_index.json", KIND_PIPELINE},
	    {"MANIFEST.json", KIND_CHECKPOINT},
	    {"config.json", KIND_NETWORK},
	    {"diffusion_pytorch_model.safetensors", KIND_NETWORK},
	    {"model.safetensors", KIND_NETWORK},
	    {"pytorch_model.safetensors", KIND_NETWORK},
	    {"diffusion_pytorch_model.safetensors.index.json", KIND_NETWORK},
	    {"model.safetensors.index.json", KIND_NETWORK},
	    {"diffusion_pytorch_model.bin", KIND_NETWORK},
	    {"pytorch_model.bin", KIND_NETWORK},
	    {"pytorch_model.bin.index.json", KIND_NETWORK},
	    {"train.jsonl", KIND_NETWORK},
	    {"train", KIND_NETWORK},
	    {"step-", KIND_TRAIN},
	};
	size_t best = sizeof marks / sizeof *marks, n;
	char **names;

	if (dir_list(path, &names, &n, e))
		return -1;
	for (size_t i = 0; i < n; i++)
		for (size_t m = 0; m < best; m++)
			if (is_marked(names[i], marks[m].name))
				best = m;
	names_free(names, n);
	*kind = best < sizeof marks / sizeof *marks ? marks[best].kind : KIND_FOLDER;
	return 0;
}
