/* train/head: a router that starts from another one with more or fewer clusters, and trains its last layer alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/safetensors.h"
#include "net/model.h"
#include "net/netdef.h"
#include "tests/unit/stripesdir.h"
#include "tests/unit/tinyrun.h"

enum { K = 2 }; /* clusters of the shards */

static int run(const struct train_options *o, struct err *e)
{
	struct pool *pool = pool_new(2, e);
	struct device *d = device_cpu(pool, DT_F32);
	int rc = train_run(o, d, NULL, e);

	device_free(d);
	pool_free(pool);
	return rc;
}

/* A router of k clusters with drawn weights, DIR/NAME. Caller frees the path. */
static char *old_router(const char *name, int64_t k)
{
	struct model_config c = {.cluster = -1, .clusters = k};
	struct train_options o = tiny_run(&net_router, shards, dir);
	char *out = path_join(dir, name), *config = path_join(out, "config.json"), *weights = path_join(out, "model.safetensors"), *text;
	struct params p = {0};
	struct err e = {0};
	float *values;

	c.net = o.net;
	c.net.channels = 1;
	c.net.size = S;
	c.net.clusters = k;
	c.net.time_scale = 900; /* not the default */
	snprintf(c.path, sizeof c.path, "linear");
	net_params(&c.net, &p);
	values = mem_zalloc((size_t)p.total, sizeof *values);
	rng_normal(values, (size_t)p.total, 5, RNG_TEST, 0, (uint64_t)k);
	text = model_config_text(&c, NULL);
	assert_int_equal(dir_make(out, &e), 0);
	if (commit_bytes(config, text, strlen(text), &e) || model_write_weights(weights, &p, NULL, values, NULL, 0, &e))
		fail_msg("%s", e.msg);
	params_release(&p);
	mem_free(values);
	mem_free(text);
	mem_free(config);
	mem_free(weights);
	return out;
}

static struct safetensors *open_weights(const char *out)
{
	char *path = path_join(out, "model.safetensors");
	struct safetensors *s = st_open(path, NULL);

	assert_non_null(s);
	mem_free(path);
	return s;
}

static const struct st_tensor *tensor_of(const struct safetensors *s, const char *name)
{
	const struct st_tensor *t = st_find(s, name);

	assert_non_null(t);
	return t;
}

/* Whether all tensors but the last layer's are the same bytes. */
static int same_body(const struct safetensors *a, const struct safetensors *b)
{
	assert_int_equal(st_tensors(a), st_tensors(b));
	for (int i = 0; i < st_tensors(a); i++) {
		const struct st_tensor *t = st_get(a, i), *u = tensor_of(b, t->name);

		if (!strncmp(t->name, "head.4.", 7))
			continue;
		assert_int_equal(st_count(t), st_count(u));
		if (memcmp(t->data, u->data, (size_t)st_count(t) * sizeof(float)) != 0)
			return 0;
	}
	return 1;
}

/* Row i of the new weights and bias, against `kept` (old rows; n of them), or their mean. */
static void check_row(const struct safetensors *now, const struct safetensors *was, int64_t i, const int *kept, int n)
{
	static const char *const names[] = {"head.4.weight", "head.4.bias"};

	for (int j = 0; j < 2; j++) {
		const struct st_tensor *a = tensor_of(now, names[j]), *b = tensor_of(was, names[j]);
		int64_t width = st_count(a) / K;
		const float *x = a->data, *y = b->data;

		for (int64_t c = 0; c < width; c++) {
			double mean = 0;

			for (int k = 0; k < n; k++)
				mean += y[kept[k] * width + c] / (double)n;
			assert_float_equal(x[i * width + c], (float)mean, n == 1 ? 0 : 1e-6);
		}
	}
}

