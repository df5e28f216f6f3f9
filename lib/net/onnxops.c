/* The operators of ONNX graphs. ONNX has pictures as (N, C, H, W); here they are (N, H, W, C). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "net/onnxnetimpl.h"

enum { PIXELS_MOST = 1 << 26, DENSE_MOST = 1 << 27, SLABS = OP_IN, SLAB_LEAST = 8 };

/* ---- what a node reads and makes ---- */

static int refuse(const struct walk *w, const char *what)
{
	return err_set(w->e, ERR_DATA, "%s: \"%s\" (node %d) %s", w->where, w->n->op, w->index, what);
}

/* Input k as a picture; NULL if it is none. */
static const struct place *picture(const struct walk *w, int k)
{
	const struct place *p = k < w->n->ins && w->n->in[k] >= 0 ? &w->place[w->n->in[k]] : NULL;

	return p && p->there ? p : NULL;
}

/* Input k as a tensor of the file, in its shape there; NULL if it is none. */
static const struct st_tensor *stored(const struct walk *w, int k)
{
	return k < w->n->ins && w->n->in[k] >= 0 ? onnx_tensor(w->o, w->n->in[k]) : NULL;
}

/* Input k as a constant: a tensor of the file, perhaps in another shape. */
static const struct st_tensor *tensor(const struct walk *w, int k)
{
	const struct st_tensor *t = stored(w, k);

	return !t && k < w->n->ins && w->n->in[k] >= 0 ? w->place[w->n->in[k]].constant : t;
}

static int make(struct walk *w, int64_t h, int64_t width, int64_t c, struct tensor *t)
{
	if (w->n->outs < 1 || w->n->out[0] < 0)
		return refuse(w, "makes nothing");
	if (h < 1 || width < 1 || c < 1 || h > PIXELS_MOST || width > PIXELS_MOST || c > PIXELS_MOST || h * width > PIXELS_MOST / c)
		return refuse(w, "makes a picture too small or too large");
	w->place[w->n->out[0]] = (struct place){.there = 1, .h = h, .w = width, .c = c, .t = t};
	return 0;
}

/* The numbers of a tensor of at most `most` elements; -1 if there are more, or the node has no such tensor. */
static int64_t numbers(const struct walk *w, int k, float *out, int64_t most)
{
	const struct st_tensor *t = tensor(w, k);
	int64_t n = t ? st_count(t) : most + 1;

	if (n > most)
		return -1;
	st_to_f32(out, t);
	return n;
}

/* n numbers of tensor k, new, or NULL. */
static float *vector(const struct walk *w, int k, int64_t n)
{
	const struct st_tensor *t = tensor(w, k);
	float *v;

	if (!t || st_count(t) != n)
		return NULL;
	v = mem_alloc((size_t)n * sizeof *v);
	st_to_f32(v, t);
	return v;
}

/* ---- arithmetic on tensors of the tape ---- */

static struct tensor *channel_values(const struct walk *w, const double *v, int64_t n)
{
	return tape_constant(w->l->t, 4, (const int64_t[]){1, 1, 1, n}, v);
}

static struct tensor *shifted(const struct walk *w, double a, struct tensor *x, double b)
{
	return op_axpby(w->l->t, a, x, 1, channel_values(w, &b, 1));
}

/* x between lo and hi; either may be infinite. max(x, lo) is lo + relu(x - lo), and so on. */
static struct tensor *clipped(const struct walk *w, struct tensor *x, double lo, double hi)
{
	struct tape *t = w->l->t;
	struct tensor *above, *over;

	if (isinf(lo))
		return isinf(hi) ? x : shifted(w, -1, op_unary(t, shifted(w, -1, x, hi), UNARY_RELU), hi);
	above = op_unary(t, lo == 0 ? x : shifted(w, 1, x, -lo), UNARY_RELU);
	if (!isinf(hi)) {
		over = op_unary(t, shifted(w, 1, x, -hi), UNARY_RELU);
		above = op_axpby(t, 1, above, -1, over);
	}
	return lo == 0 ? above : shifted(w, 1, above, lo);
}

static struct tensor *hard_sigmoid(const struct walk *w, struct tensor *x, double alpha, double beta)
{
	return clipped(w, shifted(w, alpha, x, beta), 0, 1);
}

