/* ddm-diagnose uncertainty: what the learned uncertainties of experts say, on samples of their own cluster and on those of others. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/diagnose.h"
#include "cmd/diagnose_samples.h"
#include "cmd/diagnose_table.h"
#include "cmd/opendevice.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "data/operand.h"
#include "file/claim.h"
#include "metric/auroc.h"

static const struct diagnose_request *const ask = &diagnose_request;

/* The state of a run. Zero-initialised is empty. */
struct run {
	double time[DIAGNOSE_TIMES];
	int times;
	struct pool *pool;
	struct device *device;
	struct ensemble ensemble;
	struct manifest manifest;
	struct diagnose_samples samples;
	struct mixture *mixture;        /* (k) that of expert k alone */
	struct velocity_loss **measure; /* (k) */
	float *there_x, *there_out;     /* (batch, d), (batch, k), on the device */
	float *eps, *x, *target, *out;  /* (d), (batch, d), (d), (batch, k) */
	float *row_time;                /* (batch) */
	int32_t *cluster;               /* (n) */
	double *expects, *error, *part; /* (times, k, n) minus the log of what the expert expects; its error; (batch) */
};

static int experts(const struct run *r)
{
	return r->ensemble.k;
}

static int is_there(const struct run *r, int k)
{
	return r->ensemble.expert[k].velocity != NULL;
}

static int prepare(struct run *r, struct err *e)
{
	const struct ensemble *s = &r->ensemble;
	size_t n = (size_t)ask->batch, d = (size_t)s->d, k = (size_t)s->k, states = (size_t)r->samples.n * k * (size_t)r->times;
	struct device *dev = r->device;

	r->mixture = mem_zalloc(k, sizeof *r->mixture);
	r->measure = mem_zalloc(k, sizeof *r->measure);
	for (int i = 0; i < s->k; i++) {
		struct policy alone = policy_of("expert:0");

		alone.entry[0].number = i;
		r->mixture[i] = ensemble_mixture(s, &alone, ask->seed, dev);
		if (is_there(r, i) && !(r->measure[i] = velocity_loss_new(&r->mixture[i], ask->batch, r->pool, e)))
			return -1;
	}
	r->row_time = mem_zalloc(n, sizeof *r->row_time);
	r->part = mem_zalloc(n, sizeof *r->part);
	r->cluster = mem_zalloc((size_t)r->samples.n + 1, sizeof *r->cluster);
	return (r->there_x = dev->alloc(dev, n * d * sizeof *r->there_x, "states", e)) &&
	               (r->there_out = dev->alloc(dev, n * k * sizeof *r->there_out, "uncertainties", e)) &&
	               (r->eps = mem_try(d, sizeof *r->eps, "noise", e)) && (r->x = mem_try(n * d, sizeof *r->x, "states", e)) &&
	               (r->target = mem_try(d, sizeof *r->target, "targets", e)) && (r->out = mem_try(n * k, sizeof *r->out, "uncertainties", e)) &&
	               (r->expects = mem_try(states, sizeof *r->expects, "uncertainties", e)) &&
	               (r->error = mem_try(states, sizeof *r->error, "errors", e))
	           ? 0
	           : -1;
}

static double *column(double *v, const struct run *r, int time, int expert)
{
	return v + (time * experts(r) + expert) * r->samples.n;
}

/* Measure the samples in s->now, which are those from `first` on, at one time. */
static int measure_time(struct run *r, int64_t first, int time, struct err *e)
{
	const struct velocity_samples *now = &r->samples.now;
	const struct router *own = &r->ensemble.uncertainty;
	int64_t d = r->ensemble.d;
	int K = experts(r);

	for (int64_t i = 0; i < now->n; i++) {
		velocity_state(d, now->x0 + i * d, r->time[time], ask->seed, now->id[i], r->eps, r->x + i * d, r->target);
		r->row_time[i] = (float)r->time[time];
	}
	device_put(r->device, r->there_x, r->x, (size_t)(now->n * d) * sizeof *r->x);
	if (own->logits(own->arg, now->n, r->there_x, r->row_time, r->there_out, e))
		return -1;
	device_get(r->device, r->out, r->there_out, (size_t)(now->n * K) * sizeof *r->out);
	if (r->device->error(r->device, e))
		return -1;
	for (int k = 0; k < K; k++) {
		if (!is_there(r, k))
			continue;
		if (velocity_loss(r->measure[k], now, r->time[time], ask->seed, r->part, NULL, e))
			return -1;
		for (int64_t i = 0; i < now->n; i++) {
			column(r->expects, r, time, k)[first + i] = r->out[i * K + k];
			column(r->error, r, time, k)[first + i] = r->part[i];
		}
	}
	return 0;
}

static int measure(struct run *r, struct err *e)
{
	struct progress show = cmd_progress();
	struct diagnose_samples *y = &r->samples;

	for (int64_t first = 0; first < y->n; first += y->now.n) {
		if (diagnose_samples_read(y, first, e))
			return -1;
		memcpy(r->cluster + first, y->now.cluster, (size_t)y->now.n * sizeof *r->cluster);
		for (int t = 0; t < r->times; t++) {
			if (progress_tell(&show, "states", first * r->times + t * y->now.n, y->n * r->times))
				return err_set(e, ERR_AGAIN, "interrupted");
			if (measure_time(r, first, t, e))
				return -1;
		}
	}
	progress_tell(&show, "states", y->n * r->times, y->n * r->times);
	return 0;
}

static double mean(const double *v, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += v[i];
	return n ? sum / (double)n : NAN;
}

