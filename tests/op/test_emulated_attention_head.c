/* The kernel of attention's gradient that holds all keys of a head in one block (kernels/attention_head.cu), emulated, and the two kernels that
 * take its place where there are more keys or less shared memory. Which of the two ran shows in the scratch: only the latter use it.
 *
 * Tolerances as in test_emulated_attention.c. */
#include "kernels/flavour.h"
#include "tests/op/twinattention.h"

#include <string.h>

#include "core/rng.h"
#include "core/shortfloat.h"

/* Of the emulation; absent where the tests run on a GPU. */
extern size_t emulated_shared_limit __attribute__((weak));

enum bias { PLAIN, BIASED, MASKED };

struct problem {
	enum dtype type;
	int64_t samples, t, s, heads, d;
	int causal, packed; /* packed: rows are whole words of 16 bytes */
	enum bias bias;
};

enum { Q, K, V, O, DY, DQ, DK, DV, ARRAYS };

/* All arrays of both passes. */
struct pass {
	struct problem p;
	void *data[ARRAYS];
	float *lse;
	void *bias;
};

static int64_t tokens(const struct problem *p, int which)
{
	return which == K || which == V || which == DK || which == DV ? p->s : p->t;
}

/* Elements of a row: the heads, and a gap. */
static int64_t row_length(const struct problem *p)
{
	return p->heads * p->d + (p->packed ? 8 : 3);
}

static int64_t count(const struct problem *p, int which)
{
	return p->samples * tokens(p, which) * row_length(p);
}

static float value(enum dtype type, const void *data, int64_t i)
{
	return type == DT_BF16 ? bf16_to_f32(((const uint16_t *)data)[i]) : ((const float *)data)[i];
}

static void value_set(enum dtype type, void *data, int64_t i, float v)
{
	if (type == DT_BF16)
		((uint16_t *)data)[i] = f32_to_bf16(v);
	else
		((float *)data)[i] = v;
}

static struct array rows(const struct pass *a, int which, int64_t first)
{
	const struct problem *p = &a->p;
	int64_t row = row_length(p), n = tokens(p, which);

	return (struct array){(char *)a->data[which] + (size_t)(first * n * row) * dtype_size(p->type),
	                      p->type,
	                      4,
	                      {p->samples, n, p->heads, p->d},
	                      {n * row, row, p->d, 1}};
}

/* Everything is NaN but the inputs, which bfloat16 represents exactly. */
static struct pass pass_new(const struct problem *p)
{
	struct pass a = {.p = *p};
	size_t size = dtype_size(p->type);
	int64_t lse = p->samples * p->heads * p->t, row = row_length(p);

	for (int i = 0; i < ARRAYS; i++) {
		a.data[i] = mem_alloc((size_t)count(p, i) * size);
		memset(a.data[i], 0xff, (size_t)count(p, i) * size);
	}
	for (int i = 0; i < ARRAYS; i++)
		for (int64_t k = 0; i != O && i < DQ && k < count(p, i); k++) {
			float z[1];

			rng_normal(z, 1, 1, RNG_TEST, (uint64_t)i, (uint64_t)k);
			if (k % row < p->heads * p->d)
				value_set(p->type, a.data[i], k, bf16_to_f32(f32_to_bf16(z[0])));
		}
	a.lse = mem_alloc((size_t)lse * sizeof *a.lse);
	memset(a.lse, 0xff, (size_t)lse * sizeof *a.lse);
	a.bias = mem_alloc((size_t)(lse * p->s) * size);
	for (int64_t i = 0; i < lse * p->s; i++) {
		float z[1];

		rng_normal(z, 1, 2, RNG_TEST, 0, (uint64_t)i);
		/* The keys of sample b end at s - 5 - b. */
		if (p->bias == MASKED)
			z[0] = i % p->s < p->s - 5 - i / (p->heads * p->t * p->s) ? 0 : -10000;
		value_set(p->type, a.bias, i, bf16_to_f32(f32_to_bf16(z[0])));
	}
	return a;
}

static void pass_free(struct pass *a)
{
	for (int i = 0; i < ARRAYS; i++)
		mem_free(a->data[i]);
	mem_free(a->lse);
	mem_free(a->bias);
}

/* Run a kernel; returns whether it has written its scratch. */
static int run(const struct kernel *k, struct op_call *c)
{
	size_t need = k->scratch ? k->scratch(c, 1) : 0, used = 0;

	c->scratch = mem_alloc(need + 1);
	memset(c->scratch, 0xff, need + 1);
	optest_call(k, c);
	for (size_t i = 0; i < need; i++)
		used |= ((unsigned char *)c->scratch)[i] != 0xff;
	assert_int_equal(((unsigned char *)c->scratch)[need], 0xff);
	mem_free(c->scratch);
	return used != 0;
}

