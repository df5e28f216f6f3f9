/* The list of the partitions that another one extends. */
#include "core/extends.h"

#include <string.h>

static int is_hash(const char *text)
{
	return text && strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

int extends_load(json_t **out, const json_t *o, const char *where, struct err *e)
{
	json_t *list = json_object_get(o, "extends");
	json_int_t last = 0;

	*out = NULL;
	if (!list)
		return 0;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *was = json_array_get(list, i), *k = json_object_get(was, "clusters");

		if (!is_hash(json_string_value(json_object_get(was, "partition"))) || !json_is_integer(k) || json_integer_value(k) <= last)
			return err_set(e, ERR_DATA, "%s: \"extends\"[%zu] is not a partition and its number of clusters", where, i);
		last = json_integer_value(k);
	}
	if (!json_is_array(list) || !last)
		return err_set(e, ERR_DATA, "%s: \"extends\" is not a list of partitions", where);
	*out = json_incref(list);
	return 0;
}

int extends_has(const json_t *list, const char *partition, int64_t clusters)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *was = json_array_get(list, i);

		if (!strcmp(json_string_value(json_object_get(was, "partition")), partition) &&
		    json_integer_value(json_object_get(was, "clusters")) == clusters)
			return 1;
	}
	return 0;
}

const char *extends_last(const json_t *list)
{
	return list ? json_string_value(json_object_get(json_array_get(list, json_array_size(list) - 1), "partition")) : NULL;
}

json_t *extends_add(const json_t *list, const char *partition, int64_t clusters)
{
	json_t *all = list ? json_copy((json_t *)(uintptr_t)list) : json_array();

	json_array_append_new(all, json_pack("{s:s, s:I}", "partition", partition, "clusters", (json_int_t)clusters));
	return all;
}
