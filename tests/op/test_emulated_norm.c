/* CUDA's NORM, GATE and their gradients, run with tests/op/emulate.h, against the CPU's. Sums over a row are added in another order: the tolerances
 * are twice those of tests/op/test_norm.c against exact values. GATE has one rounding, which is the same. Dense rows of whole packs use the kernels
 * that keep them in registers; odd widths, padded strides and rows longer than 4096 use the others. */
#include "kernels/flavour.h"
#include "tests/op/optest.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"

#define KERNELS(X) X(norm) X(norm_grad) X(gate) X(gate_grad)
#define X(fn) extern const struct kernel kernel_##fn##_cuda;
KERNELS(X)
#undef X

/* The same kernels on a device with so many multiprocessors that each row is a group. */
static void run_wide(const struct kernel *k, const struct op_call *c)
{
	static struct device none;
	struct device *d = c->device ? c->device : &none;
	struct op_call wide = *c;
	int was = d->processors;

	d->processors = 1 << 20;
	wide.device = d;
	k->run(&wide);
	d->processors = was;
}

static void norm_wide_run(const struct op_call *c)
{
	run_wide(&kernel_norm_cuda, c);
}

static void gate_wide_run(const struct op_call *c)
{
	run_wide(&kernel_gate_cuda, c);
}

static const struct kernel norm_wide = {norm_wide_run, NULL}, gate_wide = {gate_wide_run, NULL};

enum { LAYER_ABSENT = -1 };

/* The dimensions over which scale and shift are broadcast, as bits; LAYER_ABSENT: there is none. */
static const struct {
	int rank;
	int64_t shape[ARRAY_RANK];
	int scale, shift;
	enum norm_kind kind;
	int plus_one;
} norms[] = {
    {1, {1}, 0, 0, NORM_RMS, 1},
    {1, {48}, 0, 0, NORM_LAYER, 0},
    {2, {3, 8}, 1, 1, NORM_LAYER, 0},
    {2, {4, 65}, 1, 1, NORM_LAYER, 1},
    {3, {2, 37, 24}, 2, 2, NORM_LAYER, 1},
    {3, {3, 19, 264}, 2, 2, NORM_LAYER, 1},
    {3, {2, 21, 40}, 3, 3, NORM_RMS, 0},
    {3, {2, 21, 40}, LAYER_ABSENT, LAYER_ABSENT, NORM_LAYER, 0},
    {3, {2, 5, 32}, 3, LAYER_ABSENT, NORM_RMS, 1},
    {3, {2, 5, 32}, LAYER_ABSENT, 2, NORM_LAYER, 0},
    {3, {3, 6, 16}, 1, 2, NORM_LAYER, 1},
    {3, {3, 6, 16}, 0, 0, NORM_LAYER, 1},
    {3, {3, 6, 11}, 2, 1, NORM_LAYER, 1},
    {4, {2, 3, 4, 8}, 5, 5, NORM_LAYER, 0},
    {4, {2, 3, 4, 8}, 2, 5, NORM_RMS, 1},
    {4, {2, 3, 4, 8}, 2, 2, NORM_LAYER, 1},
    {4, {1, 3, 1, 16}, 4, 4, NORM_LAYER, 1},
    {2, {2, 1152}, 1, 1, NORM_LAYER, 1},
    {2, {2, 4096}, 1, 1, NORM_LAYER, 0},
    {2, {2, 4104}, 1, 1, NORM_LAYER, 0},
};

enum { NORMS = sizeof norms / sizeof *norms };

static struct operand modulated(const struct operand *x, int bcast)
{
	struct operand o = *x;

	if (bcast == LAYER_ABSENT)
		return (struct operand){0};
	o.bcast = (unsigned)bcast;
	o.shift = 0;
	return o;
}

static struct operand summed(const struct operand *o)
{
	struct operand s = {.rank = o->rank, .exact = 1};

	for (int d = 0; d < o->rank; d++)
		s.shape[d] = o->bcast >> d & 1 ? 1 : o->shape[d];
	return s;
}

static void make(int i, struct optest *t)
{
	struct operand x = {.rank = norms[i].rank, .shift = .5, .batch = 1}, stats;

	memcpy(x.shape, norms[i].shape, sizeof x.shape);
	stats = x;
	stats.shape[x.rank - 1] = 2;
	stats.dense = stats.exact = 1;
	*t = (struct optest){.name = "NORM",
	                     .op = OP_NORM,
	                     .attr.norm = {norms[i].kind, norms[i].plus_one, 1e-5},
	                     .nin = 3,
	                     .nout = 2,
	                     .in = {x, modulated(&x, norms[i].scale), modulated(&x, norms[i].shift)},
	                     .out = {x, stats},
	                     .samples = norms[i].rank > 1};
}

