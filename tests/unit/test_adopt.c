/* Networks that start from the weights of others: the functions that must stay equal have equal values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "net/adopt.h"
#include "tests/unit/trunknet.h"

/* Tolerance, relative to the largest output: two float networks compute the same in different orders. */
static const double TOL = 2e-6;

enum { N = 3, C = 2, SIDE = 4, H = 12, TOKENS = 3, WIDTH = 5 };

static char dir[] = "/tmp/ddm-adopt-XXXXXX";
static struct device *device;

static int set_up(void **state)
{
	(void)state;
	device = device_cpu(NULL, DT_F32);
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	device_free(device);
	return dir_remove(dir, NULL);
}

/* A network with given values, which can be run and written to a file. */
struct made {
	struct model_config config;
	struct params params;
	float *values;
	char *path;
};

static struct net_config config_of(const struct net_def *def)
{
	struct net_config c = trunk_net((struct net_config){.def = def, .channels = C, .out_channels = C, .size = SIDE, .time_scale = 1000},
	                                (struct trunk_config){.patch = 2, .hidden = H, .depth = 2, .heads = 2, .mlp_ratio = 2, .norm_eps = 1e-6});

	if (net_reads(&c, NET_IN_TEXT)) {
		c.text_tokens = TOKENS;
		c.text_width = WIDTH;
	}
	return c;
}

/* A network with random weights; only the positions have their initial values. */
static uint64_t number_of(const struct net_def *def)
{
	uint64_t i = 0;

	while (net_def_at((int)i) != def)
		i++;
	return i;
}

static struct made make(const struct net_config *c, const char *prediction, const char *path)
{
	struct made m = {.config = {.net = *c, .cluster = -1}};

	snprintf(m.config.prediction, sizeof m.config.prediction, "%s", prediction);
	snprintf(m.config.path, sizeof m.config.path, "%s", path);
	net_params(c, &m.params);
	m.values = mem_zalloc((size_t)m.params.total, sizeof *m.values);
	params_init(&m.params, 1, m.values);
	for (int i = 0; i < m.params.n; i++) {
		const struct param *q = &m.params.v[i];

		if (!strcmp(q->name, "pos_embed"))
			continue;
		rng_normal(m.values + q->offset, (size_t)q->count, 4, RNG_TEST, number_of(c->def), (uint64_t)i);
		for (int64_t k = 0; k < q->count; k++)
			m.values[q->offset + k] *= .3f;
	}
	return m;
}

/* A network that starts from another one. */
static struct made begin(const struct net_config *c, const char *prediction)
{
	struct made m = make(c, prediction, "linear");

	params_init(&m.params, 9, m.values);
	return m;
}

static void save(struct made *m, const char *name)
{
	char *text = model_config_text(&m->config, NULL), *config, *weights;
	struct err e = {0};

	m->path = path_join(dir, name);
	config = path_join(m->path, "config.json");
	weights = path_join(m->path, model_weights_name(net_role(&m->config.net)));
	assert_int_equal(dir_make(m->path, &e), 0);
	assert_int_equal(commit_bytes(config, text, strlen(text), &e), 0);
	if (model_write_weights(weights, &m->params, device, m->values, NULL, 0, &e))
		fail_msg("%s", e.msg);
	mem_free(text);
	mem_free(config);
	mem_free(weights);
}

static void release(struct made *m)
{
	params_release(&m->params);
	mem_free(m->values);
	mem_free(m->path);
}

static float *weight(struct made *m, const char *name)
{
	int i = params_find(&m->params, name);

	if (i < 0)
		fail_msg("no %s", name);
	return m->values + m->params.v[i].offset;
}

static int64_t count(const struct made *m, const char *name)
{
	return m->params.v[params_find(&m->params, name)].count;
}

static void zero(struct made *m, const char *name)
{
	memset(weight(m, name), 0, (size_t)count(m, name) * sizeof(float));
}

static void copy(struct made *to, const char *name, struct made *from, const char *theirs)
{
	assert_int_equal(count(to, name), count(from, theirs));
	memcpy(weight(to, name), weight(from, theirs), (size_t)count(to, name) * sizeof(float));
}

