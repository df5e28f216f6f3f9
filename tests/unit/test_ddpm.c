/* A published DDPM of MNIST, a U-Net recorded here on the tape, against what tests/golden/ddpm_mnist.py makes of it in PyTorch. Needs test
 * data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/torchrng.h"
#include "diffusion/solverchoice.h"
#include "file/fileio.h"
#include "file/weightfile.h"
#include "tape/ops.h"
#include "tests/golden/ddpm_mnist.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE, TIMES = 1000, WIDTH = 100, KEPT = 71 };

struct unet {
	struct tape *t;
	struct params p;
	struct tensor *x, *when, *embedded, *eps;
	struct device *device;
	float *values;
	int32_t step;
};

static struct tensor *param(struct unet *u, const char *name, const char *end, int rank, const int64_t *shape)
{
	char full[96];

	snprintf(full, sizeof full, "network.%s.%s", name, end);
	return tape_param(u->t, &u->p, full, rank, shape, 0, (struct init){0});
}

static struct tensor *conv(struct unet *u, struct tensor *x, const char *name, int64_t out, int64_t k, int64_t stride, struct padding pad,
                           int silu)
{
	int64_t w[4] = {out, k, k, x->shape[3]};

	return op_conv_act(u->t, x, param(u, name, "weight", 4, w), param(u, name, "bias", 1, &out), NULL, stride, pad,
	                   silu ? UNARY_SILU + 1 : 0);
}

static struct tensor *spread(struct unet *u, struct tensor *x)
{
	int64_t b = x->shape[0], h = x->shape[1], w = x->shape[2], c = x->shape[3], apart[6] = {b, h, 1, w, 1, c}, whole[4] = {b, 2 * h, 2 * w, c};
	struct tensor *rows[2], *cols[2];

	rows[0] = op_reshape(u->t, x, 6, apart);
	rows[1] = op_scale(u->t, rows[0], 0);
	cols[0] = op_concat(u->t, 2, 2, rows);
	cols[1] = op_scale(u->t, cols[0], 0);
	return op_reshape(u->t, op_concat(u->t, 4, 2, cols), 4, whole);
}

/* The adjoint of a convolution of stride 2 and padding 1, as one of what is spread out with zeros. */
static struct tensor *up(struct unet *u, struct tensor *x, const char *name, int silu)
{
	return conv(u, spread(u, x), name, x->shape[3], 4, 1, (struct padding){2, 2, 1, 1}, silu);
}

static struct tensor *layer_norm(struct unet *u, struct tensor *x, const char *name)
{
	int64_t n = x->shape[1] * x->shape[2] * x->shape[3], flat[2] = {x->shape[0], n};
	struct tensor *y = op_norm(u->t, op_reshape(u->t, x, 2, flat), param(u, name, "weight", 1, &n), param(u, name, "bias", 1, &n), NORM_LAYER,
	                           1e-5, 0);

	return op_reshape(u->t, y, 4, x->shape);
}

static struct tensor *blocks(struct unet *u, struct tensor *x, const char *name, const int64_t *out)
{
	const struct padding one = {1, 1, 1, 1};
	char at[64];

	for (int i = 0; i < 3; i++) {
		snprintf(at, sizeof at, "%s.%d.ln", name, i);
		/* The very last has one that is not used. */
		if (strcmp(at, "b_out.2.ln"))
			x = layer_norm(u, x, at);
		snprintf(at, sizeof at, "%s.%d.conv1", name, i);
		x = conv(u, x, at, out[i], 3, 1, one, 1);
		snprintf(at, sizeof at, "%s.%d.conv2", name, i);
		x = conv(u, x, at, out[i], 3, 1, one, 1);
	}
	return x;
}

/* x + W2 SiLU(W1 e), the same in every pixel. */
static struct tensor *timed(struct unet *u, struct tensor *x, const char *name)
{
	int64_t c = x->shape[3], w1[2] = {c, WIDTH}, w2[2] = {c, c}, shape[4] = {x->shape[0], 1, 1, c};
	struct tensor *y = u->embedded;
	char at[64];

	snprintf(at, sizeof at, "%s.0", name);
	y = op_linear(u->t, y, param(u, at, "weight", 2, w1), param(u, at, "bias", 1, &c));
	snprintf(at, sizeof at, "%s.2", name);
	y = op_linear(u->t, op_unary(u->t, y, UNARY_SILU), param(u, at, "weight", 2, w2), param(u, at, "bias", 1, &c));
	return op_add(u->t, x, op_reshape(u->t, y, 4, shape));
}

