/* Keeps other writers away from an output while it is written. */
#include "file/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/filelock.h"
#include "file/fileio.h"
#include "file/pending.h"

enum { NAME_LONGEST = 240, NAME_KEPT = 120 };

struct claim {
	struct claim *next;
	char *path; /* of the lock */
	int fd;
	pid_t pid;      /* the claiming process; a forked child does not own the claim */
	int held, open; /* by claim_take, by claim_open */
};

static struct claim *list;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* The path of an output's lock: beside the file itself, links followed. NULL if its folder does not exist. */
static char *claim_path(const char *place)
{
	char *real = realpath(place, NULL), *dir = mem_strdup(real ? real : place), *slash = strrchr(dir, '/'), *path = NULL;
	const char *base;

	free(real);
	base = slash ? slash + 1 : dir;
	real = !slash ? realpath(".", NULL) : NULL;
	if (slash) {
		*slash = 0;
		real = realpath(*dir ? dir : "/", NULL);
	}
	if (real && strlen(base) <= NAME_LONGEST)
		path = str_new("%s/.%s.tmp.claim", real, base);
	else if (real)
		path = str_new("%s/.%.*s.%016llx.tmp.claim", real, NAME_KEPT, base, (unsigned long long)XXH3_64bits(base, strlen(base)));
	free(real);
	mem_free(dir);
	return path;
}

/* A file of another user can be locked even if it cannot be written. */
static int lock_open(const char *path)
{
	const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd = open(path, O_RDWR | O_CREAT | flags, 0666);

	return fd < 0 && errno == EACCES ? open(path, O_RDONLY | flags) : fd;
}

/* 1: locked, in *fd; 0: locks are not supported; -1: another process still holds it after two seconds. */
static int lock_get(int *fd, const char *path, const char *name, struct err *e)
{
	for (;;) {
		*fd = lock_open(path);
		if (*fd < 0)
			return 0;
		if (lock_soon(*fd)) {
			char who[128];
			int busy = errno == EWOULDBLOCK;

			lock_signed(*fd, who, sizeof who);
			close(*fd);
			if (busy)
				return err_set(e, ERR_EXISTS, "%s: is being written by another process (host and pid: %s)", name,
				               *who ? who : "not known");
			return 0;
		}
		if (lock_is_current(*fd, path))
			return 1;
		close(*fd);
	}
}

static struct claim *find(const char *path)
{
	struct claim *c = list;

	while (c && (c->pid != getpid() || strcmp(c->path, path)))
		c = c->next;
	return c;
}

static void claim_remove(struct claim *c)
{
	pthread_mutex_lock(&mutex);
	for (struct claim **p = &list; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			break;
		}
	pthread_mutex_unlock(&mutex);
	if (c->fd >= 0) {
		pending_discard(c->path); /* before the lock is dropped: see lock_is_current */
		close(c->fd);
	}
	mem_free(c->path);
	mem_free(c);
}

/* The claim is listed before it is locked, so that another thread that wants the same name does not wait as for another process. */
static int claim_new(struct claim **out, char *path, const char *name, int held, struct err *e)
{
	struct claim *c = mem_zalloc(1, sizeof *c);
	struct pending *listed = pending_reserve(path);
	int rc;

	*c = (struct claim){.path = path, .fd = -1, .pid = getpid(), .held = held, .open = !held, .next = list};
	list = c;
	pthread_mutex_unlock(&mutex);
	rc = lock_get(&c->fd, path, name, e);
	if (rc > 0) {
		pending_note(listed);
		lock_sign(c->fd);
	} else {
		pending_forget(listed);
		c->fd = -1;
		claim_remove(c);
		c = NULL;
	}
	*out = c;
	return rc < 0 ? -1 : 0;
}

int claim_open(struct claim **c, const char *place, const char *name, struct err *e)
{
	char *path = claim_path(place);
	struct claim *mine;
	int busy;

	*c = NULL;
	if (!path)
		return 0;
	pthread_mutex_lock(&mutex);
	mine = find(path);
	if (!mine)
		return claim_new(c, path, name, 0, e);
	busy = mine->open;
	mine->open = 1;
	pthread_mutex_unlock(&mutex);
	mem_free(path);
	if (busy)
		return err_set(e, ERR_EXISTS, "%s: is also another output of this command", name);
	*c = mine;
	return 0;
}

void claim_close(struct claim *c)
{
	if (!c)
		return;
	c->open = 0;
	if (!c->held)
		claim_remove(c);
}

void claim_done(struct claim *c)
{
	if (c)
		claim_remove(c);
}

struct wish {
	char *path;
	const char *name;
};

static int wish_cmp(const void *a, const void *b)
{
	return strcmp(((const struct wish *)a)->path, ((const struct wish *)b)->path);
}

static int is_claimable(const char *path)
{
	struct stat st;

	return path && *path && strcmp(path, "-") && !str_ends(path, "/") && (stat(path, &st) || S_ISREG(st.st_mode));
}

/* Claims are taken in the order of names, so that only one of two commands with the same outputs is refused. */
int claim_take(const char *const *path, size_t n, struct err *e)
{
	struct wish *w = mem_zalloc(n ? n : 1, sizeof *w);
	size_t m = 0;
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		w[m].name = path[i];
		if (is_claimable(path[i]) && (w[m].path = claim_path(path[i])))
			m++;
	}
	if (m)
		qsort(w, m, sizeof *w, wish_cmp);
	for (size_t i = 1; i < m && !rc; i++)
		if (!strcmp(w[i].path, w[i - 1].path))
			rc = err_set(e, ERR_USAGE, "%s and %s: two outputs of one command are the same file", w[i - 1].name, w[i].name);
	for (size_t i = 0; i < m && !rc; i++) {
		struct claim *c;

		pthread_mutex_lock(&mutex);
		if ((c = find(w[i].path))) {
			c->held = 1;
			pthread_mutex_unlock(&mutex);
			continue;
		}
		rc = claim_new(&c, mem_strdup(w[i].path), w[i].name, 1, e);
	}
	for (size_t i = 0; i < m; i++)
		mem_free(w[i].path);
	mem_free(w);
	if (rc)
		claim_drop_all();
	return rc;
}

void claim_drop(const char *const *path, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char *place = is_claimable(path[i]) ? claim_path(path[i]) : NULL;
		struct claim *c = place ? find(place) : NULL;

		mem_free(place);
		if (!c || !c->held)
			continue;
		c->held = 0;
		if (!c->open)
			claim_remove(c);
	}
}

void claim_drop_all(void)
{
	struct claim *c, *next;

	for (c = list; c; c = next) {
		next = c->next;
		if (c->pid != getpid() || !c->held)
			continue;
		c->held = 0;
		if (!c->open)
			claim_remove(c);
	}
}

static void remove_dead(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return;
	if (!flock(fd, LOCK_EX | LOCK_NB) && lock_is_current(fd, path))
		unlink(path);
	close(fd);
}

void claim_sweep(const char *dir, const char *name)
{
	char *place = name ? path_join(dir, name) : NULL, *one = name ? claim_path(place) : NULL, **names;
	size_t n;

	if (one)
		remove_dead(one);
	mem_free(one);
	mem_free(place);
	if (name || dir_list(dir, &names, &n, NULL))
		return;
	for (size_t i = 0; i < n; i++) {
		char *path = path_join(dir, names[i]);

		if (names[i][0] == '.' && str_ends(names[i], ".tmp.claim"))
			remove_dead(path);
		mem_free(path);
	}
	names_free(names, n);
}
