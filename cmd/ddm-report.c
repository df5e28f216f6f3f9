/* ddm-report: joins lines of JSON into one table, with a row per operand and a column per key. */
#include <stdio.h>
#include <string.h>

#include "cmd/clean.h"
#include "cmd/cmd.h"
#include "core/mem.h"
#include "file/claim.h"
#include "file/standing.h"
#include "inspect/jointable.h"

static const char *columns_text, *out_path, *title = "label";
static int quiet;

static const struct option options[] = {
    {.name = "--columns",
     .type = OPTION_TEXT,
     .value = &columns_text,
     .arg = "LIST",
     .help = "NAME=KEY or KEY, with commas between: what to show (default: every number, in order of appearance)",
     OPTION_ALWAYS,
     .was = "-c"},
    {.name = "--title",
     .letter = 't',
     .type = OPTION_TEXT,
     .value = &title,
     .arg = "NAME",
     .help = "name of the first column (default label)",
     OPTION_ALWAYS},
    {.name = "--output",
     .letter = 'o',
     .type = OPTION_TEXT,
     .value = &out_path,
     .arg = "FILE",
     .help = "write the table as TSV to FILE; - is standard output in place of the aligned table",
     OPTION_ALWAYS},
    {.name = "--quiet", .letter = 'q', .value = &quiet, .help = "do not print the aligned table", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-report",
    .operands = "LABEL=FILE...",
    .about = "Join lines of JSON (metrics, sampling reports, logs) into one table: a row per label, a column per key.",
    .options = options,
};

/* Read the operand LABEL=FILE as a row. */
static int add_operand(struct jointable *t, char *operand, struct err *e)
{
	char *path = strchr(operand, '=');

	if (!path || path == operand)
		return err_set(e, ERR_USAGE, "'%s' is not LABEL=FILE", operand);
	if (operand[strcspn(operand, "\t\n")])
		return err_set(e, ERR_USAGE, "a tab or newline in '%s'", operand);
	*path++ = 0;
	return jointable_read(t, operand, path, e);
}

/* Print the table with aligned columns. An absent value is "-" (in TSV it is empty). */
static void print_aligned(const struct jointable *t)
{
	int first = (int)strlen(title);
	char raw[200], text[4 * sizeof raw], *name[JOINTABLE_COLUMNS];

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
				jointable_cell(raw, sizeof raw, t, i, c, "%.4g");
				clean_output(text, sizeof text, raw);
				width = (int)strlen(text) > width ? (int)strlen(text) : width;
			}
			if (r >= 0) {
				jointable_cell(raw, sizeof raw, t, r, c, "%.4g");
				clean_output(text, sizeof text, raw);
			}
			printf("  %*s", width, r < 0 ? name[c] : *text ? text : "-");
		}
		putchar('\n');
	}
	for (int c = 0; c < t->columns; c++)
		mem_free(name[c]);
}

static int run(struct jointable *t, char **operand, int n, struct err *e)
{
	for (int i = 0; i < n; i++)
		if (add_operand(t, operand[i], e))
			return -1;
	if (jointable_columns(t, columns_text, e))
		return -1;
	if (out_path && jointable_write(t, out_path, title, program.name, e))
		return -1;
	if (!quiet && !(out_path && !strcmp(out_path, "-")))
		print_aligned(t);
	return 0;
}

int main(int argc, char **argv)
{
	struct err e = {0};
	struct jointable t = {0};
	int n = cmd_start(&program, argc, argv, 1, -1);

	if (!claim_take(&out_path, 1, &e) && !(out_path && standing_view(out_path, program.name, NULL, &e)))
		run(&t, argv + 1, n, &e);
	jointable_release(&t);
	return cmd_end(&e);
}
