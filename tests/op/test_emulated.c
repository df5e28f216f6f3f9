/* The CUDA kernels, run with tests/op/emulate.h, against the CPU's. With the same roundings the bits must be equal. Sums in another order are tested
 * on small integers, where they are exact. The host's expf and erfcf stand in for the device's. */
#include "tests/op/optest.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/shortfloat.h"
#include "kernels/flavour.h"
#include "kernels/optimizer.h"

/* clang-format off */
#define KERNELS(X) \
	X(copy) X(fill) X(add) X(mul) X(unary) X(unary_grad) X(qsample) X(noise) X(dropout) X(sumsq) X(total) X(rates) X(adamw) \
	X(schedule_free) X(muon_momentum) X(muon_unit) X(muon_apply) \
	X(softmax) X(softmax_grad) X(xent) X(xent_grad) X(xent_soft) X(xent_soft_grad) X(mse) X(mse_grad) X(embed) X(embed_grad) X(timestep) X(rotary) \
	X(mix) X(guide) X(convert) X(combine) X(advance)
/* clang-format on */
#define X(fn) extern const struct kernel kernel_##fn##_cuda;
KERNELS(X)
#undef X

static const struct operand shapes[] = {
    {.rank = 1, .shape = {1}, .batch = 1},          {.rank = 1, .shape = {5}, .batch = 1},
    {.rank = 1, .shape = {4096}, .batch = 1},       {.rank = 2, .shape = {3, 16}, .batch = 1},
    {.rank = 2, .shape = {7, 33}, .batch = 1},      {.rank = 3, .shape = {2, 3, 40}, .batch = 1},
    {.rank = 4, .shape = {2, 3, 4, 8}, .batch = 1}, {.rank = 6, .shape = {2, 1, 3, 2, 1, 5}, .batch = 1},
    {.rank = 2, .shape = {3, 700}, .batch = 1},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static void elementwise(void **state)
{
	(void)state;
	for (int s = 0; s < SHAPES; s++)
		for (unsigned bcast = 0; bcast < 4; bcast++) {
			struct operand x = shapes[s], b = x;
			struct optest add = {.name = "ADD",
			                     .op = OP_ADD,
			                     .attr.add = {1.25, -.5},
			                     .nin = 2,
			                     .nout = 1,
			                     .in = {x, x},
			                     .out = {x},
			                     .in_place = 1,
			                     .samples = 1};
			struct optest mul = {.name = "MUL", .op = OP_MUL, .nin = 2, .nout = 1, .in = {x, x}, .out = {x}, .in_place = 1, .samples = 1};

			b.bcast = bcast & 1 ? 1u : 0;
			b.bcast |= bcast & 2 ? 1u << (x.rank - 1) : 0;
			add.in[1] = mul.in[1] = b;
			optest_twin(&add, &kernel_add_cuda, 1.2e-7);
			optest_twin(&mul, &kernel_mul_cuda, 0);
		}
}

static void functions(void **state)
{
	(void)state;
	for (int u = 0; u < UNARY_COUNT; u++)
		for (int s = 0; s < SHAPES; s++) {
			struct operand x = shapes[s];
			struct optest f = {.name = "UNARY",
			                   .op = OP_UNARY,
			                   .attr.unary = {u},
			                   .nin = 1,
			                   .nout = 1,
			                   .in = {x},
			                   .out = {x},
			                   .in_place = 1,
			                   .samples = 1};
			struct optest g = {.name = "UNARY_GRAD",
			                   .op = OP_UNARY_GRAD,
			                   .attr.unary = {u},
			                   .nin = 2,
			                   .nout = 1,
			                   .in = {x, x},
			                   .out = {x},
			                   .in_place = 1,
			                   .samples = 1};

			optest_twin(&f, &kernel_unary_cuda, 1e-6);
			optest_twin(&g, &kernel_unary_grad_cuda, 1e-6);
		}
}

static void copies(void **state)
{
	(void)state;
	for (int s = 0; s < SHAPES; s++)
		for (unsigned bcast = 0; bcast < 2; bcast++) {
			struct operand x = shapes[s], y = x;
			struct optest copy = {.name = "COPY", .op = OP_COPY, .nin = 1, .nout = 1, .samples = 1};
			struct optest fill = {.name = "FILL", .op = OP_FILL, .attr.fill = {1.25}, .nout = 1, .samples = 1};

			x.free = y.free = 1;
			x.bcast = bcast;
			copy.in[0] = x;
			copy.out[0] = fill.out[0] = y;
			optest_twin(&copy, &kernel_copy_cuda, 0);
			optest_twin(&fill, &kernel_fill_cuda, 0);
			copy.in[0].free = 0; /* transposed */
			optest_twin(&copy, &kernel_copy_cuda, 0);
		}
}

static void draws(void **state)
{
	(void)state;
	for (int s = 0; s < SHAPES; s++) {
		struct operand x = shapes[s], v = {.rank = 1, .shape = {x.shape[0]}, .exact = 1, .batch = 1};
		struct optest noise = {.name = "NOISE", .op = OP_NOISE, .nout = 1, .samples = 1};
		struct optest drop = {.name = "DROPOUT",
		                      .op = OP_DROPOUT,
		                      .attr.dropout = {1 << 24, .3},
		                      .nin = 1,
		                      .nout = 1,
		                      .in = {x},
		                      .out = {x},
		                      .in_place = 1,
		                      .samples = 1};
		struct optest mix = {.name = "QSAMPLE", .op = OP_QSAMPLE, .nin = 4, .nout = 1, .samples = 1};

		optest_twin(&drop, &kernel_dropout_cuda, 0);
		drop.no_dropout = 1;
		optest_twin(&drop, &kernel_dropout_cuda, 0);
		x.dense = 1;
		noise.out[0] = mix.in[0] = mix.in[1] = mix.out[0] = x;
		mix.in[2] = mix.in[3] = v;
		optest_twin(&noise, &kernel_noise_cuda, 0);
		optest_twin(&mix, &kernel_qsample_cuda, 0);
	}
}

/* Rows of whole packs and others; a table for each sample, or one for all. */
static void rotary(void **state)
{
	static const int64_t widths[] = {2, 6, 16, 32, 48, 64};

	(void)state;
	for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
		for (int way = 0; way < 8; way++) {
			struct operand x = {.rank = 4, .shape = {2, 5, 3, widths[w]}, .batch = 1}, table = x;
			struct optest turn = {.name = "ROTARY",
			                      .op = OP_ROTARY,
			                      .attr.rotary = {way & 1 ? ROTARY_HALVES : ROTARY_ADJACENT, way >> 1 & 1},
			                      .nin = 3,
			                      .nout = 1,
			                      .in_place = 1,
			                      .samples = 1};

			table.shape[3] /= 2;
			table.bcast = way & 4 ? 5 : 4;
			table.batch = !(way & 4);
			turn.in[0] = turn.out[0] = x;
			turn.in[1] = turn.in[2] = table;
			optest_twin(&turn, &kernel_rotary_cuda, 0);
		}
}

static void softmax(void **state)
{
	static const int64_t sizes[][2] = {{1, 1}, {3, 8}, {5, 257}, {2, 1000}};

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		struct operand x = {.rank = 2, .shape = {sizes[s][0], sizes[s][1]}, .scale = 3, .batch = 1};
		struct operand v = {.rank = 1, .shape = {x.shape[0]}, .exact = 1, .batch = 1}, l = v;
		struct optest f = {.name = "SOFTMAX", .op = OP_SOFTMAX, .nin = 1, .nout = 1, .in = {x}, .out = {x}, .samples = 1};
		struct optest g = {.name = "SOFTMAX_GRAD", .op = OP_SOFTMAX_GRAD, .nin = 2, .nout = 1, .in = {x, x}, .out = {x}, .samples = 1};
		struct optest e = {.name = "XENT", .op = OP_XENT, .nin = 2, .nout = 1, .in = {x, l}, .out = {v}, .samples = 1};
		struct optest h = {.name = "XENT_GRAD", .op = OP_XENT_GRAD, .nin = 3, .nout = 1, .in = {v, x, l}, .out = {x}, .samples = 1};

		struct operand target = {.rank = 2, .shape = {sizes[s][0], sizes[s][1]}, .scale = .2, .shift = .5, .exact = 1, .batch = 1};
		struct optest soft = {.name = "XENT_SOFT", .op = OP_XENT_SOFT, .nin = 2, .nout = 1, .in = {x, target}, .out = {v}, .samples = 1};
		struct optest soft_grad = {
		    .name = "XENT_SOFT_GRAD", .op = OP_XENT_SOFT_GRAD, .nin = 3, .nout = 1, .in = {v, x, target}, .out = {x}, .samples = 1};

		e.in[1].limit = h.in[2].limit = (int)x.shape[1];
		optest_twin(&f, &kernel_softmax_cuda, 1e-6);
		optest_twin(&g, &kernel_softmax_grad_cuda, 3e-6);
		optest_twin(&e, &kernel_xent_cuda, 1e-6);
		optest_twin(&h, &kernel_xent_grad_cuda, 1e-6);
		optest_twin(&soft, &kernel_xent_soft_cuda, 1e-6);
		optest_twin(&soft_grad, &kernel_xent_soft_grad_cuda, 1e-6);
	}
}

