/* Parses a command line by a program's tables of options. */
#include <string.h>

#include "core/mem.h"
#include "core/option.h"

struct cursor {
	const struct program *p;
	struct option_row rows[OPTION_MOST];
	int count;
	char **argv;
	int argc, next;
	struct option_given *given;
	void (*warn)(const char *line);
	int answer; /* 'h' or 'V' if that option was given */
};

/* Compares the first n characters of `name`: 2 if they are the whole option name, 1 if they are a prefix of it, else 0. */
static int name_matches(const struct option *o, const char *name, size_t n)
{
	if (!o->name || strncmp(o->name, name, n))
		return 0;
	return o->name[n] ? 1 : 2;
}

/* Refuses an unknown or ambiguous name and suggests the nearest option. count: options that begin with it. */
static void refuse_option(const struct program *p, const char *name, size_t n, int count, struct err *e)
{
	const char *hint = count || n < 3 ? NULL : option_suggest(p, name, n);

	err_set(e, ERR_USAGE, "%s option '%.*s'%s%s; try '%s -h'", count ? "ambiguous" : "unknown", (int)n, name, hint ? "; did you mean " : "",
	        hint ? hint : "", p->name);
}

/* The option called `name` (n characters, "--" included), or the only one that begins with it. */
static const struct option_row *find_long(const struct cursor *c, const char *name, size_t n, struct err *e)
{
	const struct option_row *found = NULL;
	int count = 0;

	for (int i = 0; i < c->count; i++) {
		int m = name_matches(c->rows[i].o, name, n);

		if (m == 2)
			return &c->rows[i];
		count += m;
		found = m ? &c->rows[i] : found;
	}
	if (count == 1)
		return found;
	refuse_option(c->p, name, n, count, e);
	return NULL;
}

static const struct option_row *find_letter(const struct cursor *c, char letter, struct err *e)
{
	char name[] = {'-', letter, 0};

	for (int i = 0; i < c->count; i++)
		if (c->rows[i].o->letter == letter)
			return &c->rows[i];
	refuse_option(c->p, name, 2, 0, e);
	return NULL;
}

/* Warns that `was` has a new name; what: "name" or "word". */
static void tell_renamed(const struct cursor *c, const char *was, const char *now, const char *what)
{
	char *line = str_new("%s is now %s; the next version will not accept the old %s", was, now, what);

	if (c->warn)
		c->warn(line);
	mem_free(line);
}

static void note_given(struct option_given *given, const struct option *o)
{
	if (given && given->n < OPTION_MOST && !option_was_given(given, o))
		given->v[given->n++] = o;
}

/* Replaces an old value by the value that replaced it, with a warning. */
static int take_option(struct cursor *c, const struct option_row *r, const char *value, struct err *e)
{
	const struct option *o = r->o;

	if (value && o->was_value && !strcmp(value, o->was_value)) {
		char *was = str_new("%s %s", o->name, value), *now = str_new("%s %s", o->name, o->is_value);

		tell_renamed(c, was, now, "word");
		mem_free(was);
		mem_free(now);
		value = o->is_value;
	}
	note_given(c->given, o);
	if (o->given)
		*o->given = 1;
	return option_set(o, r->request, value, e);
}

static int takes_value(const struct option *o)
{
	return o->type != OPTION_FLAG && o->type != OPTION_OFF;
}

/* The value of an option: the text attached to it, or the next argument. */
static const char *take_value(struct cursor *c, const struct option *o, const char *attached, struct err *e)
{
	char buf[3];

	if (attached)
		return attached;
	if (c->next < c->argc)
		return c->argv[c->next++];
	err_set(e, ERR_USAGE, "%s needs a value: %s %s", option_label(o, buf), option_label(o, buf), o->arg ? o->arg : "VALUE");
	return NULL;
}

static int is_builtin(const struct option_row *r)
{
	const struct option *o = option_builtin;

	while (!option_is_end(o) && o != r->o)
		o++;
	return !option_is_end(o);
}

/* The option whose old name this is, with a warning; NULL if there is none. */
static const struct option_row *find_renamed(const struct cursor *c, const char *name, size_t n)
{
	const struct option *o = option_renamed(c->p, name, n);
	char buf[3], *was;

	for (int i = 0; o && i < c->count; i++)
		if (c->rows[i].o == o) {
			was = str_new("%.*s", (int)n, name);
			tell_renamed(c, was, option_label(o, buf), "name");
			mem_free(was);
			return &c->rows[i];
		}
	return NULL;
}

static int parse_long(struct cursor *c, const char *arg, struct err *e)
{
	size_t n = strcspn(arg, "=");
	const char *value = arg[n] ? arg + n + 1 : NULL;
	const struct option_row *r = find_renamed(c, arg, n);

	if (!r && !(r = find_long(c, arg, n, e)))
		return -1;
	if (!takes_value(r->o) && value)
		return err_set(e, ERR_USAGE, "%s takes no value, but '%s' was given", r->o->name, value);
	if (is_builtin(r)) {
		c->answer = r->o->letter;
		return 0;
	}
	if (takes_value(r->o) && !(value = take_value(c, r->o, value, e)))
		return -1;
	return take_option(c, r, value, e);
}

static int parse_letters(struct cursor *c, const char *arg, struct err *e)
{
	for (const char *l = arg + 1; *l && !c->answer; l++) {
		const char old[] = {'-', *l, 0}, *value;
		const struct option_row *r = find_renamed(c, old, 2);

		if (!r && !(r = find_letter(c, *l, e)))
			return -1;
		if (is_builtin(r)) {
			c->answer = r->o->letter;
			return 0;
		}
		if (takes_value(r->o)) {
			value = take_value(c, r->o, l[1] ? l + 1 : NULL, e);
			return value ? take_option(c, r, value, e) : -1;
		}
		if (take_option(c, r, NULL, e))
			return -1;
	}
	return 0;
}

int option_parse(const struct program *p, int argc, char **argv, int *operands, struct option_given *given, void (*warn_of)(const char *line),
                 struct err *e)
{
	struct cursor c = {.p = p, .argv = argv, .argc = argc, .next = 1, .given = given, .warn = warn_of};
	int kept = 1;

	c.count = option_rows(p, c.rows);
	option_presets(p->options, NULL);
	while (c.next < argc) {
		const char *arg = argv[c.next++];

		if (!strcmp(arg, "--"))
			break;
		if (arg[0] != '-' || !arg[1])
			argv[kept++] = argv[c.next - 1];
		else if (arg[1] == '-' ? parse_long(&c, arg, e) : parse_letters(&c, arg, e))
			return -1;
		if (c.answer)
			return c.answer;
	}
	while (c.next < argc)
		argv[kept++] = argv[c.next++];
	*operands = kept - 1;
	return 0;
}
