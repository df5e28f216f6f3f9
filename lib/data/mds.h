/* Shards of MosaicML's streaming (MDS, version 2): a folder with index.json and the files that it names.
 *
 * A shard is, in little-endian numbers of 32 bits, n, n + 1 offsets, a copy of its configuration, and the samples; a sample the sizes of
 * the columns that have none of their own, and the columns. The file may be packed with zstd or gzip as a whole. */
#ifndef DDM_DATA_MDS_H
#define DDM_DATA_MDS_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

struct mds;

/* Whether `path`, a folder with an index.json or that file, is such a set. */
int mds_sniff(const char *path);

/* ERR_DATA for an index that tells of another format or version, or of names that lead out of the folder. verify: look at the hashes of shards
 * (sha256, xxh32, xxh64, xxh3_64, xxh128 and xxh3_128; others are left alone). A sample of more than `most` bytes is bad. Caller frees with
 * mds_free. */
struct mds *mds_open(const char *path, int verify, size_t most, struct err *e);
void mds_free(struct mds *m);
int64_t mds_count(const struct mds *m);
int64_t mds_shards(const struct mds *m);
/* "name": "encoding" of the first shard; caller json_decref()s. */
json_t *mds_columns(const struct mds *m);

/* Go to sample i; its key, "shard-00000/000012", is added to *key. 1; or -1, ERR_DATA or ERR_NOINPUT, where its shard is broken, or has columns
 * of an encoding that is not known; 2 where the sample alone is. */
int mds_seek(struct mds *m, int64_t i, struct str *key, struct err *e);

/* Its members, one after the other: 1, *ext (borrowed until the next sample) and its bytes added to *out; 0 after the last; 2 where one is
 * broken. */
int mds_member(struct mds *m, const char **ext, struct str *out, struct err *e);

const char *mds_file(const struct mds *m); /* that the sample is in */

#endif
