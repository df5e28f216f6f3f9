/* ddm-diagnose loss: the flow-matching loss of a model on samples that it has not seen, with the same noise for every model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/diagnose.h"
#include "cmd/diagnose_samples.h"
#include "cmd/diagnose_table.h"
#include "cmd/opendevice.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "data/operand.h"
#include "diffusion/ensemble.h"
#include "diffusion/velocityloss.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/tsv.h"

static const struct diagnose_request *const ask = &diagnose_request;

/* The state of a run. Zero-initialised is empty. */
struct run {
	struct policy policy;
	char *route; /* its canonical text */
	double time[DIAGNOSE_TIMES];
	int times;
	struct pool *pool;
	struct device *device;
	struct ensemble ensemble;
	struct manifest manifest;
	struct diagnose_samples samples;
	struct mixture mixture;
	struct mixture_stats stats;
	struct velocity_loss *measure;
	double *loss; /* (n, times) */
	double *part; /* (batch) losses at one time */
};

/* The policy of --routes, or the one that suits the model. */
static int settle_route(struct run *r, const char *model, struct err *e)
{
	int timed = ensemble_timed(model), lone = timed ? -1 : ensemble_lone(model);

	if (ask->routes && ask->routes[policy_span(ask->routes)])
		return err_set(e, ERR_USAGE, "--routes: loss measures one policy, not '%s'", ask->routes);
	if (!ask->routes || (lone >= 0 && !strcmp(ask->routes, "full")))
		r->route = lone >= 0 ? str_new("expert:%d", lone) : mem_strdup(timed ? "time" : "full");
	else
		r->route = mem_strdup(ask->routes);
	if (policy_parse(r->route, &r->policy, e))
		return err_prefix(e, "--routes");
	mem_free(r->route);
	r->route = policy_text(&r->policy);
	return 0;
}

/* The clusters that an oracle names are numbered in the model's partition. */
static int check_oracle(const struct run *r, const char *model, const char *shards, struct err *e)
{
	const struct ensemble *s = &r->ensemble;

	if (!policy_uses(&r->policy, WEIGHT_ORACLE))
		return 0;
	if (s->clusters != r->manifest.clusters)
		return err_set(e, ERR_DATA, "route '%s': %s has %d clusters, but %s has %d", r->route, model, s->clusters, shards,
		               r->manifest.clusters);
	return diagnose_same_clusters(s, &r->manifest, model, shards, e);
}

static int prepare(struct run *r, struct err *e)
{
	const struct ensemble *s = &r->ensemble;

	r->mixture = ensemble_mixture(s, &r->policy, ask->seed, r->device);
	mixture_stats_init(&r->stats, s->k, 1);
	if (!(r->measure = velocity_loss_new(&r->mixture, ask->batch, r->pool, e)))
		return -1;
	if (!(r->loss = mem_try((size_t)r->samples.n * (size_t)r->times, sizeof *r->loss, "losses", e)))
		return -1;
	r->part = mem_zalloc((size_t)ask->batch, sizeof *r->part);
	return 0;
}

static int measure(struct run *r, struct err *e)
{
	struct progress show = cmd_progress();
	struct diagnose_samples *y = &r->samples;

	for (int64_t first = 0; first < y->n; first += y->now.n) {
		if (diagnose_samples_read(y, first, e))
			return -1;
		for (int k = 0; k < r->times; k++) {
			if (progress_tell(&show, "states", first * r->times + k * y->now.n, y->n * r->times))
				return err_set(e, ERR_AGAIN, "interrupted");
			if (velocity_loss(r->measure, &y->now, r->time[k], ask->seed, r->part, &r->stats, e))
				return -1;
			for (int64_t i = 0; i < y->now.n; i++)
				r->loss[(first + i) * r->times + k] = r->part[i];
		}
	}
	progress_tell(&show, "states", y->n * r->times, y->n * r->times);
	return 0;
}

static struct stamp *make_stamp(const struct run *r)
{
	struct stamp *s = stamp_new("ddm-diagnose");

	stamp_text(s, "diagnosis", "loss");
	stamp_text(s, "route", r->route);
	diagnose_samples_stamp(s, r->time, r->times, &r->manifest, &r->ensemble);
	return s;
}

/* Append the mean over the samples of a column and its standard error; column -1: of the samples' means over all times. */
static void put_mean(json_t *o, const struct run *r, int column, const char *name)
{
	double sum = 0, squares = 0, n = (double)r->samples.n, mean;
	char *error = str_new("%s_error", name);

	for (int pass = 0; pass < 2; pass++) {
		mean = sum / n;
		for (int64_t i = 0; i < r->samples.n; i++) {
			const double *row = r->loss + i * r->times;
			double v = 0;

			for (int k = 0; k < r->times && column < 0; k++)
				v += row[k] / r->times;
			v = column < 0 ? v : row[column];
			sum += pass ? 0 : v;
			squares += pass ? (v - mean) * (v - mean) : 0;
		}
	}
	json_object_set_new(o, name, jsonio_real(mean));
	json_object_set_new(o, error, jsonio_real(r->samples.n > 1 ? sqrt(squares / (n - 1) / n) : NAN));
	mem_free(error);
}