/* ---- operators of one picture ---- */

static int elementwise(struct walk *w)
{
	static const struct {
		const char *op;
		enum unary fn;
	} functions[] = {{"Relu", UNARY_RELU}, {"Sigmoid", UNARY_SIGMOID}, {"Tanh", UNARY_TANH}};
	const struct place *x = picture(w, 0);
	const char *op = w->n->op;
	struct tensor *y;

	if (!x)
		return refuse(w, "reads no picture");
	y = x->t;
	for (size_t i = 0; i < sizeof functions / sizeof *functions && y; i++)
		if (!strcmp(op, functions[i].op))
			y = op_unary(w->l->t, y, functions[i].fn);
	if (y && !strcmp(op, "HardSigmoid"))
		y = hard_sigmoid(w, y, onnx_real(w->n, "alpha", .2), onnx_real(w->n, "beta", .5));
	if (y && !strcmp(op, "HardSwish"))
		y = op_mul(w->l->t, y, hard_sigmoid(w, y, 1. / 6, .5));
	return make(w, x->h, x->w, x->c, y);
}

/* A bound of Clip: input k, or before version 11 of the operators an attribute. */
static int bound(const struct walk *w, int k, const char *name, double *v)
{
	const struct onnx_attr *a = onnx_find(w->n, name);
	float one;

	if (k < w->n->ins && w->n->in[k] >= 0) {
		if (numbers(w, k, &one, 1) != 1)
			return refuse(w, "has a bound that is no number");
		*v = (double)one;
	} else if (a) {
		*v = a->f;
	}
	/* no number, or the largest float, as exporters write "no bound" */
	if (isnan(*v))
		return refuse(w, "has a bound that is no number");
	if (fabs(*v) > 1e30)
		*v = *v < 0 ? -INFINITY : INFINITY;
	return 0;
}

static int clip(struct walk *w)
{
	const struct place *x = picture(w, 0);
	double lo = -INFINITY, hi = INFINITY;

	if (!x)
		return refuse(w, "reads no picture");
	if (bound(w, 1, "min", &lo) || bound(w, 2, "max", &hi))
		return -1;
	if (lo > hi)
		return refuse(w, "has a lower bound above the upper one");
	return make(w, x->h, x->w, x->c, x->t ? clipped(w, x->t, lo, hi) : NULL);
}

/* x scale + shift, each with one number for each channel. Frees scale and shift. */
static int affine(struct walk *w, const struct place *x, double *scale, double *shift)
{
	struct tensor *y = x->t;

	if (y) {
		y = op_mul(w->l->t, y, channel_values(w, scale, x->c));
		y = op_axpby(w->l->t, 1, y, 1, channel_values(w, shift, x->c));
	}
	mem_free(scale);
	mem_free(shift);
	return make(w, x->h, x->w, x->c, y);
}

static int batch_norm(struct walk *w)
{
	const struct place *x = picture(w, 0);
	double eps = onnx_real(w->n, "epsilon", 1e-5), *scale, *shift;
	float *v[4] = {NULL};
	int there = x != NULL;

	for (int i = 0; i < 4 && there; i++)
		there = (v[i] = vector(w, i + 1, x->c)) != NULL;
	if (there) {
		scale = mem_alloc((size_t)x->c * sizeof *scale);
		shift = mem_alloc((size_t)x->c * sizeof *shift);
		for (int64_t c = 0; c < x->c; c++) {
			scale[c] = (double)v[0][c] / sqrt((double)v[3][c] + eps);
			shift[c] = (double)v[1][c] - (double)v[2][c] * scale[c];
		}
	}
	for (int i = 0; i < 4; i++)
		mem_free(v[i]);
	return there ? affine(w, x, scale, shift) : refuse(w, "lacks four numbers for each channel");
}

static int is_list(const struct onnx_attr *a, const int64_t *v, int n)
{
	return a && a->n == n && !memcmp(a->ints, v, (size_t)n * sizeof *v);
}

