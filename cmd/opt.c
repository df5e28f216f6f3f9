/* Parses command lines by a program's option table, and prints -h. */
#include "cmd/opt.h"

#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/complete.h"
#include "cmd/optnames.h"
#include "cmd/optrules.h"
#include "config.h"
#include "core/mem.h"
#include "core/meant.h"
#include "core/str.h"
#include "core/version.h"

const struct opt opt_builtin[] = {
    {.name = "--help", .letter = 'h', .help = "print this and exit"},
    {.name = "--version", .letter = 'V', .help = "print the version and how it was built, and exit"},
    {0},
};

int opt_is_end(const struct opt *o)
{
	return !o->name && !o->letter && !o->help;
}

int opt_is_group(const struct opt *o)
{
	return !o->name && !o->letter && o->help;
}

static const char *opt_label(const struct opt *o, char buf[3])
{
	if (o->name)
		return o->name;
	buf[0] = '-';
	buf[1] = o->letter;
	buf[2] = 0;
	return buf;
}

/* "  -n, --steps N" */
static void left_column(struct str *s, const struct opt *o)
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

/* Appends text broken at blanks so that no line passes `width` columns; continuation lines start at column `indent`. */
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

static void add_option(struct str *out, const struct opt *o, int indent)
{
	struct str left = {0}, right = {0};

	left_column(&left, o);
	str_puts(&right, o->help ? o->help : "");
	for (int i = 0; o->type == OPT_CHOICE && o->choices[i]; i++)
		str_printf(&right, "%s%s", i ? ", " : ": ", o->choices[i]);
	if ((int)left.len + 2 > indent)
		str_printf(out, "%s\n%*s", str_text(&left), indent, "");
	else
		str_printf(out, "%-*s", indent, str_text(&left));
	add_wrapped(out, str_text(&right), indent, 100);
	str_puts(out, "\n");
	str_release(&left);
	str_release(&right);
}

static int column_of_help(const struct opt *options)
{
	struct str s = {0};
	size_t widest = strlen("  -V, --version");

	for (const struct opt *o = options; !opt_is_end(o); o++) {
		if (opt_is_group(o))
			continue;
		str_reset(&s);
		left_column(&s, o);
		if (s.len > widest && s.len <= 30)
			widest = s.len;
	}
	str_release(&s);
	return (int)widest + 2;
}

char *opt_help(const struct program *p)
{
	struct str s = {0};
	int indent = column_of_help(p->options), grouped = 0;

	str_printf(&s, "Usage: %s [-hV]%s%s\n\n", p->name, *p->synopsis ? " " : "", p->synopsis);
	add_wrapped(&s, p->about, 0, 100);
	str_puts(&s, "\n\nOptions:\n");
	for (const struct opt *o = p->options; !opt_is_end(o); o++) {
		if (opt_is_group(o))
			str_printf(&s, "\n%s:\n", o->help);
		else
			add_option(&s, o, indent);
		grouped |= opt_is_group(o);
	}
	str_puts(&s, grouped ? "\nHelp:\n" : "");
	for (const struct opt *o = opt_builtin; !opt_is_end(o); o++)
		add_option(&s, o, indent);
	return s.p;
}

/* Prints what -h or -V asks for and ends the program. */
static void answer(const struct program *p, char letter)
{
	static const struct err none;
	char *help;

	if (letter == 'V') {
		printf("%s %s\n%s\n", p->name, DDM_VERSION, DDM_BUILD);
	} else {
		help = opt_help(p);
		fputs(help, stdout);
		mem_free(help);
	}
	cmd_exit(&none);
}

/* Equal to `name` for its first n characters: 2 when it is all of it, 1 when it is the beginning. */
static int name_matches(const struct opt *o, const char *name, size_t n)
{
	if (!o->name || strncmp(o->name, name, n))
		return 0;
	return o->name[n] ? 1 : 2;
}

/* Says what was probably meant. count: options that begin so. */
static void refuse_option(const struct program *p, const char *name, size_t n, int count, struct err *e)
{
	const char *meant = count || n < 3 ? NULL : optnames_meant(p, name, n);

	err_set(e, ERR_USAGE, "%s option '%.*s'%s%s; try '%s -h'", count ? "ambiguous" : "unknown", (int)n, name, meant ? "; did you mean " : "",
	        meant ? meant : "", p->name);
}

