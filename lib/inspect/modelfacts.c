/* Facts about models, trainings and checkpoints. */
#include "inspect/modelfacts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "diffusion/ensemble.h"
#include "diffusion/membership.h"
#include "diffusion/path.h"
#include "file/fileio.h"
#include "file/runlock.h"
#include "file/safetensors.h"
#include "file/weightfile.h"
#include "net/model.h"
#include "train/state.h"
#include "train/trainlog.h"

enum { ABSENT_MOST = 4096 };

static void set_i64(json_t *o, const char *key, int64_t v)
{
	json_object_set_new(o, key, json_integer(v));
}

static void set_text(json_t *o, const char *key, const char *text)
{
	json_object_set_new(o, key, jsonio_text(text));
}

/* o[as] = v, where there is one. */
static void copy(json_t *to, const char *as, const json_t *v)
{
	if (v && !json_is_null(v))
		json_object_set(to, as, (json_t *)(uintptr_t)v);
}

/* Shape and cost of what is trained. */
static void net_facts(json_t *o, const struct net_config *n, struct params *p)
{
	double flops = net_measure(n, p);
	struct net_value v;

	for (int i = 0; net_shape(n, i, &v); i++)
		if (v.whole)
			set_i64(o, v.name, v.i);
	if (n->classes) {
		set_i64(o, "classes", n->classes);
		json_object_set_new(o, "class_dropout", json_real(n->class_dropout));
	}
	set_i64(o, "parameters", params_count(p, 0));
	json_object_set_new(o, "gflop_per_image", json_real(flops * 1e-9));
}

static void config_facts(json_t *o, const struct model_config *c, struct params *p)
{
	const struct net_config *n = &c->net;
	int64_t picture[3] = {n->channels, n->size, n->size};

	set_text(o, "network", net_title(n));
	if (!net_is_classifier(n))
		set_text(o, "prediction", c->prediction);
	set_text(o, "path", c->path);
	if (!net_is_classifier(n))
		json_object_set_new(o, "cluster", c->cluster >= 0 ? json_integer(c->cluster) : json_string("all"));
	if (c->clusters)
		set_i64(o, "k", c->clusters);
	json_object_set_new(o, "picture", facts_shape(3, picture));
	if (!net_is_exact(n))
		net_facts(o, n, p);
}

/* The network's parameters go to *p, which stays empty for an exact one. dir: where it was found, or NULL. */
static int take_config(json_t *o, const json_t *config, const char *dir, struct model_config *c, struct params *p, const char *where,
                       struct err *e)
{
	const json_t *training = json_object_get(config, "training");

	if (model_config_parse(config, where, c, e) || (dir && model_config_schedule(dir, config, c, e)))
		return -1;
	config_facts(o, c, p);
	copy(o, "condition", json_object_get(config, "condition"));
	copy(o, "data", json_object_get(json_object_get(training, "inputs"), "shards"));
	copy(o, "cluster_sizes", json_object_get(config, "cluster_sizes"));
	copy(o, "cluster_name", c->cluster >= 0 ? json_array_get(c->cluster_names, (size_t)c->cluster) : NULL);
	copy(o, "cluster_names", net_is_classifier(&c->net) ? c->cluster_names : NULL);
	copy(o, "class_names", c->class_names);
	copy(o, "stamp", training);
	if (!net_is_classifier(&c->net) && (prediction_find(c->prediction) < 0 || !(path_find(c->path) || betas_path(c->path))))
		return err_set(e, ERR_DATA, "%s: prediction \"%s\" on path \"%s\" is not known here", where, c->prediction, c->path);
	return 0;
}

int facts_config(json_t *o, const json_t *config, const char *where, struct err *e)
{
	struct model_config c = {0};
	struct params p = {0};
	int rc = take_config(o, config, NULL, &c, &p, where, e);

	params_release(&p);
	model_config_release(&c);
	return rc;
}

static int check_finite(struct weightfile *w, const char *path, struct err *e)
{
	int64_t n;

	for (int i = 0; i < weightfile_count(w); i++)
		if (weightfile_get(w, i)->data && (n = st_not_finite(weightfile_get(w, i))))
			return err_set(e, ERR_DATA, "%s: %" PRId64 " numbers of %s are not finite", path, n, weightfile_get(w, i)->name);
	if (weightfile_verify(w, &n, e))
		return -1;
	return n ? err_set(e, ERR_DATA, "%s: %" PRId64 " numbers are not finite", path, n) : 0;
}

