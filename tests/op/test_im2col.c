/* IM2COL is exact; COL2IM adds at most k k = 25 terms in a fixed order: 3e-6. */
#include "tests/op/optest.h"

#include <string.h>

static int64_t size_out(int64_t n, const struct op_attr *a)
{
	return (n + 2 * a->i[2] - a->i[0]) / a->i[1] + 1;
}

/* Index of the pixel that patch element y refers to; 0 outside the picture. */
static int pixel(const struct op_attr *a, const struct array *x, const int64_t y[ARRAY_RANK], int64_t at[ARRAY_RANK])
{
	int64_t k = a->i[0], wo = size_out(x->shape[3], a);

	at[0] = y[0];
	at[1] = y[2] / (k * k);
	at[2] = y[1] / wo * a->i[1] - a->i[2] + y[2] / k % k;
	at[3] = y[1] % wo * a->i[1] - a->i[2] + y[2] % k;
	return at[2] >= 0 && at[2] < x->shape[2] && at[3] >= 0 && at[3] < x->shape[3];
}

static void ref_im2col(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0}, at[ARRAY_RANK];

	do
		*element(&c->out[0], i) = pixel(&c->attr, &c->in[0], i, at) ? *element(&c->in[0], at) : 0;
	while (index_next(&c->out[0], i));
}

static void ref_col2im(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0}, at[ARRAY_RANK];

	memset(c->out[0].data, 0, (size_t)array_count(&c->out[0]) * sizeof(double));
	do
		if (pixel(&c->attr, &c->out[0], i, at))
			*element(&c->out[0], at) += *element(&c->in[0], i);
	while (index_next(&c->in[0], i));
}

static void patches(void **state)
{
	static const int64_t cases[][7] = { /* B C H W k step pad */
	    {2, 3, 6, 7, 3, 1, 1}, {1, 1, 1, 1, 1, 1, 0}, {1, 1, 1, 1, 3, 1, 1}, {2, 20, 5, 5, 3, 2, 1}, {1, 2, 9, 8, 5, 3, 2},
	    {3, 4, 8, 8, 2, 2, 0}, {2, 17, 12, 12, 3, 1, 1}, {1, 2, 4, 4, 3, 1, 3}, {1, 2, 5, 5, 1, 2, 2},
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		const int64_t *n = cases[k];
		struct op_attr attr = {{n[4], n[5], n[6]}, {0}};
		struct operand x = {.rank = 4, .shape = {n[0], n[1], n[2], n[3]}, .dense = 1, .batch = 1};
		struct operand y = {.rank = 3, .shape = {n[0], size_out(n[2], &attr) * size_out(n[3], &attr), n[1] * n[4] * n[4]},
		                    .dense = 1, .batch = 1};
		struct optest t = {.name = "IM2COL", .op = OP_IM2COL, .attr = attr, .nin = 1, .nout = 1, .in = {x}, .out = {y},
		                   .ref = ref_im2col, .tol32 = 1e-300, .tol64 = 1e-300, .samples = 1};
		struct optest back = {.name = "COL2IM", .op = OP_COL2IM, .attr = attr, .nin = 1, .nout = 1, .in = {y}, .out = {x},
		                      .ref = ref_col2im, .tol32 = 3e-6, .tol64 = 1e-14, .samples = 1};

		optest_run(&t);
		optest_run(&back);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(patches)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
