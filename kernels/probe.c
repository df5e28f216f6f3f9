/* Measures the speed of a device's matrix product and copy with its own kernels. */
#include "kernels/probe.h"

#include "core/clock.h"
#include "core/rng.h"

enum { FIRST_SIDE = 512, LAST_SIDE = 8192, TRIES = 8, MOST = 100, COPIES = 4, BLOCK = 256 << 20, LEAST_BLOCK = 1 << 20 };
static const double LONG_ENOUGH = 1e-3, WORTH = 8e-3; /* seconds: of one product, and of a series timed together */

/* A product of random matrices: zeros draw less power and run faster. */
struct square {
	struct device *d;
	struct array x, w, y;
	void *scratch;
};

static struct op_call square_call(const struct square *q)
{
	return (struct op_call){.nin = 2, .nout = 1, .in = {q->x, q->w}, .out = {q->y}};
}

static void square_release(struct square *q)
{
	q->d->release(q->d, q->x.data);
	q->d->release(q->d, q->w.data);
	q->d->release(q->d, q->y.data);
	q->d->release(q->d, q->scratch);
}

static int fill_random(struct square *q, struct array *a, uint64_t first)
{
	const struct run_keys keys = {.seed = 1, .first = first, .purpose = RNG_NOISE};
	struct run_keys *there = q->d->alloc(q->d, sizeof keys, "speed probe", NULL);
	struct op_call c = {.nout = 1, .out = {*a}, .keys = there};

	if (!there)
		return -1;
	device_put(q->d, there, &keys, sizeof keys);
	device_run(q->d, OP_NOISE, &c, NULL);
	q->d->release(q->d, there);
	return 0;
}

static int square_init(struct square *q, struct device *d, int64_t side)
{
	enum dtype t = d->storage >> DT_BF16 & 1 ? DT_BF16 : d->real;
	size_t bytes = (size_t)(side * side) * dtype_size(t), scratch;
	struct array a = {.dtype = t, .rank = 2, .shape = {side, side}, .stride = {side, 1}};
	struct op_call c;

	*q = (struct square){d, a, a, a, NULL};
	c = square_call(q);
	scratch = device_scratch(d, OP_LINEAR, &c);
	if ((q->x.data = d->alloc(d, bytes, "speed probe", NULL)) && (q->w.data = d->alloc(d, bytes, "speed probe", NULL)) &&
	    (q->y.data = d->alloc(d, bytes, "speed probe", NULL)) && (q->scratch = d->alloc(d, scratch, "speed probe", NULL)) &&
	    !fill_random(q, &q->x, 0) && !fill_random(q, &q->w, (uint64_t)side))
		return 0;
	square_release(q);
	return -1;
}

/* Seconds per product, of n submitted together. */
static double square_time(const struct square *q, int n)
{
	double start;

	q->d->sync(q->d, NULL);
	start = clock_seconds();
	for (int i = 0; i < n; i++) {
		struct op_call c = square_call(q);

		device_run(q->d, OP_LINEAR, &c, q->scratch);
	}
	q->d->sync(q->d, NULL);
	return (clock_seconds() - start) / n;
}

double probe_flops(struct device *d)
{
	double best = 0, seconds = 0;

	for (int64_t side = FIRST_SIDE; side <= LAST_SIDE && seconds < LONG_ENOUGH; side *= 2) {
		double flops = 2. * (double)side * (double)side * (double)side;
		struct square q;

		if (square_init(&q, d, side))
			break;
		square_time(&q, 1); /* the first one chooses an algorithm */
		seconds = square_time(&q, 1);
		for (int i = 0; i < TRIES; i++) {
			double t = square_time(&q, seconds < WORTH / MOST ? MOST : seconds < WORTH ? (int)(WORTH / seconds) : 1);

			seconds = t < seconds ? t : seconds;
		}
		best = flops / seconds > best ? flops / seconds : best;
		square_release(&q);
	}
	return best;
}

/* Seconds per copy, of COPIES submitted together. */
static double copy_time(struct device *d, char *p, size_t bytes)
{
	double start;

	d->sync(d, NULL);
	start = clock_seconds();
	for (int i = 0; i < COPIES; i++)
		device_copy(d, p, p + bytes, bytes);
	d->sync(d, NULL);
	return (clock_seconds() - start) / COPIES;
}

double probe_bytes(struct device *d)
{
	size_t bytes = BLOCK;
	char *p = NULL;
	double seconds;

	while (bytes >= LEAST_BLOCK && !(p = d->alloc(d, 2 * bytes, "speed probe", NULL)))
		bytes /= 2;
	if (!p)
		return 0;
	seconds = copy_time(d, p, bytes);
	for (int i = 0; i < TRIES; i++) {
		double t = copy_time(d, p, bytes);

		seconds = t < seconds ? t : seconds;
	}
	d->release(d, p);
	return 2. * (double)bytes / seconds;
}
