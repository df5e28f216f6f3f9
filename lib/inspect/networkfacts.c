/* Collects facts about single networks, trainings, checkpoints, and pipelines of other projects. */
#include "inspect/modelfacts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "diffusion/path.h"
#include "file/fileio.h"
#include "file/runlock.h"
#include "file/weightfile.h"
#include "net/model.h"
#include "train/state.h"
#include "train/trainlog.h"

/* Adds the shape and cost of the network. */
static void net_facts(json_t *o, const struct net_config *n, struct params *p)
{
	double flops = net_measure(n, p);
	struct net_value v;

	for (int i = 0; net_shape(n, i, &v); i++)
		if (*v.text)
			facts_text(o, v.name, v.text);
		else if (v.whole)
			facts_i64(o, v.name, v.i);
	if (n->first_frame)
		json_object_set_new(o, "first_frame_dropout", json_real(n->frame_dropout));
	if (n->classes) {
		facts_i64(o, "classes", n->classes);
		json_object_set_new(o, "class_dropout", json_real(n->class_dropout));
	}
	if (n->dropout > 0)
		json_object_set_new(o, "dropout", json_real(n->dropout));
	facts_i64(o, "parameters", params_count(p, 0));
	json_object_set_new(o, "gflop_per_image", json_real(flops * 1e-9));
}

static void config_facts(json_t *o, const struct model_config *c, struct params *p)
{
	const struct net_config *n = &c->net;
	int64_t shape[4];
	char range[TIME_RANGE_TEXT];

	facts_text(o, "network", net_title(n));
	if (!net_is_classifier(n))
		facts_text(o, "prediction", c->prediction);
	facts_text(o, "path", c->path);
	if (c->sigma_data)
		json_object_set_new(o, "sigma_data", json_real(c->sigma_data));
	if (c->range.to > 0)
		facts_text(o, "time_range", time_range_text(c->range, range));
	if (!net_is_classifier(n))
		json_object_set_new(o, "cluster", c->cluster >= 0 ? json_integer(c->cluster) : json_string("all"));
	if (c->clusters)
		facts_i64(o, "k", c->clusters);
	json_object_set_new(o, "picture", facts_shape(net_sample_shape(n, shape), shape));
	if (!net_is_exact(n))
		net_facts(o, n, p);
}

/* Parse config.json into *c and add its facts to o. *p receives the network's parameters; it stays empty for an exact network. dir: the folder of the
 * config, or NULL. */
static int take_config(json_t *o, const json_t *config, const char *dir, struct model_config *c, struct params *p, const char *where, struct err *e)
{
	const json_t *training = json_object_get(config, "training");

	if (model_config_parse(config, where, c, e) || (dir && model_config_schedule(dir, config, c, e)))
		return -1;
	config_facts(o, c, p);
	facts_copy(o, "condition", json_object_get(config, "condition"));
	facts_copy(o, "data", json_object_get(json_object_get(training, "inputs"), "shards"));
	facts_copy(o, "cluster_sizes", json_object_get(config, "cluster_sizes"));
	facts_copy(o, "cluster_shares", json_object_get(config, "cluster_shares"));
	facts_copy(o, "cluster_name", c->cluster >= 0 ? json_array_get(c->cluster_names, (size_t)c->cluster) : NULL);
	facts_copy(o, "cluster_names", net_is_classifier(&c->net) ? c->cluster_names : NULL);
	facts_copy(o, "class_names", c->class_names);
	facts_copy(o, "provenance", json_object_get(config, "provenance"));
	facts_copy(o, "stamp", training);
	if (!net_is_classifier(&c->net) && (prediction_find(c->prediction) < 0 || !(path_find(c->path) || betas_path(c->path))))
		return err_set(e, ERR_DATA, "%s: prediction \"%s\" on path \"%s\" is not supported", where, c->prediction, c->path);
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
		facts_i64(types, type, json_integer_value(json_object_get(types, type)) + 1);
	}
	facts_text(v, "file", base ? base + 1 : path);
	facts_i64(v, "bytes", bytes);
	json_object_set(v, "types", types);
	if (weightfile_meta(w, "step") && !parse_i64(weightfile_meta(w, "step"), 0, INT64_MAX, &step))
		facts_i64(v, "step", step);
	json_object_set(o, "weights", v);
	if (!exact) {
		const struct safetensors *s = weightfile_tensors(w, e);

		rc = s ? model_match_weights(s, path, p, e) : -1;
	} else {
		rc = 0;
	}
	if (!rc && f->check && !(rc = weightfile_hash(w, hex, e))) {
		facts_text(v, "sha256", hex);
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
	facts_i64(o, "step", step);
	facts_text(o, "state", why->code ? "damaged" : "whole");
	facts_i64(o, "bytes", c.bytes);
	if (isfinite(c.best_loss)) {
		json_object_set_new(o, "best_loss", json_real(c.best_loss));
		facts_i64(o, "best_step", c.best_step);
	}
	if (why->code)
		facts_text(o, "why", why->msg);
	json_decref(c.stamp);
	return o;
}

