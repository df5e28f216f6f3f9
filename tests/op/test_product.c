/* LINEAR, LINEAR_DX, LINEAR_DW and MATMUL of the CUDA device on the host: our own kernel with tests/op/emulate.h, and the calls of cuBLASLt on a
 * fake, both against the CPU's kernels. Sums of K products: 4e-6 of the largest value, as on the CPU. bfloat16 represents the inputs exactly, so
 * rounding weights to it changes nothing here. */
#include "tests/op/optest.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/shortfloat.h"
#include "kernels/gemm.h"
#include "tests/op/fakelt.h"

#define KERNELS(X) X(linear) X(linear_dx) X(linear_dw) X(matmul) X(conv)

static struct device device; /* with the fake */
static _Alignas(CUBLASLT_ALIGN) float room[1 << 20];

#define X(fn) \
	extern const struct kernel kernel_##fn##_cuda; \
	static void fn##_lt_run(const struct op_call *c) \
	{ \
		struct op_call d = *c; \
		d.device = &device; \
		kernel_##fn##_cuda.run(&d); \
	} \
	static size_t fn##_lt_scratch(const struct op_call *c, int workers) \
	{ \
		return kernel_##fn##_cuda.scratch(c, workers); \
	} \
	static const struct kernel fn##_lt = {fn##_lt_run, fn##_lt_scratch};
KERNELS(X)
#undef X

static void begin(void)
{
	device.cublaslt = fake_open();
}

static void end(void)
{
	fake_close(device.cublaslt);
	device.cublaslt = NULL;
}

static const int64_t shapes[][3] = {
    /* M, N, K */
    {1, 1, 1}, {7, 64, 129}, {64, 7, 1}, {129, 65, 20}, {3, 128, 400}, {70, 9, 11}, {1, 40, 7}, {16, 1, 33},
};

enum { SHAPES = sizeof shapes / sizeof *shapes, TOLERANCE = 4 /* millionths */ };

static void both(const struct optest *t, const struct kernel *own, const struct kernel *lt)
{
	optest_twin(t, own, TOLERANCE * 1e-6);
	optest_twin(t, lt, TOLERANCE * 1e-6);
}

static void linear_twin(const int64_t s[3], int act, int bias, int pre, int master, const struct kernel *twin)
{
	struct operand x = {.rank = 2, .shape = {s[0], s[2]}}, w = {.rank = 2, .shape = {s[1], s[2]}, .dense = 1, .scale = .1, .exact = master};
	struct operand v = {.rank = 1, .shape = {s[1]}, .exact = master}, y = {.rank = 2, .shape = {s[0], s[1]}};
	struct optest t = {.name = "LINEAR", .op = OP_LINEAR, .attr.linear = {act}, .nin = 3, .nout = 2, .in = {x, w}, .out = {y}};

	if (bias)
		t.in[2] = v;
	if (pre)
		t.out[1] = y;
	if (twin != &kernel_linear_cuda)
		t.tol16 = 0x1p-6; /* without an epilogue of the library the products are rounded too, and may be larger than the results */
	optest_twin(&t, twin, TOLERANCE * 1e-6);
}

static void linear_of(const int64_t s[3], int act, int bias, int pre, int master)
{
	linear_twin(s, act, bias, pre, master, &kernel_linear_cuda);
	linear_twin(s, act, bias, pre, master, &linear_lt);
}

static void forward(void **state)
{
	static const int acts[] = {0, 1 + UNARY_GELU_TANH, 1 + UNARY_SILU, 1 + UNARY_GELU_ERF, 1 + UNARY_RELU, 1 + UNARY_TANH};
	static const int epilogues[] = {LT_EPILOGUE_DEFAULT,
	                                LT_EPILOGUE_BIAS,
	                                LT_EPILOGUE_GELU,
	                                LT_EPILOGUE_GELU | LT_EPILOGUE_BIAS,
	                                LT_EPILOGUE_GELU | LT_EPILOGUE_AUX,
	                                LT_EPILOGUE_GELU | LT_EPILOGUE_BIAS | LT_EPILOGUE_AUX};

	(void)state;
	begin();
	for (int s = 0; s < SHAPES; s++)
		for (int a = 0; a < (int)(sizeof acts / sizeof *acts); a++)
			for (int k = 0; k < (a > 1 ? 1 : 4); k++)
				linear_of(shapes[s], acts[a], a > 1 ? s & 1 : k & 1, a > 1 ? s >> 1 & 1 : k >> 1, (s + k) & 1);
	for (size_t i = 0; i < sizeof epilogues / sizeof *epilogues; i++)
		assert_true(fake.seen[epilogues[i]] > 0);
	end();
}

