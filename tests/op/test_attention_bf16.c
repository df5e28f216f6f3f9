/* Attention with bf16 products, and its gradient: near the float kernels, with the same bits for any pool, batch and set of instructions but AMX, for
 * causal masks, biases, cross-attention and sequences that are computed in parts. The outputs and the scratch hold NaN before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/shortfloat.h"
#include "kernels/compact.h"
#include "kernels/device.h"

enum { GUARD = 64, INPUTS = 4, OUTPUTS = 5 /* o, dq, dk, dv; lse */ };

struct shape {
	int64_t b, t, s, heads, d;
	int causal, biased;
};

static const struct shape shapes[] = {
    {3, 5, 5, 2, 8, 0, 0},    {2, 1, 1, 1, 8, 0, 0},    {2, 7, 13, 3, 24, 0, 1},    {2, 33, 17, 2, 12, 0, 0},  {1, 300, 300, 1, 8, 0, 1},
    {2, 96, 96, 2, 64, 0, 0}, {1, 3, 2100, 1, 8, 0, 0}, {1, 200, 2100, 1, 8, 0, 1}, {2, 9, 9, 2, 8, 1, 1},     {1, 700, 700, 1, 16, 1, 0},
    {2, 70, 70, 2, 72, 1, 0}, {70, 4, 4, 2, 8, 0, 0},   {2, 40, 77, 2, 5, 0, 1},    {1, 530, 40, 1, 33, 0, 0},
};

/* The operands of both ops: q, k, v, dy, bias; then o, dq, dk, dv, lse. Queries, keys and values of a token lie in one row, as a linear layer leaves
 * them. */
struct problem {
	struct shape n;
	struct array in[INPUTS], bias, out[OUTPUTS];
	float *memory[INPUTS + OUTPUTS + 1];
};

static float *numbers(int64_t n, uint64_t seed, float scale)
{
	float *x = mem_alloc((size_t)n * sizeof *x);

	rng_normal(x, (size_t)n, seed, RNG_TEST, 0, 0);
	for (int64_t i = 0; i < n; i++)
		x[i] *= scale;
	return x;
}

static struct array heads_of(float *x, int64_t b, int64_t t, int64_t heads, int64_t d, int64_t row)
{
	return (struct array){x, DT_F32, 4, {b, t, heads, d}, {t * row, row, d, 1}};
}

static float *nans(int64_t n)
{
	float *x = mem_alloc((size_t)n * sizeof *x);

	for (int64_t i = 0; i < n; i++)
		x[i] = NAN;
	return x;
}

static void problem_init(struct problem *p, const struct shape *n)
{
	int64_t t = n->b * n->t * n->heads * n->d, s = n->b * n->s * n->heads * n->d, row = n->heads * n->d;
	int64_t size[OUTPUTS] = {t, t, s, s, n->b * n->heads * n->t};

	*p = (struct problem){.n = *n};
	for (int i = 0; i < INPUTS; i++) {
		int query = i == 0 || i == 3;

		p->memory[i] = numbers(query ? t : s, (uint64_t)i + 1, 1.5f);
		p->in[i] = heads_of(p->memory[i], n->b, query ? n->t : n->s, n->heads, n->d, row);
	}
	p->memory[INPUTS] = numbers(n->heads * n->t * n->s, 7, 2);
	p->bias = (struct array){p->memory[INPUTS], DT_F32, 4, {n->b, n->heads, n->t, n->s}, {0, n->t * n->s, n->s, 1}};
	for (int i = 0; i < OUTPUTS; i++) {
		p->memory[INPUTS + 1 + i] = nans(size[i]);
		p->out[i] = heads_of(p->memory[INPUTS + 1 + i], n->b, i < 2 ? n->t : n->s, n->heads, n->d, row);
	}
	p->out[4] = (struct array){p->memory[INPUTS + OUTPUTS], DT_F32, 3, {n->b, n->heads, n->t}, {n->heads * n->t, n->t, 1}};
}

