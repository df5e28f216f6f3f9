/* Writes the report of a run, its timing, and the log of routing weights. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/standing.h"
#include "net/pager.h"
#include "sample/sampling.h"

/* The mean entropy of each step, null where no row was counted; sum and rows as in struct mixture_stats. */
static json_t *entropies(const struct sampling *r, const int64_t *sum, const int64_t *rows)
{
	json_t *a = json_array();

	for (int64_t i = 0; i < r->ask.steps; i++)
		json_array_append_new(a, jsonio_real((double)sum[i] / MIXTURE_UNIT / (double)rows[i]));
	return a;
}

static json_t *report_json(const struct sampling *r, int64_t weight_bytes)
{
	const struct mixture_stats *s = &r->stats;
	json_t *o = json_object(), *mass = json_object(), *assigned = json_array(), *weight = json_array();

	for (int k = 0; k < s->k; k++) {
		json_array_append_new(assigned, jsonio_real((double)r->assigned[k] / (double)r->count));
		json_array_append_new(weight, jsonio_real((double)s->mass[k] / MIXTURE_UNIT / (double)s->evaluations));
	}
	json_object_set_new(o, "n", json_integer(r->count));
	json_object_set_new(o, "route", json_string(r->ask.route));
	json_object_set_new(o, "solver", json_string(r->ask.solver));
	json_object_set_new(o, "steps", json_integer(r->ask.steps));
	json_object_set_new(o, "model", json_string(r->ensemble.hash));
	json_object_set_new(o, "weights", json_string(sample_dtypes[r->ask.dtype]));
	json_object_set_new(o, "weight_bytes", json_integer(weight_bytes));
	if (s->longest) {
		json_object_set_new(o, "evaluations", jsonio_real((double)s->evaluations / (double)r->count));
		json_object_set_new(o, "evaluations_most", json_integer(s->longest));
	} else {
		json_object_set_new(o, "evaluations", json_integer(sampler_evaluations(&r->sampler)));
	}
	json_object_set_new(o, "experts_per_step", jsonio_real((double)s->used / (double)s->evaluations));
	json_object_set_new(mass, "assigned", assigned);
	json_object_set_new(mass, "weight", weight);
	json_object_set_new(o, "cluster_mass", mass);
	json_object_set_new(o, "router_entropy", s->router_rows && !s->longest ? entropies(r, s->entropy, s->entropy_rows) : json_array());
	if (policy_uses(&r->policy, WEIGHT_DENSITY))
		json_object_set_new(o, "density_entropy", entropies(r, s->density_entropy, s->density_rows));
	json_object_set_new(o, "gflop_per_image", jsonio_real(mixture_gflop(&r->mixture, s) / (double)r->count));
	return o;
}

static int write_json(const char *path, json_t *o, struct err *e)
{
	char *text = jsonio_sealed_line(o);
	struct str s = {0};
	int rc;

	str_puts(&s, text);
	str_puts(&s, "\n");
	rc = commit_bytes(path, s.p, s.len, e);
	str_release(&s);
	mem_free(text);
	return rc;
}

static void say_summary(const struct sampling *r, int64_t weight_bytes, double seconds)
{
	const struct mixture_stats *s = &r->stats;
	double sum = 0, rows = 0;
	struct str text = {0};

	str_printf(&text, "%lld pictures, route %s: %.2f experts per step, cluster mass ", (long long)r->count, r->ask.route,
	           (double)s->used / (double)s->evaluations);
	for (int k = 0; k < s->k; k++)
		str_printf(&text, "%s%.3f", k ? "/" : "", (double)r->assigned[k] / (double)r->count);
	for (int64_t i = 0; i < r->ask.steps; i++) {
		sum += (double)s->entropy[i] / MIXTURE_UNIT;
		rows += (double)s->entropy_rows[i];
	}
	if (rows > 0)
		str_printf(&text, ", router entropy %.3f", sum / rows);
	if (s->longest)
		str_printf(&text, ", %.1f evaluations per picture and at most %lld", (double)s->evaluations / (double)r->count,
		           (long long)s->longest);
	sampling_say(r, "%s, %.4g GFLOP per picture, %.3g MiB of %s weights, %.3g pictures/s", str_text(&text),
	             mixture_gflop(&r->mixture, s) / (double)r->count, (double)weight_bytes / 0x1p20, sample_dtypes[r->ask.dtype],
	             (double)r->count / seconds);
	str_release(&text);
	if (r->ensemble.pager)
		sampling_say(r, "%d of %d experts at a time in the device's memory, %lld uploads", pager_slots(r->ensemble.pager), s->k,
		             (long long)pager_uploads(r->ensemble.pager));
}

