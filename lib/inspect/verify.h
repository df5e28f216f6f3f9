/* Verifies files and folders: reads everything and reports every problem. */
#ifndef DDM_INSPECT_VERIFY_H
#define DDM_INSPECT_VERIFY_H

#include "core/clock.h"
#include "core/err.h"

struct verify_options {
	int complete; /* what is absent or not finished is a problem too: experts, weights, files in the making */
	/* For each problem, in the order they are met; e->msg names the file. */
	void (*problem)(void *arg, const struct err *e);
	/* For each thing that is sound: a file, a network, a checkpoint. May be NULL. */
	void (*sound)(void *arg, const char *path);
	void *arg;
	const struct progress *progress; /* told of the shards of a folder. May be NULL */
};

/* A file or folder as describe_path (inspect/describe.h) reads it with `check`; of a folder every shard, network, checkpoint and
 * file alone, so that one problem does not hide the next. In other folders files of no known content are passed over, unless their
 * names say otherwise, and links to folders are not followed. The number of problems. */
int verify_path(const char *path, const struct verify_options *o);

#endif
