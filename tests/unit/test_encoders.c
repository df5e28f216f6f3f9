/* Vision transformers, CLIP and T5: parameter counts of the published models; small models saved by other libraries, against the results of these
 * libraries (tests/golden/pretrained.py), one sample at a time and several at once. */
#include "tests/unit/pretrained.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "file/commit.h"
#include "file/fileio.h"
#include "net/clip.h"
#include "net/rename.h"
#include "net/t5.h"
#include "net/vit.h"
#include "tests/unit/encoderrun.h"
#include "tests/unit/scratch.h"

enum { N = 3 };

static const int64_t capacities[] = {1, 2, 4};

static void run_vit(struct golden *g, struct vit *v, struct err *e)
{
	const struct vit_config *c;
	int64_t n;
	float *x = reals(g, "x"), *class, *patches;

	if (!v)
		fail_msg("%s", e->msg);
	c = vit_config(v);
	n = c->size / c->patch;
	class = mem_zalloc((size_t)(N * c->hidden), sizeof *class);
	patches = mem_zalloc((size_t)(N * n * n * c->hidden), sizeof *patches);
	vit_run(v, N, x, class, patches);
	compare(g, "class", class);
	compare_rows(g, "patches", patches, n * n, st_find(g->io, "patches")->shape[1] == n * n ? 1 : 7);
	mem_free(x);
	mem_free(class);
	mem_free(patches);
	vit_free(v);
}

static void vit_of_transformers(void **state)
{
	for (int i = 0; i < 3; i++) {
		struct golden g;
		struct err e = {0};

		golden_open(&g, *state);
		run_vit(&g, vit_open(g.dir, st_find(g.io, "x")->shape[3], VIT_ALL, capacities[i], COMPACT_NONE, g.device, &e), &e);
		golden_close(&g);
	}
}

static void vit_of_hub(void **state)
{
	struct vit_config c = {.size = 32,
	                       .grid = 37,
	                       .channels = 3,
	                       .patch = 2,
	                       .hidden = 12,
	                       .depth = 2,
	                       .heads = 3,
	                       .wide = 32,
	                       .swiglu = 1,
	                       .layer_scale = 1,
	                       .mask_token = 1,
	                       .eps = 1e-6,
	                       .offset = .1};
	struct golden g;
	struct err e = {0};

	(void)state;
	golden_open(&g, "dinov2-hub");
	run_vit(&g, vit_new(&c, g.dir, VIT_ALL, 2, COMPACT_NONE, g.device, &e), &e);
	golden_close(&g);
}

static void vit_of_timm(void **state)
{
	struct vit_config c = {.size = 12, .grid = 4, .channels = 3, .patch = 3, .hidden = 24, .depth = 2, .heads = 3, .wide = 36, .eps = 1e-6};
	struct golden g;
	struct err e = {0};

	(void)state;
	golden_open(&g, "vit-timm");
	run_vit(&g, vit_new(&c, g.dir, VIT_ALL, 2, COMPACT_NONE, g.device, &e), &e);
	golden_close(&g);
}

/* The class token (for CLIP its embedding) for each storage type of the matrices. */
static float *class_of(const struct golden *g, enum vit_tokens tokens, enum compact_type bulk)
{
	float *x = reals(g, "x"), *out;
	struct err e = {0};

	if (strstr(g->dir, "clip")) {
		struct clip_vision *m = clip_vision_open(g->dir, tokens, 2, bulk, g->device, &e);

		if (!m)
			fail_msg("%s", e.msg);
		out = mem_zalloc((size_t)(N * clip_vision_config(m)->projection), sizeof *out);
		clip_vision_run(m, N, x, NULL, out);
		clip_vision_free(m);
	} else {
		struct vit *v = vit_open(g->dir, st_find(g->io, "x")->shape[3], tokens, 2, bulk, g->device, &e);

		if (!v)
			fail_msg("%s", e.msg);
		out = mem_zalloc((size_t)(N * vit_config(v)->hidden), sizeof *out);
		vit_run(v, N, x, out, NULL);
		vit_free(v);
	}
	mem_free(x);
	return out;
}

/* Matrices that are used in the mapped file give the same bits. They must be floats in one tensor; CLIP's queries, keys and values are three. */
static void stays_in_file(const struct golden *g, const float *want, size_t bytes)
{
	float *viewed = class_of(g, VIT_CLASS, COMPACT_VIEW);

	assert_memory_equal(viewed, want, bytes);
	mem_free(viewed);
}

