/* Reads named tensors from the files and folders of published networks: safetensors, one file or in parts with an index; PyTorch's .pt, .pth,
 * .bin, .ckpt of either layout, one file or in parts; .npz. Tensors are used in place if the layout of the file allows it, and copied otherwise. */
#ifndef DDM_FILE_WEIGHTFILE_H
#define DDM_FILE_WEIGHTFILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "file/safetensors.h"

struct weightfile;

/* path: a file, an index (NAME.safetensors.index.json, NAME.bin.index.json), or a folder with one of them (weightfile_locate). root: as for
 * torch_open_memory (file/torchfile.h); other formats take NULL or "", anything else is ERR_USAGE. A part whose name leads out of the folder is
 * refused. Files stay mapped until weightfile_free, which the caller calls. */
struct weightfile *weightfile_open(const char *path, const char *root, struct err *e);
void weightfile_free(struct weightfile *w);

/* Find the weights in a folder by the usual names of diffusers, transformers and PyTorch: diffusion_pytorch_model, model, pytorch_model with
 * .safetensors, .safetensors.index.json, .bin, .bin.index.json, in this order of endings; or else the folder's only .pt, .pth or .ckpt file. `first`
 * (may be NULL) is a file name that is tried before all. NULL: there are none (ERR_NOINPUT), or the choice is ambiguous (ERR_DATA). Caller frees with
 * mem_free. */
char *weightfile_locate(const char *dir, const char *first, struct err *e);

int weightfile_count(const struct weightfile *w);
/* Tensor i, in an order that depends only on the files. data is NULL if the elements cannot be used in place; weightfile_f32 reads
 * them. Borrowed until weightfile_free. */
const struct st_tensor *weightfile_get(const struct weightfile *w, int i);
int weightfile_find(const struct weightfile *w, const char *name); /* index; -1: none */
/* As weightfile_find; a missing tensor, a dtype that is not floating point, or another shape is -1 and ERR_DATA. rank < 0: any shape. */
int weightfile_need(const struct weightfile *w, const char *name, int rank, const int64_t *shape, struct err *e);
const char *weightfile_meta(const struct weightfile *w, const char *key); /* from __metadata__ of a single safetensors file; NULL: none */

/* Read all elements of tensor i, row-major. Not thread-safe on one struct: a deflated storage is kept for the next call. */
int weightfile_f32(struct weightfile *w, int i, float *out, struct err *e);

/* All tensors as a struct safetensors. Tensors that cannot be used in place are copied. The copies may take 1 GiB, or 1100 times the size of the
 * files if that is more; a file whose strides repeat elements beyond this is ERR_DATA. Borrowed until weightfile_free. */
const struct safetensors *weightfile_tensors(struct weightfile *w, struct err *e);
/* The same, but the result owns w: the caller calls st_free and not weightfile_free. Until then only weightfile_files, weightfile_file and
 * weightfile_hash may be called on w. On failure w is freed. */
struct safetensors *weightfile_take(struct weightfile *w, struct err *e);
/* weightfile_open, then weightfile_take. Caller frees with st_free. */
struct safetensors *weightfile_load(const char *path, const char *root, struct err *e);

/* Read all data and check the seals and checksums that the files have (ERR_DATA). *not_finite receives the number of NaN and infinite elements. */
int weightfile_verify(struct weightfile *w, int64_t *not_finite, struct err *e);

/* The files that were opened, the index first. Paths are borrowed until weightfile_free. */
int weightfile_files(const struct weightfile *w);
const char *weightfile_file(const struct weightfile *w, int i);
/* SHA-256 of the file. For several files: SHA-256 of the lines that sha256sum prints for them, in order, with base names. ERR_DATA if a seal does
 * not match. */
int weightfile_hash(const struct weightfile *w, char hex[65], struct err *e);
int weightfile_hash_at(const char *path, char hex[65], struct err *e); /* the same, for the files that weightfile_open finds at path */

#endif
