/* Experts stored as bf16 and int8: the pictures are close to those of float weights and do not depend on batch and threads; the router and all
 * weights except the blocks' matrices are unchanged. Files with BF16 weights, and PyTorch's files. On tests/golden/tiny-model.tar and
 * torch/ensemble.tar.gz, which holds the same model. */
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
#include "core/rng.h"
#include "core/shortfloat.h"
#include "core/str.h"
#include "diffusion/ensemble.h"
#include "diffusion/sampler.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/safetensors.h"
#include "file/tarfile.h"
#include "net/model.h"

enum { PICTURES = 24, STEPS = 8, MOST = 3 * 64 };

static char dir[3000];

static char *below(const char *name)
{
	return path_join(dir, name);
}

static void write_file(const char *name, const void *data, size_t size)
{
	char *path = below(name), *slash = strrchr(path, '/');

	*slash = 0;
	assert_int_equal(dir_make(path, NULL), 0);
	*slash = '/';
	assert_int_equal(commit_bytes(path, data, size, NULL), 0);
	mem_free(path);
}

static int unpack_tar(const char *path)
{
	struct tar_reader *t = tar_open(path, NULL, NULL);
	struct tar_member m;

	if (!t)
		return -1;
	while (tar_next(t, &m, NULL) > 0)
		write_file(m.name, m.data, m.size);
	tar_close(t);
	return 0;
}

static int unpack(void **state)
{
	(void)state;
	snprintf(dir, sizeof dir, "%s/ddm-weights-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	return !mkdtemp(dir) || unpack_tar("tests/golden/tiny-model.tar") || unpack_tar("tests/golden/torch/ensemble.tar.gz") ? -1 : 0;
}

static int clean(void **state)
{
	(void)state;
	return dir_remove(dir, NULL);
}

/* Bytes of all weights in memory. */
static int64_t bytes_held(const struct ensemble *s)
{
	int64_t bytes = 0;

	for (int i = 0; i < s->members; i++)
		bytes += ensemble_member_bytes(s, i);
	return bytes;
}

struct request {
	const char *model, *route;
	enum compact_type bulk;
	int64_t batch;
	int threads;
	double cfg;
};

/* x (PICTURES, d); returns d. */
static int64_t sample(const struct request *q, float *x, int64_t *bytes)
{
	struct pool *pool = pool_new(q->threads, NULL);
	struct ensemble_options o = {.capacity = 2 * q->batch, .bulk = q->bulk, .device = device_cpu(pool, DT_F32)};
	struct ensemble s;
	struct mixture m;
	struct sampler sampler;
	struct sampler_state *st;
	struct err e = {0};
	char *path = below(q->model);
	int64_t d;

	assert_int_equal(policy_parse(q->route, &o.policy, &e), 0);
	assert_int_equal(ensemble_open(&s, path, &o, &e), 0);
	m = (struct mixture){.k = s.k,
	                     .d = s.d,
	                     .expert = s.expert,
	                     .router = s.router.logits ? &s.router : NULL,
	                     .policy = o.policy,
	                     .cfg = q->cfg,
	                     .seed = 3,
	                     .device = o.device};
	sampler = (struct sampler){.mixture = &m, .solver = {SOLVER_EULER, STEPS, 1, 0}, .seed = 3, .batch = q->batch};
	st = sampler_new(&sampler, &e);
	assert_non_null(st);
	for (int64_t at = 0; at < PICTURES; at += q->batch) {
		int64_t n = q->batch < PICTURES - at ? q->batch : PICTURES - at, index[PICTURES];
		int32_t label[PICTURES];

		for (int64_t i = 0; i < n; i++) {
			index[i] = at + i;
			label[i] = (int32_t)((at + i) % 3);
		}
		assert_int_equal(
		    sampler_run(st, x + at * s.d, &(struct sampler_call){.n = n, .index = index, .label = s.classes ? label : NULL}, NULL, NULL, &e),
		    0);
	}
	d = s.d;
	*bytes = bytes_held(&s);
	sampler_free(st);
	ensemble_release(&s);
	device_free(o.device);
	pool_free(pool);
	mem_free(path);
	return d;
}

static void ask(struct ensemble *s, int k, float *v)
{
	enum { N = 3 };
	float x[N * 64], t[N] = {.9f, .5f, .2f};
	struct err e = {0};

	rng_normal(x, N * 64, 5, RNG_TEST, 0, 0);
	assert_int_equal(s->d, 64);
	assert_int_equal(s->expert[k].velocity(s->expert[k].arg, N, x, t, &(struct condition){0}, v, &e), 0);
}

/* No weights are loaded before an expert is used, then only its own. Later experts share its work space, and each gives the results that it gives
 * alone. */
static void weights_are_read_when_asked(void **state)
{
	static const int order[] = {0, 1, 0, 1};
	struct ensemble_options o = {.policy = policy_of("top-1"), .capacity = 3, .device = device_cpu(NULL, DT_F32)};
	char *path = below("ensemble");
	float alone[2][3 * 64], v[3 * 64];
	int64_t bytes[2];
	struct ensemble s;
	struct err e = {0};

	(void)state;
	for (int k = 0; k < 2; k++) {
		assert_int_equal(ensemble_open(&s, path, &o, &e), 0);
		assert_int_equal(bytes_held(&s), 0);
		ask(&s, k, alone[k]);
		bytes[k] = bytes_held(&s);
		assert_true(bytes[k] > 0);
		ensemble_release(&s);
	}
	assert_int_equal(ensemble_open(&s, path, &o, &e), 0);
	for (int i = 0; i < 4; i++) {
		ask(&s, order[i], v);
		assert_memory_equal(v, alone[order[i]], sizeof v);
		assert_int_equal(bytes_held(&s), i ? bytes[0] + bytes[1] : bytes[0]);
	}
	ensemble_release(&s);
	device_free(o.device);
	mem_free(path);
}

/* Root of the mean square of a - b over that of a. */
static double deviation(const float *a, const float *b, int64_t n)
{
	double difference = 0, size = 0;

	for (int64_t i = 0; i < n; i++) {
		difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
		size += (double)a[i] * a[i];
	}
	return sqrt(difference / size);
}

/* bf16 has a relative spacing of 2^-8 and so an error of about 2^-8 / sqrt(12) = .1% per weight and per input of a product; int8 has one of
 * 1/127 / sqrt(12) = .2% of a row's largest weight. The bounds are about three times the measured errors. */
static void near_the_float_weights(void **state)
{
	static const struct {
		const char *model, *route;
		double cfg, limit[3]; /* by type */
	} cases[] = {
	    {"ensemble", "full", 1, {0, 8e-4, 1.5e-3}}, {"ensemble", "expert:2", 1, {0, 4e-4, 1e-3}}, {"guided", "expert:0", 3, {0, 9e-3, 1.4e-2}}};
	static float x[3][PICTURES * MOST];

	(void)state;
	for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
		int64_t bytes[3], d = 0;

		for (enum compact_type type = COMPACT_NONE; type <= COMPACT_INT8; type++) {
			struct request q = {cases[c].model, cases[c].route, type, 8, 2, cases[c].cfg};
			double far;

			d = sample(&q, x[type], &bytes[type]);
			far = deviation(x[0], x[type], PICTURES * d);
			if (type)
				print_message("%s, route %s, %s: %.5f\n", q.model, q.route, type == COMPACT_BF16 ? "bf16" : "int8", far);
			assert_true(type ? far > 1e-5 && far < cases[c].limit[type] : far == 0);
		}
		assert_true(deviation(x[0], x[1], PICTURES * d) < deviation(x[0], x[2], PICTURES * d));
	}
}

