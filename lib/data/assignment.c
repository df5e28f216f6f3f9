/* Reads tables that assign samples to clusters, ours and other programs'. */
#include "data/assignment.h"

#include <stdlib.h>
#include <string.h>

#include "core/extends.h"
#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/str.h"
#include "data/partition.h"

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
	if (!rc && (jsonio_str(o, "partition", 0, &partition, path, e) || extends_load(&a->extends, o, path, e) ||
	            names_load(&a->names, o, "cluster_names", k ? k : -1, path, e)))
		rc = -1;
	if (strlen(features) < sizeof a->features)
		memcpy(a->features, features, strlen(features) + 1);
	if (strlen(partition) == 64)
		memcpy(a->partition, partition, sizeof a->partition);
	json_decref(o);
	if (!rc && was >= 0 && a->holdout >= 0 && was != a->holdout)
		return err_set(e, ERR_DATA, "%s was made with a held-out fraction of %g, not %g", path, was, a->holdout);
	if (was >= 0 && a->split >= 0)
		a->holdout = -1; /* the split column decides; it may have been made from the folders of the keys */
	a->clusters = k ? (int)k : (int)json_array_size(a->names);
	return rc ? -1 : 0;
}

static int column_of(const struct assignment *a, const char *name, const char *path, struct err *e)
{
	int i = tsv_column(a->table, name);
	struct str there = {0};

	if (i >= 0)
		return i;
	for (int c = 0; c < tsv_columns(a->table); c++)
		str_printf(&there, "%s%s", c ? ", " : "", tsv_name(a->table, c));
	err_set(e, ERR_DATA, "%s:1: no column '%s' among %.400s: an assignment has the columns key and cluster", path, name, str_text(&there));
	str_release(&there);
	return -1;
}

