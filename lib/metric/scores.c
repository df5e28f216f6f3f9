/* Computes the Inception score, the CLIP score and the Vendi score. */
#include "metric/scores.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "metric/gram.h"
#include "metric/moments.h"
#include "metric/rbf.h"

enum { BLOCK = 256 };

struct group {
	const float *x;
	const int64_t *order;
	int64_t first, count;
	int c, probabilities;
	double *part; /* (blocks, c + 1): sums over rows of p, and in the last column of p log p summed over classes */
	double *p;    /* (workers, 2 c): probabilities of one row, and their logs */
};

/* p (c) and log p (c) of one row, one after the other. */
static void row_probabilities(double *p, const float *x, int c, int probabilities)
{
	double top = x[0], sum = 0;

	for (int j = 0; j < c; j++)
		top = fmax(top, x[j]);
	for (int j = 0; j < c; j++) {
		p[j] = probabilities ? x[j] : exp(x[j] - top);
		sum += p[j];
	}
	for (int j = 0; j < c; j++) {
		p[c + j] = probabilities ? (p[j] > 0 ? log(p[j]) : 0) : x[j] - top - log(sum);
		p[j] = probabilities ? p[j] : p[j] / sum;
	}
}

static void block_task(void *arg, int64_t task, int worker)
{
	struct group *g = arg;
	double *part = g->part + task * (g->c + 1), *p = g->p + (int64_t)worker * 2 * g->c;

	for (int64_t i = task * BLOCK; i < g->count && i < (task + 1) * BLOCK; i++) {
		int64_t row = g->order ? g->order[g->first + i] : g->first + i;

		row_probabilities(p, g->x + row * g->c, g->c, g->probabilities);
		for (int j = 0; j < g->c; j++) {
			part[j] += p[j];
			part[g->c] += p[j] * p[g->c + j];
		}
	}
}

/* exp of the mean over the rows of sum p log p, minus sum q log q, where q is the mean of p. */
static double group_score(struct group *g, struct pool *pool)
{
	int64_t blocks = (g->count + BLOCK - 1) / BLOCK;
	double kl = 0, n = (double)g->count;

	memset(g->part, 0, (size_t)blocks * (size_t)(g->c + 1) * sizeof *g->part);
	pool_run(pool, blocks, block_task, g);
	for (int j = 0; j <= g->c; j++) {
		double s = 0;

		for (int64_t b = 0; b < blocks; b++)
			s += g->part[b * (g->c + 1) + j];
		if (j == g->c)
			kl += s / n;
		else if (s > 0)
			kl -= s / n * log(s / n);
	}
	return exp(kl);
}

static int are_probabilities(const float *x, int64_t n, int c)
{
	for (int64_t i = 0; i < n; i++) {
		double s = 0;

		for (int j = 0; j < c; j++) {
			if (!(x[i * c + j] >= 0))
				return 0;
			s += x[i * c + j];
		}
		if (fabs(s - 1) > 1e-3)
			return 0;
	}
	return 1;
}

int inception_score(struct inception_score *out, struct pool *pool, const float *logits, const int64_t *order, int64_t n, int c,
                    const struct inception_groups *g, struct err *e)
{
	int64_t groups = g->chunk > 0 ? (n + g->chunk - 1) / g->chunk : g->splits, longest;
	struct group w = {.x = logits, .order = order, .c = c};
	int workers = pool ? pool_threads(pool) : 1;
	double *score;

	if (c < 2 || groups < 1 || n < groups)
		return err_set(e, ERR_USAGE, "an inception score over %lld groups is impossible with %lld samples of %d classes", (long long)groups,
		               (long long)n, c);
	longest = g->chunk > 0 && g->chunk < n ? g->chunk : g->chunk > 0 ? n : n / groups + 1;
	w.probabilities = are_probabilities(logits, n, c);
	score = mem_try((size_t)groups + (size_t)(longest / BLOCK + 1) * (size_t)(c + 1) + (size_t)workers * 2 * (size_t)c, sizeof *score,
	                "sums of class probabilities", e);
	if (!score)
		return -1;
	w.part = score + groups;
	w.p = w.part + (longest / BLOCK + 1) * (c + 1);
	*out = (struct inception_score){.groups = groups};
	for (int64_t k = 0; k < groups; k++) {
		w.first = g->chunk > 0 ? k * g->chunk : k * n / groups;
		w.count = g->chunk > 0 ? (n - w.first < g->chunk ? n - w.first : g->chunk) : (k + 1) * n / groups - w.first;
		score[k] = group_score(&w, pool);
		out->mean += score[k] / (double)groups;
	}
	for (int64_t k = 0; k < groups; k++)
		out->sd += (score[k] - out->mean) * (score[k] - out->mean) / (double)groups;
	out->sd = sqrt(out->sd);
	mem_free(score);
	return isfinite(out->mean) ? 0 : err_set(e, ERR_DATA, "the inception score is not finite");
}

