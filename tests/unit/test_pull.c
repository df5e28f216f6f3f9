/* model_pull, J' dy of every architecture with respect to its input: it is the transpose of central differences, <dy, J u> = <J' dy, u>; the output
 * is that of the same network without a gradient; and a row does not depend on the batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/str.h"
#include "file/commit.h"
#include "net/model.h"
#include "net/netdef.h"
#include "tests/unit/scratch.h"

enum { N = 3, SIZE = 16, D = SIZE * SIZE, TOKENS = 4, WIDTH = 16, CLUSTERS = 3, CLASSES = 2 };

static struct pool *pool;
static struct device *device;
static float text[N * TOKENS * WIDTH], t[N] = {.1f, .5f, 1};
static const int32_t label[N] = {0, 2, 1};

/* Write a model folder with random weights. */
static void write_model(struct net_config *net, uint64_t seed)
{
	struct model_config m = {.path = "linear", .cluster = -1};
	char *config = path_join(dir, "config.json"), *weights = path_join(dir, model_weights_name(net_role(net))), *said;
	struct params p = {0};
	struct err e = {0};
	float *values;

	m.net = *net;
	snprintf(m.prediction, sizeof m.prediction, "%s", net_is_classifier(net) ? "" : "velocity");
	said = model_config_text(&m, NULL);
	net_params(net, &p);
	values = mem_zalloc((size_t)p.total, sizeof *values);
	rng_normal(values, (size_t)p.total, seed, RNG_TEST, 0, 0);
	for (int64_t i = 0; i < p.total; i++)
		values[i] *= .08f;
	if (commit_bytes(config, said, strlen(said), &e) || model_write_weights(weights, &p, NULL, values, NULL, 0, &e))
		fail_msg("%s", e.msg);
	params_release(&p);
	mem_free(values);
	mem_free(said);
	mem_free(config);
	mem_free(weights);
}

static double dot(const float *a, const float *b, int64_t n)
{
	double s = 0;

	for (int64_t i = 0; i < n; i++)
		s += (double)a[i] * b[i];
	return s;
}

static void check_model(const char *name, const char *preset)
{
	struct net_config c;
	struct err e = {0};
	struct model *plain, *m;
	struct model_input in = {.t = t, .label = label, .text = text};
	int64_t out;
	float x[N * D], u[N * D], near[N * D], dx[N * D], one[D], *y, *dy, *up, *down;
	const double h = 3e-3;

	net_init(&c, net_find(name));
	if (net_preset(preset, &c, &e))
		fail_msg("%s", e.msg);
	c.channels = c.out_channels = 1;
	c.size = SIZE;
	if (net_reads(&c, NET_IN_TEXT)) {
		c.text_tokens = TOKENS;
		c.text_width = WIDTH;
	} else if (!net_is_classifier(&c)) {
		c.classes = CLASSES;
		c.class_dropout = .1;
	}
	if (net_is_classifier(&c))
		c.clusters = CLUSTERS;
	if (net_check(&c, &e))
		fail_msg("%s: %s", name, e.msg);
	write_model(&c, 3);
	plain = model_open(dir, N, COMPACT_NONE, device, NULL, &e);
	m = model_find_gradient(dir, N, 0, device, NULL, &e);
	if (!plain || !m || model_load(m, NULL, NULL, &e))
		fail_msg("%s: %s", name, e.msg);
	out = model_elements(m);
	y = mem_zalloc((size_t)(4 * N * out), sizeof *y);
	dy = y + N * out;
	up = dy + N * out;
	down = up + N * out;
	rng_normal(x, N * D, 5, RNG_TEST, 1, 0);
	rng_normal(u, N * D, 5, RNG_TEST, 2, 0);
	rng_normal(dy, (size_t)(N * out), 5, RNG_TEST, 3, 0);
	in.x = x;
	model_pull(m, N, &in, dy, y, dx);
	model_run(plain, N, &in, up);
	for (int64_t i = 0; i < N * out; i++)
		assert_true(fabs(y[i] - up[i]) <= 1e-5 * (1 + fabs(up[i])));
	model_submit(m, N, &in, up);
	assert_memory_equal(y, up, (size_t)(N * out) * sizeof *y);
	for (int i = 0; i < N; i++) {
		struct model_input row = {.x = x + i * D, .t = t + i, .label = label + i, .text = text + i * TOKENS * WIDTH};

		model_pull(m, 1, &row, dy + i * out, up, one);
		assert_memory_equal(one, dx + i * D, sizeof one);
	}
	in.x = near;
	for (int i = 0; i < N * D; i++)
		near[i] = (float)(x[i] + h * u[i]);
	model_run(plain, N, &in, up);
	for (int i = 0; i < N * D; i++)
		near[i] = (float)(x[i] - h * u[i]);
	model_run(plain, N, &in, down);
	for (int i = 0; i < N; i++) {
		double a = (dot(dy + i * out, up + i * out, out) - dot(dy + i * out, down + i * out, out)) / (2 * h),
		       b = dot(dx + i * D, u + i * D, D), scale = sqrt(dot(dx + i * D, dx + i * D, D) * dot(u + i * D, u + i * D, D) / D);

		print_message("%s, t = %g: %g by differences, %g by the gradient\n", name, t[i], a, b);
		assert_true(scale > 1e-3);
		assert_true(fabs(a - b) <= 5e-3 * scale); /* the third derivative times h^2 */
	}
	assert_int_equal(device->error(device, &e), 0);
	mem_free(y);
	model_free(plain);
	model_free(m);
}

static void architectures(void **state)
{
	(void)state;
	rng_normal(text, N * TOKENS * WIDTH, 5, RNG_TEST, 4, 0);
	check_model("dit", "dit-nano/4");
	check_model("dit_expert", "paris-nano/4");
	check_model("pixart", "pixart-nano/4");
	check_model("unet", "unet-nano");
	check_model("router", "dit-nano/4");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(architectures)};
	int rc;

	pool = pool_new(3, NULL);
	device = device_cpu(pool, DT_F32);
	rc = cmocka_run_group_tests(tests, make_dir, remove_dir);
	device_free(device);
	pool_free(pool);
	return rc;
}
