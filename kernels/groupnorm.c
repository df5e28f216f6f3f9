/* GROUPNORM and its gradient on the CPU, with mean and variance in one pass. Sums per channel and chunk of positions are added in index order,
 * in double.
 *
 * The sums are of x - p, where p is the value at the sample's first position. In a tile of positions whose first value is u, float is used only
 * for the sums of x - u and (x - u)^2:
 *
 *	sum (x - p) = n (u - p) + sum (x - u)        sum (x - p)^2 = (u - p) (n (u - p) + 2 sum (x - u)) + sum (x - u)^2
 *
 * The sum of squares about one of TILE values is at most TILE times that about their mean. So float changes the variance by a relative error of
 * at most TILE^2 2^-23, however far the data are from p or zero. With N positions, p may be N^1/2 standard deviations from the mean, so each
 * addition in double adds a relative error of at most N 2^-53. */
#include <assert.h>
#include <math.h>

#include "kernels/walk.h"
#include "kernels/vmath.h"

enum { TILE = 8, LINE = 64 / sizeof(real) };

struct groups {
	const struct op_call *c;
	const real *x, *dy;
	real *y;
	const real *scale, *shift; /* [C], or NULL */
	const real *stats;         /* [B, G, 2] */
	int64_t samples, positions, ch, n, chunk, chunks;
	int64_t act;
	double *sums;  /* [B, chunks, 2, C] */
	real *factors; /* [B, 3, C] */
};

static void groups_init(struct groups *g, const struct op_call *c, const struct array *x, void *scratch)
{
	*g = (struct groups){.c = c,
	                     .x = x->data,
	                     .samples = x->shape[0],
	                     .ch = x->shape[x->rank - 1],
	                     .n = c->attr.groupnorm.groups,
	                     .act = c->attr.groupnorm.act - 1};
	g->positions = array_rows(x) / (g->samples ? g->samples : 1);
	g->chunk = WALK_GRAIN / g->ch + 1;
	g->chunks = (g->positions + g->chunk - 1) / g->chunk;
	g->sums = scratch;
	g->factors = (real *)(g->sums + g->samples * g->chunks * 2 * g->ch);
	assert(g->act < 0 || g->act == UNARY_SILU || g->act == UNARY_RELU);
}

static size_t groups_scratch(const struct op_call *c, int workers)
{
	struct groups g;

	(void)workers;
	groups_init(&g, c, &c->out[0], NULL);
	return (size_t)(g.samples * g.chunks * 2 * g.ch) * sizeof(double) + (size_t)(g.samples * 3 * g.ch) * sizeof(real);
}

/* The number of positions in a chunk; *first is its first position, counted over all samples. */
static int64_t chunk_rows(const struct groups *g, int64_t task, int64_t *first)
{
	int64_t b = task / g->chunks, at = task % g->chunks * g->chunk;

	*first = b * g->positions + at;
	return g->positions - at < g->chunk ? g->positions - at : g->chunk;
}

/* Add the moments of n positions to the sums. The entries of x from n on repeat the first position and contribute 0. */
static void add_moments(double *restrict sum, double *restrict squares, const real *const x[TILE], const real *pilot, double n, int64_t ch)
{
	for (int64_t i = 0; i < ch; i++) {
		real first = x[0][i], s = 0, q = 0;
		double offset = (double)first - (double)pilot[i], all = n * offset;

		for (int t = 1; t < TILE; t++) {
			real d = x[t][i] - first;

			s += d;
			q = REAL_FMA(d, d, q);
		}
		sum[i] += all + (double)s;
		squares[i] += offset * (all + 2 * (double)s) + (double)q;
	}
}

static void sum_task(void *arg, int64_t task, int worker)
{
	const struct groups *g = arg;
	int64_t first, rows = chunk_rows(g, task, &first);
	const real *pilot = g->x + task / g->chunks * g->positions * g->ch;
	double *sum = g->sums + task * 2 * g->ch;

	(void)worker;
	memset(sum, 0, (size_t)(2 * g->ch) * sizeof *sum);
	for (int64_t r = 0; r < rows; r += TILE) {
		const real *x[TILE], *next = g->x + (first + r + TILE) * g->ch;

		for (int t = 0; t < TILE; t++)
			x[t] = g->x + (first + (r + t < rows ? r + t : r)) * g->ch;
		for (int64_t i = 0; i < TILE * g->ch && r + TILE < rows; i += LINE)
			__builtin_prefetch(next + i);
		add_moments(sum, sum + g->ch, x, pilot, (double)(rows - r < TILE ? rows - r : TILE), g->ch);
	}
}

