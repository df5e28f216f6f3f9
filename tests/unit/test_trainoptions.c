/* train/trainoptions: the stamp holds every option that determines the result and no other; the command made from a stamp repeats it; defaults;
 * resolved options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "data/dataset.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "train/traincommand.h"
#include "train/usual.h"
#include "tests/unit/stripes.h"
#include "tests/unit/tinyrun.h"

static char dir[] = "/tmp/ddm-trainoptions-XXXXXX", *shards, *pictures, *model, *text[2], *weights, *experts[2];

/* A model of two experts of one step, with this seed. */
static char *train_experts(const char *name, uint64_t seed, struct device *device)
{
	char *folder = path_join(dir, name);

	for (int k = 0; k < 2; k++) {
		char *out = str_new("%s/expert_%d", folder, k);
		struct train_options o = tiny_run(&net_dit, shards, out);

		o.cluster = k;
		o.seed = seed;
		o.steps = 1;
		assert_int_equal(train_run(&o, device, NULL, NULL), 0);
		mem_free(out);
	}
	return folder;
}

static int set_up(void **state)
{
	struct pool *pool;
	struct device *device;
	struct train_options o;

	(void)state;
	if (!mkdtemp(dir) || !(shards = make_shards(dir, "shards", 0, 0)) || !(pictures = make_shards(dir, "pictures", 0, 2)))
		return -1;
	model = path_join(dir, "model");
	weights = path_join(model, "diffusion_pytorch_model.safetensors");
	text[0] = path_join(shards, "MANIFEST.tsv"); /* any file, because only its hash matters */
	text[1] = weights;
	pool = pool_new(1, NULL);
	device = device_open("cpu", pool, NULL);
	o = tiny_run(&net_dit, shards, model);
	o.steps = 1;
	if (train_run(&o, device, NULL, NULL))
		return -1;
	experts[0] = train_experts("experts", 1, device);
	experts[1] = train_experts("others", 2, device);
	device_free(device);
	pool_free(pool);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	mem_free(shards);
	mem_free(pictures);
	mem_free(model);
	mem_free(weights);
	mem_free(text[0]);
	mem_free(experts[0]);
	mem_free(experts[1]);
	return dir_remove(dir, NULL);
}

/* Requests in which every option is used at least once: each kind of network, a length in steps and in epochs, names that are resolved. */
enum { EXPERT, ROUTER, READER, UNET, NAMED, TAUGHT, POOLED, FRAMED, REQUESTS };

static struct train_options request(int which)
{
	const struct net_def *const kinds[] = {&net_dit, &net_router, &net_pixart, &net_unet, &net_dit, &net_router, &net_sd3, &net_video_dit};
	struct train_options o = tiny_run(kinds[which], shards, "out");

	o.class_dropout = .1;
	if (which == EXPERT)
		o.condition = CONDITION_CLASS;
	if (which == ROUTER)
		o.steps = 0;
	if (which == READER) {
		o.null_text = text[0];
		o.net.text_tokens = 4;
	}
	if (which == POOLED) {
		net_preset("sd3-nano/2", &o.net, NULL);
		o.null_text = o.null_pooled = text[0];
	}
	if (which == FRAMED) {
		net_preset("vdit-nano/1x2", &o.net, NULL);
		o.first_frame = 1;
		o.pictures = shards;
	}
	if (which == UNET)
		net_preset("unet-nano", &o.net, NULL);
	if (which == TAUGHT) {
		o.target.kind = TARGET_MIXTURE;
		o.experts = experts[0];
	}
	if (which == NAMED) {
		o = train_defaults(NET_EXPERT);
		o.program = "test";
		o.shards = shards;
		o.cluster_name = "0";
		o.model = "dit-nano/2";
	}
	return o;
}

static char *stamp_of(struct train_options o, int which)
{
	struct err e = {0};
	char *line;

	if (which == NAMED && train_resolve(&o, &e))
		fail_msg("%s", e.msg);
	line = train_stamp(&o, &e);
	if (!line)
		fail_msg("%s", e.msg);
	return line;
}

