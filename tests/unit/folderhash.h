/* Hashes of files in folders, for tests that compare results. */
#ifndef DDM_TESTS_UNIT_FOLDERHASH_H
#define DDM_TESTS_UNIT_FOLDERHASH_H

#include "core/hash.h"
#include "core/mem.h"
#include "file/fileio.h"

static inline void file_hash(const char *folder, const char *name, char hex[65])
{
	char *path = path_join(folder, name);

	if (sha256_file(path, hex, NULL, NULL))
		fail_msg("%s is not there", path);
	mem_free(path);
}

static inline void same_file(const char *a, const char *b, const char *name)
{
	char x[65], y[65];

	file_hash(a, name, x);
	file_hash(b, name, y);
	assert_string_equal(x, y);
}

#endif
