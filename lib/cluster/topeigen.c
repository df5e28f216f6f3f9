/* Subspace iteration: a Chebyshev polynomial of the matrix enlarges the wanted part of a block of vectors, and a Rayleigh-Ritz step splits the block
 * into approximate eigenvectors. */
#include "cluster/topeigen.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "cluster/points.h"
#include "core/mem.h"
#include "core/rng.h"

enum { PIECE = 1024, DEGREE_MOST = 64 };

/* The filter enlarges the largest eigenvalue by at most e^GROWTH against those that it damps. More would make the columns too parallel for the Gram
 * matrix, which squares that ratio. */
#define GROWTH 11.

/* A pass over pieces of rows. */
struct pass {
	const struct topeigen_matrix *m;
	int64_t n;
	int b;
	double *out, *x, *y; /* (n, b) */
	const double *mix;   /* (b, c) */
	int c;
	double scale, shift, drop; /* out = scale * matrix x + shift * x - drop * out */
	double *sum;               /* (pieces, b, b) */
};

static void filter_task(void *arg, int64_t task, int worker)
{
	struct pass *p = arg;
	int64_t from = task * PIECE, to = from + PIECE < p->n ? from + PIECE : p->n;

	(void)worker;
	p->m->rows(p->m->arg, p->y, p->x, p->b, from, to);
	for (int64_t i = from * p->b; i < to * p->b; i++) {
		double v = p->scale * p->y[i] + p->shift * p->x[i];

		p->out[i] = p->drop != 0 ? v - p->drop * p->out[i] : v;
	}
}

/* sum = x' y over a piece of rows. */
static void gram_task(void *arg, int64_t task, int worker)
{
	struct pass *p = arg;
	int64_t to = (task + 1) * PIECE < p->n ? (task + 1) * PIECE : p->n, b = p->b;
	double *sum = p->sum + task * b * b;

	(void)worker;
	memset(sum, 0, (size_t)(b * b) * sizeof *sum);
	for (int64_t i = task * PIECE; i < to; i++)
		for (int64_t r = 0; r < b; r++) {
			double v = p->x[i * b + r];

			for (int64_t c = 0; c < b; c++)
				sum[r * b + c] += v * p->y[i * b + c];
		}
}

/* out (n, c) = x (n, b) mix (b, c). */
static void mix_task(void *arg, int64_t task, int worker)
{
	struct pass *p = arg;
	int64_t to = (task + 1) * PIECE < p->n ? (task + 1) * PIECE : p->n;

	(void)worker;
	for (int64_t i = task * PIECE; i < to; i++) {
		double *out = p->out + i * p->c;

		memset(out, 0, (size_t)p->c * sizeof *out);
		for (int r = 0; r < p->b; r++) {
			double v = p->x[i * p->b + r];

			for (int c = 0; c < p->c; c++)
				out[c] += v * p->mix[r * p->c + c];
		}
	}
}

/* The block of vectors and its work space. */
struct block {
	const struct topeigen_matrix *m;
	struct pool *pool;
	int64_t n, pieces;
	int b;              /* vectors */
	double *v, *mv, *t; /* (n, b): the vectors, the matrix times them, space */
	double *sum;        /* (pieces, b, b) */
	double *gram, *mix; /* (b, b) */
	double *value;      /* [b] */
};

/* to (b, b) = x' y, made symmetric. Pieces are added in order. */
static void product(struct block *k, double *to, double *x, double *y)
{
	struct pass p = {.n = k->n, .b = k->b, .x = x, .y = y, .sum = k->sum};
	int b = k->b;

	pool_run(k->pool, k->pieces, gram_task, &p);
	memset(to, 0, (size_t)b * (size_t)b * sizeof *to);
	for (int64_t t = 0; t < k->pieces; t++)
		for (int i = 0; i < b * b; i++)
			to[i] += k->sum[t * b * b + i];
	for (int r = 0; r < b; r++)
		for (int c = 0; c < r; c++)
			to[r * b + c] = to[c * b + r] = (to[r * b + c] + to[c * b + r]) / 2;
}

