/* Devices and the operations they run.
 *
 * An operation (op) is the unit the tape records and a device executes: a kind, arrays in, arrays out, a few attributes. The
 * list OPS below is the only one; kernels/cpu.c and kernels/cuda.cu fill a table with one kernel for each. A kernel writes all of
 * its outputs, reads nothing outside its inputs, allocates nothing, and cuts its work by shape, so that its result depends
 * neither on the number of threads nor on what the outputs held.
 *
 * Broadcasting is a stride of 0. Unless an op says otherwise its arrays may have any strides except in the last dimension,
 * which is contiguous (stride 1) in every array of more than one column. */
#ifndef DDM_KERNELS_DEVICE_H
#define DDM_KERNELS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"

enum { ARRAY_RANK = 6, OP_IN = 8, OP_OUT = 8, OP_COMBINED = 5 /* most ins of COMBINE */ };

enum dtype { DT_F32, DT_F64, DT_BF16, DT_I32, DT_COMPACT /* a matrix: data is a struct compact (kernels/compact.h) */ };

/* A strided view of memory: element [i, j, ..] is data[i * stride[0] + j * stride[1] + ..], strides in elements. An absent
 * optional array has data NULL. */
struct array {
	void *data;
	enum dtype dtype;
	int rank;
	int64_t shape[ARRAY_RANK], stride[ARRAY_RANK];
};

/* Kinds of OP_UNARY, in attr.i[0]. */
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

/* POOL_AVERAGE counts the pixels inside the picture, POOL_AVERAGE_ALL the whole window, outside of which is zero. */
enum pool_kind { POOL_MAX, POOL_AVERAGE, POOL_AVERAGE_ALL };

struct op_attr {
	int64_t i[6];
	double f[6];
};

