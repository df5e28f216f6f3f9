/* The operations (ops): their only list, and the definition of each.
 *
 * The tape records ops and a device executes them. An op has a kind, input and output arrays, and attributes. To add one: an entry in
 * OPS_RECORDED or OPS_DIRECT, its description below, its attributes in struct op_attr, a pair of kernels (kernels/NAME.c, kernels/NAME.cu), a
 * definition (tape/opdef.h) if networks record it, and a test in tests/op. */
#ifndef DDM_KERNELS_OP_H
#define DDM_KERNELS_OP_H

#include <stdint.h>

enum { ARRAY_RANK = 6, OP_IN = 8, OP_OUT = 8, OP_COMBINED = 5 /* inputs of COMBINE, at most */ };

/* Functions of one value, for UNARY. An attribute `act` of another op is the activation fused into it: one of these plus 1, or 0 for none. */
enum unary {
	UNARY_SILU,      /* x / (1 + exp(-x)) */
	UNARY_GELU_TANH, /* .5 x (1 + tanh(sqrt(2/pi) (x + .044715 x^3))) */
	UNARY_GELU_ERF,  /* .5 x (1 + erf(x / sqrt 2)) */
	UNARY_TANH,
	UNARY_SIGMOID,
	UNARY_EXP,
	UNARY_SQUARE,
	UNARY_RELU,
	UNARY_COUNT
};

enum norm_kind { NORM_LAYER, NORM_RMS };

/* POOL_AVERAGE divides by the number of pixels inside the image, POOL_AVERAGE_ALL by k * k (padding counts as zeros). */
enum pool_kind { POOL_MAX, POOL_AVERAGE, POOL_AVERAGE_ALL };

/* The pairs that ROTARY turns: elements 2 i and 2 i + 1, or i and i + d / 2. */
enum rotary_pairs { ROTARY_ADJACENT, ROTARY_HALVES };

/* The kind of a view. */
enum view_kind { VIEW_RESHAPE, VIEW_PERMUTE, VIEW_EXPAND, VIEW_SLICE, VIEW_UNSTACK, VIEW_JOIN };

/* What GUIDE computes. */
enum guide_rule {
	GUIDE_LINEAR,  /* P(u) + scale (P(c) - P(u)) */
	GUIDE_FIT,     /* the same, with k P(u) in place of P(u), k = <P(c), P(u)> / (|P(u)|^2 + 1e-8) */
	GUIDE_PROJECT, /* P(c) + (scale - 1) (g - (1 - parallel) h), where h is the part of g along P(c), g = m' min(1, limit / |m'|) (limit 0: m'),
	                * and m' = P(c) - P(u) + momentum m */
	GUIDE_STD,     /* P(u) (blend std(P(c)) / std(P(u)) + 1 - blend); std: the deviation from the mean of the row */
	GUIDE_STILL    /* 0 */
};

