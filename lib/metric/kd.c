/* Computes the kernel distance over all pairs and over random subsets, also of clips, which are groups of vectors. */
#include "metric/kd.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/mt19937.h"
#include "core/rng.h"
#include "metric/gram.h"

/* Kernel sums of all pairs; a task is one tile of pairs. */
struct sums {
	struct gram g;     /* x == y: the symmetric sum without pairs in one group */
	int64_t group;     /* consecutive vectors that belong together */
	int paired;        /* 1: also of x against y without pairs in groups of one number */
	double *row, *col; /* (ti, tj, GRAM_TILE): sums of each tile over its columns, and over its rows */
};

static void tile_task(void *arg, int64_t task, int worker)
{
	struct sums *s = arg;
	int64_t ti = task / s->g.tj, tj = task % s->g.tj, ni = gram_count(s->g.n, ti), nj = gram_count(s->g.m, tj);
	double *row = s->row + task * GRAM_TILE, *col = s->col + task * GRAM_TILE, d = s->g.d;
	int symmetric = s->g.x == s->g.y;
	const double *dot;

	if (symmetric && tj < ti)
		return;
	dot = gram_tile(&s->g, ti, tj, worker);
	for (int64_t i = 0; i < ni; i++) {
		int64_t own = (ti * GRAM_TILE + i) / s->group * s->group - tj * GRAM_TILE, end = symmetric || s->paired ? own + s->group : own;

		for (int64_t j = 0; j < nj; j++) {
			double t = dot[i * GRAM_TILE + j] / d + 1, k = t * t * t;

			if (j >= own && j < end)
				k = 0;
			row[i] += k;
			col[j] += k;
		}
	}
}

/* The sums (n) of groups from those (n, group) of their vectors, in place: the kernel of two groups is the mean over their pairs. */
static void sums_of_groups(double *v, int64_t n, int64_t group)
{
	for (int64_t i = 0; i < n; i++) {
		double s = 0;

		for (int64_t k = 0; k < group; k++)
			s += v[i * group + k];
		v[i] = s / (double)(group * group);
	}
}

/* Sums of the kernel over every row and every column of x (n, group, d) against y (m, group, d), per group. If x == y, row and col must be one array.
 * There is room for n * group and m * group sums. */
static int kernel_sums(struct pool *pool, struct pool_pass *pass, double *row, double *col, const float *x, int64_t n, const float *y, int64_t m,
                       int64_t group, int d, int paired, struct err *e)
{
	struct sums s = {.group = group, .paired = paired};
	int64_t tiles, groups_x = n, groups_y = m;
	int rc = -1;

	n *= group;
	m *= group;
	if (gram_init(&s.g, pool, x, n, y, m, d, e))
		return -1;
	tiles = s.g.ti * s.g.tj;
	s.row = mem_try((size_t)tiles * GRAM_TILE, sizeof *s.row, "partial sums of the kernel", e);
	s.col = s.row ? mem_try((size_t)tiles * GRAM_TILE, sizeof *s.col, "partial sums of the kernel", e) : NULL;
	if (s.col && !pool_run_pass(pool, pass, 1, tiles, tile_task, &s, e)) {
		for (int64_t i = 0; i < n; i++)
			row[i] = 0;
		for (int64_t j = 0; j < m; j++)
			col[j] = 0;
		for (int64_t t = 0; t < tiles; t++) {
			int64_t i0 = t / s.g.tj * GRAM_TILE, j0 = t % s.g.tj * GRAM_TILE;

			for (int64_t i = i0; i < n && i < i0 + GRAM_TILE; i++)
				row[i] += s.row[t * GRAM_TILE + i - i0];
			/* for a symmetric sum, where row == col, only the tiles on and above the diagonal were computed; a tile above the diagonal
			 * also counts for its mirror image */
			for (int64_t j = j0; j < m && j < j0 + GRAM_TILE && !(x == y && i0 == j0); j++)
				col[j] += s.col[t * GRAM_TILE + j - j0];
		}
		sums_of_groups(row, groups_x, group);
		if (row != col)
			sums_of_groups(col, groups_y, group);
		rc = 0;
	}
	mem_free(s.row);
	mem_free(s.col);
	gram_release(&s.g);
	return rc;
}

