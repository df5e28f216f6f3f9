/* Joins lines of JSON into one table: a row per operand, a column per key. */
#include <stdio.h>
#include <string.h>

#include "cmd/clean.h"
#include "cmd/cmd.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/stamp.h"
#include "file/standing.h"
#include "file/tsv.h"

enum { MAX_COLUMNS = 64, MAX_BYTES = 1 << 26 };

static const char *columns_text, *out_path, *title = "label";
static int quiet;

static const struct option options[] = {
    {.name = "--columns", .type = OPTION_TEXT, .value = &columns_text, .arg = "LIST",
     .help = "NAME=KEY or KEY, with commas between: what to show (default: every number, in order of appearance)",
     OPTION_ALWAYS, .was = "-c"},
    {.name = "--title", .letter = 't', .type = OPTION_TEXT, .value = &title, .arg = "NAME",
     .help = "name of the first column (default label)", OPTION_ALWAYS},
    {.name = "--output", .letter = 'o', .type = OPTION_TEXT, .value = &out_path, .arg = "FILE",
     .help = "write the table as TSV to FILE; - is standard output in place of the aligned table", OPTION_ALWAYS},
    {.name = "--quiet", .letter = 'q', .value = &quiet, .help = "do not print the aligned table", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-report",
    .operands = "LABEL=FILE...",
    .about = "Join lines of JSON (metrics, sampling reports, logs) into one table: a row per label, a column per key.",
    .options = options,
};

struct row {
	const char *label;
	json_t *values; /* flat: "a.b" -> number, string or boolean */
};

struct table {
	struct row *row;
	int rows;
	char *name[MAX_COLUMNS]; /* heading */
	char *key[MAX_COLUMNS];
	int columns;
};

/* Members of nested objects become "outer.inner"; arrays are left out. */
static void flatten(json_t *into, const json_t *object, const char *prefix)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value) {
		char *full = *prefix ? str_new("%s.%s", prefix, key) : mem_strdup(key);

		if (json_is_object(value))
			flatten(into, value, full);
		else if (!json_is_array(value))
			json_object_set(into, full, value);
		mem_free(full);
	}
}

/* Later lines and later files replace what earlier ones said. */
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

static struct row *row_of(struct table *t, const char *label)
{
	for (int i = 0; i < t->rows; i++)
		if (!strcmp(t->row[i].label, label))
			return &t->row[i];
	t->row = mem_resize(t->row, (size_t)t->rows + 1, sizeof *t->row);
	t->row[t->rows] = (struct row){label, json_object()};
	return &t->row[t->rows++];
}

static int add_operand(struct table *t, char *operand, struct err *e)
{
	char *path = strchr(operand, '=');

	if (!path || path == operand)
		return err_set(e, ERR_USAGE, "'%s' is not LABEL=FILE", operand);
	if (operand[strcspn(operand, "\t\n")])
		return err_set(e, ERR_USAGE, "a tab or newline in '%s'", operand);
	*path++ = 0;
	return read_lines(row_of(t, operand)->values, path, e);
}

static int add_column(struct table *t, const char *name, size_t name_len, const char *key, size_t key_len, struct err *e)
{
	if (t->columns == MAX_COLUMNS)
		return err_set(e, ERR_USAGE, "more than %d columns; choose with --columns", MAX_COLUMNS);
	t->name[t->columns] = str_new("%.*s", (int)name_len, name);
	t->key[t->columns++] = str_new("%.*s", (int)key_len, key);
	return 0;
}

static int parse_columns(struct table *t, const char *list, struct err *e)
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

static int all_numbers(struct table *t, struct err *e)
{
	for (int r = 0; r < t->rows; r++) {
		const char *key;
		json_t *value;

		json_object_foreach(t->row[r].values, key, value) {
			int known = !json_is_number(value);

			for (int c = 0; c < t->columns; c++)
				known |= !strcmp(t->key[c], key);
			if (!known && add_column(t, key, strlen(key), key, strlen(key), e))
				return -1;
		}
	}
	return 0;
}

