/* ddm-synth: makes laws of data whose optimal denoiser is known in closed form, and draws samples from them. */
#include "cmd/cmd.h"
#include "core/pool.h"
#include "data/synth.h"

static struct synth_request request;
static int64_t threads;

static const struct option_table tables[] = {{synth_options, &request}, {0}};

static const struct option options[] = {
    OPTION_GROUP("Both"),
    {"--threads", .type = OPTION_INT, .value = &threads, .hi = 1024, .arg = "N", .help = "threads; changes no result",
     .said = "default: all processors that it may use", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-synth",
    .operands = "COMMAND [LAW]",
    .about = "Make a law of data whose optimal denoiser and router are known exactly. COMMAND is gaussians, which makes the law of a mixture of "
	     "Gaussians as a model, or draw, which draws samples from the folder LAW.",
    .tables = tables,
    .options = options,
};

static void say_report(const struct synth_report *r)
{
	if (!r->made)
		cmd_say("%s: complete, nothing to do", request.out);
	else if (request.command == SYNTH_DRAW)
		cmd_say("%s: %lld samples of %lld x %lld x %lld", request.out, (long long)r->samples, (long long)r->channels, (long long)r->size,
		        (long long)r->size);
	else
		cmd_say("%s: %lld Gaussians of rank %lld in %lld x %lld x %lld, standard deviation %.4g in their first direction, means %.4g apart, "
		        "noise %.4g",
		        request.out, (long long)r->components, (long long)r->rank, (long long)r->channels, (long long)r->size, (long long)r->size,
		        r->deviation, r->separation, r->noise);
}

int main(int argc, char **argv)
{
	struct progress progress = cmd_progress();
	struct synth_report report;
	struct pool *pool = NULL;
	struct err e = {0};
	int operands;

	request = synth_defaults();
	operands = cmd_start(&program, argc, argv, 1, 2);
	cmd_catch_signals();
	request.program = program.name;
	request.progress = &progress;
	if (!synth_command_parse(&request.command, argv[1], &e)) {
		request.law = operands > 1 ? argv[2] : NULL;
		if ((request.command == SYNTH_DRAW) != (operands > 1))
			err_set(&e, ERR_USAGE, request.law ? "%s takes no operand" : "%s needs the folder of a law", argv[1]);
	}
	if (!e.code && request.command == SYNTH_DRAW)
		cmd_binary(request.out, "-o FILE.tar", &e);
	if (!e.code && (pool = pool_new((int)threads, &e)) && !synth_run(&request, pool, &cmd_signal, &report, &e))
		say_report(&report);
	pool_free(pool);
	return cmd_end_over(&e);
}