static void gradients(void **state)
{
	(void)state;
	begin();
	for (int s = 0; s < SHAPES; s++)
		for (int k = 0; k < 4; k++) {
			const int64_t *n = shapes[s];
			int master = k & 1;
			struct operand dy = {.rank = 2, .shape = {n[0], n[1]}}, x = {.rank = 2, .shape = {n[0], n[2]}};
			struct operand w = {.rank = 2, .shape = {n[1], n[2]}, .dense = 1, .exact = master};
			struct optest dx = {.name = "LINEAR_DX", .op = OP_LINEAR_DX, .nin = 2, .nout = 1, .in = {dy, w}, .out = {x}};
			struct optest dw = {.name = "LINEAR_DW", .op = OP_LINEAR_DW, .nin = 2, .nout = 2, .in = {dy, x}, .out = {w}};

			if (k >> 1)
				dw.out[1] = (struct operand){.rank = 1, .shape = {n[1]}, .exact = master};
			both(&dx, &kernel_linear_dx_cuda, &linear_dx_lt);
			both(&dw, &kernel_linear_dw_cuda, &linear_dw_lt);
		}
	assert_true(fake.seen[LT_EPILOGUE_BGRADB] > 0);
	end();
}

static void slope_of(const int64_t n[3], int act, int master)
{
	struct operand dy = {.rank = 2, .shape = {n[0], n[1]}}, x = {.rank = 2, .shape = {n[0], n[2]}};
	struct operand w = {.rank = 2, .shape = {n[1], n[2]}, .dense = 1, .exact = master};
	struct optest dx = {.name = "LINEAR_DX", .op = OP_LINEAR_DX, .attr.linear = {act}, .nin = 3, .nout = 1, .in = {dy, w, x}, .out = {x}};

	optest_twin(&dx, &kernel_linear_dx_cuda, TOLERANCE * 1e-6);
	dx.tol16 = 0x1p-6; /* without an epilogue the product is rounded too, and may be larger than the result */
	optest_twin(&dx, &linear_dx_lt, TOLERANCE * 1e-6);
}

/* The product times the derivative of an activation: in the library's epilogue, in our own pass beside its product, and by our own kernel. */
static void slopes(void **state)
{
	static const int64_t whole[] = {20, 24, 40};

	(void)state;
	for (int refuse = 0; refuse < 3; refuse++) {
		begin();
		fake.refuse = refuse == 0 ? 0 : refuse == 1 ? LT_EPILOGUE_DGELU : ~0;
		for (int act = 1; act <= UNARY_COUNT; act++) {
			slope_of(whole, act, act & 1);
			for (int s = 0; act == 1 + UNARY_GELU_TANH && s < SHAPES; s++)
				slope_of(shapes[s], act, s & 1);
		}
		assert_int_equal(fake.seen[LT_EPILOGUE_DGELU] > 0, refuse == 0);
		assert_int_equal(fake.seen[LT_EPILOGUE_DEFAULT] > 0, refuse < 2);
		end();
	}
}

/* Our own passes, which are used without the library's epilogues and if the output has another type than db. Enough rows for two strips. */
static void own_epilogues(void **state)
{
	static const int64_t n[] = {20, 24, 40};
	struct operand dy = {.rank = 2, .shape = {600, 5}}, x = {.rank = 2, .shape = {600, 3}}, w = {.rank = 2, .shape = {5, 3}, .dense = 1};
	struct operand db = {.rank = 1, .shape = {5}, .exact = 1};
	struct optest dw = {.name = "LINEAR_DW", .op = OP_LINEAR_DW, .nin = 2, .nout = 2, .in = {dy, x}, .out = {w, db}};

	(void)state;
	begin();
	optest_twin(&dw, &linear_dw_lt, TOLERANCE * 1e-6);
	assert_true(fake.seen[LT_EPILOGUE_DEFAULT] > 0 && fake.seen[LT_EPILOGUE_BGRADB] > 0);
	end();
	begin();
	fake.refuse = ~LT_EPILOGUE_DEFAULT;
	optest_twin(&dw, &linear_dw_lt, TOLERANCE * 1e-6);
	for (int k = 0; k < 8; k++)
		linear_of(n, k & 4 ? 1 + UNARY_GELU_TANH : 0, k & 1, k >> 1 & 1, 0);
	assert_int_equal(fake.ran, fake.seen[LT_EPILOGUE_DEFAULT]);
	assert_true(fake.ran > 0);
	end();
	begin();
	fake.refuse = ~0; /* our own kernel does everything */
	linear_of(n, 1 + UNARY_GELU_TANH, 1, 1, 1);
	optest_twin(&dw, &linear_dw_lt, TOLERANCE * 1e-6);
	assert_int_equal(fake.ran, 0);
	end();
}

