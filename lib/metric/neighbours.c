/* Computes precision, recall, density and coverage from k-th nearest neighbours. */
#include "metric/neighbours.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "metric/distances.h"
#include "metric/sketch.h"

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

/* A tile of pairs updates the radii of both its rows and its columns. The unordered pairs {a, b} of tiles are split into rounds: in each round,
 * a ^ b = round. No tile occurs twice in a round, so its tasks write to different rows. With sketches, tiles of the first rounds are the closest, and
 * the radii that they find spare later rounds most products. */
static int64_t rounds_count(int64_t tiles)
{
	int64_t rounds = 1;

	while (rounds < tiles)
		rounds *= 2;
	return rounds;
}

/* The highest bit of the round, 0 in the first. */
static int64_t round_bit(int64_t round)
{
	int64_t bit = 1;

	while (2 * bit <= round)
		bit *= 2;
	return round ? bit : 0;
}

/* The number of tiles without that bit: each is the first of a pair, whose second may not exist. */
static int64_t round_tasks(int64_t tiles, int64_t round)
{
	int64_t bit = round_bit(round), rest = bit ? tiles % (2 * bit) : 0;

	return bit ? tiles / (2 * bit) * bit + (rest < bit ? rest : bit) : tiles;
}

static void round_pair(int64_t *a, int64_t *b, int64_t round, int64_t task)
{
	int64_t bit = round_bit(round);

	*a = bit ? task / bit * 2 * bit + task % bit : task;
	*b = *a ^ round;
}

static int64_t rounds_tasks(int64_t tiles)
{
	int64_t tasks = 0;

	for (int64_t r = 0; r < rounds_count(tiles); r++)
		tasks += round_tasks(tiles, r);
	return tasks;
}

