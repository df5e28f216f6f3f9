/* Reads files, URLs and the output of commands through one interface. */
#include "file/bytesource.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/openread.h"
#include "file/command.h"
#include "file/fileio.h"
#include "file/httpfile.h"
#include "file/remoteinput.h"

enum { CHUNK = 1 << 18 };

/* One of fd, http and command is used. */
struct bytesource {
	char *name;
	int fd, close_fd;
	struct httpfile *http;
	struct command *command;
	struct XXH3_state_s *hash; /* of the command's output */
	int64_t size, at;
};

struct bytesource *bytesource_of_fd(int fd, const char *name)
{
	struct bytesource *s = mem_zalloc(1, sizeof *s);
	struct stat st;

	s->name = remote_shown(name);
	s->fd = fd;
	s->size = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) ? st.st_size : -1;
	return s;
}

static struct bytesource *opened(struct bytesource *s, int good)
{
	if (good)
		return s;
	bytesource_close(s);
	return NULL;
}

static struct bytesource *open_url(const char *path, struct err *e)
{
	struct bytesource *s = bytesource_of_fd(-1, path);

	s->http = httpfile_open(path, e);
	if (s->http)
		s->size = httpfile_size(s->http);
	return opened(s, s->http != NULL);
}

static struct bytesource *of_own_fd(int fd, const char *path)
{
	struct bytesource *s = fd < 0 ? NULL : bytesource_of_fd(fd, path);

	if (s)
		s->close_fd = 1;
	return s;
}

struct bytesource *bytesource_open(const char *path, struct err *e)
{
	struct bytesource *s;

	if (remote_is_url(path))
		return open_url(path, e);
	if (!remote_is_command(path))
		return of_own_fd(open_read(path, e), path);
	s = bytesource_of_fd(-1, path);
	s->command = command_open(path, e);
	s->hash = hash64_state();
	return opened(s, s->command != NULL);
}

struct bytesource *bytesource_open_seekable(const char *path, struct err *e)
{
	struct bytesource *s;

	if (remote_is_command(path)) {
		err_set(e, ERR_NOINPUT, "%s: the output of a command can only be read in order; a file or a URL is needed here", path);
		return NULL;
	}
	s = remote_is_url(path) ? open_url(path, e) : of_own_fd(open_seekable(path, e), path);
	if (!s || bytesource_is_seekable(s))
		return s;
	if (s->http)
		err_set(e, ERR_DATA, "%s: the server does not send ranges of a file, and this one is not read in order", s->name);
	else
		err_set(e, ERR_DATA, "%s: not a regular file", s->name);
	return opened(s, 0);
}

void bytesource_close(struct bytesource *s)
{
	if (!s)
		return;
	if (s->close_fd)
		close(s->fd);
	httpfile_close(s->http);
	command_close(s->command);
	XXH3_freeState(s->hash);
	mem_free(s->name);
	mem_free(s);
}

const char *bytesource_name(const struct bytesource *s)
{
	return s->name;
}

int64_t bytesource_size(const struct bytesource *s)
{
	return s->size;
}

int bytesource_is_seekable(const struct bytesource *s)
{
	return s->size >= 0 && (!s->http || httpfile_has_ranges(s->http));
}

int64_t bytesource_at(const struct bytesource *s)
{
	return s->at;
}

int bytesource_read(struct bytesource *s, void *p, size_t n, size_t *got, struct err *e)
{
	int rc = 0;

	*got = 0;
	if (s->http) {
		rc = httpfile_read(s->http, p, n, s->at, got, e);
	} else if (s->command) {
		rc = command_read(s->command, p, n, got, e);
		XXH3_64bits_update(s->hash, p, *got);
	} else {
		ssize_t k = fd_read(s->fd, p, n);

		if (k < 0)
			return err_errno(e, "%s: read", s->name);
		*got = (size_t)k;
	}
	s->at += (int64_t)*got;
	return rc;
}

uint64_t bytesource_hash(const struct bytesource *s)
{
	return s->hash ? XXH3_64bits_digest(s->hash) : 0;
}

int bytesource_finish(struct bytesource *s, struct err *e)
{
	uint8_t *p = s->command ? mem_alloc(CHUNK) : NULL;
	size_t got = CHUNK;
	int rc = 0;

	while (p && !rc && got == CHUNK)
		rc = bytesource_read(s, p, CHUNK, &got, e);
	mem_free(p);
	return rc;
}

int bytesource_read_at(struct bytesource *s, void *p, size_t n, uint64_t offset, size_t *got, struct err *e)
{
	ssize_t k;

	if (s->http)
		return httpfile_read(s->http, p, n, (int64_t)offset, got, e);
	k = fd_pread(s->fd, p, n, (off_t)offset);
	*got = k < 0 ? 0 : (size_t)k;
	return k < 0 ? err_errno(e, "%s: read at byte %llu", s->name, (unsigned long long)offset) : 0;
}

int bytesource_map(const struct bytesource *s, struct filemap *m, uint64_t offset, size_t n)
{
	return s->fd >= 0 && s->size >= 0 && !filemap_part(m, s->fd, offset, n, s->name, NULL);
}

void bytesource_trim(struct bytesource *s)
{
	if (s->http)
		httpfile_trim(s->http);
}

int bytesource_exists(const char *path, struct err *e)
{
	struct err why = {0};
	struct bytesource *s;

	if (!remote_is_url(path))
		return path_exists(path);
	s = open_url(path, &why);
	bytesource_close(s);
	if (s)
		return 1;
	return why.code == ERR_NOINPUT ? 0 : err_set(e, why.code, "%s", why.msg);
}

void *bytesource_load(const char *path, size_t limit, size_t *len, struct err *e)
{
	size_t cap = CHUNK, have = 0, got = 0;
	struct bytesource *s;
	char *p = NULL;
	int rc = 0;

	if (!remote_is_url(path))
		return file_load(path, limit, len, e);
	s = bytesource_open(path, e);
	if (!s)
		return NULL;
	do {
		have += got;
		if (have > limit)
			rc = err_set(e, ERR_DATA, "%s: larger than %zu bytes", s->name, limit);
		while (cap - have < CHUNK)
			cap *= 2;
		p = mem_resize(p, cap + 1, 1);
	} while (!rc && !(rc = bytesource_read(s, p + have, CHUNK, &got, e)) && got == CHUNK);
	have += got;
	p[have] = 0;
	*len = have;
	bytesource_close(s);
	if (!rc)
		return p;
	mem_free(p);
	return NULL;
}

int bytesource_sha256(const char *path, char hex[65], uint64_t *bytes, struct err *e)
{
	struct bytesource *s;
	struct sha256 h;
	uint8_t *p;
	size_t got;
	int rc;

	if (!remote_is_url(path))
		return sha256_file(path, hex, bytes, e);
	s = bytesource_open(path, e);
	if (!s)
		return -1;
	p = mem_alloc(CHUNK);
	sha256_init(&h);
	do {
		rc = bytesource_read(s, p, CHUNK, &got, e);
		if (!rc)
			sha256_add(&h, p, got);
	} while (!rc && got == CHUNK);
	sha256_end(&h, hex);
	if (bytes)
		*bytes = (uint64_t)s->at;
	mem_free(p);
	bytesource_close(s);
	return rc;
}
