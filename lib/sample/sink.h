/* The container of samples: a tar, an array, one file, a folder, or none. It appears complete or not at all; a tar can be resumed. */
#ifndef DDM_SAMPLE_SINK_H
#define DDM_SAMPLE_SINK_H

#include <stdint.h>

#include "file/commit.h"
#include "file/npy.h"
#include "file/partial.h"
#include "file/tarfile.h"

enum sink_kind { SINK_TAR, SINK_NPZ, SINK_FILE, SINK_FOLDER, SINK_NOTHING };

struct sink {
	enum sink_kind kind;
	const char *path;    /* borrowed; NULL for SINK_NOTHING */
	struct partial part; /* for a tar, an array or a file */
	struct tar_writer tar;
	struct npz_stream npz;
	struct outdir dir;
	struct str sums; /* SHA256SUMS of the folder */
};

/* Open a container. stamp: a line of JSON for a tar. same: the key of everything that a tar's bytes depend on, so that an equal request can resume;
 * NULL: not resumable. shape: (n, height, width, channels) of an array. Returns 1 if a tar is resumed at s->part.mark, 0 for a new output, -1 on
 * error. */
int sink_open(struct sink *s, enum sink_kind kind, const char *path, const char *stamp, const char *same, const int64_t shape[4], struct err *e);
/* Add NAME.ENDING to a tar or a folder. With SINK_FILE the `main` one becomes the file itself, json is written beside it as PATH.json, and others are
 * left out. */
int sink_add(struct sink *s, const char *name, const char *ending, int main, const void *data, size_t len, struct err *e);
int sink_rows(struct sink *s, const void *data, size_t bytes, struct err *e); /* add rows to an array */
int sink_finish(struct sink *s, struct err *e);
/* Free everything. Before sink_finish succeeded, the saved part stays with `keep`, and otherwise all is removed. */
void sink_close(struct sink *s, int keep);

#endif
