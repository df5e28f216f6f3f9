/* A temporary folder with the data set of tests/unit/stripes.h: setup and teardown functions of a cmocka group. */
#ifndef DDM_TESTS_STRIPESDIR_H
#define DDM_TESTS_STRIPESDIR_H

#include "tests/unit/scratch.h"
#include "tests/unit/stripes.h"

static char *shards; /* its path */

static int make_shards_dir(void **state)
{
	if (make_dir(state))
		return -1;
	shards = make_shards(dir, "shards", 0, 0);
	return 0;
}

static int remove_shards_dir(void **state)
{
	mem_free(shards);
	return remove_dir(state);
}

#endif
