/* Measures speed relative to a yardstick, on a machine that other processes may use too. Work and yardstick (a product in cache, or a copy)
 * alternate in short slots. A pair is one slot of work with the mean of the yardstick slots before and after it. Whatever slows both, such as
 * another process or a changed clock rate, cancels in the pair's ratio. The result is the median of the pairs. If our threads had to wait for a
 * processor in some pairs, only the quieter half of the pairs counts. One thread is timed by its own processor time, which other processes hardly
 * change; several threads are timed by the clock, for which the machine must be quiet. */
#ifndef DDM_TESTS_METER_H
#define DDM_TESTS_METER_H

#include "core/pool.h"

/* Work that can be repeated. amount: FLOP or bytes of one call. */
struct duty {
	void (*once)(void *arg);
	void *arg;
	double amount;
};

struct reading {
	double rate;     /* amount per second */
	double fraction; /* of the yardstick's rate at the same time */
	double spread;   /* half the distance between the quartiles of the fraction */
	int pairs;
};

/* The arguments of every benchmark: [-q] [-t THREADS] [-s SECONDS] [PATTERN]. bench_start exits on other arguments, and if it cannot make a pool. */
struct bench {
	const char *name;
	struct pool *pool;
	int quick;           /* shapes so small that they only try the program; benchmarks without such shapes ignore it */
	double seconds;      /* per line, in place of the benchmark's own choice; 0: not given */
	const char *pattern; /* run only lines whose name contains it; NULL: all */
};

void bench_start(struct bench *b, const char *name, int argc, char **argv);
void bench_end(struct bench *b); /* warns on stderr if the machine was not quiet */
int bench_wants(const struct bench *b, const char *line);

/* A yardstick of arithmetic: the fastest product in cache of a fixed list, on each thread at once. Its amount is in FLOP. */
const struct duty *yard_product(struct bench *b);
/* The same of bf16 products (kernels/gemm_bf16.h), by this CPU's fastest instructions. */
const struct duty *yard_bf16(struct bench *b);
/* A yardstick of memory: a copy on all threads that reads and writes `bytes` in total. Calls reuse its memory. Its amount is in bytes. */
const struct duty *yard_copy(struct bench *b, double bytes);

/* Measure for about `seconds` (or -s). A slot is at least `slot` seconds and at least one call. Takes at least three pairs. */
struct reading bench_read(struct bench *b, const struct duty *work, const struct duty *yard, double slot, double seconds);

/* One line: name, value, unit, fraction, spread of the fraction. */
void bench_print(const char *name, double value, const char *unit, const struct reading *r);

#endif
