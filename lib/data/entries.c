/* Groups the files of a folder or a list into samples. */
#include "data/entries.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/str.h"
#include "data/idx.h"
#include "file/fileio.h"
#include "file/still.h"
#include "file/tarfile.h"

enum { DEPTH = 64 };

struct folder {
	struct entries *s;
	int (*refused)(void *arg, struct err *e);
	void *arg;
	size_t prefix; /* bytes of a path before the part that makes the key */
	struct {
		dev_t dev;
		ino_t ino;
	} above[DEPTH];
};

static int listed(const char *const *names, const char *ext)
{
	for (; *names; names++)
		if (!strcmp(*names, ext))
			return 1;
	return 0;
}

/* The part after the last dot decides, so "seg.png" is a picture too. */
int entry_is_picture(const char *ext)
{
	static const char *const names[] = {"jpg",  "jpeg", "jpe",  "jfif", "png", "webp", "gif", "bmp", "tif", "tiff",
	                                    "avif", "heic", "heif", "jp2",  "jxl", "ppm",  "pgm", "pbm", "tga", NULL};
	const char *dot = strrchr(ext, '.');

	return listed(names, dot ? dot + 1 : ext);
}

static int is_known(const char *ext)
{
	static const char *const names[] = {"txt", "cls", "json", "npy", NULL};
	const char *dot = strrchr(ext, '.');

	return entry_is_picture(ext) || listed(names, dot ? dot + 1 : ext);
}

static const char *strip(const char *name)
{
	for (;;) {
		if (name[0] == '/')
			name++;
		else if (!strncmp(name, "./", 2))
			name += 2;
		else if (!strncmp(name, "../", 3))
			name += 3;
		else
			return name;
	}
}

static int climbs(const char *name)
{
	for (const char *p = name; (p = strstr(p, "..")); p += 2)
		if ((p == name || p[-1] == '/') && (!p[2] || p[2] == '/'))
			return 1;
	return 0;
}

int entry_key(struct arena *a, const char *name, const char *ext_hint, const char **key, const char **ext, struct err *e)
{
	const char *base, *clean = strip(name);
	char low[64], *k;
	size_t len;

	base = strrchr(clean, '/');
	base = base ? base + 1 : clean;
	if (!*base || *base == '.')
		return 1;
	if (climbs(clean))
		return err_set(e, ERR_DATA, "\"%s\" leaves its folder with \"..\"", name);
	if (!tar_key(clean, &len, low))
		ext_hint = low;
	else if (ext_hint && !strchr(base, '.'))
		len = strlen(clean);
	else
		return 1;
	for (size_t i = 0; i < len; i++)
		if (clean[i] == '\t' || clean[i] == '\n')
			return err_set(e, ERR_DATA, "\"%s\" contains a tab or newline, which keys must not", name);
	k = arena_alloc(a, len + 1);
	memcpy(k, clean, len);
	*key = k;
	*ext = arena_strdup(a, ext_hint);
	return 0;
}

const char *entry_picture_ext(enum still_kind kind)
{
	return kind == STILL_JPEG ? "jpg" : kind == STILL_PNG ? "png" : kind == STILL_WEBP ? "webp" : "";
}

int entry_sniff(const char *path, enum entry_kind *kind, const char **ext, struct err *e)
{
	uint8_t head[512];
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	enum still_kind still;

	if (fd < 0)
		return err_errno(e, "%s", path);
	n = fd_read(fd, head, sizeof head);
	if (n < 0)
		err_errno(e, "%s: read", path);
	close(fd);
	if (n < 0)
		return -1;
	still = still_sniff(head, (size_t)n);
	*ext = entry_picture_ext(still);
	*kind = still != STILL_UNKNOWN ? ENTRY_PICTURE : tar_sniff(head, (size_t)n) ? ENTRY_TAR : ENTRY_OTHER;
	return 0;
}

static void add(struct entries *s, const char *key, const char *ext, const char *path)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 256;
		s->v = mem_resize(s->v, s->cap, sizeof *s->v);
	}
	s->v[s->n] = (struct entry){key, ext, arena_strdup(&s->memory, path), (int64_t)s->n};
	s->n++;
}

static void keep(struct entries *s, char ***list, size_t *n, const char *path)
{
	*list = mem_resize(*list, *n + 1, sizeof **list);
	(*list)[(*n)++] = arena_strdup(&s->memory, path);
}

static int add_file(struct folder *f, const char *path, struct err *e)
{
	const char *key, *ext, *hint = NULL, *base = strrchr(path, '/');
	enum entry_kind kind = ENTRY_PICTURE;
	char low[64];
	size_t len;
	int rc, known = !tar_key(base ? base + 1 : path, &len, low) && is_known(low);

	if (!known && entry_sniff(path, &kind, &hint, e))
		return f->refused(f->arg, e);
	if (kind != ENTRY_PICTURE) {
		if (idx_sniff(path))
			keep(f->s, &f->s->idx, &f->s->nidx, path);
		else if (kind == ENTRY_TAR && !idx_is_labels(path))
			keep(f->s, &f->s->tars, &f->s->ntars, path);
		return 0;
	}
	rc = entry_key(&f->s->memory, path + f->prefix, hint, &key, &ext, e);
	if (rc < 0)
		return f->refused(f->arg, e);
	if (!rc)
		add(f->s, key, ext, path);
	return 0;
}

