/* ddm-diagnose budget: splits the error of an ensemble's velocity into the error of its experts and the error of its weights. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "cmd/diagnose.h"
#include "data/operand.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/str.h"
#include "data/dataset.h"
#include "data/gather.h"
#include "diffusion/budget.h"
#include "diffusion/ensemble.h"
#include "diffusion/finite.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/standing.h"
#include "file/tsv.h"

enum { TIMES_MOST = 1000 };

static int64_t count = 500, batch = 64, threads;
static uint64_t seed;
static int split, no_verify;
static const char *routes_text, *times_text = ".05,.1,.2,.3,.4,.5,.6,.7,.8,.9,.95,1", *routing_path, *json_path, *out_path = "-", *device = "auto";
static const char *const splits[] = {"train", "holdout", NULL};

static const struct option options[] = {
    OPTION_GROUP("What to measure"),
    {"--routes", 0, OPTION_TEXT, &routes_text, 0, 0, "LIST",
     "routes, with commas between: optimum, POLICY, exact:POLICY (default: all that the model has of optimum, "
     "full, top-1, top-2, exact:full, exact:top-1, exact:top-2, oracle, expert:I)",
     OPTION_ALWAYS},
    {"--timesteps", 0, OPTION_TEXT, &times_text, 0, 0, "LIST", "times from .001 to 1 (default .05,.1,.2, ..., .9,.95,1)", OPTION_ALWAYS,
     .was = "--times"},
    {"--count", 'n', OPTION_INT, &count, 1, 1e9, "N", "states at each time (default 500)", OPTION_ALWAYS},
    {"--split", 0, OPTION_CHOICE, &split, 0, 0, "PART", "part of SHARDS from whose samples states are made (default train)", splits, OPTION_ALWAYS},
    {"--seed", 0, OPTION_U64, &seed, 0, 0, "S", "seed of samples and noise (default 0)", OPTION_ALWAYS},
    OPTION_GROUP("Output and machine"),
    {"--routing", 0, OPTION_TEXT, &routing_path, 0, 0, "FILE", "write a table on the router: accuracy, cross-entropy, calibration", OPTION_ALWAYS},
    {"--json", 0, OPTION_TEXT, &json_path, 0, 0, "FILE", "write everything as JSON", OPTION_ALWAYS},
    {"--no-verify", 0, OPTION_FLAG, &no_verify, 0, 0, NULL, "do not check the shards' hashes first", OPTION_ALWAYS},
    {"--batch", 0, OPTION_INT, &batch, 1, 65536, "N", "states in a batch; changes no result (default 64)", OPTION_ALWAYS},
    {"--threads", 0, OPTION_INT, &threads, 0, 1024, "N", "threads; changes no result (default: all processors that it may use)", OPTION_ALWAYS},
    {"--device", 0, OPTION_TEXT, &device, 0, 0, "NAME", "auto, cpu, cuda or cuda:N: where networks compute (default auto)", OPTION_ALWAYS},
    {"--output", 'o', OPTION_TEXT, &out_path, 0, 0, "FILE", "write the table to FILE (default -, standard output)", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-diagnose",
    .operands = "budget MODEL SHARDS",
    .about = "Split the error of a model's velocity, against the optimum of its data, into the error of the experts and the error of their weights",
    .options = options,
};

/* The words of a list separated by commas. */
struct words {
	char **v;
	int n;
};

static void words_add(struct words *w, const char *text, size_t len)
{
	w->v = mem_resize(w->v, (size_t)w->n + 1, sizeof *w->v);
	w->v[w->n++] = str_new("%.*s", (int)len, text);
}

static void words_cut(struct words *w, const char *text)
{
	while (text) {
		size_t n = strcspn(text, ",");

		words_add(w, text, n);
		text = text[n] ? text + n + 1 : NULL;
	}
}

/* The routes of a list; the entries of a schedule stay together. */
static void cut_routes(struct words *w, const char *text)
{
	while (text) {
		size_t n = policy_span(text);

		words_add(w, text, n);
		text = text[n] ? text + n + 1 : NULL;
	}
}