/* Add up a sample's sums [2, C] over its chunks, into those of the first chunk. */
static double *sample_sums(const struct groups *g, int64_t sample)
{
	double *restrict all = g->sums + sample * g->chunks * 2 * g->ch;

	for (int64_t k = 1; k < g->chunks; k++) {
		const double *restrict chunk = all + k * 2 * g->ch;

		for (int64_t i = 0; i < 2 * g->ch; i++)
			all[i] += chunk[i];
	}
	return all;
}

/* Mean and rstd of a group, from its channels' sums about the pilot (the sample's first position). */
static void group_stats(const struct groups *g, int64_t sample, int64_t group, const double *sums, real *stats)
{
	int64_t per = g->ch / g->n, c0 = group * per;
	const real *pilot = g->x + sample * g->positions * g->ch;
	double n = (double)g->positions, mean = 0, square = 0;

	for (int64_t c = c0; c < c0 + per; c++)
		mean += (double)pilot[c] + sums[c] / n;
	mean /= (double)per;
	for (int64_t c = c0; c < c0 + per; c++) {
		double own = sums[c] / n, offset = (double)pilot[c] + own - mean;

		square += sums[g->ch + c] / n - own * own + offset * offset;
	}
	square /= (double)per;
	stats[0] = (real)mean;
	stats[1] = (real)(1 / sqrt((square < 0 ? 0 : square) + g->c->attr.groupnorm.eps));
}

/* Compute a sample's stats, and the factors of y = (x - mean) factor + shift. */
static void stats_task(void *arg, int64_t sample, int worker)
{
	const struct groups *g = arg;
	real *stats = (real *)g->c->out[1].data + sample * g->n * 2, *f = g->factors + sample * 3 * g->ch;
	const double *sums = sample_sums(g, sample);

	(void)worker;
	for (int64_t k = 0; k < g->n; k++)
		group_stats(g, sample, k, sums, stats + 2 * k);
	for (int64_t c = 0; c < g->ch; c++) {
		const real *s = stats + c / (g->ch / g->n) * 2;

		f[c] = s[0];
		f[g->ch + c] = g->scale ? s[1] * g->scale[c] : s[1];
		f[2 * g->ch + c] = g->shift ? g->shift[c] : 0;
	}
}

static void apply_row(real *y, const real *x, const real *f, int64_t n, int64_t act)
{
	const real *mean = f, *factor = f + n, *shift = f + 2 * n;

#define APPLY(value) \
	INDEPENDENT for (int64_t i = 0; i < n; i++) \
	{ \
		real z = REAL_FMA(x[i] - mean[i], factor[i], shift[i]); \
		y[i] = value; \
	}
	if (act == UNARY_SILU)
		APPLY(real_silu(z))
	else if (act == UNARY_RELU)
		APPLY(z < 0 ? 0 : z)
	else
		APPLY(z)
#undef APPLY
}

static void apply_task(void *arg, int64_t task, int worker)
{
	const struct groups *g = arg;
	int64_t first, rows = chunk_rows(g, task, &first);
	const real *f = g->factors + task / g->chunks * 3 * g->ch;

	(void)worker;
	for (int64_t r = first; r < first + rows; r++)
		apply_row(g->y + r * g->ch, g->x + r * g->ch, f, g->ch, g->act);
}

static const real *vector(const struct op_call *c, int i)
{
	return i < c->nin ? c->in[i].data : NULL;
}

static void groupnorm_run(const struct op_call *c)
{
	struct groups g;

	groups_init(&g, c, &c->in[0], c->scratch);
	g.scale = vector(c, 1);
	g.shift = vector(c, 2);
	g.y = c->out[0].data;
	pool_spread(c->pool, g.samples * g.chunks, sum_task, &g);
	pool_spread(c->pool, g.samples, stats_task, &g);
	pool_spread(c->pool, g.samples * g.chunks, apply_task, &g);
}

const struct kernel REAL_NAME(kernel_groupnorm) = {groupnorm_run, groups_scratch};

/* ---- gradient: dz = dy act'(z), z = xhat scale + shift, dx = rstd (dz scale - mean(dz scale) - xhat mean(dz scale xhat)) ---- */

static inline real slope_of(real z, int64_t act)
{
	return act == UNARY_SILU ? real_silu_slope(z) : act == UNARY_RELU ? (z > 0 ? REAL_C(1.0) : REAL_C(0.0)) : REAL_C(1.0);
}

