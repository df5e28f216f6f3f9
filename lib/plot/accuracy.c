/* Reads a router's accuracy at each noise level from the last validation in its training log. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "plot/sources.h"

enum { LONGEST_LINE = 1 << 26 };

/* The last "val_by_time" with an accuracy in the log; caller json_decref()s it. A last line without newline that cannot be parsed is ignored: a
 * killed process left it. NULL and *e on failure. */
static json_t *last_validation(FILE *f, const char *path, struct sha256 *hash, struct err *e)
{
	json_t *found = NULL;
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int64_t number = 0;
	int rc = 0;

	while (!rc && (n = getline(&line, &room, f)) > 0) {
		json_t *o, *v;

		number++;
		sha256_add(hash, line, (size_t)n);
		o = n < LONGEST_LINE ? json_loadb(line, (size_t)n, JSON_REJECT_DUPLICATES, NULL) : NULL;
		if (!o && n > 1 && line[n - 1] == '\n')
			rc = err_set(e, ERR_DATA, "%s:%lld: not a line of JSON", path, (long long)number);
		v = json_object_get(o, "val_by_time");
		if (json_object_get(json_array_get(v, 0), "accuracy")) {
			json_decref(found);
			found = json_incref(v);
		}
		json_decref(o);
	}
	if (!rc && ferror(f))
		rc = err_errno(e, "%s: read", path);
	mem_free(line);
	if (!rc && !json_array_size(found))
		rc =
		    err_set(e, ERR_DATA, "%s: no \"val_by_time\" has an accuracy: it is not the log of a router, or the run had no validation", path);
	if (!rc)
		return found;
	json_decref(found);
	return NULL;
}

static int points_add(struct chart *c, const json_t *times, const char *label, const char *path, struct err *e)
{
	struct chart_series *s = chart_series_add(c, label, CHART_LINE | CHART_POINTS);

	for (size_t i = 0; i < json_array_size(times); i++) {
		const json_t *o = json_array_get(times, i), *t = json_object_get(o, "t"), *right = json_object_get(o, "accuracy");

		if (!json_is_number(t) || !json_is_number(right))
			return err_set(e, ERR_DATA, "%s: \"val_by_time\" has no \"t\" and \"accuracy\"", path);
		chart_point(s, json_number_value(t), json_number_value(right));
	}
	return 0;
}

int source_accuracy(struct chart *c, const char *path, const char *label, char hash[65], struct err *e)
{
	int from_stdin = !strcmp(path, "-"), rc;
	FILE *f = from_stdin ? stdin : fopen(path, "re");
	struct sha256 sum;
	json_t *times;
	char hex[65];

	if (!f)
		return err_errno(e, "%s", path);
	sha256_init(&sum);
	times = last_validation(f, from_stdin ? "standard input" : path, &sum, e);
	sha256_end(&sum, hex);
	if (hash)
		memcpy(hash, hex, sizeof hex);
	rc = times ? points_add(c, times, label, path, e) : -1;
	if (!c->x_label)
		chart_text_set(&c->x_label, "t (1: noise, 0: data)");
	if (!c->y_label)
		chart_text_set(&c->y_label, "share of held-out pictures whose cluster is predicted");
	c->reverse_x = c->from_zero = 1;
	json_decref(times);
	if (!from_stdin)
		fclose(f);
	return rc;
}