static void words_release(struct words *w)
{
	for (int i = 0; i < w->n; i++)
		mem_free(w->v[i]);
	mem_free(w->v);
}

/* The state of a run. Zero-initialised is empty. */
struct run {
	struct words names; /* names of the routes */
	struct budget_route *route;
	double time[TIMES_MOST];
	int times;
	struct pool *pool;
	struct device *device;
	struct ensemble ensemble;
	struct manifest manifest;
	struct gathered reference, items; /* reference: the training part; items: the held-out part with --split holdout, else empty */
	int64_t first[2];                 /* bounds of the reference as one cluster (struct gathered) */
	struct law *finite;               /* the optimum of the reference */
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

static int parse_times(struct run *r, struct err *e)
{
	struct words w = {0};
	int rc = 0;

	words_cut(&w, times_text);
	if (w.n > TIMES_MOST)
		rc = err_set(e, ERR_USAGE, "--timesteps: %d times, more than the limit of %d", w.n, TIMES_MOST);
	for (int i = 0; i < w.n && !rc; i++)
		if (parse_f64(w.v[i], .001, 1, &r->time[r->times++]))
			rc = err_set(e, ERR_USAGE, "--timesteps: '%s' is not a time from .001 to 1", w.v[i]);
	words_release(&w);
	return rc;
}

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
	if (s->k > 1)
		str_printf(&text, "%s,exact:full,exact:top-1,exact:top-2%s", s->router.logits ? ",full,top-1,top-2" : "", all ? ",oracle" : "");
	for (int k = 0; k < s->k; k++)
		if (s->expert[k].velocity)
			str_printf(&text, ",expert:%d", k);
	words_cut(&r->names, str_text(&text));
	str_release(&text);
}

static int parse_routes(struct run *r, struct err *e)
{
	if (routes_text)
		cut_routes(&r->names, routes_text);
	else
		default_routes(r);
	r->route = mem_zalloc((size_t)r->names.n, sizeof *r->route);
	for (int i = 0; i < r->names.n; i++)
		if (budget_route_parse(r->names.v[i], &r->route[i], e))
			return err_prefix(e, "--routes");
	return 0;
}

/* Load the shards, and check that the model fits them. */
static int load_data(struct run *r, const char *shards, struct err *e)
{
	const struct ensemble *s = &r->ensemble;
	struct gather_options o = {
	    .cluster = DATASET_ALL, .part = SAMPLES_TRAIN, .size = (int)s->size, .channels = s->channels == 1, .verify = !no_verify, .pool = r->pool};
	struct gathered *g = &r->reference;

	if (gather(g, shards, &o, e))
		return -1;
	if (split) {
		o.part = SAMPLES_HOLDOUT;
		if (gather(&r->items, shards, &o, e))
			return -1;
	}
	if (g->channels != s->channels || g->size != s->size || (split && (r->items.d != g->d || r->items.bytes != g->bytes)))
		return err_set(e, ERR_DATA, "%s: samples of %lld x %lld x %lld, but the model is of %lld x %lld x %lld", shards,
		               (long long)g->channels, (long long)g->size, (long long)g->size, (long long)s->channels, (long long)s->size,
		               (long long)s->size);
	if (s->k != 1 && s->k != g->clusters)
		return err_set(e, ERR_DATA, "%s: %d clusters, but the model has %d", shards, g->clusters, s->k);
	for (int k = 0; s->shares && s->k == g->clusters && k < s->k; k++)
		if (s->shares[k] != (double)g->sizes[k]) {
			cmd_warn("%s: cluster %d has %lld samples, but the model was trained on %.0f: not its training data", shards, k,
			         (long long)g->sizes[k], s->shares[k]);
			break;
		}
	return 0;
}

