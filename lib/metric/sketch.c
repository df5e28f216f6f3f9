/* Finds principal axes by orthogonal iteration, and maps vectors to sketches with a bound of the rounding error. */
#include "metric/sketch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "kernels/gemm.h"
#include "metric/distances.h"
#include "metric/gram.h"
#include "metric/moments.h"

enum {
	SAMPLED = 4096,  /* vectors whose covariance gives the axes */
	ITERATIONS = 3,  /* of the subspace; its quality only affects speed */
	MOST_AXES = 640, /* chosen automatically */
	WORTH = 16000,   /* vectors from which on axes pay */
	BLOCK = 64,      /* vectors mapped at a time */
	SPLIT = 16,      /* leading coordinates that the order is split along */
	LANES = 8        /* partial sums of a product of two axes */
};

#define ENOUGH (1. / 8)   /* of the variance may be left beside the axes */
#define HOPELESS (1. / 3) /* of the variance left: axes would save too little */

/* ---- axes ---- */

static double product(const double *a, const double *b, int d)
{
	double part[LANES] = {0}, sum = 0;
	int k = 0;

	for (; k + LANES <= d; k += LANES)
		for (int l = 0; l < LANES; l++)
			part[l] += a[k + l] * b[k + l];
	for (; k < d; k++)
		sum += a[k] * b[k];
	for (int l = 0; l < LANES; l++)
		sum += part[l];
	return sum;
}

/* A row of v (k, d) from which the earlier rows are subtracted. */
struct rest {
	double *v;
	int d;
	int64_t done; /* earlier rows */
};

static void rest_task(void *arg, int64_t task, int worker)
{
	const struct rest *r = arg;
	const double *unit = r->v + r->done * r->d;
	double *row = r->v + (r->done + 1 + task) * r->d, along = product(unit, row, r->d);

	(void)worker;
	for (int i = 0; i < r->d; i++)
		row[i] -= along * unit[i];
}

/* Make the rows of v (k, d) orthonormal in order, by modified Gram-Schmidt. Rows that depend on earlier ones become zero. */
static void rows_orthonormalise(double *v, struct pool *pool, int k, int d)
{
	struct rest r = {v, d, 0};
	double largest = 0;

	for (; r.done < k; r.done++) {
		double *row = v + r.done * d, length = sqrt(product(row, row, d));

		largest = length > largest ? length : largest;
		for (int i = 0; i < d; i++)
			row[i] = length > 1e-9 * largest ? row[i] / length : 0;
		if (length > 1e-9 * largest)
			pool_run(pool, k - r.done - 1, rest_task, &r);
	}
}

/* out (k, d) = v c for a symmetric c (d, d). */
static int rows_map(double *out, struct pool *pool, const double *v, const double *c, int k, int d, struct err *e)
{
	struct gemm g = {.m = k, .n = d, .k = d, .lda = d, .ldb = d, .ldc = d, .own = 1};
	char *scratch = mem_try(1, gemm_scratch_f64(&g, pool ? pool_threads(pool) : 1), "principal axes", e);

	if (!scratch)
		return -1;
	gemm_run_f64(pool, &g, out, v, c, NULL, scratch);
	mem_free(scratch);
	return 0;
}

/* The mean and the covariance of a sample of both sets. */
static int sample_moments(double *mean, double *cov, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, struct err *e)
{
	int64_t total = n + m, count = total < SAMPLED ? total : SAMPLED;
	float *sample = mem_try((size_t)count * (size_t)d, sizeof *sample, "principal axes", e);
	struct moments s = {0};
	int rc = sample ? moments_init(&s, d, e) : -1;

	for (int64_t i = 0; !rc && i < count; i++) {
		int64_t at = i * total / count;

		memcpy(sample + i * d, at < n ? x + at * d : y + (at - n) * d, (size_t)d * sizeof *sample);
	}
	if (!rc) {
		moments_add(&s, pool, sample, count);
		rc = moments_result(&s, pool, mean, cov, e);
	}
	moments_release(&s);
	mem_free(sample);
	return rc;
}