/* The result, as one line: ddm-compare and ddm-report read it. */
static int write_result(const struct run *r, const struct stamp *stamp, struct err *e)
{
	static const char *const told[] = {"nothing", "class", "cluster"};
	json_t *o = json_object();
	double states = (double)(r->samples.n * r->times);
	char *sealed, *line, hash[65];
	int rc;

	json_object_set_new(o, "recipe",
	                    json_pack("{s:s, s:o, s:s, s:I}", "measure", "loss of the velocity", "times", diagnose_time_list(r->time, r->times),
	                              "split", diagnose_splits[diagnose_holdout()], "seed", (json_int_t)ask->seed));
	json_object_set_new(o, "inputs", json_pack("{s:s, s:s}", "heldout", diagnose_samples_hash(&r->samples, hash), "model", r->ensemble.hash));
	json_object_set_new(o, "route", json_string(r->route));
	json_object_set_new(o, "told", json_string(told[r->samples.told]));
	json_object_set_new(o, "n", json_integer(r->samples.n));
	put_mean(o, r, -1, "loss");
	for (int k = 0; k < r->times; k++) {
		char *name = str_new("loss_t%g", r->time[k]);

		put_mean(o, r, k, name);
		mem_free(name);
	}
	json_object_set_new(o, "experts_per_state", jsonio_real((double)r->stats.used / states));
	json_object_set_new(o, "gflop_per_state", jsonio_real(mixture_gflop(&r->mixture, &r->stats) / states));
	json_object_set(o, "stamp", (json_t *)stamp_root(stamp));
	sealed = jsonio_sealed_line(o);
	line = str_new("%s\n", sealed);
	rc = commit_bytes(ask->out, line, strlen(line), e);
	mem_free(line);
	mem_free(sealed);
	json_decref(o);
	return rc;
}

static int write_items(struct run *r, const struct stamp *stamp, struct err *e)
{
	const char **names = mem_zalloc((size_t)r->times + 2, sizeof *names);
	char **own = mem_zalloc((size_t)r->times, sizeof *own);
	struct tsv_writer *w;
	int rc = 0;

	names[0] = "key";
	names[1] = "loss";
	for (int k = 0; k < r->times; k++)
		names[k + 2] = own[k] = str_new("loss_t%g", r->time[k]);
	w = tsv_create(ask->items, names, r->times + 2, stamp, e);
	for (int64_t i = 0; w && i < r->samples.n && !rc; i++) {
		double mean = 0;

		for (int k = 0; k < r->times; k++)
			mean += r->loss[i * r->times + k] / r->times;
		tsv_put(w, diagnose_samples_key(&r->samples, i));
		tsv_put_f64(w, mean);
		for (int k = 0; k < r->times; k++)
			tsv_put_f64(w, r->loss[i * r->times + k]);
		rc = tsv_row(w, e);
	}
	for (int k = 0; k < r->times; k++)
		mem_free(own[k]);
	mem_free(own);
	mem_free(names);
	if (w && rc)
		tsv_abort(w);
	return w && !rc ? tsv_commit(w, e) : -1;
}

/* Make all outputs, unless they exist. The result is written last, so if it exists, the table exists too. */
static int work(struct run *r, const char *model, const char *shards, struct err *e)
{
	struct ensemble_options o = {.mode = CONVERT_MATCH, .capacity = ask->batch, .device = r->device};
	struct stamp *stamp;
	int rc;

	if (diagnose_times(r->time, &r->times, ask->times ? ask->times : DIAGNOSE_LOSS_TIMES, e) || settle_route(r, model, e) ||
	    operand_shards(shards, e) || manifest_load(&r->manifest, shards, e))
		return -1;
	o.policy = r->policy;
	if (ensemble_open(&r->ensemble, model, &o, e))
		return err_lacking(e, NULL);
	if (claim_take((const char *const[]){ask->out, ask->items}, 2, e) ||
	    diagnose_samples_check(&r->samples, &r->ensemble, &r->manifest, model, shards, e) || check_oracle(r, model, shards, e))
		return -1;
	stamp = make_stamp(r);
	rc = diagnose_finished(ask->items, NULL, ask->out, stamp, e);
	if (rc > 0)
		cmd_say("%s: complete, nothing to do", ask->out);
	if (!rc)
		rc = diagnose_samples_open(&r->samples, &r->ensemble, shards, r->pool, e) || prepare(r, e) || measure(r, e) ||
		     (ask->items && write_items(r, stamp, e)) || write_result(r, stamp, e);
	stamp_free(stamp);
	return rc < 0 || e->code ? -1 : 0;
}

static void run_release(struct run *r)
{
	velocity_loss_free(r->measure);
	mixture_stats_release(&r->stats);
	ensemble_release(&r->ensemble);
	diagnose_samples_release(&r->samples);
	device_free(r->device);
	manifest_release(&r->manifest);
	mem_free(r->route);
	mem_free(r->loss);
	mem_free(r->part);
	pool_free(r->pool);
}

static void loss(int n, char **operand, struct err *e)
{
	static struct run r;

	(void)n;
	if ((r.pool = pool_new((int)ask->threads, e)) && (r.device = open_device(ask->device, r.pool, e)))
		work(&r, operand[0], operand[1], e);
	run_release(&r);
}

const struct diagnosis diagnose_loss = {"loss", "MODEL and SHARDS", 2, 2, 1000, loss};