/* The attributes of an op, in the member named after it; a gradient op uses the member of its op. */
struct op_attr {
	union {
		struct {
			enum view_kind kind;
			int dim;               /* SLICE, UNSTACK, JOIN */
			int64_t from;          /* SLICE */
			int order[ARRAY_RANK]; /* PERMUTE: output dimension d is input dimension order[d] */
		} view;
		struct {
			double value;
		} fill;
		struct {
			double a, b;
		} add;
		struct {
			double factor;
		} sum;
		struct {
			enum unary fn;
		} unary;
		struct {
			int act;
		} linear;
		struct {
			int ta, tb; /* whether a, b are transposed */
			double alpha;
		} matmul;
		struct {
			enum norm_kind kind;
			int one_plus; /* multiply by 1 + scale */
			double eps;   /* added to the variance */
		} norm;
		struct {
			int causal;
			double scale;
		} attention;
		struct {
			enum rotary_pairs pairs;
			int back; /* 1: by the negative angles */
		} rotary;
		struct {
			double max_period, scale;
		} timestep;
		struct {
			int act;
			int many;                  /* a hint, the batch is large: kernels may transform the weights first, too slow for one image */
			int64_t stride, top, left; /* top, left: rows of padding above, columns to the left */
		} conv;
		struct {
			int64_t groups;
			int act; /* 0, UNARY_SILU + 1 or UNARY_RELU + 1 */
			double eps;
		} groupnorm;
		struct {
			enum pool_kind kind;
			int64_t k, stride, pad; /* pad: above and to the left */
		} pool;
		struct {
			int64_t lane; /* lane base in the random stream */
			double p;     /* probability of 0 */
		} dropout;
		struct {
			double guidance;
		} mix;
		struct {
			enum guide_rule rule;
			double a, b; /* P(z) = a x + b z; b is not 0 */
			double scale;
			double limit, parallel, momentum; /* GUIDE_PROJECT */
			double blend;                     /* GUIDE_STD */
		} guide;
		struct {
			int identity;  /* v = output */
			int minus_x0;  /* v = output - x0: the network predicts the noise */
			int64_t limit; /* bound of |x0|; 0: none */
			double a, b;   /* x0 = a x + b output */
			double t;      /* time of x */
			double blend;  /* 0 .. 1: fraction of the way from x0 to the mean */
		} convert;
		struct {
			double f[OP_COMBINED];
			double limit; /* bound of |y|; 0: none */
		} combine;
		struct {
			double h;
		} advance;
		struct {
			int anew; /* the sum starts from 0, not from the old output */
		} total, segment_sum;
		struct {
			double momentum; /* MUON_MOMENTUM */
			double scale;    /* MUON_APPLY: of the learning rate */
		} muon;
		struct {
			int lower; /* near = min(old near, distance found) */
		} nearest;
	};
};

