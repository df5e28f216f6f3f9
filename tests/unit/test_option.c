/* core/option: every type, every way of writing an option, every refusal, and everything that follows from a declaration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/option.h"

static struct {
	int quiet, fast, solver, k_given;
	int64_t k, any;
	uint64_t seed, memory;
	double lr, every;
	const char *out;
	struct option_list extra;
} v;

static const char *const solvers[] = {"euler", "heun", NULL};

static const struct option options[] = {
    {.name = "--quiet", .letter = 'q', .value = &v.quiet, .help = "say nothing"},
    {.letter = 'f', .value = &v.fast, .help = "only a letter"},
    {.letter = 'k', .type = OPTION_INT, .value = &v.k, .lo = 1, .hi = 8, .arg = "K", .help = "clusters", .given = &v.k_given},
    {.name = "--any", .type = OPTION_INT, .value = &v.any, .arg = "N", .help = "without limits"},
    {.name = "--seed", .type = OPTION_U64, .value = &v.seed, .arg = "S", .help = "seed (default 0)"},
    {.name = "--lr", .type = OPTION_REAL, .value = &v.lr, .lo = 0, .hi = 1, .arg = "R", .help = "learning rate"},
    {.name = "--every", .type = OPTION_DURATION, .value = &v.every, .arg = "TIME", .help = "period"},
    {.name = "--memory", .type = OPTION_SIZE, .value = &v.memory, .arg = "SIZE", .help = "budget"},
    {.name = "--solver", .type = OPTION_CHOICE, .value = &v.solver, .arg = "NAME", .help = "solver", .choices = solvers},
    {.name = "--extra", .type = OPTION_LIST, .value = &v.extra, .arg = "X", .help = "again and again"},
    {.name = "--output", .letter = 'o', .type = OPTION_TEXT, .value = &v.out, .arg = "FILE", .help = "write FILE"},
    {0},
};

static const struct program program = {
    .name = "ddm-x",
    .operands = "A...",
    .about = "does nothing",
    .options = options,
};

static char *args[20];
static int operands;
static struct err e;

/* Splits `line` at blanks into args and parses it; "''" is the empty argument. */
static int parse(const char *line)
{
	static char copy[200];
	int argc = 1;

	mem_free(v.extra.v);
	memset(&v, 0, sizeof v);
	memset(&e, 0, sizeof e);
	assert_true(strlen(line) < sizeof copy);
	memcpy(copy, line, strlen(line) + 1);
	args[0] = copy;
	for (char *c = copy; *c; argc++) {
		args[argc] = c;
		c += strcspn(c, " ");
		if (*c)
			*c++ = 0;
		if (!strcmp(args[argc], "''"))
			args[argc] = copy + strlen(line);
	}
	return option_parse(&program, argc, args, &operands, NULL, NULL, &e);
}

static void refuses(const char *line, const char *part)
{
	assert_int_equal(parse(line), -1);
	assert_int_equal(e.code, ERR_USAGE);
	if (!strstr(e.msg, part))
		fail_msg("'%s' said '%s', without '%s'", line, e.msg, part);
}

static void types(void **state)
{
	(void)state;
	assert_int_equal(parse("-q -k 3 --any -7 --seed 18446744073709551615 --lr=1e-3 --every 2h --memory 3K --solver heun -o f"), 0);
	assert_int_equal(v.quiet, 1);
	assert_int_equal(v.k, 3);
	assert_int_equal(v.k_given, 1);
	assert_int_equal(v.any, -7);
	assert_true(v.seed == UINT64_MAX);
	assert_true(v.lr == 1e-3);
	assert_true(v.every == 7200);
	assert_int_equal(v.memory, 3072);
	assert_int_equal(v.solver, 1);
	assert_string_equal(v.out, "f");
	assert_int_equal(operands, 0);
	assert_int_equal(parse("a"), 0);
	assert_int_equal(v.k_given, 0);
}

static void spellings(void **state)
{
	(void)state;
	assert_int_equal(parse("a -qfk8 - --extra x --ext=y b --extra= -- -q --lr"), 0);
	assert_int_equal(v.quiet + v.fast, 2);
	assert_int_equal(v.k, 8);
	assert_int_equal(v.extra.n, 3);
	assert_string_equal(v.extra.v[0], "x");
	assert_string_equal(v.extra.v[1], "y");
	assert_string_equal(v.extra.v[2], "");
	assert_int_equal(operands, 5);
	assert_string_equal(args[1], "a");
	assert_string_equal(args[2], "-");
	assert_string_equal(args[3], "b");
	assert_string_equal(args[4], "-q");
	assert_string_equal(args[5], "--lr");
	assert_int_equal(parse("-o - -ofile --output=last"), 0);
	assert_string_equal(v.out, "last");
}

