/* Recognises files and folders by their content, not by their names. */
#ifndef DDM_FILE_KIND_H
#define DDM_FILE_KIND_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

enum kind {
	KIND_UNKNOWN,
	KIND_SAFETENSORS,
	KIND_NPY,
	KIND_NPZ,
	KIND_TORCH, /* PyTorch's .pt, .pth, .bin, including layouts that cannot be read */
	KIND_SHARD,
	KIND_TAR, /* or something compressed that may hold one */
	KIND_TABLE,
	KIND_JSON, /* an object, or one a line */
	KIND_STILL,
	KIND_FLAC,
	KIND_MARKUP, /* an SVG or a page with a stamp; or anything else that ends in a seal */
	/* Folders, by the names in them. */
	KIND_SHARDS,     /* MANIFEST.tsv */
	KIND_MODEL,      /* expert_* or router */
	KIND_PIPELINE,   /* model_index.json: networks of diffusers that work together */
	KIND_NETWORK,    /* config.json, weights or a training in progress: one expert, one router */
	KIND_TRAIN,      /* step-* */
	KIND_CHECKPOINT, /* MANIFEST.json */
	KIND_FOLDER      /* any other */
};

/* The kind of a file by its whole content. A damaged file is recognised by its intact parts; its reader reports the damage. */
enum kind kind_of_bytes(const void *data, size_t len);

/* 1 if the name, in particular its end, looks like a file that the programs read. */
int kind_promised(const char *name);

/* The kind of a folder. */
int kind_of_folder(const char *path, enum kind *kind, struct err *e);

#endif
