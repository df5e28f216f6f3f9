/* Collects facts about a folder of networks: the experts of an ensemble, their router and their learned uncertainties. */
#include "inspect/modelfacts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "diffusion/ensemble.h"
#include "diffusion/membership.h"
#include "file/fileio.h"
#include "net/model.h"
#include "train/state.h"

enum { ABSENT_MOST = 4096 };

struct agreement {
	char first[32]; /* name of the first network, with which the others are compared */
	struct net_config net;
	int64_t k, highest; /* highest: the highest number of an expert for all times; others need not have the number of a cluster */
	int timed;          /* some expert is for a part of the times */
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
	    differs(dir, name, "size", n->size, a->net.size, a->first, e) || differs(dir, name, "num_frames", n->frames, a->net.frames, a->first, e))
		return -1;
	if (!net_is_classifier(n) && !net_is_classifier(&a->net))
		return differs(dir, name, "classes", n->classes, a->net.classes, a->first, e);
	return 0;
}

/* A row of the table of networks. */
static json_t *row_of(const char *name, const json_t *v)
{
	static const char *const keys[] = {"cluster", "cluster_name", "prediction", "path",  "sigma_data", "time_range",
	                                   "patch",   "hidden",       "depth",      "heads", "parameters"};
	const json_t *training = json_object_get(v, "training");
	json_t *o = json_object();

	facts_text(o, "name", name);
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		facts_copy(o, keys[i], json_object_get(v, keys[i]));
	if (json_object_get(v, "weights"))
		facts_copy(o, "step", json_object_get(json_object_get(v, "weights"), "step"));
	else
		facts_copy(o, "step", json_object_get(training, "step"));
	facts_copy(o, "val_loss", json_object_get(training, "val_loss"));
	if (json_object_get(v, "running"))
		facts_text(o, "state", "running");
	else if (json_object_get(v, "weights"))
		facts_text(o, "state", "finished");
	else
		facts_copy(o, "state", json_object_get(training, "state"));
	facts_copy(o, "data", json_object_get(v, "data"));
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

/* Whether a network is what its name says: a router and an uncertainty are classifiers, an uncertainty one of a single number. */
static int check_role(const char *path, const char *name, const struct model_config *c, struct err *e)
{
	int own = ensemble_uncertainty_number(name) >= 0, router = !strcmp(name, "router");

	if (own && (!net_is_classifier(&c->net) || c->net.clusters != 1 || !*c->expert_weights))
		return err_set(e, ERR_DATA, "%s: is not the learned uncertainty of an expert", path);
	if (router && !net_is_classifier(&c->net))
		return err_set(e, ERR_DATA, "%s: is not a router", path);
	if (!own && !router && net_is_classifier(&c->net))
		return err_set(e, ERR_DATA, "%s: is a router, and an expert is expected", path);
	return 0;
}

/* Add one of the model's networks to the table `rows` and, with full, its facts to `list`. */
static int member_facts(json_t *rows, json_t *list, struct agreement *a, const char *dir, const char *name, const struct facts_options *f,
                        struct err *e)
{
	char *path = path_join(dir, name);
	struct model_config c = {0};
	json_t *v = json_object();
	int have = 0, rc = facts_network_config(v, path, f, &c, &have, e), own = ensemble_uncertainty_number(name) >= 0;

	json_array_append_new(rows, row_of(name, v));
	note_data(a, v);
	if (f->full) {
		json_object_set_new(v, "name", jsonio_text(name));
		json_array_append(list, v);
	}
	if (have && c.range.to > 0)
		a->timed = 1;
	else if (ensemble_number(name) > a->highest)
		a->highest = ensemble_number(name);
	if (!rc && have)
		rc = check_role(path, name, &c, e);
	if (!rc && have && !own)
		rc = membership_add(&a->together, dir, name, ensemble_number(name), &c, e);
	if (!rc && have && !strcmp(name, "router")) {
		if (c.net.clusters <= a->highest)
			rc = err_set(e, ERR_DATA, "%s: the router has %" PRId64 " clusters, but there is an expert_%" PRId64 " (numbered from 0)",
			             dir, c.net.clusters, a->highest);
		a->k = c.net.clusters;
	}
	if (!rc && have)
		rc = agree(a, dir, name, &c.net, e);
	if (have && !net_is_classifier(&c.net) && c.clusters > a->k && c.cluster >= 0)
		a->k = c.clusters;
	model_config_release(&c);
	json_decref(v);
	mem_free(path);
	return rc;
}

/* The numbers below k that no expert has; number (n) is sorted. */
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

/* What a model's folder holds. */
struct survey {
	int64_t *expert, *own; /* [n], [nown] the numbers of experts and of learned uncertainties, sorted */
	int64_t n, nown;
	int router; /* 1: there is one */
};

static int survey_read(struct survey *s, const char *dir, struct err *e)
{
	char **names;
	size_t count;

	if (dir_list(dir, &names, &count, e))
		return -1;
	s->expert = mem_zalloc(count + 1, sizeof *s->expert);
	s->own = mem_zalloc(count + 1, sizeof *s->own);
	for (size_t i = 0; i < count; i++) {
		int k = ensemble_number(names[i]), own = ensemble_uncertainty_number(names[i]);

		s->router |= !strcmp(names[i], "router");
		if (k >= 0)
			s->expert[s->n++] = k;
		if (own >= 0)
			s->own[s->nown++] = own;
	}
	names_free(names, count);
	qsort(s->expert, (size_t)s->n, sizeof *s->expert, number_cmp);
	qsort(s->own, (size_t)s->nown, sizeof *s->own, number_cmp);
	return 0;
}

/* The name of the network i: the experts come first, then the router, then the uncertainties. Caller frees with mem_free. */
static char *survey_name(const struct survey *s, int64_t i)
{
	if (i < s->n)
		return str_new("expert_%" PRId64, s->expert[i]);
	return i < s->n + s->router ? mem_strdup("router") : str_new(UNCERTAINTY_PREFIX "%" PRId64, s->own[i - s->n - s->router]);
}

static void model_facts(json_t *o, const struct agreement *a, json_t *rows, json_t *missing)
{
	int64_t shape[4];
	json_t *row;
	size_t i;

	facts_i64(o, "k", a->k);
	if (json_array_size(missing))
		json_object_set(o, "absent", missing);
	if (*a->first) {
		json_object_set_new(o, "picture", facts_shape(net_sample_shape(&a->net, shape), shape));
		if (a->net.classes)
			facts_i64(o, "classes", a->net.classes);
		facts_copy(o, "class_names", a->together.class_names);
	}
	if (a->same_data && *a->data) {
		facts_text(o, "data", a->data);
		json_array_foreach (rows, i, row)
			json_object_del(row, "data");
	}
	json_object_set(o, "networks", rows);
}

int facts_model(json_t *o, const char *dir, const struct facts_options *f, struct err *e)
{
	struct agreement a = {.same_data = 1};
	json_t *rows, *list, *missing;
	struct survey s = {0};
	int rc = 0;

	if (survey_read(&s, dir, e))
		return -1;
	rows = json_array();
	list = json_array();
	a.highest = -1;
	a.k = s.n ? s.expert[s.n - 1] + 1 : 0;
	for (int64_t i = 0; i < s.n + s.router + s.nown; i++) {
		char *name = survey_name(&s, i);

		if (member_facts(rows, list, &a, dir, name, f, rc ? NULL : e))
			rc = -1;
		mem_free(name);
	}
	missing = absent(s.expert, s.n, a.timed ? 0 : a.k < ABSENT_MOST ? a.k : ABSENT_MOST);
	facts_i64(o, "experts", s.n);
	json_object_set_new(o, "router", json_boolean(s.router));
	if (s.nown)
		facts_i64(o, "uncertainties", s.nown);
	model_facts(o, &a, rows, missing);
	json_object_set_new(o, "agree", json_boolean(!rc));
	if (f->full)
		json_object_set(o, "list", list);
	membership_release(&a.together);
	json_decref(missing);
	json_decref(rows);
	json_decref(list);
	mem_free(s.expert);
	mem_free(s.own);
	return rc;
}
