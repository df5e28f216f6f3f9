/* net: weight names in families, and convolutions written to a file and read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/safetensors.h"
#include "net/model.h"
#include "net/rename.h"
#include "tests/unit/scratch.h"

static const struct init zeros = {.kind = INIT_ZERO};

static void names(void **state)
{
	static const struct {
		const char *from, *to, *name, *made; /* made NULL: `from` does not match */
	} cases[] = {
	    {"blocks.#.mlp.*", "layers.#.ff.*", "blocks.12.mlp.fc1.bias", "layers.12.ff.fc1.bias"},
	    {"down.#.block.#.*", "d#r#.*", "down.3.block.10.conv1.weight", "d3r10.conv1.weight"},
	    {"*.weight", "*.conv.weight", "Mixed_5b.branch1x1.weight", "Mixed_5b.branch1x1.conv.weight"},
	    {"*.weight", "*", "Mixed_5b.branch1x1.bias", NULL},
	    {"*.weight", "*", "weight", NULL},
	    {"blocks.#.a", "#", "blocks..a", NULL},
	    {"#.#.#.#", "#-#-#-#", "1.2.3.4", "1-2-3-4"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct str out = {0};
		int found = rename_apply(cases[i].from, cases[i].to, cases[i].name, &out);

		assert_int_equal(found, cases[i].made != NULL);
		if (found)
			assert_string_equal(str_text(&out), cases[i].made);
		str_release(&out);
	}
}

/* A prefix, a number counted from the other end, and a tensor that belongs to no parameter. */
static void families(void **state)
{
	static const struct rename rules[] = {{"up.#.*", {"stage.~.*"}, 0}, {"gone", {NULL}, 0}, {"q", {"q"}, RENAME_POINTWISE}};
	static const char *const own[] = {"stage.*", "q", NULL};
	const struct renames r = {.sign = "stage.0.w", .v = rules, .n = 3, .own = own, .prefix = "vae.", .first = 1, .step = -1};
	const struct renames *const known[] = {&r};
	static const float v[4] = {1, 2, 3, 4};
	struct st_tensor t[4] = {{.name = "vae.stage.0.w", .type = ST_F32, .rank = 1, .shape = {2}, .data = v},
	                         {.name = "vae.stage.1.w", .type = ST_F32, .rank = 1, .shape = {2}, .data = v + 2},
	                         {.name = "vae.q", .type = ST_F32, .rank = 4, .shape = {2, 2, 1, 1}, .data = v},
	                         {.name = "other", .type = ST_F32, .rank = 1, .shape = {2}, .data = v}};
	struct params p = {0};
	struct err e = {0};
	float out[4];

	(void)state;
	params_add(&p, "up.0.w", 1, (int64_t[]){2}, 0, zeros);
	params_add(&p, "up.1.w", 1, (int64_t[]){2}, 0, zeros);
	params_add(&p, "gone", 1, (int64_t[]){2}, 0, (struct init){.kind = INIT_ONE});
	params_add(&p, "q", 2, (int64_t[]){2, 2}, 0, zeros);
	for (int k = 0; k < 2; k++) {
		struct safetensors *s;

		if (k)
			t[3].name = "vae.stage.2.w"; /* belongs to the network by its name, but to no parameter */
		s = st_of(t, 4, "here", NULL, NULL);
		assert_ptr_equal(renames_find(known, 1, s), &r);
		assert_int_equal(renames_match(&r, s, "here", &p, &e), -k);
		if (!k) {
			renames_read(&r, s, &p.v[0], out);
			assert_memory_equal(out, v + 2, sizeof *v * 2);
			renames_read(&r, s, &p.v[2], out);
			assert_true(out[0] == 1 && out[1] == 1);
			renames_read(&r, s, &p.v[3], out);
			assert_memory_equal(out, v, sizeof v);
			assert_ptr_equal(renames_view(&r, s, &p.v[1]), v);
			assert_null(renames_view(&r, s, &p.v[3]));
		}
		st_free(s);
	}
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, "vae.stage.2.w"));
	params_release(&p);
}

