/* data/condition: precedence, comparison of numbers and texts, missing columns, messages with positions, hostile texts; core/binning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/binning.h"
#include "core/mem.h"
#include "core/hash.h"
#include "core/str.h"
#include "data/condition.h"

/* The sample of these tests. Columns that are not listed are missing. */
static const struct {
	const char *name;
	struct condition_value v;
} facts[] = {
    {"a", {1, 1, 2, "2"}},         {"b", {1, 1, 3, "3"}},          {"zero", {1, 1, 0, "0"}},
    {"neg", {1, 1, -1.5, "-1.5"}}, {"x.y", {1, 1, 10, "10"}},      {"who", {1, 0, 0, "rose red"}},
    {"num", {1, 1, 7, "007"}},     {"odd name-1", {1, 1, 4, "4"}}, {"key", {1, 0, 0, "roses/001"}},
};

enum { MOST = 200 };

/* Whether all rules of a condition hold for the sample. *lacks: the names of columns that were missing, with blanks between. */
static int holds(const char *text, struct str *lacks, int64_t *undefined)
{
	struct err e = {0};
	struct condition *c = condition_parse(text, &e);
	struct condition_value v[MOST] = {{0}};
	uint8_t missing[MOST] = {0};
	int yes = 1;

	if (!c)
		fail_msg("%s: %s", text, e.msg);
	for (int i = 0; i < condition_columns(c); i++)
		for (size_t k = 0; k < sizeof facts / sizeof *facts; k++)
			if (!strcmp(facts[k].name, condition_column(c, i)))
				v[i] = facts[k].v;
	for (int i = 0; i < condition_rules(c); i++)
		yes &= condition_holds(c, i, v, missing, undefined);
	for (int i = 0; i < condition_columns(c) && lacks; i++)
		if (missing[i])
			str_printf(lacks, "%s%s", lacks->len ? " " : "", condition_column(c, i));
	condition_free(c);
	return yes;
}

