/* Vision transformers, CLIP and T5: parameter counts of the published models, and small ones as other libraries save them against what
 * those make of the same input (tests/golden/pretrained.py), one at a time and several at once. */
#include "tests/unit/pretrained.h"

#include <jansson.h>
#include <string.h>

#include "net/clip.h"
#include "net/t5.h"
#include "net/vit.h"

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
		run_vit(&g, vit_open(g.dir, st_find(g.io, "x")->shape[3], capacities[i], g.device, &e), &e);
		golden_close(&g);
	}
}

static void vit_of_hub(void **state)
{
	struct vit_config c = {.size = 32, .grid = 37, .channels = 3, .patch = 2, .hidden = 12, .depth = 2, .heads = 3, .wide = 32, .swiglu = 1,
	                       .layer_scale = 1, .mask_token = 1, .eps = 1e-6, .offset = .1};
	struct golden g;
	struct err e = {0};

	(void)state;
	golden_open(&g, "dinov2-hub");
	run_vit(&g, vit_new(&c, g.dir, 2, g.device, &e), &e);
	golden_close(&g);
}

static void vit_of_timm(void **state)
{
	struct vit_config c = {.size = 12, .grid = 4, .channels = 3, .patch = 3, .hidden = 24, .depth = 2, .heads = 3, .wide = 36, .eps = 1e-6};
	struct golden g;
	struct err e = {0};

	(void)state;
	golden_open(&g, "vit-timm");
	run_vit(&g, vit_new(&c, g.dir, 2, g.device, &e), &e);
	golden_close(&g);
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
		m = clip_text_open(g.dir, capacities[i], g.device, &e);
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
		m = clip_vision_open(g.dir, capacities[i], g.device, &e);
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

/* Of ViT-L/14: the text tower without its projection, 123,060,480, and the whole model, 427,616,513 with the scale of the logits. */
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
		m = t5_open(g.dir, st_find(g.io, "ids")->shape[1], capacities[i], g.device, &e);
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

static void t5_size(void **state)
{
	struct t5_config c = {.hidden = 4096, .depth = 24, .heads = 64, .width = 64, .wide = 10240, .vocabulary = 32128, .buckets = 32,
	                      .distance = 128, .tokens = 1, .eps = 1e-6};
	struct params p = {0};

	(void)state;
	t5_params(&c, &p);
	assert_int_equal(params_count(&p, 0), 4762310656);
	params_release(&p);
}

#define OF(fn, n) {#fn " " n, fn, NULL, NULL, n}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    OF(vit_of_transformers, "dinov2"),
	    OF(vit_of_transformers, "dinov2-registers"),
	    OF(vit_of_transformers, "dinov2-registers-less"),
	    cmocka_unit_test(vit_of_hub),
	    cmocka_unit_test(vit_of_timm),
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
