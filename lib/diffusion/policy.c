/* Parses and prints routing policies, and finds the entry of a schedule that holds at a time. */
#include "diffusion/policy.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/named.h"
#include "core/str.h"
#include "diffusion/route.h"

/* Policies of one word that are not a selection of the router's experts. */
enum { SHORT_ORACLE, SHORT_PRIOR, SHORT_TIME, SHORT_SWITCH, SHORTS };
static const struct short_form {
	struct named named;
	enum weight_kind weights;
	enum select_kind select;
} shorts[] = {
    [SHORT_ORACLE] = {{.name = "oracle"}, WEIGHT_ORACLE, SELECT_FULL},
    [SHORT_PRIOR] = {{.name = "prior"}, WEIGHT_PRIOR, SELECT_SAMPLE},
    [SHORT_TIME] = {{.name = "time"}, WEIGHT_TIME, SELECT_FULL},
    [SHORT_SWITCH] = {{.name = "switch", .numbers = ":T", .count = 1, .number = {{0, 0, 1}}}, WEIGHT_ROUTER, SELECT_FULL},
};

#define WORDS(kind, form, ...) __VA_ARGS__,
const char *const policy_words[] = {SELECT_LIST(WORDS) "switch:", "oracle", "prior", "time", NULL};

/* What may follow a selection. */
enum { MODIFIER_RAW, MODIFIER_KEEP };
static const struct named modifiers[] = {
    [MODIFIER_RAW] = {.name = "raw"},
    [MODIFIER_KEEP] = {.name = "keep", .numbers = ":MARGIN", .count = 1, .number = {{0, 0, 1}}},
};
static const struct named_table modifier_table = NAMED_TABLE(modifiers);

static const struct policy_entry first_entry = {.from = 1, .temperature = 1};

int policy_is_long(const char *text)
{
	return strpbrk(text, "|@,") != NULL;
}

/* A word alone that names weights and is no short form. */
static int is_weights(const char *word)
{
	size_t n = strcspn(word, ":");

	for (size_t i = 0; i < weight_table.rows; i++) {
		const char *name = named_row(&weight_table, i)->name;

		if (strlen(name) == n && !strncmp(word, name, n))
			return 1;
	}
	return 0;
}

/* Parses a policy of one word: a selection or a short form. switch:T makes two entries. */
static int parse_word(const char *word, struct policy *p, struct err *e)
{
	struct named all[SELECTS + SHORTS];
	const struct named_table table = NAMED_TABLE(all);
	struct policy_entry *y = &p->entry[p->entries];
	double number[NAMED_NUMBERS];
	int i;

	for (int k = 0; k < SELECTS; k++)
		all[k] = *named_row(&select_table, (size_t)k);
	for (int k = 0; k < SHORTS; k++)
		all[SELECTS + k] = shorts[k].named;
	if (strcmp(word, "oracle") && strcmp(word, "prior") && strcmp(word, "time") && is_weights(word))
		return err_set(e, ERR_USAGE, "'%s' names weights alone: add a selection, as in '%s|full'", word, word);
	if ((i = named_parse(&table, word, number, e)) < 0)
		return -1;
	p->entries++;
	if (i < SELECTS) {
		y->weights = i == SELECT_EXPERT ? WEIGHT_UNIFORM : WEIGHT_ROUTER;
		y->select = (enum select_kind)i;
		y->number = number[0];
		return 0;
	}
	y->weights = shorts[i - SELECTS].weights;
	y->select = shorts[i - SELECTS].select;
	if (i - SELECTS == SHORT_SWITCH)
		p->entry[p->entries++] =
		    (struct policy_entry){.from = number[0], .weights = WEIGHT_ROUTER, .temperature = 1, .select = SELECT_TOP, .number = 1};
	return 0;
}

static int parse_modifier(const char *text, struct policy_entry *y, struct err *e)
{
	const char *name = named_row(&select_table, y->select)->name;
	double number[NAMED_NUMBERS];
	int i = named_parse(&modifier_table, text, number, e);

	if (i < 0)
		return err_prefix(e, "modifier");
	if (i == MODIFIER_RAW && !route_may_drop(y))
		return err_set(e, ERR_USAGE, "'%s' does nothing with %s: it is for selections that drop experts and scale the weights of the others",
		               text, name);
	if (i == MODIFIER_KEEP && y->select != SELECT_TOP)
		return err_set(e, ERR_USAGE, "'%s' does nothing with %s: it is for top-K", text, name);
	if (i == MODIFIER_RAW)
		y->raw = 1;
	else
		y->keep = number[0];
	return 0;
}

