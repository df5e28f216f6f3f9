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
	uint64_t member;  /* largest member in bytes; a larger one is ERR_DATA; 0: 1 GiB */
	uint64_t members; /* most members in the stream; more are ERR_DATA; 0: 2^40 */
	int show_links;   /* tar_next returns hard links without resolving them */
};

struct tar_member {
	const char *name;    /* as stored, a leading "./" removed; may hold "../", so never open it */
	const uint8_t *data; /* the whole content */
	size_t size;
	int64_t offset;   /* byte offset of the header in the uncompressed stream, for messages */
	const char *link; /* show_links: the target of a hard link, a leading "./" removed; else NULL */
};

/* Open a tar in any compression that libarchive supports, or a shard: a file, a URL or "pipe:COMMAND" (file/bytesource.h). "-" is standard input.
 * `limits` may be NULL. A command that fails is ERR_IO, also after a whole tar. Free with tar_close. */
struct tar_reader *tar_open(const char *path, const struct tar_limits *limits, struct err *e);
/* The caller keeps fd open, and `data` valid, until tar_close. The caller closes fd. */
struct tar_reader *tar_open_fd(int fd, const char *name, const struct tar_limits *limits, struct err *e);
struct tar_reader *tar_open_memory(const void *data, size_t len, const char *name, const struct tar_limits *limits, struct err *e);
void tar_close(struct tar_reader *r); /* NULL is allowed */

/* The fraction of the file that has been read, 0 .. 1, for progress; 0 if unknown (a pipe). */
double tar_fraction(const struct tar_reader *r);

/* XXH3-64 of all bytes of a command's output, once tar_next has returned 0; 0 for other sources. */
uint64_t tar_hash(const struct tar_reader *r);

/* Read the next regular file: 1 and *m, whose pointers stay valid until the next call; 0 at the end of the stream, -1 on error.
 * A hard link yields the content of its target, which may stand anywhere in the archive. The first hard link makes the reader read the archive
 * twice more; in a pipe, or the output of a command, it is
 * ERR_DATA. Symbolic links, devices and hard links without a target are skipped and counted (tar_passed). Folders are
 * skipped. Concatenated archives are one stream. ERR_DATA: missing end-of-archive blocks, a damaged header, a truncated compressed
 * stream. */
int tar_next(struct tar_reader *r, struct tar_member *m, struct err *e);

/* The number of skipped members; *first is "'NAME' (REASON), ..." for the first three, borrowed until the next call of tar_next. */
int64_t tar_passed(const struct tar_reader *r, const char **first);
/* Count a member that the caller skips. */
void tar_pass(struct tar_reader *r, const char *name, const char *why);

/* The stamp in the global header at the start of the stream, known after the first tar_next; NULL if there is none. Borrowed. */
const char *tar_stamp(const struct tar_reader *r);

/* 1 if the bytes could start a tar or a compressed file, which may hold a tar. */
int tar_sniff(const void *data, size_t len);

/* Split a member's name by WebDataset's rule: "a/b.seg.PNG" has the key "a/b" (up to the first dot of the base name) and the extension "seg.png"
 * (in lower case). The first *key_len bytes of `name` are the key. -1 if there is no dot, nothing before it, or an extension of 64 bytes or more. */
int tar_key(const char *name, size_t *key_len, char ext[64]);

/* Append the parts of a deterministic tar: USTAR with mode 0644, owner and time 0, and a pax header for names that do not fit. */
int tar_put_member(struct str *out, const char *name, const void *data, size_t size, struct err *e);
void tar_put_stamp(struct str *out, const char *stamp); /* pax global header with one record, DDM.stamp */
void tar_put_end(struct str *out);                      /* two zero blocks */

/* Parse a tar that the functions above made: read the member at *pos of buf (len bytes) and advance *pos. 1; 0 at the end of buf or at the end
 * blocks; -1 and ERR_DATA. m->name is valid until the next call with the same `name` buffer; m->data points into buf. *stamp (may be NULL)
 * receives the text of a global header, and is reset before that. */
int tar_parse(const uint8_t *buf, size_t len, size_t *pos, struct tar_member *m, struct str *name, struct str *stamp, const char *where,
              struct err *e);

/* Write an archive to an output: the stamp (NULL: none) by tar_start, members, and the end blocks by tar_finish; the caller commits `o`. The
 * archive's seal (file/tarseal.h) stands before the last member, or in the stamp's header if there are no members. Therefore a pipe receives
 * each member one call late, and in a file tar_finish rewrites the last one. If `o` is positioned after earlier members, they are kept. */
struct tar_writer {
	struct outfile *out;
	struct str head;
	struct str held;                     /* private, like the rest: the last member added, not yet written to the pipe */
	uint64_t last, end;                  /* byte offsets where the last member begins and ends */
	struct XXH3_state_s *before, *after; /* hashes of all bytes up to `last` and up to `end` */
};

/* 0, or -1 and *e. */
int tar_start(struct tar_writer *w, struct outfile *o, const char *stamp, struct err *e);
int tar_add(struct tar_writer *w, const char *name, const void *data, size_t size, struct err *e);
int tar_finish(struct tar_writer *w, struct err *e); /* releases w's memory, also on failure */
void tar_release(struct tar_writer *w);              /* releases a writer without finishing its archive */

#endif
