/* ddm-diagnose loss: the flow-matching loss of a model on samples that it has not seen, with the same noise for every model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/diagnose.h"
#include "cmd/diagnose_table.h"
#include "cmd/opendevice.h"
#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "data/dataset.h"
#include "data/operand.h"
#include "diffusion/ensemble.h"
#include "diffusion/velocityloss.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/tsv.h"
#include "net/net.h"

enum { ID_BITS = 44 };

static const struct diagnose_request *const ask = &diagnose_request;
static const char TIMES[] = ".05,.15,.25,.35,.45,.55,.65,.75,.85,.95";

/* Whether the samples are those of the held-out part. */
static int holdout(void)
{
	return ask->split_given ? ask->split : 1;
}

/* A sample in the order of measurement, which depends on the seed and the key alone: the same for every partition of the same samples. */
struct pick {
	uint64_t order, id;
	int64_t index; /* in the dataset */
};

/* What the networks are told. */
enum told { TOLD_NOTHING, TOLD_CLASS, TOLD_CLUSTER };

/* The state of a run. Zero-initialised is empty. */
struct run {
	struct policy policy;
	char *route; /* its canonical text */
	double time[DIAGNOSE_TIMES];
	int times;
	struct pool *pool;
	struct device *device;
	struct ensemble ensemble;
	enum told told;
	struct manifest manifest;
	struct dataset *data;
	struct pick *pick; /* (n) */
	int64_t n;
	struct mixture mixture;
	struct mixture_stats stats;
	struct velocity_loss *measure;
	char samples_hash[65];
	double *loss; /* (n, times) */
	/* one batch */
	float *x0, *std;
	uint64_t *id;
	int64_t *index;
	int32_t *label, *cluster;
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

static int check_model(struct run *r, const char *model, const char *shards, struct err *e)
{
	const struct ensemble *s = &r->ensemble;

	if (s->text_tokens)
		return err_set(e, ERR_USAGE, "%s: reads text, and losses are measured without texts", model);
	if (ensemble_without_first(s, model, e))
		return -1;
	if (ask->untold && s->classes && !s->null_label)
		return err_set(e, ERR_USAGE, "--untold: %s was trained without the null label, and needs its condition", model);
	if (s->classes && !ask->untold)
		r->told = s->told_cluster ? TOLD_CLUSTER : TOLD_CLASS;
	if (r->told == TOLD_CLUSTER && s->classes != r->manifest.clusters)
		return err_set(e, ERR_DATA, "%s was told one of %d clusters, but %s has %d", model, s->classes, shards, r->manifest.clusters);
	if (policy_uses(&r->policy, WEIGHT_ORACLE) && s->clusters != r->manifest.clusters)
		return err_set(e, ERR_DATA, "route '%s': %s has %d clusters, but %s has %d", r->route, model, s->clusters, shards,
		               r->manifest.clusters);
	if ((r->told == TOLD_CLUSTER || policy_uses(&r->policy, WEIGHT_ORACLE)) && *s->partition && *r->manifest.partition &&
	    strcmp(s->partition, r->manifest.partition) != 0)
		return err_set(e, ERR_DATA, "the clusters of %s are not those of %s: the labels would mean other clusters", shards, model);
	return 0;
}

static int by_order(const void *a, const void *b)
{
	const struct pick *p = a, *q = b;

	if (p->order != q->order)
		return p->order < q->order ? -1 : 1;
	return p->id < q->id ? -1 : p->id > q->id;
}

/* Open the samples and choose those to measure. A sample that is in several clusters is measured once. */
static int open_samples(struct run *r, const char *shards, struct err *e)
{
	const struct ensemble *s = &r->ensemble;
	const struct dataset_options o = {.cluster = DATASET_ALL,
	                                  .holdout = holdout(),
	                                  .size = (int)s->size,
	                                  .verify = !ask->no_verify,
	                                  .labelled = r->told == TOLD_CLASS,
	                                  .deviations = 1,
	                                  .channels = s->channels == 1,
	                                  .pool = r->pool};
	const struct dataset_info *info;
	char theirs[NET_SAMPLE_TEXT], ours[NET_SAMPLE_TEXT];
	struct str text = {0};

	if (!(r->data = dataset_open(shards, &o, e)))
		return -1;
	info = dataset_info(r->data);
	if (info->channels != s->channels || info->height != s->size || info->width != s->size || info->frames != s->frames)
		return err_set(e, ERR_DATA, "%s: samples of %s, but the model is of %s", shards,
		               net_sample_text(info->frames, info->channels, info->height, info->width, ours),
		               net_sample_text(s->frames, s->channels, s->size, s->size, theirs));
	if (r->told == TOLD_CLASS && info->classes > s->classes)
		return err_set(e, ERR_DATA, "%s: has %d classes, but the model was trained with %d", shards, info->classes, s->classes);
	r->pick = mem_alloc((size_t)info->count * sizeof *r->pick);
	for (int64_t i = 0; i < info->count; i++) {
		const char *key = dataset_key(r->data, i, &text);
		char *keyed = str_new("%llu/%s", (unsigned long long)ask->seed, key);

		r->pick[i] = (struct pick){hash64(keyed, strlen(keyed)), hash64(key, strlen(key)) & (((uint64_t)1 << ID_BITS) - 1), i};
		mem_free(keyed);
	}
	str_release(&text);
	qsort(r->pick, (size_t)info->count, sizeof *r->pick, by_order);
	for (int64_t i = 0; i < info->count && r->n < ask->count; i++)
		if (!r->n || by_order(&r->pick[r->n - 1], &r->pick[i]) != 0)
			r->pick[r->n++] = r->pick[i];
	return 0;
}

static int prepare(struct run *r, struct err *e)
{
	const struct ensemble *s = &r->ensemble;
	size_t n = (size_t)ask->batch, d = (size_t)s->d;

	r->mixture = ensemble_mixture(s, &r->policy, ask->seed, r->device);
	mixture_stats_init(&r->stats, s->k, 1);
	if (!(r->measure = velocity_loss_new(&r->mixture, ask->batch, r->pool, e)))
		return -1;
	if (!(r->x0 = mem_try(n * d, sizeof *r->x0, "samples", e)) || !(r->std = mem_try(d, sizeof *r->std, "deviations", e)) ||
	    !(r->loss = mem_try((size_t)r->n * (size_t)r->times, sizeof *r->loss, "losses", e)))
		return -1;
	r->id = mem_zalloc(n, sizeof *r->id);
	r->index = mem_zalloc(n, sizeof *r->index);
	r->label = mem_zalloc(n, sizeof *r->label);
	r->cluster = mem_zalloc(n, sizeof *r->cluster);
	r->part = mem_zalloc(n, sizeof *r->part);
	return 0;
}

/* Read samples [first, first + n) of the order of measurement, and add them to the hash. A latent is drawn from its distribution by seed and id. */
static int read_batch(struct run *r, int64_t first, int64_t n, struct sha256 *hash, struct err *e)
{
	int64_t d = r->ensemble.d;
	int drawn = dataset_info(r->data)->deviations, rc = 0;
	struct str text = {0};

	for (int64_t i = 0; i < n && !rc; i++) {
		const struct pick *p = &r->pick[first + i];
		struct dataset_item it = {.x = r->x0 + i * d, .std = drawn ? r->std : NULL};
		const char *key = dataset_key(r->data, p->index, &text);

		if ((rc = dataset_item(r->data, p->index, &it, e)))
			break;
		if (drawn)
			latent_draw(it.x, r->std, d, ask->seed, 0, p->id);
		sha256_add(hash, key, strlen(key) + 1);
		sha256_add(hash, it.x, (size_t)d * sizeof *it.x);
		r->id[i] = p->id;
		r->index[i] = first + i;
		r->label[i] = r->told == TOLD_CLASS ? it.label : r->told == TOLD_CLUSTER ? it.cluster : -1;
		r->cluster[i] = it.cluster;
	}
	str_release(&text);
	return rc;
}

static int measure(struct run *r, struct err *e)
{
	struct progress show = cmd_progress();
	struct sha256 hash;

	sha256_init(&hash);
	for (int64_t first = 0, n; first < r->n; first += n) {
		const struct velocity_samples s = {.n = n = r->n - first < ask->batch ? r->n - first : ask->batch,
		                                   .x0 = r->x0,
		                                   .id = r->id,
		                                   .index = r->index,
		                                   .label = r->told ? r->label : NULL,
		                                   .cluster = r->cluster};

		if (read_batch(r, first, n, &hash, e))
			return -1;
		for (int k = 0; k < r->times; k++) {
			if (progress_tell(&show, "states", first * r->times + k * n, r->n * r->times))
				return err_set(e, ERR_AGAIN, "interrupted");
			if (velocity_loss(r->measure, &s, r->time[k], ask->seed, r->part, &r->stats, e))
				return -1;
			for (int64_t i = 0; i < n; i++)
				r->loss[(first + i) * r->times + k] = r->part[i];
		}
	}
	progress_tell(&show, "states", r->n * r->times, r->n * r->times);
	sha256_end(&hash, r->samples_hash);
	return 0;
}

static struct stamp *make_stamp(const struct run *r)
{
	struct stamp *s = stamp_new("ddm-diagnose");