/* Collects the reports as lines "taken NAME\n" and so on. */
static struct str report;

static void told(void *arg, enum adopt_fate fate, const char *name)
{
	static const char *const fates[] = {"taken", "derived", "new", "dropped"};

	str_printf(arg, "%s %s\n", fates[fate], name);
}

static int said(const char *line)
{
	return strstr(str_text(&report), line) != NULL;
}

static void adopt(struct made *to, struct made *from, int same)
{
	struct model_config loaded;
	struct err e = {0};

	str_reset(&report);
	if (model_config_load(from->path, &loaded, &e) || adopt_config(&to->config.net, &loaded, &e) ||
	    adopt_weights(from->path, &loaded, &to->config.net, same, &to->params, to->values, told, &report, &e))
		fail_msg("%s", e.msg);
	model_config_release(&loaded);
}

/* The output (N, out_channels, SIDE, SIDE) of a network at time t for N pictures and one text. A network for clips of N frames sees the pictures as
 * the frames of its first clip, and this is the output for that clip; the other clips of the batch hold other numbers. */
static float *answer(const struct made *m, float t, int32_t label)
{
	struct err e = {0};
	struct model *o = model_open(m->path, N, COMPACT_NONE, device, NULL, &e);
	int64_t d = net_sample_elements(&m->config.net);
	float *x = mem_zalloc((size_t)(N * d), sizeof *x), ts[N] = {t, t, t}, text[N * TOKENS * WIDTH], *out;
	int32_t labels[N] = {label, label, label};
	struct model_input in = {.x = x, .t = ts, .text = text, .label = m->config.net.classes ? labels : NULL};

	if (!o)
		fail_msg("%s", e.msg);
	rng_normal(x, (size_t)(N * d), 1, RNG_TEST, 0, 0);
	rng_normal(text, TOKENS * WIDTH, 2, RNG_TEST, 0, 0);
	for (int i = 1; i < N; i++)
		memcpy(text + i * TOKENS * WIDTH, text, TOKENS * WIDTH * sizeof *text);
	out = mem_zalloc((size_t)(N * model_elements(o)), sizeof *out);
	model_run(o, N, &in, out);
	model_free(o);
	mem_free(x);
	return out;
}

/* The largest difference of the first channels of both outputs at t, relative to the largest value. */
static double distance(const struct made *a, float ta, int32_t la, const struct made *b, float tb, int32_t lb)
{
	int64_t na = a->config.net.out_channels * SIDE * SIDE, nb = b->config.net.out_channels * SIDE * SIDE;
	float *x = answer(a, ta, la), *y = answer(b, tb, lb);
	double off = 0, top = 0;

	for (int64_t i = 0; i < N; i++)
		for (int64_t k = 0; k < C * SIDE * SIDE; k++) {
			off = fmax(off, fabs((double)x[i * na + k] - (double)y[i * nb + k]));
			top = fmax(top, fabs((double)x[i * na + k]));
		}
	assert_true(top > .05);
	mem_free(x);
	mem_free(y);
	return off / top;
}

/* A SiT with unused variance channels: with classes, and in the second network without. */
static void sit_goes_on(void **state)
{
	struct net_config c = config_of(&net_dit);
	struct made sit, with, without;

	(void)state;
	c.out_channels = 2 * C;
	trunk_edit(&c)->reversed = 1;
	c.time_scale = 1;
	c.classes = 3;
	c.class_dropout = .1;
	sit = make(&c, "velocity", "linear");
	save(&sit, "sit");
	c = config_of(&net_dit);
	without = begin(&c, "velocity");
	c.classes = 3;
	c.class_dropout = .2;
	with = begin(&c, "velocity");
	adopt(&with, &sit, 1);
	assert_false(said("new") || said("dropped") || said("derived"));
	save(&with, "sit-with");
	for (int32_t label = 0; label < 4; label++)
		assert_true(distance(&with, .3f, label, &sit, .3f, label) < TOL);
	adopt(&without, &sit, 1);
	assert_true(said("derived t_embedder.mlp.2.bias\n"));
	assert_false(said("new") || said("dropped"));
	save(&without, "sit-without");
	assert_true(distance(&without, .7f, 0, &sit, .7f, 3) < TOL);
	assert_true(distance(&without, .7f, 0, &sit, .7f, 0) > 100 * TOL);
	release(&sit);
	release(&with);
	release(&without);
}

