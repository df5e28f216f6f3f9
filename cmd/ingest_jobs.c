/* Turns the operands of ddm-ingest into a sorted list of files and graphs to decode. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/ingest.h"
#include "core/mem.h"
#include "core/openread.h"
#include "data/idx.h"
#include "file/fileio.h"
#include "file/remoteinput.h"

#define CHUNK_FRAMES 750 /* frames rendered by one decoder process, enough to outweigh its start */

static struct job *job_add(struct job_list *l)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64;
		l->v = mem_resize(l->v, l->cap, sizeof *l->v);
	}
	l->v[l->n] = (struct job){0};
	return &l->v[l->n++];
}

/* The path without leading "/", "./" and "../". */
static const char *below_of(const char *path)
{
	while (*path == '/' || !strncmp(path, "./", 2) || !strncmp(path, "../", 3))
		path += *path == '/' ? 1 : path[1] == '/' ? 2 : 3;
	return path;
}

/* The key of a path: without leading "/", "./" and "../", up to the first dot of the last component. NULL if nothing is left, or if the rest holds
 * control characters or "..". Caller frees with mem_free. */
static char *key_of(const char *path)
{
	const char *base;
	char *key;
	size_t n;

	path = below_of(path);
	base = strrchr(path, '/');
	base = base ? base + 1 : path;
	n = (size_t)(base - path) + strcspn(base, ".");
	if (n == (size_t)(base - path) || !strncmp(path, "../", 3) || strstr(path, "/../"))
		return NULL;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)path[i] < 32 || path[i] == 127)
			return NULL;
	key = mem_alloc(n + 1);
	memcpy(key, path, n);
	key[n] = 0;
	return key;
}

/* Read the first n bytes of a file: the number of bytes read, or -1 and *e. */
static ssize_t head_read(const char *path, uint8_t *head, size_t n, struct err *e)
{
	int fd = open_seekable(path, e);
	ssize_t got;

	if (fd < 0)
		return -1;
	got = fd_read(fd, head, n);
	if (got < 0)
		err_errno(e, "%s", path);
	close(fd);
	return got;
}

static void path_keep(char ***list, size_t *n, const char *path)
{
	*list = mem_resize(*list, *n + 1, sizeof **list);
	(*list)[(*n)++] = mem_strdup(path);
}

/* Add a file by the kind of its content. `relative` becomes its key. listed: it was named as an operand or on stdin, not found in a folder. */
static void file_add(struct job_list *l, const char *path, const char *relative, int listed)
{
	uint8_t head[512];
	struct err why = {0};
	ssize_t n = head_read(path, head, sizeof head, &why);
	enum media_kind kind = n < 0 ? MEDIA_NONE : media_sniff(head, (size_t)n);
	char *key = key_of(relative);
	struct stat st;
	struct job *j;

	if (n >= 0 && kind != MEDIA_STILL && idx_sniff(path)) {
		path_keep(&l->idx, &l->nidx, path);
		mem_free(key);
		return;
	}
	if (kind == MEDIA_TAR && (listed || strstr(path, ".tar"))) {
		path_keep(&l->tars, &l->ntars, path);
		mem_free(key);
		return;
	}
	kind = kind == MEDIA_TAR ? MEDIA_NONE : kind;
	if (!listed && ((kind == MEDIA_NONE && !strcmp(relative, "classes.txt")) || idx_is_labels(path))) {
		mem_free(key);
		return;
	}
	if (kind == MEDIA_NONE && !listed && !media_named(path)) {
		if (is_sidecar(path)) {
			path_keep(&l->beside, &l->nbeside, path);
		} else {
			l->passed_over++;
		}
		mem_free(key);
		return;
	}
	j = job_add(l);
	j->path = mem_strdup(path);
	j->below = mem_strdup(below_of(relative));
	j->bytes = stat(path, &st) ? 0 : (uint64_t)st.st_size;
	j->kind = key ? kind : MEDIA_NONE;
	if (!key)
		j->why = str_new("%s: this name cannot become a key", path);
	else if (n < 0)
		j->why = mem_strdup(why.msg);
	else if (kind == MEDIA_NONE)
		j->why = str_new("%s: %s", path, n ? "not a picture or a video" : "empty");
	j->key = key ? key : mem_strdup(relative);
}

/* Count a file that looks like a picture or video but is passed over, and keep the first three names for the warning. */
static void hidden_add(struct job_list *l, const char *path, const char *why)
{
	if (l->hidden++ < 3)
		str_printf(&l->hidden_first, "%s'%s' (%s)", l->hidden_first.len ? ", " : "", path, why);
}

