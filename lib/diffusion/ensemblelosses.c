/* Finds the measured losses of an ensemble's experts, for weights by confidence. */
#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "diffusion/ensembleimpl.h"
#include "file/fileio.h"

int ensemble_add_losses(struct ensemble *s, int i, const char *folder, const char *sub, int first, const struct policy *p, struct err *e)
{
	const struct time_range *range = &s->member[i].config->range;
	char *path, hash[65];
	struct confidence_file file[s->files - first];
	int n = s->files - first, rc;

	if (i >= s->k || !policy_uses(p, WEIGHT_CONFIDENCE))
		return 0;
	if (range->to > 0)
		return err_set(e, ERR_USAGE, "%s: weights by confidence need experts for all times, and this one is for %g..%g", folder, range->from,
		               range->to);
	path = path_join(folder, CONFIDENCE_NAME);
	for (int j = 0; j < n; j++)
		file[j] = (struct confidence_file){s->file[first + j].name, s->file[first + j].hash};
	if (!path_exists(path))
		rc = err_set(e, ERR_NOINPUT,
		             "%s: no such file: weights by confidence need the measured loss of each expert: measure it with ddm-diagnose loss "
		             "--routes expert:%d -o %s MODEL SHARDS",
		             path, i, path);
	else
		rc = confidence_add(&s->confidence, s->k, i, path, file, n, e) || sha256_file(path, hash, NULL, e) ? -1 : 0;
	if (!rc)
		ensemble_add_file(s, str_new("%s%s" CONFIDENCE_NAME, sub, *sub ? "/" : ""), hash);
	mem_free(path);
	return rc;
}