static void values(void **state)
{
	(void)state;
	for (int i = 0; i < NORMS; i++) {
		struct optest t;

		make(i, &t);
		optest_twin(&t, &kernel_norm_cuda, 4e-6);
		optest_twin(&t, &norm_wide, 4e-6);
	}
}

/* x = 1000 + N(0, 1), for which sums of squares would lose the variance. */
static void large_mean(void **state)
{
	(void)state;
	for (int wide = 0; wide < 2; wide++) {
		struct operand x = {.rank = 2, .shape = {3, 64 - wide}, .shift = 1000}, stats = {.rank = 2, .shape = {3, 2}, .dense = 1, .exact = 1};
		struct optest t = {
		    .name = "NORM", .op = OP_NORM, .attr.norm = {NORM_LAYER, 0, 1e-5}, .nin = 3, .nout = 2, .in = {x}, .out = {x, stats}};

		x.exact = t.in[0].exact = 1;
		optest_twin(&t, &kernel_norm_cuda, 4e-4);
	}
}

static void gradients(void **state)
{
	(void)state;
	for (int i = 0; i < NORMS; i++)
		for (unsigned mode = 1; mode < (i % 4 ? 3 : 4); mode++) { /* with acc, without sums, both */
			struct optest t, g;

			make(i, &t);
			g = (struct optest){.name = "NORM_GRAD",
			                    .op = OP_NORM_GRAD,
			                    .attr = t.attr,
			                    .nin = 5,
			                    .nout = 3,
			                    .in = {t.in[0], t.in[0], t.out[1], t.in[1]},
			                    .out = {t.in[0]},
			                    .samples = t.samples && (mode & 2)};
			if (mode & 1) {
				g.in[4] = t.in[0];
				g.in_place = 5;
			}
			if (!(mode & 2)) {
				g.out[1] = summed(&t.in[1]);
				g.out[2] = summed(&t.in[2]);
			}
			optest_twin(&g, &kernel_norm_grad_cuda, 2e-5);
			if ((mode & 2) || norms[i].scale == norms[i].shift)
				continue;
			g.out[1].rank = 0; /* rows with the same shift may have different scales */
			optest_twin(&g, &kernel_norm_grad_cuda, 2e-5);
		}
}

/* Rows of whole packs, except for one operand, whose stride is no multiple of a pack. */
static void one_apart(void **state)
{
	struct operand x = {.rank = 2, .shape = {4, 64}, .dense = 1}, stats = {.rank = 2, .shape = {4, 2}, .dense = 1, .exact = 1}, sums = x;

	(void)state;
	sums.exact = 1;
	for (int apart = 0; apart < 5; apart++) {
		struct optest f = {
		    .name = "NORM", .op = OP_NORM, .attr = {.norm = {NORM_LAYER, 1, 1e-5}}, .nin = 3, .nout = 2, .in = {x, x, x}, .out = {x, stats}};
		struct optest g = {
		    .name = "NORM_GRAD", .op = OP_NORM_GRAD, .attr = f.attr, .nin = 5, .nout = 3, .in = {x, x, stats, x, x}, .out = {x, sums, sums}};

		if (apart < 3)
			f.in[apart].dense = 0;
		else
			f.out[0].dense = apart != 3;
		if (apart == 2)
			g.out[0].dense = 0;
		else
			g.in[apart].dense = 0;
		optest_twin(&f, &kernel_norm_cuda, 4e-6);
		optest_twin(&g, &kernel_norm_grad_cuda, 2e-5);
	}
}

static const struct {
	int rank;
	int64_t shape[ARRAY_RANK];
	unsigned bcast;
} gates[] = {
    {1, {1}, 0},          {1, {9}, 1},          {2, {3, 33}, 2},      {2, {2, 4104}, 1},    {3, {2, 21, 24}, 2},
    {3, {2, 37, 264}, 2}, {3, {2, 21, 40}, 3},  {3, {3, 18, 9}, 1},   {3, {3, 5, 16}, 0},   {3, {3, 5, 16}, 6},
    {3, {2, 5, 33}, 7},   {4, {2, 3, 4, 8}, 5}, {4, {2, 3, 4, 8}, 2}, {4, {2, 3, 4, 1}, 6}, {4, {2, 1, 4, 1152}, 4},
};