static const char *another_text(const struct option *o)
{
	if (o->field == offsetof(struct train_options, from))
		return model;
	if (o->field == offsetof(struct train_options, init_from))
		return weights;
	if (o->field == offsetof(struct train_options, null_text) || o->field == offsetof(struct train_options, null_pooled))
		return text[1];
	if (o->field == offsetof(struct train_options, experts))
		return experts[1];
	if (o->field == offsetof(struct train_options, pictures))
		return pictures;
	if (o->field == offsetof(struct train_options, cluster_name))
		return "1";
	return o->field == offsetof(struct train_options, model) ? "dit-nano/4" : "another";
}

static const char *another_word(const struct option *o)
{
	static const char *const words[][2] = {{"--path", "cosine"},        {"--weighting", "edm"},    {"--time", "logit-normal"},
	                                       {"--checkpoint-every", "3"}, {"--time-range", ".5..1"}, {"--target", "error:.5"},
	                                       {"--accumulate", "2"}};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strcmp(o->name, words[i][0]))
			return words[i][1];
	return "?";
}

static int64_t another_number(const struct option *o, int64_t v)
{
	int i = 0;

	if (o->type == OPTION_FLAG || o->type == OPTION_OFF)
		return !v;
	if (o->type != OPTION_CHOICE || !o->choices)
		return v ^ 1;
	while (o->choices[i] && (o->values ? o->values[i] : i) != v)
		i++;
	i = o->choices[i] && o->choices[i + 1] ? i + 1 : 0;
	return o->values ? o->values[i] : i;
}

static void change(const struct option *o, struct train_options *r)
{
	void *field = option_field(o, r);
	struct err e = {0};

	switch (o->type) {
	case OPTION_REAL:
		*(double *)field = *(double *)field > 0 ? *(double *)field / 2 : .5;
		return;
	case OPTION_TEXT:
		*(const char **)field = another_text(o);
		return;
	case OPTION_PARSED:
		if (option_set(o, r, another_word(o), &e))
			fail_msg("no other value of %s is known here: %s", o->name, e.msg);
		return;
	default:
		if (o->size == sizeof(int64_t))
			*(int64_t *)field = another_number(o, *(int64_t *)field);
		else
			*(int *)field = (int)another_number(o, *(int *)field);
	}
}

/* The number of requests whose stamp changes with the option. */
static int tells(const struct option *o)
{
	int n = 0;

	for (int i = 0; i < REQUESTS; i++) {
		struct train_options r = request(i);
		char *was = stamp_of(r, i), *now;

		change(o, &r);
		now = stamp_of(r, i);
		n += strcmp(was, now) != 0;
		mem_free(was);
		mem_free(now);
	}
	return n;
}

static void stamp_tells_what_counts(void **state)
{
	static const struct option *const tables[] = {train_expert_options, train_router_options, train_common_options};
	int counted = 0;

	(void)state;
	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct option *o = tables[t]; !option_is_end(o); o++) {
			int n;

			if (option_is_group(o))
				continue;
			n = tells(o);
			counted += n > 0;
			if ((n > 0) != (o->stamp != STAMP_NOT))
				fail_msg("%s: %d stamps of %d tell it", o->name ? o->name : o->key, n, REQUESTS);
		}
	assert_true(counted > 30);
}

/* Whether the command made from the stamp of r gives that stamp. 0: it is refused, as options are that do nothing without others. */
static int repeats(struct train_options r, const char *changed)
{
	struct traincommand_paths paths = {shards, "out", r.init_from, r.from, r.experts, r.pictures};
	struct str what = {0};
	struct err e = {0};
	json_t *stamp, *words;
	char *line;
	int n;

	r.program = net_is_classifier(&r.net) ? "ddm-route-train" : "ddm-train";
	r.epochs = r.steps || r.epochs ? r.epochs : 2;
	r.precision = r.precision < 0 ? PRECISION_F32 : r.precision;
	r.optimizer = r.optimizer == OPTIMIZER_USUAL ? OPTIMIZER_ADAMW : r.optimizer;
	line = train_stamp(&r, &e);
	if (!line)
		fail_msg("%s", e.msg);
	stamp = json_loads(line, 0, NULL);
	words = traincommand_words(stamp, &paths, &e);
	if (!words)
		fail_msg("%s", e.msg);
	n = traincommand_differs(words, stamp, "shards", &what, &e);
	if (n > 0)
		fail_msg("%s: the command does not repeat %s", changed, str_text(&what));
	json_decref(words);
	json_decref(stamp);
	str_release(&what);
	mem_free(line);
	return n == 0;
}

