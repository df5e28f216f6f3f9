/* Parses names with numbers behind them, and lists what a table holds. */
#include "core/named.h"

#include <stdio.h>
#include <string.h>

#include "core/wordsuggest.h"
#include "core/mem.h"
#include "core/str.h"

const struct named *named_row(const struct named_table *t, size_t i)
{
	return (const struct named *)(const void *)((const char *)t->row + i * t->size);
}

static void put_row(struct str *s, const struct named *r)
{
	str_puts(s, r->name);
	if (r->numbers)
		str_printf(s, r->optional ? "[%s]" : "%s", r->numbers);
}

static int refuse_name(const struct named_table *t, const char *text, struct err *e)
{
	const char **words = mem_zalloc(t->rows + 1, sizeof *words);
	char hint[WORD_SUGGESTION];
	struct str all = {0};

	for (size_t i = 0; i < t->rows; i++) {
		words[i] = named_row(t, i)->name;
		str_puts(&all, i ? ", " : "");
		put_row(&all, named_row(t, i));
	}
	err_set(e, ERR_USAGE, "'%s' is not one of %s%s", text, str_text(&all), word_suggest(hint, text, words));
	mem_free((void *)words);
	str_release(&all);
	return -1;
}

/* "'nucleus:1.5' is not nucleus:P with P a number from 0 to 1" */
static int refuse_numbers(const struct named *r, const char *text, struct err *e)
{
	const char *word = r->numbers ? r->numbers + 1 : "";
	struct str s = {0};

	put_row(&s, r);
	for (int i = 0; i < r->count; i++) {
		int n = (int)strcspn(word, ",");

		str_printf(&s, "%s %.*s %s from %.10g to %.10g", i ? "," : " with", n, word, r->whole ? "an integer" : "a number", r->number[i].lo,
		           r->number[i].hi);
		word += n + (word[n] == ',');
	}
	err_set(e, ERR_USAGE, r->count ? "'%s' is not %s" : "'%s' is not %s, which takes no number", text, str_text(&s));
	str_release(&s);
	return -1;
}

/* Parses the numbers in `text`, which begins with the separator before the first one. 0, or -1 if one is malformed or out of range. */
static int parse_numbers(const struct named *r, const char *text, double *number)
{
	char one[64];

	if (*text++ != r->numbers[0])
		return -1;
	for (int i = 0; i < r->count; i++) {
		size_t n = strcspn(text, ",");
		int64_t whole;

		if (n >= sizeof one)
			return -1;
		memcpy(one, text, n);
		one[n] = 0;
		if (r->whole ? parse_i64(one, (int64_t)r->number[i].lo, (int64_t)r->number[i].hi, &whole)
		             : parse_f64(one, r->number[i].lo, r->number[i].hi, &number[i]))
			return -1;
		if (r->whole)
			number[i] = (double)whole;
		text += n;
		if (i + 1 < r->count && *text++ != ',')
			return -1;
	}
	return *text ? -1 : 0;
}

int named_parse(const struct named_table *t, const char *text, double number[NAMED_NUMBERS], struct err *e)
{
	const struct named *nearest = NULL;

	for (size_t i = 0; i < t->rows; i++) {
		const struct named *r = named_row(t, i);
		size_t n = strlen(r->name);

		if (strncmp(text, r->name, n))
			continue;
		for (int k = 0; k < NAMED_NUMBERS; k++)
			number[k] = r->number[k].usual;
		if (!text[n] && (!r->count || r->optional))
			return (int)i;
		if (r->count && !parse_numbers(r, text + n, number))
			return (int)i;
		if (!text[n] || text[n] == (r->numbers ? *r->numbers : ':'))
			nearest = r;
	}
	return nearest ? refuse_numbers(nearest, text, e) : refuse_name(t, text, e);
}