/* Eigenvectors of s (b, b), as rows of it, and eigenvalues ascending. */
static int small_eigen(double *value, double *s, int b, struct err *e)
{
	int info = (int)LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'V', 'U', b, s, b, value);

	if (info == LAPACK_WORK_MEMORY_ERROR || info == LAPACK_TRANSPOSE_MEMORY_ERROR)
		return err_set(e, ERR_NOMEM, "out of memory: eigenvalues of a %d x %d matrix", b, b);
	return info ? err_set(e, ERR_FAIL, "LAPACK dsyevd failed on a %d x %d matrix (info %d)", b, b, info) : 0;
}

/* The block `which` = which * mix, with c columns. Swaps it with the space. */
static void recombine(struct block *k, double **which, const double *mix, int c)
{
	struct pass p = {.n = k->n, .b = k->b, .out = k->t, .x = *which, .mix = mix, .c = c};

	pool_run(k->pool, k->pieces, mix_task, &p);
	k->t = *which;
	*which = p.out;
}

/* Make the vectors orthonormal: scale each to length 1, then v G^(-1/2) for their Gram matrix G. Directions that are only rounding are dropped. */
static int orthonormalise(struct block *k, struct err *e)
{
	int b = k->b, kept = 0;
	double *length = mem_zalloc((size_t)b, sizeof *length);
	int rc;

	product(k, k->gram, k->v, k->v);
	for (int r = 0; r < b; r++)
		length[r] = sqrt(k->gram[r * b + r]);
	for (int r = 0; r < b; r++)
		for (int c = 0; c < b; c++)
			k->gram[r * b + c] /= length[r] * length[c];
	rc = small_eigen(k->value, k->gram, b, e);
	for (int c = b - 1; c >= 0 && !rc && k->value[c] > 1e-13 * k->value[b - 1]; c--)
		kept++;
	for (int r = 0; r < b && !rc; r++)
		for (int c = 0; c < kept; c++)
			k->mix[r * kept + c] = k->gram[(b - 1 - c) * b + r] / (sqrt(k->value[b - 1 - c]) * length[r]);
	mem_free(length);
	if (rc)
		return -1;
	recombine(k, &k->v, k->mix, kept);
	k->b = kept;
	return 0;
}

static void multiply(struct block *k)
{
	struct pass p = {.m = k->m, .n = k->n, .b = k->b, .out = k->mv, .x = k->v, .y = k->t, .scale = 1};

	pool_run(k->pool, k->pieces, filter_task, &p);
}

/* Turn v into Ritz vectors, values descending, and mv with them. */
static int rayleigh_ritz(struct block *k, struct err *e)
{
	int b;

	if (orthonormalise(k, e) || orthonormalise(k, e)) /* twice: the first pass leaves rounding errors of an ill-conditioned block */
		return -1;
	b = k->b;
	multiply(k);
	product(k, k->gram, k->v, k->mv);
	if (small_eigen(k->value, k->gram, b, e))
		return -1;
	for (int r = 0; r < b; r++)
		for (int c = 0; c < b; c++)
			k->mix[r * b + c] = k->gram[(b - 1 - c) * b + r];
	for (int c = 0; c < b / 2; c++) {
		double v = k->value[c];

		k->value[c] = k->value[b - 1 - c];
		k->value[b - 1 - c] = v;
	}
	recombine(k, &k->v, k->mix, b);
	recombine(k, &k->mv, k->mix, b);
	return 0;
}

static double worst_residual(const struct block *k, int wanted)
{
	double worst = 0;

	for (int c = 0; c < wanted && c < k->b; c++) {
		double sum = 0;

		for (int64_t i = 0; i < k->n; i++) {
			double r = k->mv[i * k->b + c] - k->value[c] * k->v[i * k->b + c];

			sum += r * r;
		}
		worst = sqrt(sum) > worst ? sqrt(sum) : worst;
	}
	return worst;
}