/* The ops. Shapes in brackets; "?" marks an array that may be absent; "bcast" one that may have strides of 0. i0.. and f0..
 * are attr.i[0].. and attr.f[0]..
 *
 * VIEW        no kernel: outputs share the input's memory (tape/tape.h)
 * COPY        y = x. Any strides on both sides, the last dimension included; rank up to 6. On a device that stores DT_BF16 also between
 *             it and DT_F32.
 * FILL        y = f0. Any strides.
 * ADD         y = f0 a + f1 b. b bcast. Same shape. y may be a.
 * MUL         y = a b. b bcast. y may be a.
 * SUM         y = f0 * the sum of x over every dimension where y's size is 1 and x's is not. Same rank. Summed in index order
 *             in fixed chunks. x may have any strides.
 * UNARY       y = u(x), u = i0. y may be x.
 * UNARY_GRAD  dx = dy u'(x), u = i0. Ins dy, x. dx may be dy.
 * LINEAR      y [.., N] = act(x [.., K] w [N, K]^T + bias? [N]); ins x, w, bias?; outs y, pre? (as y: the value before act).
 *             i0 = enum unary + 1, or 0 for no activation. Leading dimensions are rows, walked with one stride
 *             (array_row_stride) in each array; w is contiguous, or, on the CPU in float and without pre, of DT_COMPACT.
 * LINEAR_DX   dx [.., K] = dy [.., N] w [N, K]. Ins dy, w.
 * LINEAR_DW   dw [N, K] = dy [.., N]^T x [.., K]; outs dw, db? [N] = column sums of dy. Ins dy, x.
 * MATMUL      c [G.., M, N] = f0 op(a) op(b), i0/i1 transpose a/b: a [G.., M, K] or [G.., K, M], b [G.., K, N] or [G.., N, K].
 * NORM        y = xhat s + shift, xhat = (x - mean) rstd over the last dimension, s = scale (+ 1 where i1), shift?; i0 = enum
 *             norm_kind, f0 = eps added to the variance. Ins x [.., C], scale? bcast, shift? bcast, both of x's shape; outs
 *             y, stats [.., 2] = mean (0 for RMS), rstd: x's leading dimensions, contiguous.
 * NORM_GRAD   ins dy, x, stats, scale? (bcast), acc? (as x); outs dx = gradient + acc, dscale?, dshift?: of x's rank, size 1 in
 *             the dimensions that were broadcast. i0, i1 as NORM. dx may be acc.
 * GATE        y = x + g h, g bcast; y may be x. Ins x, g, h.
 * GATE_GRAD   ins dy, g (bcast), h; outs dh = g dy, dg? = sum of dy h over the broadcast dimensions (size 1 there).
 * ATTENTION   o [B, T, heads, d] = softmax(f0 q k^T + bias) v per (b, head); ins q [B, T, heads, d], k, v [B, S, heads, d] (the
 *             first three dimensions may have any strides), bias? bcast [B, heads, T, S], finite; outs o,
 *             lse [B, heads, T] = log of the softmax's denominator, maximum included. i0 = 1: causal.
 * ATTENTION_GRAD  ins do, q, k, v, o, lse, bias?; outs dq, dk, dv (strided as q, k, v may be). f0, i0 as ATTENTION.
 * EMBED       y [B, C] = table [V, C] [index [B]], index of DT_I32. An index out of range is a bug.
 * EMBED_GRAD  dtable [V, C] = rows of dy added in increasing b; ins dy, index.
 * TIMESTEP    y [B, 2 h] = [cos(f1 t f_k), sin(f1 t f_k)], f_k = exp(-ln(f0) k / h), the argument in double; ins t [B].
 * SOFTMAX     y = softmax over the last dimension.
 * SOFTMAX_GRAD  dx = y (dy - sum y dy); ins dy, y.
 * XENT        loss [B] = lse(logits [B, K]) - logits[label [B]]; label of DT_I32.
 * XENT_GRAD   dlogits = dloss (softmax - onehot); ins dloss [B], logits, label.
 * MSE         loss [B] = weight? [B] * mean over a sample of (a - b)^2; ins a [B, ..], b, weight?. Contiguous.
 * MSE_GRAD    da = dloss weight 2 (a - b) / n; ins dloss [B], a, b, weight?.
 * IM2COL      x [B, C, H, W] -> y [B, Ho Wo, C k k], zeros outside; i0 = k, i1 = stride, i2 = padding; contiguous.
 * COL2IM      the adjoint of IM2COL: y [B, Ho Wo, C k k] -> x [B, C, H, W], terms in a fixed order.
 * CONV        y [B, Ho, Wo, O] = act(the sum over ky, kx, c of x [B, oy i1 + ky - i2, ox i1 + kx - i3, c] w [O, kh, kw, C] + bias? [O]
 *             + add?), zeros outside; ins x [B, H, W, C], w, bias?, add? (as y); outs y, pre? (as y: the value before act). i0 as LINEAR,
 *             i1 = stride, i2, i3 = padding at the top and left; what is needed below and to the right follows from y's shape. i4: 1 where
 *             samples come by many, a hint. w is contiguous; pixels of y, add and pre are rows at one stride. y may be add.
 * CONV_DX     dx [B, H, W, C] of dy [B, Ho, Wo, O]; ins dy, w; i1..i3 as CONV. dx as CONV's y.
 * CONV_DW     dw [O, kh, kw, C]; outs dw, db? [O] = sums of dy's columns; ins dy (pixels at one stride), x; i1..i3 as CONV.
 * GROUPNORM   y = act((x - mean) rstd scale? + shift?), mean and rstd of i0 groups of neighbouring channels over all positions of a
 *             sample, f0 = eps added to the variance; i1 = enum unary + 1 of UNARY_SILU or UNARY_RELU, or 0. Ins x [B, .., C], scale? [C],
 *             shift? [C]; outs y, stats [B, i0, 2] = mean, rstd. Contiguous. y may be x.
 * GROUPNORM_GRAD  ins dy, x, stats, scale?, shift?; outs dx, dscale? [C], dshift? [C]. i0, i1 as GROUPNORM. Contiguous. dx may be dy.
 * POOL        y [B, Ho, Wo, C] of windows of i1 x i1 pixels of x [B, H, W, C], stride i2, i3 outside the top and left; i0 = enum
 *             pool_kind; every window holds a pixel. Contiguous.
 * POOL_GRAD   dx; ins dy, x. Of a largest value the first in row-major order takes all. Contiguous.
 * DROPOUT     y = x / (1 - f0) where kept, 0 elsewhere; kept is a pure function of (seed, step, sample, position in the sample)
 *             through Philox with RNG_DROPOUT and lane base i0; sample = first + row of dimension 0. Its own adjoint.
 * QSAMPLE     y = alpha [B] x0 + sigma [B] eps; ins x0 [B, ..], eps, alpha, sigma. Contiguous. Two products and a sum, each
 *             rounded.
 * NOISE       y [B, ..] = standard normals: sample b is the stream (keys.seed, keys.purpose, keys.step, keys.first + b) of
 *             rng_normal. Contiguous. No ins.
 *
 * What samplers do between networks. Contiguous but for rows; coefficients, and what is marked so, in double.
 * MIX         rows of y [N, C]: y [index [b]] = w [b] u [b], added to what is there where begun [b]; u = v [B, C], or where null?
 *             [B, C] is there null + f0 (v - null). No row twice. Ins v, null?, index, begun (both of DT_I32), w [B]; outs y, read
 *             too. Each operation rounded.
 * CONVERT     v [B, D] from x [B, D] and a network's output [B, D]: v = output where i0; else with x0 = f0 x + f1 output, within
 *             -i2 .. i2 where i2 > 0, moved by f3 towards mean? [D], v = output - x0 where i1, else (x - x0) / f2. In double,
 *             rounded once. Ins x, output, mean?; v may be either of the first two.
 * COMBINE     y [B, D] = f0 x0 + f1 x1? + f2 x2? + f3 x3? + f4 x4?, within -f5 .. f5 where f5 > 0, in double, rounded once. An absent one
 *             counts nothing. y may be any of them.
 * ADVANCE     y = x? + f0 (v + v2?), flat, in double, rounded once. Ins x?, v, v2?. y may be any of them.
 *
 * The optimizer's passes, over flat arenas of n elements; kernels/optimizer.h names the places of plan, status and coef, vectors of
 * DT_F64.
 * SUMSQ       y [1] = sum of x^2, y of DT_F64; x [n]. Chunks of fixed length, added in order. NaN and infinity carry through.
 * TOTAL       y [1] = y (0 where i0) + sum of x [n] in index order, y of DT_F64.
 * RATES       ins sumsq [1], loss [1], plan; outs coef, status (read too): decides whether this step's gradient is finite, and
 *             with what coefficients ADAMW applies it.
 * ADAMW       ins coef, g [n], mask [n / DECAY_RUN, rounded up]: one for so many neighbours; outs p, m, v, ema [n], read too, rounded? [n]
 *             = p as DT_BF16: nothing is touched where RATES refused.
 *
 * Clustering; contiguous, sums of pieces of NEAREST_PIECE rows.
 * NEAREST     cluster? [N] of DT_I32 = the k for which |x - c_k|^2 + offset?_k is least, the lowest of equals; near [N] = |x - c|^2 of that
 *             one, or, with i0, the less of it and what was there; sums [pieces] of DT_F64 = near of each piece added up. Ins x [N, D],
 *             c [K, D], offset? [K]. All in float: two whose prices differ by less than its rounding may be taken for each other.
 * SEGMENT_SUM sum [K, D] of DT_F64 and count [K] of DT_I32: the rows of x [N, D] whose index [N], of DT_I32, is k, added up in an order
 *             that follows from N, D, K and index; added to what is there unless i0. Ins x, index. An index out of range is a bug. */