/* A rate of 1e-30 changes no float. */
static void rows(void **state)
{
	static const struct {
		int64_t k;
		const char *rows;
		int row[K][3], n[K];
	} cases[] = {
	    {2, NULL, {{0}, {1}}, {1, 1}},    {3, "2,0", {{2}, {0}}, {1, 1}}, {3, "2,2", {{2}, {2}}, {1, 1}},
	    {3, "new,1", {{1}, {1}}, {1, 1}}, {1, NULL, {{0}, {0}}, {1, 1}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char name[16], *from, *out;
		struct train_options o;
		struct safetensors *now, *was;
		struct err e = {0};

		snprintf(name, sizeof name, "old-%d", (int)i);
		from = old_router(name, cases[i].k);
		snprintf(name, sizeof name, "new-%d", (int)i);
		out = path_join(dir, name);
		o = tiny_run(&net_router, shards, out);
		o.from = from;
		o.rows = cases[i].rows;
		o.lr = 1e-30;
		o.ema_half_life = -1; /* the average of equal numbers rounds */
		if (run(&o, &e))
			fail_msg("%s", e.msg);
		now = open_weights(out);
		was = open_weights(from);
		assert_true(same_body(now, was));
		for (int k = 0; k < K; k++)
			check_row(now, was, k, cases[i].row[k], cases[i].n[k]);
		st_free(now);
		st_free(was);
		mem_free(from);
		mem_free(out);
	}
}

static struct model_config config_of(const char *out)
{
	struct model_config c;
	struct err e = {0};

	if (model_config_load(out, &c, &e))
		fail_msg("%s", e.msg);
	return c;
}

/* The last layer learns, with each optimizer and by recomputation too, and nothing else changes; without head_only everything does. */
static void head_only(void **state)
{
	static const struct {
		enum optimizer_kind optimizer;
		int recompute, all;
	} cases[] = {
	    {OPTIMIZER_ADAMW, 0, 0}, {OPTIMIZER_ADAMW, 1, 0}, {OPTIMIZER_MUON, 0, 0}, {OPTIMIZER_SCHEDULE_FREE, 0, 0}, {OPTIMIZER_ADAMW, 0, 1}};
	char *from = old_router("taught", 3);
	struct safetensors *was = open_weights(from), *first = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char name[16], *out;
		struct train_options o;
		struct safetensors *now;
		struct model_config c;
		struct err e = {0};

		snprintf(name, sizeof name, "head-%d", (int)i);
		out = path_join(dir, name);
		o = tiny_run(&net_router, shards, out);
		o.from = from;
		o.rows = "2,new";
		o.head_only = !cases[i].all;
		o.optimizer = cases[i].optimizer;
		o.recompute = cases[i].recompute;
		o.weight_decay = .1;
		o.keep_best = 0;
		o.lr = .1;
		if (run(&o, &e))
			fail_msg("%s", e.msg);
		now = open_weights(out);
		assert_int_equal(same_body(now, was), !cases[i].all);
		assert_true(memcmp(tensor_of(now, "head.4.weight")->data, (const float *)tensor_of(was, "head.4.weight")->data + 2 * 16,
		                   16 * sizeof(float)) != 0);
		if (cases[i].recompute)
			assert_memory_equal(tensor_of(now, "head.4.weight")->data, tensor_of(first, "head.4.weight")->data, K * 16 * sizeof(float));
		c = config_of(out);
		assert_int_equal(c.net.clusters, K);
		assert_float_equal(c.net.time_scale, 900, 0);
		model_config_release(&c);
		if (i)
			st_free(now);
		else
			first = now;
		mem_free(out);
	}
	st_free(first);
	st_free(was);
	mem_free(from);
}

static void refuse(const struct train_options *o, int code, const char *part)
{
	struct err e = {0};

	assert_int_equal(run(o, &e), -1);
	assert_int_equal(e.code, code);
	if (!strstr(e.msg, part))
		fail_msg("\"%s\" does not say \"%s\"", e.msg, part);
}

static void refusals(void **state)
{
	char *from = old_router("refused", 3), *out = path_join(dir, "none");
	static const char *const lists[] = {"3,0", "-1,0", "0,x", "0", "0,1,2", "", "0,,1"};
	struct train_options o = tiny_run(&net_router, shards, out);

	(void)state;
	o.head_only = 1;
	refuse(&o, ERR_USAGE, "--from");
	o.from = from;
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		o.rows = lists[i];
		refuse(&o, ERR_USAGE, "--rows");
	}
	o.rows = NULL;
	refuse(&o, ERR_USAGE, "has 3 clusters, and the new router has 2: say with --rows");
	o.rows = "0,1";
	trunk_edit(&o.net)->hidden = 32;
	refuse(&o, ERR_USAGE, "hidden 16, not 32");
	trunk_edit(&o.net)->hidden = 16;
	assert_int_equal(path_choice_parse("gvp", &o.objective.path, NULL), 0);
	refuse(&o, ERR_USAGE, "path linear, not");
	mem_free(from);
	mem_free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rows),
	    cmocka_unit_test(head_only),
	    cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, make_shards_dir, remove_shards_dir);
}