static void squared_error(void **state)
{
	(void)state;
	for (int s = 0; s < SHAPES; s++)
		for (int weighted = 0; weighted < 2 && shapes[s].shape[0] < 100; weighted++) {
			struct operand x = shapes[s], v = {.rank = 1, .shape = {x.shape[0]}, .exact = 1, .batch = 1}, w = v;
			struct optest f = {.name = "MSE", .op = OP_MSE, .nin = 3, .nout = 1, .out = {v}, .samples = 1};
			struct optest g = {.name = "MSE_GRAD", .op = OP_MSE_GRAD, .nin = 4, .nout = 1, .in = {v}, .samples = 1};

			x.dense = 1;
			if (!weighted)
				w.rank = 0;
			f.in[0] = f.in[1] = g.in[1] = g.in[2] = g.out[0] = x;
			f.in[2] = g.in[3] = w;
			optest_twin(&f, &kernel_mse_cuda, 1e-6);
			optest_twin(&g, &kernel_mse_grad_cuda, 3e-7);
		}
}

static void tables(void **state)
{
	static const int64_t sizes[][3] = {{1, 1, 1}, {9, 5, 24}, {20, 3, 301}};

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		int64_t rows = sizes[s][0], entries = sizes[s][1], cols = sizes[s][2];
		struct operand index = {.rank = 1, .shape = {rows}, .limit = (int)entries, .batch = 1};
		struct operand y = {.rank = 2, .shape = {rows, cols}, .batch = 1}, waves = {.rank = 2, .shape = {rows, 2 * cols}, .batch = 1};
		struct operand table = {.rank = 2, .shape = {entries, cols}, .exact = 1}, t = {.rank = 1, .shape = {rows}, .exact = 1, .batch = 1};
		struct optest f = {.name = "EMBED", .op = OP_EMBED, .nin = 2, .nout = 1, .in = {table, index}, .out = {y}, .samples = 1};
		struct optest g = {.name = "EMBED_GRAD", .op = OP_EMBED_GRAD, .nin = 2, .nout = 1, .in = {y, index}, .out = {table}};
		struct optest w = {.name = "TIMESTEP",
		                   .op = OP_TIMESTEP,
		                   .attr.timestep = {10000, 1000},
		                   .nin = 1,
		                   .nout = 1,
		                   .in = {t},
		                   .out = {waves},
		                   .samples = 1};

		optest_twin(&f, &kernel_embed_cuda, 0);
		optest_twin(&g, &kernel_embed_grad_cuda, 0);
		optest_twin(&w, &kernel_timestep_cuda, 1e-6);
	}
}

