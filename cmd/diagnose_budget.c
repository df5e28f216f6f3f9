/* ddm-diagnose budget: splits the error of an ensemble's velocity into the error of its experts and the error of its weights. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "cmd/diagnose.h"
#include "cmd/diagnose_reference.h"
#include "cmd/diagnose_table.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/str.h"
#include "diffusion/budget.h"
#include "diffusion/ensemble.h"
#include "file/claim.h"
#include "file/commit.h"

static const struct diagnose_request *const ask = &diagnose_request;
static const char TIMES[] = ".05,.1,.2,.3,.4,.5,.6,.7,.8,.9,.95,1";

/* The state of a run. Zero-initialised is empty. */
struct run {
	struct words names; /* names of the routes */
	struct budget_route *route;
	double time[DIAGNOSE_TIMES];
	int times;
	struct pool *pool;
	struct device *device;
	struct ensemble ensemble;
	struct diagnose_reference reference;
	struct diagnose_reference_options from;
	struct budget_plan plan;
	struct budget *budget;
	json_t *rows, *routing; /* rows of the table of errors; of the table on the router */
	/* one batch */
	double given_time;            /* its time as given in --timesteps */
	float t;                      /* the same as the input of networks */
	int64_t at;                   /* index of its first state */
	float *x0, *eps, *x, *target; /* (batch, d) */
	int32_t *cluster;             /* (batch) */
	int64_t *index;               /* (batch) indices of the states */
};

static int check_unconditional(const struct run *r, const char *model, struct err *e)
{
	if (r->ensemble.text_tokens)
		return err_set(e, ERR_USAGE, "%s: reads text, but the optimum is computed without texts", model);
	return 0;
}

/* All routes that the model has the parts for. */
static void default_routes(struct run *r)
{
	const struct ensemble *s = &r->ensemble;
	struct str text = {0};
	int all = 1;

	for (int k = 0; k < s->k; k++)
		all &= s->expert[k].velocity != NULL;
	str_puts(&text, "optimum");
	if (s->k > 1 && s->router.logits)
		str_puts(&text, ",full,top-1,top-2");
	if (s->k > 1 && !r->reference.whole)
		str_printf(&text, ",exact:full,exact:top-1,exact:top-2%s", all ? ",oracle" : "");
	for (int k = 0; k < s->k; k++)
		if (s->expert[k].velocity)
			str_printf(&text, ",expert:%d", k);
	words_cut(&r->names, str_text(&text));
	str_release(&text);
}

static int parse_routes(struct run *r, struct err *e)
{
	if (ask->routes)
		words_cut_routes(&r->names, ask->routes);
	else
		default_routes(r);
	r->route = mem_zalloc((size_t)r->names.n, sizeof *r->route);
	for (int i = 0; i < r->names.n; i++)
		if (budget_route_parse(r->names.v[i], &r->route[i], e))
			return err_prefix(e, "--routes");
	return 0;
}

/* Options that a law gives no use. */
static int check_law_options(const struct run *r, const char *law, struct err *e)
{
	if (r->reference.g && (ask->split_given || ask->no_verify))
		return err_set(e, ERR_USAGE, "%s does nothing with a law, %s: its states are new samples",
		               ask->split_given ? "--split" : "--no-verify", law);
	return 0;
}

static int check_routing(const struct run *r, struct err *e)
{
	if (ask->routing && r->reference.whole && r->ensemble.k > 1)
		return err_set(e, ERR_USAGE, "--routing: the router's clusters are not the components of the law, so its posterior is not known");
	return 0;
}

/* Prepare the budget and the buffers of a batch. */
static int prepare(struct run *r, struct err *e)
{
	const struct ensemble *s = &r->ensemble;
	size_t n = (size_t)ask->batch, d = (size_t)s->d;

	if (s->classes && !s->null_label)
		return err_set(e, ERR_USAGE, "the model was trained without the null label, but the optimum is computed without classes");
	r->plan = (struct budget_plan){.k = s->k,
	                               .d = s->d,
	                               .expert = s->expert,
	                               .router = s->router.logits ? &s->router : NULL,
	                               .reference = r->reference.law,
	                               .whole = r->reference.whole,
	                               .route = r->route,
	                               .routes = r->names.n,
	                               .seed = ask->seed,
	                               .pool = r->pool,
	                               .device = r->device};
	if (!(r->budget = budget_new(&r->plan, ask->batch, e)))
		return -1;
	if (!(r->x0 = mem_try(n * d, sizeof *r->x0, "samples", e)) || !(r->eps = mem_try(n * d, sizeof *r->eps, "noise", e)) ||
	    !(r->x = mem_try(n * d, sizeof *r->x, "states", e)) || !(r->target = mem_try(n * d, sizeof *r->target, "targets", e)))
		return -1;
	r->cluster = mem_zalloc(n, sizeof *r->cluster);
	r->index = mem_zalloc(n, sizeof *r->index);
	r->rows = json_array();
	r->routing = json_array();
	return 0;
}

