/* Finds the nearest of many 64-bit hashes by Hamming distance, up to a largest distance.
 *
 * An entry has HASHINDEX_PARTS hashes: those of the first, the middle and the last frame of a clip, or three times that of a picture. The
 * distance of two entries is the largest of the distances of their parts, so that clips are near only if they begin, go on and end alike.
 *
 * The middle hashes are indexed by each of their four 16-bit bands: if two hashes differ in at most d bits, they differ in at most d / 4 bits in
 * one of the bands (multi-index hashing, Norouzi et al. 2012). A search visits the bands' values that differ in so many bits from its own. */
#ifndef DDM_CLUSTER_HASHINDEX_H
#define DDM_CLUSTER_HASHINDEX_H

#include <stdint.h>

enum { HASHINDEX_PARTS = 3 };

struct hashindex;

/* An empty index for distances up to `most`, 0 .. 64. Caller frees with hashindex_free. */
struct hashindex *hashindex_new(int most);
void hashindex_free(struct hashindex *x); /* NULL is allowed */

/* Add an entry; entries are numbered from 0. */
void hashindex_add(struct hashindex *x, const uint64_t hash[HASHINDEX_PARTS]);

/* The nearest entry with a distance of at most `most`, of equally near ones the first: its number and *distance, or -1. */
int64_t hashindex_nearest(const struct hashindex *x, const uint64_t hash[HASHINDEX_PARTS], int *distance);

int hashindex_distance(const uint64_t a[HASHINDEX_PARTS], const uint64_t b[HASHINDEX_PARTS]);

#endif
