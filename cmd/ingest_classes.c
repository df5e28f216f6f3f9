/* Numbers the classes of samples by their folders (--classes), and finds the class names for the stamp of the output: the names of the folders, or
 * the names that come with the sources, in classes.txt of a folder or in the stamp of a tar. */
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/ingest.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/names.h"
#include "data/classnames.h"
#include "data/entries.h"
#include "file/fileio.h"
#include "file/nametable.h"
#include "file/remoteinput.h"
#include "file/tarfile.h"

#define LIST_MAX ((size_t)8 << 20) /* most bytes of classes.txt */

static void class_free(struct class_name *c)
{
	mem_free(c->name);
	mem_free(c->place);
}

static void class_add(struct class_list *l, const char *name, size_t n, const char *place)
{
	l->v = mem_resize(l->v, l->n + 1, sizeof *l->v);
	l->v[l->n++] = (struct class_name){mem_strndup(name, n), mem_strdup(place)};
}

void class_list_release(struct class_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		class_free(&l->v[i]);
	mem_free(l->v);
	nametable_release(&l->numbers);
	*l = (struct class_list){0};
}

/* Length of a key's first folder; 0 if it has none. */
static size_t folder_len(const char *key)
{
	return strchr(key, '/') ? strcspn(key, "/") : 0;
}

/* Add the classes of files and graphs. A file's class is its first folder, and a graph's class is its name. The sort key (`place`) is the beginning
 * of their samples' keys: "FOLDER/" or "KEY@". */
static void classes_of_jobs(struct class_list *c, const struct job_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct job *j = &l->v[i];
		size_t n = j->graph ? strlen(j->name) : folder_len(j->key);
		const struct class_name *last = c->n ? &c->v[c->n - 1] : NULL;
		char *place;

		if (!n || (last && strlen(last->name) == n && !strncmp(last->name, j->graph ? j->name : j->key, n)))
			continue;
		place = j->graph ? str_new("%s@", j->key) : str_new("%.*s/", (int)n, j->key);
		class_add(c, j->graph ? j->name : j->key, n, place);
		mem_free(place);
	}
}

/* Add the classes of a tar: the first folders of its samples. The names are read in a pass of their own, because all classes must be known before
 * the first sample is written. */
static int classes_of_tar(struct class_list *c, const char *path, struct err *e)
{
	struct tar_reader *r = tar_open(path, NULL, e);
	struct arena scratch = {0};
	struct tar_member m;
	int rc = r ? 1 : -1;

	while (rc > 0 && (rc = tar_next(r, &m, e)) > 0) {
		const struct class_name *last = c->n ? &c->v[c->n - 1] : NULL;
		const char *key, *ext;
		struct err bad = {0};
		size_t n;
		char *place;

		/* A refused name is ignored here; it is reported when the samples are read. */
		if (entry_key(&scratch, m.name, NULL, &key, &ext, &bad) || !(n = folder_len(key)) ||
		    !(entry_is_picture(ext) || !strcmp(ext, "npy")) || (last && strlen(last->name) == n && !strncmp(last->name, key, n))) {
			arena_release(&scratch);
			continue;
		}
		place = str_new("%.*s/", (int)n, key);
		class_add(c, key, n, place);
		mem_free(place);
		arena_release(&scratch);
	}
	tar_close(r);
	return rc;
}

static int by_place(const void *a, const void *b)
{
	const struct class_name *x = a, *y = b;

	return strcmp(x->place, y->place);
}

/* Sort the classes by the keys of their samples, drop repeated ones, and number them. */
static void classes_number(struct class_list *c)
{
	size_t n = 0;

	if (c->n)
		qsort(c->v, c->n, sizeof *c->v, by_place);
	for (size_t i = 0; i < c->n; i++) {
		if (nametable_add(&c->numbers, c->v[i].name, strlen(c->v[i].name), (int)n) >= 0)
			class_free(&c->v[i]);
		else
			c->v[n++] = c->v[i];
	}
	c->n = n;
}

/* Check a list of class names: returns it if all names are valid and different, else warns and returns NULL. Takes the reference. */
static json_t *list_checked(json_t *list, const char *where)
{
	struct nametable seen = {0};
	const char *why = json_array_size(list) ? NULL : "there is none";
	size_t i;
	json_t *v;

	json_array_foreach (list, i, v) {
		const char *name = json_string_value(v);

		why = name ? names_refuse_class(name) : "is not a text";
		if (!why && nametable_add(&seen, name, strlen(name), 0) >= 0)
			why = "comes twice";
		if (why)
			break;
	}
	nametable_release(&seen);
	if (!why)
		return list;
	cmd_warn("%s: no names of classes are taken from it: name %zu %s", where, i, why);
	json_decref(list);
	return NULL;
}

/* Read class names from a file, one per line. *out is NULL if they are not valid; -1 if the file cannot be read. */
static int list_load(json_t **out, const char *path, struct err *e)
{
	size_t len;
	char *text = file_load(path, LIST_MAX, &len, e), *line, *next;
	json_t *list;

	*out = NULL;
	if (!text)
		return -1;
	while (len && strchr("\r\n", text[len - 1]))
		text[--len] = 0;
	list = json_array();
	for (line = text; line && line <= text + len; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		line[strcspn(line, "\r")] = 0;
		json_array_append_new(list, jsonio_text(line));
	}
	mem_free(text);
	*out = list_checked(list, path);
	return 0;
}

