/* Distances, subsamples and checks of points. */
#include "cluster/points.h"

#include <math.h>

#include "core/mem.h"
#include "core/rng.h"

enum { SCAN = 4096, AT_ONCE = 64 }; /* points in a task; blocks between two reports of progress */

/* Uses sixteen partial sums, which the compiler keeps in vectors and which are added in order at the end. */
float points_distance2(const float *a, const float *b, int64_t d)
{
	float acc[16] = {0}, sum = 0;
	int64_t i = 0;

	for (; i + 16 <= d; i += 16)
		for (int j = 0; j < 16; j++) {
			float t = a[i + j] - b[i + j];

			acc[j] += t * t;
		}
	for (; i < d; i++)
		acc[i % 16] += (a[i] - b[i]) * (a[i] - b[i]);
	for (int j = 0; j < 16; j++)
		sum += acc[j];
	return sum;
}

float points_length2(const float *x, int64_t d)
{
	double acc[8] = {0}, sum = 0;

	for (int64_t i = 0; i < d; i++)
		acc[i % 8] += (double)x[i] * x[i];
	for (int j = 0; j < 8; j++)
		sum += acc[j];
	return (float)sum;
}

double points_unit(float *x, int64_t d)
{
	double sum = 0, length;

	for (int64_t i = 0; i < d; i++)
		sum += (double)x[i] * x[i];
	length = sqrt(sum);
	for (int64_t i = 0; i < d && length > 0; i++)
		x[i] = (float)(x[i] / length);
	return length;
}

struct unit_job {
	float *x;
	int64_t n, d;
	int64_t *zero; /* per task: the first row of length 0, or -1 */
};

static void unit_task(void *arg, int64_t task, int worker)
{
	struct unit_job *j = arg;
	int64_t end = (task + 1) * SCAN < j->n ? (task + 1) * SCAN : j->n;

	(void)worker;
	j->zero[task] = -1;
	for (int64_t i = task * SCAN; i < end; i++)
		if (!(points_unit(j->x + i * j->d, j->d) > 0) && j->zero[task] < 0)
			j->zero[task] = i;
}

int64_t points_unit_rows(float *x, int64_t n, int64_t d, struct pool *pool)
{
	int64_t tasks = (n + SCAN - 1) / SCAN, zero = -1;
	struct unit_job job = {x, n, d, mem_zalloc((size_t)tasks, sizeof(int64_t))};

	pool_run(pool, tasks, unit_task, &job);
	for (int64_t t = tasks - 1; t >= 0; t--)
		zero = job.zero[t] >= 0 ? job.zero[t] : zero;
	mem_free(job.zero);
	return zero;
}

double points_cosine(const float *a, const float *b, int64_t d)
{
	return 1 - (double)points_distance2(a, b, d) / 2;
}

int64_t *points_subsample(int64_t n, int64_t m, uint64_t seed, uint64_t step)
{
	int64_t *row = mem_zalloc((size_t)m, sizeof *row), at = 0;
	uint8_t *in = mem_zalloc((size_t)n, 1);

	for (int64_t i = 0; i < m; i++)
		in[rng_permute((uint64_t)i, (uint64_t)n, seed, RNG_CLUSTER, step)] = 1;
	for (int64_t i = 0; i < n; i++)
		if (in[i])
			row[at++] = i;
	mem_free(in);
	return row;
}

struct finite_job {
	const float *x;
	int64_t n, d;
	int64_t *bad; /* per task: index of the first value that is not finite, or -1 */
};

static void finite_task(void *arg, int64_t task, int worker)
{
	struct finite_job *j = arg;
	int64_t end = ((task + 1) * SCAN < j->n ? (task + 1) * SCAN : j->n) * j->d, i = task * SCAN * j->d;

	(void)worker;
	while (i < end && isfinite(j->x[i]))
		i++;
	j->bad[task] = i < end ? i : -1;
}

int points_finite(const float *x, int64_t n, int64_t d, struct pool *pool, struct err *e)
{
	int64_t tasks = (n + SCAN - 1) / SCAN;
	struct finite_job job = {x, n, d, mem_zalloc((size_t)tasks, sizeof(int64_t))};

	pool_run(pool, tasks, finite_task, &job);
	for (int64_t t = 0; t < tasks && !e->code; t++)
		if (job.bad[t] >= 0)
			err_set(e, ERR_DATA, "feature %lld of point %lld is not finite", (long long)(job.bad[t] % d), (long long)(job.bad[t] / d));
	mem_free(job.bad);
	return e->code ? -1 : 0;
}

struct pass {
	void (*task)(void *arg, int64_t block, int worker);
	void *arg;
	int64_t first;
};

static void pass_task(void *arg, int64_t i, int worker)
{
	const struct pass *p = arg;

	p->task(p->arg, p->first + i, worker);
}

int points_blocks(int64_t n, int64_t rows, const char *name, void (*task)(void *arg, int64_t block, int worker), void *arg, struct pool *pool,
                  const struct progress *progress, struct err *e)
{
	int64_t blocks = (n + rows - 1) / rows;
	struct pass p = {task, arg, 0};

	for (; p.first < blocks; p.first += AT_ONCE) {
		int64_t left = blocks - p.first;

		if (progress_tell(progress, name, p.first * rows, n))
			return err_set(e, ERR_AGAIN, "clustering interrupted");
		pool_run(pool, left < AT_ONCE ? left : AT_ONCE, pass_task, &p);
	}
	return 0;
}
