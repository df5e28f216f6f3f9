/* Computes precision, recall, density and coverage from k-th nearest neighbours. */
#include "metric/neighbours.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "metric/distances.h"

enum { NEAREST = 64 }; /* most neighbours that are ranked */

/* The radii: for each element of one set, the squared distances to its k nearest others. */
struct radii {
	struct distances s;
	int k;
	int64_t round;
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

/* A tile of pairs updates the radii of both its rows and its columns. The unordered pairs {a, b} of `tiles` tiles are split into as many rounds: in
 * each round, a + b = round modulo tiles. No tile occurs twice in a round, so its tasks write to different rows. */
static int64_t round_tasks(int64_t tiles, int64_t round)
{
	return round / 2 + 1 + (tiles + round) / 2 - round;
}

static void round_pair(int64_t *a, int64_t *b, int64_t tiles, int64_t round, int64_t task)
{
	int64_t wrapped = task - round / 2 - 1;

	*a = wrapped < 0 ? task : round + 1 + wrapped;
	*b = wrapped < 0 ? round - task : tiles + round - *a;
}

static void radii_task(void *arg, int64_t task, int worker)
{
	struct radii *r = arg;
	struct distance_tile t;
	double limit[GRAM_TILE], *x, *y;
	uint8_t near[GRAM_TILE];
	int64_t ti, tj;
	int k = r->k;

	round_pair(&ti, &tj, r->s.g.ti, r->round, task);
	distance_tile_make(&t, &r->s, ti, tj, worker);
	x = r->out + t.i0 * k, y = r->out + t.j0 * k;
	for (int64_t j = 0; j < t.nj; j++)
		limit[j] = y[j * k + k - 1];
	for (int64_t i = 0; i < t.ni; i++) {
		if (!distance_tile_near(&t, i, x[i * k + k - 1], limit, near))
			continue;
		for (int64_t j = ti == tj ? i + 1 : 0; j < t.nj; j++)
			if (near[j]) {
				double v = distance_tile_exact(&t, i, j);

				insert(x + i * k, k, v);
				insert(y + j * k, k, v);
				limit[j] = y[j * k + k - 1];
			}
	}
}

/* out (n, k): squared distances from every x to its k nearest others, ascending. */
static int radii_find(double *out, struct pool *pool, struct pool_pass *pass, const float *x, const double *squares, int64_t n, int d, int k,
                      struct err *e)
{
	struct radii r = {.k = k, .out = out};
	int rc = distances_init(&r.s, pool, x, squares, n, x, squares, n, d, e);

