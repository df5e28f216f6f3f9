/* numpy arrays: .npy versions 1 to 3 and .npz, read and written. */
#ifndef DDM_FILE_NPY_H
#define DDM_FILE_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "file/fileio.h"

/* '|b1' reads as NPY_U1. Object arrays, structures, strings and complex are refused by name. */
enum npy_type { NPY_F4, NPY_F8, NPY_F2, NPY_I8, NPY_I4, NPY_I2, NPY_I1, NPY_U1, NPY_U2, NPY_U4, NPY_U8 };

enum { NPY_RANK = 8 };

struct npy {
	enum npy_type type;
	int rank;
	int64_t shape[NPY_RANK];
	int fortran;        /* column-major data: npy_to_* give row-major */
	int swapped;        /* big-endian data, of elements of more than one byte: npy_to_* give numbers */
	const void *data;   /* possibly unaligned; use npy_to_* */
	struct filemap map; /* private */
	void *owned;        /* private */
};

size_t npy_type_size(enum npy_type t);
const char *npy_type_code(enum npy_type t); /* "<f4" */
int64_t npy_count(const struct npy *a);     /* elements */

/* "-" is standard input. ERR_DATA on any departure from the format, including a size that does not fit the file, and if the hash in
 * PATH.json differs. */
int npy_load(struct npy *a, const char *path, struct err *e);
int npy_parse(struct npy *a, const void *bytes, size_t len, const char *name, struct err *e); /* data points into bytes */
/* The same for the first `have` of len bytes: gives type and shape; the elements must not be read. */
int npy_parse_head(struct npy *a, const void *bytes, size_t have, size_t len, const char *name, struct err *e);
void npy_release(struct npy *a);

/* Every element, row-major, as npy_count numbers. */
void npy_to_f32(float *out, const struct npy *a);
void npy_to_f64(double *out, const struct npy *a);
int64_t npy_not_finite(const struct npy *a);                                        /* how many are NaN or infinite; 0 of integers */
int npy_to_i64(int64_t *out, const struct npy *a, const char *name, struct err *e); /* a fraction, NaN or 2^63 is ERR_DATA */

/* Version 1 bytes, row-major, little-endian, header padded to 64. */
void npy_encode(struct str *out, enum npy_type type, int rank, const int64_t *shape, const void *data);
/* By the commit protocol. */
int npy_write(const char *path, enum npy_type type, int rank, const int64_t *shape, const void *data, struct err *e);

/* .npz: a zip of .npy, stored or deflated, ZIP64 too. Written ones bear a seal as their comment, which npz_load and npz_parse verify. */
struct npz;

struct npz *npz_load(const char *path, struct err *e);                                /* caller frees with npz_free */
struct npz *npz_parse(const void *data, size_t len, const char *name, struct err *e); /* data must stay */
/* Types and shapes alone: nothing large is inflated, no checksum is checked, and no element may be read. */
struct npz *npz_peek(const void *data, size_t len, const char *name, struct err *e);
void npz_free(struct npz *z);
int npz_entries(const struct npz *z);
const char *npz_name(const struct npz *z, int i); /* without ".npy" */
const struct npy *npz_get(const struct npz *z, int i);
const struct npy *npz_find(const struct npz *z, const char *name); /* NULL when there is none; borrowed */

struct npz_entry {
	const char *name; /* without ".npy" */
	enum npy_type type;
	int rank;
	int64_t shape[NPY_RANK];
	const void *data;
};

/* One array whose elements come piece by piece, under `name` ("arr_0" is numpy's first), to an outfile that can be sought in: a device
 * or pipe is ERR_USAGE. The bytes are npz_write's; committing `o` stays with the caller. */
struct outfile;
struct npz_stream {
	struct outfile *out;
	const char *name;
	uint64_t size, left; /* bytes of the member; of its elements, to come */
	uint32_t crc;
};

int npz_start(struct npz_stream *s, struct outfile *o, const char *name, enum npy_type type, int rank, const int64_t *shape, struct err *e);
int npz_add(struct npz_stream *s, const void *data, size_t bytes, struct err *e);
int npz_finish(struct npz_stream *s, struct err *e); /* all elements must have come */

/* Stored, in the given order, dated 1980-01-01: the same content gives the same bytes. By the commit protocol. */
int npz_write(const char *path, const struct npz_entry *entries, int n, struct err *e);

#endif