static void batch_and_threads(void **state)
{
	static const struct {
		int64_t batch;
		int threads;
	} ways[] = {{24, 1}, {5, 3}, {1, 2}};
	static float first[PICTURES * MOST], x[PICTURES * MOST];
	int64_t bytes;

	(void)state;
	for (enum compact_type type = COMPACT_NONE; type <= COMPACT_INT8; type++)
		for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
			struct request q = {"ensemble", "top-2", type, ways[i].batch, ways[i].threads, 1};
			int64_t d = sample(&q, i ? x : first, &bytes);

			if (i)
				assert_memory_equal(x, first, (size_t)(PICTURES * d) * sizeof *x);
		}
}

/* One call of a model; returns the bytes of its weights. */
static int64_t evaluate(const char *name, enum compact_type bulk, float *out)
{
	char *path = below(name);
	struct err e = {0};
	struct device *d = device_cpu(NULL, DT_F32);
	struct model *m = model_open(path, 4, bulk, d, NULL, &e);
	float x[4 * 64], t[4] = {.1f, .3f, .7f, .9f};
	int64_t bytes;

	assert_non_null(m);
	for (int i = 0; i < 4 * 64; i++)
		x[i] = (float)sin(.7 * i);
	model_run(m, 4, &(struct model_input){.x = x, .t = t}, out);
	bytes = model_bytes(m);
	model_free(m);
	device_free(d);
	mem_free(path);
	return bytes;
}

