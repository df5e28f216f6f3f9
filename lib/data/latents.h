/* Reads latents in safetensors as LightningDiT's extraction writes them: "latents" (n, C, H, W), and optionally "latents_flip" of the mirrored
 * pictures and "labels" (n). */
#ifndef DDM_DATA_LATENTS_H
#define DDM_DATA_LATENTS_H

#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

struct latents;

/* 1 for a file of latents: named .safetensors, with a tensor "latents" of rank 4. 0 for any other file, a damaged one included. */
int latents_sniff(const char *path);
/* The paths of such files in a folder, in bytewise order; caller frees with names_free. */
int latents_list(const char *dir, char ***paths, size_t *n, struct err *e);

struct latents *latents_open(const char *path, struct err *e);
void latents_free(struct latents *l);
int64_t latents_count(const struct latents *l);
/* The key of sample i in *key, such as "latents_rank00_shard000/000012". */
void latents_key(const struct latents *l, int64_t i, struct str *key);
/* Append the bytes of a .npy (C, H, W) of sample i: f16 is kept, other types become f4. `flip`: of the mirrored picture. 0 if there is none. */
int latents_array(const struct latents *l, int64_t i, int flip, struct str *out);
/* The class of sample i; -1 without labels, or if the label is not a valid class. */
int32_t latents_label(const struct latents *l, int64_t i);

#endif
