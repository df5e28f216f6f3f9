/* net: SD3 and FLUX: gradients by central differences, recomputed blocks, independent rows, parameter counts of the published networks,
 * configurations, and the names of the published files. tests/unit/test_net_golden.c compares with diffusers. */
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
#include "core/str.h"
#include "file/safetensors.h"
#include "net/model.h"
#include "net/netdef.h"

enum { BATCH = 3 };

/* Small networks with all parts; the second has neither a pooled vector nor norms of queries and keys. */
static const char *const configs[] = {
    "{\"_class_name\": \"SD3Transformer2DModel\", \"in_channels\": 2, \"out_channels\": 2, \"sample_size\": 4, \"patch_size\": 2, \"num_layers\": 3, "
    "\"num_attention_heads\": 2, \"attention_head_dim\": 4, \"joint_attention_dim\": 3, \"pooled_projection_dim\": 5, \"text_tokens\": 3, "
    "\"pos_embed_max_size\": 3, \"caption_projection_dim\": 8, \"qk_norm\": \"rms_norm\", \"dual_attention_layers\": [0, 1]}",
    "{\"_class_name\": \"SD3Transformer2DModel\", \"in_channels\": 3, \"sample_size\": 3, \"patch_size\": 1, \"num_layers\": 1, "
    "\"num_attention_heads\": 1, \"attention_head_dim\": 12, \"joint_attention_dim\": 4, \"pooled_projection_dim\": 0, \"text_tokens\": 1, "
    "\"pos_embed_max_size\": 3, \"qk_norm\": null}",
    "{\"_class_name\": \"FluxTransformer2DModel\", \"in_channels\": 8, \"sample_size\": 4, \"patch_size\": 1, \"num_layers\": 2, "
    "\"num_single_layers\": 2, \"num_attention_heads\": 2, \"attention_head_dim\": 8, \"joint_attention_dim\": 3, \"pooled_projection_dim\": 5, "
    "\"text_tokens\": 3, \"guidance_embeds\": true, \"axes_dims_rope\": [2, 2, 4]}",
    "{\"model_type\": \"flux\", \"in_channels\": 2, \"sample_size\": 6, \"patch_size\": 2, \"num_layers\": 1, \"num_single_layers\": 1, "
    "\"num_attention_heads\": 1, \"hidden_size\": 12, \"joint_attention_dim\": 4, \"pooled_projection_dim\": 0, \"text_tokens\": 2}",
};
enum { FLUX = 2 };

static struct net_config parse(const char *text)
{
	json_t *o = json_loads(text, 0, NULL);
	struct net_config c;
	struct err e = {0};

	assert_non_null(o);
	if (net_from_json(o, "config", &c, &e))
		fail_msg("%s", e.msg);
	json_decref(o);
	return c;
}

/* The message that refuses a configuration: one of `configs` with a member changed. */
static const char *refusal(const char *config, const char *member, struct err *e)
{
	json_t *o = json_loads(config, 0, NULL), *more = json_loads(member, 0, NULL);
	struct net_config c;

	*e = (struct err){0};
	json_object_update(o, more);
	assert_int_equal(net_from_json(o, "config", &c, e), -1);
	assert_int_equal(e->code, ERR_DATA);
	json_decref(o);
	json_decref(more);
	return e->msg;
}

/* A recorded network with inputs, weights and a cotangent drawn from the index of each number. */
struct run {
	enum dtype real;
	int rows;
	struct device *d;
	struct tape *t;
	struct params p;
	struct net_input in;
	struct tensor *y, *dy;
	int forward;
	char *values, *grads, *input[NET_INPUTS], *cotangent;
};

static size_t size_of(enum dtype real)
{
	return real == DT_F64 ? sizeof(double) : sizeof(float);
}

static double get(const struct run *r, const char *v, int64_t i)
{
	return r->real == DT_F64 ? ((const double *)(const void *)v)[i] : (double)((const float *)(const void *)v)[i];
}

static void put(const struct run *r, char *v, int64_t i, double x)
{
	if (r->real == DT_F64)
		((double *)(void *)v)[i] = x;
	else
		((float *)(void *)v)[i] = (float)x;
}

static char *drawn(const struct run *r, int64_t n, uint64_t what, double scale)
{
	char *v = mem_zalloc((size_t)n, size_of(r->real));

	for (int64_t i = 0; i < n; i++)
		put(r, v, i, (double)(float)(scale * (2 * rng_uniform(5, RNG_TEST, what, (uint64_t)i, 0) - 1)));
	return v;
}

static int64_t count_of(const struct tensor *x)
{
	int64_t n = 1;

	for (int i = 0; i < x->rank; i++)
		n *= x->shape[i];
	return n;
}

