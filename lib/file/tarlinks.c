/* Hard links in tar archives: finds what they point to. */
#include "file/tarlinks.h"

#include <string.h>

#include "file/tarfile.h"

void tar_links_learn(struct tar_links *l, const char *name, const char *target)
{
	name = arena_strdup(&l->memory, name);
	if (nametable_add(&l->names, name, strlen(name), l->links) >= 0)
		return;
	if (!(l->links & (l->links - 1)))
		l->link = mem_resize(l->link, l->links ? 2 * (size_t)l->links : 1, sizeof *l->link);
	l->link[l->links++] = (struct tar_link){arena_strdup(&l->memory, target), -1};
}

/* Chains of links are followed to a name that is not a link. All names of a chain are resolved together, so that a chain takes time in proportion
 * to its length. */
void tar_links_resolve(struct tar_links *l)
{
	int *way = mem_zalloc((size_t)l->links + 1, sizeof *way);
	char *seen = mem_zalloc((size_t)l->links + 1, 1);

	for (int i = 0; i < l->links; i++) {
		const char *target = NULL;
		int n = 0, at = i, file = -1;

		while (at >= 0 && !seen[at]) {
			seen[at] = 1;
			way[n++] = at;
			target = l->link[at].target;
			at = nametable_find(&l->names, target, strlen(target));
		}
		if (at >= 0) {
			file = l->link[at].file; /* resolved before; -1 in a cycle */
		} else if (n) {
			file = nametable_add(&l->files, target, strlen(target), l->nfiles);
			if (file < 0)
				file = l->nfiles++;
		}
		while (n)
			l->link[way[--n]].file = file;
	}
	mem_free(way);
	mem_free(seen);
	l->file = mem_zalloc((size_t)l->nfiles + 1, sizeof *l->file);
}

int tar_links_keep(struct tar_links *l, const struct tar_member *m, uint64_t bytes, const char *where, struct err *e)
{
	int at = nametable_find(&l->files, m->name, strlen(m->name));
	struct tar_linked *to = at < 0 ? NULL : &l->file[at];

	if (!to || to->there)
		return 0;
	l->bytes += m->size;
	if (l->bytes > bytes)
		return err_set(e, ERR_DATA, "%s: hard links to more than %llu MiB of files: unpack it and name the folder", where,
		               (unsigned long long)(bytes >> 20));
	to->data = mem_try(m->size ? m->size : 1, 1, "a file that a hard link means", e);
	if (!to->data)
		return -1;
	memcpy(to->data, m->data, m->size);
	to->size = m->size;
	to->there = 1;
	return 0;
}

const struct tar_linked *tar_links_find(const struct tar_links *l, const char *name)
{
	int i = nametable_find(&l->names, name, strlen(name));

	return i < 0 || l->link[i].file < 0 || !l->file[l->link[i].file].there ? NULL : &l->file[l->link[i].file];
}

void tar_links_release(struct tar_links *l)
{
	for (int i = 0; i < l->nfiles; i++)
		mem_free(l->file[i].data);
	mem_free(l->file);
	mem_free(l->link);
	nametable_release(&l->names);
	nametable_release(&l->files);
	arena_release(&l->memory);
	*l = (struct tar_links){0};
}