/* The number of the leading axes to keep. mapped: axis times covariance. */
static int axes_enough(const struct axes *a, const double *mapped, double trace)
{
	double left = trace;
	int k = 0;

	while (k < a->k && (left > ENOUGH * trace || (k + 1) % 16)) {
		left -= product(a->axis + (int64_t)k * a->d, mapped + (int64_t)k * a->d, a->d);
		k++;
	}
	return left > HOPELESS * trace ? 0 : k;
}

/* The length of a vector can exceed that of its sketch in exact arithmetic by no more than the axes fail to be orthonormal: `apart`, a bound of the
 * norm of (axis axis' - 1). A coordinate is a double product of d terms, so k of them are wrong by at most sqrt(k) d 2^-53 of the vector. The rest is
 * the root of a difference of squares; an error of that difference appears there with its root. Storing a sketch as float adds 2^-24. */
static int axes_slack(struct axes *a, struct pool *pool, struct err *e)
{
	struct gemm g = {.tb = GEMM_T, .m = a->k, .n = a->k, .k = a->d, .lda = a->d, .ldb = a->d, .ldc = a->k, .own = 1};
	size_t scratch = gemm_scratch_f64(&g, pool ? pool_threads(pool) : 1), kk = (size_t)a->k * (size_t)a->k * sizeof(double);
	char *memory = mem_try(1, (kk + 63) / 64 * 64 + scratch, "principal axes", e);
	double *products = (double *)memory, apart = 0, round;

	if (!memory)
		return -1;
	gemm_run_f64(pool, &g, products, a->axis, a->axis, NULL, memory + (kk + 63) / 64 * 64);
	for (int i = 0; i < a->k; i++)
		for (int j = 0; j < a->k; j++) {
			double v = products[i * a->k + j];

			v -= i == j && v > .5;
			apart += v * v;
		}
	mem_free(memory);
	round = (a->d + 8) * 0x1p-53;
	apart = sqrt(apart) + a->k * round;
	a->slack = 1.01 * sqrt(8 * (sqrt(a->k) * round + apart) + 4 * round) + 0x1p-23;
	return 0;
}

static int axes_iterate(struct axes *a, struct pool *pool, double *cov, int automatic, struct err *e)
{
	size_t size = (size_t)a->k * (size_t)a->d;
	double *mapped = mem_try(size, sizeof *mapped, "principal axes", e), trace = 0;
	float *start = mapped ? mem_try(size, sizeof *start, "principal axes", e) : NULL;
	int rc = start ? 0 : -1;

	for (int i = 0; i < a->d; i++)
		trace += cov[(int64_t)i * a->d + i];
	if (rc || !(trace > 1e-30 && trace < 1e30)) {
		a->k = 0;
	} else {
		rng_normal(start, size, 1, RNG_METRIC, 0, 0);
		for (size_t i = 0; i < size; i++)
			a->axis[i] = (double)start[i];
	}
	for (int i = 0; !rc && a->k && i <= ITERATIONS; i++) {
		/* The second time rounding errors of the first are removed */
		rows_orthonormalise(a->axis, pool, a->k, a->d);
		if (i == ITERATIONS)
			rows_orthonormalise(a->axis, pool, a->k, a->d);
		rc = rows_map(mapped, pool, a->axis, cov, a->k, a->d, e);
		if (!rc && i < ITERATIONS)
			memcpy(a->axis, mapped, size * sizeof *mapped);
	}
	if (!rc && a->k && automatic)
		a->k = axes_enough(a, mapped, trace);
	mem_free(mapped);
	mem_free(start);
	return rc || !a->k ? rc : axes_slack(a, pool, e);
}

