/* Training on the emulated CUDA kernels: in float it agrees with the CPU, in bfloat16 with float within 8 bits. Float weights are kept, and an
 * interrupted run ends with the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/shortfloat.h"
#include "core/str.h"
#include "data/dataset.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/safetensors.h"
#include "net/model.h"
#include "net/trunkconfig.h"
#include "tape/ops.h"
#include "tests/op/emulated.h"
#include "tests/unit/stripesdir.h"
#include "tests/unit/tinyrun.h"
#include "tests/unit/told.h"
#include "train/trainer.h"

enum { STEPS = 6 };

struct watch {
	volatile sig_atomic_t stop;
	int64_t stop_at;
	double loss[STEPS], val_loss;
};

static void on_step(void *arg, const struct train_step *s)
{
	struct watch *w = arg;

	w->loss[s->step - 1] = s->loss;
	w->val_loss = s->val_loss;
	w->stop = s->step == w->stop_at;
}

/* The average stays near the initial weights while the weights change, so that a validation of the wrong ones would be seen. */
static struct train_options tiny(enum precision precision, char *out)
{
	struct train_options o = tiny_run(&net_dit, shards, out);

	trunk_edit(&o.net)->depth = 1;
	o.steps = STEPS;
	o.batch = 4;
	o.lr = .02;
	o.ema_half_life = 50;
	o.validate_every = STEPS / 2;
	o.validate_samples = 4;
	o.log_every = 1;
	o.checkpoint.steps = 0;
	o.precision = precision;
	return o;
}

static int run(const struct train_options *o, struct device *d, struct watch *w, struct err *e)
{
	struct train_hooks h = {.step = on_step, .arg = w, .stop = &w->stop};
	int rc;

	w->stop = 0;
	rc = train_run(o, d, &h, e);
	device_free(d);
	return rc;
}

static char *trained(enum precision precision, struct device *d, const char *name, int64_t stop_at, struct watch *w)
{
	char *out = path_join(dir, name);
	struct train_options o = tiny(precision, out);
	struct err e = {0};

	*w = (struct watch){.stop_at = stop_at};
	if (run(&o, d, w, &e) && (!stop_at || e.code != ERR_AGAIN))
		fail_msg("%s: %s", name, e.msg);
	return out;
}

static double furthest(const struct watch *a, const struct watch *b)
{
	double most = fabs(a->val_loss / b->val_loss - 1);

	for (int i = 0; i < STEPS; i++)
		most = fmax(most, fabs(a->loss[i] / b->loss[i] - 1));
	return most;
}

static void weights_hash(const char *out, char hex[65])
{
	char *path = path_join(out, "diffusion_pytorch_model.safetensors");

	assert_int_equal(sha256_file(path, hex, NULL, NULL), 0);
	mem_free(path);
}

/* The number of weights in a file that bfloat16 cannot represent. */
static int64_t finer_than_bf16(const char *out)
{
	char *path = path_join(out, "diffusion_pytorch_model.safetensors");
	struct err e = {0};
	struct safetensors *s = st_open(path, &e);
	int64_t n = 0;

	assert_non_null(s);
	for (int i = 0; i < st_tensors(s); i++) {
		const struct st_tensor *t = st_get(s, i);
		float *x = mem_zalloc((size_t)st_count(t), sizeof *x);

		assert_int_equal(t->type, ST_F32);
		st_copy(x, t);
		for (int64_t k = 0; k < st_count(t); k++)
			n += bf16_to_f32(f32_to_bf16(x[k])) != x[k];
		mem_free(x);
	}
	st_free(s);
	mem_free(path);
	return n;
}

