/* What lib/file/torchfile.c (layouts, data) and torchtree.c (what the pickle says) share. */
#ifndef DDM_FILE_TORCHIMPL_H
#define DDM_FILE_TORCHIMPL_H

#include "file/nametable.h"
#include "file/pickle.h"
#include "file/torchfile.h"
#include "file/zipfile.h"

struct torch_storage {
	const char *key; /* the storage's name in the file, len bytes */
	size_t len;
	const char *made;  /* its class, "torch.FloatStorage" */
	int type;          /* enum st_type; ST_U8 if its tensors have the dtype (untyped); -1: a dtype that is not supported */
	int untyped, meta; /* meta: without data */
	int64_t elements;
	const struct zip_member *member; /* zip layout only */
	const uint8_t *data;             /* NULL: deflated, or without data */
	uint64_t bytes;                  /* elements * element size; 0 if type is -1 */
};

struct torch_tensor {
	struct st_tensor t;
	int storage;
	int64_t offset, stride[ST_RANK];   /* in elements */
	const struct pickle_value *parent; /* the container that holds the tensor */
};

struct torchfile {
	const char *where;
	struct arena arena;
	struct zip *zip; /* NULL: the older layout */
	struct pickle pickle;
	int big, checksums; /* big-endian; the zip's checksums are valid */
	struct torch_storage *storage;
	int storages;
	struct nametable keys;
	const struct pickle_value *root;
	const char *root_name;
	struct torch_tensor *tensor;
	int n, cap;
	struct nametable names;
	int skipped;
	const char *skipped_what;
	void *plain;  /* the deflated storage inflated last */
	int plain_of; /* its index; -1: none */
};

/* torchtree.c. Read a persistent id into *s: the index of its storage in f; -1: not a storage, or an error (e->code). */
int torch_take_storage(const struct torchfile *f, const struct pickle_value *id, struct torch_storage *s, struct err *e);
/* Fill in root, tensors and names. The storages must be known. */
int torch_read_tree(struct torchfile *f, const char *root, struct err *e);

#endif
