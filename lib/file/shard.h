/* Shards: .tar.zst with random access and an end that cannot be lost unnoticed.
 *
 * A shard is a plain zstd file to stock tools (zstd -d, tar --zstd): one checksummed frame per sample (or per few small ones),
 * each a run of tar members, then a frame with the end-of-archive blocks. Two skippable frames close it: our index (where every
 * sample lies, its key, counts and hashes) and zstd's seek table (contrib/seekable_format). Opening checks the end, the index
 * and that all sizes add up to the file; reading checks the hash of every frame it touches. */
#ifndef DDM_FILE_SHARD_H
#define DDM_FILE_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

struct shard_member {
	const char *ext; /* "jpg", "cls", "seg.png" */
	const uint8_t *data;
	size_t size;
};

/* One sample as read: members in bytewise order of ext. */
struct shard_sample {
	const char *key;
	int members;
	const struct shard_member *member;
	void *memory; /* owns the above; shard_sample_release */
};

void shard_sample_release(struct shard_sample *s);

struct shard;

/* A file, or a URL (file/bytesource.h), whose server must answer requests for ranges. ERR_DATA with path and offset when it is truncated, altered or
 * not a shard. The index of a file stays mapped, so the file must not shrink meanwhile; memory grows by less than 2 bytes a sample. That of a URL is
 * kept as it is stored. Caller frees with shard_free. */
struct shard *shard_open(const char *path, struct err *e);
void shard_free(struct shard *s);
uint64_t shard_bytes(const struct shard *s); /* size of the file */
int64_t shard_count(const struct shard *s);
/* Put the key of sample i into *key and return its text, borrowed until *key changes. Empty if the file was altered since it was opened. */
const char *shard_key(const struct shard *s, int64_t i, struct str *key);
const char *shard_stamp(const struct shard *s); /* NULL when there is none */
/* A hash of the compressed sample, from the index. Equal marks mean equal samples; samples packed by other options have other marks. */
uint64_t shard_mark(const struct shard *s, int64_t i);

/* The totals in the end record. */
struct shard_totals {
	uint64_t frames, samples, packed, plain; /* bytes of the frames and of the tar in them */
	uint64_t content;                        /* XXH3-64 of that tar */
};

void shard_totals(const struct shard *s, struct shard_totals *t);

/* Thread-safe. */
int shard_read(struct shard *s, int64_t i, struct shard_sample *out, struct err *e);

/* Read everything: every frame, every key, the content hash. */
int shard_verify(struct shard *s, struct err *e);

/* 1 when the file or URL ends as our shards do, 0 otherwise, also if it cannot be read at its end. -1 and *e if a URL cannot be opened. */
int shard_sniff(const char *path, struct err *e);

struct shard_writer;
struct spill;

struct shard_options {
	int level;         /* of zstd; 0: 3. Up to 3, frames that are mostly JPEG, PNG or WebP, which hardly shrink, get -1: a
	                    * fifth of the time for the same size */
	size_t frame;      /* start a new frame once it holds this many bytes of tar; 0: one sample per frame */
	const char *stamp; /* NULL: none */
	/* Holds the index of the shard until it is committed (file/spill.h); borrowed until then, and may be that of several shards. NULL: memory. */
	struct spill *spill;
};

/* The manifest's row of one shard. */
struct manifest_row {
	char *path; /* relative to the folder: "cluster-3/000000.tar.zst" */
	uint64_t bytes;
	int64_t samples;
	char sha256[65];
	char *first_key, *last_key;
	int cluster;
	int holdout; /* 1: split "holdout", 0: "train" */
	int further; /* 1: samples whose own cluster is another (manifest_shared_name) */
	int copies;  /* a sample counts as so many; 0 in a row to be written: the name tells */
};

/* Writes by the commit protocol. Caller ends with shard_commit or shard_abort. `o` may be NULL. */
struct shard_writer *shard_create(const char *path, const struct shard_options *o, struct err *e);
/* Members may come in any order and are stored sorted. A key with a tab, a newline or a dot in its basename, the key of the
 * sample before it, an empty or repeated ext: ERR_DATA. */
int shard_add(struct shard_writer *w, const char *key, const struct shard_member *m, int n, struct err *e);
/* One sample, made apart from its shard so that many are made at once: filled, packed (by any thread), appended (in order, with
 * the shard's level). The bytes are those of shard_add without `frame`. Zeroed is empty. */
struct shard_frame {
	struct str key, tar, packed;
	size_t pictures; /* bytes of members that are compressed pictures */
	uint64_t hash;   /* of packed */
	uint32_t sum;    /* of tar */
};
int shard_frame_fill(struct shard_frame *f, const char *key, const struct shard_member *m, int n, struct err *e);
void shard_frame_release(struct shard_frame *f);

/* Compressors for `workers` threads; caller frees with shard_packer_free. */
struct shard_packer;
struct shard_packer *shard_packer_new(int level, int workers, struct err *e);
void shard_packer_free(struct shard_packer *p); /* NULL is allowed */
int shard_pack(struct shard_packer *p, int worker, struct shard_frame *f, struct err *e);
int shard_append(struct shard_writer *w, const struct shard_frame *f, struct err *e);

uint64_t shard_writer_bytes(const struct shard_writer *w); /* written so far, compressed */
/* Publish and free w, whatever happens. row (may be NULL) receives bytes, samples, sha256 and keys; its path, cluster and holdout
 * are left alone. ERR_DATA when it holds no sample. */
int shard_commit(struct shard_writer *w, struct manifest_row *row, struct err *e);
void shard_abort(struct shard_writer *w); /* NULL is allowed */

#endif
