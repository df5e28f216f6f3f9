/* A SHARDS folder: cluster-K/NNNNNN.tar.zst (training part), holdout/cluster-K/NNNNNN.tar.zst (held-out part), in both
 * also-, x2- and also-x2-NNNNNN.tar.zst if a sample can be in several clusters (manifest_shared_name), MANIFEST.tsv
 * (columns path bytes samples sha256 first_key last_key cluster split; its stamp carries "clusters") and SHA256SUMS for
 * sha256sum -c. K is 0-based and unpadded. */
#ifndef DDM_FILE_MANIFEST_H
#define DDM_FILE_MANIFEST_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "file/shard.h"
#include "file/stamp.h"

/* Another file of the folder, as null-text.npy. */
struct manifest_file {
	char *name;
	char sha256[65];
};

struct manifest {
	char *dir;
	struct manifest_row *rows; /* sorted by path */
	int64_t n;
	int clusters;    /* K, empty clusters included */
	int64_t *train;  /* [clusters] samples in the training part, as often as they count */
	int64_t *held;   /* [clusters] samples in the held-out part, as often as they count */
	char sha256[65]; /* of MANIFEST.tsv */
	char *stamp;     /* JSON line */
	struct manifest_file *file;
	int files;
	/* What the stamp says about the clusters and classes. */
	char partition[65];    /* the partition (data/sharding.h), else the hash of the assignment; empty: unknown */
	json_t *extends;       /* the partitions that this one extends (core/extends.h); NULL: none */
	json_t *cluster_names; /* [clusters] (core/names.h); NULL: they have none */
	json_t *class_names;   /* by class, at least as many as there are classes; NULL */
};

/* dir may be a URL (file/bytesource.h). ERR_NOINPUT when there is no folder or no manifest, ERR_DATA when it is damaged. Release with
 * manifest_release. */
int manifest_load(struct manifest *m, const char *dir, struct err *e);
void manifest_release(struct manifest *m);
void manifest_row_release(struct manifest_row *r);

/* Write MANIFEST.tsv and SHA256SUMS into dir: rows (any order), the number of clusters, the stamp (may be NULL; "clusters" is
 * added to a copy). Its "files", {name: SHA-256}, are the other files that lie in dir. Do it last, inside an outdir. */
int manifest_write(const char *dir, const struct manifest_row *rows, int64_t n, int clusters, const struct stamp *s, struct err *e);

/* Is the shard of row i what the manifest says: size, SHA-256, samples, first and last key. ERR_DATA names what differs. */
int manifest_check(const struct manifest *m, int64_t i, struct err *e);
/* The same without reading the contents: size, samples, first and last key. */
int manifest_check_quick(const struct manifest *m, int64_t i, struct err *e);

/* The shard of row i, opened after these checks; whole: its SHA-256 is among them. NULL and *e. Caller frees with shard_free. */
struct shard *manifest_shard_open(const struct manifest *m, int64_t i, int whole, struct err *e);

/* Is file i of m->file what the manifest says? */
int manifest_check_file(const struct manifest *m, int i, struct err *e);

/* Caller frees with mem_free. */
char *manifest_shard_path(const struct manifest *m, int64_t i); /* dir/path */
char *manifest_name(int cluster, int holdout, int64_t number);  /* "holdout/cluster-3/000017.tar.zst" */

/* Shards for samples of several clusters: "holdout/cluster-3/also-x2-000017.tar.zst". further: their own cluster is another, where they are, too.
 * copies: each counts as so many samples in training, from 1 to MANIFEST_COPIES. */
enum { MANIFEST_COPIES = 16 };
char *manifest_shared_name(int cluster, int holdout, int further, int copies, int64_t number);

#endif
