/* Draws a curve in one line of text. */
#include "plot/sparkline.h"

#include <math.h>

#include "core/mem.h"

enum { LEVELS = 8 };

static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char plain[] = "_.-~=+*#";

/* The mean of the finite y in each part; NaN: there is none. */
static void part_means(double *mean, int width, const int64_t *x, const double *y, int64_t n)
{
	int64_t *count = mem_zalloc((size_t)width, sizeof *count), end = n && x[n - 1] > 0 ? x[n - 1] : 1;

	for (int p = 0; p < width; p++)
		mean[p] = 0;
	for (int64_t i = 0; i < n; i++) {
		/* x = end belongs to the last part, and so every part holds its upper bound. */
		int p = x[i] > 0 ? (int)(((double)x[i] - .5) * width / (double)end) : 0;

		p = p < width ? p : width - 1;
		if (!isfinite(y[i]))
			continue;
		mean[p] += y[i];
		count[p]++;
	}
	for (int p = 0; p < width; p++)
		mean[p] = count[p] ? mean[p] / (double)count[p] : NAN;
	mem_free(count);
}

void sparkline(struct str *out, const int64_t *x, const double *y, int64_t n, int width, int utf8)
{
	double *mean = mem_alloc((size_t)width * sizeof *mean), low = INFINITY, high = -INFINITY;

	width = n < width ? (int)n : width;
	part_means(mean, width, x, y, n);
	for (int p = 0; p < width; p++)
		low = fmin(low, mean[p]);
	for (int p = 0; p < width && low > 0; p++)
		mean[p] = log(mean[p]);
	low = low > 0 ? log(low) : low;
	for (int p = 0; p < width; p++)
		high = fmax(high, mean[p]);
	for (int p = 0; p < width; p++) {
		double level = high > low ? (mean[p] - low) / (high - low) * LEVELS : 0;
		int i = level < LEVELS - 1 ? (int)level : LEVELS - 1;

		if (isnan(mean[p]))
			str_puts(out, " ");
		else if (utf8)
			str_puts(out, blocks[i]);
		else
			str_add(out, &plain[i], 1);
	}
	mem_free(mean);
}
