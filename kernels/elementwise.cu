/* ADD, MUL, UNARY, UNARY_GRAD, COPY, FILL, QSAMPLE on the GPU: one pass each; every array may be float or bfloat16. */
#include "kernels/unary.h"

/* Read PACK elements of an operand; an operand that is constant along a row (step 0) is read once. */
static __device__ inline void operand8(struct reals a, int64_t offset, int64_t step, float v[PACK])
{
	if (step) {
		reals_get8(a, offset, v);
		return;
	}
	v[0] = reals_get(a, offset);
	for (int k = 1; k < PACK; k++)
		v[k] = v[0];
}

template <class F> static __global__ void binary_packed(F f, struct strided s, struct reals y, struct reals a, struct reals b)
{
	int last = s.rank - 1;

	for (int64_t i = thread_index() * PACK; i < s.count; i += thread_count() * PACK) {
		int64_t at[4];
		float u[PACK], v[PACK];

		strided_at(&s, i, at);
		operand8(a, at[1], s.stride[1][last], u);
		operand8(b, at[2], s.stride[2][last], v);
		for (int k = 0; k < PACK; k++)
			u[k] = f(u[k], v[k]);
		reals_set8(y, at[0], u);
	}
}

template <class F> static __global__ void binary_any(F f, struct strided s, struct reals y, struct reals a, struct reals b)
{
	for (int64_t i = thread_index(); i < s.count; i += thread_count()) {
		int64_t at[4];

		strided_at(&s, i, at);
		reals_set(y, at[0], f(reals_get(a, at[1]), reals_get(b, at[2])));
	}
}

template <class F> static void binary(const struct op_call *c, F f, const struct array *a, const struct array *b)
{
	const struct array *const arrays[3] = {&c->out[0], a, b};
	struct strided s = strided_of(&c->out[0], arrays, 3);

	if (!s.count)
		return;
	if (strided_packs(&s, arrays) && s.stride[0][s.rank - 1])
		LAUNCH(c, binary_packed, blocks_for(s.count / PACK), BLOCK, f, s, reals_of(&c->out[0]), reals_of(a), reals_of(b));
	else
		LAUNCH(c, binary_any, blocks_for(s.count), BLOCK, f, s, reals_of(&c->out[0]), reals_of(a), reals_of(b));
}

struct add {
	float f0, f1;
	__device__ float operator()(float a, float b) const
	{
		return fmaf(f0, a, f1 * b);
	}
};

static void add_run(const struct op_call *c)
{
	struct add f = {(float)c->attr.add.a, (float)c->attr.add.b};

	binary(c, f, &c->in[0], &c->in[1]);
}

struct mul {
	__device__ float operator()(float a, float b) const
	{
		return a * b;
	}
};

static void mul_run(const struct op_call *c)
{
	binary(c, mul(), &c->in[0], &c->in[1]);
}

template <template <int> class F> static void unary(const struct op_call *c, const struct array *a, const struct array *b)
{
	switch (c->attr.unary.fn) {
	case UNARY_SILU:
		return binary(c, F<UNARY_SILU>(), a, b);
	case UNARY_GELU_TANH:
		return binary(c, F<UNARY_GELU_TANH>(), a, b);
	case UNARY_GELU_ERF:
		return binary(c, F<UNARY_GELU_ERF>(), a, b);
	case UNARY_TANH:
		return binary(c, F<UNARY_TANH>(), a, b);
	case UNARY_SIGMOID:
		return binary(c, F<UNARY_SIGMOID>(), a, b);
	case UNARY_EXP:
		return binary(c, F<UNARY_EXP>(), a, b);
	case UNARY_SQUARE:
		return binary(c, F<UNARY_SQUARE>(), a, b);
	case UNARY_RELU:
		return binary(c, F<UNARY_RELU>(), a, b);
	default:
		return;
	}
}

static void unary_run(const struct op_call *c)
{
	unary<unary_value>(c, &c->in[0], &c->in[0]);
}

static void unary_grad_run(const struct op_call *c)
{
	unary<unary_slope>(c, &c->in[0], &c->in[1]);
}

/* Copy n words of 16 bytes, for contiguous aligned arrays. Other copies go by elements. */
static __global__ void copy_words(int64_t n, uint4 *y, const uint4 *x)
{
	for (int64_t i = thread_index(); i < n; i += thread_count())
		y[i] = x[i];
}

template <class T> static __global__ void copy_any(struct strided s, T *y, const T *x)
{
	for (int64_t i = thread_index(); i < s.count; i += thread_count()) {
		int64_t at[4];

		strided_at(&s, i, at);
		y[at[0]] = x[at[1]];
	}
}

static __global__ void convert_any(struct strided s, struct reals y, struct reals x)
{
	for (int64_t i = thread_index(); i < s.count; i += thread_count()) {
		int64_t at[4];

		strided_at(&s, i, at);
		reals_set(y, at[0], reals_get(x, at[1]));
	}
}

static __global__ void convert_packed(struct strided s, struct reals y, struct reals x)
{
	for (int64_t i = thread_index() * PACK; i < s.count; i += thread_count() * PACK) {
		int64_t at[4];
		float v[PACK];

		strided_at(&s, i, at);
		operand8(x, at[1], s.stride[1][s.rank - 1], v);
		reals_set8(y, at[0], v);
	}
}

