/* ATTENTION and its gradient on the GPU against the CPU in bfloat16, in the layout of a network: by our kernels, and by every configuration of
 * cuDNN. The same again, with the same bytes. */
#include "tests/cuda/remote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/shortfloat.h"
#include "core/str.h"
#include "kernels/cudnn.h"
#include "kernels/flavour.h"

extern const struct kernel kernel_attention_cuda, kernel_attention_grad_cuda;

static struct device *gpu;

/* Both passes: q, k and v in one array, and their gradients in another. */
struct pass {
	int64_t samples, tokens, heads, d, row;
	enum dtype type;
	void *qkv, *o, *dy, *grad;
	float *lse;
};

static void *values(const struct pass *a, int64_t n, int known, uint64_t seed)
{
	char *p = mem_alloc((size_t)n * dtype_size(a->type));
	float *z = mem_alloc((size_t)n * sizeof *z);

	memset(p, 0xff, (size_t)n * dtype_size(a->type));
	rng_normal(z, (size_t)n, seed, RNG_TEST, 0, 0);
	for (int64_t i = 0; known && i < n; i++)
		if (a->type == DT_BF16)
			((uint16_t *)(void *)p)[i] = f32_to_bf16(z[i]);
		else
			((float *)(void *)p)[i] = bf16_to_f32(f32_to_bf16(z[i]));
	mem_free(z);
	return p;
}

static struct pass pass_new(enum dtype type, const int64_t shape[4])
{
	struct pass a = {.samples = shape[0], .tokens = shape[1], .heads = shape[2], .d = shape[3], .row = shape[2] * shape[3], .type = type};
	int64_t n = a.samples * a.tokens * a.row;

	a.qkv = values(&a, 3 * n, 1, 1);
	a.o = values(&a, n, 0, 0);
	a.dy = values(&a, n, 1, 2);
	a.grad = values(&a, 3 * n, 0, 0);
	a.lse = mem_zalloc((size_t)(a.samples * a.heads * a.tokens), sizeof *a.lse);
	return a;
}

static void pass_free(struct pass *a)
{
	mem_free(a->qkv), mem_free(a->o), mem_free(a->dy), mem_free(a->grad), mem_free(a->lse);
}

/* Part `which` of rows of `parts`. */
static struct array part(const struct pass *a, void *p, int which, int parts)
{
	int64_t row = parts * a->row;

	return (struct array){(char *)p + (size_t)(which * a->row) * dtype_size(a->type),
	                      a->type,
	                      4,
	                      {a->samples, a->tokens, a->heads, a->d},
	                      {a->tokens * row, row, a->d, 1}};
}

static void pass_run(struct pass *a, const struct kernel *there, const struct kernel *back, struct device *d)
{
	struct array q = part(a, a->qkv, 0, 3), k = part(a, a->qkv, 1, 3), v = part(a, a->qkv, 2, 3), o = part(a, a->o, 0, 1),
		     dy = part(a, a->dy, 0, 1);
	struct array lse = {a->lse, DT_F32, 3, {a->samples, a->heads, a->tokens}, {a->heads * a->tokens, a->tokens, 1}};
	struct op_call c[2] = {
	    {.nin = 3, .nout = 2, .in = {q, k, v}, .out = {o, lse}},
	    {.nin = 6, .nout = 3, .in = {dy, q, k, v, o, lse}, .out = {part(a, a->grad, 0, 3), part(a, a->grad, 1, 3), part(a, a->grad, 2, 3)}}};

	for (int i = 0; i < 2; i++) {
		const struct kernel *run = i ? back : there;
		size_t need;

		c[i].attr.attention.scale = 1 / sqrt((double)a->d);
		c[i].device = d;
		need = run->scratch ? run->scratch(&c[i], 1) : 0;
		c[i].scratch = mem_zalloc(need + 1, 1);
		if (d)
			remote_run(run, &c[i]);
		else
			run->run(&c[i]);
		mem_free(c[i].scratch);
	}
}

/* The largest error over the largest value. */
static double error_of(const void *got, const void *want, int64_t n)
{
	double top = 0, worst = 0;

	for (int64_t i = 0; i < n; i++) {
		double x = (double)bf16_to_f32(((const uint16_t *)got)[i]), y = (double)((const float *)want)[i];

		if (!isfinite(x))
			return INFINITY;
		top = fmax(top, fabs(y));
		worst = fmax(worst, fabs(x - y));
	}
	return worst / top;
}

