/* Computes the optimal denoiser of a large finite set by matrix products. */
#include "diffusion/finite.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "kernels/gemm.h"

/* Samples are converted to double block by block. The block size depends on d alone, so the order of sums does too. */
enum { ROWS = LAW_ROWS, BLOCK_ELEMENTS = 1 << 20, BLOCK_MOST = 1024, BLOCK_LEAST = 16 };
/* Sets with fewer elements run on one thread: waking threads would take longer than the work. */
enum { SMALL = 1 << 16 };

struct finite {
	struct law law;
	struct finite_set s;
	struct pool *pool;
	int64_t block;
	double value[256]; /* the number that a byte stands for */
	double *norm;      /* (n) |m_j|^2 */
	double *points;    /* (block, d) */
	double *x;         /* (ROWS, d) */
	double *dot;       /* (ROWS, block): products, then weights */
	double *top, *sum; /* (ROWS) running softmax: largest exponent, sum of exponentials */
	void *scratch;
};

static void expand(const struct finite *f, int64_t j, double *out)
{
	int64_t d = f->s.d;
	const uint8_t *b = f->s.sample;

	if (f->s.bytes) {
		b += j * d;
		for (int64_t i = 0; i < d; i++)
			out[i] = f->value[b[i]];
		return;
	}
	b += j * d * (int64_t)sizeof(float);
	for (int64_t i = 0; i < d; i++) {
		float v;

		memcpy(&v, b + i * (int64_t)sizeof v, sizeof v);
		out[i] = v;
	}
}

static void norm_task(void *arg, int64_t task, int worker)
{
	struct finite *f = arg;
	int64_t from = task * f->block, to = from + f->block < f->s.n ? from + f->block : f->s.n, d = f->s.d;
	double *row = mem_alloc((size_t)d * sizeof *row);

	(void)worker;
	for (int64_t j = from; j < to; j++) {
		expand(f, j, row);
		for (int64_t i = 0; i < d; i++)
			f->norm[j] += row[i] * row[i];
	}
	mem_free(row);
}

static struct gemm first_product(const struct finite *f, int64_t rows, int64_t points)
{
	return (struct gemm){.ta = GEMM_N, .tb = GEMM_T, .m = rows, .n = points, .k = f->s.d, .lda = f->s.d, .ldb = f->s.d, .ldc = f->block};
}

static struct gemm second_product(const struct finite *f, int64_t rows, int64_t points)
{
	return (struct gemm){
	    .ta = GEMM_N, .tb = GEMM_N, .m = rows, .n = f->s.d, .k = points, .lda = f->block, .ldb = f->s.d, .ldc = f->s.d, .accumulate = 1};
}

static int allocate(struct finite *f, struct err *e)
{
	struct gemm one = first_product(f, ROWS, f->block), two = second_product(f, ROWS, f->block);
	int workers = f->pool ? pool_threads(f->pool) : 1;
	size_t a = gemm_scratch_f64(&one, workers), b = gemm_scratch_f64(&two, workers), d = (size_t)f->s.d;

	if (!(f->norm = mem_try((size_t)f->s.n, sizeof *f->norm, "norms of the samples", e)) ||
	    !(f->points = mem_try((size_t)f->block * d, sizeof *f->points, "a block of samples", e)) ||
	    !(f->x = mem_try(ROWS * d, sizeof *f->x, "rows", e)) || !(f->dot = mem_try((size_t)(ROWS * f->block), sizeof *f->dot, "products", e)) ||
	    !(f->scratch = mem_try(a > b ? a : b, 1, "scratch of products", e)))
		return -1;
	f->top = mem_zalloc(ROWS, sizeof *f->top);
	f->sum = mem_zalloc(ROWS, sizeof *f->sum);
	return 0;
}

static void finite_free(struct law *l)
{
	struct finite *f = (struct finite *)l;

	law_release(l);
	mem_free(f->norm);
	mem_free(f->points);
	mem_free(f->x);
	mem_free(f->dot);
	mem_free(f->scratch);
	mem_free(f->top);
	mem_free(f->sum);
	mem_free(f);
}

/* Arguments of the tasks that process one block of a cluster for the rows of one chunk. */
struct pass {
	struct finite *f;
	const float *x;
	const struct path_point *at;
	int64_t first, points; /* the block */
	double log_weight;
	double *mean; /* (rows, d), or NULL */
};

static void widen_task(void *arg, int64_t i, int worker)
{
	const struct pass *p = arg;
	int64_t d = p->f->s.d;

	(void)worker;
	for (int64_t j = 0; j < d; j++)
		p->f->x[i * d + j] = p->x[i * d + j];
}

static void expand_task(void *arg, int64_t j, int worker)
{
	const struct pass *p = arg;

	(void)worker;
	expand(p->f, p->first + j, p->f->points + j * p->f->s.d);
}

