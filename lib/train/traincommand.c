/* Makes a command from the stamp of a training, with the tables of options that made the stamp. */
#include "train/traincommand.h"

#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/option.h"
#include "file/stamp.h"
#include "net/net.h"
#include "train/run.h"

static int is_router(const json_t *stamp)
{
	const char *program = json_string_value(json_object_get(stamp, "program"));

	return program && !strcmp(program, "ddm-route-train");
}

static void add(json_t *words, const char *text)
{
	json_array_append_new(words, jsonio_text(text));
}

static void add_pair(json_t *words, const char *option, const char *value)
{
	add(words, option);
	add(words, value);
}

/* Whether the stamp's value stands for an option that was not given: 0 where the option allows only more. */
static int is_unset(const struct option *o, const json_t *v)
{
	return json_is_number(v) && json_number_value(v) == 0 && (o->lo > 0 || o->type == OPTION_FLAG);
}

/* Whether the option is refused because another one decides: schedule-free AdamW has no schedule, and nothing is validated on no samples. */
static int is_implied(const struct option *o, const json_t *stamp)
{
	const char *optimizer = json_string_value(json_object_get(stamp, "optimizer"));
	const json_t *samples = json_object_get(stamp, "validate_samples");

	return (!strcmp(o->key, "schedule") && optimizer && !strcmp(optimizer, optimizer_names[OPTIMIZER_SCHEDULE_FREE])) ||
	       (!strcmp(o->key, "validate_every") && samples && !json_integer_value(samples));
}

static void add_option(json_t *words, const struct option *o, const json_t *stamp)
{
	const json_t *v = json_object_get(stamp, o->key);
	char *text;

	if (!o->name)
		return;
	/* The first choice is left out of the stamp, but need not be the default of another machine or network. */
	if (!v && o->type == OPTION_CHOICE && o->stamp == STAMP_UNLESS_DEFAULT && !o->preset) {
		add_pair(words, o->name, o->choices[0]);
		return;
	}
	if (!v || is_unset(o, v) || is_implied(o, stamp))
		return;
	if (o->type == OPTION_FLAG) {
		add(words, o->name);
		return;
	}
	text = stamped_text(stamp, NULL, o->key);
	add_pair(words, o->name, text);
	mem_free(text);
}

static void add_table(json_t *words, const struct option *table, const json_t *stamp)
{
	for (const struct option *o = table; !option_is_end(o); o++)
		if (o->key && !option_is_group(o))
			add_option(words, o, stamp);
}

/* Whether the network of the stamp is c, but for values that options can change; *changed: how many of these differ. */
static int is_like(const struct net_config *c, const json_t *stamp, int *changed)
{
	struct net_value v;

	*changed = 0;
	for (int i = 0; net_shape(c, i, &v); i++) {
		const json_t *was = json_object_get(stamp, v.name);
		int same = *v.text   ? json_is_string(was) && !strcmp(json_string_value(was), v.text)
		           : v.whole ? json_is_integer(was) && json_integer_value(was) == v.i
		                     : json_is_number(was) && json_number_value(was) == v.f;

		if (!same && strcmp(v.name, "hidden") && strcmp(v.name, "depth") && strcmp(v.name, "heads"))
			return 0;
		*changed += !same;
	}
	return 1;
}

/* The search for the preset nearest to the network of a stamp. */
struct nearest {
	const json_t *stamp;
	struct net_config start, best;
	char *name; /* of `best`; NULL: none is like the network */
	int changed;
};

static void compare_preset(void *arg, const char *name)
{
	struct nearest *s = arg;
	struct net_config c = s->start;
	int changed;

	if (net_preset(name, &c, NULL) || c.def != s->start.def || !is_like(&c, s->stamp, &changed) || (s->name && changed >= s->changed))
		return;
	mem_free(s->name);
	s->name = mem_strdup(name);
	s->changed = changed;
	s->best = c;
}

