/* Makes the text of -h, and the synopsis of a program, from its tables of options. */
#include <string.h>

#include "core/mem.h"
#include "core/option.h"

/* "  -n, --steps N" */
static void left_column(struct str *s, const struct option *o)
{
	if (o->letter)
		str_printf(s, "  -%c%s", o->letter, o->name ? ", " : "");
	else
		str_puts(s, "      ");
	if (o->name)
		str_puts(s, o->name);
	if (o->arg)
		str_printf(s, " %s", o->arg);
}

/* Append text, broken at blanks into lines of at most `width` columns; continuation lines start at column `indent`. */
static void add_wrapped(struct str *s, const char *text, int indent, int width)
{
	int column = indent;

	while (*text) {
		int n = (int)strcspn(text, " ");

		if (column > indent && column + 1 + n > width) {
			str_printf(s, "\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			str_puts(s, " ");
			column++;
		}
		str_add(s, text, (size_t)n);
		column += n;
		text += n;
		text += strspn(text, " ");
	}
}

static int is_switch(const struct option *o)
{
	return o->type == OPTION_FLAG || o->type == OPTION_OFF;
}

void option_describe(struct str *s, const struct option *o)
{
	str_puts(s, o->help ? o->help : "");
	if (o->said)
		str_printf(s, " (%s)", o->said);
	else if (o->preset && !is_switch(o))
		str_printf(s, " (default %s)", o->preset);
}

static void right_column(struct str *s, const struct option *o)
{
	option_describe(s, o);
	for (int i = 0; (o->type == OPTION_CHOICE || o->type == OPTION_PARSED) && o->choices && o->choices[i]; i++)
		str_printf(s, "%s%s", i ? ", " : ": ", o->choices[i]);
}

static void add_option(struct str *out, const struct option *o, int indent)
{
	struct str left = {0}, right = {0};

	left_column(&left, o);
	right_column(&right, o);
	if ((int)left.len + 2 > indent)
		str_printf(out, "%s\n%*s", str_text(&left), indent, "");
	else
		str_printf(out, "%-*s", indent, str_text(&left));
	add_wrapped(out, str_text(&right), indent, 100);
	str_puts(out, "\n");
	str_release(&left);
	str_release(&right);
}

static int column_of_help(const struct option_row *rows, int n)
{
	struct str s = {0};
	size_t widest = 0;

	for (int i = 0; i < n; i++) {
		str_reset(&s);
		left_column(&s, rows[i].o);
		if (s.len > widest && s.len <= 30)
			widest = s.len;
	}
	str_release(&s);
	return (int)widest + 2;
}

char *option_help(const struct program *p)
{
	struct option_row rows[OPTION_MOST];
	struct str s = {0};
	const char *group = NULL;
	int n = option_rows(p, rows), indent = column_of_help(rows, n);
	char *synopsis = option_synopsis(p);

	str_printf(&s, "Usage: %s [-hV]%s%s\n\n", p->name, *synopsis ? " " : "", synopsis);
	add_wrapped(&s, p->about, 0, 100);
	str_puts(&s, "\n\nOptions:\n");
	for (int i = 0; i < n; i++) {
		if (rows[i].group && (!group || strcmp(rows[i].group, group)))
			str_printf(&s, "\n%s:\n", rows[i].group);
		group = rows[i].group;
		add_option(&s, rows[i].o, indent);
	}
	mem_free(synopsis);
	return s.p;
}

static void add_to_synopsis(struct str *s, const struct option *o)
{
	char buf[3] = {'-', o->letter, 0};

	str_printf(s, "%s%s", o->required || o->either ? "" : "[", o->letter ? buf : o->name);
	if (o->arg)
		str_printf(s, " %s", o->arg);
	str_puts(s, o->required || o->either ? "" : "]");
	str_puts(s, o->type == OPTION_LIST ? "..." : "");
}

char *option_synopsis(const struct program *p)
{
	struct option_row rows[OPTION_MOST];
	struct str s = {0};
	int n = option_rows(p, rows);

	for (int i = 0; i < n; i++) {
		if (rows[i].o >= option_builtin && rows[i].o < option_builtin + 2)
			continue;
		str_puts(&s, !s.len ? "" : rows[i].o->either ? " | " : " ");
		add_to_synopsis(&s, rows[i].o);
	}
	str_printf(&s, "%s%s", s.len ? " " : "", p->operands);
	return s.p;
}