static void radii_task(void *arg, int64_t task, int worker)
{
	struct radii *r = arg;
	struct distance_tile t;
	double limit[GRAM_TILE], *x, *y;
	uint8_t near[GRAM_TILE];
	int64_t ti, tj;
	int k = r->k;

	round_pair(&ti, &tj, r->round, task);
	if (tj >= r->s.g.ti)
		return;
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

/* One of the two sets. */
struct side {
	const float *x; /* (n, d) */
	int64_t n;
	int d, k;
	double *squares;      /* (n) */
	double *radii;        /* (n, k): squared distances to the k nearest others, ascending */
	struct sketch sketch; /* z: NULL if there are none. Positions in `radii` are those of the sketches */
};

static const struct sketch *side_sketch(const struct side *s)
{
	return s->sketch.z ? &s->sketch : NULL;
}

static int radii_find(struct side *of, struct pool *pool, struct pool_pass *pass, struct err *e)
{
	struct radii r = {.k = of->k, .out = of->radii};
	int64_t n = of->n, rounds = rounds_count(gram_tiles(n, 1));
	int k = of->k, rc = distances_init(&r.s, pool, of->x, of->squares, n, of->x, of->squares, n, of->d, side_sketch(of), side_sketch(of), e);

	for (int64_t i = 0; i < n * k; i++)
		of->radii[i] = INFINITY;
	for (int64_t i = 0; !rc && i < rounds; i++) {
		/* Round 1 gives twice as many vectors their first radii as round 0, in as many exact distances */
		r.round = rounds > 1 && i < 2 ? !i : i;
		rc = pool_run_pass(pool, pass, 1, round_tasks(r.s.g.ti, r.round), radii_task, &r, e);
	}
	distances_release(&r.s);
	return rc;
}

/* The comparison of all fakes, a tile of rows at a time, with all reals. */
struct meeting {
	struct distances s;
	const int64_t *nearest; /* (ti): for each tile of fakes, the tile of reals to begin with; 0 without sketches */
	const double *fr, *rr;  /* (m, fk), (n, rk): radii of fakes and reals, by position */
	int fk, rk, pr_k, dc_k;
	uint8_t *precise, *authentic; /* (m) */
	int64_t *balls;               /* (m) */
	uint8_t *recalled, *covered;  /* (ti, n): one row of flags for each tile of fakes */
};

/* The fakes of a tile, and the flags of the reals that they reach. */
struct fakes {
	double best[GRAM_TILE]; /* squared distance to the nearest real */
	int64_t at[GRAM_TILE];  /* position of the nearest real, the one of the least index of equals */
	uint8_t *recalled, *covered;
};

/* Update the results for one pair. The distance is computed exactly only if its bounds leave a decision open. */
static void pair_meet(struct meeting *w, struct fakes *f, struct distance_tile *t, int64_t i, int64_t j)
{
	int64_t fake = t->i0 + i, real = t->j0 + j;
	const double *ball = w->rr + real * w->rk, low = distance_tile_low(t, i, j), high = distance_tile_high(t, i, j);
	double precise = ball[w->pr_k - 1], dense = ball[w->dc_k - 1], recall = w->fr[fake * w->fk + w->pr_k - 1], v = high;

	if (!(low > f->best[i]) || (!(low > precise) && !(high <= precise) && !w->precise[fake]) || (!(low >= dense) && !(high < dense)) ||
	    (!(low > recall) && !(high <= recall) && !f->recalled[real])) {
		v = distance_tile_exact(t, i, j);
		if (v < f->best[i] || (v == f->best[i] && distances_column(&w->s, real) < distances_column(&w->s, f->at[i])))
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
		f.best[i] = INFINITY, f.at[i] = 0;
	for (int64_t step = 0; step < rounds_count(w->s.g.tj); step++) {
		int64_t tj = w->nearest[ti] ^ step;

		if (tj >= w->s.g.tj)
			continue;
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

/* The mean of the sketches of a tile. */
static void tile_centre(double *out, const struct sketch *s, int64_t tile)
{
	int64_t count = gram_count(s->n, tile);

	for (int k = 0; k < s->dims; k++)
		out[k] = 0;
	for (int64_t i = 0; i < count; i++)
		for (int k = 0; k < s->dims; k++)
			out[k] += (double)s->z[(tile * GRAM_TILE + i) * s->dims + k] / (double)count;
}

/* out (ti): see struct meeting. */
static int tiles_nearest(int64_t *out, const struct distances *s, struct err *e)
{
	int dims = s->sx ? s->sx->dims : 0;
	double *centres = mem_try((size_t)(s->g.tj + 1) * (size_t)dims + 1, sizeof *centres, "neighbourhoods", e), *own = centres + s->g.tj * dims;

	if (!centres)
		return -1;
	for (int64_t j = 0; s->sy && j < s->g.tj; j++)
		tile_centre(centres + j * dims, s->sy, j);
	for (int64_t i = 0; i < s->g.ti; i++) {
		double best = INFINITY;

		out[i] = 0;
		if (s->sx)
			tile_centre(own, s->sx, i);
		for (int64_t j = 0; s->sx && j < s->g.tj; j++) {
			double v = 0;

			for (int k = 0; k < dims; k++)
				v += (own[k] - centres[j * dims + k]) * (own[k] - centres[j * dims + k]);
			if (v < best)
				best = v, out[i] = j;
		}
	}
	mem_free(centres);
	return 0;
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
	int64_t *nearest;
	int rc = -1;

	w->balls = flags ? mem_try(m + tiles, sizeof *w->balls, "neighbourhoods", e) : NULL;
	w->nearest = nearest = w->balls + m;
	if (w->balls && !tiles_nearest(nearest, &w->s, e)) {
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

/* Compute squares, and sketches if there are axes. */
static int side_prepare(struct side *s, struct pool *pool, const struct axes *a, struct err *e)
{
	gram_squares(s->squares, s->x, s->n, s->d);
	return a->k ? sketch_make(&s->sketch, pool, a, s->x, s->squares, s->n, e) : 0;
}

/* real.k is that of density or precision, the larger; fake.k that of recall. */
static int sides_measure(struct neighbours *out, struct pool *pool, struct side *real, struct side *fake, int pr_k, int dc_k, struct err *e)
{
	int64_t tn = gram_tiles(real->n, 1), tm = gram_tiles(fake->n, 1);
	struct pool_pass pass = {"neighbours, blocks of pairs", 0, rounds_tasks(tn) + rounds_tasks(tm) + tm * tn};
	struct meeting w = {.fr = fake->radii, .rr = real->radii, .fk = fake->k, .rk = real->k, .pr_k = pr_k, .dc_k = dc_k};
	int rc = -1;

	if (radii_find(real, pool, &pass, e) || radii_find(fake, pool, &pass, e))
		return -1;
	if (!distances_init(&w.s, pool, fake->x, fake->squares, fake->n, real->x, real->squares, real->n, real->d, side_sketch(fake),
	                    side_sketch(real), e))
		rc = meeting_run(out, &w, pool, &pass, e);
	distances_release(&w.s);
	return rc;
}

int neighbours_measure_along(struct neighbours *out, struct pool *pool, const float *real, int64_t n, const float *fake, int64_t m, int d, int pr_k,
                             int dc_k, int axes, struct err *e)
{
	int rk = pr_k > dc_k ? pr_k : dc_k, fk = pr_k, rc;
	struct side r = {.x = real, .n = n, .d = d, .k = rk}, f = {.x = fake, .n = m, .d = d, .k = fk};
	struct axes a;

	if (pr_k < 1 || dc_k < 1 || rk > NEAREST || n <= rk || m <= fk)
		return err_set(e, ERR_USAGE, "%d and %d nearest neighbours are too many for %lld reference pictures and %lld samples", pr_k, dc_k,
		               (long long)n, (long long)m);
	r.squares = mem_try((size_t)(n + m) + (size_t)n * (size_t)rk + (size_t)m * (size_t)fk, sizeof *r.squares, "neighbourhoods", e);
	if (!r.squares)
		return -1;
	f.squares = r.squares + n;
	r.radii = f.squares + m;
	f.radii = r.radii + n * rk;
	rc = axes_find(&a, pool, real, n, fake, m, d, axes, e);
	if (!rc)
		rc = side_prepare(&r, pool, &a, e);
	if (!rc)
		rc = side_prepare(&f, pool, &a, e);
	axes_release(&a);
	if (!rc)
		rc = sides_measure(out, pool, &r, &f, pr_k, dc_k, e);
	sketch_release(&r.sketch);
	sketch_release(&f.sketch);
	mem_free(r.squares);
	return rc;
}

int neighbours_measure(struct neighbours *out, struct pool *pool, const float *real, int64_t n, const float *fake, int64_t m, int d, int pr_k,
                       int dc_k, struct err *e)
{
	return neighbours_measure_along(out, pool, real, n, fake, m, d, pr_k, dc_k, AXES_AUTO, e);
}
