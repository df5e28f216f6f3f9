/* Finds out which networks saw certain samples: directly, through the weights that they started from, or through the experts they learned from. */
#include "inspect/lineage.h"

#include <stdlib.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "diffusion/ensemble.h"
#include "file/fileio.h"
#include "file/kind.h"
#include "file/weightfile.h"
#include "train/trainlog.h"

const char *const lineage_saws[] = {"no", "validated", "trained", "unknown"};

static const char *input(const struct lineage_network *x, const char *role)
{
	return json_string_value(json_object_get(json_object_get(x->stamp, "inputs"), role));
}

static void set(struct lineage_network *x, enum lineage_saw saw, char *why)
{
	mem_free(x->why);
	x->saw = saw;
	x->why = why;
}

/* The stamp of the training: in config.json if it is finished, else in the log. */
static int read_stamp(struct lineage_network *x, struct err *e)
{
	char *config = path_join(x->dir, "config.json"), *log = path_join(x->dir, "train.jsonl");
	json_t *o = NULL;
	int rc = 0;

	if (path_exists(config)) {
		o = jsonio_load(config, e);
		rc = o ? 0 : -1;
		x->stamp = json_incref(json_object_get(o, "training"));
	} else if (path_exists(log)) {
		o = json_object();
		rc = trainlog_facts(o, log, 0, e);
		x->stamp = json_incref(json_object_get(o, "stamp"));
	}
	json_decref(o);
	mem_free(config);
	mem_free(log);
	return rc;
}

static int is_known(const struct lineage_samples *s, const char *sha)
{
	const json_t *v;
	size_t i;

	json_array_foreach (s->known, i, v)
		if (!strcmp(json_string_value(v), sha))
			return 1;
	return 0;
}

static int64_t sum(const int64_t *n, int k)
{
	int64_t all = 0;

	for (int i = 0; i < k; i++)
		all += n[i];
	return all;
}

/* What follows from the shards that it was trained on. */
static void judge(struct lineage_network *x, const struct lineage_samples *s)
{
	const json_t *cluster = json_object_get(x->stamp, "cluster");
	const char *data = input(x, "shards"), *pictures = input(x, "pictures"), *program = json_string_value(json_object_get(x->stamp, "program"));
	int router = program && !strcmp(program, "ddm-route-train"), own = ensemble_uncertainty_number(x->name);
	int64_t k = !router && json_is_integer(cluster) ? json_integer_value(cluster) : own;
	int64_t train, held;

	x->input = pictures && is_known(s, pictures) ? "pictures" : "shards";
	if (!data) {
		set(x, LINEAGE_UNKNOWN, mem_strdup("it does not record the shards of its training"));
		return;
	}
	if (!is_known(s, input(x, x->input))) {
		set(x, LINEAGE_UNKNOWN, str_new("it was trained on other shards, whose manifest has the hash %.16s", data));
		return;
	}
	if (k >= s->clusters)
		k = -1;
	train = k < 0 ? sum(s->train, s->clusters) : s->train[k];
	held = k < 0 ? sum(s->held, s->clusters) : s->held[k];
	if (train && k >= 0)
		set(x, LINEAGE_TRAINED, str_new("trained on cluster %lld, with %lld of the samples", (long long)k, (long long)train));
	else if (train)
		set(x, LINEAGE_TRAINED, mem_strdup("trained on all clusters"));
	else if (held && json_object_get(x->stamp, "validate_every"))
		set(x, LINEAGE_TRAINED, mem_strdup("its best step was chosen by the loss on the held-out part, which had them"));
	else if (held)
		set(x, LINEAGE_VALIDATED, mem_strdup("its loss on the held-out part was measured with them"));
	else
		set(x, LINEAGE_NOT, k < 0 ? mem_strdup("did not see them") : str_new("trained on cluster %lld, without them", (long long)k));
}

static int add(struct lineage *l, int model, const char *dir, const char *name, const struct lineage_samples *s, struct err *e)
{
	struct lineage_network *x;

	l->v = mem_resize(l->v, (size_t)l->n + 1, sizeof *l->v);
	x = &l->v[l->n++];
	*x = (struct lineage_network){.name = mem_strdup(name), .dir = mem_strdup(dir), .model = model};
	if (read_stamp(x, e))
		return -1;
	judge(x, s);
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const struct lineage_network *x = a, *y = b;
	int i = ensemble_number(x->name), j = ensemble_number(y->name);

	if (x->model != y->model)
		return x->model - y->model;
	return i < 0 && j < 0 ? strcmp(x->name, y->name) : i < 0 || j < 0 ? (i < 0) - (j < 0) : (i > j) - (i < j);
}