/* whole: rows of image are divided by their length. */
static int mean_cosine(double *mean, double *se, int whole, const float *image, const int64_t *order, const float *text, int64_t n, int d,
                       struct err *e)
{
	double sum = 0, squares = 0;

	if (n < 2)
		return err_set(e, ERR_USAGE, "a CLIP score needs at least 2 pairs of sample and caption, not %lld", (long long)n);
	for (int64_t i = 0; i < n; i++) {
		const float *a = image + (order ? order[i] : i) * d, *b = text + i * d;
		double aa = 0, bb = 0, ab = 0, score;

		for (int k = 0; k < d; k++) {
			aa += (double)a[k] * a[k];
			bb += (double)b[k] * b[k];
			ab += (double)a[k] * b[k];
		}
		if (aa == 0 || bb == 0)
			return err_set(e, ERR_DATA, "the embedding of %s %lld is zero", aa == 0 ? "sample" : "caption", (long long)i);
		score = fmax(100 * ab / sqrt(whole ? aa * bb : bb), 0);
		sum += score;
		squares += score * score;
	}
	*mean = sum / (double)n;
	*se = sqrt(fmax(squares / (double)n - *mean * *mean, 0) / (double)(n - 1));
	return 0;
}

int clip_score(double *mean, double *se, const float *image, const int64_t *order, const float *text, int64_t n, int d, struct err *e)
{
	return mean_cosine(mean, se, 1, image, order, text, n, d, e);
}

int clip_score_of_clips(double *mean, double *se, const float *video, const int64_t *order, const float *text, int64_t n, int d, struct err *e)
{
	return mean_cosine(mean, se, 0, video, order, text, n, d, e);
}

/* out: the sum of -w log w over the eigenvalues w of k (d, d). Overwrites k. */
static int entropy(double *out, double *k, int d, struct err *e)
{
	double *w = mem_alloc((size_t)d * sizeof *w);
	int info = (int)LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'N', 'U', d, k, d, w);

	*out = 0;
	for (int i = 0; i < d && !info; i++)
		if (w[i] > 0)
			*out -= w[i] * log(w[i]);
	mem_free(w);
	if (info == LAPACK_WORK_MEMORY_ERROR)
		return err_set(e, ERR_NOMEM, "out of memory: eigenvalues of %d x %d similarities", d, d);
	return info ? err_set(e, ERR_FAIL, "LAPACK dsyevd failed on %d x %d similarities (info %d)", d, d, info) : 0;
}

/* A matrix whose eigenvalues give the Vendi score. With n >= d: k (d, d), the mean of x x' over the rows, from their mean and covariance. With fewer
 * rows: k (n, n), their inner products over n. Both matrices have the same nonzero eigenvalues. */
static int similarities(double *k, struct pool *pool, const float *x, int64_t n, int d, struct err *e)
{
	struct moments m;
	double *mu;
	int rc = -1;

	if (n < d) {
		struct gram g;

		if (gram_init(&g, NULL, x, n, x, n, d, e))
			return -1;
		for (int64_t t = 0; t < g.ti * g.tj; t++) {
			int64_t i0 = t / g.tj * GRAM_TILE, j0 = t % g.tj * GRAM_TILE;
			const double *dot = gram_tile(&g, t / g.tj, t % g.tj, 0);

			for (int64_t i = 0; i < gram_count(n, t / g.tj); i++)
				for (int64_t j = 0; j < gram_count(n, t % g.tj); j++)
					k[(i0 + i) * n + j0 + j] = dot[i * GRAM_TILE + j] / (double)n;
		}
		gram_release(&g);
		return 0;
	}
	mu = mem_try((size_t)d, sizeof *mu, "a feature mean", e);
	if (mu && !moments_init(&m, d, e)) {
		moments_add(&m, pool, x, n);
		rc = moments_result(&m, pool, mu, k, e);
		moments_release(&m);
	}
	for (int64_t i = 0; !rc && i < d; i++)
		for (int64_t j = 0; j < d; j++)
			k[i * d + j] = k[i * d + j] * ((double)(n - 1) / (double)n) + mu[i] * mu[j];
	mem_free(mu);
	return rc;
}

int vendi_score(double *out, struct pool *pool, const float *x, int64_t n, int d, struct err *e)
{
	int side = n < d ? (int)n : d, rc = -1;
	float *unit;
	double *k;

	if (n < 2)
		return err_set(e, ERR_USAGE, "a Vendi score needs at least 2 samples, not %lld", (long long)n);
	unit = mem_try((size_t)n * (size_t)d, sizeof *unit, "vectors of length 1", e);
	k = unit ? mem_try((size_t)side * (size_t)side, sizeof *k, "similarities of samples", e) : NULL;
	if (k) {
		rows_normalise(unit, x, n, d);
		rc = similarities(k, pool, unit, n, d, e) || entropy(out, k, side, e) ? -1 : 0;
		*out = exp(*out);
	}
	mem_free(unit);
	mem_free(k);
	return rc;
}