/* The time embedding, computed in double. */
static void embed_time(struct made *m, const char *prefix, double t, double out[H])
{
	double wave[256], mid[H];
	char name[64];
	const float *p[4];
	static const char *const parts[] = {"0.weight", "0.bias", "2.weight", "2.bias"};

	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof name, "%s.mlp.%s", prefix, parts[i]);
		p[i] = weight(m, name);
	}
	for (int i = 0; i < 128; i++) {
		double f = exp(-log(10000) * i / (128 - trunk_config(&m->config.net)->time_shift));

		wave[i] = cos(m->config.net.time_scale * t * f);
		wave[i + 128] = sin(m->config.net.time_scale * t * f);
	}
	for (int i = 0; i < H; i++) {
		mid[i] = (double)p[1][i];
		for (int k = 0; k < 256; k++)
			mid[i] += (double)p[0][i * 256 + k] * wave[k];
		mid[i] /= 1 + exp(-mid[i]);
	}
	for (int i = 0; i < H; i++) {
		out[i] = (double)p[3][i];
		for (int k = 0; k < H; k++)
			out[i] += (double)p[2][i * H + k] * mid[k];
	}
}

/* Set an expert's last layer so that at time t it equals that of a DiT with a modulation of zero. */
static void plain_final(struct made *m, const char *prefix, double t)
{
	double e[H];
	float *table = weight(m, "final_layer.scale_shift_table");

	embed_time(m, prefix, t, e);
	for (int k = 0; k < 2 * H; k++)
		table[k] = (float)-e[k % H];
}

/* A DiT that predicts noise on a path of a thousand steps becomes an expert of Paris that at t = 1/2 computes what the DiT computed at step 499.5
 * without a class, for any text. That expert becomes a DiT again. */
static void a_dit_becomes_an_expert(void **state)
{
	const struct trunk_config *own;
	struct net_config c = config_of(&net_dit);
	struct made dit, expert, back;
	double same, other;

	(void)state;
	c.out_channels = 2 * C;
	c.classes = 4;
	c.class_dropout = .1;
	trunk_edit(&c)->norm2_eps = 1e-5;
	trunk_edit(&c)->time_shift = 1;
	dit = make(&c, "epsilon", "cosine");
	zero(&dit, "final_layer.adaLN_modulation.1.weight");
	zero(&dit, "final_layer.adaLN_modulation.1.bias");
	save(&dit, "dit");
	c = config_of(&net_paris);
	expert = begin(&c, "velocity");
	adopt(&expert, &dit, 0);
	assert_true(fabs(expert.config.net.time_scale - 999) < 1e-9);
	own = trunk_config(&expert.config.net);
	assert_true(own->norm2_eps == 1e-5 && own->time_shift == 1 && own->norm_eps == 1e-6);
	assert_true(said("taken patch_embed.weight\n") && said("taken layers.1.attn.in_proj_weight\n") && said("taken layers.0.mlp.2.bias\n"));
	assert_true(said("taken pos_embed\n") && said("taken time_embed.mlp.0.weight\n"));
	assert_true(said("derived time_embed.mlp.2.bias\n") && said("derived t_block.1.weight\n") && said("derived layers.1.scale_shift_table\n"));
	assert_true(said("new final_layer.linear.weight\n") && said("new text_proj.weight\n") && said("new layers.0.cross_attn.in_proj_weight\n"));
	assert_true(said("dropped final_layer.linear.weight\n") && said("dropped final_layer.adaLN_modulation.1.bias\n"));
	assert_false(said("dropped blocks") || said("dropped y_embedder"));
	for (int64_t k = 0; k < count(&expert, "final_layer.linear.weight"); k++)
		assert_true(weight(&expert, "final_layer.linear.weight")[k] == 0);
	/* Copy the DiT's last layer: the rows of channels 0 and 1 of 4. */
	for (int64_t r = 0; r < 4 * C; r++) {
		int64_t row = r / C * 2 * C + r % C;

		memcpy(weight(&expert, "final_layer.linear.weight") + r * H, weight(&dit, "final_layer.linear.weight") + row * H, H * sizeof(float));
		weight(&expert, "final_layer.linear.bias")[r] = weight(&dit, "final_layer.linear.bias")[row];
	}
	plain_final(&expert, "time_embed", .5);
	save(&expert, "expert");
	same = distance(&expert, .5f, 0, &dit, .4995f, 4);
	other = distance(&expert, .5f, 0, &dit, .4995f, 0);
	print_message("off by %.2g; of a DiT told a class by %.2g\n", same, other);
	assert_true(same < 2e-5 && other > 1e-2);
	c = config_of(&net_dit);
	back = begin(&c, "velocity");
	adopt(&back, &expert, 1);
	assert_true(said("derived blocks.1.adaLN_modulation.1.bias\n") && said("new final_layer.linear.weight\n") &&
	            said("dropped layers.0.cross_attn.in_proj_weight\n") && said("dropped text_proj.bias\n"));
	copy(&back, "final_layer.linear.weight", &expert, "final_layer.linear.weight");
	copy(&back, "final_layer.linear.bias", &expert, "final_layer.linear.bias");
	save(&back, "back");
	assert_true(distance(&back, .5f, 0, &expert, .5f, 0) < 2e-5);
	release(&dit);
	release(&expert);
	release(&back);
}

