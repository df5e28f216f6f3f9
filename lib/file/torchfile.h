/* Reads PyTorch's .pt, .pth, .bin, .ckpt files: the zip layout (1.6 and later) and the layout before it. No code of the file is run: its pickle is
 * read as a tree (file/pickle.h). Tensors and containers in the tree are understood, everything else is ignored. */
#ifndef DDM_FILE_TORCHFILE_H
#define DDM_FILE_TORCHFILE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "file/safetensors.h"

struct torchfile;

/* 1: the data is a PyTorch file; 0: it is not; -1 and *e: it is one of a layout that is not supported. */
int torch_sniff(const void *data, size_t len, const char *where, struct err *e);

/* Find the tensors below `root` in dicts, lists and tuples. Names are joined by dots ("ema.blocks.0.attn.qkv.weight", "frames.3"); a tensor that is
 * itself the root is called "tensor". root "" is the whole file. "ema" or "a.b" is a part of the file, and names are relative to it. NULL selects
 * the first of ema, ema_state_dict, model_ema, state_dict, model_state_dict, model, module, params that holds tensors, or else the whole file; it
 * also drops a prefix "module." that all names share. Tensors of the dtypes of safetensors are read. Those of other dtypes, and sparse or quantized
 * tensors, are counted by torch_skipped. `data` is borrowed until torch_free; memory is allocated for the names and the pickle only.
 * ERR_DATA: a damaged file, a tensor outside its storage, two tensors of one name. Caller frees with torch_free. */
struct torchfile *torch_open_memory(const void *data, size_t len, const char *name, const char *root, struct err *e);
void torch_free(struct torchfile *f);
int torch_tensors(const struct torchfile *f);
/* Borrowed until torch_free. data is NULL if the elements are strided, deflated or big-endian; torch_gather reads them. */
const struct st_tensor *torch_get(const struct torchfile *f, int i);
/* Copy `count` elements of tensor i, from row-major index `from` on, to `out` in this machine's byte order, without conversion of the dtype. A
 * deflated storage is inflated and kept until another one is needed. */
int torch_gather(struct torchfile *f, int i, int64_t from, int64_t count, void *out, struct err *e);
/* Check the checksum of every storage, if the file has checksums (zip layout). *not_finite receives the number of NaN and infinite elements. */
int torch_verify(struct torchfile *f, int64_t *not_finite, struct err *e);

int torch_is_zip(const struct torchfile *f);
const char *torch_root(const struct torchfile *f); /* the root that was chosen or given; borrowed */
/* Describe for a message the value at a dotted path below the root that is not a tensor: "a call of numpy.core.multiarray._reconstruct". NULL if
 * there is no such value. Caller frees with mem_free. */
char *torch_describe(const struct torchfile *f, const char *path);
/* The file's top-level members, each with the number of its tensors or a description: {"ema": 42, "opt": 84, "args": "argparse.Namespace",
 * "steps": 5}. NULL if the top level is not a dict. Caller frees with json_decref. */
json_t *torch_members(const struct torchfile *f);
/* The number of tensors that cannot be read; *what names the dtype, storage class or function of the first one; NULL if there are none. Borrowed. */
int torch_skipped(const struct torchfile *f, const char **what);

#endif