enum { BEYOND = 256 }; /* rows after those of the op, which it must not touch */

/* index [B, 2], of which column 0 is used; dy [B, C + 3] and dtable [V, C + 1], of which C columns are used. */
static void grad_by(const struct kernel *k, const int64_t size[3], int32_t *index, float *dy, float *table)
{
	struct op_call c = {.nin = 2,
	                    .nout = 1,
	                    .in = {{.rank = 2, .dtype = DT_F32, .data = dy, .shape = {size[0], size[2]}, .stride = {size[2] + 3, 1}},
	                           {.rank = 1, .dtype = DT_I32, .data = index, .shape = {size[0]}, .stride = {2}}},
	                    .out = {{.rank = 2, .dtype = DT_F32, .data = table, .shape = {size[1], size[2]}, .stride = {size[2] + 1, 1}}}};

	memset(table, 0xff, (size_t)(size[1] * (size[2] + 1)) * sizeof *table);
	optest_call(k, &c);
}

/* Both devices add rows in the order of b, so the bits are equal, on values whose sum depends on the order. Either one entry gets all rows, or every
 * entry some and the last none. */
static void table_gradients(void **state)
{
	static const int64_t sizes[][3] = {{1, 1, 1}, {33, 4, 255}, {256, 7, 1152}, {257, 3, 1025}, {600, 2, 1024}, {770, 9, 5}}; /* B, V, C */

	(void)state;
	for (size_t s = 0; s < 2 * sizeof sizes / sizeof *sizes; s++) {
		const int64_t *size = sizes[s / 2], rows = size[0] + BEYOND, n = rows * (size[2] + 3);
		int64_t bytes = size[1] * (size[2] + 1) * (int64_t)sizeof(float);
		float *dy = mem_alloc((size_t)n * sizeof *dy), *cpu = mem_alloc((size_t)bytes), *twin = mem_alloc((size_t)bytes);
		int32_t *index = mem_alloc((size_t)rows * 2 * sizeof *index);

		for (int64_t i = 0; i < n; i++)
			dy[i] = sinf((float)i) * powf(2, (float)(i * 7 % 23));
		for (int64_t b = 0; b < rows; b++) {
			index[2 * b] = s % 2 || size[1] == 1 ? (int32_t)size[1] - 1 : (int32_t)(b * b % 31 % (size[1] - 1));
			index[2 * b + 1] = INT32_MAX;
		}
		grad_by(flavour_kernels()[OP_EMBED_GRAD], size, index, dy, cpu);
		grad_by(&kernel_embed_grad_cuda, size, index, dy, twin);
		assert_memory_equal(twin, cpu, (size_t)bytes);
		assert_true(s % 2 || size[1] == 1 || twin[(size[1] - 1) * (size[2] + 1)] == 0);
		mem_free(dy);
		mem_free(cpu);
		mem_free(twin);
		mem_free(index);
	}
}

