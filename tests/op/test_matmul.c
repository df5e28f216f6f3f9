/* MATMUL. Float: K fused products in order have errors below K / 2 ulp of the sum of their sizes; 4e-6 of the largest value for these K. */
#include "tests/op/optest.h"

#include <string.h>

static void ref_matmul(const struct op_call *c)
{
	const struct array *y = &c->out[0];
	int r = y->rank, ta = c->attr.matmul.ta, tb = c->attr.matmul.tb;
	int64_t i[ARRAY_RANK] = {0}, n = c->in[0].shape[ta ? r - 2 : r - 1];

	do {
		int64_t a[ARRAY_RANK], b[ARRAY_RANK];
		double sum = 0;

		memcpy(a, i, sizeof a);
		memcpy(b, i, sizeof b);
		a[ta ? r - 1 : r - 2] = i[r - 2];
		b[tb ? r - 2 : r - 1] = i[r - 1];
		for (int64_t k = 0; k < n; k++) {
			a[ta ? r - 2 : r - 1] = b[tb ? r - 1 : r - 2] = k;
			sum += *element(&c->in[0], a) * *element(&c->in[1], b);
		}
		*element(y, i) = c->attr.matmul.alpha * sum;
	} while (index_next(y, i));
}

static void products(void **state)
{
	static const struct {
		int batch_rank;
		int64_t g[3], m, n, k;
		unsigned bcast;
	} cases[] = {
	    {0, {0}, 5, 7, 3, 0},       {0, {0}, 1, 1, 1, 0},     {0, {0}, 130, 70, 33, 0}, {1, {3}, 5, 7, 11, 0},
	    {1, {12}, 9, 20, 17, 0},    {2, {3, 4}, 6, 5, 19, 0}, {2, {3, 4}, 6, 5, 19, 1}, {2, {2, 2}, 3, 1, 8, 2},
	    {3, {2, 3, 2}, 4, 5, 6, 4}, {0, {0}, 3, 4, 500, 0},   {1, {20}, 70, 66, 64, 0},
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
		for (int trans = 0; trans < 4; trans++) {
			struct optest t = {.name = "MATMUL",
			                   .op = OP_MATMUL,
			                   .attr.matmul = {trans & 1, trans >> 1, .5},
			                   .nin = 2,
			                   .nout = 1,
			                   .ref = ref_matmul,
			                   .tol32 = 4e-6,
			                   .tol64 = 1e-14};
			int r = cases[k].batch_rank;

			t.in[0].rank = t.in[1].rank = t.out[0].rank = r + 2;
			for (int d = 0; d < r; d++)
				t.in[0].shape[d] = t.in[1].shape[d] = t.out[0].shape[d] = cases[k].g[d];
			t.in[0].shape[r + (trans & 1)] = t.out[0].shape[r] = cases[k].m;
			t.in[0].shape[r + !(trans & 1)] = t.in[1].shape[r + (trans >> 1)] = cases[k].k;
			t.in[1].shape[r + !(trans >> 1)] = t.out[0].shape[r + 1] = cases[k].n;
			t.in[1].bcast = cases[k].bcast;
			t.samples = t.in[0].batch = t.out[0].batch = r > 0;
			t.in[1].batch = r > 0 && !(cases[k].bcast & 1);
			optest_run(&t);
			t.attr.matmul.alpha = 0;
			if (!k)
				optest_run(&t);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(products)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