/* y = norm(w x) is (w scale) x + shift. */
static void folded(void **state)
{
	static const struct rename rules[] = {{"*.weight", {"*.n.weight", "*.n.bias", "*.n.mean", "*.n.var", "*.c.weight"}, RENAME_FOLDED},
	                                      {"*.bias", {"*.n.weight", "*.n.bias", "*.n.mean", "*.n.var"}, RENAME_FOLDED}};
	const struct renames r = {.v = rules, .n = 2, .eps = .25};
	static const float weight[1] = {3}, bias[1] = {5}, mean[1] = {2}, var[1] = {2}, w[4] = {1, 2, 3, 4}; /* w [1, 2, 1, 2] */
	const struct st_tensor t[5] = {{.name = "u.n.weight", .type = ST_F32, .rank = 1, .shape = {1}, .data = weight},
	                               {.name = "u.n.bias", .type = ST_F32, .rank = 1, .shape = {1}, .data = bias},
	                               {.name = "u.n.mean", .type = ST_F32, .rank = 1, .shape = {1}, .data = mean},
	                               {.name = "u.n.var", .type = ST_F32, .rank = 1, .shape = {1}, .data = var},
	                               {.name = "u.c.weight", .type = ST_F32, .rank = 4, .shape = {1, 2, 1, 2}, .data = w}};
	struct safetensors *s = st_of(t, 5, "here", NULL, NULL);
	struct params p = {0};
	struct err e = {0};
	float out[4];

	(void)state;
	params_add(&p, "u.weight", 4, (int64_t[]){1, 1, 2, 2}, PARAM_CONV, zeros);
	params_add(&p, "u.bias", 1, (int64_t[]){1}, 0, zeros);
	assert_int_equal(renames_match(&r, s, "here", &p, &e), 0);
	renames_read(&r, s, &p.v[0], out);
	assert_true(out[0] == 2 && out[1] == 6 && out[2] == 4 && out[3] == 8); /* 3 / sqrt(2.25) = 2; taps outside, channels inside */
	renames_read(&r, s, &p.v[1], out);
	assert_true(out[0] == 1);
	params_release(&p);
	st_free(s);
}

/* A convolution in time and space: [O, C, kt, kh, kw] in the file, kt convolutions in memory; and one of 1 x 1 x 1 as a matrix. */
static void convolution_in_time(void **state)
{
	static const struct rename rules[] = {{"m.weight", {"m.weight"}, RENAME_POINTWISE}};
	static const struct renames r = {.v = rules, .n = 1};
	float w[2 * 3 * 3 * 2 * 1], m[6] = {1, 2, 3, 4, 5, 6}, out[36];
	const struct st_tensor t[] = {{.name = "c.weight", .type = ST_F32, .rank = 5, .shape = {2, 3, 3, 2, 1}, .data = w},
	                              {.name = "m.weight", .type = ST_F32, .rank = 5, .shape = {2, 3, 1, 1, 1}, .data = m}};
	struct safetensors *s = st_of(t, 2, "here", NULL, NULL);
	struct params p = {0};
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 36; i++)
		w[i] = (float)i;
	params_add(&p, "c.weight", 5, (int64_t[]){3, 2, 2, 1, 3}, PARAM_CONV3D, zeros);
	params_add(&p, "m.weight", 2, (int64_t[]){2, 3}, 0, zeros);
	assert_int_equal(renames_match(&r, s, "here", &p, &e), 0);
	renames_read(&r, s, &p.v[0], out);
	for (int f = 0; f < 3; f++)
		for (int o = 0; o < 2; o++)
			for (int y = 0; y < 2; y++)
				for (int c = 0; c < 3; c++)
					assert_true(out[((f * 2 + o) * 2 + y) * 3 + c] == (float)(((o * 3 + c) * 3 + f) * 2 + y));
	renames_read(&r, s, &p.v[1], out);
	assert_memory_equal(out, m, sizeof m);
	params_release(&p);
	params_add(&p, "c.weight", 5, (int64_t[]){3, 3, 2, 1, 2}, PARAM_CONV3D, zeros);
	params_add(&p, "m.weight", 2, (int64_t[]){2, 3}, 0, zeros);
	assert_int_equal(renames_match(&r, s, "here", &p, &e), -1);
	assert_non_null(strstr(e.msg, "c.weight"));
	params_release(&p);
	st_free(s);
}