/* Whether the clusters of the states are those of the model's experts. */
static int rows_by_cluster(const struct run *r)
{
	return r->ensemble.k > 1 && !r->reference.whole;
}

static void make_state(void *arg, int64_t i, int worker)
{
	struct run *r = arg;
	uint64_t index = (uint64_t)(r->at + i);
	int64_t d = r->plan.d, at = i * d;
	int own = diagnose_reference_state(&r->reference, ask->seed, index, r->t, d, r->x0 + at, r->eps + at, r->x + at, r->target + at);

	(void)worker;
	r->cluster[i] = rows_by_cluster(r) ? own : 0;
	r->index[i] = (int64_t)index;
}

/* The columns that only a law has, whose states are new: there the loss above the smallest possible one estimates total, with more noise. */
static void put_excess(json_t *o, const struct budget_sum *s)
{
	double n = (double)s->n;

	json_object_set_new(o, "total_error", jsonio_real(budget_error(s->total, s->total_squares, s->n)));
	json_object_set_new(o, "minimum", jsonio_real(s->least / n));
	json_object_set_new(o, "excess", jsonio_real((s->loss - s->least) / n));
	json_object_set_new(o, "excess_error", jsonio_real(budget_error(s->loss - s->least, s->excess_squares, s->n)));
}

/* Append a row of means for a route and a cluster, unless there are no states. */
static void put_row(json_t *rows, const struct run *r, int route, int cluster)
{
	int K = r->ensemble.k;
	double *w = mem_alloc((size_t)K * sizeof *w), n;
	struct budget_sum s = budget_sum(r->budget, route, cluster, w);
	json_t *o;

	n = (double)s.n;
	if (s.n) {
		o = json_object();
		json_object_set_new(o, "t", json_real(r->given_time));
		json_object_set_new(o, "route", json_string(r->names.v[route]));
		json_object_set_new(o, "cluster", cluster == LAW_ALL ? json_string("all") : json_integer(cluster));
		json_object_set_new(o, "n", json_integer(s.n));
		json_object_set_new(o, "relative", jsonio_real(s.total / s.flow));
		json_object_set_new(o, "total", jsonio_real(s.total / n));
		json_object_set_new(o, "expert", jsonio_real(s.expert / n));
		json_object_set_new(o, "router", jsonio_real(s.router / n));
		json_object_set_new(o, "cross", jsonio_real(s.cross / n));
		json_object_set_new(o, "loss", jsonio_real(s.loss / n));
		json_object_set_new(o, "flow", jsonio_real(s.flow / n));
		if (r->reference.g)
			put_excess(o, &s);
		for (int k = 0; k < K; k++) {
			char name[24];

			snprintf(name, sizeof name, "w%d", k);
			json_object_set_new(o, name, jsonio_real(w[k] / n));
		}
		json_array_append_new(rows, o);
	}
	mem_free(w);
}

/* Append a row on the quality of the router, or of the exact router. */
static void put_routing(json_t *rows, const struct run *r, int exact)
{
	struct budget_routing y = budget_routing(r->budget, exact);
	double n = (double)y.n;
	json_t *o;

	if (!y.n)
		return;
	o = json_object();
	json_object_set_new(o, "t", json_real(r->given_time));
	json_object_set_new(o, "router", json_string(exact ? "exact" : "model"));
	json_object_set_new(o, "n", json_integer(y.n));
	json_object_set_new(o, "accuracy", jsonio_real((double)y.right / n));
	json_object_set_new(o, "cross_entropy", jsonio_real(y.cross_entropy / n));
	json_object_set_new(o, "divergence", jsonio_real(y.divergence / n));
	json_object_set_new(o, "ece", jsonio_real(budget_calibration(&y)));
	json_object_set_new(o, "entropy", jsonio_real(y.entropy / n));
	json_array_append_new(rows, o);
}

