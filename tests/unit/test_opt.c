/* cmd/opt: every type, every way of writing an option, every refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "cmd/opt.h"
#include "core/mem.h"

static struct {
	int quiet, fast, solver, k_given;
	int64_t k, any;
	uint64_t seed, memory;
	double lr, every;
	const char *out;
	struct opt_list extra;
} v;

static const char *const solvers[] = {"euler", "heun", NULL};

static const struct opt options[] = {
    {.name = "--quiet", .letter = 'q', .value = &v.quiet, .help = "say nothing"},
    {.letter = 'f', .value = &v.fast, .help = "only a letter"},
    {.letter = 'k', .type = OPT_INT, .value = &v.k, .lo = 1, .hi = 8, .arg = "K", .help = "clusters", .given = &v.k_given},
    {.name = "--any", .type = OPT_INT, .value = &v.any, .arg = "N", .help = "without limits"},
    {.name = "--seed", .type = OPT_U64, .value = &v.seed, .arg = "S", .help = "seed (default 0)"},
    {.name = "--lr", .type = OPT_REAL, .value = &v.lr, .lo = 0, .hi = 1, .arg = "R", .help = "learning rate"},
    {.name = "--every", .type = OPT_DURATION, .value = &v.every, .arg = "TIME", .help = "period"},
    {.name = "--memory", .type = OPT_SIZE, .value = &v.memory, .arg = "SIZE", .help = "budget"},
    {.name = "--solver", .type = OPT_CHOICE, .value = &v.solver, .arg = "NAME", .help = "solver", .choices = solvers},
    {.name = "--extra", .type = OPT_LIST, .value = &v.extra, .arg = "X", .help = "again and again"},
    {.name = "--output", .letter = 'o', .type = OPT_TEXT, .value = &v.out, .arg = "FILE", .help = "write FILE"},
    {0},
};

static const struct program program = {"ddm-x", "[-qf] [-o FILE] A...", "does nothing", options};

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
	return opt_parse(&program, argc, args, &operands, NULL, &e);
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
	char *help = opt_help(&program);

	(void)state;
	assert_memory_equal(help, "Usage: ddm-x [-hV] [-qf] [-o FILE] A...\n", 40);
	assert_non_null(strstr(help, "\n  -q, --quiet        say nothing\n"));
	assert_non_null(strstr(help, "\n  -f                 only a letter\n"));
	assert_non_null(strstr(help, "\n      --solver NAME  solver: euler, heun\n"));
	assert_non_null(strstr(help, "\n  -o, --output FILE  write FILE\n"));
	assert_non_null(strstr(help, "\n  -h, --help         print this"));
	mem_free(help);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(types),
	    cmocka_unit_test(spellings),
	    cmocka_unit_test(refusals),
	    cmocka_unit_test(help_has_every_option),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