static double sum(const double *v, int64_t n)
{
	double s = 0;

	for (int64_t i = 0; i < n; i++)
		s += v[i];
	return s;
}

/* The distance without element i of a set of n, for all i, is added to t (n) times `sign`. `own` are the kernel sums of the elements with the rest of
 * their set, `cross` those with the other set, of m elements; `rest` is the term that does not change. */
static void leave_out(double *t, double sign, const double *own, const double *cross, int64_t n, int64_t m, double rest)
{
	double so = sum(own, n), sc = sum(cross, n), dn = (double)n;

	for (int64_t i = 0; i < n; i++)
		t[i] += sign * ((so - 2 * own[i]) / ((dn - 1) * (dn - 2)) - 2 * (sc - cross[i]) / ((dn - 1) * (double)m) + rest);
}

/* Jackknife variance from the values t (n) without one element each. */
static double jackknife(const double *t, int64_t n)
{
	double dn = (double)n, mean = 0, var = 0;

	for (int64_t i = 0; i < n; i++)
		mean += t[i] / dn;
	for (int64_t i = 0; i < n; i++)
		var += (t[i] - mean) * (t[i] - mean);
	return var * (dn - 1) / dn;
}

/* The kernel sums of x (n groups) and y (m groups). */
struct pair {
	double *xx, *xy, *yy, *yx; /* (n), (n), (m), (m), with room for all vectors */
	double *memory;
	double a, b; /* mean kernels within x, and within y */
	double value;
};

static int pair_make(struct pair *p, struct pool *pool, struct pool_pass *pass, const float *x, int64_t n, const float *y, int64_t m, int64_t group,
                     int d, struct err *e)
{
	double dn = (double)n, dm = (double)m;

	*p = (struct pair){.memory = mem_try((size_t)(n + m) * (size_t)group * 2, sizeof *p->memory, "kernel sums", e)};
	if (!p->memory)
		return -1;
	p->xx = p->memory, p->xy = p->xx + n * group, p->yy = p->xy + n * group, p->yx = p->yy + m * group;
	if (kernel_sums(pool, pass, p->xx, p->xx, x, n, x, n, group, d, 0, e) || kernel_sums(pool, pass, p->yy, p->yy, y, m, y, m, group, d, 0, e) ||
	    kernel_sums(pool, pass, p->xy, p->yx, x, n, y, m, group, d, 0, e))
		return -1;
	p->a = sum(p->xx, n) / (dn * (dn - 1)), p->b = sum(p->yy, m) / (dm * (dm - 1));
	p->value = p->a + p->b - 2 * sum(p->xy, n) / (dn * dm);
	return 0;
}

/* Add the distances without one element of x, and of y, to tx (n) and ty (m). */
static void pair_leave_out(const struct pair *p, double *tx, double *ty, double sign, int64_t n, int64_t m)
{
	leave_out(tx, sign, p->xx, p->xy, n, m, p->b);
	leave_out(ty, sign, p->yy, p->yx, m, n, p->a);
}

static int sizes_fit(int64_t n, int64_t m, struct err *e)
{
	if (n >= 3 && m >= 3)
		return 1;
	err_set(e, ERR_USAGE, "a kernel distance needs at least 3 samples on each side, not %lld and %lld", (long long)n, (long long)m);
	return 0;
}

/* pass: the progress, counted in tiles; NULL: none */
static int all_pairs(struct kd *out, struct pool *pool, struct pool_pass *pass, const float *x, int64_t n, const float *y, int64_t m, int64_t group,
                     int d, struct err *e)
{
	struct pair p;
	double *t;
	int rc = -1;

	if (!sizes_fit(n, m, e))
		return -1;
	t = mem_try((size_t)(n + m), sizeof *t, "a jackknife", e);
	if (!pair_make(&p, pool, pass, x, n, y, m, group, d, e) && t) {
		pair_leave_out(&p, t, t + n, 1, n, m);
		*out = (struct kd){p.value, sqrt(jackknife(t, n) + jackknife(t + n, m))};
		rc = 0;
	}
	mem_free(p.memory);
	mem_free(t);
	return rc;
}

