/* Shares files between folders by hard links. The programs replace files by rename, so the other name keeps the old bytes. */
#include "file/share.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"

enum { PIECE = 1 << 20 };

static int copy_bytes(int in, int out, const char *from, const char *to, struct err *e)
{
	char *buffer = mem_alloc(PIECE);
	ssize_t n = 1;
	int rc = 0;

	while (!rc && n > 0) {
		n = fd_read(in, buffer, PIECE);
		if (n < 0)
			rc = err_errno(e, "%s: read", from);
		else if (n && fd_write(out, buffer, (size_t)n))
			rc = err_errno(e, "%s: write", to);
	}
	mem_free(buffer);
	return rc;
}

static int file_copy(const char *from, const char *to, struct err *e)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out = -1, rc;

	if (in < 0)
		return err_errno(e, "%s", from);
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	rc = out < 0 ? err_errno(e, "%s", to) : copy_bytes(in, out, from, to, e);
	if (out >= 0 && close(out) && !rc)
		rc = err_errno(e, "%s: close", to);
	close(in);
	return rc;
}

int file_share(const char *from, const char *to, struct err *e)
{
	return linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) ? file_copy(from, to, e) : 0;
}

static int entry_share(const char *from, const char *to, struct err *e)
{
	struct stat st;

	if (stat(from, &st))
		return err_errno(e, "%s", from);
	if (S_ISDIR(st.st_mode))
		return folder_share(from, to, e);
	return str_ends(from, ".jsonl") ? file_copy(from, to, e) : file_share(from, to, e);
}

int folder_share(const char *from, const char *to, struct err *e)
{
	char **names;
	size_t n;
	int rc = 0;

	if (dir_make(to, e) || dir_list(from, &names, &n, e))
		return -1;
	for (size_t i = 0; i < n && !rc; i++) {
		char *a = path_join(from, names[i]), *b = path_join(to, names[i]);

		if (names[i][0] != '.')
			rc = entry_share(a, b, e);
		mem_free(a);
		mem_free(b);
	}
	names_free(names, n);
	return rc;
}
