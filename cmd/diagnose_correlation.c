/* ddm-diagnose correlation: rank correlations between the numbers of `trajectories` and a quality of each policy's samples. */
#include <math.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/diagnose.h"
#include "cmd/diagnose_table.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/option.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/tsv.h"
#include "metric/paired.h"
#include "metric/spearman.h"

static const struct diagnose_request *const ask = &diagnose_request;

/* Zero-initialised is empty. */
struct run {
	struct tsv *table, *quality;
	const char *table_name, *quality_name;
	int t, route, of;  /* columns: of the table, and the route in the quality table */
	int n;             /* policies in both */
	int64_t *row, *at; /* (n) their rows in the table and in the quality table */
	json_t *rows;
};

/* Match the policies of the two tables. */
static int match(struct run *r, struct err *e)
{
	int64_t most = tsv_rows(r->quality);

	if ((r->t = tsv_need(r->table, "t", e)) < 0 || (r->route = tsv_need(r->table, "route", e)) < 0 ||
	    (r->of = tsv_need(r->quality, "route", e)) < 0 || tsv_index(r->quality, r->of, e))
		return -1;
	r->row = mem_zalloc((size_t)most + 1, sizeof *r->row);
	r->at = mem_zalloc((size_t)most + 1, sizeof *r->at);
	for (int64_t i = 0; i < tsv_rows(r->table); i++) {
		const char *route = tsv_get(r->table, i, r->route);
		int64_t at = strcmp(tsv_get(r->table, i, r->t), "all") ? -1 : tsv_lookup(r->quality, route);

		for (int k = 0; k < r->n && at >= 0; k++)
			if (r->at[k] == at)
				return err_set(e, ERR_DATA, "%s: line %lld: a second row for the whole trajectories of %s", r->table_name,
				               (long long)tsv_line(r->table, i), route);
		if (at < 0)
			continue;
		r->row[r->n] = i;
		r->at[r->n++] = at;
	}
	for (int64_t i = 0; i < most; i++) {
		int found = 0;

		for (int k = 0; k < r->n; k++)
			found |= r->at[k] == i;
		if (!found)
			return err_set(e, ERR_DATA, "%s: line %lld: %s has no row \"%s\" for whole trajectories", r->quality_name,
			               (long long)tsv_line(r->quality, i), r->table_name, tsv_get(r->quality, i, r->of));
	}
	if (r->n < 3)
		return err_set(e, ERR_DATA, "%s: %d policies; a rank correlation needs at least 3", r->quality_name, r->n);
	return 0;
}

static double number_of(const struct tsv *t, int64_t row, int column)
{
	double v;

	return parse_f64(tsv_get(t, row, column), -INFINITY, INFINITY, &v) || !isfinite(v) ? NAN : v;
}

/* The correlation of a column of the table with one of the quality table over the policies that have both. */
static void put_row(struct run *r, int column, int quality)
{
	double a[r->n], b[r->n];
	struct spearman s;
	json_t *o;
	int n = 0;

	for (int k = 0; k < r->n; k++) {
		a[n] = number_of(r->table, r->row[k], column);
		b[n] = number_of(r->quality, r->at[k], quality);
		n += !isnan(a[n]) && !isnan(b[n]);
	}
	s = spearman(a, b, n);
	if (isnan(s.rho))
		return;
	o = json_object();
	json_object_set_new(o, "quality", json_string(tsv_name(r->quality, quality)));
	json_object_set_new(o, "number", json_string(tsv_name(r->table, column)));
	json_object_set_new(o, "n", json_integer(n));
	json_object_set_new(o, "rho", jsonio_real(s.rho));
	json_object_set_new(o, "critical", jsonio_real(s.critical));
	json_object_set_new(o, "p", jsonio_real(s.p));
	json_array_append_new(r->rows, o);
}

static void put_holm(struct run *r)
{
	size_t n = json_array_size(r->rows);
	double *p = mem_zalloc(n + 1, sizeof *p);

	for (size_t i = 0; i < n; i++)
		p[i] = json_number_value(json_object_get(json_array_get(r->rows, i), "p"));
	holm_adjust(p, (int)n);
	for (size_t i = 0; i < n; i++)
		json_object_set_new(json_array_get(r->rows, i), "p_holm", jsonio_real(p[i]));
	mem_free(p);
}

static int correlate(struct run *r, struct err *e)
{
	r->rows = json_array();
	for (int q = 0; q < tsv_columns(r->quality); q++)
		for (int c = 0; q != r->of && c < tsv_columns(r->table); c++)
			if (c != r->t && c != r->route)
				put_row(r, c, q);
	if (!json_array_size(r->rows))
		return err_set(e, ERR_DATA, "%s: no column with different numbers for at least 3 policies", r->quality_name);
	put_holm(r);
	return 0;
}

static struct stamp *make_stamp(const struct run *r)
{
	struct stamp *s = stamp_new("ddm-diagnose");

	stamp_text(s, "diagnosis", "correlation");
	stamp_input(s, "table", tsv_sha256(r->table));
	stamp_input(s, "quality", tsv_sha256(r->quality));
	return s;
}

static int work(struct run *r, struct err *e)
{
	struct stamp *stamp;
	int rc;

	if (claim_take((const char *const[]){ask->out, ask->json}, 2, e) || !(r->table = tsv_load(r->table_name, e)) ||
	    !(r->quality = tsv_load_any(r->quality_name, e)) || match(r, e))
		return -1;
	stamp = make_stamp(r);
	rc = diagnose_finished(ask->out, NULL, ask->json, stamp, e);
	if (rc > 0)
		cmd_say("%s: complete, nothing to do", ask->out);
	if (!rc)
		rc = correlate(r, e) || diagnose_json(ask->json, r->rows, NULL, NULL, stamp, e) || diagnose_table(ask->out, r->rows, stamp, e);
	stamp_free(stamp);
	return rc ? -1 : 0;
}

static void correlation(int n, char **operand, struct err *e)
{
	struct run r = {.table_name = operand[0], .quality_name = operand[1]};

	(void)n;
	work(&r, e);
	tsv_free(r.table);
	tsv_free(r.quality);
	mem_free(r.row);
	mem_free(r.at);
	json_decref(r.rows);
}

const struct diagnosis diagnose_correlation = {"correlation", "TABLE and QUALITY", 2, 2, 0, correlation};