int kd_clips(struct kd *out, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int64_t frames, int d, struct err *e)
{
	struct pool_pass pass = {"kernel distance, blocks of pairs", 0,
	                         gram_tiles(n * frames, n * frames) + gram_tiles(m * frames, m * frames) + gram_tiles(n * frames, m * frames)};

	return all_pairs(out, pool, &pass, x, n, y, m, frames, d, e);
}

/* The share of random exchanges of clips of y with their altered clips of z that change the distance at least as much. The change is a sum w (m) over
 * clips in which an exchange changes a sign: the kernel between y and z belongs to pairs of which one clip is exchanged. */
static double exchanged(const double *w, int64_t m)
{
	uint32_t bits[4] = {0};
	double change = sum(w, m);
	int64_t count = 1;

	for (int64_t k = 0; k < KD_EXCHANGES; k++) {
		double s = 0;

		for (int64_t i = 0; i < m; i++) {
			if (i % 128 == 0)
				rng_block(0, RNG_METRIC, (uint64_t)k, (uint64_t)(i / 128), 0, bits);
			s += bits[i / 32 % 4] >> i % 32 & 1 ? -w[i] : w[i];
		}
		count += s >= change;
	}
	return (double)count / (KD_EXCHANGES + 1);
}

/* yz and zy: kernel sums of y against z without the altered clip itself, by clips of y, and by clips of z. */
static void change_parts(double *w, const struct pair *before, const struct pair *after, const double *yz, const double *zy, int64_t n, int64_t m)
{
	double dn = (double)n, dm = (double)m;

	for (int64_t i = 0; i < m; i++)
		w[i] = (after->yy[i] - before->yy[i] + zy[i] - yz[i]) / (dm * (dm - 1)) - 2 * (after->yx[i] - before->yx[i]) / (dn * dm);
}

int kd_change(struct kd_change *out, struct pool *pool, const float *x, int64_t n, const float *y, const float *z, int64_t m, int64_t frames, int d,
              struct err *e)
{
	struct pair before, after = {0};
	double *t, *yz, *zy;
	int rc = -1;

	if (!sizes_fit(n, m, e))
		return -1;
	t = mem_try((size_t)(n + m) + 2 * (size_t)(m * frames), sizeof *t, "a jackknife", e);
	yz = t + n + m, zy = yz + m * frames;
	if (!pair_make(&before, pool, NULL, x, n, y, m, frames, d, e) && !pair_make(&after, pool, NULL, x, n, z, m, frames, d, e) && t &&
	    !kernel_sums(pool, NULL, yz, zy, y, m, z, m, frames, d, 1, e)) {
		pair_leave_out(&after, t, t + n, 1, n, m);
		pair_leave_out(&before, t, t + n, -1, n, m);
		*out = (struct kd_change){.value = after.value - before.value, .se = sqrt(jackknife(t, n) + jackknife(t + n, m))};
		change_parts(t, &before, &after, yz, zy, n, m);
		out->p = exchanged(t, m);
		rc = 0;
	}
	mem_free(before.memory);
	mem_free(after.memory);
	mem_free(t);
	return rc;
}

int kd_whole(struct kd *out, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, struct err *e)
{
	struct pool_pass pass = {"kernel distance, blocks of pairs", 0, gram_tiles(n, n) + gram_tiles(m, m) + gram_tiles(n, m)};

	return all_pairs(out, pool, &pass, x, n, y, m, 1, d, e);
}

/* Copy the vectors at[0 .. size - 1] of x to out. */
static void gather(float *out, const float *x, int d, const int64_t *at, int64_t size)
{
	for (int64_t i = 0; i < size; i++)
		memcpy(out + i * d, x + at[i] * d, (size_t)d * sizeof *out);
}

/* The source of the subsets of x and y: rng_permute, or numpy's generator over the elements in reading order. */
struct drawing {
	uint64_t seed;
	struct mt19937 *numpy; /* NULL: rng_permute */
	const int64_t *xorder, *yorder;
	int64_t *at; /* (max(n, m)) */
};