#define OPS(X) \
	X(COPY, copy) X(FILL, fill) X(ADD, add) X(MUL, mul) X(SUM, sum) X(UNARY, unary) X(UNARY_GRAD, unary_grad) \
	X(LINEAR, linear) X(LINEAR_DX, linear_dx) X(LINEAR_DW, linear_dw) X(MATMUL, matmul) \
	X(NORM, norm) X(NORM_GRAD, norm_grad) X(GATE, gate) X(GATE_GRAD, gate_grad) \
	X(ATTENTION, attention) X(ATTENTION_GRAD, attention_grad) \
	X(EMBED, embed) X(EMBED_GRAD, embed_grad) X(TIMESTEP, timestep) \
	X(SOFTMAX, softmax) X(SOFTMAX_GRAD, softmax_grad) X(XENT, xent) X(XENT_GRAD, xent_grad) X(MSE, mse) X(MSE_GRAD, mse_grad) \
	X(IM2COL, im2col) X(COL2IM, col2im) X(CONV, conv) X(CONV_DX, conv_dx) X(CONV_DW, conv_dw) \
	X(GROUPNORM, groupnorm) X(GROUPNORM_GRAD, groupnorm_grad) X(POOL, pool) X(POOL_GRAD, pool_grad) \
	X(DROPOUT, dropout) X(QSAMPLE, qsample) X(NOISE, noise) \
	X(MIX, mix) X(CONVERT, convert) X(COMBINE, combine) X(ADVANCE, advance) \
	X(SUMSQ, sumsq) X(TOTAL, total) X(RATES, rates) X(ADAMW, adamw) \
	X(NEAREST, nearest) X(SEGMENT_SUM, segment_sum)

enum { NEAREST_PIECE = 256 };

enum op {
	OP_VIEW,
#define X(id, fn) OP_##id,
	OPS(X)
#undef X
	OP_COUNT
};

