/* Reads a set of features from pictures, vectors or statistics. */
#ifndef DDM_METRIC_EVALREAD_H
#define DDM_METRIC_EVALREAD_H

#include "metric/evalset.h"

/* Read `source`, recognised by its first bytes:
 *   .npz   statistics: mu and sigma, and the other arrays of evalset_write. From other programs also mu_s and sigma_s (guided-diffusion);
 *          vectors named feats (clean-fid), reps (dgm-eval) or features, with logits and spatial beside them; arr_0 as vectors (n, d)
 *          or as 8-bit pictures (n, h, w, 3). mu and sigma beside such pictures are used if the extractor is a network
 *   .npy   features from another program, (n, dims); FILE.npy.json may say "features", "features-hash", "input"
 *   else   samples (data/samples.h); SHARDS is its training part; SHARDS:train, SHARDS:holdout, SHARDS:all name a part.
 * With o->cache the features of samples are read from SET.features-HASH.npz, HASH being of the contents and the recipe; if that file does not
 * exist or is damaged, the features are computed and written there.
 * Errors: ERR_DATA for a damaged source, for pictures that are too small or differ in size, for values that are not finite; those of
 * samples_open. Release with evalset_release. */
int evalset_read(struct evalset *s, const char *source, const struct evalset_options *o, struct err *e);

/* Read class logits or probabilities of the pictures of s from a .npy (n, classes), in the order in which the pictures were read. ERR_DATA if the
 * number of rows differs or the reading order of s is unknown. */
int evalset_logits(struct evalset *s, const char *path, struct err *e);

#endif
