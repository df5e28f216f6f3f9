/* Finds generated pictures that copy a training picture, by the ratio of the two nearest distances. */
#include "metric/memorised.h"

#include <string.h>

#include "core/mem.h"
#include "core/pool.h"

/* A task compares BLOCK samples with the training set, in slices that stay in cache. */
enum { BLOCK = 32, SLICE = 64, SPAN = 256 };

struct search {
	const uint8_t *samples, *train;
	int64_t m, n, d;
	uint8_t *which;
};

/* SPAN squared differences of at most 255^2 stay far below 2^31; the fixed count lets the compiler vectorise */
static int32_t squared_span(const uint8_t *a, const uint8_t *b)
{
	int32_t s = 0;

	for (int i = 0; i < SPAN; i++) {
		int16_t t = (int16_t)(a[i] - b[i]);

		s += t * t;
	}
	return s;
}

/* |a - b|^2; may stop early once the sum is at least `enough` */
static int64_t squared(const uint8_t *a, const uint8_t *b, int64_t d, int64_t enough)
{
	int64_t total = 0, i = 0;

	for (; i + SPAN <= d; i += SPAN) {
		total += squared_span(a + i, b + i);
		if (total >= enough)
			return total;
	}
	for (; i < d; i++)
		total += (a[i] - b[i]) * (a[i] - b[i]);
	return total;
}

static void block_task(void *arg, int64_t task, int worker)
{
	struct search *s = arg;
	int64_t first = task * BLOCK, count = s->m - first < BLOCK ? s->m - first : BLOCK;
	int64_t best[BLOCK], next[BLOCK];

	(void)worker;
	for (int64_t i = 0; i < count; i++)
		best[i] = next[i] = INT64_MAX;
	for (int64_t j0 = 0; j0 < s->n; j0 += SLICE)
		for (int64_t i = 0; i < count; i++)
			for (int64_t j = j0; j < j0 + SLICE && j < s->n; j++) {
				int64_t t = squared(s->samples + (first + i) * s->d, s->train + j * s->d, s->d, next[i]);

				if (t < best[i]) {
					next[i] = best[i];
					best[i] = t;
				} else if (t < next[i]) {
					next[i] = t;
				}
			}
	for (int64_t i = 0; i < count; i++)
		s->which[first + i] = best[i] == 0 || best[i] < next[i] / 9 + (next[i] % 9 != 0);
}

int memorised_fraction(double *out, uint8_t *which, struct pool *pool, const uint8_t *samples, int64_t m, const uint8_t *train, int64_t n, int64_t d,
                       struct err *e)
{
	struct search s = {samples, train, m, n, d, which};
	struct pool_pass pass = {"copies, samples looked up", 0, m};
	int64_t count = 0;
	int rc;

	if (m < 1 || n < 2)
		return err_set(e, ERR_USAGE, "the memorised fraction needs a sample and 2 training pictures, not %lld and %lld", (long long)m,
		               (long long)n);
	if (!which)
		s.which = mem_try((size_t)m, 1, "memorised flags", e);
	if (!s.which)
		return -1;
	rc = pool_run_pass(pool, &pass, BLOCK, (m + BLOCK - 1) / BLOCK, block_task, &s, e);
	for (int64_t i = 0; i < m && !rc; i++)
		count += s.which[i];
	*out = (double)count / (double)m;
	if (!which)
		mem_free(s.which);
	return rc;
}
