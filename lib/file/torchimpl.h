/* What lib/file/torchfile.c (layouts, data) and torchtree.c (what the pickle says) share. */
#ifndef DDM_FILE_TORCHIMPL_H
#define DDM_FILE_TORCHIMPL_H

#include "file/nametable.h"
#include "file/pickle.h"
#include "file/torchfile.h"
#include "file/zipfile.h"

struct torch_storage {
	const char *key; /* len bytes */
	size_t len;
	const char *made;  /* its class, "torch.FloatStorage" */
	int type;          /* enum st_type; ST_U8 where its tensors say; -1: elements that are not read */
	int untyped, meta; /* meta: without data */
	int64_t elements;
	const struct zip_member *member; /* of the zip layout */
	const uint8_t *data;             /* NULL: deflated, or not there */
	uint64_t bytes;                  /* elements * size; 0 where type is -1 */
};

struct torch_tensor {
	struct st_tensor t;
	int storage;
	int64_t offset, stride[ST_RANK];
	const struct pickle_value *parent; /* the container it stands in */
};

struct torchfile {
	const char *where;
	struct arena arena;
	struct zip *zip; /* NULL: the layout before it */
	struct pickle pickle;
	int big, checksums;
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
	void *plain; /* the deflated storage that was last used */
	int plain_of;
};

/* torchtree.c. One persistent identity: the index of its storage; -1: no storage, or an error (e->code). The file's table need not hold it. */
int torch_take_storage(const struct torchfile *f, const struct pickle_value *id, struct torch_storage *s, struct err *e);
/* Fills root, tensors and names. The storages are known. */
int torch_read_tree(struct torchfile *f, const char *root, struct err *e);

#endif
