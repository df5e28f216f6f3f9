/* Reads shards of MosaicML's streaming (MDS, version 2): a folder with index.json and the files that it names.
 *
 * A shard consists of n, n + 1 offsets, a copy of its configuration, and the samples; all numbers are 32-bit little-endian. A sample consists of
 * the sizes of the columns without a fixed size, followed by the data of all columns. The whole file may be compressed with zstd or gzip. */
#ifndef DDM_DATA_MDS_H
#define DDM_DATA_MDS_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

struct mds;

/* 1 if `path` is a folder with an index.json of such a set, or that file; else 0. */
int mds_sniff(const char *path);

/* ERR_DATA for an index of another format or version, or with names that lead out of the folder. verify: check the hashes of shards (sha256,
 * xxh32, xxh64, xxh3_64, xxh128 and xxh3_128; others are ignored). A sample of more than `most` bytes is bad. Caller frees with mds_free. */
struct mds *mds_open(const char *path, int verify, size_t most, struct err *e);
void mds_free(struct mds *m);
int64_t mds_count(const struct mds *m);
int64_t mds_shards(const struct mds *m);
/* The columns of the first shard as "name": "encoding"; caller json_decref()s. */
json_t *mds_columns(const struct mds *m);

/* Go to sample i and append its key, "shard-00000/000012", to *key. 1; 2 if the sample alone is bad; -1 and ERR_DATA or ERR_NOINPUT if its shard
 * is broken or has a column of an unknown encoding. */
int mds_seek(struct mds *m, int64_t i, struct str *key, struct err *e);

/* The next member of the sample: 1, *ext (borrowed until the next sample), and its bytes appended to *out; 0 after the last; 2 if the member is
 * broken. */
int mds_member(struct mds *m, const char **ext, struct str *out, struct err *e);

const char *mds_file(const struct mds *m); /* the file that holds the present sample; borrowed */

#endif