static void problem_release(struct problem *p)
{
	for (int i = 0; i < INPUTS + OUTPUTS + 1; i++)
		mem_free(p->memory[i]);
}

static void run(struct device *d, enum op op, struct op_call *c)
{
	size_t bytes = device_scratch(d, op, c);
	char *scratch = mem_try(bytes + GUARD, 1, "test", NULL);

	memset(scratch, 0xff, bytes);
	memset(scratch + bytes, 0x5a, GUARD);
	device_run(d, op, c, scratch);
	for (int i = 0; i < GUARD; i++)
		assert_int_equal(scratch[bytes + (size_t)i], 0x5a);
	mem_free(scratch);
}

/* Both ops, in float with isa < 0. */
static void solve(struct problem *p, int isa, int threads)
{
	struct pool *pool = threads > 1 ? pool_new(threads, 0) : NULL;
	struct device *d = device_cpu(pool, DT_F32);
	struct op_call c = {.nin = p->n.biased ? 4 : 3, .nout = 2, .attr.attention = {p->n.causal, 1 / sqrt((double)p->n.d)}};

	d->bf16_products = isa >= 0;
	d->bf16_isa = isa;
	memcpy(c.in, p->in, 3 * sizeof *c.in);
	c.in[3] = p->bias;
	c.out[0] = p->out[0];
	c.out[1] = p->out[4];
	run(d, OP_ATTENTION, &c);
	c.nin = p->n.biased ? 7 : 6;
	c.nout = 3;
	c.in[0] = p->in[3];
	memcpy(c.in + 1, p->in, 3 * sizeof *c.in);
	c.in[4] = p->out[0];
	c.in[5] = p->out[4];
	c.in[6] = p->bias;
	memcpy(c.out, p->out + 1, 3 * sizeof *c.out);
	run(d, OP_ATTENTION_GRAD, &c);
	device_free(d);
	pool_free(pool);
}

static int64_t elements(const struct array *a)
{
	return a->rank == 3 ? a->shape[0] * a->shape[1] * a->shape[2] : a->shape[0] * a->shape[1] * a->shape[2] * a->shape[3];
}

static void same(const struct problem *a, const struct problem *b)
{
	for (int i = 0; i < OUTPUTS; i++)
		assert_memory_equal(a->out[i].data, b->out[i].data, (size_t)elements(&a->out[i]) * sizeof(float));
}

static int sets(int isa[3])
{
	int n = 0;

	isa[n++] = COMPACT_PORTABLE;
	if (compact_isa_pairwise() != COMPACT_PORTABLE)
		isa[n++] = (int)compact_isa_pairwise();
	if (compact_isa() == COMPACT_AMX)
		isa[n++] = COMPACT_AMX;
	return n;
}

/* Scores of up to about 9 are sums of products of rounded factors, each wrong by at most 2^-8 of itself, so a weight is wrong by at most some 3.5% of
 * itself. No output is further off than that part of the largest one. The errors are independent: .3 to 1.5% in the root mean square. */
static void near_float(const struct problem *x, const struct problem *f, int *rounded)
{
	for (int i = 0; i < OUTPUTS; i++) {
		const float *a = x->out[i].data, *b = f->out[i].data;
		double error = 0, size = 0, worst = 0, largest = 0;
		int64_t n = elements(&x->out[i]);

		for (int64_t j = 0; j < n; j++) {
			double miss = (double)a[j] - b[j];

			assert_true(isfinite(a[j]));
			error += miss * miss;
			size += (double)b[j] * b[j];
			worst = fmax(worst, fabs(miss));
			largest = fmax(largest, fabs(b[j]));
		}
		if (largest > 1e-6) { /* with one key the scores have no gradient */
			assert_true(sqrt(error / size) < .02);
			assert_true(worst < .035 * largest);
		}
		*rounded += error > 1e-9 * size;
	}
}

