#include "kernels/optimizer.h"

#include <math.h>

#include "core/mem.h"
#include "kernels/real.h"

enum { CHUNK = 16384, LANES = 16 };

struct job {
	const struct adamw *a;
	int64_t n;
	real *p, *m, *v, *ema;
	const real *g, *mask;
	double *partial;
};

static void adamw_chunk(void *arg, int64_t task, int worker)
{
	const struct job *j = arg;
	int64_t from = task * CHUNK, n = j->n - from < CHUNK ? j->n - from : CHUNK;
	const struct adamw *a = j->a;
	real *restrict p = j->p + from, *restrict m = j->m + from, *restrict v = j->v + from, *restrict ema = j->ema + from;
	const real *restrict g = j->g + from, *restrict mask = j->mask + from;
	const real b1 = (real)a->beta1, c1 = (real)(1 - a->beta1), b2 = (real)a->beta2, c2 = (real)(1 - a->beta2);
	const real rate = (real)(a->lr / (1 - pow(a->beta1, (double)a->step)));
	const real root = (real)(1 / sqrt(1 - pow(a->beta2, (double)a->step)));
	const real eps = (real)a->eps, shrink = (real)(a->lr * a->decay), d = (real)a->ema, e = (real)(1 - a->ema),
		   scale = (real)a->scale;

	(void)worker;
	for (int64_t i = 0; i < n; i++) {
		real gi = scale * g[i], mi = b1 * m[i] + c1 * gi, vi = b2 * v[i] + c2 * gi * gi, pi = p[i];

		pi -= shrink * mask[i] * pi + rate * mi / (REAL_M(sqrt)(vi) * root + eps);
		m[i] = mi;
		v[i] = vi;
		p[i] = pi;
		ema[i] = d * ema[i] + e * pi;
	}
}

void REAL_NAME(adamw_step)(struct pool *pool, const struct adamw *a, int64_t n, real *p, const real *g, real *m, real *v,
                           real *ema, const real *mask)
{
	struct job j = {.a = a, .n = n, .p = p, .m = m, .v = v, .ema = ema, .g = g, .mask = mask};

	pool_run(pool, (n + CHUNK - 1) / CHUNK, adamw_chunk, &j);
}

static void sumsq_chunk(void *arg, int64_t task, int worker)
{
	const struct job *j = arg;
	int64_t from = task * CHUNK, n = j->n - from < CHUNK ? j->n - from : CHUNK, i = 0;
	const real *x = j->g + from;
	double lane[LANES] = {0}, sum = 0;

	(void)worker;
	for (; i + LANES <= n; i += LANES)
		for (int k = 0; k < LANES; k++)
			lane[k] += (double)x[i + k] * (double)x[i + k];
	for (int k = 0; k < LANES; k++)
		sum += lane[k];
	for (; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	j->partial[task] = sum;
}

double REAL_NAME(sumsq)(struct pool *pool, int64_t n, const real *x)
{
	int64_t tasks = (n + CHUNK - 1) / CHUNK;
	struct job j = {.n = n, .g = x, .partial = mem_zalloc((size_t)tasks, sizeof(double))};
	double sum = 0;

	pool_run(pool, tasks, sumsq_chunk, &j);
	for (int64_t i = 0; i < tasks; i++)
		sum += j.partial[i];
	mem_free(j.partial);
	return sum;
}

static void add_chunk(void *arg, int64_t task, int worker)
{
	const struct job *j = arg;
	int64_t from = task * CHUNK, n = j->n - from < CHUNK ? j->n - from : CHUNK;
	real *restrict x = j->p + from;
	const real *restrict y = j->g + from;

	(void)worker;
	for (int64_t i = 0; i < n; i++)
		x[i] += y[i];
}

void REAL_NAME(vector_add)(struct pool *pool, int64_t n, real *x, const real *y)
{
	struct job j = {.n = n, .p = x, .g = y};

	pool_run(pool, (n + CHUNK - 1) / CHUNK, add_chunk, &j);
}
