/* Joins lines of JSON into one table: a row per label, a column per key. */
#include "inspect/jointable.h"

#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/stamp.h"
#include "file/tsv.h"

enum { MAX_BYTES = 1 << 26 };

/* Members of nested objects become "outer.inner"; arrays are left out. */
static void flatten(json_t *into, const json_t *object, const char *prefix)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)object, key, value) {
		char *full = *prefix ? str_new("%s.%s", prefix, key) : mem_strdup(key);

		if (json_is_object(value))
			flatten(into, value, full);
		else if (!json_is_array(value))
			json_object_set(into, full, value);
		mem_free(full);
	}
}

/* Values of later lines and files replace earlier ones. */
static int read_lines(json_t *into, const char *path, struct err *e)
{
	size_t len;
	char *text = file_load(path, MAX_BYTES, &len, e), *line = text;
	int number = 0;

	if (!text)
		return -1;
	if (jsonio_check_seals(text, len, path, e)) {
		mem_free(text);
		return -1;
	}
	while (*line) {
		size_t n = strcspn(line, "\n");
		json_error_t why;
		json_t *object;

		number++;
		if (n) {
			object = json_loadb(line, n, JSON_REJECT_DUPLICATES, &why);
			if (!json_is_object(object)) {
				err_set(e, ERR_DATA, "%s:%d: not a JSON object", path, number);
				json_decref(object);
				mem_free(text);
				return -1;
			}
			json_object_del(object, "seal");
			flatten(into, object, "");
			json_decref(object);
		}
		line += n + (line[n] == '\n');
	}
	mem_free(text);
	return number ? 0 : err_set(e, ERR_DATA, "%s: empty", path);
}

static struct jointable_row *row_of(struct jointable *t, const char *label)
{
	for (int i = 0; i < t->rows; i++)
		if (!strcmp(t->row[i].label, label))
			return &t->row[i];
	t->row = mem_resize(t->row, (size_t)t->rows + 1, sizeof *t->row);
	t->row[t->rows] = (struct jointable_row){label, json_object()};
	return &t->row[t->rows++];
}

int jointable_read(struct jointable *t, const char *label, const char *path, struct err *e)
{
	return read_lines(row_of(t, label)->values, path, e);
}

static int add_column(struct jointable *t, const char *name, size_t name_len, const char *key, size_t key_len, struct err *e)
{
	if (t->columns == JOINTABLE_COLUMNS)
		return err_set(e, ERR_USAGE, "more than %d columns; choose with --columns", JOINTABLE_COLUMNS);
	t->name[t->columns] = str_new("%.*s", (int)name_len, name);
	t->key[t->columns++] = str_new("%.*s", (int)key_len, key);
	return 0;
}

static int parse_columns(struct jointable *t, const char *list, struct err *e)
{
	while (*list) {
		size_t n = strcspn(list, ","), name = strcspn(list, ",="), skip = name < n ? name + 1 : 0;

		if (!name || skip == n)
			return err_set(e, ERR_USAGE, "--columns: '%.*s' is not KEY or NAME=KEY", (int)n, list);
		if (add_column(t, list, name, list + skip, n - skip, e))
			return -1;
		list += n + (list[n] == ',');
	}
	return t->columns ? 0 : err_set(e, ERR_USAGE, "--columns: no column");
}

static int all_numbers(struct jointable *t, struct err *e)
{
	for (int r = 0; r < t->rows; r++) {
		const char *key;
		json_t *value;

		json_object_foreach (t->row[r].values, key, value) {
			int known = !json_is_number(value);

			for (int c = 0; c < t->columns; c++)
				known |= !strcmp(t->key[c], key);
			if (!known && add_column(t, key, strlen(key), key, strlen(key), e))
				return -1;
		}
	}
	return 0;
}

int jointable_columns(struct jointable *t, const char *list, struct err *e)
{
	return list ? parse_columns(t, list, e) : all_numbers(t, e);
}

void jointable_cell(char *text, size_t size, const struct jointable *t, int r, int c, const char *number)
{
	const json_t *v = json_object_get(t->row[r].values, t->key[c]);

	text[0] = 0;
	if (json_is_integer(v))
		snprintf(text, size, "%lld", (long long)json_integer_value(v));
	else if (json_is_real(v))
		snprintf(text, size, number, json_real_value(v));
	else if (json_is_string(v))
		snprintf(text, size, "%s", json_string_value(v));
	else if (json_is_boolean(v))
		snprintf(text, size, "%s", json_is_true(v) ? "true" : "false");
	for (char *p = text; *p; p++)
		if (*p == '\t' || *p == '\n')
			*p = ' ';
}

int jointable_write(const struct jointable *t, const char *path, const char *title, const char *program, struct err *e)
{
	const char *names[JOINTABLE_COLUMNS + 1] = {title};
	struct tsv_writer *w;
	struct stamp *stamp;
	char text[200];

	for (int c = 0; c < t->columns; c++)
		names[c + 1] = t->name[c];
	stamp = stamp_new(program);
	w = tsv_create(path, names, t->columns + 1, stamp, e);
	stamp_free(stamp);
	if (!w)
		return -1;
	for (int r = 0; r < t->rows; r++) {
		tsv_put(w, t->row[r].label);
		for (int c = 0; c < t->columns; c++) {
			jointable_cell(text, sizeof text, t, r, c, "%.6g");
			tsv_put(w, text);
		}
		if (tsv_row(w, e)) {
			tsv_abort(w);
			return -1;
		}
	}
	return tsv_commit(w, e);
}

void jointable_release(struct jointable *t)
{
	for (int r = 0; r < t->rows; r++)
		json_decref(t->row[r].values);
	for (int c = 0; c < t->columns; c++) {
		mem_free(t->name[c]);
		mem_free(t->key[c]);
	}
	mem_free(t->row);
}
