/* The CUDA kernels of attention, run with tests/op/emulate.h and the fragments of the PTX ISA, against the CPU's.
 *
 * Tolerances in float: products of three tf32 drop 2^-21; 1e-5 of the largest value, 2e-5 in the gradient, as on the CPU. In bfloat16 weights are
 * rounded before they are multiplied with v (2^-9 each, so at most 2^-9 of the largest value), and the result is rounded (2^-9): 2^-8 together.
 * In the gradient the rounded terms have both signs and cancel: 2^-7. */
#include "kernels/flavour.h"
#include "tests/op/twinattention.h"

#include <string.h>

#include "core/rng.h"
#include "core/shortfloat.h"

/* Every width of tile and its padding, lengths near those of the tiles on both sides, rows that cannot be read in words of 16 bytes. */
static const int64_t cases[][6] = {
    {1, 1, 1, 1, 32, 0},    {2, 17, 33, 2, 32, 0}, {1, 65, 130, 1, 64, 0}, {1, 130, 31, 1, 64, 1}, {1, 100, 150, 1, 64, 1}, {1, 37, 70, 2, 72, 0},
    {1, 40, 40, 1, 72, 1},  {1, 33, 65, 1, 96, 0}, {1, 48, 33, 1, 128, 1}, {1, 21, 70, 1, 128, 0}, {2, 16, 16, 1, 24, 0},   {1, 9, 40, 2, 5, 0},
    {1, 20, 20, 1, 101, 1}, {1, 7, 5, 2, 300, 0},  {2, 5, 6, 1, 160, 1},   {1, 1, 2, 1, 32, 0},
};

static void values(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		const int64_t *n = cases[k];
		struct optest t = attention_test(n[0], n[1], n[2], n[3], n[4], (int)n[5]);

		optest_twin(&t, &kernel_attention_cuda, 1e-5);
	}
}

static void gradients(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		const int64_t *n = cases[k];
		struct optest t = attention_test(n[0], n[1], n[2], n[3], n[4], (int)n[5]);

		attention_gradient(&t, 2e-5);
	}
}

/* Heads too wide for the tensor cores. Narrower ones are in test_emulated_attention_bias.c. */
static void masked_wide(void **state)
{
	(void)state;
	attention_masks(160);
}

/* Scores of several hundred, whose maximum changes from tile to tile. */
static void large_scores(void **state)
{
	struct optest t = attention_test(1, 20, 150, 1, 32, 0);

	(void)state;
	t.in[0].scale = t.in[1].scale = 12;
	optest_twin(&t, &kernel_attention_cuda, 1e-3);
	t.in[0].scale = t.in[1].scale = 4;
	attention_gradient(&t, 1e-3);
}

enum { B = 2, T = 70, HEADS = 2, ROW = 3 * HEADS * 128 + 8 };

/* Packed queries, keys and values: rows (3, heads, d) with a gap of NaN between them. */
struct packed {
	enum dtype type;
	int64_t d;
	void *data;
};

static struct packed packed_new(enum dtype type, int64_t d)
{
	struct packed p = {type, d, mem_alloc((size_t)(B * T * ROW) * dtype_size(type))};

	memset(p.data, 0xff, (size_t)(B * T * ROW) * dtype_size(type));
	return p;
}

static struct array part(const struct packed *p, int which)
{
	return (struct array){
	    (char *)p->data + (size_t)(which * HEADS * p->d) * dtype_size(p->type), p->type, 4, {B, T, HEADS, p->d}, {T * ROW, ROW, p->d, 1}};
}

static float packed_get(const struct packed *p, int64_t i)
{
	return p->type == DT_BF16 ? bf16_to_f32(((uint16_t *)p->data)[i]) : ((float *)p->data)[i];
}

static void packed_set(struct packed *p, int64_t i, float v)
{
	if (p->type == DT_BF16)
		((uint16_t *)p->data)[i] = f32_to_bf16(v);
	else
		((float *)p->data)[i] = v;
}

/* Fill the first `parts` thirds of every row of both with normal values that bfloat16 represents exactly. */
static void packed_fill(struct packed *x, struct packed *y, int parts, uint64_t seed)
{
	float z[ROW];

	for (int64_t r = 0; r < B * T; r++) {
		rng_normal(z, ROW, seed, RNG_TEST, 0, (uint64_t)r);
		for (int64_t i = 0; i < parts * HEADS * x->d; i++) {
			z[i] = bf16_to_f32(f32_to_bf16(z[i]));
			packed_set(x, r * ROW + i, z[i]);
			packed_set(y, r * ROW + i, z[i]);
		}
	}
}