/* On small integers products and sums are exact in any order. */
static void gated(void **state)
{
	enum { MOST = 2 * 37 * 264 };
	double *v = mem_try(MOST, sizeof *v, "values", NULL);

	(void)state;
	for (int i = 0; i < MOST; i++)
		v[i] = i * 7 % 31 - 9;
	for (size_t i = 0; i < sizeof gates / sizeof *gates; i++)
		for (int quiet = 0; quiet < 2; quiet++) {
			struct operand x = {.rank = gates[i].rank, .values = v, .batch = 1}, g;
			struct optest t = {.name = "GATE", .op = OP_GATE, .nin = 3, .nout = 1, .in_place = 1, .samples = 1};
			struct optest back = {.name = "GATE_GRAD", .op = OP_GATE_GRAD, .nin = 3, .nout = 2};

			memcpy(x.shape, gates[i].shape, sizeof x.shape);
			g = x;
			g.values = v + 3;
			g.bcast = gates[i].bcast;
			t.in[0] = t.in[2] = t.out[0] = back.in[0] = back.in[2] = back.out[0] = x;
			t.in[1] = back.in[1] = g;
			if (!quiet)
				back.out[1] = summed(&g);
			optest_twin(&back, &kernel_gate_grad_cuda, 0);
			t.in[0].values = t.in[1].values = t.in[2].values = NULL;
			optest_twin(&t, &kernel_gate_cuda, 0);
			optest_twin(&t, &gate_wide, 0);
		}
	mem_free(v);
}

/* A float residual stream in a network of bfloat16: NORM reads float rows and writes bfloat16 ones, GATE adds bfloat16 rows to float ones, and their
 * gradients do so backwards. The stream's values need more than 8 bits, so a kernel that rounded them would fail. */
static void residual_stream(void **state)
{
	(void)state;
	for (int i = 0; i < NORMS; i++) {
		struct optest t, g;

		make(i, &t);
		t.in[0].exact = t.in[0].finer = 1;
		optest_twin(&t, &kernel_norm_cuda, 4e-6);
		optest_twin(&t, &norm_wide, 4e-6);
		g = (struct optest){.name = "NORM_GRAD",
		                    .op = OP_NORM_GRAD,
		                    .attr = t.attr,
		                    .nin = 5,
		                    .nout = 3,
		                    .in = {t.out[0], t.in[0], t.out[1], t.in[1], t.in[0]},
		                    .out = {t.in[0], summed(&t.in[1]), summed(&t.in[2])},
		                    .in_place = 5};
		optest_twin(&g, &kernel_norm_grad_cuda, 2e-5);
	}
	for (size_t i = 0; i < sizeof gates / sizeof *gates; i++) {
		struct operand h = {.rank = gates[i].rank, .batch = 1}, x, g;
		struct optest t = {.name = "GATE", .op = OP_GATE, .nin = 3, .nout = 1, .in_place = 1, .samples = 1};
		struct optest back = {.name = "GATE_GRAD", .op = OP_GATE_GRAD, .nin = 3, .nout = 2};

		memcpy(h.shape, gates[i].shape, sizeof h.shape);
		g = x = h;
		g.bcast = gates[i].bcast;
		x.exact = x.finer = 1;
		t.in[0] = t.out[0] = back.in[0] = x;
		t.in[1] = back.in[1] = g;
		t.in[2] = back.in[2] = back.out[0] = h;
		back.out[1] = summed(&g);
		optest_twin(&t, &kernel_gate_cuda, 1.2e-7);
		optest_twin(&t, &gate_wide, 1.2e-7);
		optest_twin(&back, &kernel_gate_grad_cuda, 4e-6);
	}
}

/* As in an adaLN block: rows lie within wider ones; scale, shift and gate are chunks of one vector per sample, and so are their gradients. At offset
 * 0 everything is aligned to 16 bytes, at offset 1 nothing is. */
enum { B = 2, T = 21, C = 40, WIDE = 6 * C };

struct block {
	float rows[B * T * WIDE], stats[B * T * 2], mod[B * WIDE], dmod[B * WIDE], scratch[2 * B * T * C];
};

static struct array rows_at(float *p)
{
	return (struct array){.data = p, .dtype = DT_F32, .rank = 3, .shape = {B, T, C}, .stride = {T * WIDE, WIDE, 1}};
}