static int weights_facts(json_t *o, const char *path, int exact, const struct params *p, const struct facts_options *f, struct err *e)
{
	struct weightfile *w = weightfile_open(path, NULL, e);
	json_t *v = json_object(), *types = json_object();
	const char *base = strrchr(path, '/');
	int64_t bytes = 0, step;
	char hex[65];
	int rc = -1;

	if (!w)
		goto out;
	for (int i = 0; i < weightfile_count(w); i++) {
		const struct st_tensor *t = weightfile_get(w, i);
		const char *type = st_type_name(t->type);

		bytes += st_count(t) * (int64_t)st_type_size(t->type);
		set_i64(types, type, json_integer_value(json_object_get(types, type)) + 1);
	}
	set_text(v, "file", base ? base + 1 : path);
	set_i64(v, "bytes", bytes);
	json_object_set(v, "types", types);
	if (weightfile_meta(w, "step") && !parse_i64(weightfile_meta(w, "step"), 0, INT64_MAX, &step))
		set_i64(v, "step", step);
	json_object_set(o, "weights", v);
	if (!exact) {
		const struct safetensors *s = weightfile_tensors(w, e);

		rc = s ? model_match_weights(s, path, p, e) : -1;
	} else {
		rc = 0;
	}
	if (!rc && f->check && !(rc = weightfile_hash(w, hex, e))) {
		set_text(v, "sha256", hex);
		rc = check_finite(w, path, e);
	}
out:
	json_decref(types);
	json_decref(v);
	weightfile_free(w);
	return rc;
}

static json_t *checkpoint_row(const char *path, int64_t step, int hashes, struct err *why)
{
	json_t *o = json_object();
	struct checkpoint c;

	checkpoint_inspect(path, hashes, &c, why);
	set_i64(o, "step", step);
	set_text(o, "state", why->code ? "damaged" : "whole");
	set_i64(o, "bytes", c.bytes);
	if (isfinite(c.best_loss)) {
		json_object_set_new(o, "best_loss", json_real(c.best_loss));
		set_i64(o, "best_step", c.best_step);
	}
	if (why->code)
		set_text(o, "why", why->msg);
	json_decref(c.stamp);
	return o;
}

/* *whole: the newest whole one's step, -1 where there is none. */
static int checkpoints_facts(json_t *o, const char *dir, const struct facts_options *f, int64_t *whole, struct err *e)
{
	int n, rc;
	int64_t *steps;
	json_t *list = json_array();

	*whole = -1;
	rc = checkpoint_steps(dir, &steps, &n, e);
	for (int i = 0; i < n; i++) {
		char *path = str_new("%s/step-%08" PRId64, dir, steps[i]);
		struct err why = {0};

		json_array_append_new(list, checkpoint_row(path, steps[i], f->check, &why));
		if (!why.code && *whole < 0)
			*whole = steps[i];
		if (why.code && f->check && !rc)
			rc = err_set(e, ERR_DATA, "%s", why.msg);
		mem_free(path);
	}
	if (n)
		json_object_set(o, "checkpoints", list);
	json_decref(list);
	mem_free(steps);
	return rc;
}

int facts_train(json_t *o, const char *dir, const struct facts_options *f, struct err *e)
{
	char *log = path_join(dir, "../train.jsonl");
	json_t *training = json_object(), *stamp;
	int64_t whole;
	int rc = path_exists(log) ? trainlog_facts(training, log, f->check, e) : 0;

	stamp = json_incref(json_object_get(training, "stamp"));
	json_object_del(training, "stamp");
	if (json_object_size(training))
		json_object_set(o, "training", training);
	if (checkpoints_facts(o, dir, f, &whole, rc ? NULL : e))
		rc = -1;
	if (!rc && whole < 0 && json_object_get(o, "checkpoints"))
		rc = err_set(e, ERR_DATA, "%s: no checkpoint is whole", dir);
	copy(o, "stamp", stamp);
	json_decref(stamp);
	json_decref(training);
	mem_free(log);
	return rc;
}