/* Column sums of small integers are exact in any order: whole packs and not, several strips, rows that do not divide among the warps. */
static void column_sums(void **state)
{
	static const int64_t sizes[][3] = {/* rows, columns, columns of memory */
	                                   {1, 8, 8},     {9, 264, 264},    {37, 256, 272}, {257, 40, 40},
	                                   {700, 24, 27}, {1031, 520, 520}, {18001, 8, 16}, {530, 13, 16}};

	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (int half = 0; half < 2; half++) {
			int64_t rows = sizes[i][0], cols = sizes[i][1], ld = sizes[i][2];
			struct array a = {.dtype = half ? DT_BF16 : DT_F32, .rank = 2, .shape = {rows, cols}, .stride = {ld, 1}};
			size_t size = dtype_size(a.dtype);
			char *v = mem_try((size_t)(rows * ld), size, "values", NULL);
			double *want = mem_zalloc((size_t)cols, sizeof *want);
			float *got = mem_zalloc((size_t)cols, sizeof *got);
			struct product p = {.ta = 1, .m = cols, .n = 1, .k = rows, .count = 1, .a = {v, a.dtype, ld, 0}, .sums = {got, DT_F32}};
			struct op_call c = {.nin = 1, .in = {a}};
			void *scratch = mem_try(product_sums_scratch(&p), 1, "scratch", NULL);

			memset(v, 0xff, (size_t)(rows * ld) * size); /* NaN between the rows */
			for (int64_t k = 0; k < rows * cols; k++) {
				float x = (float)(k * 7 % 31 - 15);
				int64_t at = k / cols * ld + k % cols;

				want[k % cols] += (double)x;
				if (half)
					((uint16_t *)(void *)v)[at] = f32_to_bf16(x);
				else
					((float *)(void *)v)[at] = x;
			}
			memset(got, 0xff, (size_t)cols * sizeof *got);
			memset(scratch, 0xff, product_sums_scratch(&p));
			product_sums(&c, &p, scratch);
			for (int64_t k = 0; k < cols; k++)
				assert_true((double)got[k] == want[k]);
			mem_free(v);
			mem_free(want);
			mem_free(got);
			mem_free(scratch);
		}
}

static void products(void **state)
{
	static const struct {
		int batch_rank;
		int64_t g[3], m, n, k;
		unsigned bcast;
	} cases[] = {
	    {0, {0}, 5, 7, 3, 0},     {0, {0}, 1, 1, 1, 0},    {0, {0}, 129, 64, 7, 0},    {1, {3}, 5, 7, 11, 0},      {2, {3, 4}, 6, 5, 19, 0},
	    {2, {3, 4}, 6, 5, 19, 1}, {2, {2, 2}, 3, 1, 8, 2}, {3, {2, 3, 2}, 4, 5, 6, 4}, {3, {2, 3, 2}, 4, 5, 6, 5}, {0, {0}, 3, 4, 500, 0},
	};

	(void)state;
	begin();
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
		for (int trans = 0; trans < 4; trans++)
			for (int zero = 0; zero < 2; zero++) {
				struct optest t = {
				    .name = "MATMUL", .op = OP_MATMUL, .attr.matmul = {trans & 1, trans >> 1, zero ? 0 : .5}, .nin = 2, .nout = 1};
				int r = cases[k].batch_rank;

				t.in[0].rank = t.in[1].rank = t.out[0].rank = r + 2;
				for (int d = 0; d < r; d++)
					t.in[0].shape[d] = t.in[1].shape[d] = t.out[0].shape[d] = cases[k].g[d];
				t.in[0].shape[r + (trans & 1)] = t.out[0].shape[r] = cases[k].m;
				t.in[0].shape[r + !(trans & 1)] = t.in[1].shape[r + (trans >> 1)] = cases[k].k;
				t.in[1].shape[r + !(trans >> 1)] = t.out[0].shape[r + 1] = cases[k].n;
				t.in[1].bcast = cases[k].bcast;
				both(&t, &kernel_matmul_cuda, &matmul_lt);
			}
	assert_true(fake.ran > 0);
	end();
}

/* Chunks of K are each summed in order with fused products, then the chunks are added in order, so the bits are equal. Also with one row broadcast to
 * all. */