static int mean(struct walk *w)
{
	const struct place *x = picture(w, 0);
	struct tensor *y;

	if (!x)
		return refuse(w, "reads no picture");
	if (!strcmp(w->n->op, "ReduceMean") &&
	    (onnx_int(w->n, "keepdims", 1) != 1 ||
	     !(is_list(onnx_find(w->n, "axes"), (const int64_t[]){2, 3}, 2) || is_list(onnx_find(w->n, "axes"), (const int64_t[]){-2, -1}, 2))))
		return refuse(w, "is not over height and width");
	y = x->t ? op_sum(w->l->t, x->t, (const int64_t[]){x->t->shape[0], 1, 1, x->c}, 1 / (double)(x->h * x->w)) : NULL;
	return make(w, 1, 1, x->c, y);
}

/* ---- operators of two ---- */

/* Input k as a constant: *n is 1, or the number of x's channels. The numbers are new (mem_free); NULL with an error. */
static double *constant(struct walk *w, int k, const struct place *x, int64_t *n)
{
	const struct st_tensor *t = tensor(w, k);
	double *out = NULL;
	float *v;

	*n = t ? st_count(t) : 0;
	if (*n != 1 && (*n != x->c || t->rank < 3 || t->rank > 4 || t->shape[t->rank - 3] != x->c)) {
		refuse(w, "has a constant that is neither one number nor one for each channel");
		return NULL;
	}
	v = vector(w, k, *n);
	out = mem_alloc((size_t)*n * sizeof *out);
	for (int64_t i = 0; i < *n; i++)
		out[i] = (double)v[i];
	mem_free(v);
	return out;
}

/* A picture and a constant, which is the first of the two if it is input 0. */
static int with_constant(struct walk *w, const struct place *x, int k)
{
	char op = *w->n->op;
	int64_t n;
	double *v = constant(w, k, x, &n);
	struct tensor *y = NULL;

	if (!v)
		return -1;
	if (op == 'D' && !k) {
		mem_free(v);
		return refuse(w, "divides a constant");
	}
	for (int64_t i = 0; i < n; i++)
		v[i] = op == 'D' ? 1 / v[i] : op == 'S' && k ? -v[i] : v[i];
	if (x->t && (op == 'M' || op == 'D'))
		y = n == 1 ? op_scale(w->l->t, x->t, *v) : op_mul(w->l->t, x->t, channel_values(w, v, n));
	else if (x->t)
		y = op_axpby(w->l->t, op == 'S' && !k ? -1 : 1, x->t, 1, channel_values(w, v, n));
	mem_free(v);
	return make(w, x->h, x->w, x->c, y);
}

/* Whether the shape of y can be stretched to that of x. */
static int stretches(const struct place *y, const struct place *x)
{
	return (y->h == x->h || y->h == 1) && (y->w == x->w || y->w == 1) && (y->c == x->c || y->c == 1);
}

static int arithmetic(struct walk *w)
{
	const struct place *a = picture(w, 0), *b = picture(w, 1), *x, *y;
	char op = *w->n->op;
	struct tensor *z = NULL;

	if (!a && !b)
		return refuse(w, "reads no picture");
	if (!a || !b)
		return with_constant(w, a ? a : b, a ? 1 : 0);
	x = stretches(b, a) ? a : b;
	y = x == a ? b : a;
	if (op == 'D' || !stretches(y, x))
		return refuse(w, op == 'D' ? "divides by a picture" : "combines pictures of unlike sizes");
	if (x->t && op == 'M')
		z = op_mul(w->l->t, x->t, y->t);
	else if (x->t)
		z = op_axpby(w->l->t, op == 'S' && x == b ? -1 : 1, x->t, op == 'S' && x == a ? -1 : 1, y->t);
	return make(w, x->h, x->w, x->c, z);
}

/* ---- sizes ---- */

/* A constant in another shape. Some exporters store one number for each channel flat, and reshape it in the graph. */
static int reshape(struct walk *w)
{
	const struct st_tensor *t = tensor(w, 0);
	int64_t n = 1, free = -1;
	struct st_tensor *out;
	float shape[4];

	if (!t || w->n->outs < 1 || w->n->out[0] < 0)
		return refuse(w, "reshapes something else than a constant");
	out = arena_alloc(&w->memory, sizeof *out);
	*out = *t;
	out->rank = (int)numbers(w, 1, shape, 4);
	for (int i = 0; i < out->rank; i++) {
		out->shape[i] = (int64_t)shape[i];
		if (shape[i] == -1 && free < 0)
			free = i;
		else if (!(shape[i] >= 1 && shape[i] <= PIXELS_MOST) || __builtin_mul_overflow(n, out->shape[i], &n))
			return refuse(w, "has a shape that does not fit");
	}
	if (free >= 0)
		out->shape[free] = st_count(t) / n;
	if (out->rank < 0 || st_count(t) % n || n * (free >= 0 ? out->shape[free] : 1) != st_count(t))
		return refuse(w, "has a shape that does not fit");
	w->place[w->n->out[0]].constant = out;
	return 0;
}

