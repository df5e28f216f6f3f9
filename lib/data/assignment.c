#include "data/assignment.h"

#include <string.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/names.h"

enum { CLUSTERS_MOST = 1 << 20 };

static int read_stamp(struct assignment *a, const char *path, struct err *e)
{
	json_t *o = json_loads(tsv_stamp(a->table), 0, NULL);
	const char *features = "", *partition = "";
	double was = -1;
	int64_t k = 0;
	int rc = 0;

	if (o)
		rc = jsonio_i64(o, "k", 0, 1, CLUSTERS_MOST, &k, path, e) || jsonio_f64(o, "holdout", 0, 0, 1, &was, path, e) ||
		     jsonio_str(o, "features", 0, &features, path, e);
	if (!rc && (jsonio_str(o, "partition", 0, &partition, path, e) || names_load(&a->names, o, "cluster_names", k ? k : -1, path, e)))
		rc = -1;
	if (strlen(features) < sizeof a->features)
		memcpy(a->features, features, strlen(features) + 1);
	if (strlen(partition) == 64)
		memcpy(a->partition, partition, sizeof a->partition);
	json_decref(o);
	if (!rc && was >= 0 && a->holdout >= 0 && was != a->holdout)
		return err_set(e, ERR_DATA, "%s was made with a held-out fraction of %g, not %g", path, was, a->holdout);
	if (was >= 0 && a->split >= 0)
		a->holdout = -1; /* the column is right, and may come from the folders of the keys */
	a->clusters = k ? (int)k : (int)json_array_size(a->names);
	return rc ? -1 : 0;
}

int assignment_load(struct assignment *a, const char *path, double holdout, struct err *e)
{
	int64_t v;

	*a = (struct assignment){.holdout = holdout};
	a->table = tsv_load(path, e);
	if (!a->table)
		return -1;
	a->key = tsv_need(a->table, "key", e);
	a->cluster = tsv_need(a->table, "cluster", e);
	a->split = tsv_column(a->table, "split");
	if (a->key < 0 || a->cluster < 0 || read_stamp(a, path, e) || tsv_index(a->table, a->key, e))
		return -1;
	for (int64_t i = 0; i < tsv_rows(a->table); i++) {
		if (tsv_i64(a->table, i, a->cluster, 0, (a->clusters ? a->clusters : CLUSTERS_MOST) - 1, &v, e))
			return -1;
		if (a->split >= 0 && strcmp(tsv_get(a->table, i, a->split), "train") && strcmp(tsv_get(a->table, i, a->split), "holdout"))
			return err_set(e, ERR_DATA, "%s: the split of \"%s\" is \"%s\", neither train nor holdout", path,
			               tsv_get(a->table, i, a->key), tsv_get(a->table, i, a->split));
	}
	for (int64_t i = 0, k = a->clusters; i < tsv_rows(a->table) && !k; i++)
		if (!tsv_i64(a->table, i, a->cluster, 0, CLUSTERS_MOST - 1, &v, e) && v >= a->clusters)
			a->clusters = (int)v + 1;
	if (!tsv_rows(a->table))
		return err_set(e, ERR_DATA, "%s: no rows", path);
	memcpy(a->hash, tsv_sha256(a->table), sizeof a->hash);
	if (!*a->partition)
		memcpy(a->partition, a->hash, sizeof a->partition);
	return 0;
}

void assignment_release(struct assignment *a)
{
	tsv_free(a->table);
	json_decref(a->names);
	*a = (struct assignment){0};
}

int assignment_get(const struct assignment *a, int64_t row, int *cluster, int *held, struct err *e)
{
	const char *key = tsv_get(a->table, row, a->key);
	int64_t v;
	int by_hash = a->holdout >= 0 && hash_holdout(key, a->holdout);

	if (tsv_i64(a->table, row, a->cluster, 0, a->clusters - 1, &v, e))
		return -1;
	*cluster = (int)v;
	*held = a->split >= 0 ? !strcmp(tsv_get(a->table, row, a->split), "holdout") : by_hash;
	if (a->holdout >= 0 && *held != by_hash)
		return err_set(e, ERR_DATA, "\"%s\" is %s by the assignment, but not with a held-out fraction of %g", key,
		               *held ? "held out" : "training data", a->holdout);
	return 0;
}