static void truths(void **state)
{
	/* Each with its value in C, or by the rules that the header states. */
	static const struct {
		const char *text;
		int value;
	} cases[] = {
	    {"a == 2", 1},
	    {"a != 2", 0},
	    {"a < 2", 0},
	    {"a <= 2", 1},
	    {"2 > a", 0},
	    {"2 >= a", 1},
	    {"a + b * 2 == 8", 1},
	    {"(a + b) * 2 == 10", 1},
	    {"a - b - 1 == -2", 1},
	    {"12 / b / a == 2", 1},
	    {"-a == -2", 1},
	    {"- -a == 2", 1},
	    {"-(a + 1) == -3", 1},
	    {"a*-b == -6", 1},
	    {"neg < 0", 1},
	    {"a == 1 || b == 3 && zero == 1", 0},
	    {"(a == 1 || b == 3) && zero == 0", 1},
	    {"a == 2 || b == 4 && zero == 1", 1},
	    {"!(a == 2)", 0},
	    {"a", 1},
	    {"zero", 0},
	    {"!zero", 1},
	    {"!zero && a", 1},
	    {"1", 1},
	    {"x.y > 9.5", 1},
	    {"`odd name-1` == 4", 1},
	    {"who == 'rose red'", 1},
	    {"who == \"rose red\"", 1},
	    {"who != 'rose'", 1},
	    {"who == 'rose'", 0},
	    {"num == 7", 1},
	    {"num == '007'", 1},
	    {"num == '7'", 0},
	    {"who == 3", 0},
	    {"who != 3", 0}, /* a text and a number cannot be compared: false */
	    {"who > a", 0},
	    {"who", 0},
	    {"key ~ 'roses/*'", 1},
	    {"key ~ '*00?'", 1},
	    {"key ~ '*00'", 0},
	    {"key ~ '*'", 1},
	    {"key ~ ''", 0},
	    {"key ~ 'roses/001'", 1},
	    {"key ~ 'r*s/*1*'", 1},
	    {"key ~ '?oses/0?1'", 1},
	    {"key ~ '?oses/0?1?'", 0},
	    {"has(a)", 1},
	    {"has(none)", 0},
	    {"!has(none)", 1},
	    {"has(`odd name-1`)", 1},
	    {"none > 1", 0},
	    {"none <= 1", 0},
	    {"none != 1", 0},
	    {"!(none > 1)", 1},
	    {"none > 1 || a == 2", 1},
	    {"a / zero > 1", 0},
	    {"a / zero <= 1", 0},
	    {".5 < 1e0", 1},
	    {"1.5e-1 == .15", 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (holds(cases[i].text, NULL, &(int64_t){0}) != cases[i].value)
			fail_msg("%s is not %d", cases[i].text, cases[i].value);
}

/* What a comparison lacked is noted wherever it stands, also behind || that is true already. */
static void missing(void **state)
{
	struct str lacks = {0};
	int64_t undefined = 0;

	(void)state;
	assert_int_equal(holds("a == 2 || none > 1 || other + a < 1 || has(third) || who > 3 || num == '007'", &lacks, &undefined), 1);
	assert_string_equal(str_text(&lacks), "none other who");
	assert_int_equal(undefined, 0);
	str_reset(&lacks);
	assert_int_equal(holds("a / zero > 1 || b / (a - 2) < 1", &lacks, &undefined), 0);
	assert_string_equal(str_text(&lacks), "");
	assert_int_equal(undefined, 2);
	str_release(&lacks);
}

static void errors(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
	    {"", "condition, at its end: expected a column, a number or a text"},
	    {"   ", "condition, at its end: expected a column, a number or a text"},
	    {"a >", "condition, at its end: expected a column, a number or a text"},
	    {"a > && b", "condition, character 5: expected a column, a number or a text; found '&& b'"},
	    {"a = 2", "condition, character 3: values are compared with ==; found '= 2'"},
	    {"a & b", "condition, character 3: conditions are joined by && and ||; found '& b'"},
	    {"a | b", "condition, character 3: conditions are joined by && and ||; found '| b'"},
	    {"a > 1 and b > 1", "condition, character 7: expected an operator such as && or >; found 'and b > 1'"},
	    {"(a > 1", "condition, at its end: expected an operator or ')'"},
	    {"a > 1)", "condition, character 6: a ')' that nothing opened; found ')'"},
	    {"a < b < 3", "condition, character 7: a comparison has two sides; write a < b && b < c; found '< 3'"},
	    {"1 2", "condition, character 3: expected an operator; found '2'"},
	    {"max(a, b) > 1", "condition, character 1: an unknown function: there is has(column) only; found 'max(a, b) > 1'"},
	    {"has(1)", "condition, character 5: expected the name of a column in has(...); found '1)'"},
	    {"has(a b)", "condition, character 7: expected ')' after the name of a column in has(...); found 'b)'"},
	    {"'text'", "condition, character 1: a text is no condition: compare it with a column; found ''text''"},
	    {"a && 'text'", "condition, character 6: a text is no condition: compare it with a column; found ''text''"},
	    {"who == 'rose", "condition, character 8: a quotation mark has no second one; found ''rose'"},
	    {"``", "condition, character 1: a column without a name; found '``'"},
	    {"who < 'b'", "condition, character 1: a text can be compared with ==, != and ~ only; found 'who < 'b''"},
	    {"who + 'b' == 1", "condition, character 7: a text has no arithmetic; found ''b' == 1'"},
	    {"who ~ a", "condition, character 7: ~ needs a pattern in quotation marks on its right side; found 'a'"},
	    {"(a > 1) + 1 > 2", "condition, character 1: + needs values on both sides, not conditions; found '(a > 1) + 1 > 2'"},
	    {"!a == 2", "condition, character 1: == needs values on both sides, not conditions; found '!a == 2'"},
	    {"3rd > 1", "condition, character 1: expected a number; a column whose name begins with a digit needs backquotes; found '3rd > 1'"},
	    {"1.2.3 > 1", "condition, character 1: expected a number; a column whose name begins with a digit needs backquotes; found '1.2.3 > 1'"},
	    {"1e999 > a", "condition, character 1: expected a number; a column whose name begins with a digit needs backquotes; found '1e999 > a'"},
	    {"a > 1; rm", "condition, character 6: a character that has no meaning here; found '; rm'"},
	    {"a > $b", "condition, character 5: a character that has no meaning here; found '$b'"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct err e = {0};

		assert_null(condition_parse(cases[i].text, &e));
		assert_int_equal(e.code, 2);
		assert_string_equal(e.msg, cases[i].message);
	}
}

/* n times `text`, then `end`. */
static char *repeated(const char *text, int n, const char *end)
{
	struct str s = {0};

	for (int i = 0; i < n; i++)
		str_puts(&s, text);
	str_puts(&s, end);
	return s.p;
}

/* Nested and long texts are refused before they take much memory or stack. */
static void bombs(void **state)
{
	static const struct {
		const char *text, *end, *message;
		int n;
	} cases[] = {
	    {"(", "a", "more than 100 parentheses", 4000},       {"!", "a", "more than 100 parentheses", 4000},
	    {"-", "a", "more than 100 parentheses", 4000},       {"a&&", "a", "more than 1000 operators and values", 2000},
	    {"a+", "a>0", "more than 1000 operators", 2000},     {" ", "a", "more than 8192", 1 << 20},
	    {"has(a)||", "a", "more than 1000 operators", 1000},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *text = repeated(cases[i].text, cases[i].n, cases[i].end);
		struct err e = {0};

		assert_null(condition_parse(text, &e));
		assert_int_equal(e.code, 2);
		assert_non_null(strstr(e.msg, cases[i].message));
		mem_free(text);
	}
	for (int n = 90; n <= 120; n++) { /* around the limit of depth */
		struct str s = {0};
		struct err e = {0};
		struct condition *c;

		for (int i = 0; i < n; i++)
			str_puts(&s, "(");
		str_puts(&s, "a > 1");
		for (int i = 0; i < n; i++)
			str_puts(&s, ")");
		c = condition_parse(s.p, &e);
		assert_int_equal(c != NULL, n < CONDITION_DEPTH);
		condition_free(c);
		str_release(&s);
	}
}

/* Every prefix of a condition, and every condition with one character replaced, is parsed or refused with a position. */
static void mutations(void **state)
{
	static const char text[] = "motion > .1 && (sharp >= 3e-1 || !has(`x y`)) && -a*b/2 < 1 + c && key ~ 'a*?' && who == \"b\"";
	static const char letters[] = "a1.'\"`()!&|=<>~+-*/ \x80\xff$";
	char copy[sizeof text];
	int parsed = 0;

	(void)state;
	for (size_t at = 0; at < sizeof text; at++)
		for (size_t k = 0; k < sizeof letters; k++) { /* the last one is NUL: a prefix */
			struct err e = {0};
			struct condition *c;

			memcpy(copy, text, sizeof text);
			copy[at] = letters[k];
			copy[sizeof text - 1] = 0;
			c = condition_parse(copy, &e);
			parsed += c != NULL;
			assert_true(c || !strncmp(e.msg, "condition, ", 11));
			condition_free(c);
		}
	assert_true(parsed > 100);
}

static void rules(void **state)
{
	static const char *const text[] = {"a > 1", "(b < 2 || c)", "!d", "e + 1 >= 3", "-2 == f", "key ~ 'x'", "g == h"};
	static const char *const measured[] = {"a", "b", "d", "e + 1", "f", NULL, "g"};
	static const double limit[] = {1, NAN, NAN, 3, -2, NAN, NAN};
	struct err e = {0};
	struct condition *c = condition_parse("a > 1 && (b < 2 || c) && (!d && e + 1 >= 3) && -2 == f && key ~ 'x' && g == h", &e);

	(void)state;
	assert_non_null(c);
	assert_int_equal(condition_rules(c), 7);
	for (int i = 0; i < 7; i++) {
		int has_limit;
		double v;
		const char *name = condition_measured(c, i, &has_limit, &v);

		assert_string_equal(condition_rule(c, i), text[i]);
		assert_int_equal(name != NULL, measured[i] != NULL);
		if (name)
			assert_string_equal(name, measured[i]);
		assert_int_equal(has_limit, !isnan(limit[i]));
		if (has_limit)
			assert_true(v == limit[i]);
	}
	condition_free(c);
}

/* Counts do not depend on the order of the values, and each value is in the bin that contains it. */
static void bins(void **state)
{
	enum { N = 3000 };
	static double v[N];
	struct binning one = {0}, other = {0};
	int64_t total = 0;

	(void)state;
	for (int i = 0; i < N; i++) {
		double u = (double)(hash64(&i, sizeof i) >> 11) * 0x1p-53;

		v[i] = i % 7 ? u * u * 90 - 20 : i % 2 ? -u * 1e-9 : 0;
	}
	for (int i = 0; i < N; i++) {
		binning_add(&one, v[i], i % 3 == 0);
		binning_add(&other, v[N - 1 - i], (N - 1 - i) % 3 == 0);
	}
	assert_memory_equal(&one, &other, sizeof one);
	assert_int_equal(one.values, N);
	assert_true(one.last - one.first < BINNING_BINS && one.last - one.first >= BINNING_BINS / 2 - 1);
	for (int64_t b = one.first; b <= one.last; b++) {
		double lo = (double)b * binning_width(&one), hi = lo + binning_width(&one);
		int64_t in[2] = {0};

		for (int i = 0; i < N; i++)
			in[i % 3 == 0] += v[i] >= lo && v[i] < hi;
		assert_int_equal(one.count[b - one.first][0], in[0]);
		assert_int_equal(one.count[b - one.first][1], in[1]);
		total += in[0] + in[1];
	}
	assert_int_equal(total, N);
}

static void extreme_bins(void **state)
{
	static const double v[] = {0, 1e300, -1e300, 5e-324, -5e-324, 1, 1.0000000001, 1e15};
	enum { N = sizeof v / sizeof *v };
	struct binning first = {0}, b = {0}, same = {0};

	(void)state;
	for (int i = 0; i < N; i++)
		binning_add(&first, v[i], 0);
	for (int start = 1; start < N; start++) {
		memset(&b, 0, sizeof b);
		for (int i = 0; i < N; i++)
			binning_add(&b, v[(start + i) % N], 0);
		assert_memory_equal(&b, &first, sizeof b);
	}
	for (int i = 0; i < 10; i++)
		binning_add(&same, .1, 1);
	assert_int_equal(same.first, same.last);
	assert_int_equal(same.count[0][1], 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(truths),    cmocka_unit_test(missing), cmocka_unit_test(errors), cmocka_unit_test(bombs),
	    cmocka_unit_test(mutations), cmocka_unit_test(rules),   cmocka_unit_test(bins),   cmocka_unit_test(extreme_bins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