/* A nearest-neighbour factor that copies each pixel k times: a power of two; 0: it is none. */
static int64_t upsampling(const struct walk *w)
{
	float s[4];
	int k = onnx_opset(w->o) < 11 ? 1 : 2; /* before version 11, no input for the region */

	if (numbers(w, k, s, 4) != 4 || s[0] != 1 || s[1] != 1 || s[2] != s[3])
		return 0;
	for (int64_t f = 1; f <= 32; f *= 2)
		if (s[2] == (float)f)
			return f;
	return 0;
}

static int resize(struct walk *w)
{
	const struct place *x = picture(w, 0);
	const char *how = onnx_text(w->n, "coordinate_transformation_mode", "half_pixel");
	int64_t f = x ? upsampling(w) : 0;
	int plain =
	    !strcmp(how, "half_pixel") || (!strcmp(how, "asymmetric") && !strcmp(onnx_text(w->n, "nearest_mode", "round_prefer_floor"), "floor"));
	struct tensor *y;

	if (onnx_opset(w->o) < 11)
		plain = 1;
	if (!x)
		return refuse(w, "reads no picture");
	if (!f || !plain || strcmp(onnx_text(w->n, "mode", "nearest"), "nearest"))
		return refuse(w, "is not nearest-neighbour upsampling by a power of two");
	y = x->t;
	for (int64_t k = f; k > 1 && y; k /= 2)
		y = op_upsample_nearest(w->l->t, y);
	return make(w, x->h * f, x->w * f, x->c, y);
}

static int concat(struct walk *w)
{
	const struct place *first = picture(w, 0);
	struct tensor *x[ONNX_IN];
	int64_t c = 0, axis = onnx_int(w->n, "axis", 0);
	int n = w->n->ins;

	if (!first || (axis != 1 && axis != -3))
		return refuse(w, "joins along another dimension than the channels");
	if (n > 2 * OP_IN - 1)
		return refuse(w, "joins too many pictures");
	for (int i = 0; i < n; i++) {
		const struct place *p = picture(w, i);

		if (!p || p->h != first->h || p->w != first->w)
			return refuse(w, "joins pictures of unlike sizes");
		x[i] = p->t;
		c += p->c;
	}
	if (w->l && n > OP_IN) {
		x[OP_IN - 1] = op_concat(w->l->t, 3, n - OP_IN + 1, x + OP_IN - 1);
		n = OP_IN;
	}
	return make(w, first->h, first->w, c, w->l ? op_concat(w->l->t, 3, n, x) : NULL);
}

/* ---- windows ---- */

struct window {
	int64_t kh, kw, stride;
	struct padding pad;
};

static int64_t list_at(const struct onnx_attr *a, int i, int n, int64_t otherwise)
{
	return a && a->n == n ? a->ints[i] : otherwise;
}

