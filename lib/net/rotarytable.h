/* Tables of cosines and sines for rotary positions (op_rotary) of tokens on a grid: of time, row and column, or fewer axes.
 *
 * Su et al. 2021 turn pair i of a head's channels at position p by the angle p / theta^(2 i / d). With several axes each has channels of its
 * own (FLUX.1, Wan 2.1): the first pairs[0] pairs turn with axis 0, the next pairs[1] with axis 1, and so on, where an axis of n pairs has the
 * frequencies theta^(-i / n).
 */
#ifndef DDM_NET_ROTARYTABLE_H
#define DDM_NET_ROTARYTABLE_H

#include "tape/tape.h"

enum { ROTARY_AXES = 3 };

struct rotary_axes {
	int axes;
	int64_t size[ROTARY_AXES];  /* positions along each axis; tokens are numbered row-major, the last axis fastest */
	int64_t pairs[ROTARY_AXES]; /* pairs of channels of each axis */
	double start[ROTARY_AXES];  /* position of the first token along each axis */
	double theta;               /* 10000 is usual */
};

/* Divide a head of `width` channels as Wan does: a third each to rows and columns, rounded down to whole pairs, the rest to time. */
void rotary_split(int64_t width, int64_t pairs[ROTARY_AXES]);

/* cosine, sine (T, P), T the product of the sizes, P the sum of the pairs. Computed in double; the bits are the same on every machine. */
void rotary_fill(const struct rotary_axes *a, double *cosine, double *sine);

/* The tables as constants of a tape: (T, P) each. */
void rotary_record(struct tape *t, const struct rotary_axes *a, struct tensor **cosine, struct tensor **sine);

#endif