/* Prepare the optimum, the budget and the buffers of a batch. A model with one expert is compared with all data as one cluster. */
static int prepare(struct run *r, struct err *e)
{
	const struct gathered *g = &r->reference;
	const struct ensemble *s = &r->ensemble;
	struct finite_set set = {g->n, g->d, g->sample, g->bytes, s->k, g->first, NULL};
	size_t n = (size_t)batch, d = (size_t)g->d;

	r->first[1] = g->n;
	if (s->k == 1)
		set.first = r->first;
	if (s->classes && !s->null_label)
		return err_set(e, ERR_USAGE, "the model was trained without the null label, but the optimum is computed without classes");
	if (!(r->finite = finite_new(&set, r->pool, e)))
		return -1;
	r->plan = (struct budget_plan){s->k, s->d,    s->expert, s->router.logits ? &s->router : NULL, r->finite, r->route, r->names.n,
	                               seed, r->pool, r->device};
	if (!(r->budget = budget_new(&r->plan, batch, e)))
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

/* Make state i of the batch. It depends only on the seed, the state's index and t: a keyed permutation picks the sample, and the noise is keyed by t
 * and the index. */
static void make_state(void *arg, int64_t i, int worker)
{
	struct run *r = arg;
	const struct gathered *g = split ? &r->items : &r->reference;
	uint64_t index = (uint64_t)(r->at + i), n = (uint64_t)g->n;
	int64_t pick = (int64_t)rng_permute(index % n, n, seed, RNG_METRIC, index / n), d = g->d;
	struct path_point p = path_at(&path_linear, r->t);
	uint32_t bits;

	(void)worker;
	memcpy(&bits, &r->t, sizeof bits);
	gathered_sample(g, pick, r->x0 + i * d);
	rng_normal(r->eps + i * d, (size_t)d, seed, RNG_METRIC, bits, index);
	path_noise(&p, r->x + i * d, r->x0 + i * d, r->eps + i * d, d);
	path_target(&p, PREDICT_VELOCITY, r->target + i * d, r->x0 + i * d, r->eps + i * d, d);
	r->cluster[i] = r->ensemble.k == 1 ? 0 : gathered_cluster(g, pick);
	r->index[i] = (int64_t)index;
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
		for (r->at = 0; r->at < count; r->at += batch) {
			int64_t n = count - r->at < batch ? count - r->at : batch;

			if (progress_tell(&show, "states", i * count + r->at, r->times * count))
				return err_set(e, ERR_AGAIN, "interrupted");
			pool_run(r->pool, n, make_state, r);
			if (budget_add(r->budget, r->t, n, r->x, r->target, r->cluster, r->index, e))
				return -1;
		}
		for (int k = 0; k < r->names.n; k++)
			for (int c = LAW_ALL; c < (r->ensemble.k > 1 ? r->ensemble.k : 0); c++)
				put_row(r->rows, r, k, c);
		put_routing(r->routing, r, 0);
		put_routing(r->routing, r, 1);
	}
	progress_tell(&show, "states", r->times * count, r->times * count);
	return 0;
}

static struct stamp *make_stamp(const struct run *r)
{
	struct stamp *s = stamp_new(program.name);
	json_t *names = json_array(), *times = json_array();

	for (int i = 0; i < r->names.n; i++)
		json_array_append_new(names, json_string(r->names.v[i]));
	for (int i = 0; i < r->times; i++)
		json_array_append_new(times, json_real(r->time[i]));
	stamp_text(s, "diagnosis", "budget");
	stamp_json(s, "routes", names);
	stamp_json(s, "times", times);
	stamp_i64(s, "n", count);
	stamp_text(s, "split", splits[split]);
	stamp_u64(s, "seed", seed);
	stamp_input(s, "shards", r->manifest.sha256);
	for (int i = 0; i < r->ensemble.files; i++)
		stamp_input(s, r->ensemble.file[i].name, r->ensemble.file[i].hash);
	return s;
}

