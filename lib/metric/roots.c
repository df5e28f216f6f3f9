/* Computes traces of square roots of products of covariances by Cholesky factors and singular values. */
#include "metric/roots.h"

#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "kernels/gemm.h"

/* Sizes of the blocking: BLOCK rows or columns are factored between two matrix products; a task of a matrix-vector product has STRIP columns or ROWS
 * rows. */
enum { BLOCK = 32, STRIP = 128, ROWS = 64, LANES = 8 };

typedef double vec __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double)), may_alias));

static double dot(const double *a, const double *b, int64_t n)
{
	vec s = {0}, t = {0};
	int64_t whole = n / (2 * LANES) * (2 * LANES);
	double sum = 0;

	for (int64_t i = 0; i < whole; i += 2 * LANES) {
		s += *(const vec *)(a + i) * *(const vec *)(b + i);
		t += *(const vec *)(a + i + LANES) * *(const vec *)(b + i + LANES);
	}
	s += t;
	for (int k = 0; k < LANES; k++)
		sum += s[k];
	for (int64_t i = whole; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

/* y += f x */
static void add(double *y, double f, const double *x, int64_t n)
{
	int64_t whole = n / LANES * LANES;

	for (int64_t i = 0; i < whole; i += LANES)
		*(vec *)(y + i) += f * *(const vec *)(x + i);
	for (int64_t i = whole; i < n; i++)
		y[i] += f * x[i];
}

/* c = alpha op(a) b [+ c] */
static int product(struct pool *pool, struct gemm g, double *c, const double *a, const double *b, struct err *e)
{
	void *scratch = mem_try(gemm_scratch_f64(&g, pool ? pool_threads(pool) : 1), 1, "a product of covariances", e);

	if (!scratch)
		return -1;
	gemm_run_f64(pool, &g, c, a, b, NULL, scratch);
	mem_free(scratch);
	return 0;
}

/* ---- r' r = s ---- */

struct cholesky {
	double *r, *c; /* (rank, d); (d, d): s - r' r, without the rows of the current block */
	double *left;  /* (d): the up-to-date diagonal of s - r' r; 0 at pivots */
	char *done;    /* (d): 1 at pivots */
	double least;
	int d, rank;
};

/* Compute the rows of a block of r, each from the largest remaining variance. Returns their number; fewer than BLOCK if the rank is reached. */
static int pivots(struct cholesky *f)
{
	int first = f->rank, d = f->d, k = 0;

	for (; k < BLOCK && f->rank < d; k++, f->rank++) {
		double *row = f->r + (size_t)f->rank * (size_t)d, pivot;
		int p = 0;

		for (int i = 1; i < d; i++)
			if (f->left[i] > f->left[p])
				p = i;
		if (!(f->left[p] > f->least))
			break;
		pivot = sqrt(f->left[p]);
		memcpy(row, f->c + (size_t)p * (size_t)d, (size_t)d * sizeof *row);
		for (int j = first; j < f->rank; j++)
			add(row, -f->r[(size_t)j * (size_t)d + (size_t)p], f->r + (size_t)j * (size_t)d, d);
		for (int i = 0; i < d; i++) {
			row[i] = f->done[i] ? 0 : i == p ? pivot : row[i] / pivot;
			f->left[i] -= row[i] * row[i];
		}
		f->done[p] = 1;
		f->left[p] = 0;
	}
	return k;
}

static int factor(struct cholesky *f, struct pool *pool, struct err *e)
{
	int d = f->d, got = BLOCK;

	while (got == BLOCK && f->rank < d) {
		const double *rows = f->r + (size_t)f->rank * (size_t)d;

		got = pivots(f);
		if (got &&
		    product(pool, (struct gemm){.ta = GEMM_T, .m = d, .n = d, .k = got, .lda = d, .ldb = d, .ldc = d, .accumulate = 1, .alpha = -1},
		            f->c, rows, rows, e))
			return -1;
		for (int i = 0; i < d; i++)
			f->left[i] = f->done[i] ? 0 : f->c[(size_t)i * (size_t)(d + 1)];
	}
	return 0;
}

/* Check the remainder s - r' r. If s is positive semidefinite, so is the remainder, except for rounding: no element is larger than the largest
 * diagonal element, which is tiny. ERR_DATA if an element is above 1e-6 of the largest variance. */
static int remainder_check(const struct cholesky *f, double largest, struct err *e)
{
	for (int i = 0; i < f->d; i++)
		for (int j = 0; j <= i; j++) {
			double v = f->c[(size_t)i * (size_t)f->d + (size_t)j];

			if (!f->done[i] && !f->done[j] && fabs(v) > 1e-6 * largest)
				return err_set(e, ERR_DATA, "a covariance is not positive semidefinite: %g is left beside variances up to %g", v,
				               largest);
		}
	return 0;
}

int roots_factor(double *r, struct pool *pool, const double *s, int d, struct err *e)
{
	size_t n = (size_t)d * (size_t)d;
	struct cholesky f = {.r = r, .d = d};
	double largest = 0;
	int rc = -1;

	for (size_t i = 0; i < n; i++)
		if (!isfinite(s[i]))
			return err_set(e, ERR_DATA, "a covariance holds a value that is not finite");
	if (!(f.c = mem_try(n + (size_t)d, sizeof *f.c, "a covariance's root", e)))
		return -1;
	f.done = mem_zalloc((size_t)d, 1);
	f.left = f.c + n;
	memcpy(f.c, s, n * sizeof *s);
	for (int i = 0; i < d; i++) {
		f.left[i] = s[(size_t)i * (size_t)(d + 1)];
		largest = fmax(largest, fabs(f.left[i]));
	}
	f.least = largest * d * DBL_EPSILON;
	if (!factor(&f, pool, e) && !remainder_check(&f, largest, e))
		rc = f.rank;
	mem_free(f.done);
	mem_free(f.c);
	return rc;
}

/* ---- singular values ---- */

/* Householder reduction of an (m, n) matrix, m >= n, to bidiagonal form by reflections from the left and the right in turn. The reflections of a
 * block are not applied at once but collected in p and q: the current matrix is a - p q. So each step reads `a` twice, for a' v and a u, and does not
 * write it; one matrix product at the end of the block updates it. */
struct reduction {
	struct pool *pool;
	double *a, *p, *q;    /* (m, n), (m, 2 BLOCK), (2 BLOCK, n) */
	double *v, *u;        /* (m), (n): left and right reflection of this step */
	double *x, *y;        /* (m), (n): a u and a' v */
	double *main, *above; /* (n): the diagonal and the superdiagonal */
	int64_t m, n, k;      /* k: this step's row and column */
};

static void left_task(void *arg, int64_t strip, int worker)
{
	const struct reduction *h = arg;
	int64_t from = h->k + 1 + strip * STRIP, n = h->n - from < STRIP ? h->n - from : STRIP;
	double sum[STRIP] = {0};

	(void)worker;
	for (int64_t i = h->k; i < h->m; i++)
		add(sum, h->v[i], h->a + i * h->n + from, n);
	memcpy(h->y + from, sum, (size_t)n * sizeof *sum);
}

static void right_task(void *arg, int64_t strip, int worker)
{
	const struct reduction *h = arg;
	int64_t from = h->k + 1 + strip * ROWS, to = from + ROWS < h->m ? from + ROWS : h->m;

	(void)worker;
	for (int64_t i = from; i < to; i++)
		h->x[i] = dot(h->a + i * h->n + h->k + 1, h->u + h->k + 1, h->n - h->k - 1);
}

/* Find the reflection I - f v v' that turns x (n) into (the returned value, 0 ..). v, with v[0] = 1, replaces x. */
static double reflect(double *x, int64_t n, double *f)
{
	double rest = n > 1 ? sqrt(dot(x + 1, x + 1, n - 1)) : 0, to, first = x[0];

	*f = 0;
	if (rest > 0) {
		to = first > 0 ? -hypot(first, rest) : hypot(first, rest);
		*f = (to - first) / to;
		for (int64_t i = 1; i < n; i++)
			x[i] /= first - to;
	} else
		to = first;
	x[0] = 1;
	return to;
}

static void reduce_left(struct reduction *h, int64_t j)
{
	enum { WIDE = 2 * BLOCK };
	int64_t k = h->k, n = h->n, rest = n - k - 1;
	double column[WIDE], w[WIDE] = {0}, f;

	for (int t = 0; t < WIDE; t++)
		column[t] = h->q[t * n + k];
	for (int64_t i = k; i < h->m; i++)
		h->v[i] = h->a[i * n + k] - dot(h->p + i * WIDE, column, WIDE);
	h->main[k] = reflect(h->v + k, h->m - k, &f);
	if (rest < 1)
		return;
	pool_run(h->pool, (rest + STRIP - 1) / STRIP, left_task, h);
	for (int64_t i = k; i < h->m; i++) {
		add(w, h->v[i], h->p + i * WIDE, WIDE);
		h->p[i * WIDE + j] = h->v[i];
	}
	for (int t = 0; t < WIDE; t++)
		add(h->y + k + 1, -w[t], h->q + t * n + k + 1, rest);
	for (int64_t c = k + 1; c < n; c++)
		h->q[j * n + c] = f * h->y[c];
}

static void reduce_right(struct reduction *h, int64_t j)
{
	enum { WIDE = 2 * BLOCK };
	int64_t k = h->k, n = h->n, rest = n - k - 1;
	double w[WIDE], f;

	memcpy(h->u + k + 1, h->a + k * n + k + 1, (size_t)rest * sizeof *h->u);
	for (int t = 0; t < WIDE; t++)
		add(h->u + k + 1, -h->p[k * WIDE + t], h->q + t * n + k + 1, rest);
	h->above[k] = reflect(h->u + k + 1, rest, &f);
	pool_run(h->pool, (h->m - k - 1 + ROWS - 1) / ROWS, right_task, h);
	for (int t = 0; t < WIDE; t++)
		w[t] = dot(h->q + t * n + k + 1, h->u + k + 1, rest);
	for (int64_t i = k + 1; i < h->m; i++)
		h->p[i * WIDE + BLOCK + j] = f * (h->x[i] - dot(h->p + i * WIDE, w, WIDE));
	memcpy(h->q + (BLOCK + j) * n + k + 1, h->u + k + 1, (size_t)rest * sizeof *h->u);
}

static int reduce(struct reduction *h, struct err *e)
{
	enum { WIDE = 2 * BLOCK };
	int64_t n = h->n;

	for (int64_t first = 0, next; first < n; first = next) {
		next = first + BLOCK < n ? first + BLOCK : n;
		memset(h->p, 0, (size_t)(h->m * WIDE) * sizeof *h->p);
		memset(h->q, 0, (size_t)(n * WIDE) * sizeof *h->q);
		for (h->k = first; h->k < next; h->k++) {
			reduce_left(h, h->k - first);
			if (h->k + 1 < n)
				reduce_right(h, h->k - first);
		}
		if (next < n &&
		    product(h->pool,
		            (struct gemm){.m = h->m - next, .n = n - next, .k = WIDE, .lda = WIDE, .ldb = n, .ldc = n, .accumulate = 1, .alpha = -1},
		            h->a + next * (n + 1), h->p + next * WIDE, h->q + next, e))
			return -1;
	}
	return 0;
}

/* The sum of the singular values of a (m, n), m >= n. Overwrites a. */
static int singular_sum(double *out, struct pool *pool, double *a, int64_t m, int64_t n, struct err *e)
{
	struct reduction h = {.pool = pool, .a = a, .m = m, .n = n};
	int64_t size = (m + n) * 2 * BLOCK + 2 * (m + n) + 2 * n;
	double none[1];
	lapack_int info;
	int rc = -1;

	if (!(h.p = mem_try((size_t)size, sizeof *h.p, "reflections of a matrix", e)))
		return -1;
	h.q = h.p + m * 2 * BLOCK;
	h.v = h.q + n * 2 * BLOCK;
	h.x = h.v + m;
	h.u = h.x + m;
	h.y = h.u + n;
	h.main = h.y + n;
	h.above = h.main + n;
	if (!reduce(&h, e)) {
		info = LAPACKE_dbdsqr(LAPACK_COL_MAJOR, 'U', (lapack_int)n, 0, 0, 0, h.main, h.above, none, 1, none, 1, none, 1);
		rc = info == LAPACK_WORK_MEMORY_ERROR ? err_set(e, ERR_NOMEM, "out of memory: %lld singular values", (long long)n)
		     : info ? err_set(e, ERR_FAIL, "LAPACK dbdsqr failed on %lld singular values (info %d)", (long long)n, (int)info)
		            : 0;
	}
	*out = 0;
	for (int64_t i = n - 1; i >= 0 && !rc; i--)
		*out += h.main[i];
	mem_free(h.p);
	return rc;
}

int roots_trace(double *out, struct pool *pool, const double *r1, int n1, const double *r2, int n2, int d, struct err *e)
{
	const double *tall = n1 < n2 ? r2 : r1, *wide = n1 < n2 ? r1 : r2;
	int m = n1 < n2 ? n2 : n1, n = n1 < n2 ? n1 : n2, rc;
	double *a;

	*out = 0;
	if (!n)
		return 0;
	if (!(a = mem_try((size_t)m * (size_t)n, sizeof *a, "a product of covariance roots", e)))
		return -1;
	rc = product(pool, (struct gemm){.tb = GEMM_T, .m = m, .n = n, .k = d, .lda = d, .ldb = d, .ldc = n}, a, tall, wide, e);
	if (!rc)
		rc = singular_sum(out, pool, a, m, n, e);
	mem_free(a);
	return rc;
}
