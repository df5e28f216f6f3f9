/* Accumulates mean and covariance in an order that does not depend on threads. */
#include "metric/moments.h"

#include <string.h>

#include "core/mem.h"
#include "metric/outerimpl.h"

/* Sums are accumulated in tiles of BAND x BAND. */
enum { CHUNK = 256, BAND = 16 };

static size_t bands(int d)
{
	return (size_t)(d + BAND - 1) / BAND;
}

int moments_init(struct moments *s, int d, struct err *e)
{
	size_t n = (size_t)d;

	*s = (struct moments){.d = d};
	s->mean = mem_try(n, sizeof(double), "a feature mean", e);
	s->spread = s->mean ? mem_try(n * n, sizeof(double), "a feature covariance", e) : NULL;
	s->chunk = s->spread ? mem_try(n * (CHUNK + 1), sizeof(double), "a chunk of features", e) : NULL;
	s->panels = s->chunk ? mem_try(bands(d) * BAND * CHUNK, sizeof(double), "a chunk of features", e) : NULL;
	if (s->panels)
		return 0;
	moments_release(s);
	return -1;
}

void moments_release(struct moments *s)
{
	mem_free(s->mean);
	mem_free(s->spread);
	mem_free(s->chunk);
	mem_free(s->panels);
	*s = (struct moments){0};
}

struct merge {
	struct moments *s;
	const double *delta; /* (d): mean of the chunk minus mean so far */
	double weight;       /* n held / (n + held) */
};

/* Copy BAND features of the chunk into a panel, row after row. */
static void panel_task(void *arg, int64_t p, int worker)
{
	struct moments *s = ((struct merge *)arg)->s;
	double *out = s->panels + p * BAND * CHUNK;

	(void)worker;
	for (int r = 0; r < s->held; r++)
		for (int64_t j = p * BAND; j < (p + 1) * BAND; j++)
			*out++ = j < s->d ? s->chunk[r * (int64_t)s->d + j] : 0;
}

/* tile (BAND, BAND) += a' b of two panels with `rows` rows. */
static void tile_add(double *tile, const double *a, const double *b, int rows)
{
	for (int i = 0; i < BAND; i += OUTER_ROWS)
		for (int j = 0; j < BAND; j += OUTER_COLS)
			outer_add(tile + i * BAND + j, BAND, a + i, BAND, b + j, BAND, rows);
}

/* Update BAND rows of the lower triangle: spread += the products of the centred rows of the chunk, in order, and then the term of the shift between
 * the means. */
static void band_task(void *arg, int64_t p, int worker)
{
	struct merge *m = arg;
	struct moments *s = m->s;
	int64_t d = s->d, i0 = p * BAND, ni = d - i0 < BAND ? d - i0 : BAND;

	(void)worker;
	for (int64_t q = 0; q <= p; q++) {
		int64_t j0 = q * BAND;
		double tile[BAND * BAND] = {0};

		for (int64_t i = 0; i < ni; i++)
			for (int64_t j = 0; j < BAND && j0 + j <= i0 + i; j++)
				tile[i * BAND + j] = s->spread[(i0 + i) * d + j0 + j];
		tile_add(tile, s->panels + i0 * CHUNK, s->panels + j0 * CHUNK, s->held);
		for (int64_t i = 0; i < ni; i++)
			for (int64_t j = 0; j < BAND && j0 + j <= i0 + i; j++)
				s->spread[(i0 + i) * d + j0 + j] = tile[i * BAND + j] + m->delta[i0 + i] * m->weight * m->delta[j0 + j];
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
	pool_run(pool, (int64_t)bands(d), panel_task, &m);
	pool_run(pool, (int64_t)bands(d), band_task, &m);
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