/* PixArt's cross attention becomes that of Paris and back, with all else equal. Both read a text that is the same for all samples. */
static void cross_attention(void **state)
{
	struct net_config c = config_of(&net_pixart);
	struct made pixart, paris, back;

	(void)state;
	pixart = make(&c, "velocity", "linear");
	zero(&pixart, "y_embedder.y_proj.fc2.weight");
	save(&pixart, "pixart");
	c = config_of(&net_paris);
	paris = begin(&c, "velocity");
	adopt(&paris, &pixart, 1);
	assert_true(said("taken layers.1.cross_attn.in_proj_bias\n") && said("new text_proj.weight\n") && said("taken final_layer.linear.bias\n"));
	assert_true(said("dropped y_embedder.y_proj.fc1.weight\n") && !said("dropped blocks") && !said("derived"));
	zero(&paris, "text_proj.weight");
	copy(&paris, "text_proj.bias", &pixart, "y_embedder.y_proj.fc2.bias");
	save(&paris, "paris");
	assert_true(distance(&paris, .2f, 0, &pixart, .2f, 0) < TOL);
	c = config_of(&net_pixart);
	back = begin(&c, "velocity");
	adopt(&back, &paris, 1);
	zero(&back, "y_embedder.y_proj.fc2.weight");
	copy(&back, "y_embedder.y_proj.fc2.bias", &pixart, "y_embedder.y_proj.fc2.bias");
	save(&back, "pixart-back");
	assert_true(distance(&back, .8f, 0, &pixart, .8f, 0) < TOL);
	for (int i = 0; i < back.params.n; i++) {
		const char *name = back.params.v[i].name;

		if (strstr(name, "cross_attn"))
			assert_memory_equal(weight(&back, name), weight(&pixart, name), (size_t)back.params.v[i].count * sizeof(float));
	}
	release(&pixart);
	release(&paris);
	release(&back);
}

