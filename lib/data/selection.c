/* Reads samples one after the other, evaluates the rules, and writes those samples for which all hold. */
#include "data/selection.h"

#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/samplecolumns.h"
#include "file/claim.h"
#include "file/optionstamp.h"
#include "file/standing.h"
#include "file/tarfile.h"
#include "file/tsv.h"

struct selecting {
	const struct select_request *r;
	struct select_report *report;
	struct condition *condition;
	const char **name; /* [columns] of the condition, then further ones of the table */
	int names;
	struct arena memory; /* of further names */
	struct samplecolumns *columns;
	struct condition_value *value; /* [names] of the present sample */
	uint8_t *lacks;                /* [columns of the condition] */
	uint8_t *holds;                /* [rules] */
	struct samples *samples;
	struct stamp *stamp;
	char digest[65]; /* of the samples, from a first pass; empty if a source can be read only once */
	json_t *class_names;

	struct outfile file; /* of a tar */
	struct tar_writer tar;
	struct tsv_writer *table;
	struct str list;
	int open; /* the output has been opened */
};

static void add_name(struct selecting *w, const char *name)
{
	for (int i = 0; i < w->names; i++)
		if (!strcmp(w->name[i], name))
			return;
	w->name = mem_resize(w->name, (size_t)w->names + 1, sizeof *w->name);
	w->name[w->names++] = name;
}

/* The columns of the condition, then those of --columns. */
static int find_names(struct selecting *w, struct err *e)
{
	const char *at = w->r->columns;

	for (int i = 0; i < condition_columns(w->condition); i++)
		add_name(w, condition_column(w->condition, i));
	while (at && *at) {
		size_t n = strcspn(at, ",");
		char *name = arena_alloc(&w->memory, n + 1);

		memcpy(name, at, n);
		if (!n || name[strcspn(name, "\t\n")])
			return err_set(e, ERR_USAGE, "--columns %s: expected names with commas between", w->r->columns);
		add_name(w, name);
		at += n + (at[n] == ',');
	}
	return 0;
}

static struct samples *open_samples(const struct selecting *w, int silent, struct err *e)
{
	const struct select_request *r = w->r;
	struct samples_options o = {.skip_bad = r->skip_bad,
	                            .max_errors = r->max_errors,
	                            .nul_list = r->nul_list,
	                            .once = 1,
	                            .spool = r->spool,
	                            .bad = silent ? NULL : r->bad,
	                            .bad_arg = r->arg};

	return samples_open(r->sources, r->nsources, &o, e);
}

static int tell(const struct selecting *w, struct samples *s, const char *what, struct err *e)
{
	if (progress_tell(w->r->progress, what, samples_count(s), samples_expected(s)))
		return err_set(e, ERR_AGAIN, "interrupted");
	return 0;
}

/* A first pass for the digest of the samples and the names of their classes, unless a source can be read only once. */
static int scan(struct selecting *w, struct err *e)
{
	struct samples *s;
	struct sample x;
	int rc = -1;

	for (int i = 0; i < w->r->nsources; i++)
		if (samples_is_stream(w->r->sources[i]))
			return 0;
	s = open_samples(w, 1, e);
	while (s && (rc = samples_next(s, &x, e)) > 0)
		if (tell(w, s, "samples read", e))
			rc = -1;
	if (s && !rc) {
		samples_digest(s, w->digest);
		w->class_names = json_incref((json_t *)(uintptr_t)samples_class_names(s));
	}
	samples_close(s);
	return rc;
}

static void make_stamp(struct selecting *w)
{
	static const struct option *const tables[] = {select_options, NULL};
	struct stamp *s = stamp_new("ddm-select");

	stamp_text(s, "condition", w->r->condition);
	optionstamp_put(s, tables, w->r, "");
	if (w->class_names && !w->r->table && !w->r->list)
		stamp_json(s, "class_names", json_incref(w->class_names));
	if (*w->digest)
		stamp_input(s, "samples", w->digest);
	for (int i = 0; i < samplecolumns_tables(w->columns); i++) {
		char *role = samplecolumns_tables(w->columns) > 1 ? str_new("table %d", i + 1) : mem_strdup("table");

		stamp_input(s, role, samplecolumns_table_sha256(w->columns, i));
		mem_free(role);
	}
	stamp_free(w->stamp);
	w->stamp = s;
}

/* ---- output ---- */

static int open_tar(struct selecting *w, struct err *e)
{
	char *line = stamp_line(w->stamp);
	int rc = outfile_open(&w->file, w->r->out, e);

	w->file.keep = !*w->digest; /* the stamp does not identify samples from standard input: other samples must not be replaced */
	if (!rc)
		rc = tar_start(&w->tar, &w->file, line, e);
	mem_free(line);
	return rc;
}

