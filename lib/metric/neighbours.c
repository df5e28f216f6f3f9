/* Precision, recall, density and coverage by k-th nearest neighbours. */
#include "metric/neighbours.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "metric/gram.h"

enum { NEAREST = 64 }; /* most neighbours that are ranked */

static double between(double xx, double yy, double dot)
{
	return fmax(xx + yy - 2 * dot, 0);
}

/* Radii: for each element of one set the squared distances to its nearest others */
struct radii {
	struct gram g;
	const double *squares;
	int k;
	double *out; /* (n, k), ascending */
};

static void insert(double *best, int k, double v)
{
	int i = k - 1;

	if (v >= best[i])
		return;
	for (; i > 0 && best[i - 1] > v; i--)
		best[i] = best[i - 1];
	best[i] = v;
}

static void radii_task(void *arg, int64_t ti, int worker)
{
	struct radii *r = arg;
	int64_t ni = gram_count(r->g.n, ti), i0 = ti * GRAM_TILE;

	for (int64_t i = 0; i < ni * r->k; i++)
		r->out[i0 * r->k + i] = INFINITY;
	for (int64_t tj = 0; tj < r->g.tj; tj++) {
		const double *dot = gram_tile(&r->g, ti, tj, worker);
		int64_t j0 = tj * GRAM_TILE;

		for (int64_t i = 0; i < ni; i++)
			for (int64_t j = 0; j < gram_count(r->g.m, tj); j++)
				if (i0 + i != j0 + j)
					insert(r->out + (i0 + i) * r->k, r->k,
					       between(r->squares[i0 + i], r->squares[j0 + j], dot[i * GRAM_TILE + j]));
	}
}

/* out (n, k): squared distances of every x to its k nearest others */
static int radii_find(double *out, struct pool *pool, struct pool_pass *pass, const float *x, const double *squares, int64_t n, int d, int k,
                      struct err *e)
{
	struct radii r = {.squares = squares, .k = k, .out = out};
	int rc;

	if (gram_init(&r.g, pool, x, n, x, n, d, e))
		return -1;
	rc = pool_run_pass(pool, pass, r.g.tj, r.g.ti, radii_task, &r, e);
	gram_release(&r.g);
	return rc;
}

/* Fakes, a tile of rows at a time, against all reals */
struct meeting {
	struct gram g;
	const double *fake, *real; /* squared lengths */
	const double *fr, *rr;     /* (m, fk), (n, rk) radii */
	int fk, rk, pr_k, dc_k;
	uint8_t *precise, *authentic; /* (m) */
	int64_t *balls;               /* (m) */
	double *nearest;              /* (ti, n) squared distance of a real to the nearest fake of a tile */
	uint8_t *recalled;            /* (ti, n) */
};

static void meeting_task(void *arg, int64_t ti, int worker)
{
	struct meeting *w = arg;
	int64_t i0 = ti * GRAM_TILE, ni = gram_count(w->g.n, ti), at[GRAM_TILE];
	double *nearest = w->nearest + ti * w->g.m, best[GRAM_TILE];
	uint8_t *recalled = w->recalled + ti * w->g.m;

	for (int64_t j = 0; j < w->g.m; j++)
		nearest[j] = INFINITY;
	for (int64_t i = 0; i < ni; i++)
		best[i] = INFINITY, at[i] = 0;
	for (int64_t tj = 0; tj < w->g.tj; tj++) {
		const double *dot = gram_tile(&w->g, ti, tj, worker);
		int64_t j0 = tj * GRAM_TILE;

		for (int64_t i = 0; i < ni; i++)
			for (int64_t j = j0; j < j0 + gram_count(w->g.m, tj); j++) {
				double t = between(w->fake[i0 + i], w->real[j], dot[i * GRAM_TILE + j - j0]);
				const double *ball = w->rr + j * w->rk;

				w->precise[i0 + i] |= t <= ball[w->pr_k - 1];
				w->balls[i0 + i] += t < ball[w->dc_k - 1];
				recalled[j] |= t <= w->fr[(i0 + i) * w->fk + w->pr_k - 1];
				if (t < nearest[j])
					nearest[j] = t;
				if (t < best[i])
					best[i] = t, at[i] = j;
			}
	}
	for (int64_t i = 0; i < ni; i++)
		w->authentic[i0 + i] = w->rr[at[i] * w->rk] < best[i];
}

