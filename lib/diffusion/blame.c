/* Finds the weights file that made a sample NaN or infinite. It runs only after that has happened, because loading does not check every weight. */
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "diffusion/ensemble.h"
#include "file/fileio.h"
#include "file/weightfile.h"

static int is_weights(const char *name)
{
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;

	return strcmp(base, "config.json") && strcmp(base, "scheduler_config.json") && !str_ends(base, ".npy");
}

/* 1 if a tensor of the file holds NaN or infinity; *e then names it. */
static int blame_file(const char *dir, const char *name, struct err *e)
{
	char *path = path_join(dir, name), *slash;
	struct weightfile *w = weightfile_open(path, NULL, NULL);
	int found = 0;

	for (int i = 0; w && i < weightfile_count(w) && !found; i++) {
		const struct st_tensor *t = weightfile_get(w, i);
		int64_t bad = t->data ? st_not_finite(t) : 0;

		if (!bad)
			continue;
		found = 1;
		slash = strrchr(path, '/');
		if (slash)
			*slash = 0;
		*e = (struct err){0};
		err_set(e, ERR_DATA, "%s: unusable network: %lld weights are NaN or infinite, in tensor %s of %s", path, (long long)bad, t->name,
		        slash ? slash + 1 : path);
	}
	weightfile_free(w);
	mem_free(path);
	return found;
}

void ensemble_blame(const struct ensemble *s, const char *dir, struct err *e)
{
	for (int i = 0; i < s->files && e->code == ERR_FAIL; i++)
		if (is_weights(s->file[i].name) && blame_file(dir, s->file[i].name, e))
			return;
}
