/* An axis with readable ticks: steps of 1, 2 or 5 times a power of ten, or decades. */
#ifndef DDM_PLOT_AXIS_H
#define DDM_PLOT_AXIS_H

enum { AXIS_TICKS = 24 };

struct axis {
	double lo, hi; /* the range of values, lo < hi */
	int log;
	double from, to; /* positions of lo and hi in pixels; either may be the larger */
	double tick[AXIS_TICKS];
	char label[AXIS_TICKS][32];
	int n;
};

/* Fit an axis to lo..hi (finite, lo <= hi; positive if `log`) with about `want` ticks. Bit 0 of `exact` keeps lo and bit 1 keeps hi; an end that is
 * not kept moves outward by a small margin. Equal ends are spread. The caller sets from and to. */
void axis_fit(struct axis *a, double lo, double hi, int log, int want, int exact);

double axis_at(const struct axis *a, double v); /* position of a value in pixels */

/* A number as readable text: four digits, no trailing zeros, with an exponent from 1e6 up and below 1e-4. */
void axis_number(char text[32], double v);

#endif