int facts_checkpoint(json_t *o, const char *dir, const struct facts_options *f, struct err *e)
{
	struct checkpoint c;
	int rc = checkpoint_inspect(dir, f->check, &c, e);

	set_i64(o, "step", c.step);
	set_i64(o, "updates", c.updates);
	set_i64(o, "files_bytes", c.bytes);
	if (isfinite(c.best_loss)) {
		json_object_set_new(o, "best_loss", json_real(c.best_loss));
		set_i64(o, "best_step", c.best_step);
	}
	set_text(o, "state", rc ? "damaged" : "whole");
	copy(o, "stamp", c.stamp);
	json_decref(c.stamp);
	return rc;
}

/* The config, if there is one, into *c: 1, 0 where there is none, -1. */
static int read_config(json_t *o, const char *dir, struct model_config *c, struct params *p, struct err *e)
{
	char *path = path_join(dir, "config.json");
	json_t *config = NULL;
	int rc = 0;

	if (path_exists(path)) {
		config = jsonio_load(path, e);
		rc = !config || take_config(o, config, dir, c, p, path, e) ? -1 : 1;
	}
	json_decref(config);
	mem_free(path);
	return rc;
}

static int training_facts(json_t *o, const char *dir, const struct facts_options *f, struct err *e)
{
	char *log = path_join(dir, "train.jsonl"), *train = path_join(dir, "train"), who[128];
	json_t *training = json_object(), *stamp;
	int64_t whole = -1;
	int rc = 0;

	if (path_exists(log))
		rc = trainlog_facts(training, log, f->check, e);
	stamp = json_object_get(training, "stamp");
	if (!json_object_get(o, "stamp"))
		copy(o, "stamp", stamp);
	if (!json_object_get(o, "data"))
		copy(o, "data", json_object_get(json_object_get(stamp, "inputs"), "shards"));
	json_object_del(training, "stamp");
	if (json_object_size(training))
		json_object_set(o, "training", training);
	if (runlock_holder(dir, who, sizeof who))
		set_text(o, "running", who);
	if (!rc && path_exists(train))
		rc = checkpoints_facts(o, train, f, &whole, e);
	json_decref(training);
	mem_free(log);
	mem_free(train);
	return rc;
}

/* *c is filled where there is a config: *have. */
static int network_facts(json_t *o, const char *dir, const struct facts_options *f, struct model_config *c, int *have, struct err *e)
{
	struct params p = {0};
	int rc = read_config(o, dir, c, &p, e);
	char *weights;

	*have = rc > 0;
	if (rc < 0) {
		params_release(&p);
		return -1;
	}
	rc = 0;
	if (*have) {
		struct err why = {0};

		weights = model_weights_path(dir, net_role(&c->net), &why);
		if (weights)
			rc = weights_facts(o, weights, net_is_exact(&c->net), &p, f, e);
		else if (why.code != ERR_NOINPUT)
			rc = err_set(e, why.code, "%s", why.msg);
		else
			rc = err_set(e, ERR_NOINPUT, "%s: config.json is there and %s is not", dir, model_weights_name(net_role(&c->net)));
		mem_free(weights);
	}
	params_release(&p);
	return training_facts(o, dir, f, rc ? NULL : e) || rc ? -1 : 0;
}

/* A network of diffusers' or transformers', of whose architecture nothing is known here: its name, or NULL. Caller frees with mem_free. */
static char *foreign_class(const char *dir)
{
	char *path = path_join(dir, "config.json"), *name = NULL;
	json_t *o = path_exists(path) ? jsonio_load(path, NULL) : NULL;
	const json_t *class = json_object_get(o, "_class_name");
	struct model_config c = {0};

	if (!class)
		class = json_array_get(json_object_get(o, "architectures"), 0);
	if (json_is_string(class) && model_config_parse(o, path, &c, NULL))
		name = mem_strdup(json_string_value(class));
	model_config_release(&c);
	json_decref(o);
	mem_free(path);
	return name;
}

static int foreign_facts(json_t *o, const char *dir, const char *class, const struct facts_options *f, struct err *e)
{
	char *weights = weightfile_locate(dir, NULL, e);
	int rc;

	if (class)
		set_text(o, "network", class);
	rc = weights ? facts_weights(o, weights, f, e) : -1;
	mem_free(weights);
	return rc;
}

