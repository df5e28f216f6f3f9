/* Finds files by the place of the running program. */
#include "cmd/beside.h"

#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"

char *beside_program(const char *name, int mode)
{
	static const char *const below[] = {"", "../libexec/ddm/"};
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	self[n < 0 ? 0 : n] = 0;
	if (!strrchr(self, '/'))
		return NULL;
	strrchr(self, '/')[1] = 0;
	for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
		char *path = str_new("%s%s%s", self, below[i], name);

		if (!access(path, mode))
			return path;
		mem_free(path);
	}
	return NULL;
}