/* Write rows as a table. All rows have the same keys, which become the columns. */
static int write_table(const char *path, const json_t *rows, const struct stamp *stamp, struct err *e)
{
	json_t *first = json_array_get(rows, 0), *row, *v;
	const char **names = mem_zalloc(json_object_size(first), sizeof *names), *key;
	struct tsv_writer *w;
	int n = 0, rc = 0;
	size_t i;

	json_object_foreach (first, key, v)
		names[n++] = key;
	w = tsv_create(path, names, n, stamp, e);
	json_array_foreach (rows, i, row) {
		json_object_foreach (row, key, v) {
			if (!w || rc)
				break;
			if (json_is_string(v))
				tsv_put(w, json_string_value(v));
			else if (json_is_integer(v))
				tsv_put_i64(w, json_integer_value(v));
			else
				tsv_put_f64(w, json_is_real(v) ? json_real_value(v) : NAN);
		}
		rc = w && !rc ? tsv_row(w, e) : -1;
	}
	mem_free(names);
	if (w && rc)
		tsv_abort(w);
	return w && !rc ? tsv_commit(w, e) : -1;
}

static int write_json(const struct run *r, const struct stamp *stamp, struct err *e)
{
	json_t *o = json_object();
	int rc;

	json_object_set(o, "stamp", (json_t *)stamp_root(stamp));
	json_object_set(o, "rows", r->rows);
	json_object_set(o, "routing", r->routing);
	rc = commit_json(json_path, o, e);
	json_decref(o);
	return rc;
}

/* 1 if all outputs exist with this stamp; 0 if there is work to do; -1 on error: another file has the name of an output, or a table is damaged. */
static int finished(const struct stamp *stamp, struct err *e)
{
	const char *const path[] = {out_path, routing_path, json_path};
	int there = 1, talking = 0;

	for (int i = 0; i < 3; i++)
		talking += path[i] && !strcmp(path[i], "-");
	if (talking > 1)
		return err_set(e, ERR_USAGE, "%d outputs on standard output: name files (-o FILE)", talking);
	for (int i = 0; i < 3; i++) {
		struct tsv *t;

		if (!path[i])
			continue;
		if (standing_check(path[i], stamp, 0, e))
			return -1;
		if (!strcmp(path[i], "-") || !path_exists(path[i])) {
			there = 0;
			continue;
		}
		t = i < 2 ? tsv_load(path[i], e) : NULL;
		if (i < 2 && !t)
			return -1;
		tsv_free(t);
	}
	return there;
}

/* Make all outputs, unless they exist. The table is written last, so if it exists, the other outputs exist too. */
static int work(struct run *r, const char *model, const char *shards, struct err *e)
{
	struct ensemble_options o = {.policy = policy_of("full"), .mode = CONVERT_MATCH, .capacity = batch, .device = r->device};
	struct stamp *stamp = NULL;
	int rc = -1;

	if (parse_times(r, e) || operand_shards(shards, e))
		return -1;
	if (ensemble_open(&r->ensemble, model, &o, e))
		return err_lacking(e, NULL);
	if (r->ensemble.owners.expert)
		return err_set(e, ERR_USAGE, "%s: its experts are for parts of the times, and the budget needs experts of all times", model);
	if (claim_take((const char *const[]){out_path, routing_path, json_path}, 3, e) || check_unconditional(r, model, e) || parse_routes(r, e) ||
	    manifest_load(&r->manifest, shards, e))
		return -1;
	stamp = make_stamp(r);
	rc = finished(stamp, e);
	if (rc > 0)
		cmd_say("%s: complete, nothing to do", out_path);
	if (!rc)
		rc = load_data(r, shards, e) || prepare(r, e) || measure(r, e) || (json_path && write_json(r, stamp, e)) ||
		     (routing_path && write_table(routing_path, r->routing, stamp, e)) || write_table(out_path, r->rows, stamp, e);
	stamp_free(stamp);
	return rc ? -1 : 0;
}

static void run_release(struct run *r)
{
	budget_free(r->budget);
	law_free(r->finite);
	ensemble_release(&r->ensemble);
	device_free(r->device);
	gathered_release(&r->reference);
	gathered_release(&r->items);
	manifest_release(&r->manifest);
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

static void budget(char **operand, struct err *e)
{
	static struct run r;

	if ((r.pool = pool_new((int)threads, e)) && (r.device = open_device(device, r.pool, e)))
		work(&r, operand[0], operand[1], e);
	run_release(&r);
}

const struct diagnosis diagnose_budget = {"budget", &program, 2, budget};
