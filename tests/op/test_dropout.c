/* DROPOUT: the mask comes from Philox, computed here independently; a value is one product. */
#include "tests/op/optest.h"

#include <math.h>

#include "core/mem.h"
#include "core/rng.h"

static void ref_dropout(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0}, n = 0, size = array_count(&c->out[0]) / c->out[0].shape[0];

	do {
		uint32_t word[4];
		int64_t at = n++ % size;

		rng_block(c->keys->seed, RNG_DROPOUT, c->keys->step, c->keys->first + (uint64_t)i[0], (uint32_t)(c->attr.dropout.lane + at / 4),
		          word);
		*element(&c->out[0], i) = (double)word[at % 4] * 0x1p-32 >= c->attr.dropout.p ? *element(&c->in[0], i) / (1 - c->attr.dropout.p) : 0;
	} while (index_next(&c->out[0], i));
}

static void drops(void **state)
{
	static const struct operand shapes[] = {
	    {.rank = 3, .shape = {3, 5, 7}, .batch = 1},
	    {.rank = 1, .shape = {5}, .batch = 1},
	    {.rank = 2, .shape = {4, 1}, .batch = 1},
	    {.rank = 4, .shape = {2, 3, 50, 90}, .batch = 1},
	};
	static const double rates[] = {0, .1, .5, 1};

	(void)state;
	for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
		for (size_t r = 0; r < 4; r++) {
			struct optest t = {.name = "DROPOUT",
			                   .op = OP_DROPOUT,
			                   .attr.dropout = {k ? 1000 : 0, rates[r]},
			                   .nin = 1,
			                   .nout = 1,
			                   .in = {shapes[k]},
			                   .out = {shapes[k]},
			                   .ref = ref_dropout,
			                   .tol32 = 2e-7,
			                   .tol64 = 1e-15,
			                   .in_place = 1,
			                   .samples = 1};

			if (rates[r] == 1) /* 0 / 0 in the reference */
				t.ref = NULL;
			optest_run(&t);
		}
}

static void ref_copy(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0};

	do
		*element(&c->out[0], i) = *element(&c->in[0], i);
	while (index_next(&c->out[0], i));
}

/* With keys that switch dropout off it is a copy. */
static void switched_off(void **state)
{
	static const double rates[] = {.3, 1};
	const struct operand x = {.rank = 3, .shape = {3, 5, 7}, .batch = 1};

	(void)state;
	for (int r = 0; r < 2; r++)
		optest_run(&(struct optest){.name = "DROPOUT",
		                            .op = OP_DROPOUT,
		                            .attr.dropout = {1000, rates[r]},
		                            .nin = 1,
		                            .nout = 1,
		                            .in = {x},
		                            .out = {x},
		                            .ref = ref_copy,
		                            .in_place = 1,
		                            .samples = 1,
		                            .no_dropout = 1});
}

/* The share of kept values is within 5 standard deviations, and they are scaled so that the mean stays. */
static void keeps_the_mean(void **state)
{
	enum { N = 40000 };
	struct operand x = {.rank = 2, .shape = {1, N}, .shift = 1, .scale = 1e-9};
	struct optest t = {.name = "DROPOUT", .op = OP_DROPOUT, .attr.dropout = {0, .3}, .nin = 1, .nout = 1, .in = {x}, .out = {x}};
	double *in[OP_IN] = {0}, *out[OP_OUT] = {0}, sum = 0;

	(void)state;
	optest_values(&t, in, out);
	for (int i = 0; i < N; i++)
		sum += out[0][i];
	assert_true(fabs(sum / N - 1) < 5 * sqrt(.3 / .7 / N));
	mem_free(in[0]);
	mem_free(out[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(drops),
	    cmocka_unit_test(switched_off),
	    cmocka_unit_test(keeps_the_mean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
