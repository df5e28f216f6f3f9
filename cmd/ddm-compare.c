/* ddm-compare: tests whether arms of an experiment differ, by paired differences over training seeds with a t-interval. */
#include <math.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/compare.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/standing.h"
#include "file/tsv.h"

static const char *keys = "kd-pix", *out = "-";
static double level = .95;
static int as_table, holm;

static const struct option options[] = {
    {.name = "--key",
     .letter = 'k',
     .type = OPTION_TEXT,
     .value = &keys,
     .arg = "KEYS",
     .help = "the numbers to compare, with commas or spaces between (default kd-pix)",
     OPTION_ALWAYS},
    {.name = "--level",
     .type = OPTION_REAL,
     .value = &level,
     .lo = .5,
     .hi = .9999,
     .arg = "P",
     .help = "confidence level of the interval (default 0.95)",
     OPTION_ALWAYS},
    {.name = "--tsv", .type = OPTION_FLAG, .value = &as_table, .help = "write a table of means and differences instead of JSON", OPTION_ALWAYS},
    {.name = "--holm",
     .type = OPTION_FLAG,
     .value = &holm,
     .help = "also correct the p values for the number of arms and keys (Holm)",
     OPTION_ALWAYS},
    {.name = "--output",
     .letter = 'o',
     .type = OPTION_TEXT,
     .value = &out,
     .arg = "FILE",
     .help = "write the lines to FILE (default standard output)",
     OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-compare",
    .operands = "LABEL=FILE[,FILE]... LABEL=FILE[,FILE]...",
    .about = "Compare arms over seeds: the mean difference from the first label, with a paired t-interval.",
    .options = options,
};

static int line_add(struct str *text, const struct arms *a, const struct comparison *c, const struct comparison *base, int tests, struct err *e)
{
	const struct arm *arm = &a->v[c->arm];
	json_t *o;
	char *line;

	if (!c->compared)
		return err_set(e, ERR_USAGE, "a paired interval needs at least 2 pairs: \"%s\" has one file with \"%s\" (--tsv shows means)",
		               arm->label, a->key[c->key]);
	o = json_object();
	json_object_set_new(o, "key", json_string(a->key[c->key]));
	json_object_set_new(o, "label", json_string(arm->label));
	json_object_set_new(o, "against", json_string(a->v[0].label));
	json_object_set_new(o, "pairs", json_integer(arm->of[c->key].n));
	json_object_set_new(o, "difference", jsonio_real(c->p.mean));
	json_object_set_new(o, "sd", jsonio_real(c->p.sd));
	json_object_set_new(o, "level", jsonio_real(level));
	json_object_set_new(o, "low", jsonio_real(c->p.low));
	json_object_set_new(o, "high", jsonio_real(c->p.high));
	json_object_set_new(o, "t", jsonio_real(c->p.t));
	json_object_set_new(o, "p", jsonio_real(c->p.p));
	json_object_set_new(o, "seed_sd", jsonio_real(c->sd));
	json_object_set_new(o, "seed_sd_against", jsonio_real(base->sd));
	if (holm) {
		json_object_set_new(o, "p_holm", jsonio_real(c->holm));
		json_object_set_new(o, "tests", json_integer(tests));
	}
	line = (strcmp(out, "-") ? jsonio_sealed_line : jsonio_line)(o);
	str_puts(text, line);
	str_puts(text, "\n");
	mem_free(line);
	json_decref(o);
	return 0;
}

/* Keys that identify a line that this program wrote (standing_view). */
static const char *const line_keys[] = {"key", "label", "against", "pairs", "difference", NULL};

static int write_lines(const struct arms *a, const struct comparison *c, struct err *e)
{
	struct str text = {0};
	int rc = 0, tests = 0;

	for (int i = 0; i < a->keys * a->n; i++)
		tests += isfinite(c[i].holm);
	for (int i = 0; i < a->keys * a->n && !rc; i++)
		if (c[i].arm)
			rc = line_add(&text, a, &c[i], &c[i - c[i].arm], tests, e);
	if (!rc)
		rc = commit_bytes(out, str_text(&text), text.len, e);
	str_release(&text);
	return rc;
}

/* Write a cell of the table, or "-" if the value is not known. */
static void put_or_dash(struct tsv_writer *w, int known, double v)
{
	if (known)
		tsv_put_f64(w, v);
	else
		tsv_put(w, "-");
}

static int row_add(struct tsv_writer *w, const struct arms *a, const struct comparison *c, struct err *e)
{
	const struct arm *arm = &a->v[c->arm];

	tsv_put(w, a->key[c->key]);
	tsv_put(w, arm->label);
	tsv_put_i64(w, arm->of[c->key].n);
	tsv_put_f64(w, c->mean);
	put_or_dash(w, arm->of[c->key].n > 1, c->sd);
	put_or_dash(w, c->arm > 0, c->difference);
	put_or_dash(w, c->compared, c->p.low);
	put_or_dash(w, c->compared, c->p.high);
	put_or_dash(w, c->compared, c->p.p);
	if (holm)
		put_or_dash(w, isfinite(c->holm), c->holm);
	return tsv_row(w, e);
}

static int write_table(const struct arms *a, const struct comparison *c, struct err *e)
{
	static const char *const names[] = {"key", "arm", "seeds", "mean", "sd", "difference", "low", "high", "p", "p_holm"};
	struct stamp *stamp = stamp_new("ddm-compare");
	struct tsv_writer *w;
	int rc = 0;

	stamp_f64(stamp, "level", level);
	if (holm)
		stamp_text(stamp, "correction", "holm");
	w = tsv_create(out, names, (int)(sizeof names / sizeof *names) - !holm, stamp, e);
	stamp_free(stamp);
	if (!w)
		return -1;
	for (int i = 0; i < a->keys * a->n && !rc; i++)
		rc = row_add(w, a, &c[i], e);
	if (!rc)
		return tsv_commit(w, e);
	tsv_abort(w);
	return -1;
}

int main(int argc, char **argv)
{
	struct arms a = {0};
	struct comparison *c = NULL;
	struct err e = {0};
	int n = cmd_start(&program, argc, argv, 2, -1);

	arms_init(&a, keys, &e);
	if (!e.code && !claim_take(&out, 1, &e))
		standing_view(out, program.name, line_keys, &e);
	for (int i = 1; i <= n && !e.code; i++)
		arms_read(&a, argv[i], &e);
	if (!e.code && a.n < 2)
		err_set(&e, ERR_USAGE, "there is one label only: nothing to compare");
	if (!e.code && !arms_check(&a, &e))
		c = arms_compare(&a, level, &e);
	if (c)
		as_table ? write_table(&a, c, &e) : write_lines(&a, c, &e);
	mem_free(c);
	arms_release(&a);
	return cmd_end(&e);
}