/* v = T(l(matrix)) v, where l maps [-1, cut] to [-1, 1] and T is a Chebyshev polynomial: it grows fastest above 1. */
static void filter(struct block *k, double cut)
{
	double top = acosh(fmax((3 - cut) / (1 + cut), 1 + 1e-9));
	int degree = (int)fmin(fmax(GROWTH / top, 2), DEGREE_MOST);
	struct pass p = {.m = k->m, .n = k->n, .b = k->b, .y = k->t};
	double *before = k->v, *now = k->mv;

	p.scale = 2 / (1 + cut);
	p.shift = (1 - cut) / (1 + cut);
	p.out = now;
	p.x = before;
	pool_run(k->pool, k->pieces, filter_task, &p);
	p.scale *= 2;
	p.shift *= 2;
	p.drop = 1;
	for (int i = 1; i < degree; i++) { /* T_next = 2 l T_now - T_before, in the place of T_before */
		p.out = before;
		p.x = now;
		pool_run(k->pool, k->pieces, filter_task, &p);
		before = now;
		now = p.out;
	}
	k->v = now;
	k->mv = before;
}

static int block_init(struct block *k, const struct topeigen_matrix *m, int b, uint64_t seed, struct pool *pool, struct err *e)
{
	float *draw = mem_zalloc((size_t)b, sizeof *draw);

	*k = (struct block){.m = m, .pool = pool, .n = m->n, .pieces = (m->n + PIECE - 1) / PIECE, .b = b};
	k->v = mem_try((size_t)m->n * (size_t)b, sizeof *k->v, "eigenvectors", e);
	k->mv = mem_try((size_t)m->n * (size_t)b, sizeof *k->mv, "eigenvectors", e);
	k->t = mem_try((size_t)m->n * (size_t)b, sizeof *k->t, "eigenvectors", e);
	k->sum = mem_try((size_t)k->pieces * (size_t)b * (size_t)b, sizeof *k->sum, "products of eigenvectors", e);
	k->gram = mem_zalloc((size_t)b * (size_t)b, sizeof *k->gram);
	k->mix = mem_zalloc((size_t)b * (size_t)b, sizeof *k->mix);
	k->value = mem_zalloc((size_t)b, sizeof *k->value);
	for (int64_t i = 0; i < m->n && k->v; i++) {
		rng_normal(draw, (size_t)b, seed, RNG_CLUSTER, STEP_EIGEN, (uint64_t)i);
		for (int c = 0; c < b; c++)
			k->v[i * b + c] = draw[c];
	}
	mem_free(draw);
	return k->v && k->mv && k->t && k->sum ? 0 : -1;
}

int topeigen_find(struct topeigen *out, const struct topeigen_matrix *m, int k, double tolerance, int most, uint64_t seed, struct pool *pool,
                  const struct progress *progress, struct err *e)
{
	int spare = k < 8 ? 8 : k, b = k + spare < m->n ? k + spare : (int)m->n, rc;
	struct block block;

	*out = (struct topeigen){.k = k};
	rc = block_init(&block, m, b, seed, pool, e);
	while (!rc) {
		rc = rayleigh_ritz(&block, e);
		out->iterations++;
		if (rc)
			break;
		out->residual = worst_residual(&block, k);
		if (out->residual <= tolerance || out->iterations >= most || block.b == m->n)
			break;
		if (progress_tell(progress, "eigenvectors", out->iterations, most)) {
			rc = err_set(e, ERR_AGAIN, "clustering interrupted");
			break;
		}
		filter(&block, fmin(fmax(block.value[block.b - 1], -.9), 1 - 1e-12));
	}
	if (!rc && block.b < k)
		rc = err_set(e, ERR_FAIL, "only %d of %d eigenvectors are independent", block.b, k);
	if (!rc) {
		out->columns = block.b;
		out->value = block.value;
		out->vector = block.v;
		block.value = block.v = NULL;
	}
	mem_free(block.v);
	mem_free(block.mv);
	mem_free(block.t);
	mem_free(block.sum);
	mem_free(block.gram);
	mem_free(block.mix);
	mem_free(block.value);
	return rc;
}

void topeigen_release(struct topeigen *t)
{
	mem_free(t->value);
	mem_free(t->vector);
	*t = (struct topeigen){0};
}
