/* Reads a set of features from pictures, vectors or statistics. */
#ifndef DDM_METRIC_EVALREAD_H
#define DDM_METRIC_EVALREAD_H

#include "metric/evalset.h"

/* Read `source`, recognised by its first bytes:
 *   .npz   statistics: mu and sigma, and what evalset_write adds; as other tools write them also mu_s and sigma_s (guided-diffusion),
 *          vectors called feats (clean-fid), reps (dgm-eval) or features, with logits and spatial beside them; arr_0 as vectors (n, d)
 *          or as pictures (n, h, w, 3) of 8 bits, to which mu and sigma beside them belong where the extractor is a network
 *   .npy   features made elsewhere, (n, dims); FILE.npy.json may say "features", "features-hash", "input"
 *   else   samples (data/samples.h); SHARDS is its training part, SHARDS:train, SHARDS:holdout, SHARDS:all say which.
 * With o->cache the features of samples are read from SET.features-HASH.npz, HASH being of the contents and the recipe, where that is
 * there; else they are written there. What is cached and damaged is computed again.
 * Errors: ERR_DATA for a damaged source, pictures of unlike or too small a size, values that are not finite; those of
 * samples_open. Release with evalset_release. */
int evalset_read(struct evalset *s, const char *source, const struct evalset_options *o, struct err *e);

/* Class logits or probabilities of the pictures of s, from a .npy (n, classes) in the order they were read. ERR_DATA where they do not fit. */
int evalset_logits(struct evalset *s, const char *path, struct err *e);

#endif