/* Both passes of samples [first, first + n), or the gradient alone. Returns what run does for the gradient. */
static int pass_run(struct pass *a, const struct kernel *there, const struct kernel *back, int64_t first, int64_t n)
{
	const struct problem *p = &a->p;
	int64_t lse_size = p->heads * p->t, bias_size = lse_size * p->s;
	struct array lse = {a->lse + first * lse_size, DT_F32, 3, {n, p->heads, p->t}, {lse_size, p->t, 1}}, x[ARRAYS];
	struct array bias = {(char *)a->bias + (size_t)(first * bias_size) * dtype_size(p->type),
	                     p->type,
	                     4,
	                     {n, p->heads, p->t, p->s},
	                     {bias_size, p->t * p->s, p->s, 1}};
	struct op_call f = {.nin = 3, .nout = 2, .attr.attention = {p->causal, 1 / sqrt((double)p->d)}}, g = {.nin = 6, .nout = 3, .attr = f.attr};

	for (int i = 0; i < ARRAYS; i++) {
		x[i] = rows(a, i, first);
		x[i].shape[0] = n;
	}
	f.in[0] = x[Q], f.in[1] = x[K], f.in[2] = x[V], f.out[0] = x[O], f.out[1] = lse;
	g.in[0] = x[DY], g.in[1] = x[Q], g.in[2] = x[K], g.in[3] = x[V], g.in[4] = x[O], g.in[5] = lse;
	g.out[0] = x[DQ], g.out[1] = x[DK], g.out[2] = x[DV];
	if (p->bias) {
		f.in[f.nin++] = bias;
		g.in[g.nin++] = bias;
	}
	if (there)
		run(there, &f);
	return run(back, &g);
}

/* The gaps between rows are still NaN, and the rest is within tol of the largest value. */
static void close_to(const struct pass *got, const struct pass *want, int which, double tol)
{
	const struct problem *p = &got->p;
	double top = 0, worst = 0;

	for (int64_t i = 0; i < count(p, which); i++) {
		float x = value(p->type, got->data[which], i), y = value(want->p.type, want->data[which], i);

		if (i % row_length(p) >= p->heads * p->d) {
			assert_true(isnan(x));
			continue;
		}
		if (!isfinite(x))
			fail_msg("%d queries, %d keys, width %d: array %d is not finite at %d", (int)p->t, (int)p->s, (int)p->d, which, (int)i);
		top = fmax(top, fabs((double)y));
		worst = fmax(worst, fabs((double)x - (double)y));
	}
	/* The softmax of a single key is 1: dq and dk are differences of equal numbers of size 1. */
	if (p->s == 1 && (which == DQ || which == DK))
		top = fmax(top, 1);
	if (!(worst <= tol * top))
		fail_msg("%d queries, %d keys, width %d, causal %d: array %d has an error of %.3g of the largest value, %.3g allowed", (int)p->t,
		         (int)p->s, (int)p->d, p->causal, which, worst / top, tol);
}

static void same_bytes(const struct pass *a, const struct pass *b)
{
	for (int i = O; i < ARRAYS; i++)
		if (i != DY)
			assert_memory_equal(a->data[i], b->data[i], (size_t)count(&a->p, i) * dtype_size(a->p.type));
}

/* Against the CPU; again, and each sample alone, with the same bytes. whole: the gradient is one kernel. Then with as much shared memory as every
 * GPU has, which is enough for it with `small`. */
static void check(struct problem p, int whole, int small)
{
	struct problem real = p;
	struct pass want, got, again;
	const int f32 = p.type == DT_F32;
	int two;

	real.type = DT_F32;
	want = pass_new(&real);
	got = pass_new(&p);
	pass_run(&want, flavour_kernels()[OP_ATTENTION], flavour_kernels()[OP_ATTENTION_GRAD], 0, p.samples);
	two = pass_run(&got, &kernel_attention_cuda, &kernel_attention_grad_cuda, 0, p.samples);
	assert_true(!&emulated_shared_limit || two == !whole);
	close_to(&got, &want, O, f32 ? 1e-5 : 0x1p-8);
	for (int i = DQ; i < ARRAYS; i++)
		close_to(&got, &want, i, f32 ? 2e-5 : 0x1p-7);
	again = pass_new(&p);
	if (p.samples == 1)
		pass_run(&again, &kernel_attention_cuda, &kernel_attention_grad_cuda, 0, 1);
	for (int64_t b = 0; p.samples > 1 && b < p.samples; b++)
		pass_run(&again, &kernel_attention_cuda, &kernel_attention_grad_cuda, b, 1);
	same_bytes(&got, &again);
	if (whole && &emulated_shared_limit) {
		size_t limit = emulated_shared_limit;

		emulated_shared_limit = 99 << 10;
		two = pass_run(&again, NULL, &kernel_attention_grad_cuda, 0, p.samples);
		emulated_shared_limit = limit;
		assert_int_equal(two, !small);
		for (int i = DQ; i < ARRAYS; i++)
			close_to(&again, &want, i, f32 ? 2e-5 : 0x1p-7);
	}
	pass_free(&want);
	pass_free(&got);
	pass_free(&again);
}