static int folder_add(struct job_list *l, const char *path, const char *relative, int depth, struct err *e);

/* Add the entry `name` of the folder `path`. relative: the folder's path below the operand, or NULL. */
static int folder_entry(struct job_list *l, const char *path, const char *relative, const char *name, int depth, struct err *e)
{
	char *full = path_join(path, name), *below = path_join(relative, name);
	struct stat st, target;
	int rc = 0;

	if (lstat(full, &st))
		rc = err_errno(e, "%s", full);
	else if (*name == '.' && !S_ISDIR(st.st_mode) && media_named(name))
		hidden_add(l, full, "a name that begins with a dot");
	else if (*name == '.')
		; /* files of the system or of an editor */
	else if (S_ISDIR(st.st_mode))
		rc = folder_add(l, full, below, depth + 1, e);
	else if (S_ISREG(st.st_mode) || (S_ISLNK(st.st_mode) && !stat(full, &target) && S_ISREG(target.st_mode)))
		file_add(l, full, below, 0);
	else
		hidden_add(l, full, S_ISLNK(st.st_mode) ? "a link to no file" : "not a file");
	mem_free(full);
	mem_free(below);
	return rc;
}

static int folder_add(struct job_list *l, const char *path, const char *relative, int depth, struct err *e)
{
	char **names;
	size_t n;
	int rc = 0;

	if (depth > 64)
		return err_set(e, ERR_DATA, "%s: folders more than 64 deep", path);
	if (dir_list(path, &names, &n, e))
		return -1;
	for (size_t i = 0; i < n && !rc; i++)
		rc = folder_entry(l, path, relative, names[i], depth, e);
	names_free(names, n);
	return rc;
}

static int path_add(struct job_list *l, const char *path, struct err *e)
{
	struct stat st;

	if (stat(path, &st))
		return err_errno(e, "%s", path);
	if (S_ISDIR(st.st_mode)) {
		if (path_holds(path, "classes.txt")) {
			l->lists = mem_resize(l->lists, l->nlists + 1, sizeof *l->lists);
			l->lists[l->nlists++] = path_join(path, "classes.txt");
		}
		return folder_add(l, path, NULL, 0, e);
	}
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_DATA, "%s: not a file or a folder", path);
	file_add(l, path, path, 1);
	return 0;
}

/* A tar on a server or from a command is a source only as an operand, because a list that names commands is not trusted. */
static int operand_add(struct job_list *l, const char *source, struct err *e)
{
	if (!remote_is(source))
		return path_add(l, source, e);
	path_keep(&l->tars, &l->ntars, source);
	return 0;
}

/* Add the paths listed on stdin, one per line, or with `nul` ended by NUL. */
static int stdin_add(struct job_list *l, int nul, struct err *e)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	int rc = 0;

	while (!rc && (n = getdelim(&line, &cap, nul ? 0 : '\n', stdin)) > 0) {
		if (line[n - 1] == (nul ? 0 : '\n'))
			line[--n] = 0;
		if (n)
			rc = path_add(l, line, e);
	}
	free(line);
	if (!rc && ferror(stdin))
		rc = err_set(e, ERR_IO, "standard input cannot be read");
	return rc;
}

/* Add the jobs of "lavfi:GRAPH" or "lavfi@NAME:GRAPH". The default name is that of the first filter. */
static int graph_add(struct job_list *l, const char *source, const struct job_options *o, struct err *e)
{
	const char *at = source + 5, *graph;
	char *name;
	struct str trial = {0};
	int seeded, chunk = o->frames >= CHUNK_FRAMES ? 1 : (int)(CHUNK_FRAMES / o->frames), digits;
	int64_t left = o->seeds;

	graph = *at == '@' ? strchr(at, ':') : at;
	if (!graph)
		return err_set(e, ERR_USAGE, "%s: lavfi@NAME:GRAPH", source);
	graph++;
	name = *at == '@' ? str_new("%.*s", (int)(graph - at - 2), at + 1)
	                  : str_new("%.*s", (int)strspn(graph, "abcdefghijklmnopqrstuvwxyz0123456789_"), graph);
	if (!*name || strpbrk(name, "\t\n./") || graph_expand(&trial, graph, o->seed, &seeded, e)) {
		int rc = err_set(e, ERR_USAGE, "%s: give the graph a name: lavfi@NAME:GRAPH", source);

		mem_free(name);
		str_release(&trial);
		return rc;
	}
	str_release(&trial);
	l->names = mem_resize(l->names, l->nnames + 1, sizeof *l->names);
	l->names[l->nnames++] = name;
	digits = snprintf(NULL, 0, "%llu", (unsigned long long)(o->seed + (uint64_t)o->seeds - 1));
	for (uint64_t seed = o->seed; left > 0; seed += (uint64_t)chunk, left -= chunk) {
		struct job *j = job_add(l);
		struct str key = {0};

		*j = (struct job){.graph = graph, .name = name, .seed = seed, .seeded = seeded, .digits = digits < 4 ? 4 : digits};
		j->count = !seeded ? 1 : left < chunk ? (int)left : chunk;
		job_instance(&key, j, 0);
		j->key = key.p;
		if (!seeded)
			break;
	}
	return 0;
}

