/* Writes the table of ddm-status. */
#include "cmd/statustable.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "core/escape.h"
#include "core/mem.h"
#include "core/pace.h"
#include "plot/sparkline.h"

enum { SPARK_WIDTH = 12 };

const char *const status_heading[STATUS_COLUMNS] = {"run",  "state", "step",     "images/s", "peak", "ETA", "loss curve",
                                                    "loss", "saved", "restarts", "memory",   "node", "cost"};

/* Columns of text, which are aligned left. */
static int is_text(int column)
{
	return column < 2 || column == STATUS_CURVE || column == 11;
}

/* "-" for what is not known. */
static char *number_cell(const char *fmt, double v)
{
	char text[64] = "-";

	if (isfinite(v))
		snprintf(text, sizeof text, fmt, v);
	return mem_strdup(text);
}

static char *count_cell(int64_t v)
{
	return v < 0 ? mem_strdup("-") : str_new("%" PRId64, v);
}

static char *step_cell(const struct run *x)
{
	if (x->step < 0)
		return mem_strdup("-");
	return x->steps < 0 ? str_new("%" PRId64, x->step) : str_new("%" PRId64 "/%" PRId64, x->step, x->steps);
}

static char *time_cell(double seconds)
{
	char text[PACE_TEXT];

	return mem_strdup(isfinite(seconds) ? pace_text(text, seconds) : "-");
}

static char *rate_cell(double rate)
{
	char text[PACE_TEXT];

	return mem_strdup(isfinite(rate) ? pace_number(text, rate) : "-");
}

static char *escaped_cell(const char *text, int utf8)
{
	size_t room = 4 * strlen(text) + 2;
	char *cell = mem_alloc(room);

	return escape_text(cell, room, *text ? text : "-", utf8);
}

static char *curve_cell(const struct run *x, int utf8)
{
	const struct log_column *loss = loghistory_column(x->log, "loss");
	struct str s = {0};

	if (loss && x->log->n)
		sparkline(&s, x->log->step, loss->v, x->log->n, SPARK_WIDTH, utf8);
	return s.p ? s.p : mem_strdup("");
}

static char *cost_cell(double seconds, double cost_per_hour)
{
	return number_cell("%.2f", seconds / 3600 * cost_per_hour);
}

int status_cells(char *cell[STATUS_COLUMNS], const struct run *x, const struct status_style *s)
{
	int diverged = x->log->n && !isfinite(x->loss), c = 0;

	cell[c++] = escaped_cell(x->name, s->utf8);
	cell[c++] = mem_strdup(run_state_names[x->state]);
	cell[c++] = step_cell(x);
	cell[c++] = rate_cell(x->images_per_s);
	cell[c++] = number_cell("%.0f%%", x->percent_of_peak);
	cell[c++] = time_cell(x->eta);
	cell[c++] = curve_cell(x, s->utf8);
	cell[c++] = diverged ? mem_strdup("nan") : number_cell("%.4f", x->loss);
	cell[c++] = time_cell(x->saved_age);
	cell[c++] = count_cell(x->restarts);
	cell[c++] = number_cell("%.2f GB", x->memory * 1e-9);
	cell[c++] = escaped_cell(x->host, s->utf8);
	if (s->cost_per_hour > 0)
		cell[c++] = cost_cell(x->seconds, s->cost_per_hour);
	return c;
}

char *status_summary(const struct runs *r, const struct status_style *s)
{
	struct str text = {0};
	double seconds = 0;

	for (int i = 0; i < RUN_STATES; i++)
		if (runs_count(r, (enum run_state)i))
			str_printf(&text, "%s%d %s", text.len ? ", " : "", runs_count(r, (enum run_state)i), run_state_names[i]);
	for (int i = 0; i < r->n; i++)
		seconds += r->v[i].seconds;
	if (s->cost_per_hour > 0)
		str_printf(&text, "; cost so far %.2f", seconds / 3600 * s->cost_per_hour);
	return text.p;
}

/* Characters on the terminal: escaped text has one column a character. */
static int text_width(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

static void put_cell(struct str *out, const char *text, int width, int column, int last)
{
	int pad = width - text_width(text);

	if (column)
		str_puts(out, "  ");
	if (!is_text(column))
		str_printf(out, "%*s", pad, "");
	str_puts(out, text);
	if (is_text(column) && !last)
		str_printf(out, "%*s", pad, "");
}

static void put_note(struct str *out, const char *note, int utf8)
{
	char *text = escaped_cell(note, utf8);

	str_printf(out, "%s\n", text);
	mem_free(text);
}

void status_table(struct str *out, const struct runs *r, const struct status_style *s)
{
	char *(*cell)[STATUS_COLUMNS] = mem_zalloc((size_t)r->n + 1, sizeof *cell), *summary = status_summary(r, s);
	int columns = 0, width[STATUS_COLUMNS];

	for (int i = 0; i < r->n; i++)
		columns = status_cells(cell[i], &r->v[i], s);
	for (int c = 0; c < columns; c++) {
		width[c] = text_width(status_heading[c]);
		for (int i = 0; i < r->n; i++)
			width[c] = text_width(cell[i][c]) > width[c] ? text_width(cell[i][c]) : width[c];
	}
	for (int i = -1; i < r->n; i++) {
		for (int c = 0; c < columns; c++)
			put_cell(out, i < 0 ? status_heading[c] : cell[i][c], width[c], c, c == columns - 1);
		str_puts(out, "\n");
	}
	str_printf(out, "%s\n", summary);
	for (int i = 0; i < r->notes; i++)
		put_note(out, r->note[i], s->utf8);
	for (int i = 0; i < r->n && s->errors; i++)
		if (r->v[i].why.code)
			put_note(out, r->v[i].why.msg, s->utf8);
	for (int i = 0; i < r->n; i++)
		for (int c = 0; c < columns; c++)
			mem_free(cell[i][c]);
	mem_free(cell);
	mem_free(summary);
}

void status_errors(const struct runs *r, struct err *e)
{
	for (int i = 0; i < r->n; i++) {
		const struct err *why = &r->v[i].why;

		if (why->code && e->code)
			cmd_warn("%s", why->msg);
		else if (why->code)
			err_set(e, why->code, "%s", why->msg);
	}
}

void status_redraw(const char *text)
{
	struct winsize size = {0};
	int rows = 0;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col || !size.ws_row)
		size = (struct winsize){.ws_row = 24, .ws_col = 80};
	fputs("\033[H", stdout);
	for (const char *line = text, *next; *line && rows < size.ws_row - 1; line = next, rows++) {
		size_t n = strcspn(line, "\n"), kept = 0;
		int columns = 0;

		next = line + n + (line[n] == '\n');
		while (kept < n && (columns < size.ws_col || (line[kept] & 0xc0) == 0x80))
			columns += (line[kept++] & 0xc0) != 0x80;
		printf("%.*s\033[K\n", (int)kept, line);
	}
	fputs("\033[J", stdout);
}
