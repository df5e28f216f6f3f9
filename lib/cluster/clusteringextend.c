/* Extends a partition by new clusters. With --extend the centroids that are there stay, and more are fitted to the samples that are new. With --by
 * and --keep the clusters that are there keep their numbers, and new values get new ones. */
#include <string.h>

#include "cluster/centroids.h"
#include "cluster/clusteringimpl.h"
#include "core/extends.h"
#include "core/mem.h"
#include "core/names.h"
#include "data/partition.h"

/* The partition that is extended: as the sidecar of its centroids or its table names it, else that of k-means with these centroids. */
static void name_old(const struct clustering *c, const struct centroids_past *past, char old[65])
{
	if (*past->partition) {
		memcpy(old, past->partition, 65);
	} else if (c->kept.table) {
		memcpy(old, c->kept.partition, 65);
	} else {
		partition_of_centroids(old, c->old.centroids, c->old.offset, c->old.k, c->old.d, c->f.name);
		if (c->old.cosine)
			partition_of_cosine(old);
	}
}

static int open_kept(struct clustering *c, const struct centroids_past *past, struct err *e)
{
	const char *path = c->r->keep;

	if (assignment_load(&c->kept, path, -1, e))
		return -1;
	if (c->kept.names || c->kept.also >= 0)
		return err_set(e, ERR_USAGE, "--keep %s: clusters with names, or several of a sample, cannot be extended", path);
	if (c->kept.clusters != c->old.k)
		return err_set(e, ERR_DATA, "--keep %s has %d clusters, but --extend %s holds %d centroids", path, c->kept.clusters, c->r->extend,
		               c->old.k);
	if (*past->partition && strcmp(past->partition, c->kept.partition))
		return err_set(e, ERR_DATA, "--keep %s is of partition %.16s, but --extend %s of partition %.16s", path, c->kept.partition,
		               c->r->extend, past->partition);
	return 0;
}

/* Set was [f.n], the old cluster of each sample that --keep names, or -1. These samples keep their split, too. */
static int find_kept(struct clustering *c, int32_t *was, struct err *e)
{
	uint8_t *held = mem_zalloc((size_t)c->f.n + 1, 1);
	int rc = 0;

	for (int64_t i = 0; i < c->f.n && !rc; i++) {
		int64_t row = c->kept.table ? assignment_find(&c->kept, c->f.key[i]) : -1;
		int cluster, h;

		was[i] = -1;
		held[i] = c->f.held[i];
		if (row < 0)
			continue;
		rc = assignment_get(&c->kept, row, &cluster, &h, e);
		was[i] = cluster;
		held[i] = (uint8_t)h;
		c->keeps++;
	}
	if (!rc && c->keeps)
		rc = featureset_split(&c->f, held, e);
	mem_free(held);
	return rc;
}

/* Fit the new centroids to the training samples that are new. */
static int fit_new(struct clustering *c, const int32_t *was, struct err *e)
{
	struct method_options o = clustering_method(c, c->r->seed);
	int64_t n = 0, d = c->f.d;
	float *x = mem_try((size_t)(c->f.count[0] * d) + 1, sizeof *x, "features of new samples", e);
	int rc;

	if (!x)
		return -1;
	for (int64_t i = 0; i < c->f.n; i++)
		if (was[i] < 0 && !c->f.held[i])
			memcpy(x + n++ * d, c->f.x[0] + c->f.row[i] * d, (size_t)d * sizeof *x);
	o.kept = &c->old;
	o.cosine = c->old.cosine;
	rc = n ? method_cut(&c->fit, x, n, d, &o, e)
	       : err_set(e, ERR_DATA, "--keep %s names every training sample: there are none for new clusters", c->r->keep);
	c->m = c->fit.m;
	c->fit.m = (struct kmeans){0};
	mem_free(x);
	return rc;
}

/* Give every sample its old cluster or, if it is new, that of the nearest centroid. */
static int assign(struct clustering *c, const int32_t *was, struct err *e)
{
	for (int h = 0; h < 2; h++)
		if (c->f.count[h] && kmeans_assign(c->cluster[h], NULL, &c->m, c->f.x[h], c->f.count[h], c->r->pool, c->gpu, e))
			return -1;
	for (int64_t i = 0; i < c->f.n; i++) {
		int32_t *now = &c->cluster[c->f.held[i]][c->f.row[i]];

		if (was[i] >= 0)
			*now = was[i];
		else
			c->joins += *now < c->old.k;
	}
	for (int h = 0; h < 2; h++)
		method_distances(c->distance[h], &c->m, c->cluster[h], c->f.x[h], c->f.count[h], c->r->pool);
	return 0;
}

