/* ddm-diagnose times: boundaries of experts for parts of the times, from a result of `loss` or a table of numbers by time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/diagnose.h"
#include "cmd/diagnose_table.h"
#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/option.h"
#include "core/str.h"
#include "diffusion/timeknots.h"
#include "file/claim.h"
#include "file/tsv.h"

static const struct diagnose_request *const ask = &diagnose_request;

/* Zero-initialised is empty. */
struct run {
	const char *name, *column;
	double *t, *m; /* (n) */
	int64_t n;
	char hash[65];
};

static void add(struct run *r, double t, double m)
{
	r->t = mem_resize(r->t, (size_t)r->n + 1, sizeof *r->t);
	r->m = mem_resize(r->m, (size_t)r->n + 1, sizeof *r->m);
	r->t[r->n] = t;
	r->m[r->n++] = m;
}

/* A result of `loss`: NAME_tT for each T of its times. */
static int read_result(struct run *r, struct err *e)
{
	json_t *o = jsonio_load(r->name, e), *time;
	const json_t *times = json_object_get(json_object_get(o, "recipe"), "times");
	size_t i;
	int rc = o ? 0 : -1;

	if (!rc && ask->routes)
		rc = err_set(e, ERR_USAGE, "--routes: chooses rows of a table, and %s is the result of one route", r->name);
	json_array_foreach (times, i, time) {
		char *key = str_new("%s_t%g", r->column, json_number_value(time));
		const json_t *v = json_object_get(o, key);

		if (!rc && !json_is_number(v))
			rc = err_set(e, ERR_DATA, "%s: has no number \"%s\"", r->name, key);
		add(r, json_number_value(time), json_number_value(v));
		mem_free(key);
	}
	if (!rc && !r->n)
		rc = err_set(e, ERR_DATA, "%s: is not a result of ddm-diagnose loss", r->name);
	json_decref(o);
	return rc;
}

/* Whether a row is of the route that was asked for, of all clusters, and of one time. */
static int is_wanted(const struct tsv *s, int64_t row, int time, int route, int cluster)
{
	return strcmp(tsv_get(s, row, time), "all") != 0 && (route < 0 || !ask->routes || !strcmp(tsv_get(s, row, route), ask->routes)) &&
	       (cluster < 0 || !strcmp(tsv_get(s, row, cluster), "all"));
}

static int read_row(struct run *r, const struct tsv *s, int64_t row, int time, int column, int route, struct err *e)
{
	double t, m;

	if (tsv_f64(s, row, time, 0, 1, &t, e) || tsv_f64(s, row, column, 0, 1e300, &m, e))
		return -1;
	for (int64_t i = 0; i < r->n; i++)
		if (r->t[i] == t)
			return err_set(e, ERR_DATA, "%s: line %lld: a second row for t = %g%s", r->name, (long long)tsv_line(s, row), t,
			               route >= 0 && !ask->routes ? ": name one route with --routes" : "");
	add(r, t, m);
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const double *p = a, *q = b;

	return *p < *q ? -1 : *p > *q;
}

/* Rows of a table may run from noise to data. */
static void sort_times(struct run *r)
{
	double *pairs = mem_alloc((size_t)(2 * r->n + 1) * sizeof *pairs);

	for (int64_t i = 0; i < r->n; i++) {
		pairs[2 * i] = r->t[i];
		pairs[2 * i + 1] = r->m[i];
	}
	qsort(pairs, (size_t)r->n, 2 * sizeof *pairs, by_time);
	for (int64_t i = 0; i < r->n; i++) {
		r->t[i] = pairs[2 * i];
		r->m[i] = pairs[2 * i + 1];
	}
	mem_free(pairs);
}

static int read_table(struct run *r, struct err *e)
{
	struct tsv *s = tsv_load_any(r->name, e);
	int time = -1, column = -1, rc = -1, route, cluster;

	if (s && (time = tsv_need(s, "t", e)) >= 0 && (column = tsv_need(s, r->column, e)) >= 0) {
		route = tsv_column(s, "route");
		cluster = tsv_column(s, "cluster");
		rc = ask->routes && route < 0 ? err_set(e, ERR_USAGE, "--routes: %s has no column route", r->name) : 0;
		for (int64_t i = 0; i < tsv_rows(s) && !rc; i++)
			if (is_wanted(s, i, time, route, cluster))
				rc = read_row(r, s, i, time, column, route, e);
		if (!rc && !r->n)
			rc = err_set(e, ERR_DATA, "%s: has no rows by time%s%s", r->name, ask->routes ? " for the route " : "",
			             ask->routes ? ask->routes : "");
		sort_times(r);
	}
	tsv_free(s);
	return rc;
}

static int is_json(const char *name)
{
	FILE *f = fopen(name, "rb");
	int first = f ? getc(f) : EOF;

	if (f)
		fclose(f);
	return first == '{';
}

/* One row for each part. Neighbours have the same text for their boundary, so that experts own every time once. */
static json_t *make_rows(const double *knot)
{
	json_t *rows = json_array();

	for (int64_t p = 0; p < ask->parts; p++) {
		char *range = str_new("%.6g..%.6g", knot[p], knot[p + 1]);
		json_t *o = json_object();

		json_object_set_new(o, "expert", json_integer(p));
		json_object_set_new(o, "from", jsonio_real(knot[p]));
		json_object_set_new(o, "to", jsonio_real(knot[p + 1]));
		json_object_set_new(o, "range", json_string(range));
		json_array_append_new(rows, o);
		mem_free(range);
	}
	return rows;
}

static struct stamp *make_stamp(const struct run *r)
{
	struct stamp *s = stamp_new("ddm-diagnose");

	stamp_text(s, "diagnosis", "times");
	stamp_text(s, "column", r->column);
	if (ask->routes)
		stamp_text(s, "route", ask->routes);
	stamp_i64(s, "parts", ask->parts);
	stamp_input(s, "table", r->hash);
	return s;
}

static int work(struct run *r, struct err *e)
{
	double knot[DIAGNOSE_PARTS + 1];
	struct stamp *stamp;
	json_t *rows;
	int rc;

	if (claim_take((const char *const[]){ask->out}, 1, e) || sha256_file(r->name, r->hash, NULL, e) ||
	    (is_json(r->name) ? read_result(r, e) : read_table(r, e)))
		return -1;
	stamp = make_stamp(r);
	rc = diagnose_finished(ask->out, NULL, NULL, stamp, e);
	if (rc > 0)
		cmd_say("%s: complete, nothing to do", ask->out);
	if (!rc && !(rc = time_knots(knot, (int)ask->parts, r->t, r->m, r->n, e) ? err_prefix(e, "%s", r->name) : 0)) {
		rows = make_rows(knot);
		rc = diagnose_table(ask->out, rows, stamp, e);
		json_decref(rows);
	}
	stamp_free(stamp);
	return rc < 0 || e->code ? -1 : 0;
}

static void times(int n, char **operand, struct err *e)
{
	struct run r = {.name = operand[0], .column = ask->column ? ask->column : "loss"};

	(void)n;
	work(&r, e);
	mem_free(r.t);
	mem_free(r.m);
}

const struct diagnosis diagnose_times_command = {"times", "one TABLE", 1, 1, 0, times};
