/* LINEAR, LINEAR_DX, LINEAR_DW and MATMUL on the GPU against the CPU: biases, activations and derivatives, pre-activations, column sums, rows with
 * padding or any offset, operands of two types, the layers of DiT-XL. With the chosen algorithm and with every other candidate. */
#include "tests/cuda/remote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/shortfloat.h"
#include "kernels/cublaslt.h"

extern const struct kernel kernel_linear_cuda, kernel_linear_dx_cuda, kernel_linear_dw_cuda, kernel_matmul_cuda;

enum { GELU = 1 + UNARY_GELU_TANH, SILU = 1 + UNARY_SILU };

/* C (m, n), sums over k. MATMUL: `batch` products with B transposed. */
struct product_test {
	const char *name;
	enum op op;
	int64_t m, n, k, batch;
	int act, bias, pre, sums; /* act of LINEAR_DX: times its derivative; pre: the value before it; sums: LINEAR_DW's second output */
	int master;               /* 1: weights, biases and their gradients are float even if the rest is bfloat16 */
	int64_t pad, shift;       /* unused elements between rows, and before the first */
	int large;                /* 1: too slow for the emulation */
};

/* clang-format off */
static const struct product_test tests_of_products[] = {
	{"plain", OP_LINEAR, 48, 64, 32, .batch = 1},
	{"bias", OP_LINEAR, 48, 64, 32, .batch = 1, .bias = 1},
	{"gelu", OP_LINEAR, 48, 64, 32, .batch = 1, .bias = 1, .act = GELU},
	{"gelu, before it", OP_LINEAR, 48, 64, 32, .batch = 1, .bias = 1, .act = GELU, .pre = 1},
	{"gelu, before it, float weights", OP_LINEAR, 48, 64, 32, .batch = 1, .bias = 1, .act = GELU, .pre = 1, .master = 1},
	{"gelu, before it, padded", OP_LINEAR, 48, 64, 32, .batch = 1, .bias = 1, .act = GELU, .pre = 1, .pad = 8},
	{"gelu, before it, odd rows", OP_LINEAR, 48, 61, 31, .batch = 1, .bias = 1, .act = GELU, .pre = 1, .pad = 3, .shift = 1},
	{"silu", OP_LINEAR, 33, 40, 24, .batch = 1, .bias = 1, .act = SILU},
	{"one row", OP_LINEAR, 1, 64, 129, .batch = 1, .bias = 1},
	{"one column", OP_LINEAR, 65, 1, 33, .batch = 1, .bias = 1},
	{"odd", OP_LINEAR, 129, 65, 21, .batch = 1, .bias = 1, .shift = 1},
	{"dx", OP_LINEAR_DX, 48, 32, 64, .batch = 1},
	{"dx, odd", OP_LINEAR_DX, 47, 31, 65, .batch = 1, .pad = 5, .shift = 3},
	{"dx, float weights", OP_LINEAR_DX, 48, 32, 64, .batch = 1, .master = 1},
	{"dx, gelu", OP_LINEAR_DX, 48, 32, 64, .batch = 1, .act = GELU},
	{"dx, gelu, padded", OP_LINEAR_DX, 48, 32, 64, .batch = 1, .act = GELU, .pad = 8},
	{"dx, gelu, odd rows", OP_LINEAR_DX, 47, 31, 65, .batch = 1, .act = GELU, .pad = 5, .shift = 3},
	{"dx, gelu, odd offset", OP_LINEAR_DX, 48, 32, 64, .batch = 1, .act = GELU, .shift = 1},
	{"dx, gelu, float weights", OP_LINEAR_DX, 48, 32, 64, .batch = 1, .act = GELU, .master = 1},
	{"dx, silu", OP_LINEAR_DX, 33, 40, 24, .batch = 1, .act = SILU},
	{"dw", OP_LINEAR_DW, 64, 32, 48, .batch = 1},
	{"dw, sums", OP_LINEAR_DW, 64, 32, 48, .batch = 1, .sums = 1},
	{"dw, sums, float", OP_LINEAR_DW, 64, 32, 600, .batch = 1, .sums = 1, .master = 1},
	{"dw, sums, odd", OP_LINEAR_DW, 63, 31, 601, .batch = 1, .sums = 1, .master = 1, .pad = 1, .shift = 1},
	{"matmul", OP_MATMUL, 40, 24, 64, .batch = 3},
	{"matmul, odd", OP_MATMUL, 41, 23, 65, .batch = 3, .pad = 1, .shift = 1},
	{"xl qkv", OP_LINEAR, 512, 3456, 1152, .batch = 1, .bias = 1, .large = 1},
	{"xl fc1", OP_LINEAR, 512, 4608, 1152, .batch = 1, .bias = 1, .act = GELU, .pre = 1, .large = 1},
	{"xl fc2", OP_LINEAR, 512, 1152, 4608, .batch = 1, .bias = 1, .large = 1},
	{"xl modulation", OP_LINEAR, 2, 6912, 1152, .batch = 1, .bias = 1, .large = 1},
	{"xl fc1 dx", OP_LINEAR_DX, 512, 1152, 4608, .batch = 1, .large = 1},
	{"xl fc2 dx, gelu", OP_LINEAR_DX, 512, 4608, 1152, .batch = 1, .act = GELU, .large = 1},
	{"xl fc1 dw", OP_LINEAR_DW, 4608, 1152, 512, .batch = 1, .sums = 1, .master = 1, .large = 1},
	{"xl proj dw", OP_LINEAR_DW, 1152, 1152, 2048, .batch = 1, .sums = 1, .master = 1, .large = 1},
};
/* clang-format on */