static struct tensor *joined(struct unet *u, struct tensor *a, struct tensor *b)
{
	struct tensor *both[2] = {a, b};

	return op_concat(u->t, 3, 2, both);
}

static void record(struct unet *u)
{
	static const int64_t widths[7][3] = {{10, 10, 10}, {20, 20, 20}, {40, 40, 40}, {20, 20, 40}, {40, 20, 20}, {20, 10, 10}, {10, 10, 10}};
	const struct padding one = {1, 1, 1, 1}, none = {0, 0, 0, 0};
	const int64_t picture[4] = {1, SIDE, SIDE, 1}, table[2] = {TIMES, WIDTH};
	struct tensor *a, *b, *c, *y;

	u->x = tape_input(u->t, DT_F32, 4, picture, TAPE_BATCHED);
	u->when = tape_input(u->t, DT_I32, 1, picture, TAPE_BATCHED);
	u->embedded = op_embed(u->t, param(u, "time_embed", "weight", 2, table), u->when);
	a = blocks(u, timed(u, u->x, "te1"), "b1", widths[0]);
	b = blocks(u, timed(u, conv(u, a, "down1", 10, 4, 2, one, 0), "te2"), "b2", widths[1]);
	c = blocks(u, timed(u, conv(u, b, "down2", 20, 4, 2, one, 0), "te3"), "b3", widths[2]);
	y = conv(u, conv(u, c, "down3.0", 40, 2, 1, none, 1), "down3.2", 40, 4, 2, one, 0);
	y = blocks(u, timed(u, y, "te_mid"), "b_mid", widths[3]);
	y = conv(u, up(u, y, "up1.0", 1), "up1.2", 40, 2, 1, one, 0);
	y = blocks(u, timed(u, joined(u, c, y), "te4"), "b4", widths[4]);
	y = blocks(u, timed(u, joined(u, b, up(u, y, "up2", 0)), "te5"), "b5", widths[5]);
	y = blocks(u, timed(u, joined(u, a, up(u, y, "up3", 0)), "te_out"), "b_out", widths[6]);
	u->eps = conv(u, y, "conv_out", 1, 3, 1, one, 0);
	tape_keep(u->t, u->eps);
}

/* [O, C, kh, kw] into [O, kh, kw, C]; of an adjoint [C, O, kh, kw], turned round; [C, H, W] of a norm into [H, W, C]. */
static void place(const struct param *p, const struct st_tensor *t, const float *from, float *out)
{
	int turned = strstr(p->name, ".up") != NULL, norm = strstr(p->name, ".ln.") != NULL;
	int64_t c = norm ? t->shape[0] : p->shape[3], h = norm ? t->shape[1] : p->shape[1], w = norm ? t->shape[2] : p->shape[2];
	int64_t outer = norm ? 1 : p->shape[0], i = 0;

	for (int64_t o = 0; o < outer; o++)
		for (int64_t y = 0; y < h; y++)
			for (int64_t x = 0; x < w; x++)
				for (int64_t k = 0; k < c; k++)
					out[i++] = turned ? from[((k * outer + o) * h + h - 1 - y) * w + w - 1 - x] : from[((o * c + k) * h + y) * w + x];
}

static int load(struct unet *u, const char *path)
{
	struct err e = {0};
	struct safetensors *s = weightfile_load(path, NULL, &e);
	int seen = 0;

	if (!s)
		fail_msg("%s", e.msg);
	for (int i = 0; i < u->p.n; i++) {
		const struct param *p = &u->p.v[i];
		const struct st_tensor *t = st_find(s, p->name);
		float *from = mem_alloc((size_t)p->count * sizeof *from);

		assert_non_null(t);
		assert_int_equal(st_count(t), p->count);
		st_to_f32(from, t);
		if (p->rank == 4 || strstr(p->name, ".ln."))
			place(p, t, from, u->values + p->offset);
		else
			memcpy(u->values + p->offset, from, (size_t)p->count * sizeof *from);
		mem_free(from);
		seen++;
	}
	st_free(s);
	return seen;
}

static char *weights(void)
{
	const char *places[] = {getenv("DDM_TEST_DATA"), "shared/data", "../shared/data"};

	for (int i = 0; i < 3; i++) {
		char *path = places[i] ? path_join(places[i], "weights/ddpm-tiny/ddpm_mnist.pt") : NULL;

		if (path && path_exists(path))
			return path;
		mem_free(path);
	}
	return NULL;
}

