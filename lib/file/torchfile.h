/* PyTorch's .pt, .pth, .bin, .ckpt: the zip layout (1.6 and later) and the one before it. Nothing of the file is run: the pickle in it
 * is read as a tree (file/pickle.h), in which tensors and containers are known and everything else is passed by. */
#ifndef DDM_FILE_TORCHFILE_H
#define DDM_FILE_TORCHFILE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "file/safetensors.h"

struct torchfile;

/* Whether bytes are one: -1 where they are of a layout that is not read and says so in *e, 0, 1. */
int torch_sniff(const void *data, size_t len, const char *where, struct err *e);

/* The tensors below `root`: dicts, lists and tuples are walked, names joined by dots ("ema.blocks.0.attn.qkv.weight", "frames.3"; one
 * tensor alone is "tensor"). root "" is all of the file, "ema" or "a.b" a part of it, whose names begin behind it. NULL chooses: the first of ema,
 * ema_state_dict, model_ema, state_dict, model_state_dict, model, module, params that holds tensors, else all; and "module." in front of
 * every name is dropped. Elements that safetensors has are read; tensors of others, and sparse or quantised ones, are told by torch_skipped.
 * Takes memory for the names and the pickle, not for the data, which must stay. Caller frees with torch_free.
 * A damaged file, a tensor outside its storage, two tensors of one name: ERR_DATA. */
struct torchfile *torch_open_memory(const void *data, size_t len, const char *name, const char *root, struct err *e);
void torch_free(struct torchfile *f);
int torch_tensors(const struct torchfile *f);
/* data is NULL where the elements do not lie in the file one after the other, in this machine's order: torch_gather. Borrowed. */
const struct st_tensor *torch_get(const struct torchfile *f, int i);
/* `count` elements of tensor i, from the row-major index `from` on, raw. Inflates what is deflated, one storage at a time. */
int torch_gather(struct torchfile *f, int i, int64_t from, int64_t count, void *out, struct err *e);
/* Every storage: its checksum, where the file has them (zip_layout), and how many of its numbers are not finite. */
int torch_verify(struct torchfile *f, int64_t *not_finite, struct err *e);

int torch_is_zip(const struct torchfile *f);
const char *torch_root(const struct torchfile *f); /* the one that was chosen or given */
/* What stands at a dotted path below the root where no tensor does, in words: "a call of numpy.core.multiarray._reconstruct"; NULL: nothing.
 * Caller frees with mem_free. */
char *torch_describe(const struct torchfile *f, const char *path);
/* The file's outermost members: {"ema": 42, "opt": 84, "args": "argparse.Namespace", "steps": 5}: tensors in them, or what they are.
 * NULL where it is no dict. Caller frees with json_decref. */
json_t *torch_members(const struct torchfile *f);
/* Tensors that are there and not read, and what the first of them is made of; NULL: none. */
int torch_skipped(const struct torchfile *f, const char **what);

#endif
