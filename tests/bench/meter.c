/* Times work and its yardstick in alternating slots. */
#include "tests/bench/meter.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/str.h"
#include "kernels/gemm.h"
#include "kernels/gemm_bf16.h"

enum { PAIRS = 3, MOST = 400, TRIALS = 7 };
static const double YARD_SLOT = .01, QUIET = .01;

static double waited_total, wall_total;

void bench_start(struct bench *b, const char *name, int argc, char **argv)
{
	struct err e = {0};
	int64_t threads = 0;
	int bad = 0, c;

	*b = (struct bench){.name = name};
	while ((c = getopt(argc, argv, "qt:s:")) != -1)
		if (c == 'q')
			b->quick = 1;
		else
			bad |= c == 't' ? parse_i64(optarg, 0, 1024, &threads) : c == 's' ? parse_f64(optarg, 0, 3600, &b->seconds) : 1;
	if (optind < argc)
		b->pattern = argv[optind++];
	if (bad || optind < argc) {
		fprintf(stderr, "usage: %s [-q] [-t THREADS] [-s SECONDS] [PATTERN]\n", name);
		exit(2);
	}
	b->pool = pool_new((int)threads, &e);
	if (!b->pool) {
		fprintf(stderr, "%s: %s\n", name, e.msg);
		exit(e.code);
	}
}

int bench_wants(const struct bench *b, const char *line)
{
	return !b->pattern || strstr(line, b->pattern);
}

void bench_end(struct bench *b)
{
	if (wall_total > 0 && waited_total / wall_total > QUIET)
		fprintf(stderr, "%s: our threads waited %.0f%% of the time for a processor: other processes run here\n", b->name,
		        100 * waited_total / wall_total);
	pool_free(b->pool);
}

/* ---- time ---- */

