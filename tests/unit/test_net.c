/* net: parameter counts of published networks, configuration round trips. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "net/net.h"
#include "tests/unit/trunknet.h"

static struct net_config meta(const char *preset)
{
	struct net_config c = {
	    .def = &net_dit, .channels = 4, .out_channels = 8, .size = 32, .classes = 1000, .class_dropout = .1, .time_scale = 1000};
	struct err e = {0};

	assert_int_equal(net_preset(preset, &c, &e), 0);
	assert_int_equal(net_check(&c, &e), 0);
	return c;
}

/* The parameter counts of the DiT paper (learned variance, 1000 classes and the null class, 4 x 32 x 32), with and without the positions; the FLOPs
 * are the paper's multiply-accumulates within its rounding. */
static void dit_sizes(void **state)
{
	static const struct {
		const char *preset;
		int64_t trainable, all;
		double gmac;
	} v[] = {
	    {"dit-s/2", 32865056, 32963360, 6.06},      {"dit-s/4", 32920448, 32945024, 1.41},     {"dit-s/8", 33142016, 33148160, .36},
	    {"dit-b/2", 130315808, 130512416, 23.01},   {"dit-b/4", 130426496, 130475648, 5.57},   {"dit-b/8", 130869248, 130881536, 1.42},
	    {"dit-l/2", 457840672, 458102816, 80.70},   {"dit-l/4", 457988224, 458053760, 19.70},  {"dit-l/8", 458578432, 458594816, 5.01},
	    {"dit-xl/2", 674834720, 675129632, 118.62}, {"dit-xl/4", 675000704, 675074432, 29.04}, {"dit-xl/8", 675664640, 675683072, 7.39},
	};

	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		struct net_config c = meta(v[i].preset);
		struct params p = {0};
		double gmac;

		gmac = net_measure(&c, &p) / 2e9;
		assert_int_equal(params_count(&p, 1), v[i].trainable);
		assert_int_equal(params_count(&p, 0), v[i].all);
		assert_true(gmac > v[i].gmac - .0051 && gmac < v[i].gmac + .0051);
		params_release(&p);
	}
}

static void paris_router_size(void **state)
{
	struct net_config c = {.def = &net_router, .channels = 4, .size = 32, .clusters = 8, .time_scale = 1000};
	struct params p = {0};

	(void)state;
	assert_int_equal(net_preset("dit-b/2", &c, NULL), 0);
	net_params(&c, &p);
	assert_int_equal(params_count(&p, 0), 129136904);
	params_release(&p);
}

/* The released expert from its own configuration: 605,970,448 parameters including the positions, whether these are trained or not. */
static struct net_config paris_config(void)
{
	static const char text[] = "{\"model_type\": \"dit_expert\", \"hidden_size\": 1152, \"num_layers\": 28, \"num_attention_heads\": 16,"
				   "\"patch_size\": 2, \"in_channels\": 4, \"out_channels\": 4, \"mlp_ratio\": 4.0, \"use_text_conditioning\": true,"
				   "\"use_class_conditioning\": false, \"num_classes\": 1000, \"text_embed_dim\": 768, \"use_dit_time_embed\": true,"
				   "\"use_adaln_single\": true, \"cfg_dropout_prob\": 0.1}";
	json_t *o = json_loads(text, 0, NULL);
	struct net_config c;
	struct err e = {0};

	if (net_from_json(o, "config.json", &c, &e))
		fail_msg("%s", e.msg);
	json_decref(o);
	return c;
}

static void paris_expert_size(void **state)
{
	struct net_config c = paris_config();
	struct params p = {0};

	(void)state;
	net_params(&c, &p);
	assert_int_equal(params_count(&p, 0), 605970448);
	assert_int_equal(params_count(&p, 1), 605970448 - 256 * 1152);
	params_release(&p);
	trunk_edit(&c)->learned_positions = 1;
	net_params(&c, &p);
	assert_int_equal(params_count(&p, 1), 605970448);
	params_release(&p);
}

