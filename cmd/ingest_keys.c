/* Makes equal keys of different files in one folder differ. A key ends at the first dot of the name, so IMG.1.jpg and IMG.2.jpg would both be IMG;
 * their keys become IMG_1 and IMG_2. Those of a.jpg and a.jpeg become a_jpg and a_jpeg. Other keys do not change. */
#include <string.h>

#include "cmd/ingest.h"
#include "core/mem.h"
#include "data/keyset.h"

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Length of the path without its last extension. */
static size_t stem_len(const char *path)
{
	const char *dot = strrchr(base_of(path), '.');

	return dot && dot > base_of(path) ? (size_t)(dot - path) : strlen(path);
}

int job_many(const struct job *j)
{
	return j->graph || j->kind == MEDIA_VIDEO;
}

/* Whether two jobs are different files of one folder with the same key. */
static int collide(const struct job *a, const struct job *b)
{
	size_t n = a->path && b->path ? (size_t)(base_of(a->path) - a->path) : 0;

	return a->path && b->path && !strcmp(a->key, b->key) && job_many(a) == job_many(b) && (size_t)(base_of(b->path) - b->path) == n &&
	       !strncmp(a->path, b->path, n) && strcmp(a->path, b->path);
}

/* Make the key from the whole name without its last extension, with '_' for each dot. */
static void key_lengthen(struct job *j)
{
	size_t folder = (size_t)(base_of(j->key) - j->key), n = stem_len(j->path) - (size_t)(base_of(j->path) - j->path);
	char *key = str_new("%.*s%.*s", (int)folder, j->key, (int)n, base_of(j->path));

	for (char *c = key + folder; *c; c++)
		if (*c == '.')
			*c = '_';
	mem_free(j->key);
	j->key = key;
	j->whole_name = 1;
}

/* Append the last extension to the key: "a" of a.jpg becomes "a_jpg". */
static void key_extend(struct job *j)
{
	const char *ext = j->path + stem_len(j->path);
	char *key = str_new("%s_%s", j->key, *ext ? ext + 1 : "");

	mem_free(j->key);
	j->key = key;
}

/* Call change() for all jobs of a sorted list whose keys collide; only_whole: only if the key is the whole name. 1 if a key has changed: the list
 * must be sorted again. */
static int pass(struct job_list *l, void change(struct job *), int only_whole)
{
	char *marked = mem_zalloc(l->n, 1);
	int any = 0;

	for (size_t i = 1; i < l->n; i++)
		if (collide(&l->v[i - 1], &l->v[i]))
			marked[i - 1] = marked[i] = 1;
	for (size_t i = 0; i < l->n; i++)
		if (marked[i] && (!only_whole || l->v[i].whole_name)) {
			change(&l->v[i]);
			any = 1;
		}
	mem_free(marked);
	return any;
}

void keys_distinguish(struct job_list *l, void sort(struct job_list *l))
{
	if (!pass(l, key_lengthen, 0))
		return;
	sort(l);
	for (int tries = 0; tries < 8 && pass(l, key_extend, 1); tries++)
		sort(l);
}

int is_sidecar(const char *path)
{
	const char *ext = path + stem_len(path);

	return !strcmp(ext, ".cls") || !strcmp(ext, ".json") || !strcmp(ext, ".txt") || !strcmp(ext, ".srt") || !strcmp(ext, ".vtt");
}

/* Add the first n bytes of a path. */
static void stem_add(struct keyset *s, const char *path, size_t n)
{
	char *stem = mem_strndup(path, n);

	keyset_add(s, stem);
	mem_free(stem);
}

/* Whether files beside this one become members of its samples. */
static int has_sidecars(const struct job *j, int clips)
{
	return clips ? j->kind == MEDIA_VIDEO : j->kind == MEDIA_STILL || j->kind == MEDIA_PICTURE;
}

void sidecars_count(struct job_list *l, int clips)
{
	struct keyset stems = {0};

	for (size_t i = 0; i < l->n && l->nbeside; i++) {
		const struct job *j = &l->v[i];
		const char *base = j->path ? base_of(j->path) : NULL;

		if (!base || !has_sidecars(j, clips))
			continue;
		stem_add(&stems, j->path, (size_t)(base - j->path) + strcspn(base, "."));
		if (j->whole_name)
			stem_add(&stems, j->path, stem_len(j->path));
	}
	for (size_t i = 0; i < l->nbeside; i++) {
		char *stem = mem_strndup(l->beside[i], stem_len(l->beside[i]));

		l->passed_over += !keyset_has(&stems, stem);
		mem_free(stem);
		mem_free(l->beside[i]);
	}
	keyset_release(&stems);
	mem_free(l->beside);
	l->beside = NULL;
	l->nbeside = 0;
}
