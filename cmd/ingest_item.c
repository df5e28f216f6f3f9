/* The members of a sample, and those that are files beside its source. */
#include <stdio.h>
#include <string.h>

#include "cmd/ingest.h"
#include "core/mem.h"
#include "data/samples.h"
#include "file/fileio.h"

#define SIDECAR_MAX ((size_t)1 << 20) /* most bytes of a .cls, .json or .txt */

void item_release(struct item *it)
{
	for (int i = 0; i < it->n; i++)
		mem_free(it->m[i].data);
	mem_free(it->m);
	mem_free(it->key);
	json_decref(it->facts);
	*it = (struct item){0};
}

void item_own(struct item *it, const char *ext, uint8_t *data, size_t len)
{
	int at = it->n;

	it->m = mem_resize(it->m, (size_t)it->n + 1, sizeof *it->m);
	while (at > 0 && strcmp(it->m[at - 1].ext, ext) > 0) {
		it->m[at] = it->m[at - 1];
		at--;
	}
	it->m[at] = (struct item_member){.data = data, .len = len};
	snprintf(it->m[at].ext, sizeof it->m[at].ext, "%s", ext);
	it->n++;
}

void item_add(struct item *it, const char *ext, const void *data, size_t len)
{
	uint8_t *copy = mem_alloc(len);

	if (len)
		memcpy(copy, data, len);
	item_own(it, ext, copy, len);
}

void item_remove(struct item *it, int i)
{
	mem_free(it->m[i].data);
	memmove(it->m + i, it->m + i + 1, sizeof *it->m * (size_t)(--it->n - i));
}

void result_release(struct result *r)
{
	for (int i = 0; i < r->n; i++)
		item_release(&r->v[i]);
	mem_free(r->v);
	mem_free(r->note);
	*r = (struct result){0};
}

void result_add(struct result *r, const struct item *it)
{
	if (r->n == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 4;
		r->v = mem_resize(r->v, (size_t)r->cap, sizeof *r->v);
	}
	r->v[r->n++] = *it;
}

char *sidecar_path(const struct job *j, const char *ext)
{
	const char *slash = strrchr(j->path, '/'), *dot = strrchr(j->path, '.');
	size_t base = slash ? (size_t)(slash + 1 - j->path) : 0, stem = base + strcspn(j->path + base, ".");
	size_t whole = j->whole_name && dot ? (size_t)(dot - j->path) : stem;
	char *name = str_new("%.*s.%s", (int)whole, j->path, ext);

	if (!path_exists(name) && whole != stem) {
		mem_free(name);
		name = str_new("%.*s.%s", (int)stem, j->path, ext);
	}
	if (path_exists(name))
		return name;
	mem_free(name);
	return NULL;
}

int sidecars_load(struct item *it, const struct job *j, struct err *e)
{
	static const char *const ext[] = {"cls", "json", "txt"};

	for (size_t i = 0; i < sizeof ext / sizeof *ext; i++) {
		char *name = sidecar_path(j, ext[i]);
		uint8_t *data = NULL;
		size_t len;
		int there = name != NULL;

		if (there && (data = file_load(name, SIDECAR_MAX, &len, e)))
			item_own(it, ext[i], data, len);
		mem_free(name);
		if (there && !data)
			return -1;
	}
	return 0;
}

int class_check(const struct item *it, const char *origin, const struct work_options *o, struct err *e)
{
	int32_t label;

	for (int i = 0; i < it->n && !o->classes; i++)
		if (!strcmp(it->m[i].ext, "cls")) {
			struct sample_member m = {"cls", it->m[i].data, it->m[i].len};
			struct sample s = {it->key, origin, 1, &m};

			return sample_class(&s, &label, e);
		}
	return 0;
}