static int scan(struct folder *f, const char *dir, int depth, struct err *e)
{
	struct stat st;
	char **names;
	size_t n;
	int rc = 0;

	if (stat(dir, &st))
		return err_errno(e, "%s", dir);
	if (depth == DEPTH)
		return err_set(e, ERR_DATA, "%s: more than %d folders deep", dir, DEPTH);
	for (int i = 0; i < depth; i++)
		if (f->above[i].dev == st.st_dev && f->above[i].ino == st.st_ino)
			return err_set(e, ERR_DATA, "%s: a link leads back to a folder above it", dir);
	f->above[depth].dev = st.st_dev;
	f->above[depth].ino = st.st_ino;
	if (dir_list(dir, &names, &n, e))
		return -1;
	for (size_t i = 0; i < n && !rc; i++) {
		char *path;

		if (names[i][0] == '.')
			continue;
		path = path_join(dir, names[i]);
		if (stat(path, &st)) {
			err_errno(e, "%s", path);
			rc = f->refused(f->arg, e);
		} else if (S_ISDIR(st.st_mode)) {
			rc = scan(f, path, depth + 1, e);
		} else if (S_ISREG(st.st_mode)) {
			rc = add_file(f, path, e);
		}
		mem_free(path);
	}
	names_free(names, n);
	return rc;
}

static int by_key(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int c = strcmp(x->key, y->key);

	if (!c)
		c = strcmp(x->ext, y->ext);
	return c ? c : strcmp(x->path, y->path);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int is_part(const char *ext)
{
	return strchr(ext, '.') != NULL;
}

/* Return the entry among v[0 .. n), all of one key, that is the sample's picture: the first with a single-part extension, such as "jpg" beside
 * "seg.png"; else the first picture. NULL if there is no picture. */
static const struct entry *picture_of(const struct entry *v, size_t n)
{
	const struct entry *part = NULL;

	for (size_t i = 0; i < n; i++) {
		if (entry_is_picture(v[i].ext) && !is_part(v[i].ext))
			return v + i;
		if (entry_is_picture(v[i].ext) && !part)
			part = v + i;
	}
	return part;
}

/* Refuse all pictures of a key but one. A key ends at the first dot of a name, so without this check IMG.1.jpg and IMG.2.jpg, or a.jpg and a.png,
 * would be one sample and only one of the pictures would be used. */
static int pictures_check(struct entries *s, int (*refused)(void *arg, struct err *e), void *arg, struct err *e)
{
	size_t kept = 0, n;

	for (size_t at = 0; at < s->n; at += n) {
		const struct entry *p;
		struct entry own = {0};

		for (n = 1; at + n < s->n && !strcmp(s->v[at].key, s->v[at + n].key);)
			n++;
		p = picture_of(s->v + at, n);
		if (p)
			own = *p;
		for (size_t i = at; i < at + n; i++) {
			const struct entry x = s->v[i];

			if (p && x.path != own.path && entry_is_picture(x.ext) && is_part(x.ext) == is_part(own.ext)) {
				err_set(e, ERR_DATA, "%s: makes the same key \"%s\" as %s: rename one, or let ddm-ingest make keys that differ",
				        x.path, x.key, own.path);
				if (refused(arg, e))
					return -1;
			} else {
				s->v[kept++] = x;
			}
		}
	}
	s->n = kept;
	return 0;
}

int entries_scan(struct entries *s, const char *dir, int (*refused)(void *arg, struct err *e), void *arg, struct err *e)
{
	struct folder *f = mem_zalloc(1, sizeof *f);
	int rc;

	f->s = s;
	f->refused = refused;
	f->arg = arg;
	f->prefix = strlen(dir);
	rc = scan(f, dir, 0, e);
	mem_free(f);
	if (s->n)
		qsort(s->v, s->n, sizeof *s->v, by_key);
	if (s->ntars)
		qsort(s->tars, s->ntars, sizeof *s->tars, by_text);
	if (s->nidx)
		qsort(s->idx, s->nidx, sizeof *s->idx, by_text);
	return rc ? rc : pictures_check(s, refused, arg, e);
}

int entries_list(struct entries *s, const char *text, size_t len, char sep, int (*refused)(void *arg, struct err *e), void *arg, struct err *e)
{
	char *copy = arena_alloc(&s->memory, len + 1);

	memcpy(copy, text, len);
	for (char *p = copy, *end = copy + len; p < end;) {
		char *stop = memchr(p, sep, (size_t)(end - p));
		const char *key, *ext;
		int rc;

		if (!stop)
			stop = end;
		if (memchr(p, 0, (size_t)(stop - p)))
			return err_set(e, ERR_DATA, "list of paths: a NUL byte in entry %zu (does it need -0?)", s->n + 1);
		*stop = 0;
		if (stop > p) {
			rc = entry_key(&s->memory, p, "", &key, &ext, e);
			if (rc > 0)
				rc = err_set(e, ERR_DATA, "\"%s\" in the list is not a valid key", p);
			if (!rc)
				add(s, key, ext, p);
			else if (refused(arg, e))
				return -1;
		}
		p = stop + 1;
	}
	return pictures_check(s, refused, arg, e);
}

int entries_file(struct entries *s, const char *path, struct err *e)
{
	const char *key, *ext, *hint, *base = strrchr(path, '/');
	enum entry_kind kind;

	if (entry_sniff(path, &kind, &hint, e))
		return -1;
	if (entry_key(&s->memory, base ? base + 1 : path, hint, &key, &ext, e))
		return err_set(e, ERR_DATA, "%s: this name cannot become a key", path);
	add(s, key, ext, path);
	return 0;
}

void entries_release(struct entries *s)
{
	mem_free(s->v);
	mem_free(s->tars);
	mem_free(s->idx);
	arena_release(&s->memory);
	*s = (struct entries){0};
}