/* The first `parts` thirds are within tol of the largest value; the rest is still NaN. */
static void packed_near(const struct packed *got, const struct packed *want, int parts, double tol)
{
	double top = 0, worst = 0;

	for (int64_t r = 0; r < B * T; r++)
		for (int64_t i = 0; i < ROW; i++) {
			float g = packed_get(got, r * ROW + i), w = packed_get(want, r * ROW + i);

			if (i >= parts * HEADS * got->d) {
				assert_true(isnan(g));
				continue;
			}
			assert_false(isnan(g));
			top = fmax(top, fabs((double)w));
			worst = fmax(worst, fabs((double)g - (double)w));
		}
	if (!(worst <= tol * top))
		fail_msg("d = %d: error %.3g of the largest value, %.3g allowed", (int)got->d, worst / top, tol);
}

struct pass {
	struct packed qkv, o, dy, grad;
	float lse[B * HEADS * T];
};

static void run(const struct kernel *k, struct op_call *c)
{
	size_t need = k->scratch ? k->scratch(c, 1) : 0;

	c->scratch = mem_alloc(need + 1);
	memset(c->scratch, 0xff, need + 1);
	optest_call(k, c);
	assert_int_equal(((unsigned char *)c->scratch)[need], 0xff);
	mem_free(c->scratch);
}

static void pass(struct pass *p, const struct kernel *there, const struct kernel *back, int causal)
{
	struct array q = part(&p->qkv, 0), k = part(&p->qkv, 1), v = part(&p->qkv, 2), o = part(&p->o, 0), dy = part(&p->dy, 0);
	struct array lse = {p->lse, DT_F32, 3, {B, HEADS, T}, {HEADS * T, T, 1}};
	struct op_call f = {.nin = 3, .nout = 2, .attr.attention = {causal, .1}, .in = {q, k, v}, .out = {o, lse}};
	struct op_call g = {
	    .nin = 6, .nout = 3, .attr = f.attr, .in = {dy, q, k, v, o, lse}, .out = {part(&p->grad, 0), part(&p->grad, 1), part(&p->grad, 2)}};

	run(there, &f);
	run(back, &g);
}

static void packed_as(enum dtype type, int64_t d, int causal)
{
	struct pass a, b;
	const int real = type != DT_BF16;

	a.qkv = packed_new(DT_F32, d), a.o = packed_new(DT_F32, d), a.dy = packed_new(DT_F32, d), a.grad = packed_new(DT_F32, d);
	b.qkv = packed_new(type, d), b.o = packed_new(type, d), b.dy = packed_new(type, d), b.grad = packed_new(type, d);
	packed_fill(&a.qkv, &b.qkv, 3, 1);
	packed_fill(&a.dy, &b.dy, 1, 2);
	pass(&a, flavour_kernels()[OP_ATTENTION], flavour_kernels()[OP_ATTENTION_GRAD], causal);
	pass(&b, &kernel_attention_cuda, &kernel_attention_grad_cuda, causal);
	packed_near(&b.o, &a.o, 1, real ? 1e-5 : 0x1p-8);
	packed_near(&b.grad, &a.grad, 3, real ? 2e-5 : 0x1p-7);
	for (int i = 0; i < B * HEADS * T; i++)
		assert_true(fabsf(a.lse[i] - b.lse[i]) < 3e-6f);
	mem_free(a.qkv.data), mem_free(a.o.data), mem_free(a.dy.data), mem_free(a.grad.data);
	mem_free(b.qkv.data), mem_free(b.o.data), mem_free(b.dy.data), mem_free(b.grad.data);
}

/* Both passes with the layout of a network: q, k, v lie in one array, and so do their gradients. */
static void packed_rows(void **state)
{
	(void)state;
	packed_as(DT_BF16, 32, 0);
	packed_as(DT_BF16, 64, 1);
	packed_as(DT_BF16, 72, 0);
	packed_as(DT_BF16, 96, 1);
	packed_as(DT_BF16, 128, 0);
	packed_as(DT_F32, 72, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(gradients), cmocka_unit_test(masked_wide),
	                                   cmocka_unit_test(large_scores), cmocka_unit_test(packed_rows)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
