/* Puts facts about the data into a model's config.json: the partition that its cluster belongs to, and the names of clusters and classes. */
#include <string.h>

#include "data/provenance.h"
#include "file/manifest.h"
#include "train/run.h"

/* The first n names: shards may name more classes than they hold. */
static void put_names(json_t *o, const char *key, const json_t *names, int64_t n)
{
	json_t *list;

	if (!names || json_array_size(names) < (size_t)n)
		return;
	list = json_array();
	for (int64_t i = 0; i < n; i++)
		json_array_append(list, json_array_get(names, (size_t)i));
	json_object_set_new(o, key, list);
}

int clusters_known(const struct trainer *r)
{
	const char *partition = dataset_info(r->main.data)->manifest->partition;

	return !r->frozen || (!frozen_info(r->frozen).weights && *partition && !strcmp(partition, frozen_info(r->frozen).partition));
}

/* What the samples of a set say of their sources and licences, or NULL. Caller json_decref()s. */
static json_t *provenance_in(const struct train_set *s, int cluster)
{
	json_t *stamp = json_loads(dataset_info(s->data)->manifest->stamp, 0, NULL);
	json_t *counts = provenance_of(json_object_get(stamp, "provenance"), cluster);

	json_decref(stamp);
	return counts;
}

static void put_provenance(const struct trainer *r, json_t *o)
{
	json_t *counts = provenance_in(&r->main, r->o->cluster), *more = r->pictures.data ? provenance_in(&r->pictures, r->picture_cluster) : NULL;

	if (counts && more)
		provenance_join(counts, more);
	else if (more)
		counts = json_incref(more);
	if (counts)
		json_object_set_new(o, "provenance", counts);
	json_decref(more);
}

void config_names(const struct trainer *r, json_t *o)
{
	const struct dataset_info *info = dataset_info(r->main.data);
	const struct manifest *m = info->manifest;
	const char *partition = r->frozen ? frozen_info(r->frozen).partition : m->partition;
	const json_t *extends = r->frozen ? frozen_info(r->frozen).extends : m->extends;

	put_provenance(r, o);
	if (*partition)
		json_object_set_new(o, "partition", json_string(partition));
	if (extends)
		json_object_set_new(o, "extends", json_deep_copy(extends));
	if (!clusters_known(r))
		return;
	put_names(o, "cluster_names", m->cluster_names, info->clusters);
	if (r->net.classes && !net_is_classifier(&r->net))
		put_names(o, "class_names", r->o->condition == CONDITION_CLUSTER ? m->cluster_names : m->class_names, r->net.classes);
}