static double now(const struct bench *b)
{
	struct timespec t;

	if (pool_threads(b->pool) > 1)
		return clock_seconds();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds for which our threads were ready to run but had no processor, summed over the threads; 0 if the kernel does not report it. */
static double waited(void)
{
	DIR *d = opendir("/proc/self/task");
	const struct dirent *t;
	double sum = 0;

	while (d && (t = readdir(d))) {
		char path[300];
		FILE *f;
		double ran, ready;

		snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", t->d_name);
		f = *t->d_name == '.' ? NULL : fopen(path, "re");
		if (f && fscanf(f, "%lf %lf", &ran, &ready) == 2)
			sum += ready * 1e-9;
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return sum;
}

/* Seconds of one call, measured over at least `slot` seconds and at least one call. */
static double slot_run(const struct bench *b, const struct duty *d, double slot)
{
	double from = now(b), t;
	int n = 0;

	do {
		d->once(d->arg);
		n++;
		t = now(b) - from;
	} while (t < slot);
	return t / n;
}

struct pair {
	double work, ratio, waited; /* seconds of a call; the yardstick's seconds over them; share of the pair's time spent waiting */
};

static int by_waited(const void *a, const void *b)
{
	double x = ((const struct pair *)a)->waited, y = ((const struct pair *)b)->waited;

	return x < y ? -1 : x > y;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double quantile(const double *sorted, int n, double q)
{
	double at = q * (n - 1);
	int i = (int)at;

	return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

/* The number of pairs to use: all on a quiet machine; if some waited, the quieter half, but at least PAIRS. */
static int quiet_pairs(struct pair *p, int n)
{
	int keep = n;

	qsort(p, (size_t)n, sizeof *p, by_waited);
	while (keep > PAIRS && keep > n / 2 && p[keep - 1].waited > QUIET)
		keep--;
	return keep;
}

struct reading bench_read(struct bench *b, const struct duty *work, const struct duty *yard, double slot, double seconds)
{
	static struct pair pair[MOST];
	double v[MOST], before, until;
	struct reading r = {0};
	int n = 0, keep;

	slot_run(b, work, 0);
	before = slot_run(b, yard, YARD_SLOT);
	until = now(b) + (b->seconds > 0 ? b->seconds : seconds);
	while (n < MOST && (n < PAIRS || now(b) < until)) {
		double from = clock_seconds(), ready = waited(), each = slot_run(b, work, slot), after = slot_run(b, yard, YARD_SLOT);
		double wall = clock_seconds() - from;

		ready = waited() - ready;
		waited_total += ready / pool_threads(b->pool);
		wall_total += wall;
		pair[n++] = (struct pair){each, (before + after) / 2 / each, ready / wall / pool_threads(b->pool)};
		before = after;
	}
	keep = quiet_pairs(pair, n);
	for (int i = 0; i < keep; i++)
		v[i] = pair[i].work;
	qsort(v, (size_t)keep, sizeof *v, by_value);
	r.rate = work->amount / quantile(v, keep, .5);
	for (int i = 0; i < keep; i++)
		v[i] = pair[i].ratio * work->amount / yard->amount;
	qsort(v, (size_t)keep, sizeof *v, by_value);
	r.fraction = quantile(v, keep, .5);
	r.spread = (quantile(v, keep, .75) - quantile(v, keep, .25)) / 2;
	r.pairs = keep;
	return r;
}

void bench_print(const char *name, double value, const char *unit, const struct reading *r)
{
	printf("%s\t%.4g\t%s\t%.3f\t%.3f\n", name, value, unit, r->fraction, r->spread);
	fflush(stdout);
}

/* ---- yardsticks ---- */

/* The same product on every thread, with its own operands, which stay in its second-level cache. */
struct product {
	struct gemm g;
	int bf16;
	struct pool *pool;
	char *mem;
	size_t each; /* bytes of a thread's operands */
	struct duty duty;
};

enum { YARDS = 6 }; /* products of a list, at most */

static struct product products[YARDS] = {
    {.g = {.tb = GEMM_T, .m = 384, .n = 384, .k = 384, .lda = 384, .ldb = 384, .ldc = 384}},
    {.g = {.m = 384, .n = 384, .k = 384, .lda = 384, .ldb = 384, .ldc = 384}},
    {.g = {.m = 192, .n = 768, .k = 384, .lda = 384, .ldb = 768, .ldc = 768}},
    {.g = {.tb = GEMM_T, .m = 768, .n = 128, .k = 384, .lda = 384, .ldb = 384, .ldc = 128}},
    {.g = {.m = 768, .n = 192, .k = 192, .lda = 192, .ldb = 192, .ldc = 192}},
    {.g = {.ta = GEMM_T, .m = 192, .n = 192, .k = 768, .lda = 192, .ldb = 192, .ldc = 192}},
};

static struct product bf16_products[] = {
    {.bf16 = 1, .g = {.tb = GEMM_T, .m = 384, .n = 384, .k = 384, .lda = 384, .ldb = 384, .ldc = 384}},
    {.bf16 = 1, .g = {.m = 768, .n = 192, .k = 384, .lda = 384, .ldb = 192, .ldc = 192}},
    {.bf16 = 1, .g = {.tb = GEMM_T, .m = 1152, .n = 192, .k = 192, .lda = 192, .ldb = 192, .ldc = 192}},
};

static void product_task(void *arg, int64_t task, int worker)
{
	const struct product *p = arg;
	float *a = (float *)(p->mem + (size_t)task * p->each), *b = a + p->g.m * p->g.k, *c = b + p->g.k * p->g.n;

	(void)worker;
	if (p->bf16)
		gemm_bf16_run(NULL, compact_isa(), &p->g, 0, c, a, b, NULL, c + p->g.m * p->g.n);
	else
		gemm_serial_f32(&p->g, c, a, b, NULL, c + p->g.m * p->g.n);
}

static void product_once(void *arg)
{
	struct product *p = arg;

	pool_run(p->pool, pool_threads(p->pool), product_task, p);
}

static void product_init(struct product *p, struct pool *pool)
{
	size_t floats = (size_t)(p->g.m * p->g.k + p->g.k * p->g.n + p->g.m * p->g.n);
	int threads = pool_threads(pool);

	p->pool = pool;
	p->each = (floats * sizeof(float) + (p->bf16 ? gemm_bf16_scratch(&p->g, 0, 1) : gemm_scratch_f32(&p->g, 1)) + 63) / 64 * 64;
	p->mem = mem_try((size_t)threads, p->each, "yardstick", NULL);
	if (!p->mem)
		abort();
	p->duty = (struct duty){product_once, p, 2. * threads * (double)p->g.m * (double)p->g.n * (double)p->g.k};
}

/* The fastest of n products on this machine. */
static const struct duty *fastest(struct bench *b, struct product *from, int n)
{
	double t[YARDS][TRIALS];
	int best = -1;

	for (int i = 0; i < n; i++)
		product_init(&from[i], b->pool);
	for (int k = 0; k < TRIALS; k++)
		for (int i = 0; i < n; i++)
			t[i][k] = slot_run(b, &from[i].duty, YARD_SLOT) / from[i].duty.amount;
	for (int i = 0; i < n; i++) {
		qsort(t[i], TRIALS, sizeof **t, by_value);
		if (best < 0 || t[i][TRIALS / 4] < t[best][TRIALS / 4])
			best = i;
	}
	for (int i = 0; i < n; i++)
		if (i != best)
			mem_free(from[i].mem);
	return &from[best].duty;
}

const struct duty *yard_product(struct bench *b)
{
	static const struct duty *best;

	return best ? best : (best = fastest(b, products, sizeof products / sizeof *products));
}

const struct duty *yard_bf16(struct bench *b)
{
	static const struct duty *best;

	return best ? best : (best = fastest(b, bf16_products, sizeof bf16_products / sizeof *bf16_products));
}

struct copy {
	struct pool *pool;
	char *mem;
	size_t held, share; /* bytes of mem; bytes that a thread copies */
	struct duty duty;
};

static void copy_task(void *arg, int64_t task, int worker)
{
	const struct copy *c = arg;
	size_t half = c->held / 2, at = (size_t)task * c->share;

	(void)worker;
	memcpy(c->mem + at, c->mem + half + at, c->share);
}

static void copy_once(void *arg)
{
	struct copy *c = arg;

	pool_run(c->pool, pool_threads(c->pool), copy_task, c);
}

const struct duty *yard_copy(struct bench *b, double bytes)
{
	static struct copy c;
	size_t threads = (size_t)pool_threads(b->pool);

	c.pool = b->pool;
	c.share = ((size_t)(bytes / 2) / threads + 63) / 64 * 64;
	if (c.held < 2 * threads * c.share) {
		mem_free(c.mem);
		c.held = 2 * threads * c.share;
		c.mem = mem_try(c.held, 1, "yardstick", NULL);
		if (!c.mem)
			abort();
	}
	c.duty = (struct duty){copy_once, &c, 2. * (double)(threads * c.share)};
	return &c.duty;
}