static int measure(struct run *r, struct err *e)
{
	struct progress show = cmd_progress();

	for (int i = 0; i < r->times; i++) {
		r->given_time = r->time[i];
		r->t = (float)r->given_time;
		budget_clear(r->budget);
		for (r->at = 0; r->at < ask->count; r->at += ask->batch) {
			int64_t n = ask->count - r->at < ask->batch ? ask->count - r->at : ask->batch;

			if (progress_tell(&show, "states", i * ask->count + r->at, r->times * ask->count))
				return err_set(e, ERR_AGAIN, "interrupted");
			pool_run(r->pool, n, make_state, r);
			if (budget_add(r->budget, r->t, n, r->x, r->target, r->cluster, r->index, e))
				return -1;
		}
		for (int k = 0; k < r->names.n; k++)
			for (int c = LAW_ALL; c < (rows_by_cluster(r) ? r->ensemble.k : 0); c++)
				put_row(r->rows, r, k, c);
		if (!r->reference.whole || r->ensemble.k == 1) {
			put_routing(r->routing, r, 0);
			put_routing(r->routing, r, 1);
		}
	}
	progress_tell(&show, "states", r->times * ask->count, r->times * ask->count);
	return 0;
}

static struct stamp *make_stamp(const struct run *r)
{
	struct stamp *s = stamp_new("ddm-diagnose");

	stamp_text(s, "diagnosis", "budget");
	stamp_json(s, "routes", words_list(&r->names));
	stamp_json(s, "times", diagnose_time_list(r->time, r->times));
	stamp_i64(s, "n", ask->count);
	if (!r->reference.g)
		stamp_text(s, "split", diagnose_splits[ask->split]);
	stamp_u64(s, "seed", ask->seed);
	diagnose_reference_stamp(&r->reference, s);
	diagnose_stamp_model(s, &r->ensemble);
	return s;
}

/* Make all outputs, unless they exist. The table is written last, so if it exists, the other outputs exist too. */
static int work(struct run *r, const char *model, const char *shards, struct err *e)
{
	struct ensemble_options o = {.policy = policy_of("full"), .mode = CONVERT_MATCH, .capacity = ask->batch, .device = r->device};
	struct stamp *stamp = NULL;
	int rc = -1;

	r->from = (struct diagnose_reference_options){.holdout = ask->split, .verify = !ask->no_verify, .pool = r->pool};
	if (diagnose_times(r->time, &r->times, ask->times ? ask->times : TIMES, e) || diagnose_reference_find(&r->reference, shards, &r->from, e) ||
	    check_law_options(r, shards, e))
		return -1;
	if (ensemble_open(&r->ensemble, model, &o, e))
		return err_lacking(e, NULL);
	if (r->ensemble.owners.expert)
		return err_set(e, ERR_USAGE, "%s: its experts are for parts of the times, and the budget needs experts of all times", model);
	if (claim_take((const char *const[]){ask->out, ask->routing, ask->json}, 3, e) || check_unconditional(r, model, e) ||
	    diagnose_reference_match(&r->reference, shards, &r->ensemble, e) || check_routing(r, e) || parse_routes(r, e))
		return -1;
	stamp = make_stamp(r);
	rc = diagnose_finished(ask->out, ask->routing, ask->json, stamp, e);
	if (rc > 0)
		cmd_say("%s: complete, nothing to do", ask->out);
	if (!rc)
		rc = diagnose_reference_load(&r->reference, shards, &r->ensemble, &r->from, e) || prepare(r, e) || measure(r, e) ||
		     diagnose_json(ask->json, r->rows, "routing", r->routing, stamp, e) ||
		     (ask->routing && diagnose_table(ask->routing, r->routing, stamp, e)) || diagnose_table(ask->out, r->rows, stamp, e);
	if (!rc && r->reference.whole && r->ensemble.k > 1)
		cmd_say("the model's clusters are not the components of %s: each expert is compared with the optimum of the whole law", shards);
	stamp_free(stamp);
	return rc ? -1 : 0;
}

static void run_release(struct run *r)
{
	budget_free(r->budget);
	ensemble_release(&r->ensemble);
	device_free(r->device);
	diagnose_reference_release(&r->reference);
	json_decref(r->rows);
	json_decref(r->routing);
	words_release(&r->names);
	mem_free(r->route);
	mem_free(r->x0);
	mem_free(r->eps);
	mem_free(r->x);
	mem_free(r->target);
	mem_free(r->cluster);
	mem_free(r->index);
	pool_free(r->pool);
}

static void budget(int n, char **operand, struct err *e)
{
	static struct run r;

	(void)n;
	if ((r.pool = pool_new((int)ask->threads, e)) && (r.device = open_device(ask->device, r.pool, e)))
		work(&r, operand[0], operand[1], e);
	run_release(&r);
}

const struct diagnosis diagnose_budget = {"budget", "MODEL and SHARDS or LAW", 2, 2, 500, budget};
