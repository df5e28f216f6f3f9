/* Where samples go: a tar, an array, one file, a folder, or nowhere. Each appears whole or not at all; a tar can be gone on with. */
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
	struct partial part; /* of a tar, an array, a file */
	struct tar_writer tar;
	struct npz_stream npz;
	struct outdir dir;
	struct str sums; /* SHA256SUMS of the folder */
};

/* `stamp`: a line, for a tar. `same` names all that the bytes depend on, for a tar that the same command may go on with; NULL: nothing is kept.
 * `shape` (n, height, width, channels) of an array. 1: s->part.mark says where to go on; 0 at a start; -1. */
int sink_open(struct sink *s, enum sink_kind kind, const char *path, const char *stamp, const char *same, const int64_t shape[4],
              struct err *e);
/* A member of a tar, or a file of a folder, called NAME.ENDING. Of a single file: what is not the `main` one is put beside it where it is
 * json, and left out otherwise. */
int sink_add(struct sink *s, const char *name, const char *ending, int main, const void *data, size_t len, struct err *e);
int sink_rows(struct sink *s, const void *data, size_t bytes, struct err *e); /* of an array */
int sink_finish(struct sink *s, struct err *e);
/* Frees everything. Without a finish: what was saved stays with `keep`, else nothing does. */
void sink_close(struct sink *s, int keep);

#endif
