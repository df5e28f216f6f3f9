/* Reads the class labels beside a folder's samples. */
#include "data/labels.h"

#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/nametable.h"
#include "file/npy.h"

struct labels {
	size_t below;           /* bytes of a path up to the name below the folder */
	char *folder;           /* of arrays; NULL: the table */
	struct nametable table; /* path to index */
	int32_t *label;
	struct arena names;
};

void labels_free(struct labels *l)
{
	if (!l)
		return;
	mem_free(l->folder);
	nametable_release(&l->table);
	mem_free(l->label);
	arena_release(&l->names);
	mem_free(l);
}

static int take_row(struct labels *l, const json_t *row, int i, const char *where, struct err *e)
{
	const char *path = json_string_value(json_array_get(row, 0)), *name;
	const json_t *label = json_array_get(row, 1);

	if (!path || !json_is_integer(label) || json_integer_value(label) < 0 || json_integer_value(label) >= INT32_MAX)
		return err_set(e, ERR_DATA, "%s: \"labels\"[%d] is not [path, class]", where, i);
	name = arena_strdup(&l->names, path);
	l->label[i] = (int32_t)json_integer_value(label);
	if (nametable_add(&l->table, name, strlen(name), i) >= 0)
		return err_set(e, ERR_DATA, "%s: two classes for '%.200s'", where, path);
	return 0;
}

/* 1 if the file has labels; dataset.json of StyleGAN may have none. */
static int read_table(struct labels *l, const char *path, struct err *e)
{
	json_t *o = jsonio_load(path, e);
	const json_t *rows = json_object_get(o, "labels");
	size_t n = json_array_size(rows);
	int rc = o ? n > 0 : -1;

	l->label = mem_zalloc(n, sizeof *l->label);
	for (size_t i = 0; i < n && rc >= 0; i++)
		if (take_row(l, json_array_get(rows, i), (int)i, path, e))
			rc = -1;
	json_decref(o);
	return rc;
}

/* The only pair NAME_features, NAME_labels. */
static char *paired(const char *dir, char **samples, struct err *e)
{
	char **names, *found = NULL;
	int pairs = 0;
	size_t n;

	if (dir_list(dir, &names, &n, e))
		return NULL;
	for (size_t i = 0; i < n; i++) {
		size_t stem = strlen(names[i]) - (str_ends(names[i], "_features") ? strlen("_features") : 0);
		char *beside = str_new("%s/%.*s_labels", dir, (int)stem, names[i]);

		if (names[i][stem] && path_exists(beside) && !pairs++) {
			mem_free(*samples);
			*samples = path_join(dir, names[i]);
			found = beside;
		} else {
			mem_free(beside);
		}
	}
	names_free(names, n);
	if (pairs < 2)
		return found;
	err_set(e, ERR_DATA, "%s: contains several folders of features with labels: name one of them", dir);
	mem_free(found);
	return NULL;
}

int labels_beside(const char *dir, struct labels **out, char **samples, struct err *e)
{
	struct labels *l = mem_zalloc(1, sizeof *l);
	char *table = path_join(dir, "dataset.json");
	struct err why = {0};
	int rc = 0;

	*out = NULL;
	*samples = mem_strdup(dir);
	if (path_exists(table)) {
		rc = read_table(l, table, e);
	} else {
		l->folder = paired(dir, samples, &why);
		rc = l->folder ? 1 : why.code ? err_set(e, why.code, "%s", why.msg) : 0;
	}
	mem_free(table);
	l->below = strlen(*samples) + 1;
	if (rc > 0) {
		*out = l;
		return 1;
	}
	labels_free(l);
	return rc;
}

static int from_array(const struct labels *l, const char *name, int32_t *label, struct err *e)
{
	char *path = path_join(l->folder, name);
	struct npy a;
	int64_t v = -1;
	int rc = 0;

	if (!path_exists(path)) {
		rc = err_set(e, ERR_DATA, "%s: no class for '%s'", l->folder, name);
	} else if (npy_load(&a, path, e)) {
		rc = -1;
	} else {
		rc = npy_count(&a) != 1 ? err_set(e, ERR_DATA, "%s: expected one number", path) : npy_to_i64(&v, &a, path, e);
		npy_release(&a);
	}
	if (!rc && (v < 0 || v >= INT32_MAX))
		rc = err_set(e, ERR_DATA, "%s: %lld is not a class", path, (long long)v);
	mem_free(path);
	*label = (int32_t)v;
	return rc ? -1 : 1;
}

int labels_get(const struct labels *l, const char *path, int32_t *label, struct err *e)
{
	const char *name = strlen(path) > l->below ? path + l->below : "";
	int i;

	if (l->folder)
		return from_array(l, name, label, e);
	i = nametable_find(&l->table, name, strlen(name));
	if (i < 0)
		return 0;
	*label = l->label[i];
	return 1;
}