static void a_command_repeats_the_stamp(void **state)
{
	static const struct option *const tables[] = {train_expert_options, train_router_options, train_common_options};
	char *null_text = path_join(shards, "null-text.npy");
	int repeated = 0, all = 0;

	(void)state;
	assert_int_equal(commit_bytes(null_text, "x", 1, NULL), 0);
	mem_free(null_text);
	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct option *o = tables[t]; !option_is_end(o); o++)
			for (int i = 0; i < REQUESTS; i++) {
				static const char *const presets[REQUESTS] = {"dit-nano/2", "dit-nano/2", "pixart-nano/2", "unet-nano",
				                                              NULL,         "dit-nano/2", "sd3-nano/2",    "vdit-nano/1x2"};
				struct train_options r = request(i);

				if (option_is_group(o) || !o->name || o->stamp == STAMP_NOT || !presets[i])
					continue;
				if (t < 2 && (int)t != net_is_classifier(&r.net)) /* of the other program */
					continue;
				assert_int_equal(net_preset(presets[i], &r.net, NULL), 0); /* the shape of request() is none that options give */
				change(o, &r);
				r.null_text = r.null_pooled = NULL;
				all++;
				repeated += repeats(r, o->name);
			}
	/* Refused: --rows and --head-only without --from, --experts without --target and --label-smoothing with it. */
	assert_true(all > 150 && all - repeated <= 6);
}

static void defaults(void **state)
{
	struct train_options o = train_defaults(NET_EXPERT), r = train_defaults(NET_CLASSIFIER);

	(void)state;
	assert_int_equal(o.batch, 32);
	assert_int_equal(o.keep, 2);
	assert_true(o.lr == 0 && o.beta1 == .9 && o.beta2 == .999 && o.eps == 1e-8 && o.clip == 1 && o.epochs == 0);
	assert_int_equal(o.optimizer, OPTIMIZER_USUAL);
	assert_int_equal(o.warmup, 50);
	assert_int_equal(o.schedule, SCHEDULE_COSINE);
	assert_true(o.checkpoint.seconds == 900 && o.checkpoint.steps == 0);
	assert_int_equal(o.verify, 1);
	assert_int_equal(o.precision, -1);
	assert_int_equal(o.keep_best, 0);
	assert_int_equal(r.keep_best, 1);
}

/* A bias of 0 is not the usual deviation of the data, by which edm weighs where it is given none. */
static void sigmoid_without_bias(void **state)
{
	static const char *const texts[] = {"sigmoid", "sigmoid:.5", "edm", "edm:.5"};
	char *stamp[4];
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct train_options o = request(NAMED);

		assert_int_equal(weighting_parse(texts[i], &o.objective.weighting, &e), 0);
		stamp[i] = stamp_of(o, NAMED);
	}
	assert_string_not_equal(stamp[0], stamp[1]);
	assert_string_equal(stamp[2], stamp[3]);
	for (int i = 0; i < 4; i++)
		mem_free(stamp[i]);
}

static int64_t shape_of(const struct train_options *o, const char *name)
{
	struct net_value v;

	for (int i = 0; net_shape(&o->net, i, &v); i++)
		if (!strcmp(v.name, name))
			return v.i;
	return -1;
}

static void names_are_resolved(void **state)
{
	struct train_options o = request(NAMED), r = train_defaults(NET_CLASSIFIER);
	struct err e = {0};

	(void)state;
	r.shards = shards;
	o.model = NULL;
	o.shape.depth = 3;
	assert_int_equal(train_resolve(&o, &e), 0);
	assert_int_equal(shape_of(&o, "patch"), 1);
	assert_int_equal(shape_of(&o, "hidden"), 96);
	assert_int_equal(shape_of(&o, "depth"), 3);
	assert_int_equal(o.cluster, 0);
	assert_true(o.lr == 1e-2 && o.optimizer == OPTIMIZER_MUON && o.epochs == 100);
	assert_int_equal(train_resolve(&r, &e), 0);
	assert_int_equal(shape_of(&r, "patch"), 2);
	o = request(NAMED);
	o.model = NULL;
	o.from = model;
	assert_int_equal(train_resolve(&o, &e), 0);
	assert_int_equal(shape_of(&o, "hidden"), 16);
}

