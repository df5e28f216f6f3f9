/* Named tensors of any file or folder that networks come in: safetensors, one file or in parts with an index; PyTorch's .pt, .pth, .bin,
 * .ckpt, of either layout, one or in parts; .npz. Read as they lie where the file allows, and converted where it does not. */
#ifndef DDM_FILE_WEIGHTFILE_H
#define DDM_FILE_WEIGHTFILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "file/safetensors.h"

struct weightfile;

/* path: a file, an index (NAME.safetensors.index.json, NAME.bin.index.json), or a folder with one (weightfile_locate). root: as
 * torch_open_memory's (file/torchfile.h); of files that have no parts, NULL or "", else ERR_USAGE. Files stay mapped until weightfile_free. A part
 * whose name leads out of the folder is refused. */
struct weightfile *weightfile_open(const char *path, const char *root, struct err *e);
void weightfile_free(struct weightfile *w);

/* The weights in a folder, by the names diffusers, transformers and PyTorch users give: diffusion_pytorch_model, model, pytorch_model with
 * .safetensors, .safetensors.index.json, .bin, .bin.index.json, in this order of endings; or else its only .pt, .pth or .ckpt. `first` (may
 * be NULL) goes before all. NULL: there is none (ERR_NOINPUT), or several to choose from (ERR_DATA). Caller frees with mem_free. */
char *weightfile_locate(const char *dir, const char *first, struct err *e);

int weightfile_count(const struct weightfile *w);
/* In an order that depends on the files alone. data is NULL where only weightfile_f32 and its kin can read it. Borrowed until weightfile_free. */
const struct st_tensor *weightfile_get(const struct weightfile *w, int i);
int weightfile_find(const struct weightfile *w, const char *name); /* index; -1: none */
/* As weightfile_find, but absence, another type than a float's, or another shape is -1 and ERR_DATA naming both. rank < 0: any shape. */
int weightfile_need(const struct weightfile *w, const char *name, int rank, const int64_t *shape, struct err *e);
const char *weightfile_meta(const struct weightfile *w, const char *key); /* of a single safetensors file's __metadata__; NULL: none */

/* All elements of tensor i, row-major. Not for two threads at a time on one struct: a deflated storage is kept for the next call. */
int weightfile_f32(struct weightfile *w, int i, float *out, struct err *e);
int weightfile_bf16(struct weightfile *w, int i, uint16_t *out, struct err *e); /* rounded to nearest even */

/* All of them for readers of safetensors: those that do not lie in the file in order are copied, which a file that repeats a few numbers
 * as more than a gigabyte is refused for (ERR_DATA). Borrowed until weightfile_free. */
const struct safetensors *weightfile_tensors(struct weightfile *w, struct err *e);
/* The same, but w belongs to them, also on failure: of w only its names and weightfile_hash may be asked for, until the caller's st_free. */
struct safetensors *weightfile_take(struct weightfile *w, struct err *e);
/* weightfile_open and the above at once: st_open for any file. Caller frees with st_free. */
struct safetensors *weightfile_load(const char *path, const char *root, struct err *e);

/* Read everything: seals and checksums where there are any; *not_finite: how many stored numbers are NaN or infinite. */
int weightfile_verify(struct weightfile *w, int64_t *not_finite, struct err *e);

/* Files that were opened, the index first. */
int weightfile_files(const struct weightfile *w);
const char *weightfile_file(const struct weightfile *w, int i);
/* SHA-256 of the file; of several, that of what sha256sum prints of them, in order, by base name. ERR_DATA where a seal does not hold. */
int weightfile_hash(const struct weightfile *w, char hex[65], struct err *e);
int weightfile_hash_at(const char *path, char hex[65], struct err *e); /* the same of what weightfile_open finds at path */

#endif
