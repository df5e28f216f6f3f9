/* Perceptual hashes of pictures: 64 bits that change little when a picture is resized, recompressed or slightly changed. They are those of the Python
 * package imagehash, version 4.3.2 with Pillow up to 12, bit for bit, so hashes can be exchanged with other tools. */
#ifndef DDM_CLUSTER_IMAGEHASH_H
#define DDM_CLUSTER_IMAGEHASH_H

#include <stdint.h>

#include "core/err.h"
#include "file/still.h"

enum imagehash_kind {
	IMAGEHASH_PHASH, /* signs of the 8 x 8 lowest coefficients of a DCT of 32 x 32 pixels, relative to their median */
	IMAGEHASH_DHASH, /* whether each of 9 x 8 pixels is darker than its right neighbour */
	IMAGEHASH_AHASH  /* whether each of 8 x 8 pixels is lighter than the mean */
};

/* "phash", "dhash", "ahash", NULL-terminated, in the order of enum imagehash_kind. */
extern const char *const imagehash_names[];

/* The hash of a grey picture (channels 1, as Pillow's mode L). The bit of the first row and column is the highest, as in imagehash's hexadecimal
 * text. ERR_NOMEM. */
int imagehash_of(uint64_t *hash, const struct picture *grey, enum imagehash_kind kind, struct err *e);

/* The unnormalised discrete cosine transform of type II: out[k] = 2 sum of x[i] cos(pi k (2 i + 1) / 64), in place, with the bits of
 * scipy.fftpack.dct. */
void imagehash_dct(double x[32]);

#endif
