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

/* Names of clusters. */
struct names {
	const char **name;  /* [all], of which the first n are sorted and differ; in the end all are */
	size_t n, all, cap; /* cap: [cap] */
	struct arena memory;
};

/* The row that was read last, and what rows are read with. */
struct assignment_row {
	char *path;
	struct tsvfile_row fields;
	struct str also; /* that column, cut into words */
	int32_t further[ASSIGNMENT_CLUSTERS - 1];
	struct names names; /* of all clusters, if the column holds names */
};

static int read_stamp(struct assignment *a, const char *path, struct err *e)
{
	json_t *o = json_loads(tsv_stamp(tsvfile_head(a->table)), 0, NULL);
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
	const struct tsv *head = tsvfile_head(a->table);
	int i = tsv_column(head, name);
	struct str there = {0};

	if (i >= 0)
		return i;
	for (int c = 0; c < tsv_columns(head); c++)
		str_printf(&there, "%s%s", c ? ", " : "", tsv_name(head, c));
	err_set(e, ERR_DATA, "%s:1: no column '%s' among %.400s: an assignment has the columns key and cluster", path, name, str_text(&there));
	str_release(&there);
	return -1;
}

/* Read a row, unless it is the current one. */
static int row_read(const struct assignment *a, int64_t row, struct err *e)
{
	struct assignment_row *c = a->current;

	return c->fields.next && c->fields.row == row ? 0 : tsvfile_read(a->table, row, &c->fields, e);
}

static const char *field(const struct assignment *a, int column)
{
	return a->current->fields.cell[column];
}

