/* Reads pictures in the idx format of MNIST and its relatives: a big-endian header (magic number 2051; n, height, width), then n pictures of one
 * byte a pixel. Labels are in a file beside it (magic number 2049; n, then n bytes), whose name has "labels" and "idx1" in the place of "images" and
 * "idx3". Both may be packed with gzip. */
#ifndef DDM_DATA_IDX_H
#define DDM_DATA_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

struct idx;

/* 1 for a file of pictures: by its first bytes, or, if it ends with .gz, by "idx3" in its name. */
int idx_sniff(const char *path);
/* 1 if the name is that of a file of labels that belongs to a file of pictures in the same folder. */
int idx_is_labels(const char *path);

/* Read a file of pictures, and its labels if there are any. ERR_DATA if one of them is damaged, or if they differ in number. Caller frees with
 * idx_free. */
struct idx *idx_open(const char *path, struct err *e);
void idx_free(struct idx *x); /* NULL is allowed */
int64_t idx_count(const struct idx *x);
/* The key of picture i in *key, such as "train/000012": the file's name up to the first dot and without "-images", and the number. */
void idx_key(const struct idx *x, int64_t i, struct str *key);
/* Append picture i as a grey PNG. */
int idx_picture(const struct idx *x, int64_t i, struct str *out, struct err *e);
/* The class of picture i; -1 without labels. */
int32_t idx_label(const struct idx *x, int64_t i);

#endif
