/* Keeps blocks of remote files in a folder. Writers hold a lock on the file "lock" in it, which says how many bytes the blocks take. */
#include "file/blockcache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"

/* A block: MAGIC, the hash of name and content, the content. */
#define MAGIC "DDMBLOCK"
enum { HEAD = 16 };

struct found {
	char *name;
	int64_t bytes;
	struct timespec used;
};

int blockcache_open(const struct blockcache *c, struct err *e)
{
	return dir_make(c->folder, e);
}

void blockcache_key(char key[BLOCKCACHE_KEY], const char *what)
{
	char hex[65];

	sha256_text(what, hex);
	memcpy(key, hex, BLOCKCACHE_KEY - 1);
	key[BLOCKCACHE_KEY - 1] = 0;
}

static char *block_name(const char *key, int64_t index)
{
	return str_new("%s-%08llx.block", key, (unsigned long long)index);
}

static uint64_t block_hash(const char *name, const void *p, size_t n)
{
	uint64_t both[2] = {hash64(name, strlen(name)), hash64(p, n)};

	return hash64(both, sizeof both);
}

int blockcache_get(const struct blockcache *c, const char *key, int64_t index, void *p, size_t n)
{
	char *name = block_name(key, index), *path = path_join(c->folder, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), found = 0;
	uint8_t head[HEAD];
	uint64_t hash;
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode)) {
		if (st.st_size == (off_t)(HEAD + n) && fd_pread(fd, head, HEAD, 0) == HEAD && fd_pread(fd, p, n, HEAD) == (ssize_t)n) {
			memcpy(&hash, head + 8, sizeof hash);
			found = !memcmp(head, MAGIC, 8) && hash == block_hash(name, p, n);
		}
		if (found)
			futimens(fd, NULL);
		else
			unlink(path);
	}
	if (fd >= 0)
		close(fd);
	mem_free(path);
	mem_free(name);
	return found;
}

int blockcache_has(const struct blockcache *c, const char *key, int64_t index)
{
	char *name = block_name(key, index);
	int there = path_holds(c->folder, name);

	mem_free(name);
	return there;
}

/* Ours are 32 hexadecimal digits, '-', the index, and ".block", or ".part" while they are written. */
static int is_ours(const char *name)
{
	const char *rest = name + 33;

	return strlen(name) > 33 && strspn(name, "0123456789abcdef") == 32 && name[32] == '-' &&
	       (!strcmp(rest + strspn(rest, "0123456789abcdef"), ".block") || !strcmp(rest + strspn(rest, "0123456789abcdef"), ".part"));
}

static int earlier(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

/* All blocks, and the bytes that they take. Called under the lock: a block that is being written is left by a process that died. */
static struct found *list(const struct blockcache *c, size_t *n, int64_t *bytes)
{
	DIR *d = opendir(c->folder);
	struct found *v = NULL;
	struct dirent *entry;
	size_t cap = 0;

	*n = 0;
	*bytes = 0;
	while (d && (entry = readdir(d))) {
		struct stat st;

		if (!is_ours(entry->d_name) || fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (str_ends(entry->d_name, ".part")) {
			unlinkat(dirfd(d), entry->d_name, 0);
			continue;
		}
		if (*n == cap) {
			cap = cap ? 2 * cap : 256;
			v = mem_resize(v, cap, sizeof *v);
		}
		v[(*n)++] = (struct found){mem_strdup(entry->d_name), st.st_size, st.st_mtim};
		*bytes += st.st_size;
	}
	if (d)
		closedir(d);
	return v;
}

/* Remove blocks until the others take at most `most` bytes: the bytes that they take. */
static int64_t shrink(const struct blockcache *c, int64_t most)
{
	int64_t bytes;
	size_t n;
	struct found *v = list(c, &n, &bytes);

	if (n)
		qsort(v, n, sizeof *v, earlier);
	for (size_t i = 0; i < n; i++) {
		char *path = bytes > most ? path_join(c->folder, v[i].name) : NULL;

		if (path && (!unlink(path) || errno == ENOENT))
			bytes -= v[i].bytes;
		mem_free(path);
		mem_free(v[i].name);
	}
	mem_free(v);
	return bytes;
}

static int write_block(const struct blockcache *c, const char *name, const void *p, size_t n)
{
	char *path = path_join(c->folder, name), *part = str_new("%.*spart", (int)(strlen(path) - 5), path);
	int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666), rc = -1;
	uint64_t hash = block_hash(name, p, n);
	uint8_t head[HEAD] = MAGIC;

	memcpy(head + 8, &hash, sizeof hash);
	if (fd >= 0) {
		rc = fd_write(fd, head, HEAD) || fd_write(fd, p, n);
		rc = close(fd) || rc || rename(part, path) ? -1 : 0;
		if (rc)
			unlink(part);
	}
	mem_free(part);
	mem_free(path);
	return rc;
}

/* The bytes of all blocks, as the lock file says, or counted where it says nothing. */
static int64_t read_total(const struct blockcache *c, int lock)
{
	char text[32] = "";
	int64_t bytes;

	if (fd_pread(lock, text, sizeof text - 1, 0) > 0 && !parse_i64(text, 0, INT64_MAX, &bytes))
		return bytes;
	return shrink(c, INT64_MAX);
}

static void write_total(int lock, int64_t bytes)
{
	char *text = str_new("%lld", (long long)bytes);

	/* Empty if it cannot be written: then the next writer counts. */
	if (ftruncate(lock, 0) || pwrite(lock, text, strlen(text), 0) != (ssize_t)strlen(text))
		bytes = ftruncate(lock, 0);
	mem_free(text);
}

void blockcache_put(const struct blockcache *c, const char *key, int64_t index, const void *p, size_t n)
{
	char *path = path_join(c->folder, "lock"), *name = block_name(key, index);
	int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	int64_t bytes, size = (int64_t)(HEAD + n), most = c->most > INT64_MAX ? INT64_MAX : (int64_t)c->most;

	if (lock >= 0 && !flock(lock, LOCK_EX) && size <= most) {
		bytes = read_total(c, lock);
		/* An eighth at once, because each time all blocks are listed. */
		if (bytes > most - size)
			bytes = shrink(c, most - most / 8 - size > 0 ? most - most / 8 - size : 0);
		if (!path_holds(c->folder, name) && !write_block(c, name, p, n)) /* another process may have fetched it meanwhile */
			bytes += size;
		write_total(lock, bytes);
	}
	if (lock >= 0)
		close(lock);
	mem_free(name);
	mem_free(path);
}
