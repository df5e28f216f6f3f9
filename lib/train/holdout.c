/* Finds the held-out part of a cluster. A machine that trains one expert may hold only that cluster's folder and the manifest. */
#include <stdio.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/remoteinput.h"
#include "train/run.h"

int holdout_there(const struct trainer *r, const char *shards, int cluster)
{
	char *dir, line[1200];
	int there;

	if (cluster == DATASET_ALL || remote_is_url(shards))
		return 1;
	dir = str_new("%s/holdout/cluster-%d", shards, cluster);
	there = path_exists(dir);
	if (!there) {
		snprintf(line, sizeof line,
		         "%s is not there, although the manifest lists it: training continues without a loss on held-out data "
		         "(--validate-samples 0 says so)",
		         dir);
		train_warn(r, line);
	}
	mem_free(dir);
	return there;
}
