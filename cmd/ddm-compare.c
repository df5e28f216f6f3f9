/* Whether one arm of an experiment differs from another: paired differences over training seeds, with a t-interval. */
#include <math.h>
#include <string.h>

#include "cmd/cmd.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/tsv.h"
#include "metric/paired.h"

static const char *keys = "kd-pix", *out = "-";
static double level = .95;
static int as_table;

static const struct opt options[] = {
    {.name = "--key",
     .letter = 'k',
     .type = OPT_TEXT,
     .value = &keys,
     .arg = "KEYS",
     .help = "the numbers to compare, with commas or spaces between (default kd-pix)"},
    {.name = "--level",
     .type = OPT_REAL,
     .value = &level,
     .lo = .5,
     .hi = .9999,
     .arg = "P",
     .help = "of the interval (default 0.95)"},
    {.name = "--tsv", .type = OPT_FLAG, .value = &as_table, .help = "a table of means and differences instead of JSON"},
    {.name = "--output",
     .letter = 'o',
     .type = OPT_TEXT,
     .value = &out,
     .arg = "FILE",
     .help = "write the lines there (default standard output)"},
    {0},
};

static const struct program program = {
    .name = "ddm-compare",
    .synopsis = "[-k KEYS] [--level P] [--tsv] [-o FILE] LABEL=FILE LABEL=FILE...",
    .about = "Compare arms over seeds: the mean difference from the first label, with a paired t-interval.",
    .options = options,
};

struct series {
	double *value; /* one per file that has the key, in the order given */
	int n;
};

struct arm {
	char *label; /* owned */
	struct series *of; /* (keys) */
};

struct arms {
	struct arm *v;
	int n;
	char **key; /* (keys) owned */
	int keys;
	json_t *first; /* what the first file said, to hold the others against; owned */
	const char *first_path;
	json_t *seen; /* label -> samples' hash -> path; owned */
};

static struct arm *arm_find(struct arms *a, const char *label, size_t length)
{
	for (int i = 0; i < a->n; i++)
		if (strlen(a->v[i].label) == length && !memcmp(a->v[i].label, label, length))
			return &a->v[i];
	a->v = mem_resize(a->v, (size_t)a->n + 1, sizeof *a->v);
	a->v[a->n] = (struct arm){mem_strndup(label, length), mem_zalloc((size_t)a->keys, sizeof *a->v->of)};
	return &a->v[a->n++];
}

static int same_member(const json_t *x, const json_t *y, const char *name)
{
	const json_t *p = json_object_get(x, name), *q = json_object_get(y, name);

	return p && q ? json_equal((json_t *)p, (json_t *)q) : p == q;
}

/* Numbers compare only when they were made alike; samples that come twice in an arm are one seed counted twice. */
static int file_fits(struct arms *a, const char *label, const json_t *line, const char *path, struct err *e)
{
	static const char *const input[] = {"reference", "heldout", "train"};
	const json_t *in = json_object_get(line, "inputs");
	const char *samples = json_string_value(json_object_get(in, "samples")), *before;
	json_t *seen;

	if (!same_member(line, a->first, "recipe"))
		return err_set(e, ERR_DATA, "%s and %s were made by different recipes", a->first_path, path);
	for (int i = 0; i < 3; i++)
		if (!same_member(in, json_object_get(a->first, "inputs"), input[i]))
			return err_set(e, ERR_DATA, "%s and %s were measured against different pictures (%s)", a->first_path,
			               path, input[i]);
	if (!samples)
		return 0;
	seen = json_object_get(a->seen, label);
	if (!seen) {
		seen = json_object();
		json_object_set_new(a->seen, label, seen);
	}
	before = json_string_value(json_object_get(seen, samples));
	if (before)
		return err_set(e, ERR_DATA, "%s and %s measured the same samples", before, path);
	json_object_set_new(seen, samples, json_string(path));
	return 0;
}

/* Appends what the line has of the keys; there must be something. */
static int values_read(struct arms *a, struct arm *arm, const json_t *line, const char *path, struct err *e)
{
	int found = 0;

	for (int i = 0; i < a->keys; i++) {
		struct series *s = &arm->of[i];
		double v;

		if (!json_object_get(line, a->key[i]))
			continue;
		if (jsonio_f64(line, a->key[i], 1, -1e300, 1e300, &v, path, e))
			return -1;
		s->value = mem_resize(s->value, (size_t)s->n + 1, sizeof *s->value);
		s->value[s->n++] = v;
		found = 1;
	}
	return found ? 0 : err_set(e, ERR_DATA, "%s: there is no \"%s\" in it", path, keys);
}

static int operand_read(struct arms *a, const char *operand, struct err *e)
{
	const char *cut = strchr(operand, '='), *path = cut ? cut + 1 : "";
	struct arm *arm;
	json_t *line;
	int rc;

	if (!cut || cut == operand || !*path)
		return err_set(e, ERR_USAGE, "\"%s\" is not LABEL=FILE", operand);
	line = jsonio_load(path, e);
	if (!line)
		return -1;
	if (!a->first && json_object_get(line, "recipe")) {
		a->first = json_incref(line);
		a->first_path = path;
	}
	arm = arm_find(a, operand, (size_t)(cut - operand));
	rc = json_object_get(line, "recipe") && file_fits(a, arm->label, line, path, e) ? -1 : values_read(a, arm, line, path, e);
	json_decref(line);
	return rc;
}

static int check_pairs(const struct arms *a, int k, struct err *e)
{
	const struct arm *base = &a->v[0];

	for (int i = 0; i < a->n; i++) {
		const struct arm *arm = &a->v[i];

		if (!arm->of[k].n)
			return err_set(e, ERR_DATA, "\"%s\": no file has \"%s\"", arm->label, a->key[k]);
		if (arm->of[k].n != base->of[k].n)
			return err_set(e, ERR_USAGE, "\"%s\" has %d files with \"%s\", \"%s\" %d: they cannot be paired",
			               base->label, base->of[k].n, a->key[k], arm->label, arm->of[k].n);
	}
	return 0;
}