/* The released router, whose configuration lacks the size of the latent; and unknown kinds of experts. */
static void paris_configurations(void **state)
{
	static const char router[] = "{\"model_type\": \"router\", \"num_clusters\": 8, \"hidden_size\": 768, \"num_layers\": 12,"
				     "\"num_attention_heads\": 12, \"patch_size\": 2, \"in_channels\": 4, \"use_dit_time_embed\": true}";
	static const char *const bad[] = {"{\"use_text_conditioning\": false}", "{\"use_adaln_single\": false}", "{\"use_class_conditioning\": true}",
	                                  "{\"text_embed_dim\": 0.5}", "{\"norm_eps\": -1}"};
	json_t *o = json_loads(router, 0, NULL);
	struct params p = {0};
	struct net_config c;
	struct err e = {0};

	(void)state;
	assert_int_equal(net_from_json(o, "config.json", &c, &e), 0);
	net_params(&c, &p);
	assert_int_equal(params_count(&p, 0), 129136904);
	params_release(&p);
	json_decref(o);
	c = paris_config();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		json_t *more = json_loads(bad[i], 0, NULL);

		o = json_object();
		net_to_json(&c, o);
		json_object_update(o, more);
		assert_int_equal(net_from_json(o, "config.json", &c, NULL), -1);
		json_decref(o);
		json_decref(more);
		c = paris_config();
	}
}

static void paris_names(void **state)
{
	static const struct {
		const char *name;
		int rank;
		int64_t shape[4];
	} v[] = {
	    {"patch_embed.weight", 4, {1152, 4, 2, 2}},
	    {"pos_embed", 3, {1, 256, 1152}},
	    {"time_embed.mlp.0.weight", 2, {1152, 256}},
	    {"time_embed.mlp.2.bias", 1, {1152}},
	    {"text_proj.weight", 2, {1152, 768}},
	    {"t_block.1.weight", 2, {6912, 1152}},
	    {"layers.27.scale_shift_table", 2, {6, 1152}},
	    {"layers.0.attn.in_proj_weight", 2, {3456, 1152}},
	    {"layers.0.attn.out_proj.bias", 1, {1152}},
	    {"layers.5.cross_attn.in_proj_weight", 2, {3456, 1152}},
	    {"layers.5.cross_attn.in_proj_bias", 1, {3456}},
	    {"layers.5.cross_attn.out_proj.weight", 2, {1152, 1152}},
	    {"layers.1.mlp.0.weight", 2, {4608, 1152}},
	    {"layers.1.mlp.2.weight", 2, {1152, 4608}},
	    {"final_layer.linear.weight", 2, {16, 1152}},
	    {"final_layer.scale_shift_table", 2, {2, 1152}},
	};
	struct net_config c = paris_config();
	struct params p = {0};

	(void)state;
	net_params(&c, &p);
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		int k = params_find(&p, v[i].name);

		assert_true(k >= 0);
		assert_int_equal(p.v[k].rank, v[i].rank);
		assert_memory_equal(p.v[k].shape, v[i].shape, (size_t)v[i].rank * sizeof(int64_t));
	}
	assert_int_equal(p.n, 14 + 28 * 13);
	params_release(&p);
}

static void meta_names(void **state)
{
	static const struct {
		const char *name;
		int rank;
		int64_t shape[4];
	} v[] = {
	    {"x_embedder.proj.weight", 4, {384, 4, 2, 2}},
	    {"t_embedder.mlp.0.weight", 2, {384, 256}},
	    {"y_embedder.embedding_table.weight", 2, {1001, 384}},
	    {"pos_embed", 3, {1, 256, 384}},
	    {"blocks.11.attn.qkv.weight", 2, {1152, 384}},
	    {"blocks.0.mlp.fc2.weight", 2, {384, 1536}},
	    {"blocks.3.adaLN_modulation.1.bias", 1, {2304}},
	    {"final_layer.linear.weight", 2, {32, 384}},
	    {"final_layer.adaLN_modulation.1.weight", 2, {768, 384}},
	};
	struct net_config c = meta("dit-s/2");
	struct params p = {0};

	(void)state;
	net_params(&c, &p);
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		int k = params_find(&p, v[i].name);

		assert_true(k >= 0);
		assert_int_equal(p.v[k].rank, v[i].rank);
		assert_memory_equal(p.v[k].shape, v[i].shape, (size_t)v[i].rank * sizeof(int64_t));
	}
	params_release(&p);
}