static void follows_float(void **state)
{
	struct watch cpu, gpu, half, resumed;
	char hex[2][65], *out[4];

	(void)state;
	out[0] = trained(PRECISION_F32, device_cpu(NULL, DT_F32), "cpu", 0, &cpu);
	out[1] = trained(PRECISION_F32, device_emulated(NULL), "gpu", 0, &gpu);
	out[2] = trained(PRECISION_BF16, device_emulated(NULL), "half", 0, &half);
	print_message("val_loss %.5f; float off by %.2g, bfloat16 by %.2g\n", cpu.val_loss, furthest(&gpu, &cpu), furthest(&half, &cpu));
	assert_true(cpu.loss[STEPS - 1] < .97 * cpu.val_loss);
	assert_true(furthest(&gpu, &cpu) < 1e-5);
	assert_true(furthest(&half, &cpu) < 1e-3);
	assert_true(furthest(&half, &cpu) > 1e-6);
	assert_true(finer_than_bf16(out[2]) > 1000);
	mem_free(trained(PRECISION_BF16, device_emulated(NULL), "resumed", 3, &resumed));
	out[3] = trained(PRECISION_BF16, device_emulated(NULL), "resumed", 0, &resumed);
	weights_hash(out[2], hex[0]);
	weights_hash(out[3], hex[1]);
	assert_string_equal(hex[0], hex[1]);
	for (int i = 0; i < 4; i++)
		mem_free(out[i]);
}

/* A router: another network and loss, with other ops. */
static void a_router_follows(void **state)
{
	struct watch w[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		char *out = path_join(dir, i ? "router-half" : "router");
		struct train_options o = tiny(i ? PRECISION_BF16 : PRECISION_F32, out);
		struct err e = {0};

		o.net.def = &net_router;
		o.cluster = DATASET_ALL;
		o.steps = STEPS / 2;
		o.validate_every = o.steps;
		o.keep_best = 1;
		w[i] = (struct watch){.val_loss = NAN};
		if (run(&o, i ? device_emulated(NULL) : device_cpu(NULL, DT_F32), &w[i], &e))
			fail_msg("%s", e.msg);
		mem_free(out);
	}
	print_message("val_loss %.5f, in bfloat16 %.5f\n", w[0].val_loss, w[1].val_loss);
	for (int i = 0; i < STEPS / 2; i++)
		assert_true(fabs(w[1].loss[i] / w[0].loss[i] - 1) < 2e-2);
	assert_true(fabs(w[1].val_loss / w[0].val_loss - 1) < 2e-3);
}

/* An expert that reads texts, whose features and random choices are made on the host; PixArt's texts are padded, with a mask. */
static void an_expert_follows(const struct net_def *def)
{
	struct watch w[3];
	char *name = str_new("told_%s", def->name), *told = make_captions(dir, name, &(struct captions){.std = 1, .flip = 1});

	for (int i = 0; i < 3; i++) {
		char *out = str_new("%s/%s%d", dir, def == &net_paris ? "expert" : "pixart", i);
		struct train_options o = tiny(i == 2 ? PRECISION_BF16 : PRECISION_F32, out);
		struct err e = {0};

		o.net.def = def;
		o.net.text_tokens = def == &net_pixart ? TOKENS + 2 : 0;
		o.shards = told;
		o.flip = 1;
		o.text_drop = .3;
		w[i] = (struct watch){.val_loss = NAN};
		if (run(&o, i ? device_emulated(NULL) : device_cpu(NULL, DT_F32), &w[i], &e))
			fail_msg("%s", e.msg);
		mem_free(out);
	}
	print_message("val_loss %.5f; float off by %.2g, bfloat16 by %.2g\n", w[0].val_loss, furthest(&w[1], &w[0]), furthest(&w[2], &w[0]));
	assert_true(furthest(&w[1], &w[0]) < 1e-5);
	assert_true(furthest(&w[2], &w[0]) < 1e-2);
	assert_true(furthest(&w[2], &w[0]) > 1e-6);
	mem_free(name);
	mem_free(told);
}

static void paris_follows(void **state)
{
	(void)state;
	an_expert_follows(&net_paris);
}

static void pixart_follows(void **state)
{
	(void)state;
	an_expert_follows(&net_pixart);
}