/* From 2 x 2 to 4 x 4 tokens, coordinate p is read at p / 2 - 1/4, clamped to the centres of the outer tokens. */
static void positions(void **state)
{
	static const double at[4] = {0, .25, .75, 1};
	struct net_config c = config_of(&net_dit);
	struct made small = make(&c, "velocity", "linear"), large;
	const float *p, *q;

	(void)state;
	save(&small, "small");
	c.size = 2 * SIDE;
	large = begin(&c, "velocity");
	adopt(&large, &small, 1);
	assert_true(said("derived pos_embed\n") && !said("new"));
	p = weight(&small, "pos_embed");
	q = weight(&large, "pos_embed");
	for (int y = 0; y < 4; y++)
		for (int x = 0; x < 4; x++)
			for (int k = 0; k < H; k++) {
				double want = (1 - at[y]) * ((1 - at[x]) * (double)p[k] + at[x] * (double)p[H + k]) +
				              at[y] * ((1 - at[x]) * (double)p[2 * H + k] + at[x] * (double)p[3 * H + k]);

				assert_true(fabs((double)q[(4 * y + x) * H + k] - want) < 1e-7);
			}
	release(&small);
	release(&large);
}

/* Files of diffusers, with other names and another layout. */
static void diffusers(void **state)
{
	static const char *const names[] = {"dit-diffusers", "pixart-diffusers", "pixart-diffusers-micro"};

	(void)state;
	for (int k = 0; k < 3; k++) {
		char *path = str_new("tests/golden/pretrained/%s", names[k]);
		struct model_config from;
		struct params p = {0};
		struct net_config c;
		struct err e = {0};
		float *values;

		if (model_config_load(path, &from, &e))
			fail_msg("%s", e.msg);
		c = (struct net_config){.channels = from.net.channels,
		                        .out_channels = from.net.channels,
		                        .size = from.net.size,
		                        .text_tokens = 4,
		                        .text_width = k ? from.net.text_width : 7};
		net_shape_copy(&c, &from.net);
		c.def = k ? &net_pixart : &net_paris;
		if (adopt_config(&c, &from, &e))
			fail_msg("%s", e.msg);
		assert_int_equal(trunk_config(&c)->micro, k == 2);
		assert_true(trunk_config(&c)->position_scale == trunk_config(&from.net)->position_scale);
		net_params(&c, &p);
		values = mem_zalloc((size_t)p.total, sizeof *values);
		params_init(&p, 3, values);
		str_reset(&report);
		if (adopt_weights(path, &from, &c, 0, &p, values, told, &report, &e))
			fail_msg("%s", e.msg);
		assert_true(said(k ? "taken blocks.0.cross_attn.kv_linear.weight\n" : "new layers.0.cross_attn.in_proj_weight\n"));
		assert_true(said("new final_layer.linear.weight\n"));
		if (k)
			assert_true(said("taken y_embedder.y_proj.fc1.weight\n"));
		if (k == 2)
			assert_true(said("taken csize_embedder.mlp.0.weight\n") && said("taken ar_embedder.mlp.2.bias\n"));
		mem_free(values);
		params_release(&p);
		model_config_release(&from);
		mem_free(path);
	}
}

/* A network for clips that starts from one for pictures computes the same of each frame, until a time block adds something. */
static void check_inflation(const struct net_def *def, const char *gate)
{
	struct net_config c = config_of(def);
	struct made picture, clip, after, back;
	char *names[3] = {str_new("%s-picture", def->name), str_new("%s-clip", def->name), str_new("%s-after", def->name)};

	c.out_channels = 2 * C;
	if (!net_reads(&c, NET_IN_TEXT)) {
		c.classes = 3;
		c.class_dropout = .1;
	}
	picture = make(&c, "velocity", "linear");
	save(&picture, names[0]);
	c.frames = N;
	clip = begin(&c, "velocity");
	adopt(&clip, &picture, 1);
	assert_false(said("dropped") || said("derived") || said("new blocks") || said("new layers") || said("new final") ||
	             said("taken time_blocks"));
	assert_true(said("new time_blocks.0.") && said("new time_blocks.1."));
	save(&clip, names[1]);
	for (int32_t label = 0; label < (c.classes ? 4 : 1); label++)
		assert_true(distance(&clip, .3f, label, &picture, .3f, label) < TOL);
	rng_normal(weight(&clip, gate), (size_t)count(&clip, gate), 5, RNG_TEST, 0, 0);
	mem_free(clip.path);
	save(&clip, names[1]);
	assert_true(distance(&clip, .3f, 0, &picture, .3f, 0) > 1e-2);
	/* From clips to clips of any length, and back to pictures. */
	after = begin(&c, "velocity");
	adopt(&after, &clip, 1);
	assert_false(said("new") || said("dropped") || said("derived"));
	save(&after, names[2]);
	assert_true(distance(&clip, .3f, 0, &after, .3f, 0) == 0);
	c.frames = 0;
	back = begin(&c, "velocity");
	adopt(&back, &clip, 1);
	assert_true(said("dropped time_blocks.1.") && !said("new"));
	assert_memory_equal(back.values, picture.values, (size_t)back.params.total * sizeof(float));
	for (int i = 0; i < 3; i++)
		mem_free(names[i]);
	release(&picture);
	release(&clip);
	release(&after);
	release(&back);
}