/* Cuts the text at its next bar. Returns what follows, or NULL. */
static char *cut_bar(char *text)
{
	char *bar = strchr(text, '|');

	if (bar)
		*bar++ = 0;
	return bar;
}

/* Parses WEIGHTS|SELECTION[|MODIFIER].., or a word, into the next entry. Cuts `text`. */
static int parse_entry(char *text, struct policy *p, struct err *e)
{
	struct policy_entry *y = &p->entry[p->entries];
	char *select = cut_bar(text), *modifier;
	double number[NAMED_NUMBERS];
	int i;

	if (!select)
		return parse_word(text, p, e);
	if ((i = named_parse(&weight_table, text, number, e)) < 0)
		return err_prefix(e, "weights");
	y->weights = (enum weight_kind)i;
	y->temperature = named_row(&weight_table, (size_t)i)->count ? number[0] : 1;
	modifier = cut_bar(select);
	if ((i = named_parse(&select_table, select, number, e)) < 0)
		return err_prefix(e, "selection");
	y->select = (enum select_kind)i;
	y->number = number[0];
	p->entries++;
	for (char *next; modifier; modifier = next) {
		next = cut_bar(modifier);
		if (parse_modifier(modifier, y, e))
			return -1;
	}
	return 0;
}

/* Parses @T, if there is one, into the time from which the next entry holds. Cuts `text`. */
static int parse_time(char *text, struct policy *p, struct err *e)
{
	struct policy_entry *y = &p->entry[p->entries];
	char *at = strrchr(text, '@');

	*y = first_entry;
	if (!at && p->entries)
		return err_set(e, ERR_USAGE, "'%s' needs the time from which it holds, as in '%s@.5'", text, text);
	if (!at)
		return 0;
	if (parse_f64(at + 1, 0, 1, &y->from))
		return err_set(e, ERR_USAGE, "'%s' is not @T with T a number from 0 to 1", at);
	*at = 0;
	if (!p->entries && y->from != 1)
		return err_set(e, ERR_USAGE, "'%s@%s': the first entry of a schedule holds from t = 1: write %s@1", text, at + 1, text);
	if (p->entries && y->from >= y[-1].from)
		return err_set(e, ERR_USAGE, "'%s@%s': t runs from 1 down to 0, so the time must be below the %g of the entry before", text, at + 1,
		               y[-1].from);
	return 0;
}

static int parse_entries(char *text, struct policy *p, struct err *e)
{
	for (char *next; text; text = next) {
		if ((next = strchr(text, ',')))
			*next++ = 0;
		if (p->entries == POLICY_ENTRIES)
			return err_set(e, ERR_USAGE, "a schedule of more than %d entries", POLICY_ENTRIES);
		if (parse_time(text, p, e))
			return -1;
		if (!strncmp(text, "switch", 6) && (p->entries || next))
			return err_set(e, ERR_USAGE, "'%s' is a schedule itself: it stands alone", text);
		if (parse_entry(text, p, e))
			return -1;
	}
	for (int i = 0; p->entries > 1 && i < p->entries; i++)
		if (p->entry[i].select == SELECT_BUDGET)
			return err_set(e, ERR_USAGE, "budget:GFLOP shares its GFLOP out over all steps: it stands alone, not in a schedule");
	return 0;
}

int policy_parse(const char *text, struct policy *p, struct err *e)
{
	char *copy = mem_strdup(text);
	int rc;

	memset(p, 0, sizeof *p);
	rc = parse_entries(copy, p, e);
	mem_free(copy);
	return rc;
}

struct policy policy_of(const char *text)
{
	struct policy p;
	struct err e = {0};
	int rc = policy_parse(text, &p, &e);

	assert(!rc);
	(void)rc;
	return p;
}

/* Without a zero before the point: .8 */
static void put_number(struct str *s, double v)
{
	char text[F64_TEXT];

	print_f64(text, v);
	str_puts(s, text + (text[0] == '0' && text[1] == '.'));
}

static void put_named(struct str *s, const struct named *n, double number)
{
	str_puts(s, n->name);
	if (!n->count)
		return;
	str_add(s, n->numbers, 1);
	put_number(s, number);
}

/* Whether the entry is these weights and this selection, without temperature and modifiers. */
static int is_plain(const struct policy_entry *y, enum weight_kind weights, enum select_kind select)
{
	return y->weights == weights && y->select == select && y->temperature == 1 && !y->raw && y->keep == 0;
}

