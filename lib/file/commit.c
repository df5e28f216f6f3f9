/* The commit protocol: temporaries, fsync, rename, and the removal of temporaries that killed writers left. */
#include "file/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/claim.h"
#include "file/direct.h"
#include "file/fileio.h"
#include "file/filelock.h"
#include "file/pending.h"
#include "file/runlock.h"

/* Temporaries of a long name keep its first bytes only, so that they stay below NAME_MAX. */
enum { NAME_KEPT = 120, PART_LONGEST = 240 };

/* PIECE: bytes between two requests to the kernel to begin writing. DIRECT_PIECE: bytes that are copied for a direct write before they are hashed,
 * few enough to stay in the processor's cache meanwhile. */
enum { PIECE = 1 << 24, DIRECT_PIECE = 1 << 18 };

static atomic_uint serial;

/* Folder and basename of a path without trailing slashes; caller frees both. */
static void path_split(const char *path, char **dir, char **base)
{
	size_t n = strlen(path);
	const char *slash;
	char *p;

	while (n > 1 && path[n - 1] == '/')
		n--;
	p = str_new("%.*s", (int)n, path);
	slash = strrchr(p, '/');
	*base = mem_strdup(slash ? slash + 1 : p);
	*dir = !slash ? mem_strdup(".") : slash == p ? mem_strdup("/") : str_new("%.*s", (int)(slash - p), p);
	mem_free(p);
}

/* ".NAME.tmp.HOST." for files, "NAME.tmp-HOST." for folders. */
static char *tmp_prefix(const char *base, int folder)
{
	char host[65];

	lock_host(host);
	return folder ? str_new("%.*s.tmp-%s.", NAME_KEPT, base, host) : str_new(".%.*s.tmp.%s.", NAME_KEPT, base, host);
}

/* Whether "PID.N" names a process that no longer exists. */
static int owner_is_dead(const char *tail)
{
	char *end;
	long pid = strtol(tail, &end, 10);

	if (end == tail || pid <= 0 || *end != '.' || !end[1] || end[1 + strspn(end + 1, "0123456789")])
		return 0;
	return kill((pid_t)pid, 0) && errno == ESRCH;
}

/* The PID in the name is meaningless if the writer runs in another container with the same host name; its lock still counts. */
static int is_locked(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), held;

	if (fd < 0)
		return 0;
	held = flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
	close(fd);
	return held;
}

/* Where the part after the prefix starts, or NULL. Without a name any prefix of this host will do. */
static const char *tmp_tail(const char *entry, const char *file, const char *folder, const char *any_file, const char *any_folder)
{
	const char *p;

	if (file) {
		if (!strncmp(entry, file, strlen(file)))
			return entry + strlen(file);
		return !strncmp(entry, folder, strlen(folder)) ? entry + strlen(folder) : NULL;
	}
	if (entry[0] == '.' && (p = strstr(entry, any_file)))
		return p + strlen(any_file);
	return (p = strstr(entry, any_folder)) ? p + strlen(any_folder) : NULL;
}

void commit_sweep(const char *dir, const char *name)
{
	char *file = name ? tmp_prefix(name, 0) : NULL, *folder = name ? tmp_prefix(name, 1) : NULL;
	char host[65], *any_file, *any_folder, **names;
	size_t n;

	lock_host(host);
	any_file = str_new(".tmp.%s.", host);
	any_folder = str_new(".tmp-%s.", host);
	if (!dir_list(dir, &names, &n, NULL)) {
		for (size_t i = 0; i < n; i++) {
			const char *tail = tmp_tail(names[i], file, folder, any_file, any_folder);
			char *victim;

			if (!tail || !owner_is_dead(tail))
				continue;
			victim = path_join(dir, names[i]);
			if (!is_locked(victim))
				dir_remove(victim, NULL);
			mem_free(victim);
		}
		names_free(names, n);
	}
	claim_sweep(dir, name);
	mem_free(file);
	mem_free(folder);
	mem_free(any_file);
	mem_free(any_folder);
}

static int tmp_create(struct outfile *o, struct err *e)
{
	char *dir, *base, *prefix;
	int fd = -1;

	path_split(o->place, &dir, &base);
	prefix = tmp_prefix(base, 0);
	commit_sweep(dir, base);
	do {
		mem_free(o->tmp);
		o->tmp = str_new("%s/%s%ld.%u", dir, prefix, (long)getpid(), atomic_fetch_add(&serial, 1));
		fd = pending_file(o->tmp);
	} while (fd < 0 && errno == EEXIST);
	if (fd < 0) {
		err_errno(e, "%s: cannot create a temporary file beside it", o->path);
		mem_free(o->tmp);
		o->tmp = NULL;
	} else {
		flock(fd, LOCK_EX | LOCK_NB); /* may fail without lock support; the PID then decides */
	}
	mem_free(dir);
	mem_free(base);
	mem_free(prefix);
	return fd;
}