int facts_network(json_t *o, const char *dir, const struct facts_options *f, struct err *e)
{
	struct model_config c = {0};
	char *class = foreign_class(dir);
	int have, rc;

	if (class) {
		rc = foreign_facts(o, dir, class, f, e);
		mem_free(class);
		return rc;
	}
	rc = network_facts(o, dir, f, &c, &have, e);

	model_config_release(&c);
	if (!rc && !have && !json_object_get(o, "training") && !json_object_get(o, "checkpoints")) {
		struct err why = {0};

		rc = foreign_facts(o, dir, NULL, f, &why);
		if (rc && why.code == ERR_NOINPUT)
			err_set(e, ERR_DATA, "%s: no config.json, no weights, and no training in progress", dir);
		else if (rc)
			err_set(e, why.code, "%s", why.msg);
	}
	return rc;
}

/* "parts" of model_index.json, whose members are [library, class], and [null, null] for what is left out. */
static void parts_facts(json_t *o, const json_t *index)
{
	json_t *parts = json_object(), *v;
	const char *key;

	copy(o, "pipeline", json_object_get(index, "_class_name"));
	json_object_foreach((json_t *)(uintptr_t)index, key, v)
		if (json_is_string(json_array_get(v, 1)))
			json_object_set(parts, key, json_array_get(v, 1));
	json_object_set_new(o, "parts", parts);
}

int facts_pipeline(json_t *o, const char *dir, const struct facts_options *f, struct err *e)
{
	char *path = path_join(dir, "model_index.json"), *transformer = path_join(dir, "transformer");
	json_t *index = jsonio_load(path, e);
	int rc = index ? 0 : -1;

	if (index)
		parts_facts(o, index);
	if (index && path_exists(transformer))
		rc = facts_network(o, transformer, f, e);
	json_decref(index);
	mem_free(transformer);
	mem_free(path);
	return rc;
}

/* What has been seen of a model so far. */
struct agreement {
	char first[32]; /* name of the network that the others are compared with */
	struct net_config net;
	int64_t k, highest;
	char data[65];
	int same_data;
	struct membership together;
};

static int differs(const char *dir, const char *name, const char *what, int64_t a, int64_t b, const char *other, struct err *e)
{
	return a == b ? 0 : err_set(e, ERR_DATA, "%s: %s has %s %" PRId64 ", %s %" PRId64, dir, name, what, a, other, b);
}

static int agree(struct agreement *a, const char *dir, const char *name, const struct net_config *n, struct err *e)
{
	if (!*a->first) {
		snprintf(a->first, sizeof a->first, "%s", name);
		a->net = *n;
		return 0;
	}
	if (differs(dir, name, "channels", n->channels, a->net.channels, a->first, e) ||
	    differs(dir, name, "size", n->size, a->net.size, a->first, e))
		return -1;
	if (!net_is_classifier(n) && !net_is_classifier(&a->net))
		return differs(dir, name, "classes", n->classes, a->net.classes, a->first, e);
	return 0;
}

/* A line of the table of networks. */
static json_t *row_of(const char *name, const json_t *v)
{
	static const char *const keys[] = {"cluster", "cluster_name", "prediction", "path", "patch", "hidden", "depth", "heads", "parameters"};
	const json_t *training = json_object_get(v, "training");
	json_t *o = json_object();

	set_text(o, "name", name);
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		copy(o, keys[i], json_object_get(v, keys[i]));
	if (json_object_get(v, "weights"))
		copy(o, "step", json_object_get(json_object_get(v, "weights"), "step"));
	else
		copy(o, "step", json_object_get(training, "step"));
	copy(o, "val_loss", json_object_get(training, "val_loss"));
	if (json_object_get(v, "running"))
		set_text(o, "state", "running");
	else if (json_object_get(v, "weights"))
		set_text(o, "state", "finished");
	else
		copy(o, "state", json_object_get(training, "state"));
	copy(o, "data", json_object_get(v, "data"));
	return o;
}

static void note_data(struct agreement *a, const json_t *v)
{
	const char *data = json_string_value(json_object_get(v, "data"));

	if (!data || strlen(data) >= sizeof a->data)
		return;
	if (*a->data && strcmp(a->data, data))
		a->same_data = 0;
	memcpy(a->data, data, strlen(data) + 1);
}