static struct array chunk_at(float *p, int64_t t)
{
	return (struct array){.data = p, .dtype = DT_F32, .rank = 3, .shape = {B, t, C}, .stride = {WIDE, 0, 1}};
}

static void fill(float *p, int64_t vectors, int offset)
{
	for (int64_t i = 0; i < vectors * WIDE; i++) {
		int at = (int)(i % WIDE) - offset;

		p[i] = at >= 0 && at < (vectors == B ? 3 : 2) * C ? sinf((float)(i * i % 999)) : NAN;
	}
}

static struct block *run_block(const struct kernel *norm, const struct kernel *norm_grad, const struct kernel *gate_grad, int offset)
{
	struct block *b = mem_try(1, sizeof *b, "block", NULL);
	float *r = b->rows + offset, *m = b->mod + offset, *d = b->dmod + offset;
	struct array x = rows_at(r), dy = rows_at(r + C), y = rows_at(r + 2 * C), dx = rows_at(r + 3 * C), dh = rows_at(r + 4 * C);
	struct array stats = {.data = b->stats, .dtype = DT_F32, .rank = 3, .shape = {B, T, 2}, .stride = {2 * T, 2, 1}};
	struct array shift = chunk_at(m, T), scale = chunk_at(m + C, T), gate = chunk_at(m + 2 * C, T);
	struct op_attr attr = {.norm = {NORM_LAYER, 1, 1e-5}};
	struct op_call f = {.nin = 3, .nout = 2, .in = {x, scale, shift}, .out = {y, stats}, .attr = attr};
	struct op_call g = {.nin = 5,
	                    .nout = 3,
	                    .in = {dy, x, stats, scale, y},
	                    .out = {dx, chunk_at(d + 3 * C, 1), chunk_at(d + 2 * C, 1)},
	                    .attr = attr,
	                    .scratch = b->scratch};
	struct op_call h = {.nin = 3, .nout = 2, .in = {dy, gate, x}, .out = {dh, chunk_at(d + 4 * C, 1)}, .scratch = b->scratch};

	fill(b->rows, B * T, offset);
	fill(b->mod, B, offset);
	memset(b->dmod, 0xff, sizeof b->dmod);
	memset(b->scratch, 0xff, sizeof b->scratch);
	optest_call(norm, &f);
	optest_call(norm_grad, &g);
	optest_call(gate_grad, &h);
	return b;
}

static void alike(const float *got, const float *want, int64_t n, float tol)
{
	for (int64_t i = 0; i < n; i++)
		if (isnan(got[i]) != isnan(want[i]) || fabsf(got[i] - want[i]) > tol)
			fail_msg("element %lld is %g, of the CPU %g", (long long)i, (double)got[i], (double)want[i]);
}

static void within_wider_rows(void **state)
{
	(void)state;
	for (int offset = 0; offset < 2; offset++) {
		struct block *got = run_block(&kernel_norm_cuda, &kernel_norm_grad_cuda, &kernel_gate_grad_cuda, offset);
		struct block *want = run_block(flavour_kernels()[OP_NORM], flavour_kernels()[OP_NORM_GRAD], flavour_kernels()[OP_GATE_GRAD], offset);

		assert_false(isnan(want->rows[offset + 5 * C - 1]) || isnan(want->dmod[offset + 5 * C - 1]));
		alike(got->rows, want->rows, B * T * WIDE, 2e-5f);
		alike(got->stats, want->stats, B * T * 2, 2e-5f);
		alike(got->dmod, want->dmod, B * WIDE, 2e-5f);
		mem_free(got);
		mem_free(want);
	}
}

/* Groups of more than the minimum number of rows, and their sums, exact on integers. */
static void many_rows(void **state)
{
	enum { ROWS = 70001, COLS = 8 };
	float *x = mem_try(ROWS * COLS, sizeof *x, "rows", NULL), *dh = mem_try(ROWS * COLS, sizeof *dh, "dh", NULL);
	float g[COLS], dg[COLS], want[COLS] = {0};
	struct array rows = {.data = x, .dtype = DT_F32, .rank = 2, .shape = {ROWS, COLS}, .stride = {COLS, 1}}, gate = rows, out = rows;
	struct op_call c = {.nin = 3, .nout = 2};

	(void)state;
	for (int i = 0; i < ROWS * COLS; i++) {
		x[i] = (float)(i * 7 % 31 - 15);
		want[i % COLS] += x[i] * x[i];
	}
	for (int i = 0; i < COLS; i++)
		g[i] = (float)i, dg[i] = NAN;
	gate.data = g;
	gate.stride[0] = 0;
	out.data = dh;
	c.in[0] = c.in[2] = rows;
	c.in[1] = gate;
	c.out[0] = out;
	out.data = dg;
	out.shape[0] = 1;
	c.out[1] = out;
	c.scratch = mem_alloc(kernel_gate_grad_cuda.scratch(&c, 1));
	optest_call(&kernel_gate_grad_cuda, &c);
	for (int i = 0; i < COLS; i++)
		assert_true(dg[i] == want[i]);
	for (int i = 0; i < ROWS * COLS; i++)
		assert_true(dh[i] == x[i] * g[i % COLS]);
	mem_free(c.scratch);
	mem_free(x);
	mem_free(dh);
}