static int open_table(struct selecting *w, struct err *e)
{
	const char **name = mem_zalloc((size_t)w->names + 1, sizeof *name);
	int n = 0;

	name[n++] = "key";
	for (int i = 0; i < w->names; i++)
		if (strcmp(w->name[i], "key"))
			name[n++] = w->name[i];
	w->table = tsv_create(w->r->out, name, n, w->stamp, e);
	mem_free(name);
	return w->table ? 0 : -1;
}

/* Open the output when the first sample has been read: the names of the classes are known then, also from standard input. */
static int open_output(struct selecting *w, struct err *e)
{
	if (!w->class_names && samples_class_names(w->samples)) {
		w->class_names = json_incref((json_t *)(uintptr_t)samples_class_names(w->samples));
		make_stamp(w);
	}
	w->open = 1;
	if (standing_check(w->r->out, w->stamp, 0, e))
		return -1;
	return w->r->list ? 0 : w->r->table ? open_table(w, e) : open_tar(w, e);
}

/* A field of the table: tabs and newlines become blanks. */
static void put_field(struct selecting *w, const struct condition_value *v)
{
	char *text = mem_strdup(v->there && v->text && *v->text ? v->text : "-");

	for (char *at = text; *(at += strcspn(at, "\t\n\r"));)
		*at = ' ';
	tsv_put(w->table, text);
	mem_free(text);
}

static int write_sample(struct selecting *w, const struct sample *x, struct err *e)
{
	if (w->r->list) {
		str_printf(&w->list, "%s\n", x->key);
		return 0;
	}
	if (!w->r->table)
		return sample_put(&w->tar, x, e);
	tsv_put(w->table, x->key);
	for (int i = 0; i < w->names; i++)
		if (strcmp(w->name[i], "key"))
			put_field(w, &w->value[i]);
	return tsv_row(w->table, e);
}

static int finish_output(struct selecting *w, struct err *e)
{
	struct tsv_writer *table = w->table;

	w->table = NULL;
	if (w->r->list)
		return stamp_write(w->stamp, w->r->out, str_text(&w->list), w->list.len, e);
	if (w->r->table)
		return tsv_commit(table, e);
	return tar_finish(&w->tar, e) || outfile_commit(&w->file, e) ? -1 : 0;
}

/* ---- rules ---- */

/* Evaluate all rules; returns whether all hold. */
static int evaluate(struct selecting *w)
{
	struct select_report *p = w->report;
	int broken = 0, first = -1;

	memset(w->lacks, 0, (size_t)p->columns + 1);
	for (int i = 0; i < p->rules; i++) {
		w->holds[i] = (uint8_t)condition_holds(w->condition, i, w->value, w->lacks, &p->rule[i].undefined);
		broken += !w->holds[i];
		first = first < 0 && !w->holds[i] ? i : first;
	}
	for (int i = 0; i < p->rules; i++) {
		double v;

		p->rule[i].alone += !w->holds[i];
		p->rule[i].in_order += i == first;
		p->rule[i].only += i == first && broken == 1;
		if (condition_measure(w->condition, i, w->value, &v))
			binning_add(&p->rule[i].bins, v, !broken);
	}
	for (int i = 0; i < p->columns; i++)
		p->column[i].lacking += w->lacks[i];
	return !broken;
}

static int take(struct selecting *w, const struct sample *x, struct err *e)
{
	if (!w->open && open_output(w, e))
		return -1;
	if (samplecolumns_read(w->columns, x, samples_class_names(w->samples), w->value, e))
		return samples_bad(w->samples, e);
	w->report->samples++;
	if (!evaluate(w))
		return 0;
	w->report->kept++;
	return write_sample(w, x, e);
}

/* Every column that a comparison or the table needs was in some sample. */
static int check_columns(const struct selecting *w, struct err *e)
{
	for (int i = 0; i < w->names && w->report->samples; i++)
		if (!samplecolumns_found(w->columns, i) && (i >= w->report->columns || condition_needs(w->condition, i)))
			return samplecolumns_unknown(w->columns, i, e);
	return 0;
}

static int select_samples(struct selecting *w, struct err *e)
{
	struct sample x;
	int rc;

	w->samples = open_samples(w, 0, e);
	if (!w->samples)
		return -1;
	while ((rc = samples_next(w->samples, &x, e)) > 0)
		if (take(w, &x, e) || tell(w, w->samples, "samples", e))
			return -1;
	w->report->skipped = samples_skipped(w->samples);
	if (!rc && !w->open) /* every sample was bad */
		rc = err_set(e, ERR_DATA, "no samples: %lld skipped", (long long)w->report->skipped);
	if (rc || check_columns(w, e))
		return -1;
	w->report->judged = 1;
	return 0;
}

/* ---- report ---- */

static json_t *rule_facts(const struct select_rule *r)
{
	json_t *o = json_pack("{s:o, s:I, s:I, s:I}", "rule", jsonio_text(r->text), "alone", (json_int_t)r->alone, "in_order",
	                      (json_int_t)r->in_order, "only", (json_int_t)r->only);

	if (r->undefined)
		json_object_set_new(o, "undefined", json_integer(r->undefined));
	return o;
}