/* The option that `name` (n characters, "--" included) is, or begins when that is unique. */
static const struct opt *find_long(const struct program *p, const char *name, size_t n, struct err *e)
{
	const struct opt *tables[] = {p->options, opt_builtin}, *found = NULL;
	int count = 0;

	for (size_t t = 0; t < 2; t++) {
		for (const struct opt *o = tables[t]; !opt_is_end(o); o++) {
			int m = name_matches(o, name, n);

			if (m == 2)
				return o;
			count += m;
			found = m ? o : found;
		}
	}
	if (count == 1)
		return found;
	refuse_option(p, name, n, count, e);
	return NULL;
}

static const struct opt *find_letter(const struct program *p, char letter, struct err *e)
{
	const struct opt *tables[] = {p->options, opt_builtin};
	char name[] = {'-', letter, 0};

	for (size_t t = 0; t < 2; t++)
		for (const struct opt *o = tables[t]; !opt_is_end(o); o++)
			if (o->letter && o->letter == letter)
				return o;
	refuse_option(p, name, 2, 0, e);
	return NULL;
}

static int set_int(const struct opt *o, const char *label, const char *text, struct err *e)
{
	int64_t lo = INT64_MIN, hi = INT64_MAX;

	if (o->lo != 0 || o->hi != 0) {
		lo = o->lo <= -0x1p63 ? INT64_MIN : (int64_t)o->lo;
		hi = o->hi >= 0x1p63 ? INT64_MAX : (int64_t)o->hi;
	}
	if (!parse_i64(text, lo, hi, o->value))
		return 0;
	if (lo == INT64_MIN && hi == INT64_MAX)
		return err_set(e, ERR_USAGE, "%s: '%s' is not an integer", label, text);
	if (hi == INT64_MAX)
		return err_set(e, ERR_USAGE, "%s: '%s' is not an integer of at least %lld", label, text, (long long)lo);
	return err_set(e, ERR_USAGE, "%s: '%s' is not an integer from %lld to %lld", label, text, (long long)lo, (long long)hi);
}

static int set_real(const struct opt *o, const char *label, const char *text, struct err *e)
{
	int limited = o->lo != 0 || o->hi != 0;

	if (!parse_f64(text, limited ? o->lo : -__DBL_MAX__, limited ? o->hi : __DBL_MAX__, o->value))
		return 0;
	if (!limited)
		return err_set(e, ERR_USAGE, "%s: '%s' is not a number", label, text);
	if (o->hi >= 1e300)
		return err_set(e, ERR_USAGE, "%s: '%s' is not a number of at least %g", label, text, o->lo);
	return err_set(e, ERR_USAGE, "%s: '%s' is not a number from %g to %g", label, text, o->lo, o->hi);
}

static int set_choice(const struct opt *o, const char *label, const char *text, struct err *e)
{
	struct str s = {0};
	char meant[WORD_MEANT];

	for (int i = 0; o->choices[i]; i++) {
		if (!strcmp(o->choices[i], text)) {
			*(int *)o->value = i;
			str_release(&s);
			return 0;
		}
		str_printf(&s, "%s%s", i ? ", " : "", o->choices[i]);
	}
	err_set(e, ERR_USAGE, "%s: '%s' is not one of %s%s", label, text, str_text(&s), word_meant(meant, text, o->choices));
	str_release(&s);
	return -1;
}

static void list_append(struct opt_list *list, const char *text)
{
	list->v = mem_resize(list->v, (size_t)list->n + 1, sizeof *list->v);
	list->v[list->n++] = text;
}

static int set_value(const struct opt *o, const char *text, struct err *e)
{
	char buf[3];
	const char *label = opt_label(o, buf);

	if (o->given)
		*o->given = 1;
	switch (o->type) {
	case OPT_FLAG:
		*(int *)o->value = 1;
		return 0;
	case OPT_INT:
		return set_int(o, label, text, e);
	case OPT_REAL:
		return set_real(o, label, text, e);
	case OPT_CHOICE:
		return set_choice(o, label, text, e);
	case OPT_TEXT:
		*(const char **)o->value = text;
		return 0;
	case OPT_LIST:
		list_append(o->value, text);
		return 0;
	case OPT_U64:
		if (!parse_u64(text, o->value))
			return 0;
		return err_set(e, ERR_USAGE, "%s: '%s' is not an integer from 0 to 2^64 - 1", label, text);
	case OPT_DURATION:
		if (!parse_duration(text, o->value))
			return 0;
		return err_set(e, ERR_USAGE, "%s: '%s' is not a time such as 90, 15m or 2h", label, text);
	case OPT_SIZE:
		if (!parse_size(text, o->value))
			return 0;
		return err_set(e, ERR_USAGE, "%s: '%s' is not a size such as 512, 64K or 3G", label, text);
	}
	return err_set(e, ERR_INTERNAL, "%s: option of unknown type", label);
}