/* Each operation is rounded, in the same order, so the bits are equal. */
static void sampling(void **state)
{
	static const double order[9] = {3, 1, 4, 0, 2, 8, 5, 7, 6}, zeros[9] = {0};

	(void)state;
	for (int which = 0; which < 4; which++) {
		struct operand v = {.rank = 2, .shape = {9, 50}, .batch = 1}, none = {0}, flat = {.rank = 1, .shape = {4099}, .dense = 1};
		struct operand index = {.rank = 1, .shape = {9}, .limit = 9, .dense = 1, .values = order}, begun = index;
		struct operand w = {.rank = 1, .shape = {9}, .dense = 1, .exact = 1}, mean = {.rank = 1, .shape = {50}, .dense = 1};
		struct optest m = {.name = "MIX",
		                   .op = OP_MIX,
		                   .attr.mix = {1.75},
		                   .nin = 5,
		                   .nout = 1,
		                   .in = {v, which & 1 ? v : none, index, begun, w},
		                   .out = {v}};
		struct optest c = {.name = "CONVERT",
		                   .op = OP_CONVERT,
		                   .nin = 3,
		                   .nout = 1,
		                   .attr.convert = {0, which & 1, which, 1.25, -.75, .3, .4},
		                   .in = {v, v, which & 2 ? mean : none},
		                   .out = {v},
		                   .in_place = 2,
		                   .samples = 1};
		struct optest k = {.name = "COMBINE",
		                   .op = OP_COMBINE,
		                   .nin = 5,
		                   .nout = 1,
		                   .attr.combine = {{1.25, -.75, .3, .4, -1.5}, which & 1},
		                   .in = {v, v, which & 2 ? v : none, v, v},
		                   .out = {v},
		                   .in_place = 5,
		                   .samples = 1};
		struct optest a = {.name = "ADVANCE",
		                   .op = OP_ADVANCE,
		                   .attr.advance = {-.02},
		                   .nin = 3,
		                   .nout = 1,
		                   .in = {which & 1 ? flat : none, flat, which & 2 ? flat : none},
		                   .out = {flat},
		                   .in_place = 2};

		m.in[3].values = zeros;
		optest_twin(&m, &kernel_mix_cuda, 0);
		optest_twin(&c, &kernel_convert_cuda, 0);
		optest_twin(&k, &kernel_combine_cuda, 0);
		optest_twin(&a, &kernel_advance_cuda, 0);
	}
}