static int write_report(const struct selecting *w, struct err *e)
{
	const struct select_report *p = w->report;
	json_t *rules = json_array(), *lacking = json_object(), *o;
	int rc;

	for (int i = 0; i < p->rules; i++)
		json_array_append_new(rules, rule_facts(&p->rule[i]));
	for (int i = 0; i < p->columns; i++)
		if (p->column[i].lacking)
			json_object_set_new(lacking, p->column[i].name, json_integer(p->column[i].lacking));
	o = json_pack("{s:I, s:I, s:I, s:o, s:o, s:O}", "samples", (json_int_t)p->samples, "kept", (json_int_t)p->kept, "skipped",
	              (json_int_t)p->skipped, "rules", rules, "lacking", lacking, "stamp", stamp_root(w->stamp));
	rc = commit_json(w->r->report, o, e);
	json_decref(o);
	return rc;
}

/* The rule that dropped the most samples. */
static const struct select_rule *strictest(const struct select_report *p)
{
	const struct select_rule *most = &p->rule[0];

	for (int i = 1; i < p->rules; i++)
		if (p->rule[i].alone > most->alone)
			most = &p->rule[i];
	return most;
}

static int write_all(struct selecting *w, struct err *e)
{
	const struct select_report *p = w->report;
	char *line = stamp_line(w->stamp);
	int rc = 0;

	if (w->r->report)
		rc = write_report(w, e);
	if (!rc && w->r->chart)
		rc = w->r->draw(w->r->arg, p, line, e);
	mem_free(line);
	if (!rc && !p->kept && !w->r->table && !w->r->list)
		rc = err_set(e, ERR_DATA, "no sample is left of %lld: '%.200s' is false for %lld", (long long)p->samples, strictest(p)->text,
		             (long long)strictest(p)->alone);
	return rc ? -1 : finish_output(w, e);
}

static void fill_report(struct selecting *w)
{
	struct select_report *p = w->report;
	struct condition *c = p->condition = w->condition;

	p->rules = condition_rules(c);
	p->columns = condition_columns(c);
	p->rule = mem_zalloc((size_t)p->rules, sizeof *p->rule);
	p->column = mem_zalloc((size_t)p->columns + 1, sizeof *p->column);
	for (int i = 0; i < p->rules; i++) {
		p->rule[i].text = condition_rule(c, i);
		p->rule[i].measured = condition_measured(c, i, &p->rule[i].has_limit, &p->rule[i].limit);
	}
	for (int i = 0; i < p->columns; i++)
		p->column[i].name = condition_column(c, i);
	w->lacks = mem_zalloc((size_t)p->columns + 1, 1);
	w->holds = mem_zalloc((size_t)p->rules, 1);
	w->value = mem_zalloc((size_t)w->names + 1, sizeof *w->value);
}

void select_report_release(struct select_report *report)
{
	condition_free(report->condition);
	mem_free(report->rule);
	mem_free(report->column);
	*report = (struct select_report){0};
}

static void selecting_release(struct selecting *w)
{
	outfile_abort(&w->file);
	tar_release(&w->tar);
	tsv_abort(w->table);
	str_release(&w->list);
	samples_close(w->samples);
	samplecolumns_free(w->columns);
	stamp_free(w->stamp);
	json_decref(w->class_names);
	arena_release(&w->memory);
	mem_free(w->name);
	mem_free(w->value);
	mem_free(w->lacks);
	mem_free(w->holds);
}

static int make(struct selecting *w, struct err *e)
{
	const struct select_request *r = w->r;
	const char *const outputs[] = {r->out, r->report, r->chart};
	int there;

	if (find_names(w, e) || !(w->columns = samplecolumns_open(w->name, w->names, r->with.v, r->with.n, e)))
		return -1;
	fill_report(w);
	if (claim_take(outputs, 3, e) || scan(w, e))
		return -1;
	make_stamp(w);
	there = standing_all(outputs, 3, w->stamp, e);
	if (there < 0)
		return -1;
	if (there && *w->digest && standing_are_files(outputs, 3)) {
		w->report->there = 1;
		return 0;
	}
	if (select_samples(w, e) || write_all(w, e))
		return -1;
	w->report->made = 1;
	return samples_check(w->samples, e);
}

int select_make(const struct select_request *r, struct select_report *report, struct err *e)
{
	struct select_request usual = select_defaults();
	struct selecting w = {.r = r, .report = report};
	int rc;

	*report = (struct select_report){0};
	if (option_check_request(select_options, r, &usual, e))
		return -1;
	if (r->table && r->list)
		return err_set(e, ERR_USAGE, "--table and --list are two outputs: choose one");
	w.condition = condition_parse(r->condition, e);
	if (!w.condition)
		return -1;
	rc = make(&w, e);
	claim_drop((const char *const[]){r->out, r->report, r->chart}, 3);
	if (!report->condition)
		condition_free(w.condition);
	selecting_release(&w);
	return rc;
}
