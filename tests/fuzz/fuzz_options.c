/* Any bytes as a command line: arguments end with NUL. What is accepted lies within its limits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/opt.h"
#include "core/mem.h"
#include "tests/fuzz/replay.h"

static struct {
	int flag, other, choice, given, help, version;
	int64_t steps, any;
	uint64_t seed, size;
	double rate, time;
	const char *text;
	struct opt_list list;
} o;

static const char *const kinds[] = {"linear", "cosine", "linear-beta", NULL};

/* Every type; --help and --version are ours, so that parsing returns. */
static const struct opt options[] = {
    {.name = "--flag", .letter = 'f', .type = OPT_FLAG, .value = &o.flag},
    {.name = "--flags-too", .letter = 'g', .type = OPT_FLAG, .value = &o.other},
    {.name = "--steps", .letter = 'n', .type = OPT_INT, .value = &o.steps, .lo = 1, .hi = 1000, .arg = "N", .given = &o.given},
    {.name = "--any", .type = OPT_INT, .value = &o.any, .arg = "N"},
    {.name = "--seed", .letter = 's', .type = OPT_U64, .value = &o.seed, .arg = "S"},
    {.name = "--rate", .letter = 'r', .type = OPT_REAL, .value = &o.rate, .lo = -1, .hi = 1, .arg = "R"},
    {.name = "--text", .letter = 't', .type = OPT_TEXT, .value = &o.text, .arg = "TEXT"},
    {.name = "--list", .letter = 'l', .type = OPT_LIST, .value = &o.list, .arg = "TEXT"},
    {.name = "--time", .type = OPT_DURATION, .value = &o.time, .arg = "T"},
    {.name = "--size", .type = OPT_SIZE, .value = &o.size, .arg = "SIZE"},
    {.name = "--kind", .type = OPT_CHOICE, .value = &o.choice, .choices = kinds, .arg = "KIND"},
    {.name = "--help", .letter = 'h', .type = OPT_FLAG, .value = &o.help},
    {.name = "--version", .letter = 'V', .type = OPT_FLAG, .value = &o.version},
    {0},
};
static const struct program program = {"fuzz", "", "", options};

static int is_one_of(const char *text, char **argv, int argc)
{
	const char *end = argv[argc - 1] + strlen(argv[argc - 1]);

	return text >= argv[0] && text <= end;
}

static void check(char **argv, char **argument, int argc, int operands)
{
	if (operands < 0 || operands > argc - 1)
		abort();
	for (int i = 1; i <= operands; i++)
		if (!is_one_of(argv[i], argument, argc))
			abort();
	for (int i = 0; i < o.list.n; i++)
		if (!is_one_of(o.list.v[i], argument, argc))
			abort();
	if (o.steps < 1 || o.steps > 1000 || !(fabs(o.rate) <= 1) || o.choice < 0 || o.choice > 2 || o.size > INT64_MAX)
		abort();
	if (!(o.time >= 0 && isfinite(o.time)) || (o.text && !is_one_of(o.text, argument, argc)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *bytes = mem_zalloc(len + 2, 1), **argv = mem_zalloc(len + 3, sizeof *argv), **copy;
	struct err e = {0};
	int argc = 0, operands = 0;

	memcpy(bytes + 1, data, len);
	for (size_t at = 0; at < len + 1; at += strlen(bytes + at) + 1)
		argv[argc++] = bytes + at;
	if (argc == 3 && !strcmp(argv[1], "--completion"))
		argc = 2; /* it would be answered, which ends the program */
	copy = memcpy(mem_alloc((len + 3) * sizeof *argv), argv, (len + 3) * sizeof *argv);
	memset(&o, 0, sizeof o);
	o.steps = 1;
	if (!opt_parse(&program, argc, argv, &operands, NULL, &e))
		check(argv, copy, argc, operands);
	else if (e.code != ERR_USAGE || !*e.msg)
		abort();
	mem_free(o.list.v);
	mem_free(copy);
	mem_free(argv);
	mem_free(bytes);
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/options")
