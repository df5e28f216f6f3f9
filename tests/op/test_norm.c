/* NORM and NORM_GRAD. Float: mean and variance of C values in 32 lanes have errors of a few ulp, and y has five more roundings: 2e-6 of the largest
 * value. A gradient is a sum of up to 64 rows in order: 1e-5. */
#include "tests/op/optest.h"

#include <math.h>
#include <string.h>

static void ref_norm(const struct op_call *c)
{
	const struct array *x = &c->in[0];
	int64_t i[ARRAY_RANK] = {0}, n = x->shape[x->rank - 1];
	double *stats = c->out[1].data;

	do {
		double mean = 0, var = 0, rstd;
		int64_t j[ARRAY_RANK];

		memcpy(j, i, sizeof j);
		for (j[x->rank - 1] = 0; j[x->rank - 1] < n && c->attr.norm.kind == NORM_LAYER; j[x->rank - 1]++)
			mean += *element(x, j) / (double)n;
		for (j[x->rank - 1] = 0; j[x->rank - 1] < n; j[x->rank - 1]++)
			var += (*element(x, j) - mean) * (*element(x, j) - mean) / (double)n;
		rstd = 1 / sqrt(var + c->attr.norm.eps);
		if (!i[x->rank - 1]) {
			*stats++ = mean;
			*stats++ = rstd;
		}
		*element(&c->out[0], i) =
		    (*element(x, i) - mean) * rstd * (c->in[1].data ? *element(&c->in[1], i) + (double)c->attr.norm.one_plus : 1) +
		    (c->in[2].data ? *element(&c->in[2], i) : 0);
	} while (index_next(x, i));
}

/* scale and shift: absent, per channel, per sample and channel, neither broadcast, or different from each other. */
static const struct {
	int rank;
	int64_t shape[ARRAY_RANK];
	int scale, shift;
	unsigned scale_bcast, shift_bcast;
	int64_t kind, plus_one;
} cases[] = {
    {3, {3, 5, 24}, 0, 0, 0, 0, NORM_LAYER, 0},   {3, {3, 5, 24}, 1, 1, 2, 2, NORM_LAYER, 1}, {3, {3, 5, 37}, 1, 1, 3, 3, NORM_LAYER, 0},
    {3, {2, 131, 9}, 1, 1, 2, 2, NORM_LAYER, 1},  {3, {3, 70, 9}, 1, 1, 3, 3, NORM_RMS, 0},   {3, {3, 5, 7}, 1, 1, 0, 0, NORM_LAYER, 1},
    {3, {3, 5, 33}, 1, 0, 3, 0, NORM_RMS, 0},     {3, {3, 5, 33}, 0, 1, 0, 2, NORM_LAYER, 0}, {3, {3, 6, 11}, 1, 1, 1, 2, NORM_LAYER, 1},
    {4, {2, 3, 4, 8}, 1, 1, 5, 5, NORM_LAYER, 0}, {4, {2, 3, 4, 8}, 1, 1, 2, 5, NORM_RMS, 1}, {2, {4, 65}, 1, 1, 1, 1, NORM_LAYER, 0},
    {2, {4, 2}, 1, 1, 0, 0, NORM_LAYER, 1},       {1, {50}, 1, 1, 0, 0, NORM_LAYER, 1},
};

static void make(size_t k, struct optest *t)
{
	struct operand x = {.rank = cases[k].rank, .batch = cases[k].rank > 1, .shift = .5};

	memcpy(x.shape, cases[k].shape, sizeof x.shape);
	*t = (struct optest){.name = "NORM",
	                     .op = OP_NORM,
	                     .attr.norm = {cases[k].kind, cases[k].plus_one, 1e-5},
	                     .nin = 3,
	                     .nout = 2,
	                     .in = {x},
	                     .out = {x, x},
	                     .ref = ref_norm,
	                     .tol32 = 2e-6,
	                     .tol64 = 1e-14,
	                     .samples = x.batch};
	t->out[1].shape[x.rank - 1] = 2;
	t->out[1].dense = 1;
	if (cases[k].scale) {
		t->in[1] = x;
		t->in[1].bcast = cases[k].scale_bcast;
		t->in[1].batch = x.batch && !(cases[k].scale_bcast & 1);
	}
	if (cases[k].shift) {
		t->in[2] = x;
		t->in[2].bcast = cases[k].shift_bcast;
		t->in[2].batch = x.batch && !(cases[k].shift_bcast & 1);
	}
}

static void values(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct optest t;

		make(k, &t);
		optest_run(&t);
	}
}

/* A large mean must not destroy the variance: x = 1000 + N(0, 1) in float has errors of 3e-5 of its deviation. */
static void large_mean(void **state)
{
	struct optest t;

	(void)state;
	make(0, &t);
	t.in[0].shift = 1000;
	t.tol32 = 2e-4;
	t.tol64 = 1e-12;
	optest_run(&t);
}

/* The operand as an output that is summed over its broadcast dimensions. */
static struct operand summed(const struct operand *o)
{
	struct operand s = {.rank = o->rank};

	for (int d = 0; d < o->rank; d++)
		s.shape[d] = o->bcast >> d & 1 ? 1 : o->shape[d];
	return s;
}

/* Two values always become -1 and 1: the gradient is the difference of terms that are 1e5 times as large. */
static int x_is_a_pair(const struct optest *t)
{
	return t->in[0].shape[t->in[0].rank - 1] == 2;
}

static void gradients(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
		for (int acc = 0; acc < 2; acc++) {
			struct optest fwd, back;

			if (k == 3 && acc)
				continue;
			make(k, &fwd);
			if (k == 3)
				fwd.in[0].shape[1] = fwd.in[1].shape[1] = fwd.in[2].shape[1] = fwd.out[0].shape[1] = fwd.out[1].shape[1] = 67;
			back = (struct optest){.name = "NORM_GRAD",
			                       .op = OP_NORM_GRAD,
			                       .attr = fwd.attr,
			                       .nin = 5,
			                       .nout = 3,
			                       .in = {fwd.in[0], fwd.in[0], fwd.out[1], fwd.in[1]},
			                       .out = {fwd.in[0]},
			                       .tol32 = 1e-5,
			                       .tol64 = 1e-12};
			back.in[0].shift = 0;
			if (x_is_a_pair(&fwd))
				back.tol32 = 2e-3;
			if (acc) {
				back.in[4] = fwd.in[0];
				back.in_place = 5;
			}
			back.out[1] = summed(&fwd.in[1]);
			back.out[2] = summed(&fwd.in[2]);
			optest_gradient(&fwd, &back, (int[OP_IN]){FROM_DY, FROM_IN, FROM_OUT + 1, FROM_IN + 1}, (int[OP_OUT]){0, 1, 2}, acc ? 5 : 0,
			                1e-8);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(values),
	    cmocka_unit_test(large_mean),
	    cmocka_unit_test(gradients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