static void class_alone(void **state)
{
	struct golden g;

	golden_open(&g, *state);
	for (enum compact_type bulk = COMPACT_NONE; bulk <= COMPACT_INT8; bulk++) {
		const char *name = strstr(g.dir, "clip") ? "vision_embedding" : "class";
		float *whole = class_of(&g, VIT_ALL, bulk), *alone = class_of(&g, VIT_CLASS, bulk);

		assert_memory_equal(alone, whole, (size_t)(st_find(g.io, name)->shape[0] * st_find(g.io, name)->shape[1]) * sizeof *whole);
		if (!bulk)
			compare(&g, name, alone);
		if (!bulk)
			stays_in_file(&g, alone, (size_t)(st_find(g.io, name)->shape[0] * st_find(g.io, name)->shape[1]) * sizeof *whole);
		mem_free(whole);
		mem_free(alone);
	}
	golden_close(&g);
}

/* The operands of vit_open: a folder of timm's hub, with and without config.json, and a file. */
static void dinov2_of_timm(void **state)
{
	static const char *const names[] = {"dinov2-timm", "dinov2-timm-less", "dinov2-timm-less"};
	static const char *const files[] = {"", "", "/model.safetensors"};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct golden g;
		struct err e = {0};
		char *path;

		golden_open(&g, names[i]);
		path = str_new("%s%s", g.dir, files[i]);
		run_vit(&g, vit_open(path, st_find(g.io, "x")->shape[3], VIT_ALL, 2, COMPACT_NONE, g.device, &e), &e);
		mem_free(path);
		golden_close(&g);
	}
}

static void write_zeros(const char *path, const struct params *p)
{
	struct st_tensor *t = mem_zalloc((size_t)p->n, sizeof *t);
	float *zeros = mem_zalloc((size_t)p->total, sizeof *zeros);
	struct err e = {0};

	for (int i = 0; i < p->n; i++) {
		t[i] = (struct st_tensor){.name = p->v[i].name, .type = ST_F32, .rank = p->v[i].rank, .data = zeros};
		memcpy(t[i].shape, p->v[i].shape, sizeof p->v[i].shape[0] * (size_t)p->v[i].rank);
	}
	if (st_write(path, t, p->n, NULL, 0, &e))
		fail_msg("%s", e.msg);
	mem_free(t);
	mem_free(zeros);
}

/* Our names to timm's. */
static void name_as_timm(struct params *p)
{
	static const char *const pairs[][2] = {
	    {"register_tokens", "reg_token"}, {"blocks.#.mlp.w12.*", "blocks.#.mlp.fc1.*"}, {"blocks.#.mlp.w3.*", "blocks.#.mlp.fc2.*"}};

	for (int i = 0; i < p->n; i++)
		for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
			struct str name = {0};

			if (rename_apply(pairs[k][0], pairs[k][1], p->v[i].name, &name))
				snprintf(p->v[i].name, sizeof p->v[i].name, "%s", str_text(&name));
			str_release(&name);
		}
}

/* The configuration that follows from a file of each layout. */
static void vit_of_shapes(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		int timm = i & 1, registers = i & 2, swiglu = i & 4;
		const struct vit_config want = {.size = 224,
		                                .grid = 5,
		                                .channels = 3,
		                                .patch = 14,
		                                .hidden = 128,
		                                .depth = 3,
		                                .heads = 2,
		                                .wide = 24,
		                                .registers = registers ? 4 : 0,
		                                .swiglu = swiglu != 0,
		                                .timm = timm,
		                                .layer_scale = 1,
		                                .mask_token = !timm,
		                                .eps = 1e-6,
		                                .offset = timm || registers ? 0 : .1,
		                                .antialias = timm || registers};
		struct params p = {0};
		struct safetensors *s;
		struct vit_config c;
		struct err e = {0};
		char *path;

		vit_params(&want, &p);
		if (timm)
			name_as_timm(&p);
		path = path_join(dir, "table.safetensors");
		write_zeros(path, &p);
		s = st_open(path, &e);
		if (!s || vit_from_weights(s, path, &c, &e))
			fail_msg("%s", e.msg);
		assert_true(c.size == want.size && c.grid == want.grid && c.channels == want.channels && c.patch == want.patch &&
		            c.hidden == want.hidden && c.depth == want.depth && c.heads == want.heads && c.wide == want.wide &&
		            c.registers == want.registers && c.swiglu == want.swiglu && c.timm == want.timm && c.layer_scale &&
		            c.mask_token == want.mask_token && c.eps == want.eps && c.offset == want.offset && c.antialias == want.antialias);
		assert_null(st_find(s, timm ? "register_tokens" : "reg_token"));
		st_free(s);
		params_release(&p);
		mem_free(path);
	}
}