/* Online softmax: turns the products of one row into weights relative to the largest exponent so far, and rescales the earlier sums to it. */
static void weigh_task(void *arg, int64_t i, int worker)
{
	const struct pass *p = arg;
	struct finite *f = p->f;
	double *w = f->dot + i * f->block, a = p->at[i].alpha, precision = 1 / (p->at[i].sigma * p->at[i].sigma), top = f->top[i], scale;

	(void)worker;
	for (int64_t j = 0; j < p->points; j++) {
		w[j] = p->log_weight + a * (w[j] - .5 * a * f->norm[p->first + j]) * precision;
		top = fmax(top, w[j]);
	}
	scale = exp(f->top[i] - top);
	f->top[i] = top;
	f->sum[i] *= scale;
	for (int64_t j = 0; j < p->points; j++) {
		w[j] = exp(w[j] - top);
		f->sum[i] += w[j];
	}
	for (int64_t j = 0; p->mean && scale != 1 && j < f->s.d; j++)
		p->mean[i * f->s.d + j] *= scale;
}

static void add_cluster(struct pass *p, int k, int64_t rows)
{
	struct finite *f = p->f;
	int64_t to = f->s.first[k + 1];

	p->log_weight = f->s.weight ? log(f->s.weight[k]) : 0;
	for (p->first = f->s.first[k]; p->first < to; p->first += f->block) {
		struct gemm g;

		p->points = to - p->first < f->block ? to - p->first : f->block;
		pool_run(f->pool, p->points, expand_task, p);
		g = first_product(f, rows, p->points);
		gemm_run_f64(f->pool, &g, f->dot, f->x, f->points, NULL, f->scratch);
		pool_run(f->pool, rows, weigh_task, p);
		g = second_product(f, rows, p->points);
		if (p->mean)
			gemm_run_f64(f->pool, &g, p->mean, f->dot, f->points, NULL, f->scratch);
	}
}

static void chunk(struct finite *f, int cluster, int64_t rows, const float *x, const struct path_point *at, double *mass, double *mean)
{
	struct pass p = {.f = f, .x = x, .at = at, .mean = mean};
	int64_t d = f->s.d;

	for (int64_t i = 0; i < rows; i++) {
		f->top[i] = -INFINITY;
		f->sum[i] = 0;
	}
	if (mean)
		memset(mean, 0, (size_t)(rows * d) * sizeof *mean);
	pool_run(f->pool, rows, widen_task, &p);
	for (int k = 0; k < f->s.clusters; k++)
		if (cluster == LAW_ALL || cluster == k)
			add_cluster(&p, k, rows);
	for (int64_t i = 0; i < rows; i++) {
		if (mass)
			mass[i] = f->sum[i] == 0 ? -INFINITY : f->top[i] + log(f->sum[i]);
		for (int64_t j = 0; mean && f->sum[i] != 0 && j < d; j++)
			mean[i * d + j] /= f->sum[i];
	}
}

static void finite_posterior(struct law *l, int cluster, int64_t n, const float *x, const struct path_point *at, double *mass, double *mean)
{
	struct finite *f = (struct finite *)l;

	for (int64_t i = 0; i < n; i += ROWS)
		chunk(f, cluster, n - i < ROWS ? n - i : ROWS, x + i * f->s.d, at + i, mass ? mass + i : NULL, mean ? mean + i * f->s.d : NULL);
}

static double finite_flops(const struct law *l, int cluster, int with_mean)
{
	const struct finite_set *s = &((const struct finite *)l)->s;
	int64_t n = cluster == LAW_ALL ? s->n : s->first[cluster + 1] - s->first[cluster];

	return (with_mean ? 4. : 2.) * (double)n * (double)s->d;
}

struct law *finite_new(const struct finite_set *s, struct pool *pool, struct err *e)
{
	struct finite *f = mem_zalloc(1, sizeof *f);
	int rc;

	f->law = (struct law){.clusters = s->clusters, .d = s->d, .posterior = finite_posterior, .flops = finite_flops, .free = finite_free};
	f->s = *s;
	f->pool = s->n * s->d < SMALL ? NULL : pool;
	f->block = BLOCK_ELEMENTS / s->d / BLOCK_LEAST * BLOCK_LEAST;
	f->block = f->block < BLOCK_LEAST ? BLOCK_LEAST : f->block > BLOCK_MOST ? BLOCK_MOST : f->block;
	for (int b = 0; b < 256; b++)
		f->value[b] = (float)b / 127.5f - 1.f;
	rc = law_allocate(&f->law, e) || allocate(f, e) ? -1 : 0;
	if (!rc)
		pool_run(f->pool, (s->n + f->block - 1) / f->block, norm_task, f);
	for (int64_t j = 0; j < s->n && !rc; j++)
		if (!isfinite(f->norm[j]))
			rc = err_set(e, ERR_DATA, "sample %lld holds a NaN or an infinity", (long long)j);
	if (rc) {
		finite_free(&f->law);
		return NULL;
	}
	for (int k = 0; k < s->clusters; k++)
		f->law.share[k] = (double)(s->first[k + 1] - s->first[k]) * (s->weight ? s->weight[k] : 1);
	return &f->law;
}
