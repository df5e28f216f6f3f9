/* Lists on the command line and tables of the commands of ddm-diagnose. */
#include "cmd/diagnose_table.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "diffusion/policy.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/standing.h"
#include "file/tsv.h"

static void words_add(struct words *w, const char *text, size_t len)
{
	w->v = mem_resize(w->v, (size_t)w->n + 1, sizeof *w->v);
	w->v[w->n++] = str_new("%.*s", (int)len, text);
}

void words_cut(struct words *w, const char *text)
{
	while (text) {
		size_t n = strcspn(text, ",");

		words_add(w, text, n);
		text = text[n] ? text + n + 1 : NULL;
	}
}

void words_cut_routes(struct words *w, const char *text)
{
	while (text) {
		size_t n = policy_span(text);

		words_add(w, text, n);
		text = text[n] ? text + n + 1 : NULL;
	}
}

void words_release(struct words *w)
{
	for (int i = 0; i < w->n; i++)
		mem_free(w->v[i]);
	mem_free(w->v);
}

json_t *words_list(const struct words *w)
{
	json_t *list = json_array();

	for (int i = 0; i < w->n; i++)
		json_array_append_new(list, json_string(w->v[i]));
	return list;
}

int diagnose_times(double time[DIAGNOSE_TIMES], int *n, const char *text, struct err *e)
{
	struct words w = {0};
	int rc = 0;

	words_cut(&w, text);
	if (w.n > DIAGNOSE_TIMES)
		rc = err_set(e, ERR_USAGE, "--timesteps: %d times, more than the limit of %d", w.n, DIAGNOSE_TIMES);
	for (int i = 0; i < w.n && !rc; i++)
		if (parse_f64(w.v[i], .001, 1, &time[(*n)++]))
			rc = err_set(e, ERR_USAGE, "--timesteps: '%s' is not a time from .001 to 1", w.v[i]);
	words_release(&w);
	return rc;
}

json_t *diagnose_time_list(const double *time, int n)
{
	json_t *list = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(list, json_real(time[i]));
	return list;
}

void diagnose_stamp_model(struct stamp *s, const struct ensemble *m)
{
	for (int i = 0; i < m->files; i++)
		stamp_input(s, m->file[i].name, m->file[i].hash);
}

int diagnose_table(const char *path, const json_t *rows, const struct stamp *stamp, struct err *e)
{
	json_t *first = json_array_get(rows, 0), *row, *v;
	const char **names = mem_zalloc(json_object_size(first), sizeof *names), *key;
	struct tsv_writer *w;
	int n = 0, rc = 0;
	size_t i;

	json_object_foreach (first, key, v)
		names[n++] = key;
	w = tsv_create(path, names, n, stamp, e);
	json_array_foreach (rows, i, row) {
		json_object_foreach (row, key, v) {
			if (!w || rc)
				break;
			if (json_is_string(v))
				tsv_put(w, json_string_value(v));
			else if (json_is_integer(v))
				tsv_put_i64(w, json_integer_value(v));
			else
				tsv_put_f64(w, json_is_real(v) ? json_real_value(v) : NAN);
		}
		rc = w && !rc ? tsv_row(w, e) : -1;
	}
	mem_free(names);
	if (w && rc)
		tsv_abort(w);
	return w && !rc ? tsv_commit(w, e) : -1;
}

int diagnose_json(const char *path, json_t *rows, const char *name, json_t *list, const struct stamp *stamp, struct err *e)
{
	json_t *o;
	int rc;

	if (!path)
		return 0;
	o = json_object();
	json_object_set(o, "stamp", (json_t *)stamp_root(stamp));
	json_object_set(o, "rows", rows);
	if (list)
		json_object_set(o, name, list);
	rc = commit_json(path, o, e);
	json_decref(o);
	return rc;
}

int diagnose_finished(const char *table, const char *other, const char *json, const struct stamp *stamp, struct err *e)
{
	const char *const path[] = {table, other, json};
	int there = standing_all(path, 3, stamp, e);

	for (int i = 0; i < 2 && there >= 0; i++) {
		struct tsv *t;

		if (!path[i] || !strcmp(path[i], "-") || !path_exists(path[i]))
			continue;
		if (!(t = tsv_load(path[i], e)))
			return -1;
		tsv_free(t);
	}
	return there;
}
