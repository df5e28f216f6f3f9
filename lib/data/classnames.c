/* Reads names of classes from classes.txt. */
#include "data/classnames.h"

#include <string.h>
#include <sys/stat.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/str.h"
#include "file/fileio.h"

enum { LIST_MOST = 1 << 26 };

/* Member "class_names" of o, whose reference is taken. */
static json_t *checked(json_t *o)
{
	json_t *list = NULL;

	names_load(&list, o, "class_names", -1, "", NULL);
	json_decref(o);
	return list;
}

json_t *classnames_of_stamp(const char *line)
{
	return line ? checked(json_loads(line, 0, NULL)) : NULL;
}

json_t *classnames_of_folder(const char *dir)
{
	char *path = path_join(dir, "classes.txt"), *text = NULL, *next;
	json_t *list = json_array(), *name;
	struct stat st;
	size_t len = 0;

	if (!stat(path, &st) && S_ISREG(st.st_mode))
		text = file_load(path, LIST_MOST, &len, NULL);
	while (len && strchr("\r\n", text[len - 1]))
		text[--len] = 0;
	for (char *line = text; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		line[strcspn(line, "\r")] = 0;
		name = json_string(line);
		json_array_append_new(list, name ? name : json_null());
	}
	mem_free(text);
	mem_free(path);
	return checked(json_pack("{s:o}", "class_names", list));
}

int classnames_join(json_t **all, json_t *list, const char *where, const char *advice, struct err *e)
{
	size_t n = json_array_size(list), have = json_array_size(*all);

	for (size_t i = 0; i < n && i < have; i++) {
		const char *was = names_get(*all, (int64_t)i), *is = names_get(list, (int64_t)i);

		if (!strcmp(was, is))
			continue;
		err_set(e, ERR_DATA, "%s: class %zu is called \"%s\" here and \"%s\" in another source: %s", where, i, is, was, advice);
		json_decref(list);
		return -1;
	}
	if (n > have) {
		json_decref(*all);
		*all = list;
	} else {
		json_decref(list);
	}
	return 0;
}
