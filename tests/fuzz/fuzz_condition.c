/* Any bytes as a condition of ddm-select: parsed or refused with a position, and evaluated for a sample that has some of its columns. The rules of a
 * condition are conditions themselves, and hold for the same samples. */
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/condition.h"
#include "tests/fuzz/replay.h"

/* The value of a column follows from its number and from the sample. */
static struct condition_value value_of(int column, int sample)
{
	static const struct condition_value values[] = {{0}, {1, 1, 0, "0"}, {1, 1, -2.5, "-2.5"}, {1, 0, 0, "a rose"}, {1, 1, 1e300, "1e300"}};

	return values[(column * 3 + sample) % (int)(sizeof values / sizeof *values)];
}

static int find(const struct condition *c, const char *name)
{
	int i = 0;

	while (i < condition_columns(c) && strcmp(condition_column(c, i), name))
		i++;
	return i;
}

/* The rule by itself gives the same result. */
static void check_rule(const struct condition *c, int rule, const struct condition_value *v, int holds)
{
	struct err e = {0};
	struct condition *alone = condition_parse(condition_rule(c, rule), &e);
	struct condition_value *own = alone ? mem_zalloc((size_t)condition_columns(alone) + 1, sizeof *own) : NULL;
	uint8_t *lacks = alone ? mem_zalloc((size_t)condition_columns(alone) + 1, 1) : NULL;
	int64_t undefined = 0;
	int same = 1;

	if (!alone)
		abort();
	for (int i = 0; i < condition_columns(alone); i++)
		own[i] = v[find(c, condition_column(alone, i))];
	for (int i = 0; i < condition_rules(alone); i++)
		same &= condition_holds(alone, i, own, lacks, &undefined);
	if (same != holds)
		abort();
	condition_free(alone);
	mem_free(own);
	mem_free(lacks);
}

static void evaluate(const struct condition *c)
{
	int n = condition_columns(c);
	struct condition_value *v = mem_zalloc((size_t)n + 1, sizeof *v);
	uint8_t *lacks = mem_zalloc((size_t)n + 1, 1);

	for (int sample = 0; sample < 5; sample++) {
		for (int i = 0; i < n; i++)
			v[i] = value_of(i, sample);
		for (int i = 0; i < condition_rules(c); i++) {
			int64_t undefined = 0;
			double x, limit;
			int has_limit, holds = condition_holds(c, i, v, lacks, &undefined);

			if (condition_measure(c, i, v, &x) && !condition_measured(c, i, &has_limit, &limit))
				abort();
			check_rule(c, i, v, holds);
		}
	}
	mem_free(v);
	mem_free(lacks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = mem_strndup((const char *)data, len);
	struct err e = {0};
	struct condition *c = condition_parse(text, &e);

	if (c)
		evaluate(c);
	else if (e.code != ERR_USAGE || strncmp(e.msg, "condition", 9))
		abort();
	condition_free(c);
	mem_free(text);
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/condition")