static int by_text(const void *x, const void *y)
{
	return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* Sort all names, and keep one of each. */
static void sort_names(struct names *names)
{
	size_t n = 0;

	if (names->all)
		qsort(names->name, names->all, sizeof *names->name, by_text);
	for (size_t i = 0; i < names->all; i++)
		if (!n || strcmp(names->name[n - 1], names->name[i]))
			names->name[n++] = names->name[i];
	names->n = names->all = n;
}

/* Add a name, unless it is among the sorted ones. They are sorted again when there are twice as many. */
static void add_name(struct names *names, const char *name)
{
	if (names->n && bsearch(&name, names->name, names->n, sizeof *names->name, by_text))
		return;
	if (names->all == names->cap) {
		sort_names(names);
		names->cap = 2 * names->n + 64;
		names->name = mem_resize(names->name, names->cap, sizeof *names->name);
	}
	names->name[names->all++] = arena_strdup(&names->memory, name);
}

/* Number the clusters of a column of names in bytewise order. */
static int number_names(struct assignment *a, const char *path, struct err *e)
{
	struct names *names = &a->current->names;

	for (int64_t i = 0; i < a->rows; i++) {
		const char *why, *name;

		if (row_read(a, i, e))
			return -1;
		name = field(a, a->cluster);
		if ((why = names_refuse(name)))
			return err_set(e, ERR_DATA, "%s:%lld: cluster '%.200s' %s; clusters are numbers from 0 or names, the same throughout", path,
			               (long long)a->current->fields.line, name, why);
		add_name(names, name);
	}
	sort_names(names);
	if (names->n > CLUSTERS_MOST)
		return err_set(e, ERR_DATA, "%s: %zu clusters, more than %d", path, names->n, CLUSTERS_MOST);
	a->names = json_array();
	for (size_t i = 0; i < names->n; i++)
		json_array_append_new(a->names, jsonio_text(names->name[i]));
	a->clusters = (int)names->n;
	partition_of_names(a->partition, "cluster", a->names);
	return 0;
}

/* Whether all clusters are numbers, or none: 1, 0; -1 and ERR_DATA if they are mixed. */
static int are_numbers(const struct assignment *a, const char *path, struct err *e)
{
	struct str first = {0};
	int64_t line = 0, v;
	int kind = 1, rc = 0;

	for (int64_t i = 0; i < a->rows && !rc && !(rc = row_read(a, i, e)); i++) {
		const char *text = field(a, a->cluster);
		int number = !parse_i64(text, INT64_MIN, INT64_MAX, &v);

		if (!i) {
			str_puts(&first, text);
			line = a->current->fields.line;
			kind = number;
		}
		if (kind != number)
			rc = err_set(e, ERR_DATA,
			             "%s:%lld: cluster '%.100s', but '%.100s' on line %lld: clusters are numbers from 0 throughout, or names", path,
			             (long long)a->current->fields.line, text, str_text(&first), (long long)line);
	}
	str_release(&first);
	return rc ? -1 : kind;
}

/* Check the cluster column. In a table of another program every row may hold a name instead. */
static int read_clusters(struct assignment *a, const char *path, struct err *e)
{
	int64_t most = (a->clusters ? a->clusters : CLUSTERS_MOST) - 1, v;
	int known = a->clusters, numbers = tsv_is_ours(tsvfile_head(a->table)) ? 1 : are_numbers(a, path, e);

	if (numbers <= 0)
		return numbers < 0 ? -1 : number_names(a, path, e);
	for (int64_t i = 0; i < a->rows; i++) {
		if (row_read(a, i, e) || tsvfile_i64(a->table, &a->current->fields, a->cluster, 0, most, &v, e))
			return -1;
		if (!known && v >= a->clusters)
			a->clusters = (int)v + 1;
	}
	return 0;
}

/* Read the column "also" of the current row into further [ASSIGNMENT_CLUSTERS - 1]: how many there are, or -1. Numbers from `most` on are refused. */
static int parse_further(const struct assignment *a, int64_t most, struct err *e)
{
	struct assignment_row *c = a->current;
	char *rest = NULL;
	int n = 0;
	int64_t v;

	str_reset(&c->also);
	str_puts(&c->also, field(a, a->also));
	if (!strcmp(str_text(&c->also), "-"))
		return 0;
	for (char *word = c->also.p ? strtok_r(c->also.p, " ", &rest) : NULL; word; word = strtok_r(NULL, " ", &rest)) {
		if (parse_i64(word, 0, most - 1, &v))
			return err_set(e, ERR_DATA, "%s:%lld: also '%.100s': expected the numbers of further clusters with blanks between, or '-'",
			               c->path, (long long)c->fields.line, word);
		if (n == ASSIGNMENT_CLUSTERS - 1)
			return err_set(e, ERR_DATA, "%s:%lld: a sample in more than %d clusters", c->path, (long long)c->fields.line,
			               ASSIGNMENT_CLUSTERS);
		c->further[n++] = (int32_t)v;
	}
	return n;
}

/* Check the column "also", if there is one. */
static int read_further(struct assignment *a, const char *path, struct err *e)
{
	int64_t most = tsv_is_ours(tsvfile_head(a->table)) ? a->clusters : CLUSTERS_MOST;

	a->also = tsv_column(tsvfile_head(a->table), "also");
	if (a->also < 0)
		return 0;
	if (a->names)
		return err_set(e, ERR_DATA, "%s: with a column 'also', clusters must be numbers, not names", path);
	for (int64_t i = 0; i < a->rows; i++) {
		int n = row_read(a, i, e) ? -1 : parse_further(a, most, e);

		if (n < 0)
			return -1;
		while (n--)
			if (a->current->further[n] >= a->clusters)
				a->clusters = a->current->further[n] + 1;
	}
	return 0;
}

static int check_split(struct assignment *a, const char *path, struct err *e)
{
	for (int64_t i = 0; i < a->rows && a->split >= 0; i++) {
		const char *split;

		if (row_read(a, i, e))
			return -1;
		split = field(a, a->split);
		if (strcmp(split, "train") && strcmp(split, "holdout"))
			return err_set(e, ERR_DATA, "%s:%lld: the split of \"%s\" is \"%s\", neither train nor holdout", path,
			               (long long)a->current->fields.line, field(a, a->key), split);
	}
	return 0;
}

int assignment_load(struct assignment *a, const char *path, double holdout, struct err *e)
{
	*a = (struct assignment){.holdout = holdout, .also = -1};
	a->current = mem_zalloc(1, sizeof *a->current);
	a->current->path = mem_strdup(path);
	a->table = tsvfile_open(path, e);
	if (!a->table)
		return -1;
	a->rows = tsv_rows(tsvfile_head(a->table));
	a->key = column_of(a, "key", path, e);
	a->cluster = a->key < 0 ? -1 : column_of(a, "cluster", path, e);
	a->split = tsv_column(tsvfile_head(a->table), "split");
	if (a->key < 0 || a->cluster < 0 || read_stamp(a, path, e) || tsvfile_index(a->table, a->key, e))
		return -1;
	if (!a->rows)
		return err_set(e, ERR_DATA, "%s: no rows", path);
	if (read_clusters(a, path, e) || read_further(a, path, e) || check_split(a, path, e))
		return -1;
	memcpy(a->hash, tsv_sha256(tsvfile_head(a->table)), sizeof a->hash);
	if (!*a->partition)
		memcpy(a->partition, a->hash, sizeof a->partition);
	return 0;
}

void assignment_release(struct assignment *a)
{
	tsvfile_free(a->table);
	json_decref(a->extends);
	json_decref(a->names);
	if (a->current) {
		tsvfile_row_release(&a->current->fields);
		str_release(&a->current->also);
		mem_free(a->current->names.name);
		arena_release(&a->current->names.memory);
		mem_free(a->current->path);
		mem_free(a->current);
	}
	*a = (struct assignment){0};
}

int64_t assignment_find(const struct assignment *a, const char *key)
{
	return tsvfile_find(a->table, key, &a->current->fields);
}

const char *assignment_key(const struct assignment *a, int64_t row, struct err *e)
{
	return row_read(a, row, e) ? NULL : field(a, a->key);
}

/* The number of the current row's cluster. */
static int cluster_get(const struct assignment *a, int *cluster, struct err *e)
{
	const struct names *names = &a->current->names;
	const char *text = field(a, a->cluster);
	const char **at = names->n ? bsearch(&text, names->name, names->n, sizeof *names->name, by_text) : NULL;
	int64_t v = at ? at - names->name : 0;

	if (names->n ? !at : tsvfile_i64(a->table, &a->current->fields, a->cluster, 0, a->clusters - 1, &v, e))
		return err_set(e, ERR_DATA, "%s: altered while it was read", a->current->path);
	*cluster = (int)v;
	return 0;
}

int assignment_get(const struct assignment *a, int64_t row, int *cluster, int *held, struct err *e)
{
	const char *key;
	int by_hash;

	if (row_read(a, row, e) || cluster_get(a, cluster, e))
		return -1;
	key = field(a, a->key);
	by_hash = a->holdout >= 0 && hash_holdout(key, a->holdout);
	*held = a->split >= 0 ? !strcmp(field(a, a->split), "holdout") : by_hash;
	if (a->holdout >= 0 && *held != by_hash)
		return err_set(e, ERR_DATA, "\"%s\" is %s by the assignment, but not with a held-out fraction of %g", key,
		               *held ? "held out" : "training data", a->holdout);
	return 0;
}

int assignment_further(const struct assignment *a, int64_t row, const int32_t **further)
{
	int n = a->also < 0 || row_read(a, row, NULL) ? 0 : parse_further(a, a->clusters, NULL);

	*further = a->current->further;
	return n < 0 ? 0 : n;
}
