/* Any bytes as a command line, whose arguments end with NUL. Accepted values lie within their limits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/option.h"
#include "tests/fuzz/replay.h"

static struct {
	int flag, other, choice, given;
	int64_t steps, any;
	uint64_t seed, size;
	double rate, time;
	const char *text;
	struct option_list list;
} o;

static const char *const kinds[] = {"linear", "cosine", "linear-beta", NULL};

/* Options of every type. */
static const struct option options[] = {
    {.name = "--flag", .letter = 'f', .type = OPTION_FLAG, .value = &o.flag},
    {.name = "--flags-too", .letter = 'g', .type = OPTION_FLAG, .value = &o.other},
    {.name = "--steps", .letter = 'n', .type = OPTION_INT, .value = &o.steps, .lo = 1, .hi = 1000, .arg = "N", .given = &o.given},
    {.name = "--any", .type = OPTION_INT, .value = &o.any, .arg = "N"},
    {.name = "--seed", .letter = 's', .type = OPTION_U64, .value = &o.seed, .arg = "S"},
    {.name = "--rate", .letter = 'r', .type = OPTION_REAL, .value = &o.rate, .lo = -1, .hi = 1, .arg = "R"},
    {.name = "--text", .letter = 't', .type = OPTION_TEXT, .value = &o.text, .arg = "TEXT"},
    {.name = "--list", .letter = 'l', .type = OPTION_LIST, .value = &o.list, .arg = "TEXT"},
    {.name = "--time", .type = OPTION_DURATION, .value = &o.time, .arg = "T"},
    {.name = "--size", .type = OPTION_SIZE, .value = &o.size, .arg = "SIZE"},
    {.name = "--kind", .type = OPTION_CHOICE, .value = &o.choice, .choices = kinds, .arg = "KIND"},
    {0},
};
static const struct program program = {
    .name = "fuzz",
    .operands = "",
    .about = "",
    .options = options,
};

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
	int argc = 0, operands = 0, rc;

	memcpy(bytes + 1, data, len);
	for (size_t at = 0; at < len + 1; at += strlen(bytes + at) + 1)
		argv[argc++] = bytes + at;
	copy = memcpy(mem_alloc((len + 3) * sizeof *argv), argv, (len + 3) * sizeof *argv);
	memset(&o, 0, sizeof o);
	o.steps = 1;
	rc = option_parse(&program, argc, argv, &operands, NULL, NULL, &e);
	if (!rc)
		check(argv, copy, argc, operands);
	else if (rc < 0 && (e.code != ERR_USAGE || !*e.msg))
		abort();
	mem_free(o.list.v);
	mem_free(copy);
	mem_free(argv);
	mem_free(bytes);
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/options")