/* Shapes are in brackets; "?" marks an optional array; "bcast" marks an array that may be broadcast, by strides of 0. Unless an op says
 * otherwise, arrays may have any strides in the leading dimensions, and the last dimension has stride 1 in every array of more than one
 * column.
 *
 * VIEW        no kernel: outputs share the input's memory (tape/tape.h)
 * COPY        y = x. Any strides on both sides, the last dimension included; rank up to 6. A device that stores DT_BF16 also converts between
 *             DT_BF16 and DT_F32.
 * FILL        y = value. Any strides.
 * ADD         y = a x0 + b x1; ins x0, x1 bcast. Same shape. y may be x0.
 * MUL         y = a b. b bcast. y may be a.
 * SUM         y = factor * the sum of x over every dimension where y's size is 1 and x's is not. Same rank. Summed in index order
 *             in fixed chunks. x may have any strides.
 * UNARY       y = fn(x). y may be x.
 * UNARY_GRAD  dx = dy fn'(x). Ins dy, x. dx may be dy.
 * LINEAR      y [.., N] = act(x [.., K] w [N, K]^T + bias? [N]); ins x, w, bias?; outs y, pre? (as y: the value before act). Leading
 *             dimensions are rows, walked with one stride (array_row_stride) in each array; w is contiguous, or, on the CPU in float and
 *             without pre, of DT_COMPACT.
 * LINEAR_DX   dx [.., K] = dy [.., N] w [N, K], times act'(pre) if pre is present. Ins dy, w, pre? [.., K]: rows at one stride.
 * LINEAR_DW   dw [N, K] = dy [.., N]^T x [.., K]; outs dw, db? [N] = column sums of dy (a CPU that multiplies bf16 numbers rounds dy for
 *             both). Ins dy, x.
 * MATMUL      c [G.., M, N] = alpha op(a) op(b), ta/tb transpose a/b: a [G.., M, K] or [G.., K, M], b [G.., K, N] or [G.., N, K].
 * NORM        y = xhat s + shift, xhat = (x - mean) rstd over the last dimension, s = scale (+ 1 with one_plus), shift?. Ins x [.., C], scale?
 *             bcast, shift? bcast, both of x's shape; outs y, stats [.., 2] = mean (0 for RMS), rstd: x's leading dimensions, contiguous.
 *             With ins gate (bcast) and h, and out s: s = x + gate h as GATE's, and the norm is that of s. Devices with `gated_norms`.
 * NORM_GRAD   ins dy, x, stats, scale? (bcast), acc? (as x); outs dx = gradient + acc, dscale?, dshift?: of x's rank, size 1 in
 *             the dimensions that were broadcast. dx may be acc. With ins gate (bcast) and h, outs dh, dg?: those of GATE_GRAD for dx. Devices
 *             with `gated_norms`.
 * GATE        y = x + g h, g bcast; y may be x. Ins x, g, h.
 * GATE_GRAD   ins dy, g (bcast), h; outs dh = g dy, dg? = sum of dy h over the broadcast dimensions (size 1 there).
 * ATTENTION   o [B, T, heads, d] = softmax(scale q k^T + bias) v per (b, head); ins q [B, T, heads, d], k, v [B, S, heads, d] (the
 *             first three dimensions may have any strides), bias? bcast [B, heads, T, S], finite; outs o,
 *             lse [B, heads, T] = log of the softmax's denominator, maximum included.
 * ATTENTION_GRAD  ins do, q, k, v, o, lse, bias?; outs dq, dk, dv (strided as q, k, v may be).
 * ROTARY      y [.., d] = x [.., d], pair i turned by the angle with cosine cos [.., d / 2] and sine sin [.., d / 2], d even: (a, b) becomes
 *             (a cos - b sin, a sin + b cos). With `back` the angles are negated, which is also the gradient. Ins x, cos bcast, sin bcast
 *             (leading dimensions only). y may be x.
 * EMBED       y [B, C] = table [V, C] [index [B]], index of DT_I32. An index out of range is a bug.
 * EMBED_GRAD  dtable [V, C] = rows of dy added in increasing b; ins dy, index.
 * TIMESTEP    y [B, 2 h] = [cos(scale t f_k), sin(scale t f_k)], f_k = exp(-ln(max_period) k / h), the argument in double; ins t [B].
 * SOFTMAX     y = softmax over the last dimension.
 * SOFTMAX_GRAD  dx = y (dy - sum y dy); ins dy, y.
 * XENT        loss [B] = lse(logits [B, K]) - logits[label [B]]; label of DT_I32.
 * XENT_GRAD   dlogits = dloss (softmax - onehot); ins dloss [B], logits, label.
 * XENT_SOFT   loss [B] = the sum over k of target [B, K] (lse(logits [B, K]) - logits): the cross-entropy of the target, which need not sum to 1.
 * XENT_SOFT_GRAD  dlogits = dloss (softmax * sum of target - target); ins dloss [B], logits, target.
 * MSE         loss [B] = weight? [B] * mean over a sample of (a - b)^2; ins a [B, ..], b, weight?. Contiguous.
 * MSE_GRAD    da = dloss weight 2 (a - b) / n; ins dloss [B], a, b, weight?.
 * CONV        y [B, Ho, Wo, O] = act(the sum over ky, kx, c of x [B, oy stride + ky - top, ox stride + kx - left, c] w [O, kh, kw, C]
 *             + bias? [O] + add?), zeros outside; ins x [B, H, W, C], w, bias?, add? (as y); outs y, pre? (as y: the value before act). The
 *             padding below and to the right follows from y's shape. w is contiguous; pixels of y, add and pre are rows at one stride. y may
 *             be add.
 * CONV_DX     dx [B, H, W, C] of dy [B, Ho, Wo, O]; ins dy, w. act is 0. dx as CONV's y.
 * CONV_DW     dw [O, kh, kw, C]; outs dw, db? [O] = sums of dy's columns; ins dy (pixels at one stride), x. act is 0.
 * GROUPNORM   y = act((x - mean) rstd scale? + shift?), mean and rstd of groups of neighbouring channels over all positions of a sample, eps
 *             added to the variance. Ins x [B, .., C], scale? [C], shift? [C]; outs y, stats [B, groups, 2] = mean, rstd. Contiguous. y may be x.
 * GROUPNORM_GRAD  ins dy, x, stats, scale?, shift?; outs dx, dscale? [C], dshift? [C]. Contiguous. dx may be dy.
 * POOL        y [B, Ho, Wo, C] of windows of k x k pixels of x [B, H, W, C]; every window holds a pixel. Contiguous.
 * POOL_GRAD   dx; ins dy, x. POOL_MAX: the first of equal maxima in row-major order receives the gradient. Contiguous.
 * DROPOUT     y = x / (1 - p) where kept, 0 elsewhere; kept is a pure function of (seed, step, sample, position in the sample)
 *             through Philox with RNG_DROPOUT and lane base `lane`; sample = first + row of dimension 0. Its own adjoint. y = x
 *             where the run's keys say no_dropout.
 * QSAMPLE     y = alpha [B] x0 + sigma [B] eps; ins x0 [B, ..], eps, alpha, sigma. Contiguous. Two products and a sum, each
 *             rounded.
 * NOISE       y [B, ..] = standard normals: sample b is the stream (keys.seed, keys.purpose, keys.step, keys.first + b) of
 *             rng_normal. Contiguous. No ins.
 *
 * Steps of samplers between network evaluations. Rows are contiguous; coefficients, and ops marked so, use double.
 * MIX         y [N, C]: row index [b] = w [b] u [b], or += if begun [b]; u = v [B, C], or null + guidance (v - null) if null? [B, C] is
 *             present. The indices are distinct. Ins v, null?, index, begun (both of DT_I32), w [B]; outs y, also read. Each operation is
 *             rounded.
 * GUIDE       y [B, D] = c + (r - P(c)) / b, where r is what attr.guide.rule says of each row by itself; in double, the sums too, rounded once.
 *             Ins x? [B, D] (absent: a is 0), c [B, D], u? as c (absent for GUIDE_STILL), m? as c (absent: 0); outs y, m'? as c (required with m).
 *             y may be c or u, and m' may be m.
 * CONVERT     v [B, D] from x [B, D] and a network's output [B, D]: v = output with identity; else with x0 = a x + b output, within
 *             -limit .. limit where limit > 0, moved by blend towards mean? [D], v = output - x0 with minus_x0, else (x - x0) / t. In double,
 *             rounded once. Ins x, output, mean?; v may be either of the first two.
 * COMBINE     y [B, D] = the sum of f[k] x_k?, k < OP_COMBINED, within -limit .. limit where limit > 0, in double, rounded once. Absent inputs
 *             are skipped. y may be any input.
 * ADVANCE     y = x? + h (v + v2?), flat, in double, rounded once. Ins x?, v, v2?. y may be any input.
 *
 * The optimizer's passes, over flat arenas of n elements; kernels/optimizer.h names the elements of plan, status and coef, vectors of
 * DT_F64.
 * SUMSQ       y [1] = sum of x^2, y of DT_F64; x [n]. Chunks of SUMSQ_CHUNK elements (kernels/optimizer.h), added in order. NaN and infinity
 *             propagate. y [n / SUMSQ_CHUNK, rounded up]: the sum of each chunk; TOTAL of them has the same bits as y [1]
 * TOTAL       y [1] = y (0 where anew) + sum of x [n] in index order, y of DT_F64, x also of DT_F64.
 * RATES       ins sumsq [1], loss [1], plan; outs coef, status (also read): tests whether the loss and the gradient are finite, and computes
 *             the coefficients of the passes that follow.
 * ADAMW       ins coef, g [n], mask [n / DECAY_RUN, rounded up]: one value per DECAY_RUN elements; outs p, m, v, ema [n], also read, rounded?
 *             [n] = p as DT_BF16. If RATES found the step not finite, no output changes.
 * SCHEDULE_FREE  ins as ADAMW's; outs y, z, v, x [n], also read, rounded? [n] = y as DT_BF16. If RATES found the step not finite, no output
 *             changes.
 * MUON_MOMENTUM  m = momentum m + (1 - momentum) g', u = momentum m + (1 - momentum) g', g' = scale g; ins coef, g [n]; outs m [n], also read,
 *             u [n]. If RATES found the step not finite, no output changes.
 * MUON_UNIT   u = u / max(sqrt(sumsq), MUON_SMALLEST); ins sumsq [1] of DT_F64; outs u [n], also read.
 * MUON_APPLY  p = p - shrink p - lr scale u, then ema as in ADAMW; ins coef, u [n]; outs p, ema [n], also read, rounded? [n] = p as DT_BF16. If
 *             RATES found the step not finite, no output changes.
 *
 * Clustering. Contiguous; a piece is NEAREST_PIECE rows.
 * NEAREST     cluster? [N] of DT_I32 = the k with the least |x - c_k|^2 + offset?_k, the lowest such k; near [N] = |x - c_k|^2 for this k, or
 *             with lower, the minimum of it and the old near; sums [pieces] of DT_F64 = the sum of near over each piece. Ins x [N, D],
 *             c [K, D], offset? [K]. Computed in float: either may be chosen of two centres that differ by less than the rounding error.
 * SEGMENT_SUM sum [K, D] of DT_F64 and count [K] of DT_I32 = the sum and the number of the rows of x [N, D] with index [N] = k, added to the
 *             old values unless anew. The order of addition depends on N, D, K and index alone. Ins x, index (DT_I32). An index out of range
 *             is a bug. */