/* expert_2 in a separate folder, with every tensor rounded to bf16 and stored as bf16 or as float. */
static void store(const char *to, enum st_type type)
{
	char *from = below("ensemble/expert_2/config.json"), *weights = below("ensemble/expert_2/diffusion_pytorch_model.safetensors");
	char name[100], *out;
	size_t len;
	void *config = file_load(from, 1 << 20, &len, NULL);
	struct safetensors *s = st_open(weights, NULL);
	int n = st_tensors(s);
	struct st_tensor *t = mem_zalloc((size_t)n, sizeof *t);

	for (int i = 0; i < n; i++) {
		int64_t count = st_count(st_get(s, i));
		float *values = mem_alloc((size_t)count * sizeof *values);
		uint16_t *half = mem_alloc((size_t)count * sizeof *half);

		st_to_f32(values, st_get(s, i));
		for (int64_t k = 0; k < count; k++) {
			half[k] = f32_to_bf16(values[k]);
			values[k] = bf16_to_f32(half[k]);
		}
		t[i] = *st_get(s, i);
		t[i].type = type;
		t[i].data = type == ST_BF16 ? (void *)half : values;
		mem_free(type == ST_BF16 ? (void *)values : half);
	}
	snprintf(name, sizeof name, "%s/config.json", to);
	write_file(name, config, len);
	snprintf(name, sizeof name, "%s/diffusion_pytorch_model.safetensors", to);
	out = below(name);
	assert_int_equal(st_write(out, t, n, NULL, 0, NULL), 0);
	for (int i = 0; i < n; i++)
		mem_free((void *)t[i].data);
	st_free(s);
	mem_free(t);
	mem_free(config);
	mem_free(from);
	mem_free(weights);
	mem_free(out);
}

static void stored_as_bf16(void **state)
{
	float wide[4 * 64], narrow[4 * 64], rounded[4 * 64];

	(void)state;
	store("wide", ST_F32);
	store("narrow", ST_BF16);
	evaluate("wide", COMPACT_NONE, wide);
	evaluate("narrow", COMPACT_NONE, narrow);
	assert_memory_equal(wide, narrow, sizeof wide);
	evaluate("wide", COMPACT_BF16, wide);
	evaluate("narrow", COMPACT_BF16, rounded);
	assert_memory_equal(wide, rounded, sizeof wide);
	assert_true(deviation(narrow, rounded, 4 * 64) > 0);
}

static void of_torch(void **state)
{
	static float x[PICTURES * MOST], y[PICTURES * MOST];
	int64_t bytes, d;

	(void)state;
	for (int bulk = 0; bulk < 2; bulk++) {
		enum compact_type type = bulk ? COMPACT_BF16 : COMPACT_NONE;

		d = sample(&(struct request){"ensemble", "full", type, 24, 1, 1}, x, &bytes);
		assert_int_equal(sample(&(struct request){"torch", "full", type, 24, 1, 1}, y, &bytes), d);
		assert_memory_equal(x, y, (size_t)(PICTURES * d) * sizeof *x);
	}
}

/* The blocks' matrices, of (24, 8, 16, 8, 48) rows by (8, 8, 8, 16, 8) columns, are stored once in every type: rows in panels of 32, floats in the
 * panels of the build's product. */
static void held_once(void **state)
{
	static const int64_t shape[][2] = {{24, 8}, {8, 8}, {16, 8}, {8, 16}, {48, 8}};
	enum { CELLS = 24 * 8 + 8 * 8 + 16 * 8 + 8 * 16 + 48 * 8, ROWS = 32 * 8 + 32 * 8 + 32 * 8 + 32 * 16 + 64 * 8, SCALES = 4 * 32 + 64 };
	float out[4 * 64];
	struct params p = {0};
	int64_t floats = 0, rest;
	struct model_config c;
	char *path = below("ensemble/expert_2");

	(void)state;
	for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
		struct compact w;

		assert_int_equal(compact_init(&w, COMPACT_F32, shape[i][0], shape[i][1], NULL), 0);
		floats += compact_bytes(&w);
		compact_release(&w);
	}
	assert_true(floats >= 4 * CELLS && floats <= 4 * ROWS);
	assert_int_equal(model_config_load(path, &c, NULL), 0);
	net_params(&c.net, &p);
	rest = 4 * (p.total - CELLS);
	assert_int_equal(evaluate("ensemble/expert_2", COMPACT_NONE, out), rest + floats);
	assert_int_equal(evaluate("ensemble/expert_2", COMPACT_BF16, out), rest + 2 * ROWS);
	assert_int_equal(evaluate("ensemble/expert_2", COMPACT_INT8, out), rest + ROWS + 4 * SCALES);
	params_release(&p);
	model_config_release(&c);
	mem_free(path);
}

static void router_in_floats(void **state)
{
	static float x[PICTURES * MOST];
	int64_t bytes, expert = evaluate("ensemble/expert_2", COMPACT_INT8, x), router = evaluate("ensemble/router", COMPACT_NONE, x);

	(void)state;
	sample(&(struct request){"ensemble", "full", COMPACT_INT8, 24, 1, 1}, x, &bytes);
	assert_int_equal(bytes, 3 * expert + router);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(near_the_float_weights),
	    cmocka_unit_test(batch_and_threads),
	    cmocka_unit_test(stored_as_bf16),
	    cmocka_unit_test(of_torch),
	    cmocka_unit_test(weights_are_read_when_asked),
	    cmocka_unit_test(held_once),
	    cmocka_unit_test(router_in_floats),
	};

	return cmocka_run_group_tests(tests, unpack, clean);
}