/* Numbers that differ from run to run; they are not in the report. */
static json_t *timing_json(const struct sampling *r, double seconds)
{
	struct device *d = r->device;
	double flops = mixture_gflop(&r->mixture, &r->stats) * 1e9 / seconds, peak = d->peak_flops ? d->peak_flops(d) : NAN;
	struct device_memory m = {0};
	json_t *o = json_object();

	d->memory(d, &m);
	json_object_set_new(o, "seconds", jsonio_real(seconds));
	json_object_set_new(o, "images_per_second", jsonio_real((double)r->count / seconds));
	json_object_set_new(o, "gflops", jsonio_real(flops * 1e-9));
	json_object_set_new(o, "percent_of_peak", jsonio_real(100 * flops / peak));
	json_object_set_new(o, "memory_peak", json_integer((json_int_t)m.peak));
	if (m.total) {
		json_object_set_new(o, "memory_free", json_integer((json_int_t)m.free));
		json_object_set_new(o, "memory_total", json_integer((json_int_t)m.total));
	}
	if (r->ensemble.pager) {
		json_object_set_new(o, "resident", json_integer(pager_slots(r->ensemble.pager)));
		json_object_set_new(o, "uploads", json_integer(pager_uploads(r->ensemble.pager)));
	}
	if (d->uncaptured[0])
		json_object_set_new(o, "uncaptured", jsonio_text(d->uncaptured));
	return o;
}

int samplereport_check(const struct sample_request *q, struct err *e)
{
	static const char *const of_report[] = {"n", "route", "solver", "steps", "cluster_mass", NULL}, *const of_log[] = {"index", "weights", NULL},
				 *const of_timing[] = {"seconds", "images_per_second", NULL};

	return (q->report && standing_view(q->report, "ddm-sample", of_report, e)) || (q->log && standing_view(q->log, "ddm-sample", of_log, e)) ||
	               (q->timing && standing_view(q->timing, "ddm-sample", of_timing, e))
	           ? -1
	           : 0;
}

int samplereport_write(struct sampling *r, double seconds, struct err *e)
{
	json_t *report, *timing;
	int64_t weight_bytes = 0;
	int rc = 0;

	if (ranks_count_bytes(r, e))
		return -1;
	timing = r->ask.timing ? timing_json(r, seconds) : NULL;
	for (int i = 0; i < r->networks; i++)
		weight_bytes += r->bytes[i];
	report = report_json(r, weight_bytes);
	say_summary(r, weight_bytes, seconds);
	if (r->device->uncaptured[0])
		sampling_warn(r, "part of each step runs outside a CUDA graph, which is slower: %s", r->device->uncaptured);
	if (r->ask.report)
		rc = write_json(r->ask.report, report, e);
	if (!rc && timing)
		rc = write_json(r->ask.timing, timing, e);
	json_decref(report);
	json_decref(timing);
	return rc;
}

int samplereport_log(struct sampling *r, int64_t i, struct err *e)
{
	const double *w = r->weights + i * r->ask.steps * r->ensemble.k;
	json_t *o = json_object(), *all = json_array(), *stamp = json_loads(r->item[i].stamp, 0, NULL);
	char *line, hash[65];
	int rc;

	for (int64_t s = 0; s < r->ask.steps; s++) {
		json_t *row = json_array();

		for (int k = 0; k < r->ensemble.k; k++)
			json_array_append_new(row, jsonio_real(w[s * r->ensemble.k + k]));
		json_array_append_new(all, row);
	}
	stamp_hash(stamp, hash);
	json_decref(stamp);
	json_object_set_new(o, "index", json_integer(r->index[i]));
	json_object_set_new(o, "stamp", json_string(hash));
	json_object_set_new(o, "weights", all);
	line = jsonio_sealed_line(o);
	json_decref(o);
	rc = outfile_write(&r->log, line, strlen(line), e) || outfile_write(&r->log, "\n", 1, e) ? -1 : 0;
	mem_free(line);
	return rc;
}