int axes_find(struct axes *a, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, int k, struct err *e)
{
	double *cov;
	int rc = -1;

	*a = (struct axes){.d = d, .k = k};
	if (k == AXES_AUTO)
		a->k = n + m < WORTH ? 0 : d / 3 / 16 * 16 < MOST_AXES ? d / 3 / 16 * 16 : MOST_AXES;
	if (!a->k)
		return 0;
	a->mean = mem_try((size_t)d * (size_t)(a->k + 1), sizeof *a->mean, "principal axes", e);
	cov = a->mean ? mem_try((size_t)d * (size_t)d, sizeof *cov, "principal axes", e) : NULL;
	if (cov) {
		a->axis = a->mean + d;
		rc = sample_moments(a->mean, cov, pool, x, n, y, m, d, e);
	}
	if (!rc)
		rc = axes_iterate(a, pool, cov, k == AXES_AUTO, e);
	mem_free(cov);
	return rc;
}

void axes_release(struct axes *a)
{
	mem_free(a->mean);
	*a = (struct axes){0};
}

/* ---- sketches ---- */

struct mapping {
	const struct axes *a;
	const float *x;
	const double *xx;
	struct sketch *s;
	struct gemm g; /* a block of centred vectors times the packed axes */
	const double *packed;
	char *scratch;
	size_t per_worker;
};

static void map_task(void *arg, int64_t task, int worker)
{
	const struct mapping *m = arg;
	const struct axes *a = m->a;
	int64_t at = task * BLOCK, count = m->s->n - at < BLOCK ? m->s->n - at : BLOCK;
	double *centred = (double *)(m->scratch + (size_t)worker * m->per_worker), *along = centred + BLOCK * a->d;
	struct gemm g = m->g;

	for (int64_t i = 0; i < count; i++)
		for (int k = 0; k < a->d; k++)
			centred[i * a->d + k] = (double)m->x[(at + i) * a->d + k] - a->mean[k];
	g.m = count;
	gemm_serial_f64(&g, along, centred, m->packed, NULL, along + (BLOCK * a->k + 7) / 8 * 8);
	for (int64_t i = 0; i < count; i++) {
		const double *c = along + i * a->k;
		float *z = m->s->z + (at + i) * m->s->dims;
		double square = product(centred + i * a->d, centred + i * a->d, a->d), rest = square - product(c, c, a->k), zz = 0;

		for (int k = 0; k < a->k; k++)
			z[k] = (float)c[k];
		z[a->k] = rest > 0 ? (float)sqrt(rest) : 0;
		for (int k = 0; k <= a->k; k++)
			zz += (double)z[k] * (double)z[k];
		/* Let e be the error of this sketch, s the distance of two and D that of their vectors: D >= s - e - e', and so, as 2 s e <= BENT s^2 +
		 * e^2 / BENT, D^2 >= (1 - BENT) s^2 - 2 (e^2 + e'^2) / BENT. The last terms are the errors of the float product and of the exact
		 * distance itself (distances.c). */
		m->s->low[at + i] = (1 - SKETCH_BENT) * (zz - distances_slack(m->s->dims) * zz - m->s->dims * 0x1p-140) -
		                    2 / SKETCH_BENT * (2 * a->slack * a->slack * square + 0x1p-240) - (a->d + 4) * 0x1p-52 * m->xx[at + i];
		/* Its float products could overflow; this makes every bound minus infinity or NaN */
		if (!(zz < DISTANCES_LARGEST))
			m->s->low[at + i] = -INFINITY;
	}
}

