/* Puts samples into clusters by class, by folder or by a column. */
#include "cluster/grouping.h"

#include <stdlib.h>
#include <string.h>

#include "cluster/kmeans.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/str.h"
#include "file/tsv.h"

struct grouping {
	char *by;
	struct tsv *table; /* NULL: the value comes from the sample itself */
	int column;
};

struct grouping *grouping_open(const char *by, const char *table, struct err *e)
{
	struct grouping *g = mem_zalloc(1, sizeof *g);
	int key = -1;

	g->by = mem_strdup(by);
	if (!table)
		return g;
	if ((g->table = tsv_load_any(table, e)) && (key = tsv_need(g->table, "key", e)) >= 0 && (g->column = tsv_need(g->table, by, e)) >= 0 &&
	    !tsv_index(g->table, key, e))
		return g;
	grouping_free(g);
	return NULL;
}

void grouping_free(struct grouping *g)
{
	if (!g)
		return;
	tsv_free(g->table);
	mem_free(g->by);
	mem_free(g);
}

const char *grouping_table_hash(const struct grouping *g)
{
	return g->table ? tsv_sha256(g->table) : NULL;
}

static char *of_class(const struct sample *x, struct err *e)
{
	int32_t label;

	if (sample_class(x, &label, e))
		return NULL;
	if (label >= 0)
		return str_new("%d", (int)label);
	err_set(e, ERR_DATA, "%s: the sample \"%s\" has no class (.cls)", x->origin, x->key);
	return NULL;
}

static char *of_folder(const struct sample *x, struct err *e)
{
	const char *slash = strrchr(x->key, '/');

	if (slash)
		return str_new("%.*s", (int)(slash - x->key), x->key);
	err_set(e, ERR_DATA, "%s: the sample \"%s\" is not in a folder", x->origin, x->key);
	return NULL;
}

/* A value from the sample's facts: a text, an integer, or a boolean. */
static char *of_facts(const struct grouping *g, const struct sample *x, struct err *e)
{
	const struct sample_member *m = sample_find(x, "json");
	json_t *o = m ? json_loadb(m->data, m->len, 0, NULL) : NULL, *v = json_object_get(o, g->by);
	char *text = NULL;

	if (json_is_string(v))
		text = mem_strdup(json_string_value(v));
	else if (json_is_integer(v))
		text = str_new("%lld", (long long)json_integer_value(v));
	else if (json_is_boolean(v))
		text = mem_strdup(json_is_true(v) ? "true" : "false");
	else
		err_set(e, ERR_DATA,
		        "%s: the sample \"%s\" has no text or whole number \"%s\" in %s (a table with such a column is named by --table)", x->origin,
		        x->key, g->by, m ? "its .json" : "a .json beside it");
	json_decref(o);
	return text;
}

static char *of_table(const struct grouping *g, const struct sample *x, struct err *e)
{
	int64_t row = tsv_lookup(g->table, x->key);

	if (row >= 0)
		return mem_strdup(tsv_get(g->table, row, g->column));
	err_set(e, ERR_DATA, "%s: the sample \"%s\" is not in the table", x->origin, x->key);
	return NULL;
}

char *grouping_value(void *arg, const struct sample *x, struct err *e)
{
	const struct grouping *g = arg;
	char *text = g->table                   ? of_table(g, x, e)
	             : !strcmp(g->by, "class")  ? of_class(x, e)
	             : !strcmp(g->by, "folder") ? of_folder(x, e)
	                                        : of_facts(g, x, e);
	const char *why = text ? names_refuse_class(text) : NULL;

	if (!why)
		return text;
	err_set(e, ERR_DATA, "%s: the %s of the sample \"%s\" %s", x->origin, g->by, x->key, why);
	mem_free(text);
	return NULL;
}

/* A distinct value and the number of its cluster. */
struct value {
	const char *text;
	int64_t number; /* its value, if all values are numbers */
};

static int by_text(const void *x, const void *y)
{
	return strcmp(((const struct value *)x)->text, ((const struct value *)y)->text);
}

static int by_number(const void *x, const void *y)
{
	int64_t a = ((const struct value *)x)->number, b = ((const struct value *)y)->number;

	return a != b ? (a > b) - (a < b) : by_text(x, y);
}

static json_t *name_values(const struct grouping *g, const struct value *v, int64_t k, const json_t *class_names)
{
	json_t *list = json_array();

	for (int64_t i = 0; i < k; i++) {
		const char *known = !g->table && !strcmp(g->by, "class") ? names_get(class_names, v[i].number) : NULL;
		char *text = known && !names_refuse(known) ? mem_strdup(known)
		             : !names_refuse(v[i].text)    ? mem_strdup(v[i].text)
		                                           : str_new("%s_%s", g->by, v[i].text);

		json_array_append_new(list, json_string(text));
		mem_free(text);
	}
	return list;
}

int grouping_number(const struct grouping *g, char *const *value, int64_t n, const json_t *class_names, int32_t *cluster, json_t **names,
                    struct err *e)
{
	struct value *v = mem_zalloc((size_t)n, sizeof *v);
	int64_t k = 0, numbers = 0;
	int (*order)(const void *, const void *);
	int rc = 0;

	for (int64_t i = 0; i < n; i++) {
		v[i].text = value[i];
		numbers += !parse_i64(value[i], INT64_MIN, INT64_MAX, &v[i].number);
	}
	order = numbers == n ? by_number : by_text;
	qsort(v, (size_t)n, sizeof *v, order);
	for (int64_t i = 0; i < n; i++)
		if (!i || order(v + k - 1, v + i))
			v[k++] = v[i];
	*names = name_values(g, v, k, class_names);
	if (k > KMEANS_MOST)
		rc = err_set(e, ERR_DATA, "--by %s: %lld different values, more than %d clusters", g->by, (long long)k, KMEANS_MOST);
	for (int64_t i = 0; i < n && !rc; i++) {
		struct value one = {.text = value[i]};

		if (numbers == n)
			parse_i64(value[i], INT64_MIN, INT64_MAX, &one.number);
		cluster[i] = (int32_t)((struct value *)bsearch(&one, v, (size_t)k, sizeof *v, order) - v);
	}
	mem_free(v);
	return rc;
}
