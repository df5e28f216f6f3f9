/* Checks the rules of use: an option that would have no effect beside the others is refused. */
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/option.h"

/* Word i of a blank-separated list, in new memory; NULL behind the last. */
static char *word_at(const char *list, int i)
{
	while (*(list += strspn(list, " "))) {
		size_t n = strcspn(list, " ");

		if (!i--)
			return str_new("%.*s", (int)n, list);
		list += n;
	}
	return NULL;
}

static int goes_by(const struct option *o, const char *name)
{
	return (o->name && !strcmp(o->name, name)) || (!o->name && name[1] == o->letter && !name[2]);
}

int option_was_given(const struct option_given *given, const struct option *o)
{
	for (int i = 0; i < given->n; i++)
		if (given->v[i] == o)
			return 1;
	return 0;
}

/* "*oracle*" */
static int is_contained(const char *pattern)
{
	size_t n = strlen(pattern);

	return n > 1 && *pattern == '*' && pattern[n - 1] == '*';
}

/* Matches a value with a pattern: "clip:*" by its prefix, "*.png" by its suffix, "*oracle*" if it contains the word, others by equality. */
static int text_fits(const char *text, const char *pattern)
{
	size_t n = strlen(pattern);

	if (is_contained(pattern)) {
		char *word = str_new("%.*s", (int)n - 2, pattern + 1);
		int fits = strstr(text, word) != NULL;

		mem_free(word);
		return fits;
	}
	if (*pattern == '*')
		return str_ends(text, pattern + 1);
	return n && pattern[n - 1] == '*' ? !strncmp(text, pattern, n - 1) : !strcmp(text, pattern);
}

/* The choice that a field holds, as text; NULL if its value is none of them. */
static const char *choice_text(const struct option *o, const void *field)
{
	int64_t v = o->value || o->size == sizeof(int) ? *(const int *)field : *(const int64_t *)field;

	for (int i = 0; o->choices[i]; i++)
		if ((o->values ? o->values[i] : i) == v)
			return o->choices[i];
	return NULL;
}

static int64_t integer_of(const struct option *o, const void *field)
{
	return o->value || o->size == sizeof(int64_t) ? *(const int64_t *)field : *(const int *)field;
}

/* The value of an option as text, in new memory; NULL for a type whose values rules cannot name. */
static char *value_text(const struct option_row *r)
{
	const void *field = option_field(r->o, r->request);
	const char *text = NULL;

	if (r->o->type == OPTION_INT)
		return str_new("%lld", (long long)integer_of(r->o, field));
	if (r->o->type == OPTION_CHOICE)
		text = choice_text(r->o, field);
	else if (r->o->type == OPTION_TEXT)
		text = *(const char *const *)field;
	return text ? mem_strdup(text) : NULL;
}

static int value_fits(const struct option_row *r, const char *pattern)
{
	char *text = value_text(r);
	int fits = text && text_fits(text, pattern);

	mem_free(text);
	return fits;
}

/* Whether a list separated by commas or blanks holds the word. */
static int list_holds(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (; list && *(list += strspn(list, ", ")); list += strcspn(list, ", "))
		if (strcspn(list, ", ") == n && !strncmp(list, word, n))
			return 1;
	return 0;
}

struct case_of {
	const struct program *p;
	struct option_row rows[OPTION_MOST];
	int count;
	const struct option_given *given;
	char **operand;
	int n;
};

static const struct option_row *row_named(const struct case_of *c, const char *name)
{
	for (int i = 0; i < c->count; i++)
		if (goes_by(c->rows[i].o, name))
			return &c->rows[i];
	return NULL;
}

static int condition_holds(const struct case_of *c, const char *condition)
{
	size_t n = strcspn(condition, "=~");
	char *name = str_new("%.*s", (int)n, condition);
	const struct option_row *r = row_named(c, name);
	int holds = 0;

	mem_free(name);
	if (!strcmp(condition, "-"))
		for (int i = 0; i < c->n; i++)
			holds |= !strcmp(c->operand[i], "-");
	else if (!strncmp(condition, "1=", 2))
		holds = c->n > 0 && !strcmp(c->operand[0], condition + 2);
	else if (r && condition[n] == '=')
		holds = value_fits(r, condition + n + 1);
	else if (r && condition[n] == '~')
		holds = !option_was_given(c->given, r->o) || list_holds(*(const char *const *)option_field(r->o, r->request), condition + n + 1);
	else if (r)
		holds = option_was_given(c->given, r->o);
	return holds;
}

/* The first condition of the list that holds, in new memory, or NULL. */
static char *first_that_holds(const struct case_of *c, const char *list)
{
	char *word;

	for (int i = 0; (word = word_at(list, i)); i++) {
		if (condition_holds(c, word))
			return word;
		mem_free(word);
	}
	return NULL;
}

/* Appends the first operand's name in the synopsis and a value: "KIND loss". */
static void name_operand(struct str *s, const struct program *p, const char *value)
{
	str_printf(s, "%.*s %s", (int)strcspn(p->operands, " "), p->operands, value);
}

/* "--route=*oracle*" -> "--route oracle", "--metrics~fd" -> "--metrics fd", "1=loss" -> "KIND loss". The name is left out if the condition before
 * has the same. */