	stamp_text(s, "diagnosis", "loss");
	stamp_text(s, "route", r->route);
	stamp_json(s, "times", diagnose_time_list(r->time, r->times));
	stamp_i64(s, "n", ask->count);
	stamp_text(s, "split", diagnose_splits[holdout()]);
	stamp_i64(s, "untold", ask->untold);
	stamp_u64(s, "seed", ask->seed);
	stamp_input(s, "shards", r->manifest.sha256);
	diagnose_stamp_model(s, &r->ensemble);
	return s;
}

/* Append the mean over the samples of a column and its standard error; column -1: of the samples' means over all times. */
static void put_mean(json_t *o, const struct run *r, int column, const char *name)
{
	double sum = 0, squares = 0, n = (double)r->n, mean;
	char *error = str_new("%s_error", name);

	for (int pass = 0; pass < 2; pass++) {
		mean = sum / n;
		for (int64_t i = 0; i < r->n; i++) {
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
	json_object_set_new(o, error, jsonio_real(r->n > 1 ? sqrt(squares / (n - 1) / n) : NAN));
	mem_free(error);
}

/* The result, as one line: ddm-compare and ddm-report read it. */
static int write_result(const struct run *r, const struct stamp *stamp, struct err *e)
{
	static const char *const told[] = {"nothing", "class", "cluster"};
	json_t *o = json_object();
	double states = (double)(r->n * r->times);
	char *sealed, *line;
	int rc;

	json_object_set_new(o, "recipe",
	                    json_pack("{s:s, s:o, s:s, s:I}", "measure", "loss of the velocity", "times", diagnose_time_list(r->time, r->times),
	                              "split", diagnose_splits[holdout()], "seed", (json_int_t)ask->seed));
	json_object_set_new(o, "inputs", json_pack("{s:s, s:s}", "heldout", r->samples_hash, "model", r->ensemble.hash));
	json_object_set_new(o, "route", json_string(r->route));
	json_object_set_new(o, "told", json_string(told[r->told]));
	json_object_set_new(o, "n", json_integer(r->n));
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

static int write_items(const struct run *r, const struct stamp *stamp, struct err *e)
{
	const char **names = mem_zalloc((size_t)r->times + 2, sizeof *names);
	char **own = mem_zalloc((size_t)r->times, sizeof *own);
	struct str key = {0};
	struct tsv_writer *w;
	int rc = 0;

	names[0] = "key";
	names[1] = "loss";
	for (int k = 0; k < r->times; k++)
		names[k + 2] = own[k] = str_new("loss_t%g", r->time[k]);
	w = tsv_create(ask->items, names, r->times + 2, stamp, e);
	for (int64_t i = 0; w && i < r->n && !rc; i++) {
		double mean = 0;

		for (int k = 0; k < r->times; k++)
			mean += r->loss[i * r->times + k] / r->times;
		tsv_put(w, dataset_key(r->data, r->pick[i].index, &key));
		tsv_put_f64(w, mean);
		for (int k = 0; k < r->times; k++)
			tsv_put_f64(w, r->loss[i * r->times + k]);
		rc = tsv_row(w, e);
	}
	for (int k = 0; k < r->times; k++)
		mem_free(own[k]);
	mem_free(own);
	mem_free(names);
	str_release(&key);
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

	if (diagnose_times(r->time, &r->times, ask->times ? ask->times : TIMES, e) || settle_route(r, model, e) || operand_shards(shards, e) ||
	    manifest_load(&r->manifest, shards, e))
		return -1;
	o.policy = r->policy;
	if (ensemble_open(&r->ensemble, model, &o, e))
		return err_lacking(e, NULL);
	if (claim_take((const char *const[]){ask->out, ask->items}, 2, e) || check_model(r, model, shards, e))
		return -1;
	stamp = make_stamp(r);
	rc = diagnose_finished(ask->items, NULL, ask->out, stamp, e);
	if (rc > 0)
		cmd_say("%s: complete, nothing to do", ask->out);
	if (!rc)
		rc = open_samples(r, shards, e) || prepare(r, e) || measure(r, e) || (ask->items && write_items(r, stamp, e)) ||
		     write_result(r, stamp, e);
	stamp_free(stamp);
	return rc < 0 || e->code ? -1 : 0;
}

static void run_release(struct run *r)
{
	velocity_loss_free(r->measure);
	mixture_stats_release(&r->stats);
	ensemble_release(&r->ensemble);
	dataset_free(r->data);
	device_free(r->device);
	manifest_release(&r->manifest);
	mem_free(r->route);
	mem_free(r->pick);
	mem_free(r->loss);
	mem_free(r->x0);
	mem_free(r->std);
	mem_free(r->id);
	mem_free(r->index);
	mem_free(r->label);
	mem_free(r->cluster);
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
