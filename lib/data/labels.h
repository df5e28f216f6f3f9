/* Class labels of a folder's samples, kept in a file or a folder beside them. */
#ifndef DDM_DATA_LABELS_H
#define DDM_DATA_LABELS_H

#include <stdint.h>

#include "core/err.h"

struct labels;

/* Find the labels of `dir`. Either dataset.json {"labels": [["00000/img00000000.png", 3], ..]} with paths relative to dir (StyleGAN, EDM, REPA);
 * or a folder NAME_labels beside NAME_features that holds arrays of one number under the same file names (fast-DiT). *samples: the folder that
 * holds the samples, dir or dir/NAME_features; caller frees with mem_free. Returns 1 and *out, freed with labels_free; 0 if there are no labels,
 * and *samples is dir; -1 on error. */
int labels_beside(const char *dir, struct labels **out, char **samples, struct err *e);
void labels_free(struct labels *l);

/* The class of the file at `path`, which begins with the *samples of labels_beside. 1; 0: it has none; -1 on error. */
int labels_get(const struct labels *l, const char *path, int32_t *label, struct err *e);

#endif