static void order_of_sums(void **state)
{
	enum { M = 66, N = 3, K = 2 * GEMM_KC + 21 };
	float *a = mem_alloc(M * K * sizeof *a), b[N * K], c[M * N];

	(void)state;
	for (int i = 0; i < M * K; i++)
		a[i] = sinf((float)i);
	for (int i = 0; i < N * K; i++)
		b[i] = cosf(1.3f * (float)i);
	for (int same = 0; same < 2; same++) {
		struct op_call call = {.nin = 2, .nout = 1};

		call.in[0] = (struct array){a, DT_F32, 2, {M, K}, {same ? 0 : K, 1}};
		call.in[1] = (struct array){b, DT_F32, 2, {N, K}, {K, 1}};
		call.out[0] = (struct array){c, DT_F32, 2, {M, N}, {N, 1}};
		kernel_linear_cuda.run(&call);
		for (int i = 0; i < M; i++)
			for (int j = 0; j < N; j++) {
				float total = 0;

				for (int k = 0, next; k < K; k = next) {
					float part = 0;

					for (next = k; next < K && next < k + GEMM_KC; next++)
						part = fmaf(a[(same ? 0 : i) * K + next], b[j * K + next], part);
					total += part;
				}
				assert_true(c[i * N + j] == total);
			}
	}
	mem_free(a);
}

/* y and its pre-activation with different row strides. */
static void rows_apart(void **state)
{
	enum { M = 3, N = 8, K = 5, LD = 11, LDPRE = 16 };
	float x[M * K], w[N * K], y[M * LD], pre[M * LDPRE];
	struct op_call c = {.nin = 2, .nout = 2, .attr.linear = {1 + UNARY_GELU_TANH}};

	(void)state;
	begin();
	for (int i = 0; i < N * K; i++)
		w[i] = cosf((float)i);
	for (int i = 0; i < M * K; i++)
		x[i] = sinf((float)i);
	c.in[0] = (struct array){x, DT_F32, 2, {M, K}, {K, 1}};
	c.in[1] = (struct array){w, DT_F32, 2, {N, K}, {K, 1}};
	c.out[0] = (struct array){y, DT_F32, 2, {M, N}, {LD, 1}};
	c.out[1] = (struct array){pre, DT_F32, 2, {M, N}, {LDPRE, 1}};
	c.scratch = room + 16; /* aligned to 64 bytes, as a tape's scratch */
	assert_true(linear_lt.scratch(&c, 1) <= sizeof room - 64);
	for (int lt = 0; lt < 3; lt++) {
		cublaslt_allow_tf32(device.cublaslt, lt == 2);
		memset(y, 0xff, sizeof y);
		memset(pre, 0xff, sizeof pre);
		(lt ? &linear_lt : &kernel_linear_cuda)->run(&c);
		for (int i = 0; i < M * N; i++) {
			double z = 0, got = (double)pre[i / N * LDPRE + i % N];

			for (int k = 0; k < K; k++)
				z += (double)x[i / N * K + k] * (double)w[i % N * K + k];
			assert_true(fabs(got - z) < 1e-6);
			z = .5 * z * (1 + tanh(sqrt(2 / M_PI) * (z + .044715 * z * z * z)));
			assert_true(fabs((double)y[i / N * LD + i % N] - z) < 1e-6);
		}
		assert_true(isnan(y[N]) && isnan(pre[N]));
	}
	/* The library's GELU is used in bfloat16, but not in float. */
	assert_int_equal(fake.seen[LT_EPILOGUE_DEFAULT], 1);
	assert_int_equal(fake.seen[LT_EPILOGUE_GELU | LT_EPILOGUE_AUX], 1);
	end();
}

enum { MOST_ROWS = 70, MOST_N = 130, MOST_K = 40 };

union values {
	float f[MOST_ROWS * MOST_N];
	uint16_t half[2 * MOST_ROWS * MOST_N];
	char byte[4 * MOST_ROWS * MOST_N];
};

/* Rows of x, and in y the device's results for some of them, in float or bfloat16. */
struct batch {
	enum op op;
	enum dtype type;
	int64_t n, k;
	union values x, w, y;
};

static void values_fill(union values *v, enum dtype type, int64_t n, int64_t step)
{
	for (int64_t i = 0; i < n; i++) {
		float x = sinf((float)(i * i * step % 9973));

		if (type == DT_BF16)
			v->half[i] = f32_to_bf16(x);
		else
			v->f[i] = x;
	}
}

