/* Reads, writes and maps files; makes, lists and removes folders. */
#include "file/fileio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/interrupt.h"
#include "core/mem.h"
#include "core/openread.h"
#include "core/str.h"

int fd_write(int fd, const void *p, size_t n)
{
	const char *c = p;

	while (n) {
		ssize_t k = write(fd, c, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -1;
		c += k;
		n -= (size_t)k;
	}
	return 0;
}

ssize_t fd_read(int fd, void *p, size_t n)
{
	size_t have = 0;

	while (have < n) {
		ssize_t k;

		if (interrupt_wait(fd))
			return -1;
		k = read(fd, (char *)p + have, n - have);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -1;
		if (!k)
			break;
		have += (size_t)k;
	}
	return (ssize_t)have;
}

ssize_t fd_pread(int fd, void *p, size_t n, off_t offset)
{
	size_t have = 0;

	while (have < n) {
		ssize_t k = pread(fd, (char *)p + have, n - have, offset + (off_t)have);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -1;
		if (!k)
			break;
		have += (size_t)k;
	}
	return (ssize_t)have;
}

static void *load_fd(int fd, const char *name, size_t limit, size_t *len, struct err *e)
{
	size_t cap = 65536, have = 0;
	struct stat st;
	char *p, *bigger;

	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0 && (uint64_t)st.st_size <= limit)
		cap = (size_t)st.st_size + 1;
	p = malloc(cap + 1);
	while (p) {
		ssize_t k = fd_read(fd, p + have, cap - have);

		if (k < 0) {
			err_errno(e, "%s: read", name);
			break;
		}
		have += (size_t)k;
		if (have > limit) {
			err_set(e, ERR_DATA, "%s: larger than %zu bytes", name, limit);
			break;
		}
		if (have < cap) {
			p[have] = 0;
			*len = have;
			return p;
		}
		cap *= 2;
		bigger = realloc(p, cap + 1);
		if (!bigger)
			mem_free(p);
		p = bigger;
	}
	if (!p)
		err_set(e, ERR_NOMEM, "%s: out of memory: %zu bytes", name, cap);
	mem_free(p);
	return NULL;
}

void *file_load(const char *path, size_t limit, size_t *len, struct err *e)
{
	void *p;
	int fd;

	if (!strcmp(path, "-"))
		return load_fd(STDIN_FILENO, "standard input", limit, len, e);
	fd = open_read(path, e);
	if (fd < 0)
		return NULL;
	p = load_fd(fd, path, limit, len, e);
	close(fd);
	return p;
}

/* The mapped files, for filemap_name. A signal handler walks the list, so entries are never freed, and `at` is set last and cleared first. */
struct map {
	_Atomic(const uint8_t *) at;
	size_t len;
	char name[240];
	struct map *next;
};
static _Atomic(struct map *) maps;
static pthread_mutex_t maps_lock = PTHREAD_MUTEX_INITIALIZER;

static void map_note(const uint8_t *at, size_t len, const char *name)
{
	struct map *m;

	pthread_mutex_lock(&maps_lock);
	for (m = atomic_load(&maps); m && atomic_load(&m->at);)
		m = m->next;
	if (!m) {
		m = mem_zalloc(1, sizeof *m);
		m->next = atomic_load(&maps);
		atomic_store(&maps, m);
	}
	m->len = len;
	snprintf(m->name, sizeof m->name, "%s", name);
	atomic_store(&m->at, at);
	pthread_mutex_unlock(&maps_lock);
}

static void map_forget(const uint8_t *at)
{
	pthread_mutex_lock(&maps_lock);
	for (struct map *m = atomic_load(&maps); m; m = m->next)
		if (at && atomic_load(&m->at) == at)
			atomic_store(&m->at, NULL);
	pthread_mutex_unlock(&maps_lock);
}

const char *filemap_name(const void *address)
{
	for (struct map *m = atomic_load(&maps); m; m = m->next) {
		const uint8_t *at = atomic_load(&m->at);

		/* To the end of the last page. */
		if (at && (const uint8_t *)address >= at && (size_t)((const uint8_t *)address - at) < ((m->len + 65535) & ~(size_t)65535))
			return m->name;
	}
	return NULL;
}

/* The part of an address that lies within its page: maps begin with a page, the bytes asked for may not. */
static size_t in_page(uint64_t at)
{
	return (size_t)(at % (uint64_t)sysconf(_SC_PAGESIZE));
}

int filemap_part(struct filemap *m, int fd, uint64_t offset, size_t len, const char *name, struct err *e)
{
	size_t before = in_page(offset);
	uint8_t *p;

	m->data = (const uint8_t *)"";
	m->len = 0;
	if (!len)
		return 0;
	p = mmap(NULL, before + len, PROT_READ, MAP_PRIVATE, fd, (off_t)(offset - before));
	if (p == MAP_FAILED)
		return err_errno(e, "%s: mmap of %zu bytes", name, len);
	m->data = p + before;
	m->len = len;
	map_note(p, before + len, name);
	return 0;
}

int filemap_fd(struct filemap *m, int fd, const char *name, struct err *e)
{
	struct stat st;

	m->data = (const uint8_t *)"";
	m->len = 0;
	if (fstat(fd, &st))
		return err_errno(e, "%s: stat", name);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_DATA, "%s: not a regular file", name);
	return st.st_size > 0 ? filemap_part(m, fd, 0, (size_t)st.st_size, name, e) : 0;
}