/* clang-format off */
#define OPS_RECORDED(X) /* ops that tapes record; each has a definition in lib/tape */ \
	X(COPY, copy) X(FILL, fill) X(ADD, add) X(MUL, mul) X(SUM, sum) X(UNARY, unary) X(UNARY_GRAD, unary_grad) \
	X(LINEAR, linear) X(LINEAR_DX, linear_dx) X(LINEAR_DW, linear_dw) X(MATMUL, matmul) \
	X(NORM, norm) X(NORM_GRAD, norm_grad) X(GATE, gate) X(GATE_GRAD, gate_grad) \
	X(ATTENTION, attention) X(ATTENTION_GRAD, attention_grad) \
	X(EMBED, embed) X(EMBED_GRAD, embed_grad) X(TIMESTEP, timestep) \
	X(SOFTMAX, softmax) X(SOFTMAX_GRAD, softmax_grad) X(XENT, xent) X(XENT_GRAD, xent_grad) \
	X(XENT_SOFT, xent_soft) X(XENT_SOFT_GRAD, xent_soft_grad) X(MSE, mse) X(MSE_GRAD, mse_grad) \
	X(CONV, conv) X(CONV_DX, conv_dx) X(CONV_DW, conv_dw) \
	X(GROUPNORM, groupnorm) X(GROUPNORM_GRAD, groupnorm_grad) X(POOL, pool) X(POOL_GRAD, pool_grad) \
	X(DROPOUT, dropout) X(QSAMPLE, qsample) X(NOISE, noise) X(ROTARY, rotary)
#define OPS_DIRECT(X) /* ops that samplers, the optimizer and clustering run without a tape */ \
	X(MIX, mix) X(GUIDE, guide) X(CONVERT, convert) X(COMBINE, combine) X(ADVANCE, advance) \
	X(SUMSQ, sumsq) X(TOTAL, total) X(RATES, rates) X(ADAMW, adamw) X(SCHEDULE_FREE, schedule_free) \
	X(MUON_MOMENTUM, muon_momentum) X(MUON_UNIT, muon_unit) X(MUON_APPLY, muon_apply) \
	X(NEAREST, nearest) X(SEGMENT_SUM, segment_sum)
/* clang-format on */
#define OPS(X) OPS_RECORDED(X) OPS_DIRECT(X)

enum { NEAREST_PIECE = 256 };

enum op {
	OP_VIEW,
#define X(id, fn) OP_##id,
	OPS(X)
#undef X
	    OP_COUNT
};

#endif
