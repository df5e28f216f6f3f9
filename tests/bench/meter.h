/* Speed beside a yardstick, on a machine that others may use too. Work and yardstick (a product in cache, a copy) take turns in
 * short slots; a pair is one slot of work and the mean of the yardstick's before and after it. What slows both, a competing
 * process or a changed clock, cancels in the pair's ratio; the figure is the median of the pairs. Of pairs in which our threads
 * had to wait for a processor the quieter half counts. One thread is timed by its own processor time, which other
 * processes hardly change; several by the clock, for which the machine must be quiet. */
#ifndef DDM_TESTS_METER_H
#define DDM_TESTS_METER_H

#include "core/pool.h"

/* Something that can be done again and again, and what one call is worth: FLOP or bytes. */
struct duty {
	void (*once)(void *arg);
	void *arg;
	double amount;
};

struct reading {
	double rate;     /* amount per second */
	double fraction; /* of the yardstick's rate at the same time */
	double spread;   /* half of what the quartiles of the fraction are apart */
	int pairs;
};

/* The arguments every benchmark takes: [-t THREADS] [-s SECONDS] [PATTERN]. Exits on others, and where no pool can be had. */
struct bench {
	const char *name;
	struct pool *pool;
	double seconds;      /* of a line, instead of what the benchmark finds right; 0: not given */
	const char *pattern; /* only lines whose name holds it; NULL: all */
};

void bench_start(struct bench *b, const char *name, int argc, char **argv);
void bench_end(struct bench *b); /* says on stderr when the machine was not quiet */
int bench_wants(const struct bench *b, const char *line);

/* What one thread each can do at once, at best: of a fixed list of products in cache the fastest here. Its amount is in FLOP. */
const struct duty *yard_product(struct bench *b);
/* A copy on all threads that reads and writes `bytes` altogether, in memory it keeps between calls. Its amount is in bytes. */
const struct duty *yard_copy(struct bench *b, double bytes);

/* For about `seconds` (or -s), in slots of at least `slot` seconds and one call; at least three pairs. */
struct reading bench_read(struct bench *b, const struct duty *work, const struct duty *yard, double slot, double seconds);

/* One line: name, value, unit, fraction, spread of the fraction. */
void bench_print(const char *name, double value, const char *unit, const struct reading *r);

#endif