/* What random ops draw by. Kernels read it from device memory, so that a captured graph draws anew at each launch. */
struct run_keys {
	uint64_t seed, step, first; /* sample i of the batch draws as index first + i */
	uint64_t purpose;           /* of NOISE: enum rng_purpose */
};

/* What one execution of an op sees. */
struct op_call {
	int nin, nout;
	struct array in[OP_IN], out[OP_OUT];
	struct op_attr attr;
	const struct run_keys *keys; /* device memory; NULL where no op draws */
	struct device *device;
	int stream;
	struct pool *pool;
	void *scratch; /* as many bytes as the kernel declared, aligned to 64 */
};

/* kernels/NAME.c defines `const struct kernel kernel_NAME_f32, kernel_NAME_f64` through REAL_NAME (kernels/real.h). */
struct kernel {
	void (*run)(const struct op_call *c);
	/* Scratch bytes for arrays of these shapes (data pointers are not set) and this many workers; NULL: none. */
	size_t (*scratch)(const struct op_call *c, int workers);
};

/* How a network is computed; sums, norms, softmax, losses and the optimizer are in float always.
 *
 * F32   in float
 * TF32  the same, but products round what they multiply to 10 bits
 * BF16  what is stored between operations and the weights that products read are bfloat16 */
enum precision { PRECISION_F32, PRECISION_TF32, PRECISION_BF16, PRECISIONS };
extern const char *const precision_names[PRECISIONS + 1]; /* f32 tf32 bf16, NULL */

struct device_memory {
	uint64_t free, total; /* of the device, now; total 0: unknown */
	uint64_t used, peak;  /* by alloc here: now, and the most at a time */
};

/* A device: memory, queues and one kernel per op.
 *
 * Device memory is for the device alone: the host has addresses into it, computes with them, and reads and writes it only
 * by put, get, fetch, send, copy and fill. Work is done in the order of its submission on a stream; stream 0 is always there. Kernels,
 * put, send, copy and fill do not wait for it. Errors stick to the device: the first is kept, later work may be dropped, `error` tells. */
struct device {
	const char *name;
	enum dtype real;  /* DT_F32, or DT_F64 for gradient checks */
	unsigned storage; /* bit per enum dtype: what activations may be stored in */
	int host;         /* its memory is the host's */
	int streams;      /* queues, numbered from 0; of one alone nothing overlaps */
	int compact;      /* LINEAR takes w of DT_COMPACT, in memory of the host */
	int invariant;    /* as device_set_invariant wants it */
	struct pool *pool; /* threads of the host; may be NULL */
	const struct kernel *kernel[OP_COUNT];
	struct cublaslt *cublaslt; /* what matrix products may be left to; NULL: none (kernels/cublaslt.h) */

	void *(*alloc)(struct device *d, size_t bytes, const char *what, struct err *e); /* zeroed, aligned to 64 */
	void (*release)(struct device *d, void *p);                                      /* waits; NULL is allowed */
	/* Memory of the host that `fetch` may write and `send` read; zeroed. */
	void *(*alloc_host)(struct device *d, size_t bytes, const char *what, struct err *e);
	void (*release_host)(struct device *d, void *p);
	void (*memory)(struct device *d, struct device_memory *m);

	void (*put)(struct device *d, int stream, void *dst, const void *src, size_t bytes);   /* src has been read on return */
	void (*get)(struct device *d, int stream, void *dst, const void *src, size_t bytes);   /* waits: dst is there on return */
	void (*fetch)(struct device *d, int stream, void *dst, const void *src, size_t bytes); /* dst is there after an event */
	void (*send)(struct device *d, int stream, void *dst, const void *src, size_t bytes);  /* src is read until an event has passed */
	void (*copy)(struct device *d, int stream, void *dst, const void *src, size_t bytes);
	void (*fill)(struct device *d, int stream, void *dst, int byte, size_t bytes);

	int (*error)(struct device *d, struct err *e); /* does not wait; 0 while all is well */
	int (*sync)(struct device *d, struct err *e);  /* waits for everything, then as error */

	/* An event marks a point of a stream. */
	void *(*event_new)(struct device *d);
	void (*event_free)(struct device *d, void *event);
	void (*event_record)(struct device *d, void *event, int stream);
	void (*event_follow)(struct device *d, void *event, int stream); /* what is submitted to the stream from now on comes after it */
	int (*event_passed)(struct device *d, void *event, int wait);    /* waits if `wait`; a failed device has passed everything */

