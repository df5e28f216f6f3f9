/* COPY and FILL: exact. */
#include "tests/op/optest.h"

#include <string.h>

#include "core/mem.h"
#include "core/rng.h"

static void ref_copy(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0};

	do
		*element(&c->out[0], i) = *element(&c->in[0], i);
	while (index_next(&c->out[0], i));
}

static void ref_fill(const struct op_call *c)
{
	int64_t i[ARRAY_RANK] = {0};

	do
		*element(&c->out[0], i) = c->attr.fill.value;
	while (index_next(&c->out[0], i));
}

static void copies_and_fills(void **state)
{
	static const struct {
		int rank;
		int64_t shape[ARRAY_RANK];
		unsigned bcast;
	} shapes[] = {
	    {1, {1}, 0},
	    {1, {5}, 0},
	    {1, {50000}, 0},
	    {2, {7, 5}, 0},
	    {2, {7, 5}, 1},
	    {2, {7, 5}, 2},
	    {3, {3, 1, 5}, 0},
	    {3, {4, 37, 33}, 0},
	    {2, {171, 233}, 0},
	    {6, {2, 3, 2, 3, 2, 5}, 0},
	    {6, {2, 3, 2, 3, 2, 5}, 9},
	};

	(void)state;
	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
		struct operand o = {.rank = shapes[s].rank, .free = 1};
		struct optest t = {.name = "COPY", .op = OP_COPY, .nin = 1, .nout = 1, .ref = ref_copy};
		struct optest f = {.name = "FILL", .op = OP_FILL, .attr.fill = {1.25}, .nout = 1, .ref = ref_fill};

		memcpy(o.shape, shapes[s].shape, sizeof o.shape);
		t.in[0] = t.out[0] = f.out[0] = o;
		t.in[0].bcast = shapes[s].bcast;
		t.tol32 = t.tol64 = 1e-300;
		f.tol32 = f.tol64 = 1e-300;
		optest_run(&t);
		optest_run(&f);
		t.in[0].free = 0; /* reverse only the output, then only the input */
		optest_run(&t);
		t.in[0].free = 1;
		t.out[0].free = 0;
		optest_run(&t);
	}
}

/* Every permutation of an array of rank 4, from a view of x to a dense y, as in patchify and the splitting of heads. */
static void permutes(void **state)
{
	const int64_t n[4] = {3, 4, 5, 6};
	float *x = mem_alloc(360 * sizeof *x), *y = mem_alloc(360 * sizeof *y);
	struct device *dev = device_cpu(NULL, DT_F32);

	(void)state;
	rng_normal(x, 360, 1, RNG_TEST, 0, 0);
	for (int p = 0; p < 256; p++) {
		int at[4] = {p & 3, p >> 2 & 3, p >> 4 & 3, p >> 6};
		struct op_call c = {.nin = 1, .nout = 1, .in = {{x, DT_F32, 4, {0}, {0}}}, .out = {{y, DT_F32, 4, {0}, {0}}}};
		const int64_t stride[4] = {120, 30, 6, 1};
		int64_t i[ARRAY_RANK] = {0}, step = 1, k = 0;

		if ((1 << at[0] | 1 << at[1] | 1 << at[2] | 1 << at[3]) != 15)
			continue;
		for (int d = 3; d >= 0; d--) {
			c.in[0].shape[d] = c.out[0].shape[d] = n[at[d]];
			c.in[0].stride[d] = stride[at[d]];
			c.out[0].stride[d] = step;
			step *= n[at[d]];
		}
		memset(y, 0xff, 360 * sizeof *y);
		dev->kernel[OP_COPY]->run(&c);
		do {
			int64_t o = 0;

			for (int d = 0; d < 4; d++)
				o += i[d] * c.in[0].stride[d];
			assert_true(y[k++] == x[o]);
		} while (index_next(&c.out[0], i));
	}
	device_free(dev);
	mem_free(x);
	mem_free(y);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(copies_and_fills),
	    cmocka_unit_test(permutes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