static void run_open(struct run *r, const struct net_config *c, enum dtype real, int rows, enum recompute recompute)
{
	struct err e = {0};

	*r = (struct run){.real = real, .rows = rows, .d = device_cpu(NULL, real), .t = tape_new(real, rows)};
	net_inputs(r->t, c, &r->in);
	r->y = net_record(r->t, &r->p, c, &r->in);
	tape_keep(r->t, r->y);
	r->forward = tape_mark(r->t);
	r->dy = tape_input(r->t, real, r->y->rank, r->y->shape, TAPE_BATCHED);
	tape_recompute(r->t, recompute);
	tape_backward(r->t, r->y, r->dy);
	params_layout(&r->p);
	tape_layout(r->t, r->d, &(struct plan_options){.poison = 1});
	if (tape_allocate(r->t, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < NET_INPUTS; i++)
		if (r->in.v[i]) {
			r->input[i] = drawn(r, count_of(r->in.v[i]), 100 + (uint64_t)i, 1);
			tape_bind(r->t, r->in.v[i], r->input[i]);
		}
	for (int i = 0; i < rows; i++)
		put(r, r->input[NET_IN_TIME], i, .25 * (i + 1));
	for (int64_t i = 0; i < rows * c->text_tokens; i++) /* text i has i + 1 tokens */
		put(r, r->input[NET_IN_MASK], i, i % c->text_tokens <= i / c->text_tokens ? 0 : NET_PADDING);
	r->values = drawn(r, r->p.total, 1, .7);
	r->grads = mem_zalloc((size_t)r->p.total, size_of(real));
	r->cotangent = drawn(r, count_of(r->y), 2, 1);
	tape_bind(r->t, r->dy, r->cotangent);
	tape_bind_params(r->t, r->values, r->grads);
}

static void run_close(struct run *r)
{
	tape_free(r->t);
	device_free(r->d);
	params_release(&r->p);
	for (int i = 0; i < NET_INPUTS; i++)
		mem_free(r->input[i]);
	mem_free(r->values);
	mem_free(r->grads);
	mem_free(r->cotangent);
}

/* sum(dy * y) */
static double objective(struct run *r)
{
	const char *y;
	double sum = 0;

	tape_run(r->t, r->rows, 0, r->forward);
	y = tape_data(r->t, r->y);
	for (int64_t i = 0; i < count_of(r->y); i++)
		sum += get(r, y, i) * get(r, r->cotangent, i);
	return sum;
}

/* The derivative along a random direction of each parameter. A central difference of step h has an error of h^2 f''' / 6 and a rounding error of
 * 1e-16 f / h; with h = 1e-5 both are near 1e-10 of f, which is about 10 here. */
static void differences(void **state)
{
	const double h = 1e-5;

	(void)state;
	for (size_t k = 0; k < sizeof configs / sizeof *configs; k++) {
		struct net_config c = parse(configs[k]);
		struct run r;

		run_open(&r, &c, DT_F64, BATCH, RECOMPUTE_NONE);
		tape_run(r.t, BATCH, 0, tape_mark(r.t));
		for (int i = 0; i < r.p.n; i++) {
			const struct param *p = &r.p.v[i];
			double want = 0, size = 0, up, got, *v = mem_zalloc((size_t)p->count, sizeof *v);
			char *at = r.values + (size_t)p->offset * sizeof(double);

			if (p->flags & PARAM_FROZEN) {
				mem_free(v);
				continue;
			}
			for (int64_t j = 0; j < p->count; j++) {
				double u = 2 * rng_uniform(6, RNG_TEST, (uint64_t)i, (uint64_t)j, 0) - 1, x = get(&r, at, j);

				v[j] = x;
				want += u * get(&r, r.grads, p->offset + j);
				size += fabs(u * get(&r, r.grads, p->offset + j));
				put(&r, at, j, x + h * u);
			}
			up = objective(&r);
			for (int64_t j = 0; j < p->count; j++)
				put(&r, at, j, v[j] - h * (2 * rng_uniform(6, RNG_TEST, (uint64_t)i, (uint64_t)j, 0) - 1));
			got = (up - objective(&r)) / (2 * h);
			for (int64_t j = 0; j < p->count; j++)
				put(&r, at, j, v[j]);
			if (!(fabs(got - want) <= 1e-7 * (size + 1)))
				fail_msg("network %zu: %s: the difference is %.12g, the gradient %.12g", k, p->name, got, want);
			mem_free(v);
		}
		run_close(&r);
	}
}

/* Recomputed blocks give gradients of the same bits. */
static void recomputed(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof configs / sizeof *configs; k++) {
		struct net_config c = parse(configs[k]);
		struct run a, b;

		run_open(&a, &c, DT_F32, BATCH, RECOMPUTE_NONE);
		run_open(&b, &c, DT_F32, BATCH, RECOMPUTE_BLOCKS);
		tape_run(a.t, BATCH, 0, tape_mark(a.t));
		tape_run(b.t, BATCH, 0, tape_mark(b.t));
		assert_memory_equal(a.grads, b.grads, (size_t)a.p.trainable * sizeof(float));
		run_close(&a);
		run_close(&b);
	}
}

