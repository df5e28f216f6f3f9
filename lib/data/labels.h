/* Class labels of a folder's samples, kept in a file or a folder beside them. */
#ifndef DDM_DATA_LABELS_H
#define DDM_DATA_LABELS_H

#include <stdint.h>

#include "core/err.h"

struct labels;

/* Of `dir`: dataset.json {"labels": [["00000/img00000000.png", 3], ..]} with paths below dir (StyleGAN, EDM, REPA), or the folder
 * NAME_labels of arrays of one number beside NAME_features, by the same file names (fast-DiT). *samples: the folder that holds the samples, dir
 * or dir/NAME_features; caller frees with mem_free. 1 and *out, which the caller frees; 0: there are none, and *samples is dir; -1. */
int labels_beside(const char *dir, struct labels **out, char **samples, struct err *e);
void labels_free(struct labels *l);

/* The class of the file at `path`, which begins with *samples. 1; 0: it has none; -1. */
int labels_get(const struct labels *l, const char *path, int32_t *label, struct err *e);

#endif