/* Given values stay. Schedule-free AdamW has a constant rate. */
static void given_values_stay(void **state)
{
	struct train_options o = request(NAMED);
	struct err e = {0};

	(void)state;
	o.lr = .25;
	o.optimizer = OPTIMIZER_SCHEDULE_FREE;
	o.epochs = 3;
	o.model = "unet-nano";
	assert_int_equal(train_resolve(&o, &e), 0);
	assert_true(o.lr == .25 && o.epochs == 3);
	assert_int_equal(o.optimizer, OPTIMIZER_SCHEDULE_FREE);
	assert_int_equal(o.schedule, SCHEDULE_CONSTANT);
	o = request(NAMED);
	o.steps = 7;
	assert_int_equal(train_resolve(&o, &e), 0);
	assert_true(o.epochs == 0);
}

static void usual_values(void **state)
{
	static const struct {
		const char *preset;
		double rate;
		enum optimizer_kind optimizer;
	} networks[] = {
	    {"dit-nano/2", 1e-2, OPTIMIZER_MUON}, {"dit-mini/2", 3e-3, OPTIMIZER_MUON}, {"dit-s/2", 8.0e-4, OPTIMIZER_ADAMW},
	    {"dit-xl/2", 1e-4, OPTIMIZER_ADAMW},  {"unet-nano", 2e-3, OPTIMIZER_ADAMW}, {"unet-b", 2e-4, OPTIMIZER_ADAMW},
	};
	static const struct {
		int64_t samples;
		int channels, size, arrays, classifier;
		const char *name;
	} data[] = {
	    {3000, 1, 16, 0, 0, "dit-nano/2"},  {3000, 3, 32, 0, 0, "dit-nano/4"},   {3000, 3, 64, 0, 0, "dit-nano/4"},
	    {29999, 1, 28, 0, 0, "dit-nano/2"}, {30000, 3, 32, 0, 0, "dit-micro/4"}, {30000, 4, 32, 1, 0, "dit-micro/2"},
	    {3000, 4, 8, 1, 0, "dit-nano/1"},   {3000, 3, 15, 0, 0, "dit-nano/1"},   {3000, 32, 16, 1, 0, "dit-nano/1"},
	    {3000, 3, 16, 0, 1, "dit-nano/4"},  {30000, 4, 32, 1, 1, "dit-nano/4"},  {3000, 3, 15, 0, 1, "dit-nano/1"},
	};
	struct net_config c;
	struct err e = {0};
	char name[24];

	(void)state;
	for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
		net_init(&c, net_first(NET_EXPERT));
		assert_int_equal(net_preset(networks[i].preset, &c, &e), 0);
		if (fabs(usual_rate(&c) / networks[i].rate - 1) > 1e-12)
			fail_msg("%s: a rate of %g", networks[i].preset, usual_rate(&c));
		assert_int_equal(usual_optimizer(&c), networks[i].optimizer);
	}
	for (size_t i = 0; i < sizeof data / sizeof *data; i++) {
		usual_network(data[i].samples, data[i].channels, data[i].size, 0, data[i].arrays, data[i].classifier, name);
		assert_string_equal(name, data[i].name);
	}
	assert_true(usual_epochs(3000, 0) == 100 && usual_epochs(5000, 0) == 100 && usual_epochs(50000, 0) == 10 && usual_epochs(0, 0) == 100);
	assert_true(fabs(usual_epochs(59000, 0) - 8.47) < 1e-12 && fabs(usual_epochs(3000, 1) - 33.3) < 1e-12 && usual_epochs(1000000000, 0) < 1e-3);
	assert_true(usual_validation(2000, 32, 100) == 100 && usual_validation(5, 32, 0) == 1);     /* a twentieth; at least one */
	assert_true(usual_validation(1000, 32, 512) == 54 && usual_validation(100, 8, 512) == 214); /* a tenth of the time */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(stamp_tells_what_counts), cmocka_unit_test(a_command_repeats_the_stamp), cmocka_unit_test(defaults),
	    cmocka_unit_test(names_are_resolved),      cmocka_unit_test(given_values_stay),           cmocka_unit_test(usual_values),
	    cmocka_unit_test(sigmoid_without_bias),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