/* Refused: another network, and a position table that is not square. */
static void vit_of_wrong_shapes(void **state)
{
	struct vit_config c = {.size = 224, .grid = 3, .channels = 3, .patch = 14, .hidden = 64, .depth = 1, .heads = 1, .wide = 8, .eps = 1e-6};
	struct device *d = device_cpu(NULL, DT_F32);
	struct params p = {0};
	char *path;

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct err e = {0};

		c.layer_scale = i > 0;
		c.hidden = i == 1 ? 60 : 64;
		c.registers = i == 2;
		vit_params(&c, &p);
		for (int k = 0; k < p.n; k++)
			if (i == 2 && !strcmp(p.v[k].name, "pos_embed"))
				p.v[k].shape[1] = 8;
		path = path_join(dir, "wrong.safetensors");
		write_zeros(path, &p);
		if (i == 3)
			assert_int_equal(commit_bytes(path, "", 0, NULL), 0);
		assert_null(vit_open(path, 0, VIT_ALL, 1, COMPACT_NONE, d, &e));
		assert_int_equal(e.code, ERR_DATA);
		assert_non_null(strstr(e.msg, i == 0 ? "no blocks.0.ls1.gamma" : i == 3 ? "wrong.safetensors" : "not a DINOv2 model: width "));
		params_release(&p);
		mem_free(path);
	}
	device_free(d);
}

static void vit_sizes(void **state)
{
	static const struct {
		const char *name;
		int64_t count;
	} v[] = {{"dinov2_vits14", 22056576}, {"dinov2_vitb14", 86580480}, {"dinov2_vitl14", 304368640}, {"dinov2_vitg14", 1136480768}};

	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++)
		for (int registers = 0; registers < 2; registers++) {
			char *name = str_new("%s%s", v[i].name, registers ? "_reg" : "");
			struct params p = {0};
			struct vit_config c;

			assert_int_equal(vit_preset(name, &c, NULL), 0);
			assert_int_equal(vit_check(&c, NULL), 0);
			vit_params(&c, &p);
			assert_int_equal(params_count(&p, 0), v[i].count + registers * 4 * c.hidden);
			params_release(&p);
			mem_free(name);
		}
}

