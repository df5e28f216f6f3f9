/* Reads the cluster that an option names, by number or by name. */
#include "data/clusterarg.h"

#include <string.h>

#include "data/operand.h"
#include "core/names.h"
#include "core/str.h"
#include "file/manifest.h"

int cluster_argument(const char *text, const char *shards, int64_t *k, struct err *e)
{
	struct manifest m = {0};
	int rc;

	*k = -1;
	if (!strcmp(text, "all") || !parse_i64(text, 0, INT32_MAX, k))
		return 0;
	if (operand_shards(shards, e) || manifest_load(&m, shards, e))
		return -1;
	if (m.cluster_names)
		rc = names_parse(m.cluster_names, m.clusters, text, "--cluster", "cluster", k, e);
	else
		rc =
		    err_set(e, ERR_USAGE, "--cluster: \"%.200s\" is neither a number from 0 nor all, and %s has no names for clusters", text, shards);
	manifest_release(&m);
	return rc;
}
