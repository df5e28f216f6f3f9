/* Writes outputs that appear complete or not at all.
 *
 * A file is written beside its place under a temporary name, flushed, fsynced, renamed over the old one, and its folder
 * fsynced: whenever the process dies, the name holds the old bytes or the new ones. A folder likewise. Temporaries of dead
 * processes of this host are removed by the next writer of the same name; a live one holds a lock on its own, so that one in
 * another container, whose number means nothing here, keeps it. */
#ifndef DDM_FILE_COMMIT_H
#define DDM_FILE_COMMIT_H

#include <jansson.h>
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>

#include "core/err.h"

struct claim;
struct direct;

/* An output file being written, whose name nobody else can write meanwhile (file/claim.h). Zero-initialised is "nothing open". */
struct outfile {
	char *path;  /* as given */
	FILE *file;  /* write here, or with outfile_write */
	char *place; /* the final name, links followed; NULL for stdout, devices and pipes, which are written directly */
	char *tmp;   /* ".NAME.tmp.HOST.PID.N" beside it */
	struct claim *claim;
	int anew;              /* set after opening: the name gets a new file even where the old one has the same bytes */
	int keep;              /* set after opening: other bytes under the name stay, and are ERR_EXISTS */
	size_t unsent;         /* bytes since the kernel was last asked to write */
	struct direct *direct; /* private: writes past the page cache; NULL: through it */
	struct sha256 *sum;    /* set after opening: outfile_write adds the bytes to it, while the disk writes them; NULL: none */
};

/* "-" is standard output. An existing device or pipe is written directly. A missing folder is ERR_NOINPUT; ERR_EXISTS when another process
 * is writing it. */
int outfile_open(struct outfile *o, const char *path, struct err *e);
/* The same, but the temporary is ".NAME.part", which stays when the process dies and is opened again by the next one (file/partial.h): *kept is
 * 1. ERR_EXISTS if another process is writing it. Standard output, devices and too long names cannot be kept: opened as by outfile_open, *kept
 * is 0. */
int outfile_open_part(struct outfile *o, const char *path, int *kept, struct err *e);
/* Say before the first write that the file will have n bytes, all of them from outfile_write. A large one is then written past the page cache,
 * where the file system allows it (file/direct.h). */
void outfile_expect(struct outfile *o, uint64_t n);
int outfile_write(struct outfile *o, const void *p, size_t n, struct err *e);
/* Publish the file. If a file with the same bytes has the name already, it is left alone, with its modification time. On failure the temporary
 * is removed, the old file is unchanged, and *o is closed as by outfile_abort. Reports write errors of all earlier stdio calls on o->file. */
int outfile_commit(struct outfile *o, struct err *e);
/* Remove the temporary. Does nothing after a commit, so every clean-up path may call it. */
void outfile_abort(struct outfile *o);
void outfile_leave(struct outfile *o); /* the same, but the temporary stays */

/* A whole small file at once ("-" too). */
int commit_bytes(const char *path, const void *data, size_t len, struct err *e);
/* Let the name of a file be a new one with its first n bytes. A process that has the old one open goes on to write to that. */
int commit_head(const char *path, int64_t n, struct err *e);
/* commit_bytes of a JSON object, indented and sealed (jsonio_pretty). */
int commit_json(const char *path, const json_t *o, struct err *e);

/* An output folder being filled. Zero-initialised is "nothing open". */
struct outdir {
	char *path;
	char *tmp; /* fill this one: "NAME.tmp-HOST.PID.N" beside it */
	int lock;  /* private: 1 + descriptor */
};

/* Creates the temporary folder, and missing parents. An existing, non-empty `path` is ERR_EXISTS at once. */
int outdir_begin(struct outdir *d, const char *path, struct err *e);
/* fsync every file and folder inside, rename, fsync the parent. On failure everything is removed as by outdir_abort; ERR_EXISTS
 * when the name has been taken meanwhile. */
int outdir_commit(struct outdir *d, struct err *e);
void outdir_abort(struct outdir *d); /* removes the temporary; allowed after a commit */

/* Remove a published folder: it gets a temporary name first, so that a process that is stopped meanwhile, while another takes over the folder above
 * it, goes on to remove the old one and not one that the other has published since. Asks runlock_permits. */
int outdir_remove(const char *path, struct err *e);

/* Remove the temporaries for `name` (NULL: for any name) in `dir` whose processes, of this host, have died. Errors are ignored. */
void commit_sweep(const char *dir, const char *name);

#endif