/* Read class names from the stamp of a tar. *out is NULL if it has none, or if they are not valid; -1 if the tar cannot be read. */
static int list_of_tar(json_t **out, const char *path, struct err *e)
{
	struct tar_reader *r = tar_open(path, NULL, e);
	struct tar_member m;
	int rc = r ? tar_next(r, &m, e) : -1;
	json_t *stamp = rc > 0 && tar_stamp(r) ? json_loads(tar_stamp(r), 0, NULL) : NULL;
	json_t *names = json_object_get(stamp, "class_names");

	*out = names ? list_checked(json_incref(names), path) : NULL;
	json_decref(stamp);
	tar_close(r);
	return rc < 0 ? -1 : 0;
}

/* Merge the lists of class names that come with the sources. ERR_DATA if they contradict each other. */
static int lists_load(json_t **all, const struct job_list *l, int tars, struct err *e)
{
	for (size_t i = 0; i < l->nlists + (tars ? l->ntars : 0); i++) {
		const char *path = i < l->nlists ? l->lists[i] : l->tars[i - l->nlists];
		char *shown = remote_shown(path);
		json_t *list;
		int rc = i < l->nlists ? list_load(&list, path, e) : list_of_tar(&list, path, e);

		if (!rc)
			rc = classnames_join(all, list, shown, "--classes numbers them anew", e);
		mem_free(shown);
		if (rc)
			return -1;
	}
	return 0;
}

/* Number the classes as `list` (classes.txt) does, if it names every folder; otherwise warn and change nothing. */
static void classes_reorder(struct class_list *c, const json_t *list)
{
	struct nametable numbers = {0};
	struct class_list to = {0};
	size_t i;
	json_t *v;

	json_array_foreach ((json_t *)(uintptr_t)list, i, v)
		nametable_add(&numbers, json_string_value(v), json_string_length(v), (int)i);
	for (i = 0; i < c->n; i++)
		if (nametable_find(&numbers, c->v[i].name, strlen(c->v[i].name)) < 0)
			break;
	nametable_release(&numbers);
	if (i < c->n) {
		cmd_warn("classes.txt does not name \"%s\": classes are numbered in the order of their folders", c->v[i].name);
		return;
	}
	json_array_foreach ((json_t *)(uintptr_t)list, i, v) {
		class_add(&to, json_string_value(v), json_string_length(v), "");
		nametable_add(&to.numbers, to.v[i].name, strlen(to.v[i].name), (int)i);
	}
	class_list_release(c);
	*c = to;
}

/* The names of the numbered classes for the stamp; NULL after a warning if one is not a valid class name. */
static json_t *names_of(const struct class_list *c)
{
	json_t *names = json_array();

	for (size_t i = 0; i < c->n; i++) {
		const char *why = names_refuse_class(c->v[i].name);

		if (why) {
			cmd_warn("the names of the classes are not kept: folder \"%s\" %s", c->v[i].name, why);
			json_decref(names);
			return NULL;
		}
		json_array_append_new(names, json_string(c->v[i].name));
	}
	return names;
}

/* Samples of idx files lie in no folder. */
static int refuse_idx(const struct job_list *l, struct err *e)
{
	return l->nidx ? err_set(e, ERR_USAGE,
	                         "--classes numbers folders, and the pictures of %s lie in none; their labels are kept without --classes", l->idx[0])
	               : 0;
}

int classes_find(struct class_list *c, const struct job_list *l, int number, json_t **names, struct err *e)
{
	json_t *list = NULL;
	int rc = 0;

	*names = NULL;
	if (number && refuse_idx(l, e))
		return -1;
	if (number) {
		classes_of_jobs(c, l);
		for (size_t i = 0; i < l->ntars && !rc; i++)
			rc = classes_of_tar(c, l->tars[i], e);
		classes_number(c);
	}
	if (!rc)
		rc = lists_load(&list, l, !number, e);
	if (!rc && number) {
		if (list)
			classes_reorder(c, list);
		*names = c->n ? names_of(c) : NULL;
	} else if (!rc) {
		*names = json_incref(list);
	}
	json_decref(list);
	return rc;
}

int class_set(const struct class_list *c, const struct job *j, struct item *it, struct err *e)
{
	const char *name = j && j->graph ? j->name : it->key;
	size_t n = j && j->graph ? strlen(name) : folder_len(name);
	int k = n ? nametable_find(&c->numbers, name, n) : -1, len;
	char number[32];

	if (k < 0)
		return err_set(e, ERR_USAGE, "%s: no folder above it that could be its class", j && j->path ? j->path : it->key);
	for (int i = 0; i < it->n; i++)
		if (!strcmp(it->m[i].ext, "cls")) {
			mem_free(it->m[i].data);
			memmove(it->m + i, it->m + i + 1, sizeof *it->m * (size_t)(--it->n - i));
			break;
		}
	len = snprintf(number, sizeof number, "%d", k);
	item_add(it, "cls", number, (size_t)len);
	return 0;
}
