/* Attention by cuDNN on a fake of the library: that its graphs compute attention, how the choice between it and our kernels is made, stored and
 * read, and how the kernels of attention use it.
 *
 * Tolerance: the weights are rounded to bfloat16, by 2^-9 each, which is 2^-9 of the largest v and up to 2^-8 of the largest o, and the result is
 * rounded too: 2^-7 of the largest value, as in the gradient of test_emulated_attention.c. */
#include "tests/op/twinattention.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/rng.h"
#include "core/shortfloat.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "kernels/cudnnimpl.h"
#include "kernels/flavour.h"
#include "tests/op/fakednn.h"

enum { T = 9, S = 13, HEADS = 2, SAMPLES = 2, GUARD = 64 };

/* Both passes of `samples` in the layout of a network: q, k and v in one array, and their gradients in another; T tokens of q, S of k and v. */
struct pass {
	int64_t samples, d, row;
	enum dtype type;
	void *qkv, *o, *dy, *grad;
	float *lse;
};

enum { QKV, O, DY, GRAD };

static int64_t count(const struct pass *a, int which)
{
	return a->samples * S * (which == QKV || which == GRAD ? a->row : HEADS * a->d);
}

static void *filled(const struct pass *a, int which, int known)
{
	int64_t n = count(a, which);
	char *p = mem_alloc((size_t)n * dtype_size(a->type));
	float *z = mem_alloc((size_t)n * sizeof *z);

	memset(p, 0xff, (size_t)n * dtype_size(a->type));
	rng_normal(z, (size_t)n, 3, RNG_TEST, (uint64_t)which, 0);
	for (int64_t i = 0; known && i < n; i++) {
		z[i] = bf16_to_f32(f32_to_bf16(z[i]));
		if (a->type == DT_BF16)
			((uint16_t *)(void *)p)[i] = f32_to_bf16(z[i]);
		else
			((float *)(void *)p)[i] = z[i];
	}
	mem_free(z);
	return p;
}

static struct pass pass_new(enum dtype type, int64_t samples, int64_t d)
{
	struct pass a = {.samples = samples, .d = d, .row = 3 * HEADS * d, .type = type};

	a.qkv = filled(&a, QKV, 1);
	a.o = filled(&a, O, 0);
	a.dy = filled(&a, DY, 1);
	a.grad = filled(&a, GRAD, 0);
	a.lse = mem_alloc((size_t)(samples * HEADS * T) * sizeof *a.lse);
	memset(a.lse, 0xff, (size_t)(samples * HEADS * T) * sizeof *a.lse);
	return a;
}

static void pass_free(struct pass *a)
{
	mem_free(a->qkv), mem_free(a->o), mem_free(a->dy), mem_free(a->grad), mem_free(a->lse);
}

static struct array part(const struct pass *a, void *p, int which)
{
	int64_t tokens = which ? S : T;

	return (struct array){(char *)p + (size_t)(which * HEADS * a->d) * dtype_size(a->type),
	                      a->type,
	                      4,
	                      {a->samples, tokens, HEADS, a->d},
	                      {S * a->row, a->row, a->d, 1}};
}

static struct array whole(const struct pass *a, void *p)
{
	int64_t row = HEADS * a->d;

	return (struct array){p, a->type, 4, {a->samples, T, HEADS, a->d}, {T * row, row, a->d, 1}};
}

/* Run the kernels, on `device` or NULL. The gradient if grad. Scratch is what the kernel declares. */
static void run(struct pass *a, const struct kernel *k, struct device *device, int grad)
{
	struct array q = part(a, a->qkv, 0), kk = part(a, a->qkv, 1), v = part(a, a->qkv, 2), o = whole(a, a->o), dy = whole(a, a->dy);
	struct array lse = {a->lse, DT_F32, 3, {a->samples, HEADS, T}, {HEADS * T, T, 1}};
	struct op_call f = {.nin = 3, .nout = 2, .attr.attention = {0, .3}, .in = {q, kk, v}, .out = {o, lse}, .device = device};
	struct op_call g = {.nin = 6,
	                    .nout = 3,
	                    .attr = f.attr,
	                    .in = {dy, q, kk, v, o, lse},
	                    .out = {part(a, a->grad, 0), part(a, a->grad, 1), part(a, a->grad, 2)},
	                    .device = device};
	struct op_call *c = grad ? &g : &f;
	size_t need = k->scratch ? k->scratch(c, 1) : 0;
	unsigned char *scratch = mem_alloc(need + GUARD);

	memset(scratch, 0xee, need + GUARD);
	c->scratch = scratch;
	k->run(c);
	for (int i = 0; i < GUARD; i++)
		assert_int_equal(scratch[need + (size_t)i], 0xee);
	mem_free(scratch);
}

