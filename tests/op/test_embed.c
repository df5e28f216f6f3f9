/* EMBED and TIMESTEP. EMBED_GRAD in float adds all rows with the same index, at most 64 here: 8e-6. TIMESTEP reduces its argument in double: 2e-7
 * absolute for any t. */
#include "tests/op/optest.h"

#include <math.h>
#include <string.h>

static void ref_embed(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0};

	do
		*element(&c->out[0], i) = *element(&c->in[0], (int64_t[ARRAY_RANK]){index_value(&c->in[1], i[0]), i[1]});
	while (index_next(&c->out[0], i));
}

static void ref_embed_grad(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0};

	memset(c->out[0].data, 0, (size_t)array_count(&c->out[0]) * sizeof(double));
	do
		*element(&c->out[0], (int64_t[ARRAY_RANK]){index_value(&c->in[1], i[0]), i[1]}) += *element(&c->in[0], i);
	while (index_next(&c->in[0], i));
}

static void rows_of_a_table(void **state)
{
	static const int64_t cases[][3] = {{5, 7, 3}, {1, 1, 1}, {40, 3, 200}, {64, 9, 300}}; /* B, V, C */

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct operand table = {.rank = 2, .shape = {cases[k][1], cases[k][2]}};
		struct operand index = {.rank = 1, .shape = {cases[k][0]}, .limit = (int)cases[k][1], .batch = 1};
		struct operand y = {.rank = 2, .shape = {cases[k][0], cases[k][2]}, .batch = 1};
		struct optest t = {.name = "EMBED",
		                   .op = OP_EMBED,
		                   .nin = 2,
		                   .nout = 1,
		                   .in = {table, index},
		                   .out = {y},
		                   .ref = ref_embed,
		                   .tol32 = 1e-300,
		                   .tol64 = 1e-300,
		                   .samples = 1};
		struct optest back = {.name = "EMBED_GRAD",
		                      .op = OP_EMBED_GRAD,
		                      .nin = 2,
		                      .nout = 1,
		                      .in = {y, index},
		                      .out = {table},
		                      .ref = ref_embed_grad,
		                      .tol32 = 8e-6,
		                      .tol64 = 1e-14};

		if (k == 1)
			table.shape[1] = y.shape[1] = 1;
		optest_run(&t);
		optest_run(&back);
	}
}

static void ref_timestep(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0}, h = c->out[0].shape[1] / 2;

	do {
		int64_t k = i[1] % h;
		double a = c->attr.timestep.scale * *element(&c->in[0], i) * exp(-log(c->attr.timestep.max_period) * (double)k / (double)h);

		*element(&c->out[0], i) = i[1] < h ? cos(a) : sin(a);
	} while (index_next(&c->out[0], i));
}

static void timesteps(void **state)
{
	static const int64_t cases[][2] = {{5, 256}, {1, 2}, {40, 34}};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct optest t = {.name = "TIMESTEP",
		                   .op = OP_TIMESTEP,
		                   .attr.timestep = {10000, 1000},
		                   .nin = 1,
		                   .nout = 1,
		                   .in = {{.rank = 1, .shape = {cases[k][0]}, .batch = 1}},
		                   .out = {{.rank = 2, .shape = {cases[k][0], cases[k][1]}, .batch = 1}},
		                   .ref = ref_timestep,
		                   .tol32 = 4e-7,
		                   .tol64 = 1e-11,
		                   .samples = 1};

		optest_run(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rows_of_a_table),
	    cmocka_unit_test(timesteps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