/* One expert at one time. Values are sorted into those of its own cluster and the others. */
static json_t *row_of(struct run *r, int time, int k)
{
	enum { SCORE, EXPECTED, ERROR, WRONG, KINDS };
	int64_t n = r->samples.n, in = 0, out = 0;
	double *v[KINDS][2];
	json_t *o = json_object();

	for (int i = 0; i < KINDS; i++)
		for (int other = 0; other < 2; other++)
			v[i][other] = mem_alloc((size_t)(n + 1) * sizeof **v[i]);
	for (int64_t i = 0; i < n; i++) {
		int other = r->cluster[i] != k;
		int64_t at = other ? out++ : in++;
		double z = column(r->expects, r, time, k)[i], wrong = column(r->error, r, time, k)[i];

		v[SCORE][other][at] = z;
		v[EXPECTED][other][at] = exp(-z);
		v[ERROR][other][at] = wrong;
		v[WRONG][other][at] = -wrong;
	}
	json_object_set_new(o, "t", json_real(r->time[time]));
	json_object_set_new(o, "expert", json_integer(k));
	json_object_set_new(o, "n_in", json_integer(in));
	json_object_set_new(o, "n_out", json_integer(out));
	json_object_set_new(o, "auroc", jsonio_real(auroc(v[SCORE][0], in, v[SCORE][1], out)));
	json_object_set_new(o, "auroc_error", jsonio_real(auroc(v[WRONG][0], in, v[WRONG][1], out)));
	json_object_set_new(o, "expected_in", jsonio_real(mean(v[EXPECTED][0], in)));
	json_object_set_new(o, "expected_out", jsonio_real(mean(v[EXPECTED][1], out)));
	json_object_set_new(o, "error_in", jsonio_real(mean(v[ERROR][0], in)));
	json_object_set_new(o, "error_out", jsonio_real(mean(v[ERROR][1], out)));
	for (int i = 0; i < KINDS; i++)
		for (int other = 0; other < 2; other++)
			mem_free(v[i][other]);
	return o;
}

static struct stamp *make_stamp(const struct run *r)
{
	struct stamp *s = stamp_new("ddm-diagnose");

	stamp_text(s, "diagnosis", "uncertainty");
	diagnose_samples_stamp(s, r->time, r->times, &r->manifest, &r->ensemble);
	return s;
}

static int write_rows(struct run *r, const struct stamp *stamp, struct err *e)
{
	json_t *rows = json_array();
	int rc;

	for (int t = 0; t < r->times; t++)
		for (int k = 0; k < experts(r); k++)
			if (is_there(r, k))
				json_array_append_new(rows, row_of(r, t, k));
	rc = diagnose_json(ask->json, rows, NULL, NULL, stamp, e) || diagnose_table(ask->out, rows, stamp, e) ? -1 : 0;
	json_decref(rows);
	return rc;
}

static int work(struct run *r, const char *model, const char *shards, struct err *e)
{
	struct ensemble_options o = {.mode = CONVERT_MATCH, .capacity = ask->batch, .device = r->device, .policy = policy_of("uncertainty|full")};
	struct stamp *stamp;
	int rc;

	if (diagnose_times(r->time, &r->times, ask->times ? ask->times : DIAGNOSE_LOSS_TIMES, e) || operand_shards(shards, e) ||
	    manifest_load(&r->manifest, shards, e) || ensemble_open(&r->ensemble, model, &o, e))
		return err_lacking(e, NULL);
	if (claim_take((const char *const[]){ask->out, ask->json}, 2, e) ||
	    diagnose_samples_check(&r->samples, &r->ensemble, &r->manifest, model, shards, e) ||
	    diagnose_same_clusters(&r->ensemble, &r->manifest, model, shards, e))
		return -1;
	if (r->manifest.clusters < 2)
		return err_set(e, ERR_DATA, "%s: has one cluster, so no sample is of another", shards);
	stamp = make_stamp(r);
	rc = diagnose_finished(ask->out, NULL, ask->json, stamp, e);
	if (rc > 0)
		cmd_say("%s: complete, nothing to do", ask->out);
	if (!rc)
		rc =
		    diagnose_samples_open(&r->samples, &r->ensemble, shards, r->pool, e) || prepare(r, e) || measure(r, e) || write_rows(r, stamp, e);
	stamp_free(stamp);
	return rc < 0 || e->code ? -1 : 0;
}

static void run_release(struct run *r)
{
	for (int k = 0; k < experts(r) && r->measure; k++)
		velocity_loss_free(r->measure[k]);
	if (r->device) {
		r->device->release(r->device, r->there_x);
		r->device->release(r->device, r->there_out);
	}
	mem_free(r->measure);
	mem_free(r->mixture);
	mem_free(r->eps);
	mem_free(r->x);
	mem_free(r->target);
	mem_free(r->out);
	mem_free(r->row_time);
	mem_free(r->cluster);
	mem_free(r->expects);
	mem_free(r->error);
	mem_free(r->part);
	diagnose_samples_release(&r->samples);
	ensemble_release(&r->ensemble);
	manifest_release(&r->manifest);
	device_free(r->device);
	pool_free(r->pool);
}

static void uncertainty(int n, char **operand, struct err *e)
{
	static struct run r;

	(void)n;
	if ((r.pool = pool_new((int)ask->threads, e)) && (r.device = open_device(ask->device, r.pool, e)))
		work(&r, operand[0], operand[1], e);
	run_release(&r);
}

const struct diagnosis diagnose_uncertainty = {"uncertainty", "MODEL and SHARDS", 2, 2, 1000, uncertainty};