static float value(const struct pass *a, const void *p, int64_t i)
{
	return a->type == DT_BF16 ? bf16_to_f32(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

/* NaN where nothing is stored, in both. */
static void close_to(const struct pass *a, const void *got, const struct pass *b, const void *want, int which, double tol)
{
	double top = 0, worst = 0;

	for (int64_t i = 0; i < count(a, which); i++) {
		float x = value(a, got, i), y = value(b, want, i);

		assert_int_equal(isnan(x), isnan(y));
		if (isnan(x))
			continue;
		top = fmax(top, fabs((double)y));
		worst = fmax(worst, fabs((double)x - (double)y));
	}
	if (!(worst <= tol * top))
		fail_msg("width %d, array %d: an error of %.3g of the largest value, %.3g allowed", (int)a->d, which, worst / top, tol);
}

static char folder[] = "/tmp/test_cudnn-XXXXXX";

static char *tuning_path(void)
{
	static char path[sizeof folder + 16];

	snprintf(path, sizeof path, "%s/tuning", folder);
	return path;
}

static struct device device; /* its other members are not used by attention */

static void begin(void)
{
	fake_dnn_init();
	unlink(tuning_path());
	memset(&device, 0, sizeof device);
	device.cudnn = cudnn_new(&fake_dnn.library, &fake_dnn.host);
}

static void end(void)
{
	cudnn_free(device.cudnn);
	device.cudnn = NULL;
	assert_int_equal(fake_dnn.alive, 0);
	assert_int_equal(fake_dnn.fail_count, 0);
}

/* A process that starts again with the file. Returns the number of choices read. */
static size_t again(void)
{
	cudnn_free(device.cudnn);
	device.cudnn = cudnn_new(&fake_dnn.library, &fake_dnn.host);
	fake_dnn.timed = fake_dnn.ran = fake_dnn.graphs = 0;
	return cudnn_tune(device.cudnn, tuning_path());
}

/* Run both passes on the device, and compare with the CPU. */
static void attend(int64_t samples, int64_t d)
{
	struct pass want = pass_new(DT_F32, samples, d), got = pass_new(DT_BF16, samples, d);

	run(&want, flavour_kernels()[OP_ATTENTION], NULL, 0);
	run(&want, flavour_kernels()[OP_ATTENTION_GRAD], NULL, 1);
	run(&got, &kernel_attention_cuda, &device, 0);
	run(&got, &kernel_attention_grad_cuda, &device, 1);
	close_to(&got, got.o, &want, want.o, O, 0x1p-7);
	close_to(&got, got.grad, &want, want.grad, GRAD, 0x1p-7);
	for (int64_t i = 0; i < samples * HEADS * T; i++)
		assert_true(fabsf(got.lse[i] - want.lse[i]) < 3e-6f);
	pass_free(&want);
	pass_free(&got);
}

/* The graphs compute both passes, with all scratch that plans may ask for. */
static void graphs(void **state)
{
	static const int64_t widths[] = {8, 64, 72, 128};

	(void)state;
	begin();
	cudnn_force(device.cudnn, 1);
	for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
		attend(SAMPLES, widths[i]);
	assert_int_equal(fake_dnn.ran, 8);
	assert_int_equal(fake_dnn.last, 1);
	cudnn_force(device.cudnn, 2);
	fake_dnn.workspace = 64 << 10;
	attend(1, 16);
	assert_int_equal(fake_dnn.ran, 10);
	assert_int_equal(fake_dnn.last, 2);
	cudnn_force(device.cudnn, 3); /* there are two */
	attend(1, 16);
	assert_int_equal(fake_dnn.ran, 10);
	end();
}

/* Without a file nothing is timed, and nothing runs in the library. With one the fastest is used, and later runs use the same without timing. Only
 * plans that are used stay loaded. */
static void choices(void **state)
{
	(void)state;
	begin();
	attend(SAMPLES, 16);
	assert_true(!fake_dnn.timed && !fake_dnn.ran && !fake_dnn.graphs);
	for (fake_dnn.swift = 0; fake_dnn.swift <= 2; fake_dnn.swift++) {
		int swift = fake_dnn.swift;

		unlink(tuning_path());
		assert_int_equal(again(), 0);
		attend(SAMPLES, 16);
		assert_int_equal(fake_dnn.timed, 2 * 3 * 6);
		assert_int_equal(fake_dnn.plans, swift ? 2 : 0);
		fake_dnn.swift = 3;
		assert_int_equal(again(), 2);
		attend(SAMPLES, 16);
		assert_int_equal(fake_dnn.timed, 0);
		assert_int_equal(fake_dnn.ran, swift ? 2 : 0);
		assert_true(!swift || fake_dnn.last == swift);
		assert_int_equal(fake_dnn.graphs, swift ? 2 : 0);
		assert_int_equal(fake_dnn.plans, swift ? 2 : 0);
		fake_dnn.swift = swift;
	}
	/* The second configuration is not what it was: our kernels. */
	fake_dnn.engine_shift = 5;
	assert_int_equal(again(), 2);
	attend(SAMPLES, 16);
	assert_int_equal(fake_dnn.ran, 0);
	/* Another version: its choices are made anew. */
	fake_dnn.version++;
	assert_int_equal(again(), 0);
	end();
}

/* A file that is cut or changed has no choices. */
static void damaged(void **state)
{
	struct err e = {0};
	size_t len = 0;
	char *file;

	(void)state;
	begin();
	fake_dnn.swift = 1;
	again();
	attend(SAMPLES, 16);
	file = file_load(tuning_path(), 1 << 20, &len, &e);
	assert_non_null(file);
	for (size_t cut = 0; cut < len; cut++) {
		assert_int_equal(commit_bytes(tuning_path(), file, cut, &e), 0);
		/* at the end of a line the file is a whole one */
		assert_int_equal(again(), cut && file[cut - 1] == '\n' && cut > strcspn(file, "\n") + 1 ? 1 : 0);
	}
	mem_free(file);
	end();
}

/* Batches that are no power of two, masks, biases and floats are left to our kernels, and everything is on an invariant device. */
static void left(void **state)
{
	struct pass a = pass_new(DT_F32, 1, 16);

	(void)state;
	begin();
	cudnn_force(device.cudnn, 1);
	attend(3, 16);
	attend(1, 12);
	run(&a, &kernel_attention_cuda, &device, 0);
	device.invariant = 1;
	attend(SAMPLES, 16);
	assert_true(!fake_dnn.ran && !fake_dnn.graphs);
	device.invariant = 0;
	pass_free(&a);
	end();
}

/* No configuration, or none that can be used: refused, once. */
static void refused(void **state)
{
	struct str s = {0};

	(void)state;
	begin();
	again();
	fake_dnn.configs = 0;
	attend(SAMPLES, 16);
	assert_int_equal(fake_dnn.ran, 0);
	cudnn_log(device.cudnn, &s);
	assert_non_null(strstr(str_text(&s), "forward\t2x9x13x2x16\t1\t0\t1.0\t0.0\t0.0\trefused\n"));
	str_release(&s);
	fake_dnn.configs = 2;
	fake_dnn.swift = 1;
	unlink(tuning_path());
	again();
	fake_dnn.begins = 1; /* as without a driver that fits */
	attend(SAMPLES, 16);
	assert_int_equal(fake_dnn.ran, 0);
	fake_dnn.begins = 0;
	unlink(tuning_path());
	again();
	fake_dnn.random = 3; /* other results in each run */
	attend(SAMPLES, 16);
	assert_int_equal(fake_dnn.ran, 0);
	unlink(tuning_path());
	again();
	fake_dnn.random = 0;
	fake_dnn.workspace = 1 << 30; /* more than there is */
	attend(SAMPLES, 16);
	assert_int_equal(fake_dnn.ran, 0);
	end();
}

/* During a capture nothing is timed; a stored choice is used. */
static void captured(void **state)
{
	(void)state;
	begin();
	fake_dnn.swift = 1;
	again();
	fake_dnn.capturing = 1;
	attend(SAMPLES, 16);
	assert_true(!fake_dnn.timed && !fake_dnn.ran);
	fake_dnn.capturing = 0;
	assert_int_equal(again(), 0);
	attend(SAMPLES, 16);
	assert_int_equal(again(), 2);
	fake_dnn.capturing = 1;
	attend(SAMPLES, 16);
	assert_int_equal(fake_dnn.timed, 0);
	assert_int_equal(fake_dnn.ran, 2);
	end();
}

/* The number of plans is bounded: further shapes are left to our kernels, and those that have a plan keep it. */
static void plans(void **state)
{
	struct cudnn_attention p = {.samples = 1, .t = 1, .heads = 1, .d = 8};
	static _Alignas(CUBLASLT_ALIGN) char workspace[1 << 17];

	(void)state;
	begin();
	cudnn_force(device.cudnn, 3); /* there are two, so none is run */
	for (p.s = 1; p.s < 400; p.s++)
		assert_int_equal(cudnn_run(device.cudnn, 0, &p, NULL, workspace), 0);
	assert_true(fake_dnn.graphs > 100 && fake_dnn.graphs < 300);
	fake_dnn.graphs = 0;
	p.s = 1;
	assert_int_equal(cudnn_run(device.cudnn, 0, &p, NULL, workspace), 0);
	assert_int_equal(fake_dnn.graphs, 0);
	end();
}

static void logged(void **state)
{
	struct str s = {0};

	(void)state;
	begin();
	again();
	fake_dnn.swift = 2;
	attend(SAMPLES, 16);
	attend(SAMPLES, 16);
	cudnn_log(device.cudnn, &s);
	assert_string_equal(str_text(&s),
	                    "attention\tsamples x queries x keys x heads x width\tcalls\tconfigurations\town us\tfirst us\tbest us\tused\n"
	                    "forward\t2x9x13x2x16\t2\t2\t10.0\t10.0\t1.0\tcudnn\n"
	                    "gradient\t2x9x13x2x16\t2\t2\t10.0\t10.0\t1.0\tcudnn\n");
	str_release(&s);
	end();
}

static void failures(void **state)
{
	static const char *const none[] = {"libnosuchlibrary.so.1", NULL}, *const wrong[] = {"libm.so.6", NULL};
	const char *const broken[] = {"libnosuchlibrary.so.1", tuning_path(), "libnosuchlibrary.so", NULL};
	struct cudnn_library l;
	struct err e = {0};
	struct pass a = pass_new(DT_BF16, 1, 16);

	(void)state;
	assert_int_equal(cudnn_open(&l, none, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(e.msg, "libnosuchlibrary.so.1"));
	assert_non_null(strstr(e.msg, "libcudnn9"));
	assert_non_null(strstr(e.msg, "No such file"));
	e.code = 0;
	assert_int_equal(commit_bytes(tuning_path(), "no library", 10, &e), 0);
	assert_int_equal(cudnn_open(&l, broken, &e), -1);
	assert_null(dlopen(tuning_path(), RTLD_NOW));
	assert_non_null(strstr(e.msg, dlerror())); /* the reason of the file that is there */
	e.code = 0;
	assert_int_equal(cudnn_open(&l, wrong, &e), -1);
	assert_non_null(strstr(e.msg, "cudnnGetVersion"));
	begin();
	cudnn_force(device.cudnn, 1);
	fake_dnn.fails = 5000; /* CUDNN_STATUS_EXECUTION_FAILED */
	run(&a, &kernel_attention_cuda, &device, 0);
	assert_int_equal(fake_dnn.fail_count, 1);
	assert_non_null(strstr(fake_dnn.failed.msg, "five thousand"));
	fake_dnn.fails = 0;
	cudnn_force(device.cudnn, 0);
	cudnn_tune(device.cudnn, "/nonexistent/folder/tuning");
	run(&a, &kernel_attention_cuda, &device, 0);
	assert_int_equal(fake_dnn.fail_count, 2);
	assert_non_null(strstr(fake_dnn.failed.msg, "/nonexistent"));
	fake_dnn.fail_count = 0;
	pass_free(&a);
	end();
}

/* The scratch that a kernel asks for when a tape is laid out, before there are addresses. */
static size_t declared(int64_t samples, int grad, int biased)
{
	struct pass a = {.samples = samples, .d = 16, .row = 3 * HEADS * 16, .type = DT_BF16};
	uint16_t first[3 * HEADS * 16];
	struct array q = part(&a, first, 0), k = part(&a, first, 1), v = part(&a, first, 2), o = whole(&a, first);
	struct array lse = {NULL, DT_F32, 3, {samples, HEADS, T}, {HEADS * T, T, 1}};
	struct array bias = {NULL, DT_F32, 4, {samples, HEADS, T, S}, {HEADS * T * S, T * S, S, 1}};
	struct op_call f = {.nin = 3 + biased, .nout = 2, .in = {q, k, v, bias}, .out = {o, lse}, .device = &device};
	struct op_call g = {.nin = 6 + biased, .nout = 3, .in = {o, q, k, v, o, lse, bias}, .out = {q, k, v}, .device = &device};
	struct op_call *c = grad ? &g : &f;

	for (int i = 0; i < OP_IN; i++)
		c->in[i].data = NULL;
	for (int i = 0; i < OP_OUT; i++)
		c->out[i].data = NULL;
	c->attr.attention.scale = .3;
	return (grad ? &kernel_attention_grad_cuda : &kernel_attention_cuda)->scratch(c, 1);
}

/* Room for the library is asked for only where it may run: not without a tuning file, for a bias, or for the sizes that our kernels won. */
static void room(void **state)
{
	size_t own[2][5], all[2][5];

	(void)state;
	begin();
	for (int grad = 0; grad < 2; grad++)
		for (int n = 1; n <= 4; n++)
			own[grad][n] = declared(n, grad, 0);
	assert_int_equal(own[0][4], 0);
	assert_int_equal(own[1][4], 4 * HEADS * T * sizeof(float)); /* the sums of dy * o */
	again();
	for (int grad = 0; grad < 2; grad++) {
		for (int n = 1; n <= 4; n++)
			all[grad][n] = declared(n, grad, 0);
		assert_true(all[grad][4] >= own[grad][4] + (64 << 10));
		assert_int_equal(declared(4, grad, 1), own[grad][4]);
	}
	attend(4, 16); /* our kernels are faster */
	assert_true(fake_dnn.timed && all[1][4] > all[1][2]);
	assert_int_equal(declared(4, 1, 0) - own[1][4], all[1][2] - own[1][2]);
	attend(2, 16);
	attend(1, 16);
	for (int grad = 0; grad < 2; grad++)
		for (int n = 1; n <= 4; n++)
			assert_int_equal(declared(n, grad, 0), own[grad][n]);
	cudnn_force(device.cudnn, 1);
	assert_int_equal(declared(4, 1, 0), all[1][4]);
	cudnn_force(device.cudnn, 0);
	unlink(tuning_path());
	again();
	fake_dnn.swift = 1;
	attend(4, 16); /* the library is faster */
	assert_int_equal(declared(4, 1, 0), all[1][4]);
	again();
	assert_int_equal(declared(4, 1, 0), all[1][4]);
	end();
}

/* Scratch is laid out for the largest batch, and is enough for every smaller one. */
static void smaller_batches(void **state)
{
	(void)state;
	begin();
	cudnn_force(device.cudnn, 1);
	for (int64_t tokens = 16; tokens <= 4096; tokens *= 16)
		for (int64_t most = 1; most < 200; most++) {
			struct cudnn_attention p = {.grad = 1, .samples = most, .t = tokens, .s = tokens, .heads = 16, .d = 72};
			size_t all = cudnn_most_workspace(device.cudnn, &p), top = 0;

			for (p.samples = 1; p.samples <= most; p.samples++) {
				size_t bytes = cudnn_workspace(device.cudnn, &p);

				top = bytes > top ? bytes : top;
			}
			assert_int_equal(all, top);
			assert_true(tokens == 4096 ? !all : all <= (size_t)(260 << 20));
		}
	end();
}

static struct cudnn_library real;

/* There is no handle without a GPU. */
static int set_but_handle(void *d, int attribute, int type, int64_t n, const void *values)
{
	return type == DNN_TYPE_HANDLE ? DNN_OK : real.desc_set(d, attribute, type, n, values);
}

/* If the real library is installed (no GPU is needed), it accepts both graphs. */
static void library_itself(void **state)
{
	struct cudnn_library l;
	struct cudnn_graph g;
	struct cudnn_attention p = {
	    .samples = 4, .t = 256, .s = 256, .heads = 16, .d = 72, .scale = 1, .lse_sample = 4096, .lse_head = 256, .lse_token = 1};
	const struct cudnn_side packed = {NULL, 256 * 3456, 3456, 72}, dense = {NULL, 256 * 1152, 1152, 72};

	(void)state;
	if (cudnn_open(&real, NULL, NULL)) {
		print_message("# skip: no cuDNN here\n");
		skip();
	}
	l = real;
	l.desc_set = set_but_handle;
	p.q = p.k = p.v = p.dq = p.dk = p.dv = packed;
	p.o = p.dy = dense;
	for (p.grad = 0; p.grad < 2; p.grad++) {
		int status = cudnn_graph_init(&g, &l, NULL, &p);

		if (status != DNN_OK)
			fail_msg("cuDNN %zu refuses the graph: %s", real.version(), real.status_text(status));
		cudnn_graph_release(&g, &l);
	}
}

static int in_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int without_folder(void **state)
{
	(void)state;
	unlink(tuning_path());
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(graphs), cmocka_unit_test(choices),         cmocka_unit_test(damaged),
	                                   cmocka_unit_test(left),   cmocka_unit_test(refused),         cmocka_unit_test(captured),
	                                   cmocka_unit_test(plans),  cmocka_unit_test(logged),          cmocka_unit_test(failures),
	                                   cmocka_unit_test(room),   cmocka_unit_test(smaller_batches), cmocka_unit_test(library_itself)};

	return cmocka_run_group_tests(tests, in_folder, without_folder);
}
