/* Latents in safetensors, as LightningDiT's extraction leaves them: "latents" (n, C, H, W), and, where they are there, "latents_flip" of the
 * mirrored pictures and "labels" (n). */
#ifndef DDM_DATA_LATENTS_H
#define DDM_DATA_LATENTS_H

#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

struct latents;

/* Whether a file is one: named .safetensors, with a tensor "latents" of rank 4. A damaged file is none. */
int latents_sniff(const char *path);
/* Their paths in a folder, bytewise order; caller frees with names_free. */
int latents_list(const char *dir, char ***paths, size_t *n, struct err *e);

struct latents *latents_open(const char *path, struct err *e);
void latents_free(struct latents *l);
int64_t latents_count(const struct latents *l);
/* "latents_rank00_shard000/000012", in *key. */
void latents_key(const struct latents *l, int64_t i, struct str *key);
/* Add the bytes of a .npy (C, H, W) of sample i; f16 as such, others as f4. `flip`: of the mirrored one; 0 where there is none. */
int latents_array(const struct latents *l, int64_t i, int flip, struct str *out);
/* -1 where there are no labels, or one that is no class. */
int32_t latents_label(const struct latents *l, int64_t i);

#endif
