/* NORM and NORM_GRAD of CUDA with a gate, run with tests/op/emulate.h: the bits of GATE and NORM, and of NORM_GRAD and GATE_GRAD. Whole packs use the
 * kernels that compute both at once, other rows use one after the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/shortfloat.h"
#include "kernels/device.h"
#include "tests/op/optest.h"

extern const struct kernel kernel_norm_cuda, kernel_norm_grad_cuda, kernel_gate_cuda, kernel_gate_grad_cuda;

enum { GUARD = 64 };

static const struct {
	int64_t samples, rows, cols;
	int shared; /* the gate and the modulation are the same for all samples */
} shapes[] = {
    {2, 21, 40, 0}, {2, 37, 264, 0}, {3, 16, 1152, 0}, {1, 5, 1152, 1}, {2, 3, 2056, 0},
    {4, 1, 64, 0},  {3, 6, 11, 0},   {2, 3, 4104, 0},  {2, 50, 16, 1},
};

/* What the ops read and write. `row` arrays are [samples, rows, cols], modulations [samples or 1, 1, cols]. */
struct arrays {
	struct array x, h, scale, shift, gate, dy, acc;                 /* read */
	struct array s, y, stats, dx, dscale, dshift, dh, dg, *all[16]; /* written */
	int n;
};

static void add(struct arrays *a, struct array *x, enum dtype type, const int64_t shape[3], int key)
{
	int64_t n = shape[0] * shape[1] * shape[2];

	*x = (struct array){.dtype = type, .rank = 3, .shape = {shape[0], shape[1], shape[2]}, .stride = {shape[1] * shape[2], shape[2], 1}};
	x->data = mem_zalloc((size_t)n, dtype_size(type));
	for (int64_t i = 0; i < n; i++) {
		float v = key ? sinf((float)(i % 7919 * key)) + (key == 1 ? 3.f : 0.f) : NAN;

		if (type == DT_BF16)
			((uint16_t *)x->data)[i] = f32_to_bf16(v);
		else
			((float *)x->data)[i] = v;
	}
	a->all[a->n++] = x;
}

static void make(struct arrays *a, int which, enum dtype stream, enum dtype other)
{
	int64_t rows[3] = {shapes[which].samples, shapes[which].rows, shapes[which].cols}, stats[3] = {rows[0], rows[1], 2};
	int64_t mod[3] = {shapes[which].shared ? 1 : rows[0], 1, rows[2]};

	memset(a, 0, sizeof *a);
	add(a, &a->x, stream, rows, 1);
	add(a, &a->h, other, rows, 2);
	add(a, &a->scale, other, mod, 3);
	add(a, &a->shift, other, mod, 4);
	add(a, &a->gate, other, mod, 5);
	add(a, &a->dy, other, rows, 6);
	add(a, &a->acc, stream, rows, 7);
	add(a, &a->s, stream, rows, 0);
	add(a, &a->y, other, rows, 0);
	add(a, &a->stats, DT_F32, stats, 0);
	add(a, &a->dx, stream, rows, 0);
	add(a, &a->dscale, DT_F32, mod, 0);
	add(a, &a->dshift, DT_F32, mod, 0);
	add(a, &a->dh, other, rows, 0);
	add(a, &a->dg, DT_F32, mod, 0);
}

static struct array stretched(const struct array *mod, const struct array *x)
{
	struct array m = *mod;

	for (int d = 0; d < 2; d++)
		if (m.shape[d] != x->shape[d]) {
			m.shape[d] = x->shape[d];
			m.stride[d] = 0;
		}
	return m;
}

static void run(const struct kernel *k, struct op_call *c)
{
	size_t bytes = k->scratch ? k->scratch(c, 1) : 0;
	unsigned char *scratch = mem_alloc(bytes + GUARD);

	memset(scratch, 0xff, bytes + GUARD);
	c->scratch = scratch;
	optest_call(k, c);
	for (size_t i = bytes; i < bytes + GUARD; i++)
		assert_int_equal(scratch[i], 0xff);
	mem_free(scratch);
}