/* Add --model with the preset nearest to the network of the stamp, and the options that make it equal. */
static void add_network(json_t *words, const json_t *stamp)
{
	static const char *const shape[] = {"hidden", "depth", "heads"};
	const char *network = json_string_value(json_object_get(stamp, "network"));
	const struct net_def *def = network ? net_find(network) : net_first(is_router(stamp) ? NET_CLASSIFIER : NET_EXPERT);
	struct nearest found = {.stamp = stamp};

	if (!def)
		return;
	net_init(&found.start, def);
	net_presets_each(&found.start, json_integer_value(json_object_get(stamp, "patch")), compare_preset, &found);
	if (!found.name)
		return;
	add_pair(words, "--model", found.name);
	for (size_t k = 0; k < sizeof shape / sizeof *shape; k++) {
		const json_t *v = json_object_get(stamp, shape[k]);
		char *option = str_new("--%s", shape[k]), *text = stamped_text(stamp, NULL, shape[k]);
		struct net_value now;

		for (int i = 0; text && net_shape(&found.best, i, &now); i++)
			if (!strcmp(now.name, shape[k]) && now.i != json_integer_value(v))
				add_pair(words, option, text);
		mem_free(option);
		mem_free(text);
	}
	mem_free(found.name);
}

static void add_input(json_t *words, const json_t *inputs, const char *role, const char *option, const char *path, const char *missing)
{
	if (json_object_get(inputs, role))
		add_pair(words, option, path ? path : missing);
}

json_t *traincommand_words(const json_t *stamp, const struct traincommand_paths *paths, struct err *e)
{
	const char *program = json_string_value(json_object_get(stamp, "program"));
	const json_t *inputs = json_object_get(stamp, "inputs"), *cluster = json_object_get(stamp, "cluster");
	int router = is_router(stamp);
	json_t *words;
	char *k;

	if (!program || (!router && strcmp(program, "ddm-train"))) {
		err_set(e, ERR_DATA, "the stamp is not of a training by ddm-train or ddm-route-train");
		return NULL;
	}
	words = json_array();
	add(words, program);
	if (!router) {
		k = json_is_integer(cluster) && json_integer_value(cluster) >= 0 ? stamped_text(stamp, NULL, "cluster") : mem_strdup("all");
		add_pair(words, "--cluster", k);
		mem_free(k);
	}
	add_network(words, stamp);
	add_table(words, router ? train_router_options : train_expert_options, stamp);
	add_table(words, train_common_options, stamp);
	if (router && !json_object_get(stamp, "validate_every"))
		add(words, "--last");
	add_input(words, inputs, "init", "--init-weights", paths->init, "WEIGHTS");
	add_input(words, inputs, "from", router ? "--from" : "--pretrained", paths->from, "PRETRAINED");
	add_input(words, inputs, "experts", "--experts", paths->experts, "EXPERTS");
	add_input(words, inputs, "pictures", "--pictures", paths->pictures, "PICTURES");
	add_pair(words, "-o", paths->out);
	add(words, paths->shards ? paths->shards : "SHARDS");
	return words;
}

/* The line of a stamp without what another run of the same options may have otherwise. Takes over o. */
static char *comparable(json_t *o, const char *input)
{
	char *line;

	json_object_del(o, "version");
	json_object_del(o, "extended");
	json_object_del(json_object_get(o, "inputs"), input);
	line = jsonio_line(o);
	json_decref(o);
	return line;
}

/* The options of the words. The texts stay borrowed from the words. */
static int read_words(const json_t *words, int router, struct train_options *o, struct err *e)
{
	const struct option_table tables[] = {{router ? train_router_options : train_expert_options, o}, {train_common_options, o}, {0}};
	const struct program program = {.name = router ? "ddm-route-train" : "ddm-train", .tables = tables};
	size_t n = json_array_size(words);
	char **argv = mem_zalloc(n + 1, sizeof *argv);
	struct option_given given = {0};
	int operands = 0, rc;

	for (size_t i = 0; i < n; i++)
		argv[i] = (char *)(uintptr_t)json_string_value(json_array_get(words, i));
	*o = train_defaults(router ? NET_CLASSIFIER : NET_EXPERT);
	o->program = program.name;
	rc = option_parse(&program, (int)n, argv, &operands, &given, NULL, e) || option_check(&program, &given, argv + 1, operands, e) ? -1 : 0;
	o->shards = operands ? argv[1] : NULL;
	mem_free(argv);
	return rc;
}

int traincommand_differs(const json_t *words, const json_t *stamp, const char *input, struct str *what, struct err *e)
{
	struct train_options o;
	char *now, *a, *b;
	int n;

	if (read_words(words, is_router(stamp), &o, e) || train_resolve(&o, e) || !(now = train_stamp(&o, e)))
		return -1;
	a = comparable(json_loads(now, 0, NULL), input);
	b = comparable(json_deep_copy(stamp), input);
	n = run_differs(a, b, what);
	mem_free(now);
	mem_free(a);
	mem_free(b);
	return n;
}