/* The sums of a row are added in another order, in double, and each operation after them is rounded as on the CPU. */
static void guidance(void **state)
{
	static const int64_t sizes[][2] = {{1, 1}, {9, 50}, {2, 700}};

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (int rule = GUIDE_LINEAR; rule <= GUIDE_STILL; rule++)
			for (int way = 0; way < 4; way++) {
				struct operand v = {.rank = 2, .shape = {sizes[s][0], sizes[s][1]}, .batch = 1, .shift = .5}, none = {0};
				struct optest t = {
				    .name = "GUIDE",
				    .op = OP_GUIDE,
				    .attr.guide = {(enum guide_rule)rule, way & 1 ? 1 : 0, way & 1 ? -.7 : 1, 2.5, way & 2 ? 9 : 0, .25, -.5, .7},
				    .nin = 4,
				    .nout = way & 2 ? 2 : 1,
				    .in = {way & 1 ? v : none, v, rule == GUIDE_STILL ? none : v, way & 2 ? v : none},
				    .out = {v, v},
				    .in_place = 2,
				    .samples = 1};

				if (way & 2 && rule != GUIDE_PROJECT)
					continue;
				optest_twin(&t, &kernel_guide_cuda, rule == GUIDE_LINEAR || rule == GUIDE_STILL ? 0 : 2e-7);
			}
}

static double sum_by(const struct kernel *k, float *x, int64_t n, double before, int anew)
{
	double y = before;
	struct op_call c = {.nin = 1, .nout = 1, .in = {array_vector(DT_F32, x, n)}, .out = {array_vector(DT_F64, &y, 1)}, .attr = {.total = {anew}}};
	size_t need = k->scratch ? k->scratch(&c, 1) : 0;

	c.scratch = mem_alloc(need + 1);
	memset(c.scratch, 0xff, need + 1);
	optest_call(k, &c);
	assert_int_equal(((unsigned char *)c.scratch)[need], 0xff);
	mem_free(c.scratch);
	return y;
}

/* The sums of the chunks, and TOTAL of them: the bits of one SUMSQ. */
static void check_chunks(float *x, int64_t n)
{
	int64_t chunks = (n + SUMSQ_CHUNK - 1) / SUMSQ_CHUNK;
	double part[4], y = NAN, want = sum_by(&kernel_sumsq_cuda, x, n, NAN, 0);
	struct op_call c = {.nin = 1, .nout = 1, .in = {array_vector(DT_F32, x, n)}, .out = {array_vector(DT_F64, part, chunks)}};
	struct op_call total = {
	    .nin = 1, .nout = 1, .in = {array_vector(DT_F64, part, chunks)}, .out = {array_vector(DT_F64, &y, 1)}, .attr = {.total = {1}}};

	assert_in_range(chunks, 1, 4);
	c.scratch = mem_alloc(sizeof part);
	optest_call(&kernel_sumsq_cuda, &c);
	optest_call(&kernel_total_cuda, &total);
	mem_free(c.scratch);
	assert_memory_equal(&y, &want, sizeof y);
}