	/* A timer marks a point of a stream and keeps when it was reached, last; one that is recorded while a graph is captured is recorded
	 * anew by each of its launches. Freed by event_free. NULL where the host's clock after a wait says the same. */
	void *(*timer_new)(struct device *d);
	void (*timer_record)(struct device *d, void *timer, int stream);
	double (*timer_seconds)(struct device *d, void *from, void *to); /* both reached: after a sync; 0 when it cannot be said */
	struct profile *profile; /* kernels/profile.h; NULL: nothing is timed */

	/* A named stretch of what the host submits, for a profiler to show; stretches nest. NULL where there is nobody to show it. */
	void (*range_begin)(struct device *d, const char *name);
	void (*range_end)(struct device *d);

	/* Graphs: what is submitted to the stream between begin and end is not run but kept, to be launched as a whole; NULL where the
	 * device has none. put, get, fetch and send must not be called in between. A capture that fails is no error of the device: `uncaptured`
	 * says why the last that failed did, and is empty while none has. */
	int (*capture_begin)(struct device *d, int stream);
	void *(*capture_end)(struct device *d, int stream); /* NULL: it failed, nothing was run */
	void (*graph_launch)(struct device *d, void *graph, int stream);
	void (*graph_free)(struct device *d, void *graph);

	char uncaptured[256];

	double (*peak_flops)(struct device *d); /* of its fastest matrix product, measured at the first call */
	double (*peak_bytes)(struct device *d); /* read plus written by its copy, likewise */
	void (*close)(struct device *d);
};

/* The CPU, computing in float or double. The pool is borrowed and may be NULL (serial). Caller frees with device_free. */
struct device *device_cpu(struct pool *pool, enum dtype real);
void device_free(struct device *d); /* NULL is allowed */

/* The device called `name`: "cpu", "cuda", "cuda:N", or "auto", the first GPU where there is one that this build has code for, and the CPU
 * elsewhere. The pool is borrowed. What is not a name is ERR_USAGE; a GPU that is not there, or a build that knows none, ERR_UNAVAILABLE. */
struct device *device_open(const char *name, struct pool *pool, struct err *e);

/* Let products round to TF32, or not. ERR_USAGE where the device cannot compute so. */
int device_set_precision(struct device *d, enum precision p, struct err *e);

/* Whether a sample's bits may depend on the samples beside it in a batch, on how many and in what order, or not: of what is computed
 * forward. On the CPU they never do. On a GPU without it products are made by what is fastest for their number of rows; with it, in every
 * precision, by one kernel of our own. */
void device_set_invariant(struct device *d, int on);

/* What it is fastest at. */
enum precision device_precision(const struct device *d);

/* What d->peak_flops and d->peak_bytes say; not a number where the device does not know. */
struct device_peaks {
	double flops, bytes; /* a second */
};
struct device_peaks device_peaks(struct device *d);

/* Ranges, where the device has them. */
void device_range(struct device *d, const char *name);
void device_range_number(struct device *d, const char *name, int number); /* "expert 3" */
void device_range_end(struct device *d);

/* On stream 0. */
void device_put(struct device *d, void *dst, const void *src, size_t bytes);
void device_get(struct device *d, void *dst, const void *src, size_t bytes);
void device_copy(struct device *d, void *dst, const void *src, size_t bytes);

/* Run one op outside a tape on stream 0. Sets c's device and pool; scratch as device_scratch asks for the same shapes, or NULL. */
void device_run(struct device *d, enum op op, struct op_call *c, void *scratch);
size_t device_scratch(struct device *d, enum op op, const struct op_call *c);

/* A contiguous array of one dimension. */
struct array array_vector(enum dtype t, void *data, int64_t n);

size_t dtype_size(enum dtype t); /* not of DT_COMPACT, whose elements have no size of their own */
const char *op_name(enum op op); /* "LINEAR" */

int64_t array_count(const struct array *a);  /* elements */
int array_contiguous(const struct array *a); /* row-major without gaps */
int64_t array_rows(const struct array *a);   /* product of all dimensions but the last */
/* When the leading dimensions (all but the last) can be walked with one stride, store it and return 1: a matrix of
 * array_rows x shape[rank - 1]. */
int array_row_stride(const struct array *a, int64_t *stride);
/* Whether a sum of x into y follows x's memory along its last summed dimension: that is denser than the last one kept. Dimension 0 counts
 * with one sample as with many, so that a sample's sum is made in one order in any batch; a sample repeated lies far apart. */
int array_sums_runs(const struct array *x, const struct array *y);
/* Offset in elements of row r (leading dimensions in row-major order). */
int64_t array_row_offset(const struct array *a, int64_t row);

#endif