struct cursor {
	const struct program *p;
	char **argv;
	int argc, next;
	struct opt_given *given;
};

static void note_given(struct opt_given *given, const struct opt *o)
{
	for (int i = 0; given && i < given->n; i++)
		if (given->v[i] == o)
			return;
	if (given && given->n < OPT_MOST)
		given->v[given->n++] = o;
}

/* Takes the value in its new spelling where it has one of an earlier version. */
static int take_option(struct cursor *c, const struct opt *o, const char *value, struct err *e)
{
	const char *now = value && o->name ? optnames_value(c->p->name, o->name, value) : NULL;

	if (now)
		cmd_warn("%s %s is now %s %s; the old word goes with the next version", o->name, value, o->name, now);
	note_given(c->given, o);
	return set_value(o, now ? now : value, e);
}

/* The value of an option that takes one: what is attached to it, or the next argument. */
static const char *take_value(struct cursor *c, const struct opt *o, const char *attached, struct err *e)
{
	char buf[3];

	if (attached)
		return attached;
	if (c->next < c->argc)
		return c->argv[c->next++];
	err_set(e, ERR_USAGE, "%s needs a value: %s %s", opt_label(o, buf), opt_label(o, buf), o->arg ? o->arg : "VALUE");
	return NULL;
}

static int is_builtin(const struct opt *o)
{
	return o >= opt_builtin && o < opt_builtin + sizeof opt_builtin / sizeof *opt_builtin;
}

/* The new name of an option of an earlier version, or `name`; *n is its length. */
static const char *current_name(const struct program *p, const char *name, size_t *n)
{
	const char *now = optnames_renamed(p->name, name, *n);

	if (!now)
		return name;
	cmd_warn("%.*s is now %s; the old name goes with the next version", (int)*n, name, now);
	*n = strlen(now);
	return now;
}

static int parse_long(struct cursor *c, const char *arg, struct err *e)
{
	size_t n = strcspn(arg, "="), length = n;
	const char *name = current_name(c->p, arg, &length), *value = arg[n] ? arg + n + 1 : NULL;
	const struct opt *o = find_long(c->p, name, length, e);

	if (!o)
		return -1;
	if (o->type == OPT_FLAG && value)
		return err_set(e, ERR_USAGE, "%s takes no value, and '%s' was given", o->name, value);
	if (is_builtin(o))
		answer(c->p, o->letter);
	if (o->type != OPT_FLAG) {
		value = take_value(c, o, value, e);
		if (!value)
			return -1;
	}
	return take_option(c, o, value, e);
}

static int parse_letters(struct cursor *c, const char *arg, struct err *e)
{
	for (const char *l = arg + 1; *l; l++) {
		const char old[] = {'-', *l, 0}, *value;
		size_t n = 2;
		const char *name = current_name(c->p, old, &n);
		const struct opt *o = name == old ? find_letter(c->p, *l, e) : find_long(c->p, name, n, e);

		if (!o)
			return -1;
		if (is_builtin(o))
			answer(c->p, o->letter);
		if (o->type != OPT_FLAG) {
			value = take_value(c, o, l[1] ? l + 1 : NULL, e);
			return value ? take_option(c, o, value, e) : -1;
		}
		if (take_option(c, o, NULL, e))
			return -1;
	}
	return 0;
}

/* Prints the script for one shell, or when which option does something, and ends the program. The option is for installing and for tests: -h
 * does not list it. */
static int answer_completion(const struct program *p, const char *shell, struct err *e)
{
	static const struct err none;
	char *script = strcmp(shell, "rules") ? complete_script(p, shell, e) : optrules_text(p);

	if (!script)
		return -1;
	fputs(script, stdout);
	mem_free(script);
	cmd_exit(&none);
}

int opt_parse(const struct program *p, int argc, char **argv, int *operands, struct opt_given *given, struct err *e)
{
	struct cursor c = {p, argv, argc, 1, given};
	int kept = 1;

	if (argc == 3 && !strcmp(argv[1], "--completion"))
		return answer_completion(p, argv[2], e);
	while (c.next < argc) {
		const char *arg = argv[c.next++];

		if (!strcmp(arg, "--"))
			break;
		if (arg[0] != '-' || !arg[1])
			argv[kept++] = argv[c.next - 1];
		else if (arg[1] == '-' ? parse_long(&c, arg, e) : parse_letters(&c, arg, e))
			return -1;
	}
	while (c.next < argc)
		argv[kept++] = argv[c.next++];
	*operands = kept - 1;
	return 0;
}