static int ask(void *arg, float *out, const float *x, double time, int64_t step, struct err *e)
{
	struct unet *u = arg;

	(void)step;
	(void)e;
	u->step = (int32_t)lrint(time * TIMES);
	tape_bind(u->t, u->x, (void *)(uintptr_t)x);
	tape_run(u->t, 1, 0, tape_mark(u->t));
	device_get(u->device, out, tape_data(u->t, u->eps), PIXELS * sizeof *out);
	return 0;
}

struct run {
	struct unet *net;
	struct torch_rng rng;
};

static int ask_run(void *arg, float *out, const float *x, double time, int64_t step, struct err *e)
{
	return ask(((struct run *)arg)->net, out, x, time, step, e);
}

static int draw(void *arg, float *z, int64_t step, struct err *e)
{
	(void)step;
	(void)e;
	torch_randn(&((struct run *)arg)->rng, z, PIXELS);
	return 0;
}

static double error_of(const float *x, const double *want)
{
	double worst = 0;

	for (int i = 0; i * KEPT < PIXELS; i++)
		worst = fmax(worst, fabs(x[i * KEPT] - want[i]));
	return worst;
}

static double sampled(struct unet *u, const char *solver, int64_t steps, const double *want)
{
	static const struct betas linear = {TIMES, 1e-4, .02, NULL};
	struct schedule s;
	struct solver_choice c;
	struct discrete_plan p;
	struct run run = {.net = u};
	struct discrete_run r = {u->device, 1, PIXELS, PIXELS, ask_run, draw, &run};
	float *work = mem_zalloc((size_t)discrete_work(1, PIXELS, PIXELS), sizeof *work), x[PIXELS];

	assert_int_equal(schedule_init(&s, "linear_betas", &linear, NULL), 0);
	assert_int_equal(solver_parse(solver, &c, NULL), 0);
	assert_int_equal(discrete_plan_make(&p, &c.how, steps, &s, PREDICT_EPSILON, 0, NULL), 0);
	torch_seed(&run.rng, 3);
	torch_randn(&run.rng, x, PIXELS);
	assert_int_equal(discrete_solve(&p, &r, x, work, NULL), 0);
	discrete_plan_release(&p);
	schedule_release(&s);
	mem_free(work);
	return error_of(x, want);
}

/* Float sums in another order, which a whole chain carries along; its pixels are up to 7. */
static void as_in_pytorch(void **state)
{
	static const struct {
		int step;
		const double *want;
	} eps[] = {{0, golden_mnist_eps_0}, {500, golden_mnist_eps_500}, {999, golden_mnist_eps_999}};
	struct pool *pool = pool_new(2, NULL);
	struct unet u = {.t = tape_new(DT_F32, 1), .device = device_cpu(pool, DT_F32)};
	char *path = weights();
	struct torch_rng rng;
	float x[PIXELS], out[PIXELS];
	double ddim, ddpm;

	(void)state;
	if (!path)
		skip();
	record(&u);
	params_layout(&u.p);
	tape_layout(u.t, u.device, NULL);
	assert_int_equal(tape_allocate(u.t, NULL), 0);
	u.values = mem_zalloc((size_t)u.p.total, sizeof *u.values);
	assert_int_equal(load(&u, path), u.p.n);
	/* All of the file's 606852 but the norm that is not used. */
	assert_int_equal(params_count(&u.p, 0), 606852 - 2 * 10 * PIXELS);
	tape_bind_params(u.t, u.values, NULL);
	tape_bind(u.t, u.when, &u.step);
	torch_seed(&rng, 3);
	torch_randn(&rng, x, PIXELS);
	for (size_t i = 0; i < sizeof eps / sizeof *eps; i++) {
		ask(&u, out, x, eps[i].step / (double)TIMES, 0, NULL);
		assert_true(error_of(out, eps[i].want) < 1e-4);
	}
	ddim = sampled(&u, "ddim", 50, golden_mnist_ddim_50);
	ddpm = sampled(&u, "ddpm,variance=large", 1000, golden_mnist_ddpm_1000);
	print_message("DDIM of 50 steps: off by %g; DDPM of 1000: by %g\n", ddim, ddpm);
	assert_true(ddim < 1e-3 && ddpm < 1e-3);
	tape_free(u.t);
	params_release(&u.p);
	mem_free(u.values);
	device_free(u.device);
	pool_free(pool);
	mem_free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(as_in_pytorch)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