/* Appends the short form of an entry and returns 1, or returns 0 if it has none. */
static int put_short(struct str *s, const struct policy_entry *y)
{
	for (int i = 0; i < SHORT_SWITCH; i++)
		if (is_plain(y, shorts[i].weights, shorts[i].select)) {
			str_puts(s, shorts[i].named.name);
			return 1;
		}
	if (!is_plain(y, WEIGHT_ROUTER, y->select) && y->select != SELECT_EXPERT)
		return 0;
	put_named(s, named_row(&select_table, y->select), y->number);
	return 1;
}

static void put_entry(struct str *s, const struct policy_entry *y)
{
	if (put_short(s, y))
		return;
	str_puts(s, named_row(&weight_table, y->weights)->name);
	if (y->temperature != 1) {
		str_puts(s, ":");
		put_number(s, y->temperature);
	}
	str_puts(s, "|");
	put_named(s, named_row(&select_table, y->select), y->number);
	if (y->raw)
		str_puts(s, "|raw");
	if (y->keep > 0) {
		str_puts(s, "|");
		put_named(s, &modifiers[MODIFIER_KEEP], y->keep);
	}
}

char *policy_text(const struct policy *p)
{
	const struct policy_entry *y = p->entry;
	struct str s = {0};

	if (p->entries == 2 && is_plain(&y[0], WEIGHT_ROUTER, SELECT_FULL) && is_plain(&y[1], WEIGHT_ROUTER, SELECT_TOP) && y[1].number == 1) {
		put_named(&s, &shorts[SHORT_SWITCH].named, y[1].from);
		return s.p;
	}
	for (int i = 0; i < p->entries; i++) {
		str_puts(&s, i ? "," : "");
		put_entry(&s, &y[i]);
		if (p->entries == 1)
			break;
		str_puts(&s, "@");
		put_number(&s, y[i].from);
	}
	return s.p;
}

size_t policy_span(const char *list)
{
	size_t n = strcspn(list, ",");

	while (list[n]) {
		size_t end = n + 1 + strcspn(list + n + 1, ",");
		size_t at = n + 1 + strcspn(list + n + 1, "@");

		if (at >= end || strtod(list + at + 1, NULL) == 1)
			break;
		n = end;
	}
	return n;
}

const struct policy_entry *policy_at(const struct policy *p, double t)
{
	int i = 0;

	while (i + 1 < p->entries && t <= p->entry[i + 1].from)
		i++;
	return &p->entry[i];
}

int policy_uses_from(const struct policy *p, enum weight_kind source, double t)
{
	for (const struct policy_entry *y = policy_at(p, t); y < p->entry + p->entries; y++)
		if (y->weights == source && y->select != SELECT_EXPERT)
			return 1;
	return 0;
}

int policy_uses(const struct policy *p, enum weight_kind source)
{
	return policy_uses_from(p, source, 1);
}

int policy_entry_own(const struct policy_entry *y)
{
	return y->select != SELECT_EXPERT && (y->weights == WEIGHT_ORACLE || (y->weights == WEIGHT_PRIOR && y->select == SELECT_SAMPLE));
}

int policy_needs_trajectory(const struct policy *p)
{
	for (int i = 0; i < p->entries; i++)
		if (p->entry[i].weights == WEIGHT_DISTANCE || p->entry[i].weights == WEIGHT_DENSITY || p->entry[i].keep > 0 ||
		    p->entry[i].select == SELECT_BUDGET)
			return 1;
	return 0;
}

int policy_may_select(const struct policy *p, int k)
{
	for (int i = 0; i < p->entries; i++)
		if (p->entry[i].select != SELECT_EXPERT || (int)p->entry[i].number == k)
			return 1;
	return 0;
}

int policy_check(const struct policy *p, int k, const unsigned char *present, struct err *e)
{
	for (int i = 0; i < p->entries; i++) {
		const struct policy_entry *y = &p->entry[i];
		int n = (int)y->number;

		if (y->select == SELECT_TOP && n > k)
			return err_set(e, ERR_USAGE, "route top-%d: the model has only %d experts", n, k);
		if (y->select == SELECT_EXPERT && n < k && !present[n])
			return err_set(e, ERR_USAGE, "route expert:%d: the model has no expert_%d", n, n);
		if (y->select == SELECT_EXPERT && n >= k)
			return err_set(e, ERR_USAGE, "route expert:%d: the model has no such expert (it has %d, numbered from 0)", n, k);
	}
	return 0;
}