/* PyTorch's layout in the file, op_conv's layout in memory. */
static void convolution(void **state)
{
	char *path = path_join(dir, "conv.safetensors");
	struct params p = {0};
	struct err e = {0};
	struct safetensors *s;
	const float *there;
	float *v, *back;

	(void)state;
	params_add(&p, "conv.weight", 4, (int64_t[]){2, 3, 1, 5}, PARAM_CONV, zeros);
	params_add(&p, "conv.bias", 1, (int64_t[]){2}, 0, zeros);
	params_layout(&p);
	v = mem_zalloc((size_t)p.total, sizeof *v);
	back = mem_zalloc((size_t)p.total, sizeof *back);
	for (int i = 0; i < 30; i++)
		v[p.v[0].offset + i] = (float)i;
	assert_int_equal(model_write_weights(path, &p, NULL, v, NULL, 0, &e), 0);
	s = st_open(path, &e);
	assert_non_null(s);
	assert_int_equal(st_find(s, "conv.weight")->shape[1], 5);
	assert_int_equal(st_find(s, "conv.weight")->shape[2], 3);
	there = st_find(s, "conv.weight")->data;
	for (int o = 0; o < 2; o++)
		for (int tap = 0; tap < 3; tap++)
			for (int c = 0; c < 5; c++)
				assert_true(there[(o * 5 + c) * 3 + tap] == (float)((o * 3 + tap) * 5 + c));
	assert_int_equal(model_read_weights(path, &p, NULL, back, &e), 0);
	assert_memory_equal(back, v, (size_t)p.total * sizeof *v);
	st_free(s);
	mem_free(v);
	mem_free(back);
	mem_free(path);
	params_release(&p);
}

/* A U-Net whose attention layers have the names of older versions of diffusers. */
static void old_attention(void **state)
{
	static const char *const pairs[][2] = {{".to_q.", ".query."}, {".to_k.", ".key."}, {".to_v.", ".value."}, {".to_out.0.", ".proj_attn."}};
	struct net_config c;
	struct params p = {0};
	struct err e = {0};
	struct safetensors *s;
	struct st_tensor *t;
	float *v, *out;
	int renamed = 0, n;

	(void)state;
	net_init(&c, net_find("unet"));
	c.channels = c.out_channels = 1;
	c.size = 8;
	assert_int_equal(net_preset("unet-nano", &c, &e), 0);
	net_params(&c, &p);
	n = p.n;
	t = mem_zalloc((size_t)n, sizeof *t);
	v = mem_zalloc((size_t)p.total, sizeof *v);
	out = mem_zalloc((size_t)p.total, sizeof *out);
	for (int64_t i = 0; i < p.total; i++)
		v[i] = (float)(i % 8191);
	for (int i = 0; i < n; i++) {
		struct str name = {0};

		str_puts(&name, p.v[i].name);
		for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
			const char *at = strstr(p.v[i].name, pairs[k][0]);

			if (!at)
				continue;
			str_reset(&name);
			str_printf(&name, "%.*s%s%s", (int)(at - p.v[i].name), p.v[i].name, pairs[k][1], at + strlen(pairs[k][0]));
			renamed++;
		}
		t[i] = (struct st_tensor){.name = mem_strdup(str_text(&name)), .type = ST_F32, .rank = p.v[i].rank, .data = v + p.v[i].offset};
		renames_shape(&p.v[i], t[i].shape);
		str_release(&name);
	}
	assert_int_equal(renamed, 4 * 8); /* one attention going down, one in the middle, two going up; weight and bias of four layers each */
	s = st_of(t, n, "here", NULL, NULL);
	assert_int_equal(model_match_weights(s, "here", &p, &e), 0);
	for (int i = 0; i < n; i++)
		if (strstr(p.v[i].name, ".to_")) {
			model_read_weight(s, &p.v[i], out);
			assert_memory_equal(out, v + p.v[i].offset, (size_t)p.v[i].count * sizeof *v);
		}
	st_free(s);
	for (int i = 0; i < n; i++)
		mem_free((char *)(uintptr_t)t[i].name);
	mem_free(t);
	mem_free(v);
	mem_free(out);
	params_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names),
	    cmocka_unit_test(families),
	    cmocka_unit_test(folded),
	    cmocka_unit_test(convolution),
	    cmocka_unit_test(convolution_in_time),
	    cmocka_unit_test(old_attention),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
