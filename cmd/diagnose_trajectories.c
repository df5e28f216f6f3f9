/* ddm-diagnose trajectories: how stable the trajectories of each routing policy are, and how well its choice of experts fits their states. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/diagnose.h"
#include "cmd/diagnose_reference.h"
#include "cmd/diagnose_table.h"
#include "cmd/opendevice.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "diffusion/alignment.h"
#include "diffusion/ensemble.h"
#include "diffusion/ensemblepull.h"
#include "diffusion/stability.h"
#include "file/claim.h"
#include "file/commit.h"
#include "sample/distance.h"

static const struct diagnose_request *const ask = &diagnose_request;

/* The state of a run. Zero-initialised is empty. */
struct run {
	struct words names;    /* of the routes */
	struct policy *policy; /* (names.n) */
	struct pool *pool;
	struct device *device;
	struct ensemble ensemble;
	struct puller *puller;
	const char *against; /* the second operand, SHARDS or a law; NULL: none */
	struct diagnose_reference reference;
	struct diagnose_reference_options from;
	struct distance distance; /* of --centroids */
	int64_t batch;
	json_t *rows, *experts; /* rows of the tables */
	/* the current route */
	struct mixture mixture;
	struct stability_plan plan;
	struct stability *stability;
	struct alignment_plan fit;
	struct alignment *alignment;
	/* a batch of noised samples */
	int64_t first;                   /* number of the first */
	float t, *x0, *eps, *x, *target; /* their time; (batch, d) */
	int32_t *cluster;                /* (batch) */
};

static int check_model(const struct run *r, const char *model, struct err *e)
{
	const struct ensemble *s = &r->ensemble;

	if (s->owners.expert)
		return err_set(e, ERR_USAGE, "%s: its experts are for parts of the times, and trajectories needs experts of all times", model);
	if (s->text_tokens)
		return err_set(e, ERR_USAGE, "%s: reads text, but trajectories are run without texts", model);
	if (s->classes && !s->null_label)
		return err_set(e, ERR_USAGE, "%s: was trained without the null label, but trajectories are run without classes", model);
	return ensemble_without_first(s, model, e);
}

/* All routes of a usual comparison that the model has the parts for. */
static void default_routes(struct run *r)
{
	const struct ensemble *s = &r->ensemble;
	struct str text = {0};

	if (s->k > 1 && s->router.logits)
		str_puts(&text, s->k > 2 ? "full,top-1,top-2," : "full,top-1,");
	if (s->k > 1 && s->shares)
		str_puts(&text, "prior,");
	str_puts(&text, s->k > 1 ? "uniform|full" : "expert:0");
	words_cut_routes(&r->names, str_text(&text));
	str_release(&text);
}

/* ERR_USAGE for policies that take something that trajectories do not have. */
static int check_policy(const char *name, const struct policy *p, struct err *e)
{
	if (policy_uses(p, WEIGHT_ORACLE))
		return err_set(e, ERR_USAGE, "--routes: %s: a trajectory from noise has no cluster of its own; prior draws one", name);
	if (policy_uses(p, WEIGHT_DISTANCE) && !ask->centroids)
		return err_set(e, ERR_USAGE, "--routes: %s: weights by distance need --centroids", name);
	if (policy_uses(p, WEIGHT_DENSITY))
		return err_set(e, ERR_USAGE, "--routes: %s: weights by density need steps with noise, and these follow the flow", name);
	for (int i = 0; i < p->entries; i++)
		if (p->entry[i].select == SELECT_BUDGET)
			return err_set(
			    e, ERR_USAGE,
			    "--routes: %s: budget:GFLOP is for a whole picture, so N and 4 N steps would use different experts; give another policy",
			    name);
	return 0;
}

static int parse_routes(struct run *r, struct err *e)
{
	if (ask->routes)
		words_cut_routes(&r->names, ask->routes);
	else
		default_routes(r);
	r->policy = mem_zalloc((size_t)r->names.n, sizeof *r->policy);
	for (int i = 0; i < r->names.n; i++) {
		if (policy_parse(r->names.v[i], &r->policy[i], e))
			return err_prefix(e, "--routes");
		if (check_policy(r->names.v[i], &r->policy[i], e))
			return -1;
		for (int k = 0; k < i; k++)
			if (!strcmp(r->names.v[k], r->names.v[i]))
				return err_set(e, ERR_USAGE, "--routes: %s is there twice", r->names.v[i]);
	}
	return 0;
}

