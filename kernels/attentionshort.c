/* ATTENTION and its gradient for heads of few tokens on the CPU. Each sum runs over its terms in order, in a lane of its own, so the results are the
 * same with vectors of any width. */
#include "kernels/attentionshort.h"

#include "kernels/simd.h"

enum {
	WIDTH = ATTENTION_SHORT, /* of a row of scores */
	ROWS = 4                 /* rows that are computed together */
};

/* A head's scratch. */
struct rows {
	real p[WIDTH * WIDTH], dp[WIDTH * WIDTH], share[WIDTH], log_sum[WIDTH];
	real turned[]; /* (d, WIDTH) */
};

size_t REAL_NAME(attention_short_bytes)(int64_t channels)
{
	return (sizeof(struct rows) + (size_t)(channels * WIDTH) * sizeof(real) + 63) / 64 * 64;
}

void REAL_NAME(attention_short_begin)(void *scratch, int64_t channels)
{
	memset(scratch, 0, REAL_NAME(attention_short_bytes)(channels));
}

/* turned (d, WIDTH) = x transposed. What is beyond its n rows stays 0. */
static void turn(struct head x, int64_t n, int64_t d, real *restrict turned)
{
	for (int64_t j = 0; j < n; j++) {
		const real *from = x.at + j * x.ld;

		for (int64_t c = 0; c < d; c++)
			turned[c * WIDTH + j] = from[c];
	}
}

/* p (m, WIDTH) = a (m, d) turned (d, WIDTH), so far as there are n columns. */
static void scores(struct head a, int64_t m, int64_t n, int64_t d, const real *restrict turned, real *restrict p)
{
	for (int64_t j = 0; j < n; j += VLEN)
		for (int64_t i = 0; i < m; i += ROWS) {
			const real *row[ROWS];
			vreal sum[ROWS] = {0};

			for (int r = 0; r < ROWS; r++)
				row[r] = a.at + (i + r < m ? i + r : m - 1) * a.ld;
			for (int64_t c = 0; c < d; c++) {
				vreal x = v_load(turned + c * WIDTH + j);

				for (int r = 0; r < ROWS; r++)
					sum[r] = v_fma(v_splat(row[r][c]), x, sum[r]);
			}
			for (int r = 0; r < ROWS && i + r < m; r++)
				v_store(p + (i + r) * WIDTH + j, sum[r]);
		}
}

/* The weights with which rows are mixed: that of row b in output a is at[a * out + b * in]. */
struct weights {
	const real *at;
	int64_t out, in;
};

/* y (m, d) = the sum of the n rows of x by their weights, times the output's factor (m) if there is one. */
static inline void mix(struct head y, int64_t m, struct weights w, struct head x, int64_t n, int64_t d, const real *factor)
{
	for (int64_t c = 0; c < d; c += VLEN) {
		int64_t left = d - c;

		for (int64_t i = 0; i < m; i += ROWS) {
			vreal sum[ROWS] = {0};

			for (int64_t j = 0; j < n; j++) {
				const real *from = x.at + j * x.ld + c, *weight = w.at + i * w.out + j * w.in;
				vreal v = left < VLEN ? v_load_part(from, (int)left) : v_load(from);

				for (int r = 0; r < ROWS; r++)
					sum[r] = v_fma(v_splat(weight[r * w.out]), v, sum[r]);
			}
			for (int r = 0; r < ROWS && i + r < m; r++) {
				vreal v = sum[r] * v_splat(factor ? factor[i + r] : 1);
				real *to = y.at + (i + r) * y.ld + c;

				if (left < VLEN)
					v_store_part(to, v, (int)left);
				else
					v_store(to, v);
			}
		}
	}
}

/* p = exp(scale p - shift) in place; returns the sum of the first n, which is that of exp_row (kernels/attentionhead.h). The other weights become
 * 0. */
static inline real weigh(real *restrict p, real scale, real shift, int64_t n)
{
	lanes sum = {0};

	for (int j = 0; j < WIDTH; j++) {
		real e = real_exp_down(j < n ? REAL_FMA(p[j], scale, -shift) : 0);

		p[j] = j < n ? e : 0;
	}
	for (int64_t j = 0; j < n; j += LANES)
		sum += lanes_load(p + j, LANES);
	return lanes_fold(sum);
}

void REAL_NAME(attention_short)(const struct op_call *c, int64_t b, int64_t h, void *scratch, const struct hint *next)
{
	int64_t m = c->in[0].shape[TOKEN], n = c->in[1].shape[TOKEN], d = c->in[0].shape[CHANNEL];
	const struct array *l = &c->out[1];
	real *lse = (real *)l->data + b * l->stride[0] + h * l->stride[1], scale = (real)c->attr.attention.scale;
	struct rows *s = scratch;

	turn(head_of(&c->in[1], b, h), n, d, s->turned);
	scores(head_of(&c->in[0], b, h), m, n, d, s->turned, s->p);
	for (int64_t i = 0; i < m; i++) {
		real *row = s->p + i * WIDTH;
		int64_t seen = c->attr.attention.causal && i + 1 < n ? i + 1 : n;

		hint_row(next, i);
		s->log_sum[i] = lanes_max(row, seen) * scale;
		s->share[i] = weigh(row, scale, s->log_sum[i], seen);
	}
	for (int64_t i = 0; i < m; i++) {
		lse[i * l->stride[2]] = s->log_sum[i] + real_log(s->share[i]);
		s->share[i] = 1 / s->share[i];
	}
	mix(head_of(&c->out[0], b, h), m, (struct weights){s->p, WIDTH, 1}, head_of(&c->in[2], b, h), n, d, s->share);
}

/* p = exp(scale p - lse), and dp = scale p (dp - delta), for the first n; the others become 0. */
static inline void grad_row(real *restrict p, real *restrict dp, real scale, real lse, real delta, int64_t n)
{
	for (int j = 0; j < WIDTH; j++) {
		real e = real_exp_down(j < n ? REAL_FMA(p[j], scale, -lse) : 0), x = scale * (e * (dp[j] - delta));

		p[j] = j < n ? e : 0;
		dp[j] = j < n ? x : 0;
	}
}

void REAL_NAME(attention_short_grad)(const struct op_call *c, int64_t b, int64_t h, void *scratch, const struct hint *next)
{
	struct grad_heads g = grad_heads_of(c, b, h);
	int64_t m = c->in[1].shape[TOKEN], n = c->in[2].shape[TOKEN], d = c->in[1].shape[CHANNEL];
	const struct array *l = &c->in[5];
	const real *lse = (const real *)l->data + b * l->stride[0] + h * l->stride[1];
	struct rows *s = scratch;

	turn(g.key, n, d, s->turned);
	scores(g.q, m, n, d, s->turned, s->p);
	turn(g.v, n, d, s->turned);
	scores(g.dy, m, n, d, s->turned, s->dp);
	for (int64_t i = 0; i < m; i++) {
		int64_t seen = c->attr.attention.causal && i + 1 < n ? i + 1 : n;
		real delta = lanes_dot(g.dy.at + i * g.dy.ld, g.o.at + i * g.o.ld, d);

		hint_row(next, i);
		grad_row(s->p + i * WIDTH, s->dp + i * WIDTH, (real)c->attr.attention.scale, lse[i * l->stride[2]], delta, seen);
	}
	mix(g.dv, n, (struct weights){s->p, 1, WIDTH}, g.dy, m, d, NULL);
	mix(g.dq, m, (struct weights){s->dp, WIDTH, 1}, g.key, n, d, NULL);
	mix(g.dk, n, (struct weights){s->dp, 1, WIDTH}, g.q, m, d, NULL);
}