/* List the checkpoints in dir. *whole: the step of the newest complete one, or -1. */
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
		rc = err_set(e, ERR_DATA, "%s: every checkpoint is damaged", dir);
	facts_copy(o, "stamp", stamp);
	json_decref(stamp);
	json_decref(training);
	mem_free(log);
	return rc;
}

int facts_checkpoint(json_t *o, const char *dir, const struct facts_options *f, struct err *e)
{
	struct checkpoint c;
	int rc = checkpoint_inspect(dir, f->check, &c, e);

	facts_i64(o, "step", c.step);
	facts_i64(o, "updates", c.updates);
	facts_i64(o, "files_bytes", c.bytes);
	if (isfinite(c.best_loss)) {
		json_object_set_new(o, "best_loss", json_real(c.best_loss));
		facts_i64(o, "best_step", c.best_step);
	}
	facts_text(o, "state", rc ? "damaged" : "whole");
	facts_copy(o, "stamp", c.stamp);
	json_decref(c.stamp);
	return rc;
}

/* Read config.json into *c. Returns 1; 0 if there is none; -1 on error. */
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
		facts_copy(o, "stamp", stamp);
	if (!json_object_get(o, "data"))
		facts_copy(o, "data", json_object_get(json_object_get(stamp, "inputs"), "shards"));
	json_object_del(training, "stamp");
	if (json_object_size(training))
		json_object_set(o, "training", training);
	if (runlock_holder(dir, who, sizeof who))
		facts_text(o, "running", who);
	if (!rc && path_exists(train))
		rc = checkpoints_facts(o, train, f, &whole, e);
	json_decref(training);
	mem_free(log);
	mem_free(train);
	return rc;
}

int facts_network_config(json_t *o, const char *dir, const struct facts_options *f, struct model_config *c, int *have, struct err *e)
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
			rc = err_set(e, ERR_NOINPUT, "%s: has config.json, but no %s", dir, model_weights_name(net_role(&c->net)));
		mem_free(weights);
	}
	params_release(&p);
	return training_facts(o, dir, f, rc ? NULL : e) || rc ? -1 : 0;
}

/* The class name of a network from diffusers or transformers that this library does not implement, or NULL. Caller frees with mem_free. */
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
		facts_text(o, "network", class);
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
	rc = facts_network_config(o, dir, f, &c, &have, e);

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

/* The "pipeline" and "parts" of model_index.json. Its members are [library, class], or [null, null] for a part that is left out. */
static void parts_facts(json_t *o, const json_t *index)
{
	json_t *parts = json_object(), *v;
	const char *key;

	facts_copy(o, "pipeline", json_object_get(index, "_class_name"));
	json_object_foreach ((json_t *)(uintptr_t)index, key, v)
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