/* Add to ran[0] the forward passes and to ran[1] the gradients that have a plan of cuDNN's. */
static void count_ran(int ran[2])
{
	struct str s = {0};

	cudnn_log(gpu->cudnn, &s);
	for (const char *line = str_text(&s), *end; (end = strchr(line, '\n')); line = end + 1)
		if (end - line > 6 && !memcmp(end - 6, "\tcudnn", 6))
			ran[*line == 'g']++;
	str_release(&s);
}

/* Weights are rounded to bfloat16, by up to 2^-8 of the largest value, and so is the result: 2^-7; gradients have terms of both signs: 2^-6. Counts
 * what cuDNN computed in `ran`, if it is not NULL. */
static void shape_test(const int64_t shape[4], int ran[2])
{
	struct pass want = pass_new(DT_F32, shape);
	int64_t n = want.samples * want.tokens * want.row;

	pass_run(&want, flavour_kernels()[OP_ATTENTION], flavour_kernels()[OP_ATTENTION_GRAD], NULL);
	for (int config = 0; config <= (gpu->cudnn ? CUDNN_CONFIGS : 0); config++) {
		struct pass got = pass_new(DT_BF16, shape), again = pass_new(DT_BF16, shape);
		double o, grad;

		if (gpu->cudnn)
			cudnn_force(gpu->cudnn, config);
		pass_run(&got, &kernel_attention_cuda, &kernel_attention_grad_cuda, gpu);
		pass_run(&again, &kernel_attention_cuda, &kernel_attention_grad_cuda, gpu);
		if (ran)
			count_ran(ran);
		o = error_of(got.o, want.o, n);
		grad = error_of(got.grad, want.grad, 3 * n);
		if (!(o <= 0x1p-7 && grad <= 0x1p-6))
			fail_msg("%d tokens, width %d, configuration %d: errors of %.3g and %.3g of the largest value", (int)shape[1], (int)shape[3],
			         config, o, grad);
		for (int64_t i = 0; i < want.samples * want.heads * want.tokens; i++)
			assert_true(fabsf(got.lse[i] - want.lse[i]) < 1e-5f);
		assert_memory_equal(got.o, again.o, (size_t)n * 2);
		assert_memory_equal(got.grad, again.grad, (size_t)(3 * n) * 2);
		pass_free(&got);
		pass_free(&again);
	}
	if (gpu->cudnn)
		cudnn_force(gpu->cudnn, 0);
	pass_free(&want);
}

static void small(void **state)
{
	static const int64_t shapes[][4] = {{2, 1, 1, 32}, {2, 16, 2, 64}, {1, 77, 2, 72}, {4, 64, 1, 128}, {2, 130, 1, 72}};

	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		shape_test(shapes[i], NULL);
}

/* cuDNN computes both passes of a usual shape: the other tests pass without it. */
static void library_ran(void **state)
{
	static const int64_t shape[4] = {4, 256, 2, 64};
	int ran[2] = {0};

	(void)state;
	if (!gpu->cudnn) {
		printf("# skip: no cuDNN: %s\n", *gpu->no_cudnn ? gpu->no_cudnn : "this device does not use it");
		skip();
	}
	shape_test(shape, ran);
	if (!ran[0] || !ran[1])
		fail_msg("cuDNN had a plan for %d forward passes and %d gradients", ran[0], ran[1]);
}

/* Too slow for the emulation. */
static void large(void **state)
{
	static const int64_t shapes[][4] = {{8, 256, 16, 72}, {4, 256, 6, 64}, {2, 257, 4, 72}, {1, 1024, 4, 72}, {1, 4096, 1, 64}};

	(void)state;
	if (!gpu->cublaslt || remote_small()) {
		printf("# needs a GPU\n");
		skip();
	}
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		shape_test(shapes[i], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(small), cmocka_unit_test(library_ran), cmocka_unit_test(large)};
	struct err e = {0};
	int rc;

	if (!(gpu = remote_open(NULL, &e))) {
		printf("1..1\nok 1 - test_library_attention # SKIP needs cuda: %s\n", e.msg);
		return 0;
	}
	remote_use(gpu);
	remote_filter();
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	device_free(gpu);
	return rc;
}
