/* Networks saved by other libraries, against the outputs of these libraries for the same input: tests/golden/pretrained.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/model.h"
#include "tests/unit/pretrained.h"
#include "tests/unit/trunknet.h"

/* One at a time and all at once. */
static void diffusion(void **state)
{
	for (int64_t capacity = 1; capacity <= 4; capacity += 3) {
		struct golden g;
		struct err e = {0};
		struct model *m;
		struct model_input in;
		float *v[5], *out;

		golden_open(&g, *state);
		m = model_open(g.dir, capacity, COMPACT_NONE, g.device, NULL, &e);
		if (!m)
			fail_msg("%s", e.msg);
		v[0] = reals(&g, "x");
		v[1] = reals(&g, "t");
		v[2] = reals(&g, "text");
		v[3] = reals(&g, "mask");
		v[4] = reals(&g, "micro");
		in = (struct model_input){.x = v[0], .t = v[1], .text = v[2], .mask = v[3], .micro = v[4]};
		if (st_find(g.io, "label"))
			in.label = st_find(g.io, "label")->data;
		out = mem_zalloc((size_t)(3 * model_elements(m)), sizeof *out);
		model_run(m, 3, &in, out);
		compare(&g, "y", out);
		for (int i = 0; i < 5; i++)
			mem_free(v[i]);
		mem_free(out);
		model_free(m);
		golden_close(&g);
	}
}

/* diffusers counts trained parameters; our count also includes the null text and the positions. */
static void pixart_size(void **state)
{
	for (int micro = 0; micro < 2; micro++) {
		struct net_config c = trunk_net(
		    (struct net_config){
			.def = &net_pixart, .channels = 4, .out_channels = 8, .size = 64, .time_scale = 1000, .text_tokens = 120, .text_width = 4096},
		    (struct trunk_config){.patch = 2, .hidden = 1152, .depth = 28, .heads = 16, .mlp_ratio = 4, .micro = micro});
		struct params p = {0};

		(void)state;
		net_params(&c, &p);
		assert_int_equal(params_count(&p, 1), micro ? 611349152 : 610856096);
		assert_int_equal(params_count(&p, 0) - params_count(&p, 1), 120 * 4096 + 32 * 32 * 1152);
		params_release(&p);
	}
}

/* Files with diffusers' names whose blocks have different embeddings, that lack a tensor, or that have an extra one. */
static void bad_names(void **state)
{
	static const char *const what[] = {"is not the same as", "holds no", "does not have", "of shape"};
	struct golden g;
	struct net_config c;
	struct params p = {0};
	struct err e = {0};
	char *path;
	struct safetensors *s;
	json_t *o;

	(void)state;
	golden_open(&g, "dit-diffusers");
	path = str_new("%s/config.json", g.dir);
	o = json_load_file(path, 0, NULL);
	assert_int_equal(net_from_json(o, path, &c, &e), 0);
	json_decref(o);
	mem_free(path);
	net_params(&c, &p);
	path = str_new("%s/diffusion_pytorch_model.safetensors", g.dir);
	s = st_open(path, &e);
	assert_non_null(s);
	assert_int_equal(model_match_weights(s, path, &p, &e), 0);
	for (int k = 0; k < 4; k++) {
		char bad[] = "/tmp/ddm-names-XXXXXX", *out;
		int n = st_tensors(s), at = -1;
		struct st_tensor *t = mem_zalloc((size_t)n + 1, sizeof *t);
		float zeros[64] = {0};
		struct safetensors *b;

		assert_non_null(mkdtemp(bad));
		out = str_new("%s/w.safetensors", bad);
		for (int i = 0; i < n; i++) {
			t[i] = *st_get(s, i);
			if (!strcmp(t[i].name, k == 0 ? "transformer_blocks.1.norm1.emb.timestep_embedder.linear_1.bias"
			                              : "transformer_blocks.1.attn1.to_k.bias"))
				at = i;
		}
		assert_true(at >= 0 && st_count(&t[at]) <= 64);
		if (k == 0)
			t[at].data = zeros;
		if (k == 1)
			t[at] = t[--n];
		if (k == 2) {
			t[n] = t[at];
			t[n++].name = "transformer_blocks.1.attn1.to_x.bias";
		}
		if (k == 3)
			t[at].shape[0]--;
		assert_int_equal(st_write(out, t, n, NULL, 0, &e), 0);
		b = st_open(out, &e);
		assert_non_null(b);
		assert_int_equal(model_match_weights(b, out, &p, &e), -1);
		assert_int_equal(e.code, ERR_DATA);
		if (!strstr(e.msg, what[k]))
			fail_msg("%s", e.msg);
		e = (struct err){0};
		st_free(b);
		remove(out);
		rmdir(bad);
		mem_free(out);
		mem_free(t);
	}
	st_free(s);
	mem_free(path);
	params_release(&p);
	golden_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    {"diffusers' DiT", diffusion, NULL, NULL, "dit-diffusers"},
	    {"diffusers' PixArt", diffusion, NULL, NULL, "pixart-diffusers"},
	    {"diffusers' PixArt told the size", diffusion, NULL, NULL, "pixart-diffusers-micro"},
	    cmocka_unit_test(pixart_size),
	    cmocka_unit_test(bad_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