/* The first row does not depend on the rows after it, to the bit. */
static void rows_alone(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof configs / sizeof *configs; k++) {
		struct net_config c = parse(configs[k]);
		struct run a, b;

		run_open(&a, &c, DT_F32, BATCH, RECOMPUTE_NONE);
		run_open(&b, &c, DT_F32, 1, RECOMPUTE_NONE);
		tape_run(a.t, BATCH, 0, a.forward);
		tape_run(b.t, 1, 0, b.forward);
		assert_memory_equal(tape_data(a.t, a.y), tape_data(b.t, b.y), (size_t)net_elements(&c) * sizeof(float));
		run_close(&a);
		run_close(&b);
	}
}

/* The network of a preset for latents of 16 x 128 x 128. */
static struct net_config preset(const char *name)
{
	struct net_config c, d;
	struct err e = {0};

	net_init(&c, net_first(NET_EXPERT));
	if (net_preset(name, &c, &e))
		fail_msg("%s", e.msg);
	net_init(&d, c.def);
	net_shape_copy(&d, &c);
	d.channels = d.out_channels = 16;
	d.size = 128;
	if (net_check(&d, &e))
		fail_msg("%s", e.msg);
	return d;
}

/* Parameter counts of the published networks: trained, and in the table of positions, which SD3 stores. */
static void sizes(void **state)
{
	static const struct {
		const char *preset;
		int64_t trained, table;
	} v[] = {{"sd3-medium/2", 2028328000, 56623104},
	         {"sd3-3.5-medium/2", 2243171520, 226492416},
	         {"sd3-3.5-large/2", 8056627520, 89653248},
	         {"flux-dev/2", 11901408320, 0},
	         {"flux-schnell/2", 11891178560, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		struct net_config c = preset(v[i].preset);
		struct params p = {0};

		net_params(&c, &p);
		if (params_count(&p, 1) != v[i].trained || params_count(&p, 0) != v[i].trained + v[i].table)
			fail_msg("%s: %lld parameters, %lld with the table", v[i].preset, (long long)params_count(&p, 1),
			         (long long)params_count(&p, 0));
		params_release(&p);
	}
}

/* A written configuration is read as the same network, whichever program wrote it. */
static void round_trips(void **state)
{
	static const char *const presets[] = {"sd3-nano/4", "sd3-medium/2", "sd3-3.5-medium/2", "flux-nano/2", "flux-dev/2"};
	const size_t all = sizeof presets / sizeof *presets;
	struct net_config c, d;
	struct err e = {0};

	(void)state;
	for (size_t i = 0; i < all + sizeof configs / sizeof *configs; i++) {
		json_t *o = json_object();

		c = i < all ? preset(presets[i]) : parse(configs[i - all]);
		net_to_json(&c, o);
		for (int ours = 1; ours >= 0; ours--) {
			if (net_from_json(o, "config", &d, &e))
				fail_msg("%s", e.msg);
			assert_null(net_differs(&c, &d));
			assert_int_equal(d.pooled_width, c.pooled_width);
			if (!json_object_get(o, "_class_name")) /* FLUX counts channels in another way in diffusers */
				break;
			json_object_del(o, "model_type");
		}
		json_decref(o);
	}
}

static void refusals(void **state)
{
	static const struct {
		const char *member, *message;
	} v[] = {
	    {"{\"dual_attention_layers\": [1]}", "must list the first blocks in order"},
	    {"{\"dual_attention_layers\": [0, 1, 2, 3]}", "4 blocks with a second attention, but there are 3 blocks"},
	    {"{\"dual_attention_layers\": 2}", "is not a list"},
	    {"{\"dual_attention_layers\": [0.0]}", "must list the first blocks in order"},
	    {"{\"qk_norm\": \"layer_norm\"}", "must be null or \"rms_norm\""},
	    {"{\"qk_norm\": true}", "must be null or \"rms_norm\""},
	    {"{\"caption_projection_dim\": 16}", "\"caption_projection_dim\" is 16"},
	    {"{\"pos_embed_max_size\": 1}", "too small"},
	    {"{\"pos_embed_max_size\": 5000}", "pos_embed_max_size"},
	    {"{\"sample_size\": 5}", "does not divide the size 5"},
	    {"{\"attention_head_dim\": 3, \"caption_projection_dim\": 6}", "multiple of 4"},
	    {"{\"num_layers\": 0}", "num_layers"},
	    {"{\"pooled_projection_dim\": -1}", "pooled_projection_dim"},
	    {"{\"joint_attention_dim\": \"wide\"}", "joint_attention_dim"},
	};
	static const struct {
		const char *member, *message;
	} flux[] = {
	    {"{\"axes_dims_rope\": [2, 6]}", "is not a list of three numbers"},
	    {"{\"axes_dims_rope\": [2, 2, 2, 2]}", "is not a list of three numbers"},
	    {"{\"axes_dims_rope\": [2, 2, 2]}", "three even numbers whose sum is a head's width, 8"},
	    {"{\"axes_dims_rope\": [3, 3, 2]}", "three even numbers"},
	    {"{\"axes_dims_rope\": [\"a\", 4, 4]}", "list of three numbers"},
	    {"{\"axes_dims_rope\": [-2, 6, 4]}", "three even numbers"},
	    {"{\"patch_size\": 2}", "expected patch_size 1"},
	    {"{\"in_channels\": 6}", "expected patch_size 1"},
	    {"{\"num_single_layers\": 0}", "num_single_layers"},
	    {"{\"attention_head_dim\": 9}", "even width"},
	    {"{\"sample_size\": 5}", "does not divide the size 5"},
	    {"{\"sample_size\": 65536}", "1073741827 tokens is longer than 4194304"},
	    {"{\"guidance_embeds\": 1}", "guidance_embeds"},
	    {"{\"guidance_scale\": -1}", "guidance_scale"},
	};
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++)
		if (!strstr(refusal(configs[0], v[i].member, &e), v[i].message))
			fail_msg("%s: %s", v[i].member, e.msg);
	for (size_t i = 0; i < sizeof flux / sizeof *flux; i++)
		if (!strstr(refusal(configs[FLUX], flux[i].member, &e), flux[i].message))
			fail_msg("%s: %s", flux[i].member, e.msg);
}

