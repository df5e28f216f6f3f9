/* Measures a partition: quality, agreement over seeds, agreement with labels. The partition is one just made, or a given assignment. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/clusteringimpl.h"
#include "core/mem.h"
#include "core/str.h"

int clustering_open_rated(struct clustering *c, struct err *e)
{
	return assignment_load(&c->rated, c->r->rate, -1, e);
}

/* Read cluster and split of every sample from the table. Rows without a sample are an error, as in ddm-shard. */
static int find_rows(const struct clustering *c, int32_t *cluster, uint8_t *held, struct err *e)
{
	const struct assignment *a = &c->rated;

	for (int64_t i = 0; i < c->f.n; i++) {
		int64_t row = assignment_find(a, c->f.key[i]);
		int k, h;

		if (row < 0)
			return err_set(e, ERR_DATA, "%s: the sample \"%s\" is not in the assignment", c->r->rate, c->f.key[i]);
		if (assignment_get(a, row, &k, &h, e))
			return -1;
		cluster[i] = k;
		held[i] = (uint8_t)h;
	}
	if (c->f.n < a->rows && !c->r->skip_bad)
		return err_set(e, ERR_DATA, "%s: %lld rows of the assignment have no sample", c->r->rate, (long long)(a->rows - c->f.n));
	return 0;
}

int clustering_take_rated(struct clustering *c, struct err *e)
{
	int32_t *cluster = mem_zalloc((size_t)c->f.n, sizeof *cluster);
	uint8_t *held = mem_zalloc((size_t)c->f.n, 1);
	int rc = find_rows(c, cluster, held, e) || featureset_split(&c->f, held, e) ? -1 : 0;

	for (int h = 0; h < 2 && !rc; h++) {
		c->cluster[h] = mem_zalloc((size_t)c->f.count[h], sizeof *c->cluster[h]);
		c->distance[h] = mem_zalloc((size_t)c->f.count[h], sizeof *c->distance[h]);
	}
	for (int64_t i = 0; i < c->f.n && !rc; i++)
		c->cluster[c->f.held[i]][c->f.row[i]] = cluster[i];
	if (!rc && !c->f.count[0])
		rc = err_set(e, ERR_DATA, "%s: there is no training sample to measure", c->r->rate);
	if (!rc)
		rc = method_means(&c->m, c->cluster[0], c->f.x[0], c->f.count[0], c->f.d, c->rated.clusters, c->r->pool, e);
	if (!rc && c->r->distance) {
		c->m.cosine = 1;
		kmeans_scale(&c->m, NULL, c->r->pool);
	}
	for (int h = 0; h < 2 && !rc; h++)
		method_distances(c->distance[h], &c->m, c->cluster[h], c->f.x[h], c->f.count[h], c->r->pool);
	c->names = json_incref(c->rated.names);
	memcpy(c->partition, c->rated.partition, sizeof c->partition);
	mem_free(cluster);
	mem_free(held);
	return rc;
}

int clustering_open_against(struct clustering *c, struct err *e)
{
	const struct cluster_request *r = c->r;
	int key = -1;

	if (!r->table && strcmp(r->against, "class") && strcmp(r->against, "folder"))
		return err_set(e, ERR_USAGE, "--against %s: expected class, folder, or a column of a --table", r->against);
	if (!r->table)
		return 0;
	if (!(c->against = tsv_load_any(r->table, e)) || (key = tsv_need(c->against, "key", e)) < 0 ||
	    (c->against_column = tsv_need(c->against, r->against, e)) < 0)
		return -1;
	return tsv_index(c->against, key, e);
}

/* The label of sample i, in new memory; NULL: it has none. */
static char *label_of(const struct clustering *c, int64_t i)
{
	const char *key = c->f.key[i], *slash = strrchr(key, '/');

	if (c->against) {
		int64_t row = tsv_lookup(c->against, key);

		return row < 0 ? NULL : mem_strdup(tsv_get(c->against, row, c->against_column));
	}
	if (!strcmp(c->r->against, "class"))
		return c->f.label[i] < 0 ? NULL : str_new("%d", (int)c->f.label[i]);
	return slash ? str_new("%.*s", (int)(slash - key), key) : NULL;
}