/* Options that the second operand, or its absence, gives no use. */
static int check_options(const struct run *r, struct err *e)
{
	int law = r->reference.g != NULL, none = !r->against;
	const char *idle = ask->split_given && (none || law)                       ? "--split"
	                   : ask->no_verify && (none || law)                       ? "--no-verify"
	                   : ask->states_given && (none || (law && !ask->experts)) ? "--states"
	                   : ask->experts && none                                  ? "--experts"
	                                                                           : NULL;

	if (idle)
		return err_set(e, ERR_USAGE, "%s does nothing %s", idle,
		               none ? "without SHARDS or a law" : "with a law, whose states are new samples");
	return 0;
}

static int load_centroids(struct run *r, struct err *e)
{
	const struct ensemble *s = &r->ensemble;
	const struct distance_source from = {
	    .path = ask->centroids, .k = s->k, .channels = (int)s->channels, .side = (int)s->size, .device = r->device};

	return ask->centroids ? distance_load(&r->distance, &from, e) : 0;
}

/* ---- rows ---- */

static void put_number(json_t *o, const char *name, double v)
{
	json_object_set_new(o, name, jsonio_real(v));
}

/* The row of time i, or with i = steps that of whole trajectories. */
static void put_row(struct run *r, int route, int64_t i)
{
	struct stability_total all = stability_total(r->stability);
	int whole = i == ask->steps;
	json_t *o = json_object();

	json_object_set_new(o, "t", whole ? json_string("all") : json_real((double)(ask->steps - i) / (double)ask->steps));
	json_object_set_new(o, "route", json_string(r->names.v[route]));
	json_object_set_new(o, "n", json_integer(ask->count));
	for (int c = 0; c < STABILITY_COLUMNS; c++)
		put_number(o, stability_names[c], whole ? all.column[c] : stability_at(r->stability, (enum stability_column)c, i));
	put_number(o, "largest", whole ? all.largest[0] : NAN);
	put_number(o, "largest_frozen", whole ? all.largest[1] : NAN);
	put_number(o, "gap", whole ? all.gap : NAN);
	put_number(o, "path", whole ? all.path : NAN);
	for (int c = 0; c < ALIGNMENT_COLUMNS; c++)
		if (c < ALIGNMENT_RANK || (c == ALIGNMENT_RANK ? ask->centroids != NULL : r->against != NULL))
			put_number(o, alignment_names[c], alignment_at(r->alignment, (enum alignment_column)c, i));
	json_array_append_new(r->rows, o);
}

static void put_loss(struct run *r, int64_t i, int k)
{
	struct alignment_loss l = alignment_loss(r->alignment, i, k);
	json_t *o = json_object();

	json_object_set_new(o, "t", json_real((double)(ask->steps - i) / (double)ask->steps));
	json_object_set_new(o, "expert", json_integer(k));
	json_object_set_new(o, "n_in", json_integer(l.n[0]));
	put_number(o, "in", l.loss[0]);
	json_object_set_new(o, "n_out", json_integer(l.n[1]));
	put_number(o, "out", l.loss[1]);
	json_array_append_new(r->experts, o);
}

/* ---- noised samples ---- */

static void make_state(void *arg, int64_t i, int worker)
{
	struct run *r = arg;
	int64_t d = r->ensemble.d, at = i * d;
	int own =
	    diagnose_reference_state(&r->reference, ask->seed, (uint64_t)(r->first + i), r->t, d, r->x0 + at, r->eps + at, r->x + at, r->target + at);

	(void)worker;
	r->cluster[i] = r->reference.whole || r->ensemble.k == 1 ? 0 : own;
}

/* Whether noised samples are measured for this route: for its errors, or, with the first route, for the losses of the experts. */
static int needs_states(const struct run *r, int route)
{
	return r->against && (!r->reference.g || (ask->experts && !route));
}

