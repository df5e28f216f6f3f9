/* Counts of sources and licences by cluster. */
#include "data/provenance.h"

#include <string.h>

#include "core/jsonio.h"

enum { NAME_MOST = 200 };

static const struct {
	const char *fact, *spelt, *other;
} kinds[] = {{"licence", "license", "other_licence"}, {"source", NULL, "other_source"}};

static json_t *zeros(int k)
{
	json_t *list = json_array();

	while (k-- > 0)
		json_array_append_new(list, json_integer(0));
	return list;
}

static int is_zero(const json_t *list)
{
	const json_t *v;
	size_t i;

	json_array_foreach (list, i, v)
		if (json_integer_value(v))
			return 0;
	return 1;
}

/* The list at o[key], made if it is not there. */
static json_t *list_at(json_t *o, const char *key, int k)
{
	json_t *list = json_object_get(o, key);

	if (!list) {
		list = zeros(k);
		json_object_set_new(o, key, list);
	}
	return list;
}

/* Add n at the cluster, and remove a list that is all zeros afterwards. */
static void count(json_t *o, const char *key, int cluster, int k, int n)
{
	json_t *list = list_at(o, key, k);
	json_int_t was = json_integer_value(json_array_get(list, (size_t)cluster));

	json_array_set_new(list, (size_t)cluster, json_integer(was + n));
	if (is_zero(list))
		json_object_del(o, key);
}

void provenance_add(json_t *counts, const void *facts, size_t len, int cluster, int k, int n)
{
	json_t *o = json_loadb(facts, len, 0, NULL);

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		const json_t *v = json_object_get(o, kinds[i].fact);
		json_t *names = json_object_get(counts, kinds[i].fact);
		const char *name;

		if (!v && kinds[i].spelt)
			v = json_object_get(o, kinds[i].spelt);
		name = json_string_value(v);
		if (!name || !*name || strlen(name) > NAME_MOST)
			continue;
		if (!json_object_get(names, name) && (json_object_size(names) >= PROVENANCE_NAMES || n < 0)) {
			count(counts, kinds[i].other, cluster, k, n);
			continue;
		}
		if (!names) {
			names = json_object();
			json_object_set_new(counts, kinds[i].fact, names);
		}
		count(names, name, cluster, k, n);
		if (!json_object_size(names))
			json_object_del(counts, kinds[i].fact);
	}
	json_decref(o);
}

static json_int_t sum(const json_t *list, int cluster)
{
	const json_t *v;
	json_int_t all = 0;
	size_t i;

	json_array_foreach (list, i, v)
		if (cluster < 0 || (size_t)cluster == i)
			all += json_integer_value(v);
	return all;
}

json_t *provenance_of(const json_t *counts, int cluster)
{
	json_t *out = json_object(), *list;
	const char *name;

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		json_int_t other = sum(json_object_get(counts, kinds[i].other), cluster);
		json_t *some = json_object();

		json_object_foreach (json_object_get(counts, kinds[i].fact), name, list)
			if (sum(list, cluster))
				json_object_set_new(some, name, json_integer(sum(list, cluster)));
		if (json_object_size(some))
			json_object_set(out, kinds[i].fact, some);
		if (other)
			json_object_set_new(out, kinds[i].other, json_integer(other));
		json_decref(some);
	}
	if (json_object_size(out))
		return out;
	json_decref(out);
	return NULL;
}

void provenance_join(json_t *counts, const json_t *more)
{
	const char *key;
	json_t *v, *was;

	json_object_foreach ((json_t *)(uintptr_t)more, key, v) {
		was = json_object_get(counts, key);
		if (!was)
			json_object_set_new(counts, key, json_deep_copy(v));
		else if (json_is_object(v))
			provenance_join(was, v);
		else
			json_object_set_new(counts, key, json_integer(json_integer_value(was) + json_integer_value(v)));
	}
}