/* xhat and dz of one element; s: mean and rstd. */
static inline real dz_of(const struct groups *g, int64_t at, int64_t c, const real *s, real *xhat)
{
	real z;

	*xhat = (g->x[at] - s[0]) * s[1];
	z = *xhat * (g->scale ? g->scale[c] : 1) + (g->shift ? g->shift[c] : 0);
	return g->dy[at] * slope_of(z, g->act);
}

static const real *stats_of(const struct groups *g, int64_t sample, int64_t c)
{
	return g->stats + (sample * g->n + c / (g->ch / g->n)) * 2;
}

static void grad_sum_task(void *arg, int64_t task, int worker)
{
	const struct groups *g = arg;
	int64_t first, rows = chunk_rows(g, task, &first), b = task / g->chunks;
	double *sum = g->sums + task * 2 * g->ch;

	(void)worker;
	memset(sum, 0, (size_t)(2 * g->ch) * sizeof *sum);
	for (int64_t r = 0; r < rows; r += TILE)
		for (int64_t c = 0; c < g->ch; c++) {
			const real *s = stats_of(g, b, c);
			real tile[2] = {0};

			for (int64_t t = r; t < rows && t < r + TILE; t++) {
				real xhat, dz = dz_of(g, (first + t) * g->ch + c, c, s, &xhat);

				tile[0] += dz;
				tile[1] = REAL_FMA(dz, xhat, tile[1]);
			}
			sum[c] += (double)tile[0];
			sum[g->ch + c] += (double)tile[1];
		}
}

/* Compute the sample's sums of dz and of dz xhat by channel in `factors`, and then the group's means of dz scale and dz scale xhat. */
static void grad_stats_task(void *arg, int64_t sample, int worker)
{
	const struct groups *g = arg;
	real *f = g->factors + sample * 3 * g->ch;
	double *means = sample_sums(g, sample);
	int64_t per = g->ch / g->n;

	(void)worker;
	for (int64_t i = 0; i < 2 * g->ch; i++)
		f[i] = (real)means[i];
	for (int64_t k = 0; k < g->n; k++) {
		double m[2] = {0}, n = (double)(per * g->positions);

		for (int64_t c = k * per; c < (k + 1) * per; c++)
			for (int i = 0; i < 2; i++)
				m[i] += (double)f[i * g->ch + c] * (double)(g->scale ? g->scale[c] : 1);
		for (int i = 0; i < 2; i++)
			means[2 * k + i] = m[i] / n;
	}
}

static void grad_apply_task(void *arg, int64_t task, int worker)
{
	const struct groups *g = arg;
	int64_t first, rows = chunk_rows(g, task, &first), b = task / g->chunks, per = g->ch / g->n;
	const double *means = g->sums + b * g->chunks * 2 * g->ch;

	(void)worker;
	for (int64_t r = first; r < first + rows; r++)
		for (int64_t c = 0; c < g->ch; c++) {
			const real *s = stats_of(g, b, c), m[2] = {(real)means[c / per * 2], (real)means[c / per * 2 + 1]};
			real xhat, dz = dz_of(g, r * g->ch + c, c, s, &xhat);

			g->y[r * g->ch + c] = s[1] * (dz * (g->scale ? g->scale[c] : 1) - m[0] - xhat * m[1]);
		}
}

/* out[c] = the sum over samples, in order, of their channel sums of one kind: dz or dz xhat. */
static void sum_samples(const struct groups *g, int kind, real *out)
{
	for (int64_t c = 0; c < g->ch; c++) {
		double sum = 0;

		for (int64_t b = 0; b < g->samples; b++)
			sum += (double)g->factors[(b * 3 + kind) * g->ch + c];
		out[c] = (real)sum;
	}
}

static void groupnorm_grad_run(const struct op_call *c)
{
	struct groups g;

	groups_init(&g, c, &c->in[1], c->scratch);
	g.dy = c->in[0].data;
	g.stats = c->in[2].data;
	g.scale = vector(c, 3);
	g.shift = vector(c, 4);
	g.y = c->out[0].data;
	pool_spread(c->pool, g.samples * g.chunks, grad_sum_task, &g);
	pool_spread(c->pool, g.samples, grad_stats_task, &g);
	pool_spread(c->pool, g.samples * g.chunks, grad_apply_task, &g);
	if (c->nout > 1 && c->out[1].data)
		sum_samples(&g, 1, c->out[1].data);
	if (c->nout > 2 && c->out[2].data)
		sum_samples(&g, 0, c->out[2].data);
}

const struct kernel REAL_NAME(kernel_groupnorm_grad) = {groupnorm_grad_run, groups_scratch};
