/* For ddm-compare: reads the arms of an experiment and compares each with the first. */
#include "cmd/compare.h"

#include <math.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"

/* The arm with this label, which is added if it is new. */
static struct arm *arm_find(struct arms *a, const char *label, size_t length)
{
	for (int i = 0; i < a->n; i++)
		if (strlen(a->v[i].label) == length && !memcmp(a->v[i].label, label, length))
			return &a->v[i];
	a->v = mem_resize(a->v, (size_t)a->n + 1, sizeof *a->v);
	a->v[a->n] = (struct arm){mem_strndup(label, length), mem_zalloc((size_t)a->keys, sizeof *a->v->of)};
	return &a->v[a->n++];
}

/* Whether a member is equal in both objects, or absent from both. */
static int same_member(const json_t *x, const json_t *y, const char *name)
{
	const json_t *p = json_object_get(x, name), *q = json_object_get(y, name);

	return p && q ? json_equal((json_t *)p, (json_t *)q) : p == q;
}

/* The members in which two recipes differ, such as "frames, fps". */
static void recipe_differs(struct str *out, const json_t *p, const json_t *q)
{
	const char *key;
	json_t *v;

	json_object_foreach ((json_t *)p, key, v)
		if (!same_member(p, q, key))
			str_printf(out, "%s%s", out->len ? ", " : "", key);
	json_object_foreach ((json_t *)q, key, v)
		if (!json_object_get(p, key))
			str_printf(out, "%s%s", out->len ? ", " : "", key);
}

/* Check that a file can be compared with the others: it has the same recipe and was measured against the same pictures, and its samples or its model
 * are not already in this arm, which would count one seed twice. ERR_DATA otherwise. */
static int file_fits(struct arms *a, const char *label, const json_t *line, const char *path, struct err *e)
{
	static const char *const input[] = {"reference", "heldout", "train"};
	const json_t *in = json_object_get(line, "inputs");
	const char *kind = json_object_get(in, "samples") ? "samples" : "model", *measured = json_string_value(json_object_get(in, kind)), *before;
	json_t *seen;

	if (!same_member(line, a->first, "recipe")) {
		struct str what = {0};

		recipe_differs(&what, json_object_get(a->first, "recipe"), json_object_get(line, "recipe"));
		err_set(e, ERR_DATA, "%s and %s were made by different recipes (%s)", a->first_path, path, str_text(&what));
		str_release(&what);
		return -1;
	}
	for (int i = 0; i < 3; i++)
		if (!same_member(in, json_object_get(a->first, "inputs"), input[i]))
			return err_set(e, ERR_DATA, "%s and %s were measured against different pictures (%s)", a->first_path, path, input[i]);
	if (!measured)
		return 0;
	seen = json_object_get(a->seen, label);
	if (!seen) {
		seen = json_object();
		json_object_set_new(a->seen, label, seen);
	}
	before = json_string_value(json_object_get(seen, measured));
	if (before)
		return err_set(e, ERR_DATA, "%s and %s measured the same %s", before, path, kind);
	json_object_set_new(seen, measured, json_string(path));
	return 0;
}

/* Append the line's values of the keys to the arm. ERR_DATA if the line has none of the keys. */
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
	return found ? 0 : err_set(e, ERR_DATA, "%s: has no \"%s\"", path, a->names);
}

/* Add a file to the arm whose label is the first `label` bytes of `operand`. */
static int file_read(struct arms *a, const char *operand, size_t label, const char *path, struct err *e)
{
	json_t *line = jsonio_load(path, e);
	struct arm *arm;
	int rc;

	if (!line)
		return -1;
	if (!a->first && json_object_get(line, "recipe")) {
		a->first = json_incref(line);
		a->first_path = mem_strdup(path);
	}
	arm = arm_find(a, operand, label);
	rc = json_object_get(line, "recipe") && file_fits(a, arm->label, line, path, e) ? -1 : values_read(a, arm, line, path, e);
	json_decref(line);
	return rc;
}

