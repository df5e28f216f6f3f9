/* tar: a streaming reader for what others write (libarchive does the decompression and the dialects), and our own writer, whose
 * bytes depend on names and contents only. */
#ifndef DDM_FILE_TARFILE_H
#define DDM_FILE_TARFILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "file/commit.h"

struct tar_reader;

struct tar_limits {
	uint64_t member;  /* largest member in bytes; 0: 1 GiB. Larger is ERR_DATA */
	uint64_t members; /* most members in the stream; 0: 2^40 */
	int show_links;   /* tar_next hands out hard links as such, instead of what they mean */
};

struct tar_member {
	const char *name;    /* as stored, a leading "./" removed; may hold "../", so never open it */
	const uint8_t *data; /* the whole content */
	size_t size;
	int64_t offset;   /* of its header in the uncompressed stream, for messages */
	const char *link; /* show_links: the name a hard link means, "./" removed; else NULL */
};

/* "-" is standard input. tar in any compression libarchive knows, and our shards. `limits` may be NULL. */
struct tar_reader *tar_open(const char *path, const struct tar_limits *limits, struct err *e);
/* fd stays the caller's; `data` must stay until tar_close. */
struct tar_reader *tar_open_fd(int fd, const char *name, const struct tar_limits *limits, struct err *e);
struct tar_reader *tar_open_memory(const void *data, size_t len, const char *name, const struct tar_limits *limits, struct err *e);
void tar_close(struct tar_reader *r); /* NULL is allowed */

/* The fraction of the file that has been read, 0 .. 1, for progress; 0 if unknown (a pipe). */
double tar_fraction(const struct tar_reader *r);

/* The next regular file: 1 and *m, whose pointers are good until the next call; 0 at the end of the stream, -1 on error.
 * A hard link is the file it means, wherever that is in the archive, which is then read twice more; through a pipe it is ERR_DATA. Symbolic links,
 * devices and hard links to nothing are passed over and counted (tar_passed), folders passed over.
 * Concatenated archives are one stream. A stream without end-of-archive blocks, a damaged header or a truncated compressed stream is ERR_DATA. */
int tar_next(struct tar_reader *r, struct tar_member *m, struct err *e);

/* How many members were passed over, and "'NAME' (REASON), ..." of the first three, borrowed until the next call. */
int64_t tar_passed(const struct tar_reader *r, const char **first);
/* Counts one that the caller passes over. */
void tar_pass(struct tar_reader *r, const char *name, const char *why);

/* The stamp in the global header at the start of the stream (good after the first tar_next), or NULL. */
const char *tar_stamp(const struct tar_reader *r);

/* 1 when the bytes could start a tar, or something compressed that may hold one: how a program tells "samples" apart. */
int tar_sniff(const void *data, size_t len);

/* WebDataset's rule: "a/b.seg.PNG" is key "a/b" (up to the first dot of the basename) and extension "seg.png" (lower case). -1
 * when there is no dot, nothing before it, or an extension of 64 bytes or more. *key_len bytes of `name` are the key. */
int tar_key(const char *name, size_t *key_len, char ext[64]);

/* Building blocks of a deterministic tar: USTAR with mode 0644, owner and time 0; a pax header for names that do not fit. */
int tar_put_member(struct str *out, const char *name, const void *data, size_t size, struct err *e);
void tar_put_stamp(struct str *out, const char *stamp); /* pax global header with one record, DDM.stamp */
void tar_put_end(struct str *out);                      /* two zero blocks */

/* Parse what the building blocks made: the member at *pos of buf (len bytes), and *pos after it. 1, 0 at the end of buf or at the
 * end blocks, -1 and ERR_DATA. m->name is good until the next call with the same `name` buffer; m->data points into buf. A global
 * header goes to *stamp (may be NULL), which is reset first. */
int tar_parse(const uint8_t *buf, size_t len, size_t *pos, struct tar_member *m, struct str *name, struct str *stamp, const char *where,
              struct err *e);

/* Write an archive to an output: the stamp (NULL: none) by tar_start, members, and the end blocks by tar_finish; the caller commits `o`. The
 * archive's seal (file/tarseal.h) stands before the last member, or in the stamp's header if there are no members. Therefore a pipe receives
 * each member one call late, and in a file tar_finish rewrites the last one. If `o` is positioned after earlier members, they are kept. */
struct tar_writer {
	struct outfile *out;
	struct str head;
	struct str held;                     /* private, as all that follows: what was added last and is not yet in the pipe */
	uint64_t last, end;                  /* where that begins and ends */
	struct XXH3_state_s *before, *after; /* hashes up to there */
};

int tar_start(struct tar_writer *w, struct outfile *o, const char *stamp, struct err *e);
int tar_add(struct tar_writer *w, const char *name, const void *data, size_t size, struct err *e);
int tar_finish(struct tar_writer *w, struct err *e); /* releases w's memory, whatever happens */
void tar_release(struct tar_writer *w);              /* instead, of one that is not finished */

#endif