static void meeting_result(struct neighbours *out, const struct meeting *w)
{
	int64_t m = w->g.n, n = w->g.m, precise = 0, recalled = 0, balls = 0, covered = 0, authentic = 0;

	for (int64_t i = 0; i < m; i++) {
		precise += w->precise[i];
		authentic += w->authentic[i];
		balls += w->balls[i];
	}
	for (int64_t j = 0; j < n; j++) {
		int any = 0, inside = 0;

		for (int64_t t = 0; t < w->g.ti; t++) {
			any |= w->recalled[t * n + j];
			inside |= w->nearest[t * n + j] < w->rr[j * w->rk + w->dc_k - 1];
		}
		recalled += any;
		covered += inside;
	}
	*out = (struct neighbours){.precision = (double)precise / (double)m,
	                           .recall = (double)recalled / (double)n,
	                           .density = (double)balls / ((double)w->dc_k * (double)m),
	                           .coverage = (double)covered / (double)n,
	                           .authenticity = (double)authentic / (double)m};
}

static int meeting_run(struct neighbours *out, struct meeting *w, struct pool *pool, struct pool_pass *pass, struct err *e)
{
	size_t m = (size_t)w->g.n, n = (size_t)w->g.m, tiles = (size_t)w->g.ti;
	uint8_t *flags = mem_try(2 * m + tiles * n, 1, "neighbourhoods", e);
	int rc = -1;

	w->balls = flags ? mem_try(m, sizeof *w->balls, "neighbourhoods", e) : NULL;
	w->nearest = w->balls ? mem_try(tiles * n, sizeof *w->nearest, "nearest neighbours", e) : NULL;
	if (w->nearest) {
		w->precise = flags;
		w->authentic = flags + m;
		w->recalled = flags + 2 * m;
		rc = pool_run_pass(pool, pass, w->g.tj, w->g.ti, meeting_task, w, e);
		if (!rc)
			meeting_result(out, w);
	}
	mem_free(flags);
	mem_free(w->balls);
	mem_free(w->nearest);
	return rc;
}

int neighbours_measure(struct neighbours *out, struct pool *pool, const float *real, int64_t n, const float *fake, int64_t m, int d, int pr_k,
                       int dc_k, struct err *e)
{
	int rk = pr_k > dc_k ? pr_k : dc_k, fk = pr_k, rc = -1;
	struct pool_pass pass = {"neighbours, blocks of pairs", 0, gram_tiles(n, n) + gram_tiles(m, m) + gram_tiles(m, n)};
	double *squares, *rr, *fr;

	if (pr_k < 1 || dc_k < 1 || rk > NEAREST || n <= rk || m <= fk)
		return err_set(e, ERR_USAGE, "neighbourhoods of %d and %d cannot be had from %lld reference and %lld sample vectors", pr_k, dc_k,
		               (long long)n, (long long)m);
	squares = mem_try((size_t)(n + m) + (size_t)n * (size_t)rk + (size_t)m * (size_t)fk, sizeof *squares, "neighbourhoods", e);
	if (!squares)
		return -1;
	rr = squares + n + m, fr = rr + n * rk;
	gram_squares(squares, real, n, d);
	gram_squares(squares + n, fake, m, d);
	if (!radii_find(rr, pool, &pass, real, squares, n, d, rk, e) && !radii_find(fr, pool, &pass, fake, squares + n, m, d, fk, e)) {
		struct meeting w = {.fake = squares + n, .real = squares, .fr = fr, .rr = rr, .fk = fk, .rk = rk, .pr_k = pr_k, .dc_k = dc_k};

		if (!gram_init(&w.g, pool, fake, m, real, n, d, e))
			rc = meeting_run(out, &w, pool, &pass, e);
		gram_release(&w.g);
	}
	mem_free(squares);
	return rc;
}