void job_instance(struct str *out, const struct job *j, int i)
{
	str_puts(out, j->name);
	if (j->seeded)
		str_printf(out, "-%0*llu", j->digits, (unsigned long long)(j->seed + (uint64_t)i));
}

/* Order jobs as the keys of their samples. Those of a video or graph are "key@frame", so '@' is compared after the key. */
static int compare(const void *x, const void *y)
{
	const struct job *a = x, *b = y;
	const unsigned char *p = (const unsigned char *)a->key, *q = (const unsigned char *)b->key;
	int c, d;

	while (*p && *p == *q)
		p++, q++;
	c = *p ? *p : job_many(a) ? '@' : 0;
	d = *q ? *q : job_many(b) ? '@' : 0;
	if (c != d)
		return c - d;
	if (*p || *q) /* one key ends where the other has '@' itself */
		return *p - *q;
	return a->path && b->path ? strcmp(a->path, b->path) : 0;
}

static void jobs_sort(struct job_list *l)
{
	if (l->n)
		qsort(l->v, l->n, sizeof *l->v, compare);
}

/* Check that no two jobs have the same key. With skip_bad, the second of two files is marked as bad instead. */
static int check_unique(struct job_list *l, int skip_bad, struct err *e)
{
	for (size_t i = 1; i < l->n; i++) {
		struct job *a = &l->v[i - 1], *b = &l->v[i];

		if (strcmp(a->key, b->key) || job_many(a) != job_many(b))
			continue;
		if (a->graph || b->graph)
			return err_set(e, ERR_USAGE, "two sources make the key \"%s\": name a graph with lavfi@NAME:GRAPH", a->key);
		if (!skip_bad)
			return err_set(e, ERR_DATA, "%s and %s make the same key \"%s\"", a->path, b->path, a->key);
		if (!b->why)
			b->why = str_new("%s: %s makes the same key \"%s\"", b->path, a->path, a->key);
		b->kind = MEDIA_NONE;
	}
	return 0;
}

static void job_free(struct job *j)
{
	mem_free(j->key);
	mem_free(j->path);
	mem_free(j->below);
	mem_free(j->why);
}

/* Leave out the pictures, of which no clips are made. */
static void pictures_drop(struct job_list *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (!l->v[i].graph && (l->v[i].kind == MEDIA_STILL || l->v[i].kind == MEDIA_PICTURE)) {
			job_free(&l->v[i]);
			l->pictures++;
		} else {
			l->v[n++] = l->v[i];
		}
	}
	l->n = n;
}

int job_list_fill(struct job_list *l, char **sources, int n, const struct job_options *o, struct err *e)
{
	for (int i = 0; i < n; i++) {
		int rc;

		if (!strncmp(sources[i], "lavfi:", 6) || !strncmp(sources[i], "lavfi@", 6))
			rc = graph_add(l, sources[i], o, e);
		else if (!strcmp(sources[i], "-"))
			rc = stdin_add(l, o->nul_list, e);
		else
			rc = operand_add(l, sources[i], e);
		if (rc)
			return -1;
	}
	if (o->clips)
		pictures_drop(l);
	jobs_sort(l);
	keys_distinguish(l, jobs_sort);
	sidecars_count(l, o->clips);
	return check_unique(l, o->skip_bad, e);
}

void job_list_release(struct job_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		job_free(&l->v[i]);
	for (size_t i = 0; i < l->nnames; i++)
		mem_free(l->names[i]);
	for (size_t i = 0; i < l->ntars; i++)
		mem_free(l->tars[i]);
	for (size_t i = 0; i < l->nbeside; i++)
		mem_free(l->beside[i]);
	mem_free(l->beside);
	for (size_t i = 0; i < l->nlists; i++)
		mem_free(l->lists[i]);
	mem_free(l->lists);
	for (size_t i = 0; i < l->nidx; i++)
		mem_free(l->idx[i]);
	mem_free(l->idx);
	mem_free(l->tars);
	mem_free(l->v);
	mem_free(l->names);
	str_release(&l->hidden_first);
	*l = (struct job_list){0};
}