static int line_add(struct str *text, const char *key, const struct arm *base, const struct arm *arm, int k, struct err *e)
{
	struct paired p;
	json_t *o;
	char *line;

	if (paired_compare(&p, arm->of[k].value, base->of[k].value, arm->of[k].n, level, e))
		return -1;
	o = json_object();
	json_object_set_new(o, "key", json_string(key));
	json_object_set_new(o, "label", json_string(arm->label));
	json_object_set_new(o, "against", json_string(base->label));
	json_object_set_new(o, "pairs", json_integer(arm->of[k].n));
	json_object_set_new(o, "difference", jsonio_real(p.mean));
	json_object_set_new(o, "sd", jsonio_real(p.sd));
	json_object_set_new(o, "level", jsonio_real(level));
	json_object_set_new(o, "low", jsonio_real(p.low));
	json_object_set_new(o, "high", jsonio_real(p.high));
	json_object_set_new(o, "t", jsonio_real(p.t));
	json_object_set_new(o, "p", jsonio_real(p.p));
	line = (strcmp(out, "-") ? jsonio_sealed_line : jsonio_line)(o);
	str_puts(text, line);
	str_puts(text, "\n");
	mem_free(line);
	json_decref(o);
	return 0;
}

static int write_lines(const struct arms *a, struct err *e)
{
	struct str text = {0};
	int rc = 0;

	for (int k = 0; k < a->keys && !rc; k++)
		for (int i = 1; i < a->n && !rc; i++)
			rc = line_add(&text, a->key[k], &a->v[0], &a->v[i], k, e);
	if (!rc)
		rc = commit_bytes(out, str_text(&text), text.len, e);
	str_release(&text);
	return rc;
}

static void put_or_dash(struct tsv_writer *w, int known, double v)
{
	if (known)
		tsv_put_f64(w, v);
	else
		tsv_put(w, "-");
}

static int row_add(struct tsv_writer *w, const char *key, const struct arm *base, const struct arm *arm, int k, struct err *e)
{
	const struct series *s = &arm->of[k], *b = &base->of[k];
	double mean = 0, square = 0, difference = 0;
	struct paired p = {0};
	int paired = arm != base && s->n > 1;

	for (int i = 0; i < s->n; i++) {
		mean += s->value[i] / s->n;
		difference += (s->value[i] - b->value[i]) / s->n;
	}
	for (int i = 0; i < s->n; i++)
		square += (s->value[i] - mean) * (s->value[i] - mean);
	if (paired && paired_compare(&p, s->value, b->value, s->n, level, e))
		return -1;
	tsv_put(w, key);
	tsv_put(w, arm->label);
	tsv_put_i64(w, s->n);
	tsv_put_f64(w, mean);
	put_or_dash(w, s->n > 1, s->n > 1 ? sqrt(square / (s->n - 1)) : 0);
	put_or_dash(w, arm != base, difference);
	put_or_dash(w, paired, p.low);
	put_or_dash(w, paired, p.high);
	put_or_dash(w, paired, p.p);
	return tsv_row(w, e);
}

static int write_table(const struct arms *a, struct err *e)
{
	static const char *const names[] = {"key", "arm", "seeds", "mean", "sd", "difference", "low", "high", "p"};
	struct stamp *stamp = stamp_new("ddm-compare");
	struct tsv_writer *w;
	int rc = 0;

	stamp_f64(stamp, "level", level);
	w = tsv_create(out, names, sizeof names / sizeof *names, stamp, e);
	stamp_free(stamp);
	if (!w)
		return -1;
	for (int k = 0; k < a->keys && !rc; k++)
		for (int i = 0; i < a->n && !rc; i++)
			rc = row_add(w, a->key[k], &a->v[0], &a->v[i], k, e);
	if (!rc)
		return tsv_commit(w, e);
	tsv_abort(w);
	return -1;
}

static void split_keys(struct arms *a)
{
	const char *p = keys;

	while (*(p += strspn(p, ", "))) {
		size_t n = strcspn(p, ", ");

		a->key = mem_resize(a->key, (size_t)a->keys + 1, sizeof *a->key);
		a->key[a->keys++] = mem_strndup(p, n);
		p += n;
	}
}

static void arms_release(struct arms *a)
{
	for (int i = 0; i < a->n; i++) {
		for (int k = 0; k < a->keys; k++)
			mem_free(a->v[i].of[k].value);
		mem_free(a->v[i].of);
		mem_free(a->v[i].label);
	}
	for (int k = 0; k < a->keys; k++)
		mem_free(a->key[k]);
	mem_free(a->key);
	mem_free(a->v);
	json_decref(a->first);
	json_decref(a->seen);
}

int main(int argc, char **argv)
{
	struct arms a = {.seen = json_object()};
	struct err e = {0};
	int n = cmd_start(&program, argc, argv, 2, -1);

	split_keys(&a);
	if (!a.keys)
		err_set(&e, ERR_USAGE, "-k: no key");
	for (int i = 1; i <= n && !e.code; i++)
		operand_read(&a, argv[i], &e);
	if (!e.code && a.n < 2)
		err_set(&e, ERR_USAGE, "there is one label only: nothing to compare");
	for (int k = 0; k < a.keys && !e.code; k++)
		check_pairs(&a, k, &e);
	if (!e.code)
		as_table ? write_table(&a, &e) : write_lines(&a, &e);
	arms_release(&a);
	return cmd_end(&e);
}