static int measure_states(struct run *r, struct err *e)
{
	for (int64_t i = 0; i < ask->steps; i++) {
		if (!stability_measures(r->stability, i))
			continue;
		r->t = (float)((double)(ask->steps - i) / (double)ask->steps);
		for (r->first = 0; r->first < ask->states; r->first += r->batch) {
			int64_t n = ask->states - r->first < r->batch ? ask->states - r->first : r->batch;

			pool_run(r->pool, n, make_state, r);
			if (alignment_states(r->alignment, stability_jacobian(r->stability), i, r->first, n, r->x, r->target, r->cluster, e))
				return -1;
		}
	}
	return 0;
}

static int measure_route(struct run *r, int route, struct progress *show, struct err *e)
{
	const struct ensemble *s = &r->ensemble;

	r->mixture = ensemble_mixture(s, &r->policy[route], ask->seed, r->device);
	r->mixture.distances = ask->centroids ? distance_squared : NULL;
	r->mixture.distances_arg = &r->distance;
	r->plan = (struct stability_plan){.mixture = &r->mixture,
	                                  .pull = {r->puller, puller_expert, puller_router},
	                                  .heun = ask->solver,
	                                  .steps = ask->steps,
	                                  .every = ask->every,
	                                  .count = ask->count,
	                                  .directions = (int)ask->directions,
	                                  .iteration = {ask->iterations, ask->tolerance, ask->seed},
	                                  .whole = 1};
	r->fit = (struct alignment_plan){.mixture = &r->mixture,
	                                 .steps = ask->steps,
	                                 .count = ask->count,
	                                 .states = needs_states(r, route) ? ask->states : 0,
	                                 .optimum = r->reference.g ? r->reference.law : NULL};
	if (!(r->stability = stability_new(&r->plan, r->batch, e)) || !(r->alignment = alignment_new(&r->fit, r->batch, e)))
		return err_prefix(e, "--routes: %s", r->names.v[route]);
	for (int64_t i = 0; i < ask->count; i += r->batch) {
		const struct trajectory *y;

		if (progress_tell(show, "trajectories", route * ask->count + i, r->names.n * ask->count))
			return err_set(e, ERR_AGAIN, "interrupted");
		y = stability_add(r->stability, i, ask->count - i < r->batch ? ask->count - i : r->batch, e);
		if (!y || alignment_add(r->alignment, r->stability, y, i, e))
			return -1;
	}
	if (r->fit.states && measure_states(r, e))
		return -1;
	for (int64_t i = 0; i <= ask->steps; i++)
		put_row(r, route, i);
	for (int64_t i = 0; i < ask->steps && ask->experts && !route; i++)
		for (int k = 0; k < s->k && stability_measures(r->stability, i); k++)
			if (s->expert[k].velocity)
				put_loss(r, i, k);
	alignment_free(r->alignment);
	stability_free(r->stability);
	r->alignment = NULL;
	r->stability = NULL;
	return 0;
}

static int measure(struct run *r, struct err *e)
{
	struct progress show = cmd_progress();
	size_t row = (size_t)(r->batch * r->ensemble.d);

	if (r->against && (!(r->x0 = mem_try(row, sizeof *r->x0, "samples", e)) || !(r->eps = mem_try(row, sizeof *r->eps, "noise", e)) ||
	                   !(r->x = mem_try(row, sizeof *r->x, "states", e)) || !(r->target = mem_try(row, sizeof *r->target, "targets", e))))
		return -1;
	r->cluster = mem_zalloc((size_t)r->batch, sizeof *r->cluster);
	if (!(r->puller = puller_new(&r->ensemble, r->batch, e)))
		return -1;
	r->rows = json_array();
	r->experts = json_array();
	for (int i = 0; i < r->names.n; i++)
		if (measure_route(r, i, &show, e))
			return -1;
	progress_tell(&show, "trajectories", r->names.n * ask->count, r->names.n * ask->count);
	return 0;
}

/* ---- outputs ---- */

static struct stamp *make_stamp(const struct run *r)
{
	struct stamp *s = stamp_new("ddm-diagnose");

