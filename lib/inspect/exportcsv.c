/* Writes training logs as one table of comma-separated values. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "inspect/exportlog.h"

const char export_csv_begin[] = "run,attempt,step,time,";

struct names {
	const char **v;
	int n;
};

static int names_find(const struct names *s, const char *name)
{
	for (int i = 0; i < s->n; i++)
		if (!strcmp(s->v[i], name))
			return i;
	return -1;
}

/* The names of all columns, in order of appearance. */
static struct names columns_of(const struct runs *r)
{
	struct names s = {0};

	for (int i = 0; i < r->n; i++)
		for (int c = 0; c < r->v[i].log->columns; c++) {
			const char *name = r->v[i].log->column[c].name;

			if (names_find(&s, name) >= 0)
				continue;
			s.v = mem_resize(s.v, (size_t)s.n + 1, sizeof *s.v);
			s.v[s.n++] = name;
		}
	return s;
}

static void put_field(struct str *out, const char *text)
{
	if (!text[strcspn(text, ",\"\r\n")]) {
		str_puts(out, text);
		return;
	}
	str_puts(out, "\"");
	for (; *text; text++)
		str_add(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
	str_puts(out, "\"");
}

static void put_rows(struct str *out, const struct run *x, const struct names *s)
{
	const struct loghistory *h = x->log;
	const struct log_column **column = mem_alloc(((size_t)s->n + 1) * sizeof *column);

	for (int c = 0; c < s->n; c++)
		column[c] = loghistory_column(h, s->v[c]);
	for (int64_t i = 0; i < h->n; i++) {
		double time = loghistory_time(h, i);

		put_field(out, x->name);
		if (h->of[i] >= 0)
			str_printf(out, ",%" PRId64, h->attempt[h->of[i]].number);
		else
			str_puts(out, ",");
		str_printf(out, ",%" PRId64 ",", h->step[i]);
		if (isfinite(time))
			str_printf(out, "%.3f", time);
		for (int c = 0; c < s->n; c++) {
			double v = column[c] ? column[c]->v[i] : NAN;

			str_puts(out, ",");
			if (isfinite(v)) /* bytes of memory have more digits than a float */
				str_printf(out, v == nearbyint(v) && fabs(v) < 1e15 ? "%.0f" : "%.9g", v);
		}
		str_puts(out, "\n");
	}
	mem_free(column);
}

void export_csv(struct str *out, const struct runs *r)
{
	struct names s = columns_of(r);

	str_add(out, export_csv_begin, strlen(export_csv_begin) - 1);
	for (int c = 0; c < s.n; c++) {
		str_puts(out, ",");
		put_field(out, s.v[c]);
	}
	str_puts(out, "\n");
	for (int i = 0; i < r->n; i++)
		put_rows(out, &r->v[i], &s);
	mem_free(s.v);
}
