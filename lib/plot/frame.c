/* Reads tables and JSON lines as rows with named columns. */
#include "plot/frame.h"

#include <jansson.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/tsv.h"
#include "plot/axis.h"

enum { MOST_BYTES = 1 << 30 };

struct frame {
	char *where;
	struct tsv *table;
	json_t *lines; /* the objects of a file of JSON lines; else NULL */
	char sha256[65];
	char text[32];
};

/* A last line without newline that cannot be parsed is ignored: a trainer is writing it, or was killed while it did. */
static int lines_parse(struct frame *f, const char *text, size_t len, struct err *e)
{
	int64_t number = 0;

	f->lines = json_array();
	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t n = end ? (size_t)(end - text) - at : len - at;
		json_t *o;
		json_error_t why;

		number++;
		if (n) {
			o = json_loadb(text + at, n, JSON_REJECT_DUPLICATES, &why);
			if (!o && !end && json_array_size(f->lines))
				break;
			if (!json_is_object(o)) {
				json_decref(o);
				return err_set(e, ERR_DATA, "%s:%lld: not a JSON object", f->where, (long long)number);
			}
			json_array_append_new(f->lines, o);
		}
		at += n + 1;
	}
	return json_array_size(f->lines) ? 0 : err_set(e, ERR_DATA, "%s: is empty", f->where);
}

struct frame *frame_load(const char *path, struct err *e)
{
	size_t len;
	char *text = file_load(path, MOST_BYTES, &len, e);
	struct frame *f;
	struct sha256 hash;
	int rc = 0;

	if (!text)
		return NULL;
	f = mem_zalloc(1, sizeof *f);
	f->where = mem_strdup(strcmp(path, "-") ? path : "standard input");
	sha256_init(&hash);
	sha256_add(&hash, text, len);
	sha256_end(&hash, f->sha256);
	if (*text == '#')
		rc = (f->table = tsv_parse(text, len, f->where, e)) ? 0 : -1;
	else if (*text == '{')
		rc = lines_parse(f, text, len, e);
	else
		rc = err_set(e, ERR_DATA, "%s: %s", f->where, len ? "neither a table that begins with # nor JSON lines" : "empty");
	if (!rc && !frame_rows(f))
		rc = err_set(e, ERR_DATA, "%s: has no rows", f->where);
	mem_free(text);
	if (rc) {
		frame_free(f);
		return NULL;
	}
	return f;
}

void frame_free(struct frame *f)
{
	if (!f)
		return;
	tsv_free(f->table);
	json_decref(f->lines);
	mem_free(f->where);
	mem_free(f);
}

int64_t frame_rows(const struct frame *f)
{
	return f->table ? tsv_rows(f->table) : (int64_t)json_array_size(f->lines);
}

const char *frame_sha256(const struct frame *f)
{
	return f->sha256;
}

const char *frame_first(const struct frame *f)
{
	return f->table ? tsv_name(f->table, 0) : "label";
}

/* The member `name`, or, for "outer.inner", the member "inner" of the object "outer". */
static const json_t *find(const json_t *o, const char *name)
{
	const json_t *v = json_object_get(o, name);

	for (const char *dot = strchr(name, '.'); !v && dot; dot = strchr(dot + 1, '.')) {
		char *head = str_new("%.*s", (int)(dot - name), name);
		const json_t *inner = json_object_get(o, head);

		mem_free(head);
		if (json_is_object(inner))
			v = find(inner, dot + 1);
	}
	return v;
}

int frame_has(const struct frame *f, const char *column)
{
	if (f->table)
		return tsv_column(f->table, column) >= 0;
	for (int64_t i = 0; i < frame_rows(f); i++)
		if (find(json_array_get(f->lines, (size_t)i), column))
			return 1;
	return 0;
}

int frame_need(const struct frame *f, const char *column, struct err *e)
{
	return frame_has(f, column) ? 0 : err_set(e, ERR_DATA, "%s: no column '%s'", f->where, column);
}

static int is_absent(const char *text)
{
	return !*text || !strcmp(text, "-") || !strcasecmp(text, "nan") || !strcasecmp(text, "inf") || !strcasecmp(text, "-inf");
}

int frame_number(const struct frame *f, int64_t row, const char *column, double *out, struct err *e)
{
	const json_t *v;

	if (f->table) {
		int i = tsv_column(f->table, column);

		if (i < 0 || is_absent(tsv_get(f->table, row, i)))
			return 0;
		return tsv_f64(f->table, row, i, -1.7e308, 1.7e308, out, e) ? -1 : 1;
	}
	v = find(json_array_get(f->lines, (size_t)row), column);
	if (!v || json_is_null(v) || (json_is_string(v) && is_absent(json_string_value(v))))
		return 0;
	if (!json_is_number(v))
		return err_set(e, ERR_DATA, "%s: %s of row %lld is not a number", f->where, column, (long long)row + 1);
	*out = json_number_value(v);
	return isfinite(*out);
}

const char *frame_text(struct frame *f, int64_t row, const char *column)
{
	const json_t *v;

	if (f->table) {
		int i = tsv_column(f->table, column);

		return i < 0 ? "" : tsv_get(f->table, row, i);
	}
	v = find(json_array_get(f->lines, (size_t)row), column);
	if (json_is_string(v))
		return json_string_value(v);
	if (!json_is_number(v))
		return json_is_true(v) ? "true" : json_is_false(v) ? "false" : "";
	axis_number(f->text, json_number_value(v));
	return f->text;
}

char *frame_json(const struct frame *f, const char *column)
{
	const json_t *v = NULL;

	for (int64_t i = frame_rows(f) - 1; i >= 0 && !v && f->lines; i--)
		v = find(json_array_get(f->lines, (size_t)i), column);
	return json_is_object(v) ? jsonio_line(v) : NULL;
}