enum { TESTS = sizeof tests_of_products / sizeof *tests_of_products };

static struct device *cpu, *gpu;

/* A matrix (batch, rows, cols), or a vector if batch is 0, in its own memory. The elements between its rows are NaN. */
struct matrix {
	struct array a;
	void *memory;
	int64_t elements;
};

static void element_set(const struct array *a, void *memory, int64_t i, float v)
{
	if (a->dtype == DT_BF16)
		((uint16_t *)memory)[i] = f32_to_bf16(v);
	else
		((float *)memory)[i] = v;
}

static float element_get(const struct array *a, int64_t i)
{
	return a->dtype == DT_BF16 ? bf16_to_f32(((const uint16_t *)a->data)[i]) : ((const float *)a->data)[i];
}

static int64_t element_at(const struct array *a, int64_t batch, int64_t row, int64_t col)
{
	return a->rank == 1 ? col : (a->rank == 3 ? batch * a->stride[0] : 0) + row * a->stride[a->rank - 2] + col;
}

/* The layout of a matrix. The ops require contiguous weights. Without values a matrix is an output and all NaN. */
enum layout { CONTIGUOUS, ROWS };
static struct matrix matrix_new(const struct product_test *t, enum dtype type, enum layout layout, int64_t batch, int64_t rows, int64_t cols,
                                const float *values)
{
	int64_t pad = layout == ROWS ? t->pad : 0, shift = t->shift, ld = cols + pad;
	struct matrix x = {.elements = shift + (batch ? batch : 1) * rows * ld};

	x.memory = mem_zalloc((size_t)x.elements, dtype_size(type));
	x.a = batch > 1 ? (struct array){.rank = 3, .shape = {batch, rows, cols}, .stride = {rows * ld, ld, 1}}
	      : batch   ? (struct array){.rank = 2, .shape = {rows, cols}, .stride = {ld, 1}}
	                : (struct array){.rank = 1, .shape = {cols}, .stride = {1}};
	x.a.dtype = type;
	x.a.data = (char *)x.memory + (size_t)shift * dtype_size(type);
	for (int64_t i = 0; i < x.elements; i++)
		element_set(&x.a, x.memory, i, NAN);
	for (int64_t b = 0, i = 0; values && b < (batch ? batch : 1); b++)
		for (int64_t r = 0; r < rows; r++)
			for (int64_t c = 0; c < cols; c++)
				element_set(&x.a, x.a.data, element_at(&x.a, b, r, c), values[i++]);
	return x;
}

/* Normal values that bfloat16 represents exactly, so that both devices compute with the same ones. */
static float *values_new(int64_t n, float scale, uint64_t which)
{
	float *v = mem_zalloc((size_t)n, sizeof *v);

	rng_normal(v, (size_t)n, 3, RNG_TEST, which, 0);
	for (int64_t i = 0; i < n; i++)
		v[i] = bf16_to_f32(f32_to_bf16(scale * v[i]));
	return v;
}