/* Absent values are empty in TSV and "-" in the aligned table. */
static void cell(char *text, size_t size, const struct row *r, const char *key, const char *number)
{
	const json_t *v = json_object_get(r->values, key);

	text[0] = 0;
	if (json_is_integer(v))
		snprintf(text, size, "%lld", (long long)json_integer_value(v));
	else if (json_is_real(v))
		snprintf(text, size, number, json_real_value(v));
	else if (json_is_string(v))
		snprintf(text, size, "%s", json_string_value(v));
	else if (json_is_boolean(v))
		snprintf(text, size, "%s", json_is_true(v) ? "true" : "false");
	for (char *c = text; *c; c++)
		if (*c == '\t' || *c == '\n')
			*c = ' ';
}

static int write_tsv(const struct table *t, struct err *e)
{
	const char *names[MAX_COLUMNS + 1] = {title};
	struct tsv_writer *w;
	struct stamp *stamp;
	char text[200];

	for (int c = 0; c < t->columns; c++)
		names[c + 1] = t->name[c];
	stamp = stamp_new(program.name);
	w = tsv_create(out_path, names, t->columns + 1, stamp, e);
	stamp_free(stamp);
	if (!w)
		return -1;
	for (int r = 0; r < t->rows; r++) {
		tsv_put(w, t->row[r].label);
		for (int c = 0; c < t->columns; c++) {
			cell(text, sizeof text, &t->row[r], t->key[c], "%.6g");
			tsv_put(w, text);
		}
		if (tsv_row(w, e)) {
			tsv_abort(w);
			return -1;
		}
	}
	return tsv_commit(w, e);
}

static void print_aligned(const struct table *t)
{
	int first = (int)strlen(title);
	char raw[200], text[4 * sizeof raw], *name[MAX_COLUMNS];

	for (int c = 0; c < t->columns; c++) {
		size_t room = 4 * strlen(t->name[c]) + 1;

		name[c] = clean_output(mem_alloc(room), room, t->name[c]);
	}
	for (int r = 0; r < t->rows; r++)
		if ((int)strlen(t->row[r].label) > first)
			first = (int)strlen(t->row[r].label);
	for (int r = -1; r < t->rows; r++) {
		printf("%-*s", first, r < 0 ? title : t->row[r].label);
		for (int c = 0; c < t->columns; c++) {
			int width = (int)strlen(name[c]);

			for (int i = 0; i < t->rows; i++) {
				cell(raw, sizeof raw, &t->row[i], t->key[c], "%.4g");
				clean_output(text, sizeof text, raw);
				width = (int)strlen(text) > width ? (int)strlen(text) : width;
			}
			if (r >= 0) {
				cell(raw, sizeof raw, &t->row[r], t->key[c], "%.4g");
				clean_output(text, sizeof text, raw);
			}
			printf("  %*s", width, r < 0 ? name[c] : *text ? text : "-");
		}
		putchar('\n');
	}
	for (int c = 0; c < t->columns; c++)
		mem_free(name[c]);
}

static void table_release(struct table *t)
{
	for (int r = 0; r < t->rows; r++)
		json_decref(t->row[r].values);
	for (int c = 0; c < t->columns; c++) {
		mem_free(t->name[c]);
		mem_free(t->key[c]);
	}
	mem_free(t->row);
}

static int run(struct table *t, char **operand, int n, struct err *e)
{
	for (int i = 0; i < n; i++)
		if (add_operand(t, operand[i], e))
			return -1;
	if (columns_text ? parse_columns(t, columns_text, e) : all_numbers(t, e))
		return -1;
	if (out_path && write_tsv(t, e))
		return -1;
	if (!quiet && !(out_path && !strcmp(out_path, "-")))
		print_aligned(t);
	return 0;
}

int main(int argc, char **argv)
{
	struct err e = {0};
	struct table t = {0};
	int n = cmd_start(&program, argc, argv, 1, -1);

	if (!claim_take(&out_path, 1, &e) && !(out_path && standing_view(out_path, program.name, NULL, &e)))
		run(&t, argv + 1, n, &e);
	table_release(&t);
	return cmd_end(&e);
}
