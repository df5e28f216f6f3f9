/* An open shard, its columns and the present sample, shared by the files that read MosaicML's shards. */
#ifndef DDM_DATA_MDSIMPL_H
#define DDM_DATA_MDSIMPL_H

#include <jansson.h>

#include "data/mds.h"
#include "file/fileio.h"
#include "file/npy.h"

enum { COLUMNS = 48 };

enum how { HOW_BYTES, HOW_STR, HOW_JPEG, HOW_PNG, HOW_PIL, HOW_JSON, HOW_ARRAY, HOW_NUMBER, HOW_DIGITS, HOW_OPAQUE };

static inline uint32_t mds_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* An encoding of the values of a column. */
struct encoding {
	const char *name;
	enum how how;
	const char *ext;    /* the member's extension */
	enum npy_type type; /* HOW_NUMBER */
};

struct column {
	const char *name; /* borrowed from the index */
	const struct encoding *encoding;
	int64_t size;    /* fixed size in bytes; 0: each sample stores the size */
	int typed, rank; /* HOW_ARRAY: type and shape if fixed for the column, else each sample stores them; rank 0: not fixed */
	enum npy_type type;
	int64_t shape[NPY_RANK];
	int favour; /* the column with the lowest value gets the extension of its encoding */
};

struct shard_entry {
	const json_t *o; /* borrowed from the index */
	int64_t first, samples;
};

struct mds {
	char *dir, *where; /* where: path of the index */
	json_t *index;
	struct shard_entry *shard;
	int64_t shards, count;
	int verify;
	size_t most;

	int64_t open; /* index of the open shard; -1: none */
	char *name;   /* path of its file */
	struct filemap map;
	uint8_t *plain; /* decompressed shard; NULL: the file is not compressed */
	const uint8_t *data;
	size_t len;
	struct column column[COLUMNS]; /* in the order of the data */
	int order[COLUMNS], columns;   /* order in which columns become members */

	const uint8_t *value[COLUMNS]; /* column data of the present sample */
	size_t size[COLUMNS];
	int64_t number;         /* index of the sample in its shard */
	int at;                 /* next entry of `order` */
	char *ext[COLUMNS + 1]; /* extensions of the sample's members */
	int exts;
	json_t *facts; /* numbers other than the class */
};

/* The type of an array: by the n characters of its name, or, where name is NULL, by its code. Returns 1 and *type, or 0 for an unknown one. */
int mds_find_type(const char *name, size_t n, uint8_t code, enum npy_type *type);

/* Sets ERR_DATA saying what is wrong with the present sample; returns 2, as mds_seek and mds_member do for a bad sample. */
int mds_bad(const struct mds *m, const char *what, struct err *e);

#endif