static void drawing_ours(struct drawing *w, int64_t n, int64_t size, uint64_t draw)
{
	for (int64_t i = 0; i < size; i++)
		w->at[i] = (int64_t)rng_permute((uint64_t)i, (uint64_t)n, w->seed, RNG_METRIC, draw);
}

static void drawing_numpy(struct drawing *w, int64_t n, int64_t size, const int64_t *order)
{
	mt19937_permutation(w->numpy, w->at, n);
	for (int64_t i = 0; i < size && order; i++)
		w->at[i] = order[w->at[i]];
}

static void pair_draw(float *xs, float *ys, struct drawing *w, const float *x, int64_t n, const float *y, int64_t m, int d, int64_t size,
                      int64_t round)
{
	if (w->numpy) {
		drawing_numpy(w, m, size, w->yorder);
		gather(ys, y, d, w->at, size);
		drawing_numpy(w, n, size, w->xorder);
		gather(xs, x, d, w->at, size);
		return;
	}
	drawing_ours(w, n, size, 2 * (uint64_t)round);
	gather(xs, x, d, w->at, size);
	drawing_ours(w, m, size, 2 * (uint64_t)round + 1);
	gather(ys, y, d, w->at, size);
}

/* Mean over the subsets, and the sum of squared deviations from it. */
static int subsets_run(double *mean, double *spread, struct drawing *w, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m,
                       int d, int64_t subsets, int64_t size, struct err *e)
{
	struct pool_pass pass = {"kernel distance, subsets", 0, subsets};
	double *v;
	float *xs;
	int rc = 0;

	if (subsets < 2 || size < 3 || size > n || size > m)
		return err_set(e, ERR_USAGE, "%lld subsets of %lld cannot be drawn from %lld and %lld samples (at least 2 of at least 3)",
		               (long long)subsets, (long long)size, (long long)n, (long long)m);
	v = mem_try((size_t)subsets, sizeof *v, "subsets", e);
	xs = v ? mem_try(2 * (size_t)size * (size_t)d, sizeof *xs, "a pair of subsets", e) : NULL;
	w->at = xs ? mem_try((size_t)(n > m ? n : m), sizeof *w->at, "the members of a subset", e) : NULL;
	if (!w->at)
		rc = -1;
	for (int64_t s = 0; s < subsets && !rc; s++) {
		struct kd one;

		pair_draw(xs, xs + size * d, w, x, n, y, m, d, size, s);
		rc = all_pairs(&one, pool, NULL, xs, size, xs + size * d, size, 1, d, e);
		if (!rc) {
			v[s] = one.value;
			pass.done++;
			rc = pool_report(pool, &pass, e);
		}
	}
	if (!rc) {
		*mean = sum(v, subsets) / (double)subsets;
		*spread = 0;
		for (int64_t s = 0; s < subsets; s++)
			*spread += (v[s] - *mean) * (v[s] - *mean);
	}
	mem_free(v);
	mem_free(xs);
	mem_free(w->at);
	return rc;
}

int kd_subsets(struct kd *out, struct pool *pool, const float *x, int64_t n, const float *y, int64_t m, int d, int64_t subsets, int64_t size,
               uint64_t seed, struct err *e)
{
	struct drawing w = {.seed = seed};
	double mean, spread;

	if (subsets_run(&mean, &spread, &w, pool, x, n, y, m, d, subsets, size, e))
		return -1;
	*out = (struct kd){mean, sqrt(spread / (double)(subsets - 1) / (double)subsets)};
	return 0;
}

int kd_subsets_numpy(double *mean, double *sd, struct pool *pool, const float *x, const int64_t *xorder, int64_t n, const float *y,
                     const int64_t *yorder, int64_t m, int d, int64_t subsets, int64_t size, uint32_t seed, struct err *e)
{
	struct mt19937 numpy;
	struct drawing w = {.numpy = &numpy, .xorder = xorder, .yorder = yorder};
	double spread;

	mt19937_seed(&numpy, seed);
	if (subsets_run(mean, &spread, &w, pool, x, n, y, m, d, subsets, size, e))
		return -1;
	*sd = sqrt(spread / (double)subsets);
	return 0;
}