/* The arrays of a call in one type: the operands in order, then the outputs. */
struct call {
	struct op_call c;
	struct matrix m[5];
	int count, outputs; /* outputs: index of the first output */
};

static struct call call_new(const struct product_test *t, enum dtype type, float *const v[4])
{
	enum dtype weight = t->master ? DT_F32 : type;
	struct call k = {.outputs = 2};
	int64_t b = t->batch;

	if (t->op == OP_LINEAR) {
		k.m[0] = matrix_new(t, type, ROWS, 1, t->m, t->k, v[0]);
		k.m[1] = matrix_new(t, weight, CONTIGUOUS, 1, t->n, t->k, v[1]);
		if (t->bias)
			k.m[k.outputs++] = matrix_new(t, weight, CONTIGUOUS, 0, 1, t->n, v[2]);
		k.m[k.outputs] = matrix_new(t, type, ROWS, 1, t->m, t->n, NULL);
		if (t->pre)
			k.m[k.outputs + 1] = matrix_new(t, type, ROWS, 1, t->m, t->n, NULL);
		k.count = k.outputs + 1 + t->pre;
		k.c.attr.linear.act = t->act;
	} else if (t->op == OP_LINEAR_DX) {
		k.m[0] = matrix_new(t, type, ROWS, 1, t->m, t->k, v[0]);
		k.m[1] = matrix_new(t, weight, CONTIGUOUS, 1, t->k, t->n, v[1]);
		if (t->act)
			k.m[k.outputs++] = matrix_new(t, type, ROWS, 1, t->m, t->n, v[3]);
		k.m[k.outputs] = matrix_new(t, type, ROWS, 1, t->m, t->n, NULL);
		k.count = k.outputs + 1;
		k.c.attr.linear.act = t->act;
	} else if (t->op == OP_LINEAR_DW) {
		k.m[0] = matrix_new(t, type, ROWS, 1, t->k, t->m, v[0]);
		k.m[1] = matrix_new(t, type, ROWS, 1, t->k, t->n, v[1]);
		k.m[2] = matrix_new(t, weight, CONTIGUOUS, 1, t->m, t->n, NULL);
		if (t->sums)
			k.m[3] = matrix_new(t, weight, CONTIGUOUS, 0, 1, t->m, NULL);
		k.count = 3 + t->sums;
	} else {
		k.m[0] = matrix_new(t, type, ROWS, b, t->m, t->k, v[0]);
		k.m[1] = matrix_new(t, type, ROWS, b, t->n, t->k, v[1]);
		k.m[2] = matrix_new(t, type, ROWS, b, t->m, t->n, NULL);
		k.count = 3;
		k.c.attr = (struct op_attr){.matmul = {0, 1, .5}};
	}
	k.c.nin = k.outputs;
	k.c.nout = 2;
	for (int i = 0; i < k.count; i++)
		*(i < k.outputs ? &k.c.in[i] : &k.c.out[i - k.outputs]) = k.m[i].a;
	if (t->op == OP_LINEAR_DX || t->op == OP_MATMUL)
		k.c.nout = 1;
	return k;
}

static void call_release(struct call *k)
{
	for (int i = 0; i < k->count; i++)
		mem_free(k->m[i].memory);
}

static void outputs_spoil(struct call *k)
{
	for (int i = k->outputs; i < k->count; i++)
		for (int64_t j = 0; j < k->m[i].elements; j++)
			element_set(&k->m[i].a, k->m[i].memory, j, NAN);
}

static const struct kernel *kernel_of(enum op op)
{
	return op == OP_LINEAR      ? &kernel_linear_cuda
	       : op == OP_LINEAR_DX ? &kernel_linear_dx_cuda
	       : op == OP_LINEAR_DW ? &kernel_linear_dw_cuda
	                            : &kernel_matmul_cuda;
}