static void refusals(void **state)
{
	struct vit_config c;
	struct clip_config k;
	struct t5_config t = {.tokens = 4};
	struct err e = {0};
	json_t *o = json_pack("{s:s}", "model_type", "vit_msn");

	(void)state;
	assert_int_equal(vit_preset("dinov2_vitx14", &c, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_int_equal(vit_preset("dinov2_vits14_registers", &c, NULL), -1);
	assert_int_equal(clip_preset("ViT-H/14", &k, &k, NULL), -1);
	assert_int_equal(vit_from_json(o, "c", &c, NULL), -1);
	assert_int_equal(clip_text_from_json(o, "c", &k, NULL), -1);
	assert_int_equal(t5_from_json(o, "c", &t, NULL), -1);
	json_object_set_new(o, "model_type", json_string("t5"));
	assert_int_equal(t5_from_json(o, "c", &t, NULL), -1); /* a relu */
	json_object_set_new(o, "feed_forward_proj", json_string("gated-gelu"));
	assert_int_equal(t5_from_json(o, "c", &t, NULL), 0);
	json_object_set_new(o, "relative_attention_max_distance", json_integer(8));
	assert_int_equal(t5_from_json(o, "c", &t, NULL), -1);
	json_object_set_new(o, "model_type", json_string("clip_text_model"));
	assert_int_equal(clip_vision_from_json(o, "c", &k, NULL), -1);
	json_object_set_new(o, "hidden_act", json_string("relu"));
	assert_int_equal(clip_text_from_json(o, "c", &k, NULL), -1);
	json_decref(o);
	assert_int_equal(vit_preset("dinov2_vits14", &c, NULL), 0);
	c.size = 225;
	assert_int_equal(vit_check(&c, NULL), -1);
}

static void clip_text(void **state)
{
	for (int i = 0; i < 3; i++) {
		struct golden g;
		struct err e = {0};
		struct clip_text *m;
		const struct clip_config *c;
		float *hidden, *embedding;

		golden_open(&g, *state);
		m = clip_text_open(g.dir, capacities[i], COMPACT_NONE, g.device, &e);
		if (!m)
			fail_msg("%s", e.msg);
		c = clip_text_config(m);
		hidden = mem_zalloc((size_t)(N * c->tokens * c->hidden), sizeof *hidden);
		embedding = mem_zalloc((size_t)(N * (c->projection ? c->projection : c->hidden)), sizeof *embedding);
		clip_text_run(m, N, st_find(g.io, "ids")->data, hidden, embedding);
		compare(&g, "text_hidden", hidden);
		compare(&g, "text_embedding", embedding);
		mem_free(hidden);
		mem_free(embedding);
		clip_text_free(m);
		golden_close(&g);
	}
}

static void clip_vision(void **state)
{
	for (int i = 0; i < 3; i++) {
		struct golden g;
		struct err e = {0};
		struct clip_vision *m;
		const struct clip_config *c;
		float *x, *hidden, *embedding;
		int64_t n;

		golden_open(&g, *state);
		m = clip_vision_open(g.dir, VIT_ALL, capacities[i], COMPACT_NONE, g.device, &e);
		if (!m)
			fail_msg("%s", e.msg);
		c = clip_vision_config(m);
		n = c->size / c->patch;
		x = reals(&g, "x");
		hidden = mem_zalloc((size_t)(N * (1 + n * n) * c->hidden), sizeof *hidden);
		embedding = mem_zalloc((size_t)(N * c->projection), sizeof *embedding);
		clip_vision_run(m, N, x, hidden, embedding);
		compare(&g, "vision_hidden", hidden);
		compare(&g, "vision_embedding", embedding);
		mem_free(x);
		mem_free(hidden);
		mem_free(embedding);
		clip_vision_free(m);
		golden_close(&g);
	}
}

/* ViT-L/14: the text tower without its projection has 123,060,480 parameters, the whole model 427,616,513 with the scale of the logits. */
static void clip_sizes(void **state)
{
	struct clip_config text, vision;
	struct params p = {0}, q = {0};

	(void)state;
	assert_int_equal(clip_preset("ViT-L/14", &text, &vision, NULL), 0);
	clip_text_params(&text, &p);
	clip_vision_params(&vision, &q);
	assert_int_equal(params_count(&p, 0) - 768 * 768, 123060480);
	assert_int_equal(params_count(&p, 0) + params_count(&q, 0) + 1, 427616513);
	params_release(&p);
	params_release(&q);
	text.projection = 0;
	clip_text_params(&text, &p);
	assert_int_equal(params_count(&p, 0), 123060480);
	params_release(&p);
}

static void t5_text(void **state)
{
	for (int i = 0; i < 3; i++) {
		struct golden g;
		struct err e = {0};
		struct t5 *m;
		const struct t5_config *c;
		const int32_t *buckets;
		float *hidden;

		golden_open(&g, *state);
		m = t5_open(g.dir, st_find(g.io, "ids")->shape[1], capacities[i], COMPACT_NONE, g.device, &e);
		if (!m)
			fail_msg("%s", e.msg);
		c = t5_config(m);
		hidden = mem_zalloc((size_t)(N * c->tokens * c->hidden), sizeof *hidden);
		t5_run(m, N, st_find(g.io, "ids")->data, st_find(g.io, "length")->data, hidden);
		compare(&g, "hidden", hidden);
		buckets = st_find(g.io, "buckets")->data;
		for (int64_t r = -300; r <= 300; r++)
			assert_int_equal(t5_bucket(c, r), buckets[r + 300]);
		mem_free(hidden);
		t5_free(m);
		golden_close(&g);
	}
}

/* The tensors of a parameter table under its own names. */
static void t5_size(void **state)
{
	struct t5_config c = {.hidden = 4096,
	                      .depth = 24,
	                      .heads = 64,
	                      .width = 64,
	                      .wide = 10240,
	                      .vocabulary = 32128,
	                      .buckets = 32,
	                      .distance = 128,
	                      .tokens = 1,
	                      .eps = 1e-6};
	struct params p = {0};

	(void)state;
	t5_params(&c, &p);
	assert_int_equal(params_count(&p, 0), 4762310656);
	params_release(&p);
}

/* Rounded matrices: weights and their factors have 8 bits; int8 weights have errors of up to 1 / 254 of the largest in their row. The results must
 * also differ from those of floats, or rounding was not tested. */
static void rounded(void **state)
{
	static const struct {
		enum compact_type type;
		double most;
	} ways[] = {{COMPACT_BF16, .02}, {COMPACT_INT8, .04}};
	struct device *d = device_cpu(NULL, DT_F32);
	struct err e = {0};

	(void)state;
	for (int k = 0; k < ENCODER_GOLDENS; k++)
		for (int i = 0; i < 2; i++) {
			double off = encoder_error(encoder_goldens[k], d, ways[i].type, &e);

			print_message("%s, matrices %s: off by %.2g of the largest value\n", encoder_goldens[k], compact_rounding(ways[i].type), off);
			if (!(off > 1e-4 && off < ways[i].most))
				fail_msg("%s, matrices %s: off by %.3g of the largest value, of at most %g: %s", encoder_goldens[k],
				         compact_rounding(ways[i].type), off, ways[i].most, e.msg);
		}
	device_free(d);
}

/* The private memory of the process, in bytes. */
static int64_t resident(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	long long kb = -1;
	char line[128];

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "RssAnon: %lld", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb * 1024;
}

/* A T5 of 12 million parameters, 11.3 million of them in matrices, from a file of zeros: two bytes each, one each, or none if they stay in the file.
 * */
static void memory(void **state)
{
	static const struct {
		enum compact_type type;
		double bytes; /* of an element */
	} ways[] = {{COMPACT_NONE, 4}, {COMPACT_BF16, 2}, {COMPACT_INT8, 1}, {COMPACT_VIEW, 0}};
	struct t5_config c = {.hidden = 512,
	                      .depth = 3,
	                      .heads = 8,
	                      .width = 64,
	                      .wide = 1792,
	                      .vocabulary = 1000,
	                      .buckets = 32,
	                      .distance = 128,
	                      .tokens = 2,
	                      .eps = 1e-6};
	char folder[] = "/tmp/ddm-t5-XXXXXX", *weights, *config;
	struct device *d = device_cpu(NULL, DT_F32);
	struct params p = {0};
	struct err e = {0};
	double in_matrices = 3 * (4 * 512 * 512. + 3 * 512 * 1792.), others;
	static const char text[] = "{\"model_type\": \"t5\", \"d_model\": 512, \"num_layers\": 3, \"num_heads\": 8, \"d_kv\": 64, \"d_ff\": 1792, "
				   "\"vocab_size\": 1000, \"feed_forward_proj\": \"gated-gelu\"}";

	(void)state;
	assert_non_null(mkdtemp(folder));
	weights = path_join(folder, "model.safetensors");
	config = path_join(folder, "config.json");
	assert_int_equal(commit_bytes(config, text, sizeof text - 1, &e), 0);
	t5_params(&c, &p);
	write_zeros(weights, &p);
	others = (double)params_count(&p, 0) - in_matrices;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		int64_t before = resident(), grown, want = (int64_t)(in_matrices * ways[i].bytes + others * 4);
		struct t5 *m = t5_open(folder, 2, 1, ways[i].type, d, &e);

		if (!m)
			fail_msg("%s", e.msg);
		grown = resident() - before;
		print_message("matrices of %g bytes: %.1f MB grown, %.1f MB counted\n", ways[i].bytes, (double)grown * 1e-6, (double)want * 1e-6);
#ifndef __SANITIZE_ADDRESS__ /* which uses memory itself */
		if (ways[i].type == COMPACT_VIEW)
			want += 512 * 1792 * 4; /* the largest matrix, packed while it is multiplied */
		assert_true(grown > want * 9 / 10 && grown < want + (3 << 20));
#endif
		t5_free(m);
	}
	params_release(&p);
	assert_int_equal(dir_remove(folder, NULL), 0);
	mem_free(weights);
	mem_free(config);
	device_free(d);
}

/* clang-format off */
#define OF(fn, n) {#fn " " n, fn, NULL, NULL, n}
/* clang-format on */

int main(void)
{
	const struct CMUnitTest tests[] = {
	    OF(vit_of_transformers, "dinov2"),
	    OF(vit_of_transformers, "dinov2-registers"),
	    OF(vit_of_transformers, "dinov2-registers-less"),
	    OF(class_alone, "dinov2"),
	    OF(class_alone, "dinov2-registers"),
	    OF(class_alone, "clip"),
	    OF(class_alone, "clip-openai"),
	    cmocka_unit_test(vit_of_hub),
	    cmocka_unit_test(vit_of_timm),
	    cmocka_unit_test(dinov2_of_timm),
	    cmocka_unit_test(vit_of_shapes),
	    cmocka_unit_test(vit_of_wrong_shapes),
	    cmocka_unit_test(vit_sizes),
	    cmocka_unit_test(refusals),
	    OF(clip_text, "clip"),
	    OF(clip_vision, "clip"),
	    OF(clip_text, "clip-openai"),
	    OF(clip_vision, "clip-openai"),
	    OF(clip_text, "clip-text"),
	    OF(clip_vision, "clip-vision"),
	    cmocka_unit_test(clip_sizes),
	    OF(t5_text, "t5"),
	    OF(t5_text, "t5-long"),
	    cmocka_unit_test(t5_size),
	    cmocka_unit_test(rounded),
	    cmocka_unit_test(memory),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