	for (int64_t i = 0; i < n * k; i++)
		out[i] = INFINITY;
	for (; !rc && r.round < r.s.g.ti; r.round++)
		rc = pool_run_pass(pool, pass, 1, round_tasks(r.s.g.ti, r.round), radii_task, &r, e);
	distances_release(&r.s);
	return rc;
}

/* The comparison of all fakes, a tile of rows at a time, with all reals. */
struct meeting {
	struct distances s;
	const double *fr, *rr; /* (m, fk), (n, rk): radii of fakes and reals */
	int fk, rk, pr_k, dc_k;
	uint8_t *precise, *authentic; /* (m) */
	int64_t *balls;               /* (m) */
	uint8_t *recalled, *covered;  /* (ti, n): one row of flags for each tile of fakes */
};

/* The fakes of a tile, and the flags of the reals that they reach. */
struct fakes {
	double best[GRAM_TILE]; /* squared distance to the nearest real */
	int64_t at[GRAM_TILE];  /* index of the nearest real, the first of equals */
	uint8_t *recalled, *covered;
};

/* Update the results for one pair. The distance is computed exactly only if its bounds leave a decision open. */
static void pair_meet(struct meeting *w, struct fakes *f, struct distance_tile *t, int64_t i, int64_t j)
{
	int64_t fake = t->i0 + i, real = t->j0 + j;
	const double *ball = w->rr + real * w->rk, low = distance_tile_low(t, i, j), high = distance_tile_high(t, i, j);
	double precise = ball[w->pr_k - 1], dense = ball[w->dc_k - 1], recall = w->fr[fake * w->fk + w->pr_k - 1], v = high;

	if (!(low >= f->best[i]) || (!(low > precise) && !(high <= precise) && !w->precise[fake]) || (!(low >= dense) && !(high < dense)) ||
	    (!(low > recall) && !(high <= recall) && !f->recalled[real])) {
		v = distance_tile_exact(t, i, j);
		if (v < f->best[i])
			f->best[i] = v, f->at[i] = real;
	}
	w->precise[fake] |= v <= precise;
	w->balls[fake] += v < dense;
	f->covered[real] |= v < dense;
	f->recalled[real] |= v <= recall;
}

static void meeting_task(void *arg, int64_t ti, int worker)
{
	struct meeting *w = arg;
	int64_t i0 = ti * GRAM_TILE, ni = gram_count(w->s.g.n, ti), n = w->s.g.m;
	struct fakes f = {.recalled = w->recalled + ti * n, .covered = w->covered + ti * n};
	struct distance_tile t;
	uint8_t near[GRAM_TILE];
	double limit[GRAM_TILE];

	for (int64_t i = 0; i < ni; i++)
		f.best[i] = INFINITY;
	for (int64_t tj = 0; tj < w->s.g.tj; tj++) {
		distance_tile_make(&t, &w->s, ti, tj, worker);
		for (int64_t j = 0; j < t.nj; j++) {
			const double *ball = w->rr + (t.j0 + j) * w->rk;

			limit[j] = ball[(w->pr_k > w->dc_k ? w->pr_k : w->dc_k) - 1];
		}
		for (int64_t i = 0; i < ni; i++)
			if (distance_tile_near(&t, i, fmax(f.best[i], w->fr[(i0 + i) * w->fk + w->pr_k - 1]), limit, near))
				for (int64_t j = 0; j < t.nj; j++)
					if (near[j])
						pair_meet(w, &f, &t, i, j);
	}
	for (int64_t i = 0; i < ni; i++)
		w->authentic[i0 + i] = w->rr[f.at[i] * w->rk] < f.best[i];
}

static void meeting_result(struct neighbours *out, const struct meeting *w)
{
	int64_t m = w->s.g.n, n = w->s.g.m, precise = 0, recalled = 0, balls = 0, covered = 0, authentic = 0;

	for (int64_t i = 0; i < m; i++) {
		precise += w->precise[i];
		authentic += w->authentic[i];
		balls += w->balls[i];
	}
	for (int64_t j = 0; j < n; j++) {
		int any = 0, inside = 0;

		for (int64_t t = 0; t < w->s.g.ti; t++) {
			any |= w->recalled[t * n + j];
			inside |= w->covered[t * n + j];
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
	size_t m = (size_t)w->s.g.n, n = (size_t)w->s.g.m, tiles = (size_t)w->s.g.ti;
	uint8_t *flags = mem_try(2 * (m + tiles * n), 1, "neighbourhoods", e);
	int rc = -1;

	w->balls = flags ? mem_try(m, sizeof *w->balls, "neighbourhoods", e) : NULL;
	if (w->balls) {
		w->precise = flags;
		w->authentic = flags + m;
		w->recalled = flags + 2 * m;
		w->covered = w->recalled + tiles * n;
		rc = pool_run_pass(pool, pass, w->s.g.tj, w->s.g.ti, meeting_task, w, e);
		if (!rc)
			meeting_result(out, w);
	}
	mem_free(flags);
	mem_free(w->balls);
	return rc;
}

int neighbours_measure(struct neighbours *out, struct pool *pool, const float *real, int64_t n, const float *fake, int64_t m, int d, int pr_k,
                       int dc_k, struct err *e)
{
	int rk = pr_k > dc_k ? pr_k : dc_k, fk = pr_k, rc = -1;
	int64_t tn = gram_tiles(n, 1), tm = gram_tiles(m, 1);
	struct pool_pass pass = {"neighbours, blocks of pairs", 0, tn * (tn + 1) / 2 + tm * (tm + 1) / 2 + tm * tn};
	double *squares, *rr, *fr;

	if (pr_k < 1 || dc_k < 1 || rk > NEAREST || n <= rk || m <= fk)
		return err_set(e, ERR_USAGE, "%d and %d nearest neighbours are too many for %lld reference pictures and %lld samples", pr_k, dc_k,
		               (long long)n, (long long)m);
	squares = mem_try((size_t)(n + m) + (size_t)n * (size_t)rk + (size_t)m * (size_t)fk, sizeof *squares, "neighbourhoods", e);
	if (!squares)
		return -1;
	rr = squares + n + m, fr = rr + n * rk;
	gram_squares(squares, real, n, d);
	gram_squares(squares + n, fake, m, d);
	if (!radii_find(rr, pool, &pass, real, squares, n, d, rk, e) && !radii_find(fr, pool, &pass, fake, squares + n, m, d, fk, e)) {
		struct meeting w = {.fr = fr, .rr = rr, .fk = fk, .rk = rk, .pr_k = pr_k, .dc_k = dc_k};

		if (!distances_init(&w.s, pool, fake, squares + n, m, real, squares, n, d, e))
			rc = meeting_run(out, &w, pool, &pass, e);
		distances_release(&w.s);
	}
	mem_free(squares);
	return rc;
}