int filemap_open(struct filemap *m, const char *path, struct err *e)
{
	int fd = open_seekable(path, e), rc;

	m->data = (const uint8_t *)"";
	m->len = 0;
	if (fd < 0)
		return -1;
	rc = filemap_fd(m, fd, path, e);
	close(fd);
	return rc;
}

void filemap_close(struct filemap *m)
{
	size_t before = m->len ? in_page((uintptr_t)m->data) : 0;

	if (m->len) {
		map_forget(m->data - before);
		munmap((void *)(uintptr_t)(m->data - before), before + m->len);
	}
	m->data = NULL;
	m->len = 0;
}

int file_scratch(const char *dir, struct err *e)
{
	char *path = path_join(dir ? dir : "/tmp", ".ddm-scratch-XXXXXX");
	int fd = mkostemp(path, O_CLOEXEC);

	if (fd < 0)
		err_errno(e, "%s: temporary file", path);
	else
		unlink(path);
	mem_free(path);
	return fd;
}

int path_exists(const char *path)
{
	struct stat st;

	return !stat(path, &st);
}

char *path_join(const char *dir, const char *name)
{
	if (!dir)
		return mem_strdup(name);
	return str_new("%s%s%s", dir, str_ends(dir, "/") ? "" : "/", name);
}

int path_holds(const char *dir, const char *name)
{
	char *path = path_join(dir, name);
	int there = path_exists(path);

	mem_free(path);
	return there;
}

int dir_make(const char *path, struct err *e)
{
	char *p = mem_strdup(path);
	struct stat st;
	int rc = 0, why;

	for (char *s = p + 1; !rc && *p; s++) {
		char c = *s;

		if (c != '/' && c)
			continue;
		*s = 0;
		/* On a read-only or full file system mkdir may report that instead of EEXIST. */
		if (mkdir(p, 0777) && (why = errno) != EEXIST && (stat(p, &st) || !S_ISDIR(st.st_mode))) {
			errno = why;
			rc = err_errno(e, "%s: mkdir", p);
		}
		*s = c;
		if (!c)
			break;
	}
	if (!rc && (stat(path, &st) || !S_ISDIR(st.st_mode)))
		rc = err_set(e, ERR_EXISTS, "%s: exists and is not a folder", path);
	mem_free(p);
	return rc;
}

/* Cut off the last component; 0 if there is no other. */
static int path_shorten(char *p)
{
	size_t n = strlen(p);

	while (n > 0 && p[n - 1] == '/')
		n--;
	while (n > 0 && p[n - 1] != '/')
		n--;
	while (n > 1 && p[n - 1] == '/')
		n--;
	p[n] = 0;
	return n > 0;
}

size_t dir_there(const char *path)
{
	char *p = mem_strdup(path);
	size_t n = 0;

	do {
		if (path_exists(p)) {
			n = strlen(p);
			break;
		}
	} while (path_shorten(p));
	mem_free(p);
	return n;
}

void dir_unmake(const char *path, size_t there)
{
	char *p = mem_strdup(path);

	while (strlen(p) > there && (!rmdir(p) || errno == ENOENT) && path_shorten(p))
		;
	mem_free(p);
}

int dir_remove(const char *path, struct err *e)
{
	struct stat st;
	char **names, *sub;
	size_t n;
	int rc = 0;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 : err_errno(e, "%s: stat", path);
	if (!S_ISDIR(st.st_mode))
		return unlink(path) && errno != ENOENT ? err_errno(e, "%s: unlink", path) : 0;
	if (dir_list(path, &names, &n, e))
		return -1;
	for (size_t i = 0; i < n && !rc; i++) {
		sub = path_join(path, names[i]);
		rc = dir_remove(sub, e);
		mem_free(sub);
	}
	names_free(names, n);
	if (!rc && rmdir(path) && errno != ENOENT)
		rc = err_errno(e, "%s: rmdir", path);
	return rc;
}

int dir_sync(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = 0;

	if (fd < 0)
		return err_errno(e, "%s", path);
	/* Some network file systems have no fsync of folders; there is nothing more to do on those. */
	if (fsync(fd) && errno != EINVAL && errno != ENOTSUP)
		rc = err_errno(e, "%s: fsync", path);
	close(fd);
	return rc;
}

static int name_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int dir_list(const char *path, char ***names, size_t *n, struct err *e)
{
	DIR *d = opendir(path);
	struct dirent *de;
	size_t cap = 0;

	*names = NULL;
	*n = 0;
	if (!d)
		return err_errno(e, "%s", path);
	while (errno = 0, (de = readdir(d))) {
		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
			continue;
		if (*n == cap)
			*names = mem_resize(*names, cap = cap ? 2 * cap : 64, sizeof **names);
		(*names)[(*n)++] = mem_strdup(de->d_name);
	}
	if (errno) {
		err_errno(e, "%s: readdir", path);
		closedir(d);
		names_free(*names, *n);
		*names = NULL;
		*n = 0;
		return -1;
	}
	closedir(d);
	if (*n)
		qsort(*names, *n, sizeof **names, name_cmp);
	return 0;
}

void names_free(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		mem_free(names[i]);
	mem_free(names);
}
