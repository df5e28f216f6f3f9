/* Finds the checkpoint whose averaged weights are sampled while a network is still in training. */
#include "diffusion/intraining.h"

#include <inttypes.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"

/* The step in the name of a checkpoint folder, or -1. Temporary folders have other names. */
static int64_t step_of(const char *name)
{
	int64_t step;

	if (strncmp(name, "step-", 5) || strspn(name + 5, "0123456789") != strlen(name + 5) || parse_i64(name + 5, 0, INT64_MAX, &step))
		return -1;
	return step;
}

int training_find(const char *dir, int64_t want, int64_t *step, char **sub, struct err *e)
{
	char *train = path_join(dir, "train"), **names = NULL, *folder;
	struct str there = {0};
	const char *best = NULL;
	size_t n = 0;
	int rc = 0;

	*step = -1;
	*sub = NULL;
	if (path_exists(train) && dir_list(train, &names, &n, e))
		rc = -1;
	for (size_t i = 0; i < n && !rc; i++) {
		int64_t s = step_of(names[i]);

		if (s < 0)
			continue;
		str_printf(&there, "%s%" PRId64, there.len ? ", " : "", s);
		if (want ? s == want : s > *step) {
			*step = s;
			best = names[i];
		}
	}
	if (!rc && want && !best)
		rc = err_set(e, ERR_USAGE, "%s: has no checkpoint of step %" PRId64 "; it has: %s", train, want,
		             there.len ? str_text(&there) : "none");
	if (best) {
		*sub = str_new("train/%s", best);
		folder = path_join(dir, *sub);
		rc = path_holds(folder, "config.json")
		         ? 1
		         : err_set(e, ERR_DATA,
		                   "%s: a checkpoint of an earlier version, without config.json: continue the training to get one that can "
		                   "be sampled",
		                   folder);
		mem_free(folder);
		if (rc < 0) {
			mem_free(*sub);
			*sub = NULL;
		}
	}
	str_release(&there);
	names_free(names, n);
	mem_free(train);
	return rc;
}