struct label {
	char *text;
	int64_t row;
};

static int by_text(const void *x, const void *y)
{
	return strcmp(((const struct label *)x)->text, ((const struct label *)y)->text);
}

static int rate_labels(struct clustering *c, struct err *e)
{
	int32_t *number = mem_zalloc((size_t)c->f.count[0], sizeof *number), values = 0;
	struct label *label = mem_zalloc((size_t)c->f.count[0], sizeof *label);
	struct agreement g;
	int64_t n = 0;

	for (int64_t i = 0; i < c->f.count[0]; i++)
		number[i] = -1;
	for (int64_t i = 0; i < c->f.n; i++) {
		char *text = c->f.held[i] ? NULL : label_of(c, i);

		if (text)
			label[n++] = (struct label){text, c->f.row[i]};
	}
	qsort(label, (size_t)n, sizeof *label, by_text);
	for (int64_t i = 0; i < n; i++)
		number[label[i].row] = values += !i || strcmp(label[i - 1].text, label[i].text) != 0;
	g = agreement_of(c->cluster[0], number, c->f.count[0]);
	c->labels = (struct cluster_agreement){values, g.n, g.rand, g.information, g.rand, g.information};
	for (int64_t i = 0; i < n; i++)
		mem_free(label[i].text);
	mem_free(label);
	mem_free(number);
	return n ? 0 : err_set(e, ERR_DATA, "--against %s: no training sample has one", c->r->against);
}

/* Cluster with the other seeds too, and compare all pairs. */
static int rate_seeds(struct clustering *c, struct err *e)
{
	struct method_options o = clustering_method(c, c->r->seed);
	int64_t n = c->f.count[0], seeds = c->r->seeds, pairs = 0;
	int32_t *all = mem_try((size_t)(n * seeds), sizeof *all, "assignments of all seeds", e);
	struct cluster_agreement *a = &c->seeds;
	int rc = all ? 0 : -1;

	if (!rc && !method_draws(&o, n))
		rc = err_set(e, ERR_USAGE, "--seeds: --method %s draws nothing for %lld samples, so every seed gives the same clusters",
		             cluster_method_names[o.method], (long long)n);
	if (!rc)
		memcpy(all, c->cluster[0], (size_t)n * sizeof *all);
	for (int64_t s = 1; s < seeds && !rc; s++) {
		struct method_fit f;

		o.seed = c->r->seed + (uint64_t)s;
		rc = method_cut(&f, c->f.x[0], n, c->f.d, &o, e);
		if (!rc)
			memcpy(all + s * n, f.cluster, (size_t)n * sizeof *all);
		method_fit_release(&f);
	}
	*a = (struct cluster_agreement){.least = 1, .least_information = 1};
	for (int64_t s = 0; s < seeds && !rc; s++)
		for (int64_t t = 0; t < s; t++, pairs++) {
			struct agreement g = agreement_of(all + s * n, all + t * n, n);

			a->rand += g.rand;
			a->information += g.information;
			a->least = fmin(a->least, g.rand);
			a->least_information = fmin(a->least_information, g.information);
		}
	a->others = pairs;
	a->samples = n;
	a->rand /= (double)pairs;
	a->information /= (double)pairs;
	mem_free(all);
	return rc;
}

int clustering_rate(struct clustering *c, struct err *e)
{
	const struct cluster_request *r = c->r;

	if (kmeans_rate(&c->q, c->f.x[0], c->f.count[0], c->f.d, c->cluster[0], c->distance[0], c->m.k, r->silhouette, r->seed, r->pool, e))
		return -1;
	return (r->against && rate_labels(c, e)) || (r->seeds && rate_seeds(c, e)) ? -1 : 0;
}
