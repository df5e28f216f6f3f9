/* Whether one arm of an experiment differs from another: paired differences over training seeds, with a t-interval. */
#include <string.h>

#include "cmd/cmd.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "metric/paired.h"

static const char *key = "kd-pix", *out = "-";
static double level = .95;

static const struct opt options[] = {
    {.name = "--key",
     .letter = 'k',
     .type = OPT_TEXT,
     .value = &key,
     .arg = "KEY",
     .help = "the number to compare (default kd-pix)"},
    {.name = "--level",
     .type = OPT_REAL,
     .value = &level,
     .lo = .5,
     .hi = .9999,
     .arg = "P",
     .help = "of the interval (default 0.95)"},
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
    .synopsis = "[-k KEY] [--level P] [-o FILE] LABEL=FILE LABEL=FILE...",
    .about = "Compare arms over seeds: the mean difference from the first label, with a paired t-interval.",
    .options = options,
};

struct arm {
	const char *label;
	size_t length; /* of the label, which is not terminated */
	double *value; /* one per file, in the order given */
	int n;
};

struct arms {
	struct arm *v;
	int n;
	json_t *first; /* what the first file said, to hold the others against; owned */
	const char *first_path;
	json_t *seen; /* samples' hash -> path; owned */
};

static struct arm *arm_find(struct arms *a, const char *label, size_t length)
{
	for (int i = 0; i < a->n; i++)
		if (a->v[i].length == length && !memcmp(a->v[i].label, label, length))
			return &a->v[i];
	a->v = mem_resize(a->v, (size_t)a->n + 1, sizeof *a->v);
	a->v[a->n] = (struct arm){.label = label, .length = length};
	return &a->v[a->n++];
}

static int same_member(const json_t *x, const json_t *y, const char *name)
{
	const json_t *p = json_object_get(x, name), *q = json_object_get(y, name);

	return p && q ? json_equal((json_t *)p, (json_t *)q) : p == q;
}

/* Numbers compare only when they were made alike; samples that come twice are one seed counted twice. */
static int file_fits(struct arms *a, const json_t *line, const char *path, struct err *e)
{
	static const char *const input[] = {"reference", "heldout", "train"};
	const json_t *in = json_object_get(line, "inputs");
	const char *samples = json_string_value(json_object_get(in, "samples")), *before;

	if (!same_member(line, a->first, "recipe"))
		return err_set(e, ERR_DATA, "%s and %s were made by different recipes", a->first_path, path);
	for (int i = 0; i < 3; i++)
		if (!same_member(in, json_object_get(a->first, "inputs"), input[i]))
			return err_set(e, ERR_DATA, "%s and %s were measured against different pictures (%s)", a->first_path,
			               path, input[i]);
	if (!samples)
		return 0;
	before = json_string_value(json_object_get(a->seen, samples));
	if (before)
		return err_set(e, ERR_DATA, "%s and %s measured the same samples", before, path);
	json_object_set_new(a->seen, samples, json_string(path));
	return 0;
}

static int operand_read(struct arms *a, const char *operand, struct err *e)
{
	const char *cut = strchr(operand, '='), *path = cut ? cut + 1 : "";
	struct arm *arm;
	double v = 0;
	json_t *line;
	int rc;

	if (!cut || cut == operand || !*path)
		return err_set(e, ERR_USAGE, "\"%s\" is not LABEL=FILE", operand);
	line = jsonio_load(path, e);
	if (!line)
		return -1;
	if (!a->first) {
		a->first = json_incref(line);
		a->first_path = path;
	}
	rc = file_fits(a, line, path, e) || jsonio_f64(line, key, 1, -1e300, 1e300, &v, path, e) ? -1 : 0;
	json_decref(line);
	if (rc)
		return -1;
	arm = arm_find(a, operand, (size_t)(cut - operand));
	arm->value = mem_resize(arm->value, (size_t)arm->n + 1, sizeof *arm->value);
	arm->value[arm->n++] = v;
	return 0;
}

static int line_add(struct str *text, const struct arm *base, const struct arm *arm, struct err *e)
{
	struct paired p;
	json_t *o;
	char *line;

	if (arm->n != base->n)
		return err_set(e, ERR_USAGE, "\"%.*s\" has %d files, \"%.*s\" %d: they cannot be paired", (int)base->length,
		               base->label, base->n, (int)arm->length, arm->label, arm->n);
	if (paired_compare(&p, arm->value, base->value, arm->n, level, e))
		return -1;
	o = json_object();
	json_object_set_new(o, "key", json_string(key));
	json_object_set_new(o, "label", json_stringn(arm->label, arm->length));
	json_object_set_new(o, "against", json_stringn(base->label, base->length));
	json_object_set_new(o, "pairs", json_integer(arm->n));
	json_object_set_new(o, "difference", jsonio_real(p.mean));
	json_object_set_new(o, "sd", jsonio_real(p.sd));
	json_object_set_new(o, "level", jsonio_real(level));
	json_object_set_new(o, "low", jsonio_real(p.low));
	json_object_set_new(o, "high", jsonio_real(p.high));
	json_object_set_new(o, "t", jsonio_real(p.t));
	json_object_set_new(o, "p", jsonio_real(p.p));
	line = jsonio_line(o);
	str_puts(text, line);
	str_puts(text, "\n");
	mem_free(line);
	json_decref(o);
	return 0;
}

int main(int argc, char **argv)
{
	struct arms a = {.seen = json_object()};
	struct str text = {0};
	struct err e = {0};
	int n = cmd_start(&program, argc, argv, 2, -1);

	for (int i = 1; i <= n && !e.code; i++)
		operand_read(&a, argv[i], &e);
	if (!e.code && a.n < 2)
		err_set(&e, ERR_USAGE, "there is one label only: nothing to compare");
	for (int i = 1; i < a.n && !e.code; i++)
		line_add(&text, &a.v[0], &a.v[i], &e);
	if (!e.code)
		commit_bytes(out, str_text(&text), text.len, &e);
	for (int i = 0; i < a.n; i++)
		mem_free(a.v[i].value);
	mem_free(a.v);
	json_decref(a.first);
	json_decref(a.seen);
	str_release(&text);
	return cmd_end(&e);
}