int clustering_extend(struct clustering *c, struct err *e)
{
	const struct cluster_request *r = c->r;
	int32_t *was = mem_zalloc((size_t)c->f.n + 1, sizeof *was);
	struct centroids_past past = {0};
	char old[65];
	int rc = centroids_load(&c->old, c->extend_hash, &past, r->extend, &c->f, r->network != NULL, 0, e) ||
	                 (c->old.cosine && featureset_unit(&c->f, r->pool, e)) || (r->keep && open_kept(c, &past, e)) || find_kept(c, was, e) ||
	                 clustering_find_device(c, e) || fit_new(c, was, e)
	             ? -1
	             : 0;

	if (!rc) {
		clustering_new_parts(c);
		rc = assign(c, was, e);
	}
	if (!rc) {
		name_old(c, &past, old);
		c->extends = extends_add(past.extends ? past.extends : c->kept.extends, old, c->old.k);
		partition_of_centroids(c->partition, c->m.centroids, c->m.offset, c->m.k, c->m.d, c->f.name);
		if (c->m.cosine)
			partition_of_cosine(c->partition);
		partition_of_extension(c->partition, old);
	}
	json_decref(past.extends);
	mem_free(was);
	return rc;
}

/* The table of --keep, which must be a partition by the same fact. */
static int open_named(struct clustering *c, struct err *e)
{
	const char *path = c->r->keep;
	char old[65];

	if (assignment_load(&c->kept, path, -1, e))
		return -1;
	if (!c->kept.names)
		return err_set(e, ERR_USAGE, "--keep %s: its clusters have no names; tables of --by have", path);
	partition_of_names(old, c->r->by, c->kept.names);
	if (strcmp(old, c->kept.partition))
		return err_set(e, ERR_DATA, "--keep %s is of partition %.16s, and its clusters by %s would be %.16s", path, c->kept.partition,
		               c->r->by, old);
	return 0;
}

/* The names of the table, and after them those of `found` that are new. number [found] receives the number of each name that was found. */
static json_t *join_names(const struct clustering *c, const json_t *found, int32_t *number)
{
	json_t *all = json_deep_copy(c->kept.names);

	for (size_t i = 0; i < json_array_size(found); i++) {
		json_t *name = json_array_get(found, i);
		int64_t at = names_find(all, json_string_value(name));

		number[i] = (int32_t)(at < 0 ? (int64_t)json_array_size(all) : at);
		if (at < 0)
			json_array_append(all, name);
	}
	return all;
}

int clustering_extend_names(struct clustering *c, int32_t *cluster, struct err *e)
{
	int32_t *number = mem_zalloc(json_array_size(c->names) + 1, sizeof *number), *was = mem_zalloc((size_t)c->f.n + 1, sizeof *was);
	json_t *all = NULL;
	int rc = open_named(c, e) || find_kept(c, was, e) ? -1 : 0, k = 0;

	if (!rc) {
		all = join_names(c, c->names, number);
		k = (int)json_array_size(all);
		if (k > KMEANS_MOST)
			rc = err_set(e, ERR_DATA, "--by %s: %d clusters with those of --keep, more than %d", c->r->by, k, KMEANS_MOST);
	}
	for (int64_t i = 0; i < c->f.n && !rc; i++) {
		cluster[i] = number[cluster[i]];
		c->joins += was[i] < 0 && cluster[i] < c->kept.clusters;
		if (was[i] >= 0 && was[i] != cluster[i])
			rc = err_set(e, ERR_DATA, "--keep %s has the sample \"%s\" in cluster %s, and by %s it is in %s", c->r->keep, c->f.key[i],
			             names_get(all, was[i]), c->r->by, names_get(all, cluster[i]));
	}
	if (!rc) {
		json_decref(c->names);
		c->names = json_incref(all);
		c->old.k = c->kept.clusters;
		c->extends = k > c->kept.clusters ? extends_add(c->kept.extends, c->kept.partition, c->kept.clusters) : json_incref(c->kept.extends);
	}
	json_decref(all);
	mem_free(number);
	mem_free(was);
	return rc;
}
