/* Reads the file that is a member of a sample in a folder. */
#include "data/memberfile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/fileio.h"

int member_file(struct str *bytes, const char *path, size_t most, size_t *len, struct err *e)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = -1;
	char buf[65536];
	ssize_t n = 0;

	*len = 0;
	if (fd < 0)
		return err_errno(e, "%s", path);
	if (fstat(fd, &st))
		err_errno(e, "%s", path);
	else if (!S_ISREG(st.st_mode))
		err_set(e, ERR_DATA, "%s: not a regular file", path);
	else {
		while (*len <= most && (n = fd_read(fd, buf, sizeof buf)) > 0) {
			str_add(bytes, buf, (size_t)n);
			*len += (size_t)n;
		}
		if (n < 0)
			err_errno(e, "%s: read", path);
		else if (*len > most)
			err_set(e, ERR_DATA, "%s: larger than %zu bytes", path, most);
		else
			rc = 0;
	}
	close(fd);
	return rc;
}