static void refusals(void **state)
{
	(void)state;
	refuses("--none", "'--none'");
	refuses("-z", "'-z'");
	refuses("-qz", "'-z'");
	refuses("--s 1", "ambiguous");
	refuses("-k 0", "'0' is not an integer from 1 to 8");
	refuses("-k 9", "from 1 to 8");
	refuses("-k 3x", "'3x'");
	refuses("-k ''", "''");
	refuses("-k", "-k needs a value");
	refuses("--lr 1.5", "from 0 to 1");
	refuses("--lr nan", "'nan'");
	refuses("--any 1e3", "'1e3'");
	refuses("--seed -1", "'-1'");
	refuses("--every 5y", "'5y'");
	refuses("--memory 5X", "'5X'");
	refuses("--solver dpm", "euler, heun");
	refuses("--quiet=1", "takes no value");
	refuses("--output", "--output needs a value: --output FILE");
}

static void help_has_every_option(void **state)
{
	char *help = option_help(&program);

	(void)state;
	assert_memory_equal(help, "Usage: ddm-x [-hV] [-q] [-f] [-k K] [--any N] ", 46);
	assert_non_null(strstr(help, "\n  -q, --quiet        say nothing\n"));
	assert_non_null(strstr(help, "\n  -f                 only a letter\n"));
	assert_non_null(strstr(help, "\n      --solver NAME  solver: euler, heun\n"));
	assert_non_null(strstr(help, "\n  -o, --output FILE  write FILE\n"));
	assert_non_null(strstr(help, "\n  -h, --help         print this"));
	mem_free(help);
}

/* A request of a library, and a program with rows of its own under the same title. */
struct request {
	int verify, shape, keep;
	int64_t steps, range;
	double lr, every;
	const char *out;
};

static const char *const shapes[] = {"round", "square", NULL}, *const ranges[] = {"none", "all", NULL};
static const int64_t range_values[] = {0, 1 << 20};

static int parse_percent(void *field, const char *label, const char *text, struct err *error)
{
	size_t n = strlen(text);
	char digits[8];

	if (!n || n > sizeof digits || text[n - 1] != '%')
		return err_set(error, ERR_USAGE, "%s: '%s' is no percentage", label, text);
	memcpy(digits, text, n - 1);
	digits[n - 1] = 0;
	return parse_f64(digits, 0, 100, field) ? err_set(error, ERR_USAGE, "%s: '%s' is no percentage", label, text) : 0;
}

static const struct option request_options[] = {
    OPTION_GROUP("Work"),
    {"--steps", .type = OPTION_INT, OPTION_FIELD(struct request, steps), .lo = 1, .hi = 99, .arg = "N", .preset = "7", .help = "how many"},
    {"--keep", .type = OPTION_INT, OPTION_FIELD(struct request, keep), .arg = "N", .help = "to keep", .said = "default: all",
     .when = {{USE_AGAINST, "--steps=9"}}},
    {"--lr", .type = OPTION_REAL, OPTION_FIELD(struct request, lr), .arg = "R", .preset = ".5", .help = "rate", .was = "--rate -r"},
    {"--every", .type = OPTION_PARSED, OPTION_FIELD(struct request, every), .arg = "P", .preset = "5%", .parse = parse_percent, .help = "share"},
    {"--shape", .type = OPTION_CHOICE, OPTION_FIELD(struct request, shape), .arg = "S", .choices = shapes, .preset = "square", .help = "shape",
     .was_value = "flat", .is_value = "round"},
    {"--range", .type = OPTION_CHOICE, OPTION_FIELD(struct request, range), .arg = "R", .choices = ranges, .values = range_values, .help = "range"},
    {"--no-verify", .type = OPTION_OFF, OPTION_FIELD(struct request, verify), .preset = "1", .help = "trust"},
    {.type = OPTION_INT, OPTION_FIELD(struct request, steps), .key = "hidden"},
    OPTION_GROUP("Output"),
    {"--output", 'o', OPTION_TEXT, OPTION_FIELD(struct request, out), .arg = "DIR", .required = "the folder", .help = "where"},
    {0},
};