/* The window of a convolution or pooling of kh x kw (0: as the node says), and the size of what it makes. */
static int window_read(const struct walk *w, struct window *o, const struct place *x, int64_t kh, int64_t kw, int64_t out[2])
{
	const struct onnx_attr *size = onnx_find(w->n, "kernel_shape"), *strides = onnx_find(w->n, "strides"), *pads = onnx_find(w->n, "pads");
	const struct onnx_attr *dilations = onnx_find(w->n, "dilations");
	const char *automatic = onnx_text(w->n, "auto_pad", "NOTSET");

	*o = (struct window){.kh = kh ? kh : list_at(size, 0, 2, 0), .kw = kw ? kw : list_at(size, 1, 2, 0), .stride = list_at(strides, 0, 2, 1)};
	o->pad = (struct padding){list_at(pads, 0, 4, 0), list_at(pads, 1, 4, 0), list_at(pads, 2, 4, 0), list_at(pads, 3, 4, 0)};
	if (strcmp(automatic, "NOTSET") && strcmp(automatic, "VALID"))
		return refuse(w, "has auto_pad");
	if (list_at(dilations, 0, 2, 1) != 1 || list_at(dilations, 1, 2, 1) != 1)
		return refuse(w, "is dilated");
	if (o->kh < 1 || o->kw < 1 || o->kh > 64 || o->kw > 64 || o->stride < 1 || o->stride > 64 || list_at(strides, 1, 2, o->stride) != o->stride)
		return refuse(w, "has a window or a stride outside 1 to 64, or unlike strides");
	if (o->pad.top < 0 || o->pad.left < 0 || o->pad.bottom < 0 || o->pad.right < 0 || o->pad.top >= o->kh || o->pad.left >= o->kw ||
	    o->pad.bottom >= o->kh || o->pad.right >= o->kw || x->h + o->pad.top + o->pad.bottom < o->kh || x->w + o->pad.left + o->pad.right < o->kw)
		return refuse(w, "has more padding than its window, or a window larger than its picture");
	out[0] = (x->h + o->pad.top + o->pad.bottom - o->kh) / o->stride + 1;
	out[1] = (x->w + o->pad.left + o->pad.right - o->kw) / o->stride + 1;
	return 0;
}

static int max_pool(struct walk *w)
{
	const struct place *x = picture(w, 0);
	struct window o;
	int64_t out[2];
	int equal;

	if (!x)
		return refuse(w, "reads no picture");
	if (window_read(w, &o, x, 0, 0, out))
		return -1;
	equal = o.pad.top == o.pad.left && o.pad.top == o.pad.bottom && o.pad.top == o.pad.right;
	if (o.kh != o.kw || !equal || 2 * o.pad.top > o.kh || onnx_int(w->n, "ceil_mode", 0))
		return refuse(w, "has windows that are not square, unlike padding, or ceil_mode");
	return make(w, out[0], out[1], x->c, x->t ? op_pool(w->l->t, x->t, POOL_MAX, o.kh, o.stride, o.pad.top, 0) : NULL);
}

/* A parameter of the node: 'w' its weight or 'b' its bias; of a convolution with one channel a group those of a slab. net/onnxnet.c fills them. */
static struct tensor *parameter(const struct walk *w, char what, int slab, int rank, const int64_t *shape)
{
	char name[48];

	snprintf(name, sizeof name, "%d.%c%d", w->index, what, slab);
	return layer_param_init(w->l, name, rank, shape, rank == 4 ? PARAM_CONV : 0, init_zero);
}

int64_t onnxop_slab(int64_t channels)
{
	int64_t w = (channels + SLABS - 1) / SLABS;

	return (w + SLAB_LEAST - 1) / SLAB_LEAST * SLAB_LEAST;
}

static struct tensor *depthwise(const struct walk *w, const struct place *x, const struct window *o, int has_bias)
{
	int64_t wide = onnxop_slab(x->c);
	struct tensor *y[SLABS];
	int n = 0;

	for (int64_t c = 0; c < x->c; c += wide, n++) {
		int64_t m = x->c - c < wide ? x->c - c : wide, shape[4] = {m, o->kh, o->kw, m};
		struct tensor *bias = has_bias ? parameter(w, 'b', n, 1, &m) : NULL;

		y[n] = op_conv(w->l->t, op_slice(w->l->t, x->t, 3, c, m), parameter(w, 'w', n, 4, shape), bias, NULL, o->stride, o->pad, 0);
	}
	return n == 1 ? y[0] : op_concat(w->l->t, 3, n, y);
}