/* Tensors of a parameter table as a file holds them, with a prefix, and other networks beside them. */
static struct safetensors *published(const struct params *p, const char *prefix, float *zeros, char **names)
{
	struct st_tensor *v = mem_zalloc((size_t)p->n + 1, sizeof *v);
	struct safetensors *s;

	for (int i = 0; i < p->n; i++) {
		names[i] = str_new("%s%s", prefix, p->v[i].name);
		v[i] = (struct st_tensor){.name = names[i], .type = ST_F32, .rank = p->v[i].rank, .data = zeros};
		memcpy(v[i].shape, p->v[i].shape, (size_t)p->v[i].rank * sizeof *v[i].shape);
	}
	v[p->n] = (struct st_tensor){.name = "first_stage_model.decoder.conv_in.bias", .type = ST_F32, .rank = 1, .shape = {3}, .data = zeros};
	s = st_of(v, p->n + (*prefix != 0), "file", NULL, NULL);
	mem_free(v);
	return s;
}

/* Published single files have a prefix and hold other networks too; a tensor under the prefix that this network lacks is refused. */
static void original_files(void **state)
{
	static const char *const prefixes[] = {"", "model.diffusion_model."}, *const lacking[] = {"y_embedder", "vector_in"};

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct net_config c = parse(configs[i / 2 * FLUX]), less = c;
		struct params p = {0}, q = {0};
		struct err e = {0};
		char **names;
		float *zeros;
		struct safetensors *s;

		less.pooled_width = 0;
		net_params(&c, &p);
		net_params(&less, &q);
		names = mem_zalloc((size_t)p.n, sizeof *names);
		zeros = mem_zalloc((size_t)p.total, sizeof *zeros);
		s = published(&p, prefixes[i % 2], zeros, names);
		if (model_match_weights(s, "file", &p, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(model_match_weights(s, "file", &q, &e), -1);
		assert_non_null(strstr(e.msg, lacking[i / 2]));
		st_free(s);
		for (int k = 0; k < p.n; k++)
			mem_free(names[k]);
		mem_free(names);
		mem_free(zeros);
		params_release(&p);
		params_release(&q);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(differences), cmocka_unit_test(recomputed), cmocka_unit_test(rows_alone),     cmocka_unit_test(sizes),
	    cmocka_unit_test(round_trips), cmocka_unit_test(refusals),   cmocka_unit_test(original_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