static int talk;
static const struct option own_options[] = {
    OPTION_GROUP("Work"),
    {"--talk", .type = OPTION_FLAG, .value = &talk, .help = "talk", .when = {{USE_NEEDS, "--shape=round --keep"}}},
    {0},
};

static struct request r;
static const struct option_table both_tables[] = {{request_options, &r}, {0}};
static const struct program both = {.name = "ddm-y", .about = "x", .tables = both_tables, .options = own_options, .operands = "A..."};
static char told[200];

static void tell(const char *line)
{
	snprintf(told, sizeof told, "%s", line);
}

/* Parses and checks; 1 if there is no error. */
static int takes(char **line)
{
	struct option_given given = {.n = 0};
	int argc = 0, n;

	memset(&r, 0, sizeof r);
	memset(&e, 0, sizeof e);
	option_presets(request_options, &r);
	while (line[argc])
		argc++;
	return !option_parse(&both, argc, line, &n, &given, tell, &e) && !option_check(&both, &given, line + 1, n, &e);
}

static void requests(void **state)
{
	(void)state;
	assert_true(takes((char *[]){"x", "-o", "d", NULL}));
	assert_int_equal(r.steps, 7);
	assert_int_equal(r.verify, 1);
	assert_int_equal(r.shape, 1);
	assert_true(r.lr == .5 && r.every == 5 && r.range == 0);
	assert_true(takes((char *[]){"x", "--no-verify", "--range=all", "--keep", "3", "--every", "9%", "-o", "d", "--talk", NULL}));
	assert_int_equal(r.verify, 0);
	assert_int_equal(r.range, 1 << 20);
	assert_int_equal(r.keep, 3);
	assert_true(r.every == 9);
	assert_false(takes((char *[]){"x", "--every", "9", "-o", "d", NULL}));
	assert_string_equal(e.msg, "--every: '9' is no percentage");
}

static void names_of_before(void **state)
{
	(void)state;
	assert_true(takes((char *[]){"x", "--rate", "2", "-o", "d", NULL}));
	assert_true(r.lr == 2);
	assert_string_equal(told, "--rate is now --lr; the next version will not accept the old name");
	assert_true(takes((char *[]){"x", "-r3", "--shape", "flat", "-o", "d", NULL}));
	assert_true(r.lr == 3 && r.shape == 0);
	assert_string_equal(told, "--shape flat is now --shape round; the next version will not accept the old word");
}

static void rules(void **state)
{
	(void)state;
	assert_false(takes((char *[]){"x", NULL}));
	assert_string_equal(e.msg, "-o is missing: the folder");
	assert_false(takes((char *[]){"x", "--talk", "-o", "d", NULL}));
	assert_string_equal(e.msg, "--talk does nothing without --shape round or --keep");
	assert_true(takes((char *[]){"x", "--talk", "--shape", "round", "-o", "d", NULL}));
	assert_false(takes((char *[]){"x", "--keep", "2", "--steps", "9", "-o", "d", NULL}));
	assert_string_equal(e.msg, "--keep does nothing with --steps 9");
}

static void texts(void **state)
{
	char *help = option_help(&both), *synopsis = option_synopsis(&both);

	(void)state;
	assert_string_equal(synopsis, "[--steps N] [--keep N] [--lr R] [--every P] [--shape S] [--range R] [--no-verify] [--talk] -o DIR A...");
	assert_non_null(strstr(help, "--steps N     how many (default 7)\n"));
	assert_non_null(strstr(help, "--keep N      to keep (default: all)\n"));
	assert_non_null(strstr(help, "--shape S     shape (default square): round, square\n"));
	assert_non_null(strstr(help, "--no-verify   trust\n      --talk        talk\n\nOutput:\n"));
	mem_free(help);
	mem_free(synopsis);
}

static void answers(void **state)
{
	int n;

	(void)state;
	assert_int_equal(option_parse(&both, 2, (char *[]){"x", "-h", NULL}, &n, NULL, NULL, &e), 'h');
	assert_int_equal(option_parse(&both, 3, (char *[]){"x", "--lr=1", "--version", NULL}, &n, NULL, NULL, &e), 'V');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(types),    cmocka_unit_test(spellings),       cmocka_unit_test(refusals), cmocka_unit_test(help_has_every_option),
	    cmocka_unit_test(requests), cmocka_unit_test(names_of_before), cmocka_unit_test(rules),    cmocka_unit_test(texts),
	    cmocka_unit_test(answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
