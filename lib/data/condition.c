/* Evaluates conditions. */
#include "data/condition.h"

#include <math.h>
#include <string.h>

#include "data/conditionimpl.h"

void condition_free(struct condition *c)
{
	if (!c)
		return;
	arena_release(&c->memory);
	mem_free(c);
}

int condition_columns(const struct condition *c)
{
	return c->columns;
}

const char *condition_column(const struct condition *c, int i)
{
	return c->column[i];
}

int condition_needs(const struct condition *c, int i)
{
	return c->needs[i];
}

int condition_rules(const struct condition *c)
{
	return c->rules;
}

const char *condition_rule(const struct condition *c, int rule)
{
	return c->rule[rule].text;
}

int condition_is_truth(const struct condition *c, int node)
{
	return c->node[node].kind >= CONDITION_IS_TRUE;
}

static double calculate(enum condition_kind kind, double a, double b)
{
	return kind == CONDITION_ADD        ? a + b
	       : kind == CONDITION_SUBTRACT ? a - b
	       : kind == CONDITION_MULTIPLY ? a * b
	       : kind == CONDITION_DIVIDE   ? a / b
	                                    : -a;
}

/* A column as a number: marks it as lacking if it is none. */
static struct condition_value number_of(const struct condition *c, int node, struct condition_value v, uint8_t *lacks)
{
	if (v.there && !v.is_number && c->node[node].kind == CONDITION_COLUMN && lacks)
		lacks[c->node[node].column] = 1;
	v.there = v.is_number;
	return v;
}

struct condition_value condition_value_of(const struct condition *c, int node, const struct condition_value *column, uint8_t *lacks,
                                          int64_t *undefined)
{
	const struct condition_node *n = &c->node[node];
	struct condition_value a, b = {.there = 1}, none = {0};
	double result;

	if (n->kind == CONDITION_NUMBER)
		return (struct condition_value){.there = 1, .is_number = 1, .number = n->number};
	if (n->kind == CONDITION_TEXT)
		return (struct condition_value){.there = 1, .text = n->text};
	if (n->kind == CONDITION_COLUMN) {
		if (!column[n->column].there && lacks)
			lacks[n->column] = 1;
		return column[n->column];
	}
	a = number_of(c, n->a, condition_value_of(c, n->a, column, lacks, undefined), lacks);
	if (n->b >= 0)
		b = number_of(c, n->b, condition_value_of(c, n->b, column, lacks, undefined), lacks);
	if (!a.there || !b.there)
		return none;
	result = calculate(n->kind, a.number, b.number);
	if (isfinite(result))
		return (struct condition_value){.there = 1, .is_number = 1, .number = result};
	++*undefined;
	return none;
}

/* Whether a text matches a pattern with * and ?. After a mismatch only the last * is tried again, so that the time is at most the product of the
 * two lengths. */
static int is_like(const char *text, const char *pattern)
{
	const char *star = NULL, *again = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			again = text;
		} else if (*pattern == '?' || *pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++again;
		} else {
			return 0;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

static int compare_numbers(enum condition_kind kind, double a, double b)
{
	return kind == CONDITION_EQUAL       ? a == b
	       : kind == CONDITION_DIFFERENT ? a != b
	       : kind == CONDITION_LESS      ? a < b
	       : kind == CONDITION_AT_MOST   ? a <= b
	       : kind == CONDITION_MORE      ? a > b
	                                     : a >= b;
}

static int compare(const struct condition *c, const struct condition_node *n, const struct condition_value *column, uint8_t *lacks,
                   int64_t *undefined)
{
	struct condition_value a = condition_value_of(c, n->a, column, lacks, undefined), b = condition_value_of(c, n->b, column, lacks, undefined);
	int by_text = n->kind == CONDITION_EQUAL || n->kind == CONDITION_DIFFERENT;

	if (!a.there || !b.there)
		return 0;
	if (n->kind == CONDITION_LIKE)
		return a.text && is_like(a.text, b.text);
	if (a.is_number && b.is_number)
		return compare_numbers(n->kind, a.number, b.number);
	if (by_text && a.text && b.text)
		return !strcmp(a.text, b.text) == (n->kind == CONDITION_EQUAL);
	number_of(c, n->a, a, lacks);
	number_of(c, n->b, b, lacks);
	return 0;
}

/* Both sides of && and || are always evaluated, so that the counts of what samples lack do not depend on the order of the condition. */
static int holds(const struct condition *c, int node, const struct condition_value *column, uint8_t *lacks, int64_t *undefined)
{
	const struct condition_node *n = &c->node[node];
	struct condition_value v;
	int a, b;

	switch (n->kind) {
	case CONDITION_AND:
	case CONDITION_OR:
		a = holds(c, n->a, column, lacks, undefined);
		b = holds(c, n->b, column, lacks, undefined);
		return n->kind == CONDITION_AND ? a && b : a || b;
	case CONDITION_NOT:
		return !holds(c, n->a, column, lacks, undefined);
	case CONDITION_HAS:
		return column[n->column].there;
	case CONDITION_IS_TRUE:
		v = number_of(c, n->a, condition_value_of(c, n->a, column, lacks, undefined), lacks);
		return v.there && v.number != 0;
	default:
		return compare(c, n, column, lacks, undefined);
	}
}

int condition_holds(const struct condition *c, int rule, const struct condition_value *column, uint8_t *lacks, int64_t *undefined)
{
	return holds(c, c->rule[rule].node, column, lacks, undefined);
}

int condition_measure(const struct condition *c, int rule, const struct condition_value *column, double *v)
{
	struct condition_value x = {0};

	if (c->rule[rule].measure >= 0)
		x = condition_value_of(c, c->rule[rule].measure, column, NULL, &(int64_t){0});
	if (!x.there || !x.is_number)
		return 0;
	*v = x.number;
	return 1;
}

const char *condition_measured(const struct condition *c, int rule, int *has_limit, double *limit)
{
	const struct condition_rule *r = &c->rule[rule];

	*has_limit = r->has_limit;
	*limit = r->limit;
	return r->measured;
}
