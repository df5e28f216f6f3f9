/* Opens a weaker model as a guide and checks that it predicts the same thing as the guided model. */
#include "diffusion/ensembleguide.h"

#include <string.h>

#include "core/mem.h"
#include "diffusion/ensembleimpl.h"
#include "diffusion/layout.h"

static int same_number(const char *what, int64_t guide, int64_t guided, struct err *e)
{
	return guide == guided ? 0
	                       : err_set(e, ERR_USAGE, "the guide's %s is %lld, and the model's is %lld", what, (long long)guide, (long long)guided);
}

static int check_condition(const struct ensemble *g, const struct ensemble *s, struct err *e)
{
	if (same_number("number of channels", g->channels, s->channels, e) || same_number("size of samples", g->size, s->size, e) ||
	    same_number("number of frames", g->frames, s->frames, e) || same_number("number of classes", g->classes, s->classes, e) ||
	    same_number("length of texts", g->text_tokens, s->text_tokens, e) ||
	    same_number("width of text features", g->text_width, s->text_width, e) ||
	    (g->pooled_width && same_number("width of pooled vectors", g->pooled_width, s->pooled_width, e)))
		return -1;
	if (g->classes && (g->told_cluster != s->told_cluster || (g->class_names && s->class_names && !json_equal(g->class_names, s->class_names))))
		return err_set(e, ERR_USAGE, "the guide's classes mean something else than the model's");
	if (s->text_tokens && g->lower != s->lower)
		return err_set(e, ERR_USAGE, "one of the guide and the model was trained on lower-case texts and the other was not");
	return 0;
}

/* The times that expert k is for; zeroed: all times. */
static struct time_range range_of(const struct ensemble *s, int k)
{
	return s->owners.expert ? s->owners.expert[k].range : (struct time_range){0};
}

/* Expert k of the model s, and its guide. */
static int check_times(const struct ensemble_guide *g, const struct ensemble *s, int k, struct err *e)
{
	int by = g->single ? 0 : k;
	struct time_range guide = range_of(&g->model, by), guided = range_of(s, k);
	int same = guide.from == guided.from && guide.to == guided.to;

	if (g->single && guide.to == 0)
		return 0;
	if (same && guide.to > 0) {
		same = !strcmp(g->model.member[by].path->name, s->member[k].path->name);
		same &= g->single || g->model.owners.expert[by].cluster == s->owners.expert[k].cluster;
	}
	return same ? 0 : err_set(e, ERR_USAGE, "the guide of expert %d is for another part of the times or another cluster than the expert", k);
}

static int check_experts(const struct ensemble_guide *g, const struct ensemble *s, struct err *e)
{
	const struct ensemble *m = &g->model;
	int by_cluster = !g->single || s->told_cluster;

	if (!g->single && same_number("number of clusters", m->clusters, s->clusters, e))
		return -1;
	if (by_cluster && *m->partition && *s->partition && strcmp(m->partition, s->partition) != 0)
		return err_set(e, ERR_USAGE, "the guide was trained on another partition of the data than the model");
	for (int k = 0; k < s->k; k++) {
		if (!s->expert[k].velocity)
			continue;
		if (!g->single && (k >= m->k || !m->expert[k].velocity))
			return err_set(e, ERR_USAGE, "the guide has no expert %d, which the model has", k);
		if (check_times(g, s, k, e))
			return -1;
	}
	return 0;
}

/* Without conversion to velocities, predictions can be compared only on one path and of one kind. */
static int check_path(const struct ensemble *g, const struct ensemble *s, struct err *e)
{
	if (!s->schedule || (ensemble_same_schedule(g->schedule, s->schedule) && g->kind == s->kind && g->out == s->out))
		return 0;
	return err_set(e, ERR_USAGE, "the guide's path or prediction differs from the model's: this needs a flow solver, such as euler");
}

/* Whether the folder itself holds a network. */
static int is_single(const char *dir, int *single, struct err *e)
{
	struct layout l = {0};
	int rc = layout_survey(&l, dir, e);

	*single = !rc && l.lone;
	layout_release(&l);
	return rc;
}

/* Experts that the guided model's policy may select, without a router. */
static struct policy policy_without_router(const struct policy *p)
{
	struct policy q = *p;

	for (int i = 0; i < q.entries; i++) {
		q.entry[i].weights = WEIGHT_UNIFORM;
		if (q.entry[i].select != SELECT_EXPERT)
			q.entry[i].select = SELECT_FULL;
	}
	return q;
}

int ensemble_guide_open(struct ensemble_guide *g, struct ensemble *guided, const char *dir, const struct ensemble_options *o, struct err *e)
{
	struct ensemble_options own = *o;

	memset(g, 0, sizeof *g);
	if (is_single(dir, &g->single, e))
		return -1;
	own.policy = g->single ? policy_of("expert:0") : policy_without_router(&o->policy);
	if (ensemble_open(&g->model, dir, &own, e) || check_condition(&g->model, guided, e) || check_experts(g, guided, e) ||
	    check_path(&g->model, guided, e))
		return -1;
	g->expert = mem_zalloc((size_t)guided->k, sizeof *g->expert);
	for (int k = 0; k < guided->k; k++)
		if (guided->expert[k].velocity)
			g->expert[k] = g->model.expert[g->single ? 0 : k];
	g->model.beside = guided;
	guided->beside = &g->model;
	return 0;
}

void ensemble_guide_order(void *arg, const int *expert, int n)
{
	struct ensemble_guide *g = arg;

	ensemble_order(&g->model, g->single ? &(int){0} : expert, g->single && n ? 1 : n);
}

void ensemble_guide_release(struct ensemble_guide *g)
{
	if (g->expert)
		g->model.beside->beside = NULL;
	ensemble_release(&g->model);
	mem_free(g->expert);
	memset(g, 0, sizeof *g);
}