/* Without lock support nothing is kept, as two writers could write the same file. */
static int part_create(struct outfile *o, int *part, struct err *e)
{
	char *dir, *base, *state;
	int fd, rc = 0;

	path_split(o->place, &dir, &base);
	state = str_new(".%s.part.json", base);
	commit_sweep(dir, base);
	commit_sweep(dir, state);
	o->tmp = str_new("%s/.%s.part", dir, base);
	do {
		fd = open(o->tmp, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (fd < 0)
			rc = err_errno(e, "%s: cannot create a file beside it", o->path);
		else if (!lock_soon(fd))
			rc = lock_is_current(fd, o->tmp);
		else if (errno == EWOULDBLOCK)
			rc = err_set(e, ERR_EXISTS, "%s: is being written by another process", o->path);
		else
			*part = 0;
		if (fd >= 0 && rc <= 0)
			close(fd);
	} while (*part && !rc);
	if (rc <= 0) {
		if (!*part)
			unlink(o->tmp);
		mem_free(o->tmp);
		o->tmp = NULL;
	}
	mem_free(dir);
	mem_free(base);
	mem_free(state);
	return rc > 0 ? fd : *part ? -1 : tmp_create(o, e);
}

static int fits_part(const char *place)
{
	const char *slash = strrchr(place, '/');

	return strlen(slash ? slash + 1 : place) <= PART_LONGEST;
}

/* An overwritten file keeps its mode, as if it were written in place. */
static int place_open(struct outfile *o, int *part, struct err *e)
{
	struct stat st;
	int fd, there = !stat(o->path, &st);

	if (there && S_ISDIR(st.st_mode)) {
		err_set(e, ERR_EXISTS, "%s: is a folder", o->path);
		return -1;
	}
	if (there && !S_ISREG(st.st_mode)) {
		*part = 0;
		fd = open(o->path, O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			err_errno(e, "%s", o->path);
		return fd;
	}
	if (there) {
		char *real = realpath(o->path, NULL);

		o->place = real ? mem_strdup(real) : mem_strdup(o->path);
		free(real);
	} else {
		o->place = mem_strdup(o->path);
	}
	if (claim_open(&o->claim, o->place, o->path, e))
		return -1;
	*part = *part && fits_part(o->place);
	fd = *part ? part_create(o, part, e) : tmp_create(o, e);
	if (fd >= 0 && there && fchmod(fd, st.st_mode & 0777) && errno != EPERM) {
		err_errno(e, "%s: chmod", o->tmp);
		close(fd);
		return -1;
	}
	return fd;
}

static int open_as(struct outfile *o, const char *path, int *part, struct err *e)
{
	int fd;

	*o = (struct outfile){.path = mem_strdup(path)};
	if (!strcmp(path, "-")) {
		o->file = stdout;
		*part = 0;
		return 0;
	}
	if (!*path || str_ends(path, "/")) {
		outfile_abort(o);
		return err_set(e, ERR_USAGE, "'%s': not the name of a file", path);
	}
	fd = place_open(o, part, e);
	if (fd >= 0 && !(o->file = fdopen(fd, *part ? "r+b" : "wb"))) {
		err_errno(e, "%s", path);
		close(fd);
	}
	if (!o->file) {
		outfile_abort(o);
		return -1;
	}
	return 0;
}

int outfile_open(struct outfile *o, const char *path, struct err *e)
{
	return open_as(o, path, &(int){0}, e);
}

int outfile_open_part(struct outfile *o, const char *path, int *kept, struct err *e)
{
	*kept = 1;
	return open_as(o, path, kept, e);
}

/* Have the kernel begin to write what the file's pages hold, without waiting for it. */
static void begin_writing(int fd)
{
	sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

void outfile_expect(struct outfile *o, uint64_t n)
{
	if (o->place && n >= DIRECT_LEAST)
		o->direct = direct_begin(fileno(o->file));
}

static int write_error(const struct outfile *o, struct err *e)
{
	return err_errno(e, "%s: write", o->file == stdout ? "standard output" : o->path);
}

/* The disk writes one piece while the next is copied. */
int outfile_write(struct outfile *o, const void *p, size_t n, struct err *e)
{
	size_t most = o->direct ? DIRECT_PIECE : PIECE;

	for (const char *from = p, *end = from + n; from < end;) {
		size_t piece = (size_t)(end - from) < most ? (size_t)(end - from) : most;

		if (o->direct ? direct_write(o->direct, from, piece) : fwrite(from, 1, piece, o->file) != piece)
			return write_error(o, e);
		o->unsent += piece;
		if (o->place && !o->direct && o->unsent >= PIECE) {
			begin_writing(fileno(o->file));
			o->unsent = 0;
		}
		if (o->sum)
			sha256_add(o->sum, from, piece);
		from += piece;
	}
	return 0;
}

/* Whether the file under the final name already has the same bytes. */
static int is_unchanged(const struct outfile *o)
{
	struct filemap mine, old;
	struct stat st;
	int same = 0;

	if (stat(o->place, &st) || !S_ISREG(st.st_mode) || filemap_open(&mine, o->tmp, NULL))
		return 0;
	if ((size_t)st.st_size == mine.len && !filemap_open(&old, o->place, NULL)) {
		same = old.len == mine.len && !memcmp(old.data, mine.data, mine.len);
		filemap_close(&old);
	}
	filemap_close(&mine);
	return same;
}

static int publish(struct outfile *o, struct err *e)
{
	char *dir, *base;
	/* A file in an outdir that is not committed yet is fsynced with it. */
	int bad = ferror(o->file), held, inside = o->place && pending_holds(o->place), rc = 0;
	struct direct *direct = o->direct;
	struct stat st;

	o->direct = NULL;
	if (direct && direct_end(direct))
		return write_error(o, e);
	errno = EIO;
	if (bad || fflush(o->file))
		return write_error(o, e);
	if (!o->place || (!o->anew && is_unchanged(o)))
		return 0;
	if (o->keep && !stat(o->place, &st) && st.st_size)
		return err_set(e, ERR_EXISTS, "%s: exists with other contents: it was made from other inputs, or is damaged", o->path);
	if (inside)
		begin_writing(fileno(o->file));
	else if (fsync(fileno(o->file)))
		return err_errno(e, "%s: fsync", o->path);
	held = fcntl(fileno(o->file), F_DUPFD_CLOEXEC, 3); /* keeps the lock until the rename */
	bad = fclose(o->file);
	o->file = NULL;
	if (bad)
		rc = err_errno(e, "%s: close", o->path);
	else if (runlock_permits(o->path, e))
		rc = -1;
	else if (pending_rename(o->tmp, o->place))
		rc = err_errno(e, "%s: rename", o->path);
	if (held >= 0)
		close(held);
	if (rc)
		return -1;
	claim_done(o->claim);
	o->claim = NULL;
	mem_free(o->tmp);
	o->tmp = NULL;
	if (inside)
		return 0;
	path_split(o->place, &dir, &base);
	rc = dir_sync(dir, e);
	mem_free(dir);
	mem_free(base);
	return rc;
}

int outfile_commit(struct outfile *o, struct err *e)
{
	int rc = publish(o, e);

	if (!o->place && o->file && o->file != stdout) {
		if (fclose(o->file) && !rc)
			rc = err_errno(e, "%s: close", o->path);
		o->file = NULL;
	}
	outfile_abort(o);
	return rc;
}

void outfile_abort(struct outfile *o)
{
	if (o->tmp)
		pending_discard(o->tmp);
	outfile_leave(o);
}

void outfile_leave(struct outfile *o)
{
	direct_abort(o->direct);
	if (o->file && o->file != stdout)
		fclose(o->file);
	claim_close(o->claim);
	mem_free(o->path);
	mem_free(o->place);
	mem_free(o->tmp);
	*o = (struct outfile){0};
}

int commit_bytes(const char *path, const void *data, size_t len, struct err *e)
{
	struct outfile o;

	if (outfile_open(&o, path, e))
		return -1;
	if (outfile_write(&o, data, len, e)) {
		outfile_abort(&o);
		return -1;
	}
	return outfile_commit(&o, e);
}

int commit_head(const char *path, int64_t n, struct err *e)
{
	struct outfile o = {0};
	char block[65536];
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = fd < 0 ? err_errno(e, "%s", path) : outfile_open(&o, path, e);

	o.anew = 1;
	for (int64_t at = 0; at < n && !rc;) {
		ssize_t got = fd_pread(fd, block, n - at < (int64_t)sizeof block ? (size_t)(n - at) : sizeof block, at);

		rc = got <= 0 ? err_set(e, ERR_IO, "%s: cannot be read", path) : outfile_write(&o, block, (size_t)got, e);
		at += got;
	}
	rc = rc || outfile_commit(&o, e) ? -1 : 0;
	outfile_abort(&o);
	if (fd >= 0)
		close(fd);
	return rc;
}

int commit_json(const char *path, const json_t *o, struct err *e)
{
	char *text = jsonio_pretty(o);
	int rc = commit_bytes(path, text, strlen(text), e);

	mem_free(text);
	return rc;
}

static int folder_is_taken(const char *path)
{
	char **names;
	struct stat st;
	size_t n;

	if (lstat(path, &st))
		return 0;
	if (dir_list(path, &names, &n, NULL))
		return 1;
	names_free(names, n);
	return n > 0;
}

int outdir_begin(struct outdir *d, const char *path, struct err *e)
{
	char *dir, *base, *prefix;
	int rc;

	*d = (struct outdir){0};
	if (folder_is_taken(path))
		return err_set(e, ERR_EXISTS, "%s: exists", path);
	path_split(path, &dir, &base);
	d->path = path_join(dir, base);
	prefix = tmp_prefix(base, 1);
	rc = dir_make(dir, e);
	if (!rc) {
		commit_sweep(dir, base);
		do {
			mem_free(d->tmp);
			d->tmp = str_new("%s/%s%ld.%u", dir, prefix, (long)getpid(), atomic_fetch_add(&serial, 1));
			rc = pending_folder(d->tmp);
		} while (rc && errno == EEXIST);
		if (rc) {
			err_errno(e, "%s: cannot create a temporary folder beside it", path);
			mem_free(d->tmp);
			d->tmp = NULL;
		} else {
			d->lock = 1 + open(d->tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (d->lock)
				flock(d->lock - 1, LOCK_EX | LOCK_NB);
		}
	}
	mem_free(dir);
	mem_free(base);
	mem_free(prefix);
	if (rc)
		outdir_abort(d);
	return rc;
}

/* Files are fsynced through a fresh descriptor, which on Linux flushes what any earlier one wrote. */
static int tree_sync(const char *path, struct err *e)
{
	char **names, *sub;
	struct stat st;
	size_t n;
	int fd, rc = 0;

	if (lstat(path, &st))
		return err_errno(e, "%s: stat", path);
	if (S_ISREG(st.st_mode)) {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return err_errno(e, "%s", path);
		if (fsync(fd))
			rc = err_errno(e, "%s: fsync", path);
		close(fd);
		return rc;
	}
	if (!S_ISDIR(st.st_mode))
		return 0;
	if (dir_list(path, &names, &n, e))
		return -1;
	for (size_t i = 0; i < n && !rc; i++) {
		sub = path_join(path, names[i]);
		rc = tree_sync(sub, e);
		mem_free(sub);
	}
	names_free(names, n);
	return rc ? rc : dir_sync(path, e);
}

static int tree_publish(struct outdir *d, struct err *e)
{
	char *dir, *base;
	int rc;

	if (tree_sync(d->tmp, e) || runlock_permits(d->path, e))
		return -1;
	/* rename(2) replaces an empty folder and refuses any other. */
	if (pending_rename(d->tmp, d->path)) {
		if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)
			return err_set(e, ERR_EXISTS, "%s: exists", d->path);
		return err_errno(e, "%s: rename", d->path);
	}
	mem_free(d->tmp);
	d->tmp = NULL;
	path_split(d->path, &dir, &base);
	rc = dir_sync(dir, e);
	mem_free(dir);
	mem_free(base);
	return rc;
}

int outdir_commit(struct outdir *d, struct err *e)
{
	int rc = tree_publish(d, e);

	outdir_abort(d);
	return rc;
}

int outdir_remove(const char *path, struct err *e)
{
	char *dir, *base, *prefix, *tmp;
	int rc = runlock_permits(path, e);

	path_split(path, &dir, &base);
	prefix = tmp_prefix(base, 1);
	tmp = str_new("%s/%s%ld.%u", dir, prefix, (long)getpid(), atomic_fetch_add(&serial, 1));
	if (!rc) /* a full disk may refuse the new name */
		rc = dir_remove(rename(path, tmp) ? path : tmp, e);
	mem_free(dir);
	mem_free(base);
	mem_free(prefix);
	mem_free(tmp);
	return rc;
}

void outdir_abort(struct outdir *d)
{
	if (d->lock) /* first: removing a folder takes a descriptor, which may be the last */
		close(d->lock - 1);
	if (d->tmp)
		pending_discard(d->tmp);
	mem_free(d->path);
	mem_free(d->tmp);
	*d = (struct outdir){0};
}
