/* How the CPU's kernels divide their work: rounding divisions, and the rows of a product's tasks. */
#ifndef DDM_KERNELS_CUT_H
#define DDM_KERNELS_CUT_H

#include <stdint.h>

static inline int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static inline int64_t round_up(int64_t a, int64_t b)
{
	return ceil_div(a, b) * b;
}

/* The rows of a task: the multiple of `step` from about most / 2 to `most` that gives the busiest worker the fewest of the m rows. `most` is a
 * multiple too. `across`: tasks that have the same rows. For example, 2,048 rows in tasks of 192 are 11 tasks, of which one of two workers does six;
 * in tasks of 132 they are 16, and each does eight. */
static inline int64_t cut_rows(int64_t m, int64_t most, int64_t step, int64_t across, int64_t workers)
{
	int64_t best = most, least = INT64_MAX;

	for (int64_t rows = most; rows > 0 && rows >= most / 2; rows -= step) {
		int64_t busiest = ceil_div(ceil_div(m, rows) * across, workers) * rows;

		if (busiest < least) {
			least = busiest;
			best = rows;
		}
	}
	return best;
}

/* A part of a matrix that is divided into mt rows of nt parts. */
struct cut {
	int64_t row, column;
};

/* The part that task `task` of pool_spread computes. A worker's share of the tasks is a few neighbouring rows of parts. It goes down one column of
 * them after the other, because the parts of a column read the same piece of an operand. */
static inline struct cut cut_part(int64_t task, int64_t mt, int64_t nt, int64_t workers)
{
	int64_t shares = min64(workers, mt), first = 0, end = mt / shares, of;

	for (int64_t i = 1; task >= end * nt; i++) {
		first = end;
		end = mt * (i + 1) / shares;
	}
	of = end - first;
	task -= first * nt;
	return (struct cut){first + task % of, task / of};
}

#endif
