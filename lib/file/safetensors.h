/* safetensors: named arrays in one file, read by mmap after every rule of the format has been checked. Format:
 * u64 length N, N bytes of JSON, then the arrays without holes (https://github.com/huggingface/safetensors). */
#ifndef DDM_FILE_SAFETENSORS_H
#define DDM_FILE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct sha256; /* core/hash.h */

/* In the order files are written, which is that of the reference writer: wide types first. Types the format knows and we do not
 * (F4, F6_..., F8_E8M0, F8_...FNUZ, C64) are refused by name. F8_E4M3 is the one without infinities (OCP's E4M3, "e4m3fn"). */
enum st_type { ST_U64, ST_I64, ST_F64, ST_F32, ST_U32, ST_I32, ST_BF16, ST_F16, ST_U16, ST_I16, ST_F8_E4M3, ST_F8_E5M2, ST_I8, ST_U8, ST_BOOL };

enum { ST_TYPES = ST_BOOL + 1, ST_RANK = 8 };

struct st_tensor {
	const char *name;
	enum st_type type;
	int rank; /* 0: one number */
	int64_t shape[ST_RANK];
	const void *data; /* row-major little-endian; in foreign files possibly not aligned for its type: copy with st_copy */
};

struct st_text {
	const char *key, *value;
};

size_t st_type_size(enum st_type t);
const char *st_type_name(enum st_type t);
int st_type_is_float(enum st_type t);
int64_t st_count(const struct st_tensor *t); /* elements */

struct safetensors;

/* Caller frees with st_free; tensors and texts are borrowed from it. Nothing larger than the header is allocated. */
struct safetensors *st_open(const char *path, struct err *e);
struct safetensors *st_open_memory(const void *data, size_t len, const char *name, struct err *e); /* data must stay */
void st_free(struct safetensors *s);
/* Tensors of other files in this shape, of different names; names and data are borrowed. st_free calls release(owner) last (may be NULL). */
struct safetensors *st_of(const struct st_tensor *t, int n, const char *where, void *owner, void (*release)(void *owner));
void st_own(struct safetensors *s, void *owner, void (*release)(void *owner));
int st_tensors(const struct safetensors *s);
const struct st_tensor *st_get(const struct safetensors *s, int i);             /* in file order */
const struct st_tensor *st_find(const struct safetensors *s, const char *name); /* NULL when there is none */
/* As st_find, but absence, another type than a float's, or another shape is ERR_DATA naming both. rank < 0: any shape. */
const struct st_tensor *st_need(const struct safetensors *s, const char *name, int rank, const int64_t *shape, struct err *e);
/* 0 if t has a float type and this shape (rank < 0: any), else ERR_DATA naming `where` and both. */
int st_fits(const struct st_tensor *t, int rank, const int64_t *shape, const char *where, struct err *e);
int st_texts(const struct safetensors *s);
const struct st_text *st_text(const struct safetensors *s, int i);
const char *st_meta(const struct safetensors *s, const char *key); /* value of __metadata__, or NULL */

void st_copy(void *out, const struct st_tensor *t);    /* raw, st_count * st_type_size bytes */
void st_to_f32(float *out, const struct st_tensor *t); /* any type; f64 and integers round to nearest */

/* How many numbers are NaN or infinite; 0 of integers. */
int64_t st_not_finite(const struct st_tensor *t);

/* Write by the commit protocol. Tensors are stored by type, then bytewise by name, whatever their order here: the same content
 * gives the same bytes. Texts (may be NULL when 0) are stored sorted by key, and with them a "seal" (core/seal.h) of the whole file.
 * Equal names are ERR_USAGE. */
int st_write(const char *path, const struct st_tensor *t, int n, const struct st_text *texts, int ntexts, struct err *e);
/* The same; the bytes of the file are added to sum, which may be NULL. */
int st_write_summed(const char *path, const struct st_tensor *t, int n, const struct st_text *texts, int ntexts, struct sha256 *sum, struct err *e);
/* Check the seal of a whole valid file. ERR_DATA if it does not match; 0 if it does or if there is none. */
int st_check_seal(const void *data, size_t len, const char *name, struct err *e);

#endif
