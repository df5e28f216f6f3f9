/* Lists the temporaries that a process removes when it ends early. */
#include "file/pending.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"

struct pending {
	struct pending *next;
	char path[];
};

static struct pending *list;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Allocated before the file or folder is made, so that it never exists unlisted for lack of memory. */
static struct pending *entry_new(const char *path)
{
	size_t n = strlen(path) + 1;
	struct pending *p = mem_alloc(sizeof *p + n);

	memcpy(p->path, path, n);
	return p;
}

/* With the lock held; takes the result of making it. */
static int entry_add(struct pending *p, int made)
{
	int why = errno;

	if (made >= 0) {
		p->next = list;
		list = p;
		p = NULL;
	}
	pthread_mutex_unlock(&lock);
	mem_free(p);
	errno = why;
	return made;
}

int pending_file(const char *path)
{
	struct pending *p = entry_new(path);

	pthread_mutex_lock(&lock);
	return entry_add(p, open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
}

int pending_folder(const char *path)
{
	struct pending *p = entry_new(path);

	pthread_mutex_lock(&lock);
	return entry_add(p, mkdir(path, 0777));
}

int pending_holds(const char *path)
{
	int found = 0;

	pthread_mutex_lock(&lock);
	for (const struct pending *p = list; p && !found; p = p->next) {
		size_t n = strlen(p->path);

		found = !strncmp(path, p->path, n) && path[n] == '/';
	}
	pthread_mutex_unlock(&lock);
	return found;
}

struct pending *pending_reserve(const char *path)
{
	return entry_new(path);
}

void pending_forget(struct pending *p)
{
	mem_free(p);
}

void pending_note(struct pending *p)
{
	pthread_mutex_lock(&lock);
	entry_add(p, 0);
}

/* Uses getdents64, because readdir() allocates. The folder is read again from its start until a pass removes nothing. */
static void remove_at(int at, const char *name, int depth)
{
	_Alignas(struct dirent64) char buf[4096];
	ssize_t n, gone = 1;
	int fd;

	if (!unlinkat(at, name, 0) || depth == 0)
		return;
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	while (gone) {
		gone = 0;
		lseek(fd, 0, SEEK_SET);
		while ((n = getdents64(fd, buf, sizeof buf)) > 0)
			for (ssize_t i = 0; i < n;) {
				const struct dirent64 *d = (const struct dirent64 *)(buf + i);

				i += d->d_reclen;
				if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
					continue;
				remove_at(fd, d->d_name, depth - 1);
				gone |= faccessat(fd, d->d_name, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
			}
	}
	close(fd);
	unlinkat(at, name, AT_REMOVEDIR);
}

enum { DEPTH = 16 };

/* The same with one descriptor at a time, by whole names: `path` has room for PATH_MAX bytes, of which len are used. */
static void remove_by_name(char *path, size_t len, int depth)
{
	_Alignas(struct dirent64) char buf[2048];
	int again = 1;

	while (again) {
		int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), inner = 0;
		ssize_t n;

		again = 0;
		if (fd < 0)
			return;
		while (!inner && (n = getdents64(fd, buf, sizeof buf)) > 0)
			for (ssize_t i = 0; i < n && !inner;) {
				const struct dirent64 *d = (const struct dirent64 *)(buf + i);
				size_t more = strlen(d->d_name);

				i += d->d_reclen;
				if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
					continue;
				if (!unlinkat(fd, d->d_name, 0)) {
					again = 1;
				} else if (depth > 0 && len + 1 + more < PATH_MAX) {
					path[len] = '/';
					memcpy(path + len + 1, d->d_name, more + 1);
					inner = 1;
				}
			}
		close(fd);
		if (!inner)
			continue;
		remove_by_name(path, strlen(path), depth - 1);
		again = access(path, F_OK) != 0;
		path[len] = 0;
	}
	rmdir(path);
}

/* Where the descriptors do not reach from the top to the bottom. */
static void remove_all(const char *path)
{
	char name[PATH_MAX];
	size_t n = strlen(path);

	remove_at(AT_FDCWD, path, DEPTH);
	if (n >= sizeof name || access(path, F_OK))
		return;
	memcpy(name, path, n + 1);
	remove_by_name(name, n, DEPTH);
}

/* With the lock held. */
static void entry_drop(const char *path)
{
	for (struct pending **p = &list; *p; p = &(*p)->next)
		if (!strcmp((*p)->path, path)) {
			struct pending *gone = *p;

			*p = gone->next;
			mem_free(gone);
			return;
		}
}

int pending_rename(const char *path, const char *to)
{
	int rc, why;

	pthread_mutex_lock(&lock);
	rc = rename(path, to);
	why = errno;
	if (!rc)
		entry_drop(path);
	pthread_mutex_unlock(&lock);
	errno = why;
	return rc;
}

void pending_discard(const char *path)
{
	pthread_mutex_lock(&lock);
	remove_all(path);
	entry_drop(path);
	pthread_mutex_unlock(&lock);
}

void pending_remove(void)
{
	pthread_mutex_lock(&lock);
	for (struct pending *p = list; p; p = p->next)
		remove_all(p->path);
}
