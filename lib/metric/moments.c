#include "metric/moments.h"

#include <string.h>

#include "core/mem.h"

enum { CHUNK = 256, BAND = 16 };

int moments_init(struct moments *s, int d, struct err *e)
{
	size_t n = (size_t)d;

	*s = (struct moments){.d = d};
	s->mean = mem_try(n, sizeof(double), "a feature mean", e);
	s->spread = s->mean ? mem_try(n * n, sizeof(double), "a feature covariance", e) : NULL;
	s->chunk = s->spread ? mem_try(n * (CHUNK + 1), sizeof(double), "a chunk of features", e) : NULL;
	if (s->chunk)
		return 0;
	moments_release(s);
	return -1;
}

void moments_release(struct moments *s)
{
	mem_free(s->mean);
	mem_free(s->spread);
	mem_free(s->chunk);
	*s = (struct moments){0};
}

struct merge {
	struct moments *s;
	const double *delta; /* (d): mean of the chunk minus mean so far */
	double weight;       /* n held / (n + held) */
};

/* BAND rows of the lower triangle: spread += sum over the chunk of the centred rows' products, in order, then the shift of means
 */
static void band_task(void *arg, int64_t task, int worker)
{
	struct merge *m = arg;
	struct moments *s = m->s;
	int d = s->d;

	(void)worker;
	for (int i = (int)task * BAND; i < d && i < ((int)task + 1) * BAND; i++) {
		double *row = s->spread + (size_t)i * (size_t)d, shift = m->delta[i] * m->weight;

		for (int r = 0; r < s->held; r++) {
			const double *x = s->chunk + (size_t)r * (size_t)d;
			double a = x[i];

			for (int j = 0; j <= i; j++)
				row[j] += a * x[j];
		}
		for (int j = 0; j <= i; j++)
			row[j] += shift * m->delta[j];
	}
}

static void chunk_merge(struct moments *s, struct pool *pool)
{
	double *mean = s->chunk + (size_t)CHUNK * (size_t)s->d, total = (double)(s->n + s->held);
	struct merge m = {s, mean, (double)s->n * (double)s->held / total};
	int d = s->d;

	if (!s->held)
		return;
	memset(mean, 0, (size_t)d * sizeof *mean);
	for (int r = 0; r < s->held; r++)
		for (int j = 0; j < d; j++)
			mean[j] += s->chunk[(size_t)r * (size_t)d + (size_t)j];
	for (int j = 0; j < d; j++)
		mean[j] /= s->held;
	for (int r = 0; r < s->held; r++)
		for (int j = 0; j < d; j++)
			s->chunk[(size_t)r * (size_t)d + (size_t)j] -= mean[j];
	for (int j = 0; j < d; j++)
		mean[j] -= s->mean[j];
	pool_run(pool, (d + BAND - 1) / BAND, band_task, &m);
	for (int j = 0; j < d; j++)
		s->mean[j] += mean[j] * ((double)s->held / total);
	s->n += s->held;
	s->held = 0;
}

void moments_add(struct moments *s, struct pool *pool, const float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		double *row = s->chunk + (size_t)s->held * (size_t)s->d;

		for (int j = 0; j < s->d; j++)
			row[j] = x[i * s->d + j];
		if (++s->held == CHUNK)
			chunk_merge(s, pool);
	}
}

int moments_result(struct moments *s, struct pool *pool, double *mu, double *sigma, struct err *e)
{
	int d = s->d;

	chunk_merge(s, pool);
	if (s->n < 2)
		return err_set(e, ERR_USAGE, "a covariance needs at least 2 samples, not %lld", (long long)s->n);
	memcpy(mu, s->mean, (size_t)d * sizeof *mu);
	for (int i = 0; i < d; i++)
		for (int j = 0; j <= i; j++) {
			double v = s->spread[(size_t)i * (size_t)d + (size_t)j] / (double)(s->n - 1);

			sigma[(size_t)i * (size_t)d + (size_t)j] = sigma[(size_t)j * (size_t)d + (size_t)i] = v;
		}
	return 0;
}
