/* Guidance on the GPU: GUIDE. A block computes a row at a time; sums are in double, by a tree of fixed shape. Compiled with -fmad=false, so that each
 * operation is rounded as on the CPU. */
#include "kernels/launch.h"

struct row_major {
	struct reals a;
	int64_t step;
};

struct guide_rows {
	struct row_major x, c, u, m, y, next; /* a.p is NULL where absent */
	int64_t rows, cols;
	enum guide_rule rule;
	double a, b, scale, limit, parallel, momentum, blend;
};

static struct row_major rows_of(const struct array *a)
{
	struct row_major r = {reals_of(a), a->data ? a->stride[0] : 0};

	return r;
}

static __device__ inline double get(struct row_major r, int64_t b, int64_t i)
{
	return (double)reals_get(r.a, b * r.step + i);
}

/* P(z) at element i of row b. */
static __device__ inline double point(const struct guide_rows *g, struct row_major z, int64_t b, int64_t i)
{
	double v = g->b * get(z, b, i);

	return g->x.a.p ? g->a * get(g->x, b, i) + v : v;
}

static __device__ inline void put(const struct guide_rows *g, int64_t b, int64_t i, double result)
{
	reals_set(g->y.a, b * g->y.step + i, (float)(get(g->c, b, i) + (result - point(g, g->c, b, i)) / g->b));
}

static __device__ inline void linear(const struct guide_rows *g, int64_t b, double fit)
{
	for (int64_t i = threadIdx.x; i < g->cols; i += BLOCK) {
		double u = fit * point(g, g->u, b, i);

		put(g, b, i, u + g->scale * (point(g, g->c, b, i) - u));
	}
}

static __device__ inline void fitted(const struct guide_rows *g, int64_t b)
{
	double dot = 0, square = 0;

	for (int64_t i = threadIdx.x; i < g->cols; i += BLOCK) {
		double u = point(g, g->u, b, i);

		dot += point(g, g->c, b, i) * u;
		square += u * u;
	}
	dot = block_sum(dot);
	square = block_sum(square);
	linear(g, b, dot / (square + 1e-8));
}

/* m' at element i, once it was stored. */
static __device__ inline double difference(const struct guide_rows *g, int64_t b, int64_t i)
{
	return g->next.a.p ? get(g->next, b, i) : point(g, g->c, b, i) - point(g, g->u, b, i);
}

static __device__ inline void projected(const struct guide_rows *g, int64_t b)
{
	double square = 0, along = 0, length = 0, shrink = 1, step = g->scale - 1;

	for (int64_t i = threadIdx.x; i < g->cols; i += BLOCK) {
		double c = point(g, g->c, b, i), m;

		if (g->next.a.p) {
			m = c - point(g, g->u, b, i) + (g->m.a.p ? g->momentum * get(g->m, b, i) : 0);
			reals_set(g->next.a, b * g->next.step + i, (float)m);
		}
		m = difference(g, b, i);
		square += m * m;
		along += m * c;
		length += c * c;
	}
	square = block_sum(square);
	along = block_sum(along);
	length = block_sum(length);
	if (g->limit > 0 && square > g->limit * g->limit)
		shrink = g->limit / sqrt(square);
	along = length > 0 ? (1 - g->parallel) * along / length : 0;
	for (int64_t i = threadIdx.x; i < g->cols; i += BLOCK) {
		double c = point(g, g->c, b, i);

		put(g, b, i, c + step * shrink * (difference(g, b, i) - along * c));
	}
}

static __device__ inline void rescaled(const struct guide_rows *g, int64_t b)
{
	double mean_c = 0, mean_u = 0, var_c = 0, var_u = 0, factor;

	for (int64_t i = threadIdx.x; i < g->cols; i += BLOCK) {
		mean_c += point(g, g->c, b, i);
		mean_u += point(g, g->u, b, i);
	}
	mean_c = block_sum(mean_c) / (double)g->cols;
	mean_u = block_sum(mean_u) / (double)g->cols;
	for (int64_t i = threadIdx.x; i < g->cols; i += BLOCK) {
		double c = point(g, g->c, b, i) - mean_c, u = point(g, g->u, b, i) - mean_u;

		var_c += c * c;
		var_u += u * u;
	}
	var_c = block_sum(var_c);
	var_u = block_sum(var_u);
	factor = var_u > 0 ? g->blend * sqrt(var_c / var_u) + 1 - g->blend : 1;
	for (int64_t i = threadIdx.x; i < g->cols; i += BLOCK)
		put(g, b, i, factor * point(g, g->u, b, i));
}

static __global__ void guide_any(struct guide_rows g)
{
	for (int64_t b = blockIdx.x; b < g.rows; b += gridDim.x) {
		if (g.rule == GUIDE_LINEAR)
			linear(&g, b, 1);
		else if (g.rule == GUIDE_FIT)
			fitted(&g, b);
		else if (g.rule == GUIDE_PROJECT)
			projected(&g, b);
		else if (g.rule == GUIDE_STD)
			rescaled(&g, b);
		else
			for (int64_t i = threadIdx.x; i < g.cols; i += BLOCK)
				put(&g, b, i, 0);
	}
}

static void guide_run(const struct op_call *c)
{
	const struct array *in = &c->in[1], none = {};
	int64_t rows = in->shape[0];
	struct guide_rows g = {rows_of(c->attr.guide.a != 0 ? &c->in[0] : &none),
	                       rows_of(in),
	                       rows_of(&c->in[2]),
	                       rows_of(&c->in[3]),
	                       rows_of(&c->out[0]),
	                       rows_of(&c->out[1]),
	                       rows,
	                       in->shape[1],
	                       c->attr.guide.rule,
	                       c->attr.guide.a,
	                       c->attr.guide.b,
	                       c->attr.guide.scale,
	                       c->attr.guide.limit,
	                       c->attr.guide.parallel,
	                       c->attr.guide.momentum,
	                       c->attr.guide.blend};

	if (array_count(in))
		LAUNCH(c, guide_any, (unsigned)(rows < 1 << 20 ? rows : 1 << 20), BLOCK, g);
}

extern "C" {
extern const struct kernel kernel_guide_cuda = {guide_run, NULL};
}