	stamp_text(s, "diagnosis", "trajectories");
	stamp_json(s, "routes", words_list(&r->names));
	stamp_i64(s, "n", ask->count);
	stamp_i64(s, "steps", ask->steps);
	stamp_text(s, "solver", diagnose_solvers[ask->solver]);
	stamp_i64(s, "every", ask->every);
	stamp_i64(s, "directions", ask->directions);
	stamp_i64(s, "iterations", ask->iterations);
	stamp_f64(s, "tolerance", ask->tolerance);
	stamp_u64(s, "seed", ask->seed);
	if (r->against)
		diagnose_reference_stamp(&r->reference, s);
	if (r->against && !r->reference.g)
		stamp_text(s, "split", diagnose_splits[r->from.holdout]);
	if (r->against && (!r->reference.g || ask->experts))
		stamp_i64(s, "states", ask->states);
	if (ask->centroids)
		stamp_input(s, "centroids", r->distance.hash);
	diagnose_stamp_model(s, &r->ensemble);
	return s;
}

/* What the second operand is, before the model is opened. */
static int find_reference(struct run *r, struct err *e)
{
	r->from = (struct diagnose_reference_options){.holdout = !ask->split_given || ask->split, .verify = !ask->no_verify, .pool = r->pool};
	return (r->against && diagnose_reference_find(&r->reference, r->against, &r->from, e)) || check_options(r, e) ? -1 : 0;
}

static int match_reference(struct run *r, struct err *e)
{
	if (r->against && diagnose_reference_match(&r->reference, r->against, &r->ensemble, e))
		return -1;
	if (ask->experts && r->reference.whole && r->ensemble.k > 1)
		return err_set(e, ERR_USAGE, "--experts: the clusters of the model are not the components of %s", r->against);
	return 0;
}

static int load_reference(struct run *r, struct err *e)
{
	return r->against ? diagnose_reference_load(&r->reference, r->against, &r->ensemble, &r->from, e) : 0;
}

/* Make all outputs, unless they exist. The table is written last, so if it exists, the others exist too. */
static int work(struct run *r, const char *model, struct err *e)
{
	struct ensemble_options o = {.policy = policy_of("full"), .mode = CONVERT_MATCH, .device = r->device, .gradient = 1};
	struct stamp *stamp;
	int rc;

	r->batch = o.capacity = ask->batch < ask->count ? ask->batch : ask->count;
	if (find_reference(r, e))
		return -1;
	if (ensemble_open(&r->ensemble, model, &o, e))
		return err_lacking(e, NULL);
	if (claim_take((const char *const[]){ask->out, ask->experts, ask->json}, 3, e) || check_model(r, model, e) || parse_routes(r, e) ||
	    match_reference(r, e) || load_centroids(r, e))
		return -1;
	stamp = make_stamp(r);
	rc = diagnose_finished(ask->out, ask->experts, ask->json, stamp, e);
	if (rc > 0)
		cmd_say("%s: complete, nothing to do", ask->out);
	if (!rc)
		rc = load_reference(r, e) || measure(r, e) ||
		     diagnose_json(ask->json, r->rows, "experts", ask->experts ? r->experts : NULL, stamp, e) ||
		     (ask->experts && diagnose_table(ask->experts, r->experts, stamp, e)) || diagnose_table(ask->out, r->rows, stamp, e);
	stamp_free(stamp);
	return rc ? -1 : 0;
}

static void run_release(struct run *r)
{
	alignment_free(r->alignment);
	stability_free(r->stability);
	puller_free(r->puller);
	ensemble_release(&r->ensemble);
	device_free(r->device);
	diagnose_reference_release(&r->reference);
	distance_release(&r->distance);
	json_decref(r->rows);
	json_decref(r->experts);
	words_release(&r->names);
	mem_free(r->policy);
	mem_free(r->x0);
	mem_free(r->eps);
	mem_free(r->x);
	mem_free(r->target);
	mem_free(r->cluster);
	pool_free(r->pool);
}

static void trajectories(int n, char **operand, struct err *e)
{
	static struct run r;

	r.against = n > 1 ? operand[1] : NULL;
	if ((r.pool = pool_new((int)ask->threads, e)) && (r.device = open_device(ask->device, r.pool, e)))
		work(&r, operand[0], e);
	run_release(&r);
}

const struct diagnosis diagnose_trajectories = {"trajectories", "MODEL, and SHARDS or LAW if errors are wanted", 1, 2, 16, trajectories};