static int add_model(struct lineage *l, int model, const char *dir, const struct lineage_samples *s, struct err *e)
{
	enum kind kind;
	char **names;
	size_t n;
	int rc = 0;

	if (kind_of_folder(dir, &kind, e))
		return -1;
	if (kind == KIND_NETWORK)
		return add(l, model, dir, strrchr(dir, '/') && strrchr(dir, '/')[1] ? strrchr(dir, '/') + 1 : dir, s, e);
	if (dir_list(dir, &names, &n, e))
		return -1;
	for (size_t i = 0; i < n && !rc; i++) {
		char *path = path_join(dir, names[i]);

		if (ensemble_number(names[i]) >= 0 || ensemble_uncertainty_number(names[i]) >= 0 || !strcmp(names[i], "router"))
			rc = add(l, model, path, names[i], s, e);
		mem_free(path);
	}
	names_free(names, n);
	return rc;
}

static int hash_networks(struct lineage *l, struct err *e)
{
	for (int i = 0; i < l->n; i++) {
		struct err none = {0};
		char *path = weightfile_locate(l->v[i].dir, NULL, &none);
		int rc = path ? weightfile_hash_at(path, l->v[i].weights, e) : 0;

		mem_free(path);
		if (rc)
			return -1;
	}
	return 0;
}

/* Take over what the network with these weights saw. Returns 1 if that changes x. */
static int inherit(struct lineage *l, struct lineage_network *x, const char *hash, const char **path)
{
	for (int i = 0; i < l->n; i++) {
		const struct lineage_network *y = &l->v[i];

		if (y == x || strcmp(y->weights, hash))
			continue;
		*path = y->dir;
		if ((y->saw != LINEAGE_TRAINED && y->saw != LINEAGE_UNKNOWN) || x->saw == LINEAGE_TRAINED || x->saw == y->saw)
			return 0;
		set(x, y->saw,
		    y->saw == LINEAGE_TRAINED ? str_new("it started from the weights of %s, which saw them", y->dir)
		                              : str_new("it started from the weights of %s, and whether these saw them is unknown", y->dir));
		return 1;
	}
	if (x->saw != LINEAGE_TRAINED && x->saw != LINEAGE_UNKNOWN) {
		set(x, LINEAGE_UNKNOWN, str_new("it started from weights with the hash %.16s, which are in no --model", hash));
		return 1;
	}
	return 0;
}

/* A router that learned from the errors of experts depends on what these saw, and a learned uncertainty on what its own expert saw. */
static int learn(struct lineage *l, struct lineage_network *x)
{
	int own = ensemble_uncertainty_number(x->name);

	for (int i = 0; i < l->n; i++) {
		int k = ensemble_number(l->v[i].name);

		if (l->v[i].saw == LINEAGE_TRAINED && k >= 0 && (own < 0 || k == own) && x->saw != LINEAGE_TRAINED) {
			set(x, LINEAGE_TRAINED, str_new("it learned from the errors of experts, of which %s saw them", l->v[i].name));
			return 1;
		}
	}
	return 0;
}

static int follow(struct lineage *l, struct err *e)
{
	int starts = 0, changed;

	for (int i = 0; i < l->n; i++)
		starts |= input(&l->v[i], "init") || input(&l->v[i], "from");
	if (starts && hash_networks(l, e))
		return -1;
	do {
		changed = 0;
		for (int i = 0; i < l->n; i++) {
			struct lineage_network *x = &l->v[i];

			if (input(x, "init"))
				changed |= inherit(l, x, input(x, "init"), &x->init);
			if (input(x, "from"))
				changed |= inherit(l, x, input(x, "from"), &x->from);
			if (input(x, "experts"))
				changed |= learn(l, x);
		}
	} while (changed);
	return 0;
}

int lineage_check(const char *const *model, int n, struct err *e)
{
	for (int i = 0; i < n; i++) {
		enum kind kind;

		if (kind_of_folder(model[i], &kind, e))
			return -1;
		if (kind != KIND_MODEL && kind != KIND_NETWORK)
			return err_set(e, ERR_DATA, "%s: not a model: no expert and no router in this folder", model[i]);
	}
	return 0;
}

int lineage_find(struct lineage *l, const char *const *model, int n, const struct lineage_samples *s, struct err *e)
{
	*l = (struct lineage){0};
	for (int i = 0; i < n; i++)
		if (add_model(l, i, model[i], s, e))
			return -1;
	if (l->n)
		qsort(l->v, (size_t)l->n, sizeof *l->v, by_number);
	return follow(l, e);
}

void lineage_release(struct lineage *l)
{
	for (int i = 0; i < l->n; i++) {
		mem_free(l->v[i].name);
		mem_free(l->v[i].dir);
		mem_free(l->v[i].why);
		json_decref(l->v[i].stamp);
	}
	mem_free(l->v);
	*l = (struct lineage){0};
}