static int map_run(struct mapping *m, struct pool *pool, struct err *e)
{
	const struct axes *a = m->a;
	double *packed;
	int rc = -1;

	m->g = (struct gemm){.tb = GEMM_T, .m = BLOCK, .n = a->k, .k = a->d, .lda = a->d, .ldb = a->d, .ldc = a->k, .own = 1};
	packed = mem_try((size_t)gemm_packed_f64(&m->g), sizeof *packed, "sketches of features", e);
	if (packed)
		gemm_pack_f64(&m->g, packed, a->axis);
	m->packed = packed;
	m->g.tb = GEMM_PACKED;
	m->per_worker = (((size_t)BLOCK * (size_t)(a->d + a->k) + 15) * sizeof(double) + gemm_scratch_f64(&m->g, 1) + 63) / 64 * 64;
	m->scratch = packed ? mem_try((size_t)(pool ? pool_threads(pool) : 1), m->per_worker, "sketches of features", e) : NULL;
	if (m->scratch) {
		pool_run(pool, (m->s->n + BLOCK - 1) / BLOCK, map_task, m);
		rc = 0;
	}
	mem_free(packed);
	mem_free(m->scratch);
	return rc;
}

/* ---- their order ---- */

struct place {
	float key;
	int64_t index;
};

static int place_compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

/* The leading coordinate along which n places vary most. */
static int widest(const struct sketch *s, const struct place *p, int64_t n)
{
	int best = 0;
	double most = -1;

	for (int k = 0; k < SPLIT && k < s->dims - 1; k++) {
		double sum = 0, squares = 0;

		for (int64_t i = 0; i < n; i++) {
			double v = (double)s->z[p[i].index * s->dims + k];

			sum += v;
			squares += v * v;
		}
		if (squares - sum * sum / (double)n > most)
			most = squares - sum * sum / (double)n, best = k;
	}
	return best;
}

/* Order n places, which begin a block whose index is a multiple of the next power of two: the first half, of half as many blocks as that power, holds
 * the smaller coordinates. */
static void places_split(const struct sketch *s, struct place *p, int64_t n)
{
	int64_t half = GRAM_TILE;
	int k;

	if (n <= half)
		return;
	while (2 * half < n)
		half *= 2;
	k = widest(s, p, n);
	for (int64_t i = 0; i < n; i++)
		p[i].key = s->z[p[i].index * s->dims + k];
	qsort(p, (size_t)n, sizeof *p, place_compare);
	places_split(s, p, half);
	places_split(s, p + half, n - half);
}

static int sketch_arrange(struct sketch *s, struct err *e)
{
	struct sketch to = *s;
	struct place *p = mem_try((size_t)s->n, sizeof *p, "order of features", e);

	to.z = p ? mem_try((size_t)s->n * (size_t)s->dims, sizeof *to.z, "order of features", e) : NULL;
	to.low = to.z ? mem_try((size_t)s->n, sizeof *to.low, "order of features", e) : NULL;
	to.order = to.low ? mem_try((size_t)s->n, sizeof *to.order, "order of features", e) : NULL;
	for (int64_t i = 0; to.order && i < s->n; i++)
		p[i].index = i;
	if (to.order)
		places_split(s, p, s->n);
	for (int64_t i = 0; to.order && i < s->n; i++) {
		to.order[i] = p[i].index;
		to.low[i] = s->low[p[i].index];
		memcpy(to.z + i * s->dims, s->z + p[i].index * s->dims, (size_t)s->dims * sizeof *to.z);
	}
	mem_free(p);
	sketch_release(s);
	*s = to;
	return to.order ? 0 : -1;
}

int sketch_make(struct sketch *s, struct pool *pool, const struct axes *a, const float *x, const double *xx, int64_t n, struct err *e)
{
	struct mapping m = {.a = a, .x = x, .xx = xx, .s = s};

	*s = (struct sketch){.n = n, .dims = a->k + 1};
	s->z = mem_try((size_t)n * (size_t)s->dims, sizeof *s->z, "sketches of features", e);
	s->low = s->z ? mem_try((size_t)n, sizeof *s->low, "sketches of features", e) : NULL;
	if (!s->low || map_run(&m, pool, e))
		return -1;
	return sketch_arrange(s, e);
}

void sketch_release(struct sketch *s)
{
	mem_free(s->z);
	mem_free(s->low);
	mem_free(s->order);
	*s = (struct sketch){0};
}