static void products_are_rounded(void **state)
{
	int isa[3], count = sets(isa), rounded = 0;

	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct problem exact;

		problem_init(&exact, &shapes[i]);
		solve(&exact, -1, 1);
		for (int k = 0; k < count; k++) {
			struct problem one, other;

			problem_init(&one, &shapes[i]);
			solve(&one, isa[k], 1);
			near_float(&one, &exact, &rounded);
			problem_init(&other, &shapes[i]);
			solve(&other, isa[k] == COMPACT_AMX ? COMPACT_AMX : COMPACT_PORTABLE, 1 + 2 * (int)(i % 3));
			same(&one, &other);
			problem_release(&one);
			problem_release(&other);
		}
		problem_release(&exact);
	}
	assert_true(rounded > (int)(sizeof shapes / sizeof *shapes));
}

/* The last sample of a batch by itself. */
static void samples_are_independent(void **state)
{
	int isa[3], count = sets(isa);

	(void)state;
	for (int k = 0; k < count; k++) {
		struct problem all, one;
		struct shape alone;

		problem_init(&all, &shapes[2]);
		solve(&all, isa[k], 2);
		alone = shapes[2];
		alone.b = 1;
		problem_init(&one, &alone);
		for (int i = 0; i < INPUTS; i++)
			memcpy(one.in[i].data, (const float *)all.in[i].data + all.in[i].stride[0], (size_t)elements(&one.in[i]) * sizeof(float));
		solve(&one, isa[k], 1);
		for (int i = 0; i < OUTPUTS; i++)
			assert_memory_equal(one.out[i].data, (const float *)all.out[i].data + all.out[i].stride[0],
			                    (size_t)elements(&one.out[i]) * sizeof(float));
		problem_release(&all);
		problem_release(&one);
	}
}

/* Store an operand in bf16. */
static void shorten(struct array *a, float **memory)
{
	int64_t n = elements(a);
	uint16_t *v = mem_alloc((size_t)n * sizeof(float));

	for (int64_t i = 0; i < n; i++)
		v[i] = f32_to_bf16((*memory)[i]);
	mem_free(*memory);
	*memory = (float *)(void *)v;
	a->data = v;
	a->dtype = DT_BF16;
}

/* q, k, v, dy, o, dq, dk and dv in bf16: each alone, and all of them. Inputs are rounded anyway, and outputs are those in float, rounded once. */
static void storing_bf16_changes_no_other_bits(void **state)
{
	int isa[3], count = sets(isa);

	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		for (int k = 0; k < count; k++)
			for (int alone = 0; alone <= INPUTS + OUTPUTS - 1; alone++) {
				unsigned stored = alone < INPUTS + OUTPUTS - 1 ? 1u << alone : 255;
				struct problem plain, other;

				problem_init(&plain, &shapes[i]);
				problem_init(&other, &shapes[i]);
				for (int j = 0; j < INPUTS; j++)
					if (stored >> j & 1)
						shorten(&other.in[j], &other.memory[j]);
				for (int j = 0; j < OUTPUTS - 1; j++)
					if (stored >> (INPUTS + j) & 1)
						shorten(&other.out[j], &other.memory[INPUTS + 1 + j]);
				solve(&plain, isa[k], 1);
				solve(&other, isa[k], 1 + alone % 3);
				for (int j = 0; j < OUTPUTS; j++) {
					const float *want = plain.out[j].data;
					const uint16_t *got = other.out[j].data;

					if (other.out[j].dtype != DT_BF16)
						assert_memory_equal(other.out[j].data, want, (size_t)elements(&plain.out[j]) * sizeof *want);
					for (int64_t v = 0; other.out[j].dtype == DT_BF16 && v < elements(&plain.out[j]); v++)
						assert_int_equal(got[v], f32_to_bf16(want[v]));
				}
				problem_release(&plain);
				problem_release(&other);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_rounded), cmocka_unit_test(samples_are_independent),
	                                   cmocka_unit_test(storing_bf16_changes_no_other_bits)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
