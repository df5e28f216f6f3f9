/* Counter-based random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11).
 *
 * There is no generator state. Every draw is a pure function of (seed, purpose, step, index, lane), so the noise of sample
 * `index` at step `step` does not depend on threads, batch, ranks or on what was drawn before, and a resumed run needs
 * nothing restored. Normals use this file's own log and sincos, not the C library's, so every build and device agrees. */
#ifndef DDM_CORE_RNG_H
#define DDM_CORE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* What a draw is for: draws of different purposes are independent. Values are part of every result: never renumber. */
enum rng_purpose {
	RNG_INIT = 1,      /* parameter initialisation */
	RNG_SHUFFLE = 2,   /* order of the training data */
	RNG_NOISE = 3,     /* eps of a training sample */
	RNG_TIME = 4,      /* t of a training sample */
	RNG_DROPOUT = 5,   /* dropout of activations */
	RNG_LABEL = 6,     /* label dropout for guidance */
	RNG_FLIP = 7,      /* augmentation */
	RNG_SAMPLE = 8,    /* initial noise of a generated sample */
	RNG_ROUTE = 9,     /* expert drawn for a trajectory */
	RNG_CLUSTER = 10,  /* k-means seeding and subsampling */
	RNG_METRIC = 11,   /* subsets and bootstrap of a metric */
	RNG_VALIDATE = 12, /* fixed noise of val_loss */
	RNG_SOURCE = 13,   /* synthetic sources */
	RNG_TEST = 14,
	RNG_LATENT = 15, /* a latent drawn from its distribution */
	RNG_LAW = 16,    /* the parameters of a law with a known optimum */
	RNG_DRAW = 17,   /* samples of such a law */
	RNG_PROBE = 18,  /* signs of Hutchinson's estimate along a trajectory */
	RNG_GLYPH = 19,  /* factors of pictures of glyphs */
	RNG_FIRST = 20   /* first frames withheld for guidance */
};

/* The bare generator: 10 rounds. */
void philox4x32(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]);

/* Four words of the stream (seed, purpose, step, index), block `lane`. step and index are below 2^44, lane below 2^32. */
void rng_block(uint64_t seed, enum rng_purpose purpose, uint64_t step, uint64_t index, uint32_t lane, uint32_t out[4]);

/* n words of consecutive blocks from `lane` on: what rng_block gives, faster. */
void rng_words(uint32_t *out, size_t n, uint64_t seed, enum rng_purpose purpose, uint64_t step, uint64_t index, uint32_t lane);

/* One uniform in [0, 1) with 53 bits (words 0 and 1 of the block). */
double rng_uniform(uint64_t seed, enum rng_purpose purpose, uint64_t step, uint64_t index, uint32_t lane);

/* One integer, uniform in [0, n), n >= 1; unbiased to 2^-64 n. */
uint64_t rng_below(uint64_t n, uint64_t seed, enum rng_purpose purpose, uint64_t step, uint64_t index, uint32_t lane);

/* n standard normals of one stream (Box-Muller in float on four words at a time: element i comes from block i / 4). */
void rng_normal(float *out, size_t n, uint64_t seed, enum rng_purpose purpose, uint64_t step, uint64_t index);

/* The same from element 4 * lane on. */
void rng_normal_from(float *out, size_t n, uint64_t seed, enum rng_purpose purpose, uint64_t step, uint64_t index, uint32_t lane);

/* Box-Muller on one block. */
void rng_normal4(const uint32_t in[4], float out[4]);

/* A keyed permutation of 0 .. n-1: the element at position i of pass `epoch`. O(1), no table (a Feistel network on the next
 * even power of two, walked back into range). i < n < 2^40. */
uint64_t rng_permute(uint64_t i, uint64_t n, uint64_t seed, enum rng_purpose purpose, uint64_t epoch);

/* Natural log of x in (0, 1], and sin, cos of 2 pi u for u in [0, 1): absolute error below 2e-7, the same bits on every
 * IEEE machine (no fused multiply-add). */
float rng_logf(float x);
void rng_sincos2pif(float u, float *s, float *c);

#endif
