/* A temporary folder for tests: setup and teardown functions of a cmocka group. */
#ifndef DDM_TESTS_SCRATCH_H
#define DDM_TESTS_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>

#include "file/fileio.h"

static char dir[3000];

static int make_dir(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	snprintf(dir, sizeof dir, "%s/ddm-test-XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	(void)state;
	return dir_remove(dir, NULL);
}

#endif