/* On integers of a few bits any order of addition is exact. */
static void sums(void **state)
{
	static const int64_t sizes[] = {1, 31, 256, 257, 16384, 16385, 40000};

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		float *x = mem_alloc((size_t)sizes[s] * sizeof *x);

		for (int64_t i = 0; i < sizes[s]; i++)
			x[i] = (float)(i * 7 % 31 - 9);
		assert_true(sum_by(&kernel_sumsq_cuda, x, sizes[s], NAN, 0) == sum_by(flavour_kernels()[OP_SUMSQ], x, sizes[s], NAN, 0));
		assert_true(sum_by(&kernel_total_cuda, x, sizes[s], 3, 0) == sum_by(flavour_kernels()[OP_TOTAL], x, sizes[s], 3, 0));
		assert_true(sum_by(&kernel_total_cuda, x, sizes[s], NAN, 1) == sum_by(flavour_kernels()[OP_TOTAL], x, sizes[s], NAN, 1));
		check_chunks(x, sizes[s]);
		for (int64_t i = 0; i < sizes[s]; i++)
			x[i] = (float)(i * 7 % 31 - 9) / 7;
		check_chunks(x, sizes[s]);
		x[sizes[s] - 1] = NAN;
		assert_true(isnan(sum_by(&kernel_sumsq_cuda, x, sizes[s], 0, 0)));
		mem_free(x);
	}
}

enum { N = 1027, RUNS = (N + DECAY_RUN - 1) / DECAY_RUN };

struct training {
	float p[N], m[N], v[N], ema[N], pad;
	_Alignas(16) uint16_t rounded[N];
	double status[STATUS_COUNT];
};

static void update(struct training *t, const struct kernel *rates, const struct kernel *adamw, float *g, float *mask, double sumsq, double loss)
{
	double plan[PLAN_COUNT] = {
	    [PLAN_LR] = .01, [PLAN_BETA1] = .8, [PLAN_BETA2] = .95, [PLAN_EPS] = 1e-6, [PLAN_DECAY] = .1, [PLAN_EMA] = .7, [PLAN_CLIP] = 20};
	double coef[COEF_COUNT];
	struct op_call r = {.nin = 3,
	                    .nout = 2,
	                    .in = {array_vector(DT_F64, &sumsq, 1), array_vector(DT_F64, &loss, 1), array_vector(DT_F64, plan, PLAN_COUNT)},
	                    .out = {array_vector(DT_F64, coef, COEF_COUNT), array_vector(DT_F64, t->status, STATUS_COUNT)}};
	struct op_call a = {.nin = 3,
	                    .nout = 5,
	                    .in = {array_vector(DT_F64, coef, COEF_COUNT), array_vector(DT_F32, g, N), array_vector(DT_F32, mask, RUNS)},
	                    .out = {array_vector(DT_F32, t->p, N), array_vector(DT_F32, t->m, N), array_vector(DT_F32, t->v, N),
	                            array_vector(DT_F32, t->ema, N), array_vector(DT_BF16, t->rounded, N)}};

	memset(coef, 0xff, sizeof coef);
	optest_call(rates, &r);
	optest_call(adamw, &a);
}

/* Counts, coefficients and weights have equal bits: the same operations in the same order. The third step is not finite and is skipped. */
static void same_updates(const struct kernel *cpu, const struct kernel *twin)
{
	struct training *a = mem_try(1, sizeof *a, "cpu", NULL), *b = mem_try(1, sizeof *b, "twin", NULL);
	float *g = mem_try(N, sizeof *g, "gradient", NULL), *mask = mem_try(RUNS, sizeof *mask, "mask", NULL);

	for (int i = 0; i < RUNS; i++)
		mask[i] = (float)(i % 3 != 0);
	for (int i = 0; i < N; i++) {
		a->p[i] = a->ema[i] = b->p[i] = b->ema[i] = sinf((float)i);
	}
	for (int s = 0; s < 4; s++) {
		for (int i = 0; i < N; i++)
			g[i] = cosf((float)(i * (s + 1)));
		update(a, flavour_kernels()[OP_RATES], cpu, g, mask, s == 2 ? NAN : s * 400, s);
		update(b, &kernel_rates_cuda, twin, g, mask, s == 2 ? NAN : s * 400, s);
		assert_true(b->status[STATUS_UPDATES] == (s < 2 ? s + 1 : s));
		assert_memory_equal(a->p, b->p, sizeof a->p);
		assert_memory_equal(a->m, b->m, sizeof a->m);
		assert_memory_equal(a->v, b->v, sizeof a->v);
		assert_memory_equal(a->ema, b->ema, sizeof a->ema);
		assert_memory_equal(a->rounded, b->rounded, sizeof a->rounded);
		for (int i = 0; i < N; i++)
			assert_int_equal(a->rounded[i], f32_to_bf16(a->p[i]));
		for (int i = 0; i < STATUS_COUNT; i++)
			assert_true(a->status[i] == b->status[i] || (isnan(a->status[i]) && isnan(b->status[i])));
	}
	mem_free(a);
	mem_free(b);
	mem_free(g);
	mem_free(mask);
}

