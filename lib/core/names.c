/* Reads, checks and finds names of clusters and classes. */
#include "core/names.h"

#include <string.h>

#include "core/str.h"

enum { BYTES_MOST = 200, NAMES_MOST = 1 << 20, SHOWN = 20 };

const char *names_refuse_class(const char *name)
{
	json_t *text = json_string(name);

	json_decref(text);
	if (!text)
		return "is not UTF-8";
	if (!*name)
		return "is empty";
	if (strlen(name) > BYTES_MOST)
		return "is longer than 200 bytes";
	for (const unsigned char *c = (const unsigned char *)name; *c; c++)
		if (*c < 32 || *c == 127)
			return "holds a control character";
	if (*name == ' ' || name[strlen(name) - 1] == ' ')
		return "begins or ends with a space";
	return NULL;
}

const char *names_refuse(const char *name)
{
	int64_t v;

	if (!strcmp(name, "all"))
		return "means every cluster";
	if (!parse_i64(name, INT64_MIN, INT64_MAX, &v))
		return "is a number, and a number means the cluster of that number";
	return names_refuse_class(name);
}

int names_load(json_t **out, const json_t *o, const char *key, int64_t n, const char *where, struct err *e)
{
	json_t *list = json_object_get(o, key), *seen, *v;
	size_t i;
	int rc = 0;

	*out = NULL;
	if (!list || json_is_null(list))
		return 0;
	if (!json_is_array(list) || json_array_size(list) < 1 || json_array_size(list) > NAMES_MOST || (n >= 0 && json_array_size(list) != (size_t)n))
		return n >= 0 ? err_set(e, ERR_DATA, "%s: \"%s\" is not a list of %lld names", where, key, (long long)n)
		              : err_set(e, ERR_DATA, "%s: \"%s\" is not a list of names", where, key);
	seen = json_object();
	json_array_foreach (list, i, v) {
		const char *name = json_string_value(v), *why = name ? names_refuse_class(name) : "is not a string";

		if (why)
			rc = err_set(e, ERR_DATA, "%s: \"%s\"[%zu] %s", where, key, i, why);
		else if (json_object_get(seen, name))
			rc = err_set(e, ERR_DATA, "%s: \"%s\" has '%s' twice", where, key, name);
		if (rc)
			break;
		json_object_set_new(seen, name, json_true());
	}
	json_decref(seen);
	if (!rc)
		*out = json_incref(list);
	return rc;
}

const char *names_get(const json_t *list, int64_t i)
{
	return i < 0 ? NULL : json_string_value(json_array_get(list, (size_t)i));
}

int64_t names_find(const json_t *list, const char *name)
{
	size_t i;
	json_t *v;

	json_array_foreach ((json_t *)(uintptr_t)list, i, v)
		if (json_string_value(v) && !strcmp(json_string_value(v), name))
			return (int64_t)i;
	return -1;
}

int names_parse(const json_t *list, int64_t n, const char *text, const char *option, const char *thing, int64_t *out, struct err *e)
{
	struct str known = {0};
	size_t count = json_array_size(list);
	int64_t i = names_find(list, text);

	if (!parse_i64(text, 0, n - 1, out))
		return 0;
	if (i >= 0 && i < n) {
		*out = i;
		return 0;
	}
	for (size_t k = 0; k < count && k < SHOWN; k++)
		str_printf(&known, "%s%s", k ? ", " : "", names_get(list, (int64_t)k));
	if (count)
		err_set(e, ERR_USAGE, "%s: no %s '%.200s': give a number from 0 to %lld, or one of %s%s", option, thing, text, (long long)n - 1,
		        str_text(&known), count > SHOWN ? ", ..." : "");
	else
		err_set(e, ERR_USAGE, "%s: no %s '%.200s': give a number from 0 to %lld (the %ss have no names here)", option, thing, text,
		        (long long)n - 1, !strcmp(thing, "class") ? "classe" : thing);
	str_release(&known);
	return -1;
}