static void run_all(struct arrays *a, struct device *d, int gated)
{
	struct array scale = stretched(&a->scale, &a->x), shift = stretched(&a->shift, &a->x), gate = stretched(&a->gate, &a->x);
	struct op_attr attr = {.norm = {NORM_LAYER, 1, 1e-5}};
	struct op_call norm = {.nin = 5, .nout = 3, .in = {a->x, scale, shift, gate, a->h}, .out = {a->y, a->stats, a->s}, .attr = attr, .device = d};
	struct op_call back = {.nin = 7,
	                       .nout = 5,
	                       .in = {a->dy, a->s, a->stats, scale, a->acc, gate, a->h},
	                       .out = {a->dx, a->dscale, a->dshift, a->dh, a->dg},
	                       .attr = attr,
	                       .device = d};
	struct op_call first = {.nin = 3, .nout = 1, .in = {a->x, gate, a->h}, .out = {a->s}, .device = d};
	struct op_call last = {.nin = 3, .nout = 2, .in = {a->dx, gate, a->h}, .out = {a->dh, a->dg}, .device = d};

	if (!gated) {
		run(&kernel_gate_cuda, &first);
		norm.in[0] = a->s;
		norm.nin = back.nout = 3;
		norm.nout = 2;
		back.nin = 5;
	}
	run(&kernel_norm_cuda, &norm);
	run(&kernel_norm_grad_cuda, &back);
	if (!gated)
		run(&kernel_gate_grad_cuda, &last);
}

static void same_bits(void **state)
{
	static const enum dtype types[][2] = {{DT_F32, DT_F32}, {DT_F32, DT_BF16}, {DT_BF16, DT_BF16}};
	struct device d = {0};

	(void)state;
	for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++)
		for (int t = 0; t < 3; t++)
			for (d.processors = 0; d.processors <= 1 << 20; d.processors += 1 << 20) {
				struct arrays want, got;

				make(&want, i, types[t][0], types[t][1]);
				make(&got, i, types[t][0], types[t][1]);
				run_all(&want, &d, 0);
				run_all(&got, &d, 1);
				for (int k = 0; k < got.n; k++) {
					const struct array *a = got.all[k];

					if (memcmp(a->data, want.all[k]->data, (size_t)array_count(a) * dtype_size(a->dtype)))
						fail_msg("shape %d, types %d, %d processors: array %d has other bits", i, t, d.processors, k);
					for (int64_t j = 0; j < array_count(a); j++)
						assert_false(isnan(a->dtype == DT_BF16 ? bf16_to_f32(((const uint16_t *)a->data)[j])
						                                       : ((const float *)a->data)[j]));
				}
				for (int k = 0; k < got.n; k++) {
					mem_free(got.all[k]->data);
					mem_free(want.all[k]->data);
				}
			}
}

/* Without the gradients of the gate and the modulation, as where parameters are frozen. */
static void without_sums(void **state)
{
	struct device d = {0};

	(void)state;
	for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++) {
		struct arrays want, got, *both[] = {&want, &got};

		for (int k = 0; k < 2; k++) {
			void *data[3];
			struct array *sums[3] = {&both[k]->dscale, &both[k]->dshift, &both[k]->dg};

			make(both[k], i, DT_F32, DT_BF16);
			for (int s = 0; s < 3; s++) {
				data[s] = sums[s]->data;
				*sums[s] = (struct array){0};
			}
			run_all(both[k], &d, k);
			for (int s = 0; s < 3; s++)
				mem_free(data[s]);
		}
		assert_memory_equal(want.dx.data, got.dx.data, (size_t)array_count(&got.dx) * sizeof(float));
		assert_memory_equal(want.dh.data, got.dh.data, (size_t)array_count(&got.dh) * sizeof(uint16_t));
		for (int k = 0; k < got.n; k++) {
			mem_free(got.all[k]->data);
			mem_free(want.all[k]->data);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits), cmocka_unit_test(without_sums)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
