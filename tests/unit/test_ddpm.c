/* A published DDPM of MNIST in its author's file (lib/net/mnistunet.c), against its results in PyTorch (tests/golden/ddpm_mnist.py). Needs test data.
 * */
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
#include "file/commit.h"
#include "file/fileio.h"
#include "net/model.h"
#include "tests/golden/ddpm_mnist.h"
#include "tests/unit/scratch.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE, TIMES = 1000, KEPT = 71 };

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
	float t = (float)time;

	(void)step;
	(void)e;
	model_run(arg, 1, &(struct model_input){.x = x, .t = &t}, out);
	return 0;
}

struct run {
	struct model *net;
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

static double sampled(struct model *m, struct device *d, const char *solver, int64_t steps, const double *want)
{
	static const struct betas linear = {TIMES, 1e-4, .02, NULL};
	struct schedule s;
	struct solver_choice c;
	struct discrete_plan p;
	struct run run = {.net = m};
	struct discrete_run r = {d, 1, PIXELS, PIXELS, ask_run, draw, &run};
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

/* Float sums in another order, whose errors accumulate over a whole chain; its pixels are up to 7. */
static void as_in_pytorch(void **state)
{
	static const struct {
		int step;
		const double *want;
	} eps[] = {{0, golden_mnist_eps_0}, {500, golden_mnist_eps_500}, {999, golden_mnist_eps_999}};
	static const char config[] = "{\"model_type\": \"mnist_unet\", \"in_channels\": 1, \"prediction\": \"epsilon\", \"path\": \"linear_betas\", "
				     "\"num_train_timesteps\": 1000, \"beta_start\": 0.0001, \"beta_end\": 0.02}\n";
	struct pool *pool = pool_new(2, NULL);
	struct device *d = device_cpu(pool, DT_F32);
	char *path = weights(), *file, *copy, *bytes;
	size_t len;
	struct model *m;
	struct torch_rng rng;
	struct err e = {0};
	float x[PIXELS], out[PIXELS];
	double ddim, ddpm;

	(void)state;
	if (!path)
		skip();
	file = path_join(dir, "config.json");
	copy = path_join(dir, "ddpm_mnist.pt");
	assert_int_equal(commit_bytes(file, config, strlen(config), &e), 0);
	bytes = file_load(path, 1 << 24, &len, &e);
	assert_true(bytes && !commit_bytes(copy, bytes, len, &e));
	mem_free(bytes);
	if (!(m = model_open(dir, 1, COMPACT_NONE, d, NULL, &e)))
		fail_msg("%s", e.msg);
	torch_seed(&rng, 3);
	torch_randn(&rng, x, PIXELS);
	for (size_t i = 0; i < sizeof eps / sizeof *eps; i++) {
		ask(m, out, x, eps[i].step / (double)TIMES, 0, NULL);
		assert_true(error_of(out, eps[i].want) < 1e-4);
	}
	ddim = sampled(m, d, "ddim", 50, golden_mnist_ddim_50);
	ddpm = sampled(m, d, "ddpm,variance=large", 1000, golden_mnist_ddpm_1000);
	print_message("DDIM of 50 steps: off by %g; DDPM of 1000: by %g\n", ddim, ddpm);
	assert_true(ddim < 1e-3 && ddpm < 1e-3);
	model_free(m);
	device_free(d);
	pool_free(pool);
	mem_free(file);
	mem_free(copy);
	mem_free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(as_in_pytorch)};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