enum { SAMPLES = 3, TOKENS = 2, WIDTH = 1152, SAMPLE = TOKENS * WIDTH + 3 /* elements between samples: no multiple of a pack */ };

/* NORM of the first `samples` of x. */
static void norm_of(int64_t samples, float *x, float *y, float *stats)
{
	struct array rows = {.rank = 3, .dtype = DT_F32, .data = x, .shape = {samples, TOKENS, WIDTH}, .stride = {SAMPLE, WIDTH, 1}};
	struct op_call c = {.nin = 3, .nout = 2, .attr.norm = {NORM_LAYER, 0, 1e-5}, .in = {rows}};

	c.out[0] = rows;
	c.out[0].data = y;
	c.out[1] = (struct array){.rank = 3, .dtype = DT_F32, .data = stats, .shape = {samples, TOKENS, 2}, .stride = {TOKENS * 2, 2, 1}};
	optest_call(&kernel_norm_cuda, &c);
}

/* A sample has the same bits alone and in a batch, also if samples do not begin at whole packs, which matters only in a batch. */
static void any_batch(void **state)
{
	float *x = mem_alloc(SAMPLES * SAMPLE * sizeof *x), *y[2], stats[2][SAMPLES * TOKENS * 2];

	(void)state;
	for (int64_t i = 0; i < SAMPLES * SAMPLE; i++)
		x[i] = sinf((float)i) * powf(2, (float)(i * 7 % 23));
	for (int i = 0; i < 2; i++) {
		y[i] = mem_zalloc(SAMPLES * SAMPLE, sizeof *y[i]);
		norm_of(i ? SAMPLES : 1, x, y[i], stats[i]);
	}
	assert_memory_equal(y[0], y[1], TOKENS * WIDTH * sizeof *y[0]);
	assert_memory_equal(stats[0], stats[1], TOKENS * 2 * sizeof *stats[0]);
	mem_free(x);
	mem_free(y[0]);
	mem_free(y[1]);
}

/* NORM and GATE of 1 to 64 rows, in one or two samples, have the same bits on devices of any size. */
static void any_device(void **state)
{
	enum { COLS = 1152, MOST = 64 };
	static const int sizes[] = {1, 7, 132, 1 << 20};
	size_t bytes = MOST * COLS * sizeof(float);
	float *x = mem_alloc(bytes), *h = mem_alloc(bytes), *mod = mem_alloc(3 * 2 * COLS * sizeof *mod), *y[2], stats[2][MOST * 2];
	struct device d = {0};

	(void)state;
	for (int i = 0; i < 2; i++)
		y[i] = mem_zalloc(MOST * COLS, sizeof *y[i]);
	for (int64_t i = 0; i < MOST * COLS; i++) {
		x[i] = sinf((float)i) * powf(2, (float)(i * 7 % 13));
		h[i] = cosf((float)i);
	}
	for (int64_t i = 0; i < 3 * 2 * COLS; i++)
		mod[i] = sinf((float)(3 * i));
	for (int64_t rows = 1; rows <= MOST; rows++)
		for (int64_t samples = 1; samples <= 2 - (int)(rows & 1); samples++)
			for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
				int64_t each = rows / samples;
				struct array a = {
				    .rank = 3, .dtype = DT_F32, .data = x, .shape = {samples, each, COLS}, .stride = {each * COLS, COLS, 1}};
				struct array m = a;
				struct op_call n = {.nin = 3, .nout = 2, .attr.norm = {NORM_LAYER, 1, 1e-5}, .device = &d},
					       g = {.nin = 3, .nout = 1, .device = &d};

				m.stride[0] = 3 * COLS;
				m.stride[1] = 0;
				n.in[0] = g.in[0] = n.out[0] = g.in[2] = g.out[0] = a;
				n.in[1] = n.in[2] = g.in[1] = m;
				n.in[1].data = mod;
				n.in[2].data = mod + COLS;
				g.in[1].data = mod + 2 * COLS;
				g.in[2].data = h;
				n.out[0].data = g.out[0].data = y[k > 0];
				n.out[1] = (struct array){
				    .rank = 3, .dtype = DT_F32, .data = stats[k > 0], .shape = {samples, each, 2}, .stride = {each * 2, 2, 1}};
				d.processors = sizes[k];
				optest_call(&kernel_norm_cuda, &n);
				assert_memory_equal(y[0], y[1 - !k], (size_t)(rows * COLS) * sizeof(float));
				assert_memory_equal(stats[0], stats[1 - !k], (size_t)(rows * 2) * sizeof(float));
				if (k + 1 < sizeof sizes / sizeof *sizes)
					continue;
				for (int i = 0; i < 2; i++) {
					d.processors = sizes[i ? 3 : 0];
					g.out[0].data = y[i];
					optest_call(&kernel_gate_cuda, &g);
				}
				assert_memory_equal(y[0], y[1], (size_t)(rows * COLS) * sizeof(float));
			}
	for (int i = 0; i < 2; i++)
		mem_free(y[i]);
	mem_free(x);
	mem_free(h);
	mem_free(mod);
}