static void optimizer(void **state)
{
	(void)state;
	same_updates(flavour_kernels()[OP_ADAMW], &kernel_adamw_cuda);
	same_updates(flavour_kernels()[OP_SCHEDULE_FREE], &kernel_schedule_free_cuda);
}

/* Muon's passes over a matrix whose sum of squares is `sumsq`; ends in rounded. */
static void muon_update(struct training *t, const struct kernel *const k[3], double *coef, float *g, double sumsq)
{
	struct array n = array_vector(DT_F32, t->p, N), m = array_vector(DT_F32, t->m, N), u = array_vector(DT_F32, t->v, N);
	struct op_call momentum = {.nin = 2,
	                           .nout = 2,
	                           .in = {array_vector(DT_F64, coef, COEF_COUNT), array_vector(DT_F32, g, N)},
	                           .out = {m, u},
	                           .attr = {.muon = {.momentum = .95}}};
	struct op_call unit = {.nin = 1, .nout = 1, .in = {array_vector(DT_F64, &sumsq, 1)}, .out = {u}};
	struct op_call apply = {.nin = 2,
	                        .nout = 3,
	                        .in = {array_vector(DT_F64, coef, COEF_COUNT), u},
	                        .out = {n, array_vector(DT_F32, t->ema, N), array_vector(DT_BF16, t->rounded, N)},
	                        .attr = {.muon = {.scale = 2.5}}};

	optest_call(k[0], &momentum);
	optest_call(k[1], &unit);
	optest_call(k[2], &apply);
}

/* The second step is skipped; the third has a gradient of 0, whose norm is replaced by MUON_SMALLEST. */
static void muon(void **state)
{
	const struct kernel *const *all = flavour_kernels(), *const cpu[3] = {all[OP_MUON_MOMENTUM], all[OP_MUON_UNIT], all[OP_MUON_APPLY]};
	static const struct kernel *const twin[3] = {&kernel_muon_momentum_cuda, &kernel_muon_unit_cuda, &kernel_muon_apply_cuda};
	struct training *a = mem_try(1, sizeof *a, "cpu", NULL), *b = mem_try(1, sizeof *b, "twin", NULL);
	float *g = mem_try(N, sizeof *g, "gradient", NULL);
	double coef[COEF_COUNT];

	(void)state;
	for (int i = 0; i < COEF_COUNT; i++)
		coef[i] = 1 / (i + 1.5);
	for (int i = 0; i < N; i++)
		a->p[i] = a->ema[i] = b->p[i] = b->ema[i] = sinf((float)i);
	for (int s = 0; s < 3; s++) {
		float before = a->p[7];

		coef[COEF_GO] = s != 1;
		for (int i = 0; i < N; i++)
			g[i] = s == 2 ? 0 : cosf((float)(i * (s + 1)));
		muon_update(a, cpu, coef, g, s == 2 ? 0 : 31);
		muon_update(b, twin, coef, g, s == 2 ? 0 : 31);
		assert_true((a->p[7] == before) == (s == 1));
		assert_memory_equal(a->p, b->p, sizeof a->p);
		assert_memory_equal(a->m, b->m, sizeof a->m);
		assert_memory_equal(a->v, b->v, sizeof a->v);
		assert_memory_equal(a->ema, b->ema, sizeof a->ema);
		assert_memory_equal(a->rounded, b->rounded, sizeof a->rounded);
	}
	mem_free(a);
	mem_free(b);
	mem_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(elementwise), cmocka_unit_test(functions),       cmocka_unit_test(copies),   cmocka_unit_test(draws),
	    cmocka_unit_test(sums),        cmocka_unit_test(optimizer),       cmocka_unit_test(softmax),  cmocka_unit_test(squared_error),
	    cmocka_unit_test(tables),      cmocka_unit_test(table_gradients), cmocka_unit_test(sampling), cmocka_unit_test(guidance),
	    cmocka_unit_test(muon),        cmocka_unit_test(rotary)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