int arms_read(struct arms *a, const char *operand, struct err *e)
{
	const char *cut = strchr(operand, '='), *path = cut ? cut + 1 : "";
	int rc = 0;

	if (!cut || cut == operand || !*path)
		return err_set(e, ERR_USAGE, "\"%s\" is not LABEL=FILE", operand);
	if (!strchr(path, ',') || path_exists(path))
		return file_read(a, operand, (size_t)(cut - operand), path, e);
	while (path && !rc) {
		size_t length = strcspn(path, ",");
		char *one = mem_strndup(path, length);

		rc = *one ? file_read(a, operand, (size_t)(cut - operand), one, e)
		          : err_set(e, ERR_USAGE, "\"%s\": a file name is missing beside a comma", operand);
		mem_free(one);
		path = path[length] ? path + length + 1 : NULL;
	}
	return rc;
}

/* Check that every arm has values of key k, and as many as the first arm. */
static int check_pairs(const struct arms *a, int k, struct err *e)
{
	const struct arm *base = &a->v[0];

	for (int i = 0; i < a->n; i++) {
		const struct arm *arm = &a->v[i];

		if (!arm->of[k].n)
			return err_set(e, ERR_DATA, "\"%s\": no file has \"%s\"", arm->label, a->key[k]);
		if (arm->of[k].n != base->of[k].n)
			return err_set(e, ERR_USAGE, "\"%s\" has %d files with \"%s\", \"%s\" %d: they cannot be paired", base->label, base->of[k].n,
			               a->key[k], arm->label, arm->of[k].n);
	}
	return 0;
}

int arms_check(const struct arms *a, struct err *e)
{
	for (int k = 0; k < a->keys; k++)
		if (check_pairs(a, k, e))
			return -1;
	return 0;
}

/* Compare c->arm with the first arm on c->key. */
static int compare_row(struct comparison *c, const struct arms *a, double level, struct err *e)
{
	const struct series *s = &a->v[c->arm].of[c->key], *b = &a->v[0].of[c->key];
	double square = 0;

	c->holm = NAN;
	for (int i = 0; i < s->n; i++) {
		c->mean += s->value[i] / s->n;
		c->difference += (s->value[i] - b->value[i]) / s->n;
	}
	for (int i = 0; i < s->n; i++)
		square += (s->value[i] - c->mean) * (s->value[i] - c->mean);
	c->sd = s->n > 1 ? sqrt(square / (s->n - 1)) : NAN;
	c->compared = c->arm > 0 && s->n > 1;
	return c->compared ? paired_compare(&c->p, s->value, b->value, s->n, level, e) : 0;
}

/* Whether the difference is the same in every pair, up to rounding. */
static int is_constant(const struct comparison *c)
{
	return c->p.sd <= 1e-12 * (fabs(c->p.mean) + fabs(c->mean));
}

/* Correct the p values of all rows that are tests (Holm). */
static void correct(struct comparison *c, int n)
{
	double *p = mem_zalloc((size_t)n, sizeof *p);
	int m = 0;

	for (int i = 0; i < n; i++)
		if (c[i].compared && !is_constant(&c[i]))
			p[m++] = c[i].p.p;
	holm_adjust(p, m);
	m = 0;
	for (int i = 0; i < n; i++)
		if (c[i].compared && !is_constant(&c[i]))
			c[i].holm = p[m++];
	mem_free(p);
}

struct comparison *arms_compare(const struct arms *a, double level, struct err *e)
{
	struct comparison *c = mem_zalloc((size_t)a->keys * (size_t)a->n, sizeof *c);

	for (int i = 0; i < a->keys * a->n; i++) {
		c[i].key = i / a->n;
		c[i].arm = i % a->n;
		if (compare_row(&c[i], a, level, e)) {
			mem_free(c);
			return NULL;
		}
	}
	correct(c, a->keys * a->n);
	return c;
}

int arms_init(struct arms *a, const char *names, struct err *e)
{
	const char *p = names;

	*a = (struct arms){.names = names, .seen = json_object()};
	while (*(p += strspn(p, ", "))) {
		size_t n = strcspn(p, ", ");

		a->key = mem_resize(a->key, (size_t)a->keys + 1, sizeof *a->key);
		a->key[a->keys++] = mem_strndup(p, n);
		p += n;
	}
	return a->keys ? 0 : err_set(e, ERR_USAGE, "-k: no key");
}

void arms_release(struct arms *a)
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
	mem_free(a->first_path);
	json_decref(a->first);
	json_decref(a->seen);
}