/* One of the model's networks into a row of `rows` and, with full, its facts into `list`. */
static int member_facts(json_t *rows, json_t *list, struct agreement *a, const char *dir, const char *name,
                        const struct facts_options *f, struct err *e)
{
	char *path = path_join(dir, name);
	struct model_config c = {0};
	json_t *v = json_object();
	int have = 0, rc = network_facts(v, path, f, &c, &have, e);

	json_array_append_new(rows, row_of(name, v));
	note_data(a, v);
	if (f->full) {
		json_object_set_new(v, "name", jsonio_text(name));
		json_array_append(list, v);
	}
	if (!rc && have && strcmp(name, "router") && net_is_classifier(&c.net))
		rc = err_set(e, ERR_DATA, "%s: a router where an expert should be", path);
	if (!rc && have && !strcmp(name, "router")) {
		if (!net_is_classifier(&c.net))
			rc = err_set(e, ERR_DATA, "%s: not a router", path);
		else if (c.net.clusters <= a->highest)
			rc = err_set(e, ERR_DATA, "%s: the router knows %" PRId64 " clusters, but there is expert_%" PRId64 " (numbered from 0)", dir,
			             c.net.clusters, a->highest);
		a->k = c.net.clusters;
	}
	if (!rc && have)
		rc = agree(a, dir, name, &c.net, e) || membership_add(&a->together, dir, name, ensemble_number(name), &c, e) ? -1 : 0;
	if (have && !net_is_classifier(&c.net) && c.clusters > a->k && c.cluster >= 0)
		a->k = c.clusters;
	model_config_release(&c);
	json_decref(v);
	mem_free(path);
	return rc;
}

/* Numbers below k that no expert has. */
static json_t *absent(const int64_t *number, int64_t n, int64_t k)
{
	json_t *list = json_array();

	for (int64_t c = 0, i = 0; c < k; c++) {
		while (i < n && number[i] < c)
			i++;
		if (i == n || number[i] != c)
			json_array_append_new(list, json_integer(c));
	}
	return list;
}

static int number_cmp(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Numbers of the experts, sorted, in new memory; *router: whether there is one. */
static int64_t *survey(const char *dir, int64_t *n, int *router, struct err *e)
{
	int64_t *number;
	char **names;
	size_t count;

	*n = *router = 0;
	if (dir_list(dir, &names, &count, e))
		return NULL;
	number = mem_zalloc(count + 1, sizeof *number);
	for (size_t i = 0; i < count; i++) {
		int k = ensemble_number(names[i]);

		*router |= !strcmp(names[i], "router");
		if (k >= 0)
			number[(*n)++] = k;
	}
	names_free(names, count);
	qsort(number, (size_t)*n, sizeof *number, number_cmp);
	return number;
}

static void model_facts(json_t *o, const struct agreement *a, json_t *rows, json_t *missing)
{
	int64_t picture[3] = {a->net.channels, a->net.size, a->net.size};
	json_t *row;
	size_t i;

	set_i64(o, "k", a->k);
	if (json_array_size(missing))
		json_object_set(o, "absent", missing);
	if (*a->first) {
		json_object_set_new(o, "picture", facts_shape(3, picture));
		if (a->net.classes)
			set_i64(o, "classes", a->net.classes);
		copy(o, "class_names", a->together.class_names);
	}
	if (a->same_data && *a->data) {
		set_text(o, "data", a->data);
		json_array_foreach(rows, i, row)
			json_object_del(row, "data");
	}
	json_object_set(o, "networks", rows);
}

int facts_model(json_t *o, const char *dir, const struct facts_options *f, struct err *e)
{
	struct agreement a = {.same_data = 1};
	json_t *rows, *list, *missing;
	int64_t n, *number;
	int rc = 0, router;

	number = survey(dir, &n, &router, e);
	if (!number)
		return -1;
	rows = json_array();
	list = json_array();
	a.highest = n ? number[n - 1] : -1;
	a.k = a.highest + 1;
	for (int64_t i = 0; i < n + router; i++) {
		char *name = i < n ? str_new("expert_%" PRId64, number[i]) : mem_strdup("router");

		if (member_facts(rows, list, &a, dir, name, f, rc ? NULL : e))
			rc = -1;
		mem_free(name);
	}
	missing = absent(number, n, a.k < ABSENT_MOST ? a.k : ABSENT_MOST);
	set_i64(o, "experts", n);
	json_object_set_new(o, "router", json_boolean(router));
	model_facts(o, &a, rows, missing);
	json_object_set_new(o, "agree", json_boolean(!rc));
	if (f->full)
		json_object_set(o, "list", list);
	membership_release(&a.together);
	json_decref(missing);
	json_decref(rows);
	json_decref(list);
	mem_free(number);
	return rc;
}