/* A run cannot be continued with another precision, but a new run can begin with its weights. */
static void goes_with_its_precision(void **state)
{
	char *out = path_join(dir, "half"), *next = path_join(dir, "next"), *never = path_join(dir, "never");
	char *from = path_join(out, "diffusion_pytorch_model.safetensors");
	struct train_options o = tiny(PRECISION_F32, out);
	struct watch w = {0};
	struct err e = {0};

	(void)state;
	assert_int_equal(run(&o, device_cpu(NULL, DT_F32), &w, &e), -1);
	assert_int_equal(e.code, ERR_EXISTS);
	assert_non_null(strstr(e.msg, "precision"));
	o.out = next;
	o.init_from = from;
	e = (struct err){0};
	if (run(&o, device_cpu(NULL, DT_F32), &w, &e))
		fail_msg("%s", e.msg);
	o.out = never;
	for (int gpu = 0; gpu < 2; gpu++) { /* the precision that only the other device has */
		o.precision = gpu ? PRECISION_BF16_EMULATED : PRECISION_TF32;
		e = (struct err){0};
		assert_int_equal(run(&o, gpu ? device_emulated(NULL) : device_cpu(NULL, DT_F32), &w, &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
		assert_non_null(strstr(e.msg, precision_names[o.precision]));
	}
	mem_free(out);
	mem_free(next);
	mem_free(never);
	mem_free(from);
}

enum { PICTURES = 3 };

/* out (PICTURES, elements of the model) */
static int64_t evaluate(const char *dir_of, struct device *d, enum compact_type bulk, float *out)
{
	struct err e = {0};
	struct model *m = model_open(dir_of, 2, bulk, d, NULL, &e);
	float *x, t[PICTURES] = {.1f, .5f, .9f}, text[PICTURES * TOKENS * WIDTH];
	int64_t bytes, n;

	if (!m)
		fail_msg("%s", e.msg);
	n = PICTURES * model_elements(m);
	x = mem_alloc((size_t)n * sizeof *x);
	for (int64_t i = 0; i < n; i++)
		x[i] = (float)sin(.7 * (double)i);
	for (int i = 0; i < PICTURES * TOKENS * WIDTH; i++)
		text[i] = (float)cos(.3 * i);
	model_run(m, PICTURES, &(struct model_input){.x = x, .t = t, .text = net_reads(&model_config(m)->net, NET_IN_TEXT) ? text : NULL}, out);
	bytes = model_bytes(m);
	mem_free(x);
	model_free(m);
	device_free(d);
	return bytes;
}

/* The trained model gives similar results in both precisions: bfloat16 has a relative spacing of 2^-8. int8 weights are only for the CPU. */
static void a_model_answers(void **state)
{
	char *path = path_join(dir, "half");
	float cpu[PICTURES * S * S], gpu[PICTURES * S * S], half[PICTURES * S * S];
	double top = 0, off = 0, rounded = 0;
	int64_t bytes = evaluate(path, device_emulated(NULL), COMPACT_NONE, gpu);
	struct device *d = device_emulated(NULL);
	struct err e = {0};

	(void)state;
	assert_true(evaluate(path, device_cpu(NULL, DT_F32), COMPACT_NONE, cpu) >= bytes);      /* panels are padded */
	assert_true(2 * evaluate(path, device_emulated(NULL), COMPACT_BF16, half) < 3 * bytes); /* matrices are stored only as bfloat16 */
	for (int i = 0; i < PICTURES * S * S; i++) {
		top = fmax(top, fabs((double)cpu[i]));
		off = fmax(off, fabs((double)gpu[i] - (double)cpu[i]));
		rounded = fmax(rounded, fabs((double)half[i] - (double)cpu[i]));
	}
	print_message("largest %.3f, float off by %.2g, bfloat16 by %.2g\n", top, off, rounded);
	assert_true(off < 1e-5 * top && rounded < 2e-2 * top && rounded > 1e-4 * top);
	assert_null(model_open(path, 2, COMPACT_INT8, d, NULL, &e));
	assert_int_equal(e.code, ERR_USAGE);
	device_free(d);
	mem_free(path);
}

/* An expert that reads texts: the 12 H H numbers of a block are stored only as bfloat16, also packed matrices of which thirds are read. */
static void an_expert_answers(void **state)
{
	char *path = path_join(dir, "expert0");
	float cpu[PICTURES * TINT], gpu[PICTURES * TINT], half[PICTURES * TINT];
	double top = 0, off = 0, rounded = 0;
	struct params p = {0};
	struct model_config c;
	int64_t bulk;

	(void)state;
	assert_int_equal(model_config_load(path, &c, NULL), 0);
	net_params(&c.net, &p);
	bulk = 12 * trunk_config(&c.net)->depth * trunk_config(&c.net)->hidden * trunk_config(&c.net)->hidden;
	evaluate(path, device_cpu(NULL, DT_F32), COMPACT_NONE, cpu);
	assert_int_equal(evaluate(path, device_emulated(NULL), COMPACT_NONE, gpu), 4 * p.total);
	assert_int_equal(evaluate(path, device_emulated(NULL), COMPACT_BF16, half), 4 * (p.total - bulk) + 2 * p.total);
	for (int i = 0; i < PICTURES * TINT; i++) {
		top = fmax(top, fabs((double)cpu[i]));
		off = fmax(off, fabs((double)gpu[i] - (double)cpu[i]));
		rounded = fmax(rounded, fabs((double)half[i] - (double)cpu[i]));
	}
	print_message("largest %.3f, float off by %.2g, bfloat16 by %.2g\n", top, off, rounded);
	assert_true(off < 1e-5 * top && rounded < 2e-2 * top && rounded > 1e-4 * top);
	params_release(&p);
	model_config_release(&c);
	mem_free(path);
}

enum { ROWS = 3, WIDE = 16, OUT = 32 };

/* y = x w^T and dx = dy w read the rounded copy, which holds other values here, and so does a bias of bfloat16 outputs. dw does not, nor does the
 * bias of float outputs. */
static void products_read_the_copy(void **state)
{
	const int64_t xs[2] = {ROWS, WIDE}, ws[2] = {OUT, WIDE}, bs[1] = {OUT};
	struct device *d = device_emulated(NULL);
	struct tape *t = tape_new(DT_F32, ROWS);
	struct params p = {0};
	struct tensor *x = tape_input(t, DT_F32, 2, xs, TAPE_BATCHED | TAPE_GRAD), *dy, *y, *z;
	struct tensor *w = tape_param(t, &p, "w", 2, ws, 0, (struct init){.kind = INIT_ZERO});
	struct tensor *b = tape_param(t, &p, "b", 1, bs, 0, (struct init){.kind = INIT_ZERO});
	float *values, *grads, in[ROWS * WIDE], one[ROWS * OUT];
	uint16_t *rounded;
	struct err e = {0};

	(void)state;
	z = op_unary(t, op_linear(t, x, w, b), UNARY_RELU);
	tape_keep(t, z);
	y = op_linear(t, x, w, b);
	dy = tape_input(t, DT_F32, 2, y->shape, TAPE_BATCHED);
	tape_keep(t, y);
	tape_backward(t, y, dy);
	params_layout(&p);
	values = mem_zalloc((size_t)p.total, sizeof *values);
	grads = mem_zalloc((size_t)p.total, sizeof *grads);
	rounded = mem_zalloc((size_t)p.total, sizeof *rounded);
	for (int64_t i = 0; i < p.total; i++) {
		values[i] = 1;
		rounded[i] = f32_to_bf16(2);
	}
	for (int i = 0; i < ROWS * WIDE; i++)
		in[i] = 1;
	for (int i = 0; i < ROWS * OUT; i++)
		one[i] = 1;
	tape_layout(t, d, &(struct plan_options){.bf16 = 1, .bf16_weights = 1});
	if (tape_allocate(t, &e))
		fail_msg("%s", e.msg);
	tape_bind(t, x, in);
	tape_bind(t, dy, one);
	tape_bind_params(t, values, grads);
	tape_bind_bf16(t, rounded);
	tape_run(t, ROWS, 0, tape_mark(t));
	assert_true(*(float *)tape_data(t, y) == 2 * WIDE + 1);
	assert_true(*(float *)tape_data(t, z) == 2 * WIDE + 2);
	assert_true(*(float *)tape_data(t, tape_grad(t, x)) == 2 * OUT);
	assert_true(grads[p.v[params_find(&p, "w")].offset] == ROWS);
	tape_free(t);
	params_release(&p);
	device_free(d);
	mem_free(values);
	mem_free(grads);
	mem_free(rounded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(products_read_the_copy),  cmocka_unit_test(follows_float),
	                                   cmocka_unit_test(goes_with_its_precision), cmocka_unit_test(a_model_answers),
	                                   cmocka_unit_test(a_router_follows),        cmocka_unit_test(paris_follows),
	                                   cmocka_unit_test(pixart_follows),          cmocka_unit_test(an_expert_answers)};

	return cmocka_run_group_tests(tests, make_shards_dir, remove_shards_dir);
}
