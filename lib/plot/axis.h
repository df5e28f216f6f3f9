/* A scale with readable ticks: steps of 1, 2 or 5 times a power of ten, or decades. */
#ifndef DDM_PLOT_AXIS_H
#define DDM_PLOT_AXIS_H

enum { AXIS_TICKS = 24 };

struct axis {
	double lo, hi; /* of the values, lo < hi */
	int log;
	double from, to; /* pixels of lo and of hi; either may be the larger */
	double tick[AXIS_TICKS];
	char label[AXIS_TICKS][32];
	int n;
};

/* The scale that shows lo..hi (finite, lo <= hi; positive when log) with about `want` ticks. `exact`: bit 0 keeps lo, bit 1 keeps
 * hi; otherwise the ends move outward, by a little margin or to a tick. Equal ends are spread. Pixels are the caller's to set. */
void axis_fit(struct axis *a, double lo, double hi, int log, int want, int exact);

double axis_at(const struct axis *a, double v); /* pixel of a value */

/* A number as a reader wants it: four digits, no needless zeros, 1e6 and up and below 1e-4 with an exponent. */
void axis_number(char text[32], double v);

#endif