/* The largest difference in output `o` over the largest value. INFINITY if an element is NaN, or if an element between rows was written. */
static double error_of(const struct call *got, const struct call *want, int o)
{
	const struct array *a = &got->m[o].a, *b = &want->m[o].a;
	int64_t rows = a->rank == 1 ? 1 : a->shape[a->rank - 2], cols = a->shape[a->rank - 1], count = a->rank == 3 ? a->shape[0] : 1, numbers = 0;
	double top = 1e-30, worst = 0;

	for (int64_t i = 0; i < count; i++)
		for (int64_t r = 0; r < rows; r++)
			for (int64_t c = 0; c < cols; c++) {
				double x = (double)element_get(a, element_at(a, i, r, c)), y = (double)element_get(b, element_at(b, i, r, c));

				worst = isnan(x) ? INFINITY : fmax(worst, fabs(x - y));
				top = fmax(top, fabs(y));
			}
	for (int64_t i = 0; i < got->m[o].elements; i++) {
		struct array whole = *a;

		whole.data = got->m[o].memory;
		numbers += !isnan(element_get(&whole, i));
	}
	return numbers == count * rows * cols ? worst / top : INFINITY;
}

/* The tolerance. Float: the order of sums differs. bfloat16: outputs are rounded, and so is the product if the library has no epilogue. */
static double allowed(enum dtype type)
{
	return 4e-6 + (type == DT_BF16 ? 0x1p-8 + 0x1p-6 : 0);
}

/* Run a test in one type with each algorithm: 0 is the chosen one, i the i-th candidate. */
static void product_in(const struct product_test *t, enum dtype type, int algorithms, float *const v[4], const struct call *want)
{
	struct call got = call_new(t, type, v);
	size_t need = kernel_of(t->op)->scratch ? kernel_of(t->op)->scratch(&got.c, 1) : 0;

	got.c.scratch = mem_zalloc(need + 1, 1);
	for (int algorithm = 0; algorithm <= algorithms; algorithm++) {
		if (gpu->cublaslt)
			cublaslt_force(gpu->cublaslt, algorithm);
		outputs_spoil(&got);
		remote_run(kernel_of(t->op), &got.c);
		for (int o = got.outputs; o < got.count; o++) {
			double error = error_of(&got, want, o);

			if (!(error <= allowed(type)))
				fail_msg("%s, %s, algorithm %d, output %d: error %.3g of the largest value, %.3g allowed", t->name,
				         type == DT_BF16 ? "bfloat16" : "float", algorithm, o - got.outputs, error, allowed(type));
		}
	}
	if (gpu->cublaslt)
		cublaslt_force(gpu->cublaslt, 0);
	mem_free(got.c.scratch);
	call_release(&got);
}

static void product_test(const struct product_test *t, int algorithms)
{
	int64_t a = t->batch * t->m * t->k, b = t->batch * t->n * t->k;
	float *v[4] = {values_new(a, 1, 1), values_new(b, .05f, 2), values_new(t->n, 1, 3), values_new(t->m * t->n, 1, 4)};
	struct call want = call_new(t, DT_F32, v);
	size_t need = device_scratch(cpu, t->op, &want.c);
	void *scratch = mem_zalloc(need + 1, 1);

	device_run(cpu, t->op, &want.c, scratch);
	product_in(t, DT_F32, algorithms, v, &want);
	product_in(t, DT_BF16, algorithms, v, &want);
	mem_free(scratch);
	call_release(&want);
	for (int i = 0; i < 4; i++)
		mem_free(v[i]);
}

static void products_run(int algorithms)
{
	for (int i = 0; i < TESTS; i++)
		if (!tests_of_products[i].large || (gpu->cublaslt && !remote_small()))
			product_test(&tests_of_products[i], algorithms);
}

static void as_chosen(void **state)
{
	(void)state;
	products_run(0);
}

static void every_algorithm(void **state)
{
	(void)state;
	if (!gpu->cublaslt) {
		printf("# needs cuBLASLt\n");
		skip();
	}
	products_run(CUBLASLT_CANDIDATES);
}

static void by_our_own(void **state)
{
	(void)state;
	device_set_invariant(gpu, 1);
	products_run(0);
	device_set_invariant(gpu, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(as_chosen), cmocka_unit_test(every_algorithm), cmocka_unit_test(by_our_own)};
	struct err e = {0};
	int rc;

	if (!(gpu = remote_open(NULL, &e))) {
		printf("1..1\nok 1 - test_products # SKIP needs cuda: %s\n", e.msg);
		return 0;
	}
	cpu = device_cpu(NULL, DT_F32);
	remote_use(gpu);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	device_free(cpu);
	device_free(gpu);
	return rc;
}