/* LINEAR; CONV on a picture that is as wide as there are rows; MATMUL with as many products of 1 row. */
static void batch_run(struct batch *b, int64_t first, int64_t rows)
{
	int64_t n = b->n, k = b->k, each = b->op == OP_MATMUL ? 1 : rows, outer = b->op == OP_MATMUL ? rows : 1;
	float bias[MOST_N];
	struct op_call c = {.nin = 3, .nout = 1, .scratch = room};
	char *x = b->x.byte + (size_t)(first * k) * dtype_size(b->type);

	for (int i = 0; i < MOST_N; i++)
		bias[i] = .01f * (float)i;
	memset(&b->y, 0xff, sizeof b->y);
	c.in[0] = (struct array){x, b->type, 4, {1, outer, each, k}, {rows * k, each * k, k, 1}};
	c.in[1] = (struct array){&b->w, b->type, 4, {n, 1, 1, k}, {k, k, k, 1}};
	c.in[2] = array_vector(DT_F32, bias, n);
	c.out[0] = (struct array){&b->y, b->type, 4, {1, outer, each, n}, {rows * n, each * n, n, 1}};
	if (b->op == OP_LINEAR) {
		c.attr.linear.act = 1 + UNARY_GELU_TANH;
		c.in[1] = (struct array){&b->w, b->type, 2, {n, k}, {k, 1}};
		linear_lt.run(&c);
	} else if (b->op == OP_CONV) {
		c.attr.conv.act = 1 + UNARY_GELU_TANH;
		c.attr.conv.stride = 1;
		conv_lt.run(&c);
	} else {
		c.nin = 2;
		c.attr = (struct op_attr){.matmul = {0, 1, 1}};
		c.in[1] = (struct array){&b->w, b->type, 4, {1, outer, n, k}, {0, 0, k, 1}};
		matmul_lt.run(&c);
	}
}

/* The number of batches whose bytes differ from those of the same rows among all rows. */
static int batches_that_differ(struct batch *b)
{
	static const int64_t cuts[][2] = {{0, 1}, {67, 3}, {5, 33}, {1, 65}};
	size_t row = (size_t)b->n * dtype_size(b->type);
	static union values all;
	int differ = 0;

	values_fill(&b->x, b->type, MOST_ROWS * b->k, 1);
	values_fill(&b->w, b->type, b->n * b->k, 7);
	batch_run(b, 0, MOST_ROWS);
	all = b->y;
	for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
		batch_run(b, cuts[i][0], cuts[i][1]);
		differ += memcmp(&b->y, all.byte + (size_t)cuts[i][0] * row, (size_t)cuts[i][1] * row) != 0;
	}
	return differ;
}

/* On an `invariant` device a row has the same bytes in any batch. The library, whose algorithm here depends on the number of rows, is not used. */
static void any_batch(void **state)
{
	static const enum op ops[] = {OP_LINEAR, OP_CONV, OP_MATMUL};
	static const int64_t sizes[][2] = {{7, 5}, {130, 40}};
	static struct batch b;

	(void)state;
	for (int o = 0; o < 3; o++)
		for (int s = 0; s < (ops[o] == OP_LINEAR ? 4 : 2); s++) {
			b.op = ops[o];
			b.type = s & 1 ? DT_BF16 : DT_F32;
			b.n = sizes[s / 2][0];
			b.k = sizes[s / 2][1];
			begin();
			fake.varies = 1;
			if (b.op != OP_MATMUL && b.type == DT_F32)
				assert_true(batches_that_differ(&b) > 0 && fake.ran > 0);
			fake.ran = fake.asked = 0;
			device_set_invariant(&device, 1);
			assert_int_equal(batches_that_differ(&b), 0);
			assert_int_equal(fake.ran + fake.asked, 0);
			device_set_invariant(&device, 0);
			end();
		}
}

/* product_pixels, which is used then, against the CPU's product. */
static void pixels(void **state)
{
	static const int acts[] = {0, 1 + UNARY_GELU_TANH, 1 + UNARY_SILU, 1 + UNARY_TANH};

	(void)state;
	begin();
	device_set_invariant(&device, 1);
	for (int s = 0; s < SHAPES; s++)
		linear_twin(shapes[s], acts[s % 4], s & 1, s >> 1 & 1, s >> 2 & 1, &linear_lt);
	linear_twin((const int64_t[3]){5, 6, 0}, 0, 1, 0, 0, &linear_lt);
	assert_int_equal(fake.ran, 0);
	device_set_invariant(&device, 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(forward),     cmocka_unit_test(gradients), cmocka_unit_test(slopes),        cmocka_unit_test(own_epilogues),
	    cmocka_unit_test(column_sums), cmocka_unit_test(products),  cmocka_unit_test(order_of_sums), cmocka_unit_test(rows_apart),
	    cmocka_unit_test(any_batch),   cmocka_unit_test(pixels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