static int by_text(const void *x, const void *y)
{
	return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* Number the clusters of a column of names in bytewise order. */
static int number_names(struct assignment *a, const char *path, struct err *e)
{
	int64_t n = tsv_rows(a->table), k = 0;
	const char **sorted = mem_zalloc((size_t)n, sizeof *sorted);
	int rc = 0;

	for (int64_t i = 0; i < n && !rc; i++) {
		const char *name = sorted[i] = tsv_get(a->table, i, a->cluster), *why = names_refuse(name);

		if (why)
			rc = err_set(e, ERR_DATA, "%s:%lld: cluster '%.200s' %s; clusters are numbers from 0 or names, the same throughout", path,
			             (long long)tsv_line(a->table, i), name, why);
	}
	if (!rc) {
		qsort(sorted, (size_t)n, sizeof *sorted, by_text);
		a->names = json_array();
		for (int64_t i = 0; i < n; i++)
			if (!i || strcmp(sorted[k - 1], sorted[i])) {
				sorted[k++] = sorted[i];
				json_array_append_new(a->names, jsonio_text(sorted[i]));
			}
		rc = k > CLUSTERS_MOST ? err_set(e, ERR_DATA, "%s: %lld clusters, more than %d", path, (long long)k, CLUSTERS_MOST) : 0;
	}
	for (int64_t i = 0; i < n && !rc; i++) {
		const char *name = tsv_get(a->table, i, a->cluster);
		const char **at = bsearch(&name, sorted, (size_t)k, sizeof *sorted, by_text);

		a->number[i] = (int32_t)(at - sorted);
	}
	a->clusters = (int)k;
	partition_of_names(a->partition, "cluster", a->names);
	mem_free(sorted);
	return rc;
}

/* Read the cluster column into a->number. In a table of another program every row may hold a name instead. */
static int read_clusters(struct assignment *a, const char *path, struct err *e)
{
	int64_t n = tsv_rows(a->table), kind = -1, v;
	int64_t most = (a->clusters ? a->clusters : CLUSTERS_MOST) - 1;

	a->number = mem_zalloc((size_t)n, sizeof *a->number);
	for (int64_t i = 0; i < n && !tsv_is_ours(a->table); i++) {
		const char *text = tsv_get(a->table, i, a->cluster), *first = tsv_get(a->table, 0, a->cluster);
		int number = !parse_i64(text, INT64_MIN, INT64_MAX, &v);

		if (kind >= 0 && kind != number)
			return err_set(e, ERR_DATA,
			               "%s:%lld: cluster '%.100s', but '%.100s' on line %lld: clusters are numbers from 0 throughout, or names", path,
			               (long long)tsv_line(a->table, i), text, first, (long long)tsv_line(a->table, 0));
		kind = number;
	}
	if (!tsv_is_ours(a->table) && !kind)
		return number_names(a, path, e);
	for (int64_t i = 0; i < n; i++) {
		if (tsv_i64(a->table, i, a->cluster, 0, most, &v, e))
			return -1;
		a->number[i] = (int32_t)v;
	}
	for (int64_t i = 0, k = a->clusters; i < n && !k; i++)
		if (a->number[i] >= a->clusters)
			a->clusters = a->number[i] + 1;
	return 0;
}

/* Add one number of the column "also" to the list of the row. */
static int add_further(struct assignment *a, int64_t row, const char *text, const char *path, struct err *e)
{
	int64_t *end = &a->further_at[row + 1], v;

	if (parse_i64(text, 0, CLUSTERS_MOST - 1, &v) || (tsv_is_ours(a->table) && v >= a->clusters))
		return err_set(e, ERR_DATA, "%s:%lld: also '%.100s': expected the numbers of further clusters with blanks between, or '-'", path,
		               (long long)tsv_line(a->table, row), text);
	if (*end - a->further_at[row] == ASSIGNMENT_CLUSTERS - 1)
		return err_set(e, ERR_DATA, "%s:%lld: a sample in more than %d clusters", path, (long long)tsv_line(a->table, row),
		               ASSIGNMENT_CLUSTERS);
	a->further = mem_resize(a->further, (size_t)*end + 1, sizeof *a->further);
	a->further[(*end)++] = (int32_t)v;
	if (v >= a->clusters)
		a->clusters = (int)v + 1;
	return 0;
}

/* Read the column "also", if there is one. */
static int read_further(struct assignment *a, const char *path, struct err *e)
{
	int column = tsv_column(a->table, "also"), rc = 0;

	if (column < 0)
		return 0;
	if (a->names)
		return err_set(e, ERR_DATA, "%s: with a column 'also', clusters must be numbers, not names", path);
	a->further_at = mem_zalloc((size_t)tsv_rows(a->table) + 1, sizeof *a->further_at);
	for (int64_t i = 0; i < tsv_rows(a->table) && !rc; i++) {
		char *text = mem_strdup(tsv_get(a->table, i, column)), *rest = NULL;

		a->further_at[i + 1] = a->further_at[i];
		for (char *word = strcmp(text, "-") ? strtok_r(text, " ", &rest) : NULL; word && !rc; word = strtok_r(NULL, " ", &rest))
			rc = add_further(a, i, word, path, e);
		mem_free(text);
	}
	return rc;
}

int assignment_load(struct assignment *a, const char *path, double holdout, struct err *e)
{
	*a = (struct assignment){.holdout = holdout};
	a->table = tsv_load_any(path, e);
	if (!a->table)
		return -1;
	a->key = column_of(a, "key", path, e);
	a->cluster = a->key < 0 ? -1 : column_of(a, "cluster", path, e);
	a->split = tsv_column(a->table, "split");
	if (a->key < 0 || a->cluster < 0 || read_stamp(a, path, e) || tsv_index(a->table, a->key, e))
		return -1;
	if (!tsv_rows(a->table))
		return err_set(e, ERR_DATA, "%s: no rows", path);
	if (read_clusters(a, path, e) || read_further(a, path, e))
		return -1;
	for (int64_t i = 0; i < tsv_rows(a->table) && a->split >= 0; i++)
		if (strcmp(tsv_get(a->table, i, a->split), "train") && strcmp(tsv_get(a->table, i, a->split), "holdout"))
			return err_set(e, ERR_DATA, "%s:%lld: the split of \"%s\" is \"%s\", neither train nor holdout", path,
			               (long long)tsv_line(a->table, i), tsv_get(a->table, i, a->key), tsv_get(a->table, i, a->split));
	memcpy(a->hash, tsv_sha256(a->table), sizeof a->hash);
	if (!*a->partition)
		memcpy(a->partition, a->hash, sizeof a->partition);
	return 0;
}

void assignment_release(struct assignment *a)
{
	tsv_free(a->table);
	json_decref(a->extends);
	json_decref(a->names);
	mem_free(a->number);
	mem_free(a->further_at);
	mem_free(a->further);
	*a = (struct assignment){0};
}

int assignment_get(const struct assignment *a, int64_t row, int *cluster, int *held, struct err *e)
{
	const char *key = tsv_get(a->table, row, a->key);
	int by_hash = a->holdout >= 0 && hash_holdout(key, a->holdout);

	*cluster = a->number[row];
	*held = a->split >= 0 ? !strcmp(tsv_get(a->table, row, a->split), "holdout") : by_hash;
	if (a->holdout >= 0 && *held != by_hash)
		return err_set(e, ERR_DATA, "\"%s\" is %s by the assignment, but not with a held-out fraction of %g", key,
		               *held ? "held out" : "training data", a->holdout);
	return 0;
}

int assignment_further(const struct assignment *a, int64_t row, const int32_t **further)
{
	*further = a->further_at ? a->further + a->further_at[row] : NULL;
	return a->further_at ? (int)(a->further_at[row + 1] - a->further_at[row]) : 0;
}