static void describe_condition(struct str *s, const struct program *p, const char *condition, const char *before)
{
	size_t n = strcspn(condition, "=~");
	const char *value = condition + n + (condition[n] != 0);
	int bare = is_contained(value); /* the stars are left out */

	if (!strcmp(condition, "-"))
		str_puts(s, "a list on standard input, the operand -");
	else if (!condition[n])
		str_puts(s, condition);
	else if (before && !strncmp(condition, before, n + 1))
		str_puts(s, value);
	else if (*condition != '-')
		name_operand(s, p, value);
	else
		str_printf(s, "%.*s %.*s", (int)n, condition, (int)strlen(value) - 2 * bare, value + bare);
}

static int refuse_alone(const struct program *p, const char *name, const char *list, struct err *e)
{
	struct str s = {0};
	char *word, *before = NULL;

	for (int i = 0; (word = word_at(list, i)); i++) {
		str_puts(&s, i ? " or " : "");
		describe_condition(&s, p, word, before);
		mem_free(before);
		before = word;
	}
	err_set(e, ERR_USAGE, "%s does nothing without %s", name, str_text(&s));
	mem_free(before);
	str_release(&s);
	return -1;
}

static int refuse_beside(const struct program *p, const char *name, const char *condition, struct err *e)
{
	struct str s = {0};

	describe_condition(&s, p, condition, NULL);
	err_set(e, ERR_USAGE, "%s does nothing with %s", name, str_text(&s));
	str_release(&s);
	return -1;
}

static int check_rule(const struct case_of *c, const char *name, const struct option_rule *r, struct err *e)
{
	char *holds = r->use == USE_NEEDS || r->use == USE_AGAINST ? first_that_holds(c, r->with) : NULL;
	int rc = 0;

	if (r->use == USE_NEEDS && !holds)
		rc = refuse_alone(c->p, name, r->with, e);
	else if (r->use == USE_AGAINST && holds)
		rc = refuse_beside(c->p, name, holds, e);
	mem_free(holds);
	return rc;
}

/* Whether the other option of a pair, one of which is required, was given. */
static int check_required(const struct case_of *c, struct err *e)
{
	char buf[3] = "-";

	for (int i = 0; i < c->count; i++) {
		const struct option *o = c->rows[i].o;
		int instead = i + 1 < c->count && c->rows[i + 1].o->either && option_was_given(c->given, c->rows[i + 1].o);

		buf[1] = o->letter;
		if (o->required && *o->required && !instead && !option_was_given(c->given, o))
			return err_set(e, ERR_USAGE, "%s is missing: %s", o->letter ? buf : o->name, o->required);
	}
	return 0;
}

int option_check(const struct program *p, const struct option_given *given, char **operand, int n, struct err *e)
{
	struct case_of c = {.p = p, .given = given, .operand = operand, .n = n};
	char buf[3];

	c.count = option_rows(p, c.rows);
	for (int i = 0; i < given->n; i++)
		for (const struct option_rule *r = given->v[i]->when; r < given->v[i]->when + OPTION_RULES; r++)
			if (check_rule(&c, option_label(given->v[i], buf), r, e))
				return -1;
	return check_required(&c, e);
}

/* Any valid value of the option. */
static void add_example(struct str *s, const struct option *o)
{
	int last = 0;

	switch (o->type) {
	case OPTION_FLAG:
	case OPTION_OFF:
		return;
	case OPTION_CHOICE:
		while (o->choices[last + 1])
			last++;
		str_puts(s, o->choices[last]);
		return;
	case OPTION_INT:
		str_printf(s, "%lld", (long long)(o->lo > 1 ? o->lo : 1));
		return;
	case OPTION_REAL:
		str_printf(s, "%.9g", o->lo != 0 || o->hi != 0 ? (o->hi < 1e9 ? (o->lo + o->hi) / 2 : o->lo) : 1.);
		return;
	case OPTION_U64:
	case OPTION_DURATION:
	case OPTION_SIZE:
		str_puts(s, "1");
		return;
	case OPTION_PARSED:
		str_puts(s, o->preset ? o->preset : o->example ? o->example : "x");
		return;
	default:
		str_puts(s, "x");
	}
}

char *option_rules_text(const struct program *p)
{
	static const char *const words[] = {"none", "always", "needs", "against", "input"};
	struct option_row rows[OPTION_MOST];
	struct str s = {0};
	int n = option_rows(p, rows);
	char buf[3];

	for (int i = 0; i < n; i++) {
		const struct option *o = rows[i].o;
		char *value = value_text(&rows[i]);

		for (int k = 0; k < OPTION_RULES && o != &option_builtin[0] && o != &option_builtin[1]; k++) {
			const struct option_rule *r = &o->when[k];

			if (k && r->use == USE_UNSAID)
				break;
			str_printf(&s, "%s\t%s\t%s\t", option_label(o, buf), words[r->use], r->with ? r->with : "");
			add_example(&s, o);
			str_printf(&s, "\t%s\n", value ? value : "");
		}
		mem_free(value);
	}
	str_puts(&s, "");
	return s.p;
}
