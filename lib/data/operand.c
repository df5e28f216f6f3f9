/* Names the missing step when an operand is not the folder of shards that a program reads. */
#include "data/operand.h"

#include <string.h>
#include <sys/stat.h>

#include "core/mem.h"
#include "core/str.h"
#include "data/entries.h"
#include "file/fileio.h"
#include "file/kind.h"

enum { DEEP = 4, LOOKED_AT = 10000 };

/* 1 if there is a picture in the folder or below it. Examines at most *left names. */
static int holds_pictures(const char *dir, int deep, int *left)
{
	struct err ignored = {0};
	char **names = NULL;
	size_t n = 0;
	int found = 0;

	if (dir_list(dir, &names, &n, &ignored))
		return 0;
	for (size_t i = 0; i < n && !found && (*left)-- > 0; i++) {
		const char *dot = strrchr(names[i], '.');
		char *path = path_join(dir, names[i]);
		struct stat st;

		if (stat(path, &st))
			found = 0;
		else if (S_ISDIR(st.st_mode))
			found = deep && holds_pictures(path, deep - 1, left);
		else
			found = dot && entry_is_picture(dot + 1);
		mem_free(path);
	}
	names_free(names, n);
	return found;
}

static int wrong_folder(const char *path, struct err *e)
{
	enum kind kind = KIND_FOLDER;
	int left = LOOKED_AT;

	if (path_holds(path, "MANIFEST.tsv") || kind_of_folder(path, &kind, e))
		return e->code ? -1 : 0;
	if (kind == KIND_MODEL || kind == KIND_NETWORK || kind == KIND_PIPELINE)
		return err_set(e, ERR_NOINPUT, "%s is a model, not a SHARDS folder, which ddm-shard makes", path);
	if (holds_pictures(path, DEEP, &left))
		return err_set(e, ERR_NOINPUT, "%s holds pictures: run ddm-cluster and ddm-shard first", path);
	return err_set(e, ERR_NOINPUT, "%s is not a SHARDS folder, which ddm-shard makes: it has no MANIFEST.tsv", path);
}

static int wrong_file(const char *path, struct err *e)
{
	if (str_ends(path, ".tar"))
		return err_set(e, ERR_NOINPUT, "%s is a tar of samples: run ddm-cluster and ddm-shard first", path);
	return err_set(e, ERR_NOINPUT, "%s is a file, not a SHARDS folder, which ddm-shard makes", path);
}

int operand_shards(const char *path, struct err *e)
{
	struct stat st;

	if (stat(path, &st))
		return 0;
	return S_ISDIR(st.st_mode) ? wrong_folder(path, e) : wrong_file(path, e);
}
