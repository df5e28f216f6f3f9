/* ddm-exact: writes the exact model of a data set, whose experts compute the optimal denoiser from the samples. */
#include "cmd/cmd.h"
#include "core/pool.h"
#include "data/exactmodel.h"

static struct exact_request request;
static int64_t threads;

static const struct option_table tables[] = {{exact_options, &request}, {0}};

static const struct option options[] = {
    OPTION_GROUP("Machine and output"),
    {"--threads", .type = OPTION_INT, .value = &threads, .hi = 1024, .arg = "N", .help = "threads; changes no result",
     .said = "default: all processors that it may use", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-exact",
    .operands = "SHARDS",
    .about = "Make the optimal experts and router of a data set: models that hold its samples and compute the denoiser from them",
    .tables = tables,
    .options = options,
};

static void say_report(const struct exact_report *r)
{
	if (!r->made)
		cmd_say("%s: complete, nothing to do", request.out);
	else
		cmd_say("%s: %lld samples of %lld x %lld x %lld, %.4g GFLOP for a denoised sample", request.out, (long long)r->samples,
		        (long long)r->channels, (long long)r->size, (long long)r->size, 1e-9 * r->flops);
}

int main(int argc, char **argv)
{
	struct progress progress = cmd_progress();
	struct exact_report report;
	struct pool *pool;
	struct err e = {0};

	request = exact_defaults();
	cmd_start(&program, argc, argv, 1, 1);
	cmd_catch_signals();
	request.program = program.name;
	request.shards = argv[1];
	request.progress = &progress;
	pool = pool_new((int)threads, &e);
	if (pool && !exact_make(&request, pool, &cmd_signal, &report, &e))
		say_report(&report);
	pool_free(pool);
	return cmd_end_over(&e);
}