static void pictures_become_clips(void **state)
{
	(void)state;
	check_inflation(&net_dit, "time_blocks.1.adaLN_modulation.1.bias");
	check_inflation(&net_pixart, "time_blocks.0.attn.proj.weight");
	check_inflation(&net_paris, "time_blocks.1.attn.out_proj.weight");
}

static void refused(struct net_config c, const struct model_config *from, int code, const char *says)
{
	struct err e = {0};

	assert_int_equal(adopt_config(&c, from, &e), -1);
	if (e.code != code || !strstr(e.msg, says))
		fail_msg("code %d, %s", e.code, e.msg);
}

static void refusals(void **state)
{
	struct model_config from = {.net = config_of(&net_dit), .path = "linear"};
	struct net_config c = config_of(&net_paris);
	struct made broken;
	struct model_config loaded;
	struct err e = {0};
	char *weights;

	(void)state;
	trunk_edit(&c)->hidden *= 2;
	refused(c, &from, ERR_USAGE, "width 12");
	c = config_of(&net_paris);
	trunk_edit(&c)->depth = 3;
	refused(c, &from, ERR_USAGE, "depth 2");
	c = config_of(&net_paris);
	c.channels++;
	refused(c, &from, ERR_DATA, "2 channels");
	c = config_of(&net_paris);
	trunk_edit(&from.net)->reversed = 1;
	refused(c, &from, ERR_USAGE, "noise to data");
	trunk_edit(&from.net)->reversed = 0;
	from.net.frames = c.frames = 2;
	refused(c, &from, ERR_USAGE, "is a dit network for clips, and a dit_expert network for clips cannot start from it");
	from.net.frames = 0;
	c = (struct net_config){.def = &net_video_dit, .channels = C, .frames = 2};
	refused(c, &from, ERR_USAGE, "a video_dit network cannot start from it; a dit network for clips can");
	from.net = config_of(&net_router);
	refused(c, &from, ERR_USAGE, "is not a network for pictures");
	from.net = config_of(&net_dit);
	from.net.def = &net_exact;
	refused(c, &from, ERR_USAGE, "is not a network for pictures");
	from.net.def = &net_dit;
	broken = make(&from.net, "velocity", "linear");
	save(&broken, "broken");
	weights = path_join(broken.path, model_weights_name(NET_EXPERT));
	broken.params.n--;
	assert_int_equal(model_write_weights(weights, &broken.params, device, broken.values, NULL, 0, &e), 0);
	broken.params.n++;
	assert_int_equal(model_config_load(broken.path, &loaded, &e), 0);
	assert_int_equal(adopt_weights(broken.path, &loaded, &from.net, 1, &broken.params, broken.values, told, &report, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	mem_free(weights);
	model_config_release(&loaded);
	release(&broken);
	str_release(&report);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sit_goes_on), cmocka_unit_test(a_dit_becomes_an_expert), cmocka_unit_test(cross_attention),
	    cmocka_unit_test(positions),   cmocka_unit_test(pictures_become_clips),   cmocka_unit_test(diffusers),
	    cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
