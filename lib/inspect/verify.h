/* Verifies files and folders for ddm-check: reads everything and reports every problem. */
#ifndef DDM_INSPECT_VERIFY_H
#define DDM_INSPECT_VERIFY_H

#include "core/clock.h"
#include "core/err.h"

struct verify_options {
	int complete; /* missing experts, routers and weights, and unfinished files, are problems too */
	/* Called for each problem, in the order of discovery; e->msg names the file. */
	void (*problem)(void *arg, const struct err *e);
	/* Called for each sound file, network or checkpoint. May be NULL. */
	void (*sound)(void *arg, const char *path);
	void *arg;
	const struct progress *progress; /* progress over the shards of a folder. May be NULL */
};

/* Verify a file, a folder, or a file or SHARDS folder at a URL, as describe_path (inspect/describe.h) does with `check`. In a folder, every shard,
 * network, checkpoint and file is verified separately, so that one problem does not hide the next. In folders of other kinds, files of unknown
 * content are ignored unless their names suggest a known format, and links to folders are not followed. Returns the number of problems. */
int verify_path(const char *path, const struct verify_options *o);

#endif