static void config_round_trip(void **state)
{
	struct net_config c = meta("dit-nano/4"), d;
	json_t *o = json_object();
	struct err e = {0};

	(void)state;
	net_to_json(&c, o);
	assert_int_equal(net_from_json(o, "x", &d, &e), 0);
	assert_null(net_differs(&c, &d));
	json_object_clear(o);
	c = paris_config();
	net_to_json(&c, o);
	assert_int_equal(net_from_json(o, "x", &d, &e), 0);
	assert_null(net_differs(&c, &d));
	json_object_set_new(o, "hidden_size", json_integer(98));
	assert_int_equal(net_from_json(o, "x", &d, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	json_decref(o);
}

static void refusals(void **state)
{
	struct net_config c = meta("dit-s/2");
	struct err e = {0};

	(void)state;
	assert_int_equal(net_preset("dit-s", &c, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.msg, "did you mean dit-s/4"));
	e = (struct err){0};
	assert_int_equal(net_preset("dit-tiny/4", &c, &e), -1);
	assert_non_null(strstr(e.msg, "did you mean dit-mini/4"));
	assert_int_equal(net_preset("dit-s/0", &c, NULL), -1);
	assert_int_equal(net_preset("vit-s/2", &c, NULL), -1);
	trunk_edit(&c)->patch = 3;
	assert_int_equal(net_check(&c, NULL), -1);
	trunk_edit(&c)->patch = 2;
	trunk_edit(&c)->heads = 7;
	assert_int_equal(net_check(&c, NULL), -1);
	c = meta("dit-s/2");
	trunk_edit(&c)->mlp_ratio = .001;
	assert_int_equal(net_check(&c, NULL), -1);
}

/* The output must be contiguous pictures, also with patches of one pixel and of the whole picture, where a view would have been possible. */
static void output_is_dense(void **state)
{
	static const int64_t patches[] = {1, 2, 4};

	(void)state;
	for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
		struct net_config c = trunk_net((struct net_config){.def = &net_dit, .channels = 3, .out_channels = 3, .size = 4, .time_scale = 1000},
		                                (struct trunk_config){.patch = patches[i], .hidden = 8, .depth = 1, .heads = 2, .mlp_ratio = 2});
		int64_t shape[4] = {2, 3, 4, 4}, step = 1;
		struct tape *t = tape_new(DT_F32, 2);
		struct params p = {0};
		struct tensor *x = tape_input(t, DT_F32, 4, shape, TAPE_BATCHED), *time = tape_input(t, DT_F32, 1, shape, TAPE_BATCHED);
		struct tensor *y = net_record(t, &p, &c, &(struct net_input){.x = x, .time = time});

		for (int d = 3; d >= 0; d--) {
			assert_int_equal(y->shape[d], shape[d]);
			assert_int_equal(y->stride[d], step);
			step *= shape[d];
		}
		tape_free(t);
		params_release(&p);
	}
}

/* If a device lacks a needed kernel, this is reported before anything runs. */
static void kernel_unavailable(void **state)
{
	struct net_config c = trunk_net(
	    (struct net_config){.def = &net_pixart, .channels = 2, .out_channels = 2, .size = 4, .time_scale = 10, .text_tokens = 3, .text_width = 4},
	    (struct trunk_config){.patch = 2, .hidden = 8, .depth = 1, .heads = 2, .mlp_ratio = 2});
	struct device *d = device_cpu(NULL, DT_F32);
	const struct kernel *attention = d->kernel[OP_ATTENTION];

	(void)state;
	for (int there = 0; there < 2; there++) {
		struct tape *t = tape_new(DT_F32, 2);
		struct params p = {0};
		struct net_input in = {0};
		struct err e = {0};

		net_inputs(t, &c, &in);
		tape_keep(t, net_record(t, &p, &c, &in));
		params_layout(&p);
		tape_layout(t, d, NULL);
		d->kernel[OP_ATTENTION] = there ? attention : NULL;
		assert_int_equal(tape_allocate(t, &e), there ? 0 : -1);
		assert_int_equal(e.code, there ? 0 : ERR_UNAVAILABLE);
		assert_true(there || strstr(e.msg, "no kernel for ATTENTION"));
		tape_free(t);
		params_release(&p);
	}
	device_free(d);
}

/* The network of the DDPM paper for CIFAR-10, diffusers' default UNet2DModel, and the U-Net of Stable Diffusion 1.5. */
static void unet_sizes(void **state)
{
	static const char *const configs[] = {
	    "{\"_class_name\": \"UNet2DModel\", \"sample_size\": 32, \"in_channels\": 3, \"out_channels\": 3, \"block_out_channels\": "
	    "[224, 448, 672, 896], \"down_block_types\": [\"DownBlock2D\", \"AttnDownBlock2D\", \"AttnDownBlock2D\", \"AttnDownBlock2D\"], "
	    "\"up_block_types\": [\"AttnUpBlock2D\", \"AttnUpBlock2D\", \"AttnUpBlock2D\", \"UpBlock2D\"]}",
	    "{\"_class_name\": \"UNet2DConditionModel\", \"sample_size\": 64, \"in_channels\": 4, \"out_channels\": 4, \"block_out_channels\": "
	    "[320, 640, 1280, 1280], \"cross_attention_dim\": 768, \"attention_head_dim\": 8, \"down_block_types\": [\"CrossAttnDownBlock2D\", "
	    "\"CrossAttnDownBlock2D\", \"CrossAttnDownBlock2D\", \"DownBlock2D\"], \"up_block_types\": [\"UpBlock2D\", "
	    "\"CrossAttnUpBlock2D\", \"CrossAttnUpBlock2D\", \"CrossAttnUpBlock2D\"]}"};
	static const int64_t counts[] = {274056163, 859520964};
	struct net_config c = {.def = net_first(NET_EXPERT), .channels = 3, .out_channels = 3, .size = 32, .time_scale = 1000}, b;
	struct params p = {0};
	struct err e = {0};

	(void)state;
	assert_int_equal(net_preset("unet-b", &c, &e), 0);
	b = c;
	net_init(&c, b.def);
	net_shape_copy(&c, &b);
	c.channels = c.out_channels = 3;
	c.size = 32;
	for (int i = 0; i < 3; i++) {
		if (i) {
			json_t *o = json_loads(configs[i - 1], 0, NULL);

			if (net_from_json(o, "config", &c, &e))
				fail_msg("%s", e.msg);
			json_decref(o);
		}
		net_params(&c, &p);
		assert_int_equal(params_count(&p, 0), i ? counts[i - 1] : 35746307);
		params_release(&p);
	}
}

/* A written configuration is read as the same network, and a U-Net with unknown options is refused. */
static void unet_configs(void **state)
{
	static const char *const names[] = {"unet-nano", "unet-l", "unet-text-mini"};
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct net_config c, d;
		json_t *o = json_object();

		net_init(&c, net_first(NET_EXPERT));
		assert_int_equal(net_preset(names[i], &c, &e), 0);
		d = c;
		net_init(&c, d.def);
		net_shape_copy(&c, &d);
		c.channels = c.out_channels = 4;
		c.size = 16;
		net_to_json(&c, o);
		if (net_from_json(o, "config", &d, &e))
			fail_msg("%s", e.msg);
		assert_null(net_differs(&c, &d));
		json_object_set_new(o, "resnet_time_scale_shift", json_string("scale_shift"));
		assert_int_equal(net_from_json(o, "config", &d, &e), -1);
		assert_non_null(strstr(e.msg, "resnet_time_scale_shift"));
		e = (struct err){0};
		json_object_del(o, "resnet_time_scale_shift");
		json_object_set_new(o, "sample_size", json_integer(18));
		assert_int_equal(net_from_json(o, "config", &d, &e), -1);
		if (!strstr(e.msg, "18 is not a multiple"))
			fail_msg("%s: %s", names[i], e.msg);
		e = (struct err){0};
		json_decref(o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(dit_sizes),          cmocka_unit_test(paris_router_size), cmocka_unit_test(meta_names),
	    cmocka_unit_test(paris_expert_size),  cmocka_unit_test(paris_names),       cmocka_unit_test(paris_configurations),
	    cmocka_unit_test(kernel_unavailable), cmocka_unit_test(config_round_trip), cmocka_unit_test(refusals),
	    cmocka_unit_test(output_is_dense),    cmocka_unit_test(unet_sizes),        cmocka_unit_test(unet_configs)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