/* The widths of tiles, with numbers of tokens on both sides of the limits. */
static void half(void **state)
{
	static const struct {
		int64_t samples, t, s, heads, d;
		int whole, small;
	} cases[] = {
	    {3, 1, 1, 2, 32, 1, 1},     {2, 16, 16, 2, 64, 1, 1},    {2, 77, 77, 2, 72, 1, 1},   {1, 77, 77, 1, 128, 1, 0},
	    {1, 128, 128, 1, 72, 1, 1}, {1, 200, 200, 2, 72, 1, 0},  {1, 256, 256, 1, 32, 1, 0}, {2, 256, 256, 1, 64, 1, 0},
	    {1, 256, 256, 2, 72, 1, 0}, {1, 257, 257, 1, 72, 0, 0},  {1, 300, 77, 1, 72, 1, 1},  {1, 40, 257, 1, 64, 0, 0},
	    {1, 129, 129, 1, 64, 1, 0}, {1, 129, 129, 1, 96, 0, 0},  {1, 64, 128, 2, 96, 1, 0},  {1, 30, 20, 2, 40, 1, 1},
	    {1, 30, 20, 2, 80, 1, 0},   {1, 200, 200, 1, 128, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		check((struct problem){DT_BF16, cases[i].samples, cases[i].t, cases[i].s, cases[i].heads, cases[i].d, 0, 1, PLAIN}, cases[i].whole,
		      cases[i].small);
}

static void causal(void **state)
{
	(void)state;
	check((struct problem){DT_BF16, 1, 200, 200, 1, 72, 1, 1, PLAIN}, 1, 0);
	check((struct problem){DT_BF16, 2, 77, 77, 1, 64, 1, 1, PLAIN}, 1, 1);
	check((struct problem){DT_BF16, 1, 40, 150, 1, 32, 1, 1, PLAIN}, 1, 0);
	check((struct problem){DT_F32, 1, 100, 70, 1, 64, 1, 1, PLAIN}, 1, 0);
}

static void full(void **state)
{
	(void)state;
	check((struct problem){DT_F32, 2, 16, 16, 2, 32, 0, 1, PLAIN}, 1, 0);
	check((struct problem){DT_F32, 1, 77, 77, 2, 72, 0, 1, PLAIN}, 1, 0);
	check((struct problem){DT_F32, 1, 128, 128, 1, 64, 0, 1, PLAIN}, 1, 0);
	check((struct problem){DT_F32, 1, 129, 129, 1, 64, 0, 1, PLAIN}, 0, 0);
	check((struct problem){DT_F32, 1, 1, 20, 1, 128, 0, 1, PLAIN}, 0, 0);
}

/* A bias, key lengths of samples, and rows that are no whole words. */
static void biased(void **state)
{
	(void)state;
	check((struct problem){DT_BF16, 2, 70, 77, 2, 72, 0, 1, MASKED}, 1, 1);
	check((struct problem){DT_BF16, 1, 130, 200, 1, 64, 0, 1, MASKED}, 1, 0);
	check((struct problem){DT_BF16, 1, 90, 90, 1, 72, 1, 0, BIASED}, 1, 1);
	check((struct problem){DT_BF16, 1, 60, 140, 1, 70, 0, 0, PLAIN}, 1, 0);
	check((struct problem){DT_BF16, 1, 40, 40, 1, 101, 0, 0, BIASED}, 1, 0);
	check((struct problem){DT_F32, 2, 40, 70, 1, 72, 0, 0, BIASED}, 1, 0);
	check((struct problem){DT_F32, 2, 40, 70, 1, 33, 0, 1, MASKED}, 1, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(half), cmocka_unit_test(causal), cmocka_unit_test(full), cmocka_unit_test(biased)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
