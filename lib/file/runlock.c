/* Checks that a run still owns the folder that it locked. */
#include "file/runlock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/filelock.h"

/* The locks this process holds, for runlock_permits. */
static struct held {
	struct runlock lock;
	struct held *next;
} * all_held;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

static void list_add(const struct runlock *l)
{
	struct held *h = mem_alloc(sizeof *h);

	pthread_mutex_lock(&list_lock);
	*h = (struct held){{l->fd, mem_strdup(l->path)}, all_held};
	all_held = h;
	pthread_mutex_unlock(&list_lock);
}

static void list_remove(int fd)
{
	struct held **at = &all_held, *h;

	pthread_mutex_lock(&list_lock);
	while (*at && (*at)->lock.fd != fd)
		at = &(*at)->next;
	h = *at;
	if (h)
		*at = h->next;
	pthread_mutex_unlock(&list_lock);
	if (h)
		mem_free(h->lock.path);
	mem_free(h);
}

static int lock_refused(int fd, const char *dir, struct err *e)
{
	char who[128];

	lock_signed(fd, who, sizeof who);
	return err_set(e, ERR_EXISTS, "%s: in use by another process (host and pid: %s)", dir, *who ? who : "not known");
}

int runlock_holder(const char *dir, char *who, size_t size)
{
	char *path = path_join(dir, ".lock");
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), held;

	mem_free(path);
	if (fd < 0)
		return 0;
	held = flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
	if (held)
		lock_signed(fd, who, size);
	close(fd);
	return held;
}

int runlock_take(struct runlock *l, const char *dir, struct err *e)
{
	char *path = path_join(dir, ".lock");
	int rc;

	*l = (struct runlock){.fd = -1};
	for (;;) {
		l->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		if (l->fd < 0) {
			rc = err_errno(e, "%s", path);
			break;
		}
		rc = lock_soon(l->fd);
		if (rc) {
			rc = errno == EWOULDBLOCK ? lock_refused(l->fd, dir, e) : err_errno(e, "%s: flock", path);
			break;
		}
		if (lock_is_current(l->fd, path))
			break;
		close(l->fd);
	}
	if (rc) {
		if (l->fd >= 0)
			close(l->fd);
		l->fd = -1;
		mem_free(path);
		return -1;
	}
	l->path = path;
	list_add(l);
	lock_sign(l->fd);
	return 0;
}

int runlock_check(const struct runlock *l, struct err *e)
{
	if (lock_is_current(l->fd, l->path) && !flock(l->fd, LOCK_EX | LOCK_NB))
		return 0;
	return err_set(
	    e, ERR_UNAVAILABLE,
	    "%s: was removed or replaced while this process held it, so that another may have worked in the folder since: nothing there was "
	    "touched; run the same command again",
	    l->path);
}

int runlock_permits(const char *path, struct err *e)
{
	int rc = 0;

	pthread_mutex_lock(&list_lock);
	for (const struct held *h = all_held; h && !rc; h = h->next) {
		size_t n = strlen(h->lock.path) - strlen(".lock");

		if (!strncmp(path, h->lock.path, n))
			rc = runlock_check(&h->lock, e);
	}
	pthread_mutex_unlock(&list_lock);
	return rc;
}

void runlock_drop(struct runlock *l)
{
	if (!l->path)
		return;
	list_remove(l->fd);
	if (!runlock_check(l, NULL))
		unlink(l->path);
	close(l->fd);
	mem_free(l->path);
	*l = (struct runlock){.fd = -1};
}