/* The scratch that a kernel asks for is enough for fewer samples too, also where these are divided into more groups: a plan reserves it once. */
static void scratch_for_fewer(void **state)
{
	static const int64_t cases[][3] = {/* samples planned, samples, rows of a sample */
	                                   {8, 7, 256},
	                                   {65, 64, 1024},
	                                   {3, 2, 700},
	                                   {5, 1, 31}};
	enum { COLS = 8, GUARD = 64 };

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int64_t planned = cases[i][0], samples = cases[i][1], rows = cases[i][2], n = planned * rows * COLS;
		struct array x = {.rank = 3, .dtype = DT_F32, .shape = {planned, rows, COLS}, .stride = {rows * COLS, COLS, 1}}, m = x;
		struct array stats = {.rank = 3, .dtype = DT_F32, .shape = {planned, rows, 2}, .stride = {rows * 2, 2, 1}};
		struct op_call norm = {.nin = 5, .nout = 3, .attr.norm = {NORM_LAYER, 1, 1e-5}}, gate = {.nin = 3, .nout = 2};
		const struct kernel *const kernels[] = {&kernel_norm_grad_cuda, &kernel_gate_grad_cuda};

		m.stride[0] = COLS;
		m.stride[1] = 0;
		norm.in[0] = norm.in[1] = norm.out[0] = gate.in[0] = gate.in[2] = gate.out[0] = x;
		norm.in[2] = stats;
		norm.in[3] = gate.in[1] = m;
		m.shape[1] = 1;
		norm.out[1] = norm.out[2] = gate.out[1] = m;
		for (int k = 0; k < 2; k++) {
			struct op_call *c = k ? &gate : &norm;
			size_t bytes = kernels[k]->scratch(c, 1);
			char *scratch = mem_try(bytes + GUARD, 1, "scratch", NULL);

			memset(scratch, 0, bytes + GUARD);
			c->scratch = scratch;
			for (int a = 0; a < c->nin + c->nout; a++) {
				struct array *v = a < c->nin ? &c->in[a] : &c->out[a - c->nin];

				v->shape[0] = samples;
				v->data = v->rank ? mem_zalloc((size_t)n, sizeof(float)) : NULL;
				for (int64_t j = 0; v->data && j < n; j++)
					((float *)v->data)[j] = (float)(1 + j % 3);
			}
			optest_call(kernels[k], c);
			for (int j = 0; j < GUARD; j++)
				if (scratch[bytes + (size_t)j])
					fail_msg("case %d, kernel %d: writes beyond %zu bytes", (int)i, k, bytes);
			for (int a = 0; a < c->nin + c->nout; a++)
				mem_free(a < c->nin ? c->in[a].data : c->out[a - c->nin].data);
			mem_free(scratch);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(residual_stream),   cmocka_unit_test(values),           cmocka_unit_test(large_mean),
	                                   cmocka_unit_test(gradients),         cmocka_unit_test(one_apart),        cmocka_unit_test(gated),
	                                   cmocka_unit_test(within_wider_rows), cmocka_unit_test(many_rows),        cmocka_unit_test(any_batch),
	                                   cmocka_unit_test(any_device),        cmocka_unit_test(scratch_for_fewer)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
