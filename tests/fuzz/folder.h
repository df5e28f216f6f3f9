/* A temporary folder for fuzz targets whose readers take paths. It is removed at exit. */
#ifndef DDM_TESTS_FUZZ_FOLDER_H
#define DDM_TESTS_FUZZ_FOLDER_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"

static char *folder_name;

static void folder_remove(void)
{
	dir_remove(folder_name, NULL);
	mem_free(folder_name);
}

/* name NULL: the path of the folder, borrowed. Otherwise the path of this name in the folder, which the caller frees. */
static char *folder_path(const char *name)
{
	if (!folder_name) {
		const char *tmp = getenv("TMPDIR"), *memory = access("/dev/shm", W_OK) ? NULL : "/dev/shm";

		folder_name = str_new("%s/ddm-fuzz.XXXXXX", memory ? memory : tmp ? tmp : "/tmp");
		if (!mkdtemp(folder_name))
			abort();
		atexit(folder_remove);
	}
	return name ? path_join(folder_name, name) : folder_name;
}

/* Write a file in the folder; data NULL: remove it. The name may begin with one subfolder, which is made. */
static void folder_put(const char *name, const void *data, size_t len)
{
	char *path = folder_path(name), *slash = strrchr(path, '/');
	int fd;

	if (!data) {
		unlink(path);
		mem_free(path);
		return;
	}
	*slash = 0;
	mkdir(path, 0777);
	*slash = '/';
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (fd < 0 || fd_write(fd, data, len))
		abort();
	close(fd);
	mem_free(path);
}

#endif