static int conv(struct walk *w)
{
	const struct place *x = picture(w, 0);
	const struct st_tensor *k = stored(w, 1), *b = stored(w, 2);
	int64_t group = onnx_int(w->n, "group", 1), out[2];
	struct window o;
	struct tensor *y = NULL;

	if (!x || !k || k->rank != 4 || (w->n->ins > 2 && w->n->in[2] >= 0 && !b))
		return refuse(w, "reads no picture, or has no weights in the file");
	if (group != 1 && (group != x->c || k->shape[0] != x->c))
		return refuse(w, "has groups of more than one channel");
	if (x->c > 1 << 20 || k->shape[1] != (group == 1 ? x->c : 1) || k->shape[0] < 1 || (b && st_count(b) != k->shape[0]))
		return refuse(w, "has weights of another number of channels");
	if (window_read(w, &o, x, k->shape[2], k->shape[3], out))
		return -1;
	if (group > 1 && onnxop_slab(x->c) * onnxop_slab(x->c) * SLABS * o.kh * o.kw > DENSE_MOST)
		return refuse(w, "has too many channels");
	if (x->t && group == 1) {
		struct tensor *bias = b ? parameter(w, 'b', 0, 1, k->shape) : NULL;

		y = parameter(w, 'w', 0, 4, (const int64_t[]){k->shape[0], o.kh, o.kw, x->c});
		y = op_conv(w->l->t, x->t, y, bias, NULL, o.stride, o.pad, 0);
	} else if (x->t) {
		y = depthwise(w, x, &o, b != NULL);
	}
	return make(w, out[0], out[1], k->shape[0], y);
}

/* A transposed convolution whose stride is its size k: each pixel becomes k x k pixels by a linear layer. */
static int conv_transpose(struct walk *w)
{
	const struct place *x = picture(w, 0);
	const struct st_tensor *k = stored(w, 1), *b = stored(w, 2);
	const struct onnx_attr *strides = onnx_find(w->n, "strides"), *pads = onnx_find(w->n, "pads"), *more = onnx_find(w->n, "output_padding");
	struct tensor *y = NULL;
	int64_t s, o;

	if (!x || !k || k->rank != 4 || k->shape[0] != x->c || k->shape[1] < 1 || (b && st_count(b) != k->shape[1]) ||
	    (w->n->ins > 2 && w->n->in[2] >= 0 && !b))
		return refuse(w, "reads no picture, or has no fitting weights in the file");
	s = k->shape[2];
	o = k->shape[1];
	for (int i = 0; i < 4; i++)
		if (list_at(pads, i, 4, 0) || list_at(more, i & 1, 2, 0))
			return refuse(w, "is padded");
	if (s < 1 || s > 16 || k->shape[3] != s || list_at(strides, 0, 2, 1) != s || list_at(strides, 1, 2, 1) != s ||
	    onnx_int(w->n, "group", 1) != 1)
		return refuse(w, "has a stride that is not its size");
	if (x->t) {
		int64_t split[6] = {x->t->shape[0], x->h, x->w, s, s, o}, whole[4] = {x->t->shape[0], x->h * s, x->w * s, o}, all = s * s * o;
		struct tensor *bias = b ? parameter(w, 'b', 0, 1, &o) : NULL;

		y = op_conv(w->l->t, x->t, parameter(w, 'w', 0, 4, (const int64_t[]){all, 1, 1, x->c}), NULL, NULL, 1, (struct padding){0}, 0);
		y = op_permute(w->l->t, op_reshape(w->l->t, y, 6, split), (const int[]){0, 1, 3, 2, 4, 5});
		y = op_reshape(w->l->t, op_copy(w->l->t, y), 4, whole);
		y = bias ? op_axpby(w->l->t, 1, y, 1, bias) : y;
	}
	return make(w, x->h * s, x->w * s, o, y);
}

static const struct {
	const char *op;
	int (*walk)(struct walk *w);
} operators[] = {{"Conv", conv},
                 {"ConvTranspose", conv_transpose},
                 {"BatchNormalization", batch_norm},
                 {"Add", arithmetic},
                 {"Sub", arithmetic},
                 {"Mul", arithmetic},
                 {"Div", arithmetic},
                 {"Clip", clip},
                 {"Relu", elementwise},
                 {"Sigmoid", elementwise},
                 {"Tanh", elementwise},
                 {"HardSigmoid", elementwise},
                 {"HardSwish", elementwise},
                 {"Identity", elementwise},
                 {"GlobalAveragePool", mean},
                 {"ReduceMean", mean},
                 {"MaxPool", max_pool},
                 {"Reshape", reshape},
                 {"Resize", resize},
                 {"Upsample", resize},
                 {"Concat", concat}};

int onnxop_walk(struct walk *w)
{
	for (size_t k = 0; k < sizeof operators / sizeof *operators; k++)
		if (!strcmp(operators[k].op, w->n->op))
			return operators[k].walk(w);
	return refuse(w, "is not among the operators that can be run");
}