static void copy_run(const struct op_call *c)
{
	const struct array *y = &c->out[0], *x = &c->in[0], *const arrays[2] = {y, x};
	struct strided s = strided_of(y, arrays, 2);
	int64_t bytes = s.count * (int64_t)dtype_size(y->dtype);
	int whole = s.rank == 1 && s.stride[0][0] == 1 && s.stride[1][0] == 1;

	if (!s.count)
		return;
	if (y->dtype != x->dtype && strided_packs(&s, arrays) && s.stride[0][s.rank - 1])
		LAUNCH(c, convert_packed, blocks_for(s.count / PACK), BLOCK, s, reals_of(y), reals_of(x));
	else if (y->dtype != x->dtype)
		LAUNCH(c, convert_any, blocks_for(s.count), BLOCK, s, reals_of(y), reals_of(x));
	else if (whole && bytes % 16 == 0 && (uintptr_t)y->data % 16 == 0 && (uintptr_t)x->data % 16 == 0)
		LAUNCH(c, copy_words, blocks_for(bytes / 16), BLOCK, bytes / 16, (uint4 *)y->data, (const uint4 *)x->data);
	else if (dtype_size(y->dtype) == 2)
		LAUNCH(c, copy_any, blocks_for(s.count), BLOCK, s, (uint16_t *)y->data, (const uint16_t *)x->data);
	else if (dtype_size(y->dtype) == 8)
		LAUNCH(c, copy_any, blocks_for(s.count), BLOCK, s, (uint64_t *)y->data, (const uint64_t *)x->data);
	else
		LAUNCH(c, copy_any, blocks_for(s.count), BLOCK, s, (uint32_t *)y->data, (const uint32_t *)x->data);
}

static __global__ void fill_any(struct strided s, struct reals y, float v)
{
	for (int64_t i = thread_index(); i < s.count; i += thread_count()) {
		int64_t at[4];

		strided_at(&s, i, at);
		reals_set(y, at[0], v);
	}
}

static void fill_run(const struct op_call *c)
{
	const struct array *const arrays[1] = {&c->out[0]};
	struct strided s = strided_of(&c->out[0], arrays, 1);

	if (s.count)
		LAUNCH(c, fill_any, blocks_for(s.count), BLOCK, s, reals_of(&c->out[0]), (float)c->attr.fill.value);
}

struct qsample {
	int64_t count, size; /* size: elements of a sample */
	struct divider by;   /* of `size`, if count is small enough for a divider */
	int narrow;
	struct reals y, x0, eps;
	const float *alpha, *sigma;
	int64_t alpha_step, sigma_step;
};

static __device__ inline int64_t qsample_row(const struct qsample &q, int64_t i)
{
	return q.narrow ? divide(q.by, (uint32_t)i) : i / q.size;
}

/* Two products and a sum, each rounded as on the CPU; the intrinsics prevent fusion. */
static __device__ inline float qsample_one(float alpha, float x0, float sigma, float eps)
{
	return __fadd_rn(__fmul_rn(alpha, x0), __fmul_rn(sigma, eps));
}

static __global__ void qsample_packed(struct qsample q)
{
	for (int64_t i = thread_index() * PACK; i < q.count; i += thread_count() * PACK) {
		int64_t b = qsample_row(q, i);
		float alpha = q.alpha[b * q.alpha_step], sigma = q.sigma[b * q.sigma_step], u[PACK], v[PACK];

		reals_get8(q.x0, i, u);
		reals_get8(q.eps, i, v);
		for (int k = 0; k < PACK; k++)
			u[k] = qsample_one(alpha, u[k], sigma, v[k]);
		reals_set8(q.y, i, u);
	}
}

static __global__ void qsample_any(struct qsample q)
{
	for (int64_t i = thread_index(); i < q.count; i += thread_count()) {
		int64_t b = qsample_row(q, i);

		reals_set(q.y, i, qsample_one(q.alpha[b * q.alpha_step], reals_get(q.x0, i), q.sigma[b * q.sigma_step], reals_get(q.eps, i)));
	}
}

static void qsample_run(const struct op_call *c)
{
	const struct array *y = &c->out[0], *x0 = &c->in[0], *eps = &c->in[1];
	int64_t count = array_count(y);
	struct qsample q;

	if (!count)
		return;
	q.count = count;
	q.size = count / y->shape[0];
	q.narrow = count < INT32_MAX;
	q.by = divider_of(q.narrow ? q.size : 1);
	q.y = reals_of(y);
	q.x0 = reals_of(x0);
	q.eps = reals_of(eps);
	q.alpha = (const float *)c->in[2].data;
	q.alpha_step = c->in[2].stride[0];
	q.sigma = (const float *)c->in[3].data;
	q.sigma_step = c->in[3].stride[0];
	if (q.size % PACK || (uintptr_t)y->data % 16 || (uintptr_t)x0->data % 16 || (uintptr_t)eps->data % 16)
		LAUNCH(c, qsample_any, blocks_for(count), BLOCK, q);
	else
		LAUNCH(c, qsample_packed, blocks_for(count / PACK), BLOCK, q);
}

extern "C" {
extern const struct kernel kernel_add_cuda = {add_run, NULL};
extern const struct kernel kernel_mul_cuda = {mul_run, NULL};
extern const struct kernel kernel_unary_cuda = {unary_run, NULL};
extern const struct kernel kernel_unary_grad_cuda = {unary_grad_run, NULL};
extern const struct kernel kernel_copy_cuda = {copy_run, NULL};
extern const struct kernel kernel_fill_cuda = {fill_run, NULL};
extern const struct kernel kernel_qsample_cuda = {qsample_run, NULL};
}
