/* ddm-synth: makes laws of data whose optimal denoiser is known in closed form, draws samples from them, and draws pictures of glyphs. */
#include "cmd/cmd.h"
#include "core/pool.h"
#include "data/synth.h"

static struct synth_request request;
static int64_t threads;

static const struct option_table tables[] = {{synth_options, &request}, {0}};

static const struct option options[] = {
    OPTION_GROUP("All"),
    {"--threads", .type = OPTION_INT, .value = &threads, .hi = 1024, .arg = "N", .help = "threads; changes no result",
     .said = "default: all processors that it may use", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-synth",
    .operands = "COMMAND [LAW | FONT...]",
    .about = "Make a law of data whose optimal denoiser and router are known exactly. COMMAND is gaussians, which makes the law of a mixture of "
	     "Gaussians as a model, draw, which draws samples from the folder LAW, or glyphs, which draws pictures of the glyphs in font files.",
    .tables = tables,
    .options = options,
};

static void say_report(const struct synth_report *r)
{
	if (!r->made)
		cmd_say("%s: complete, nothing to do", request.out);
	else if (request.command == SYNTH_GLYPHS) {
		cmd_say("%s: %lld pictures of %lld x %lld, of %lld glyphs: %lld characters in %lld fonts", request.out, (long long)r->samples,
		        (long long)r->size, (long long)r->size, (long long)r->glyphs, (long long)r->characters, (long long)r->faces);
		if (r->missing + r->blank + r->repetitions)
			cmd_say("left out: %lld characters that a font lacks, %lld blank, %lld with the outline of an earlier glyph",
			        (long long)r->missing, (long long)r->blank, (long long)r->repetitions);
	} else if (request.command == SYNTH_DRAW)
		cmd_say("%s: %lld samples of %lld x %lld x %lld", request.out, (long long)r->samples, (long long)r->channels, (long long)r->size,
		        (long long)r->size);
	else
		cmd_say("%s: %lld Gaussians of rank %lld in %lld x %lld x %lld, standard deviation %.4g in their first direction, means %.4g apart, "
		        "noise %.4g",
		        request.out, (long long)r->components, (long long)r->rank, (long long)r->channels, (long long)r->size, (long long)r->size,
		        r->deviation, r->separation, r->noise);
}

static void check_operands(int n, const char *command, struct err *e)
{
	if (request.command == SYNTH_GAUSSIANS && n)
		err_set(e, ERR_USAGE, "%s takes no operand", command);
	else if (request.command == SYNTH_DRAW && n != 1)
		err_set(e, ERR_USAGE, "%s needs the folder of a law", command);
	else if (request.command == SYNTH_GLYPHS && !n)
		err_set(e, ERR_USAGE, "%s needs font files, such as /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", command);
}

int main(int argc, char **argv)
{
	struct progress progress = cmd_progress();
	struct synth_report report;
	struct pool *pool = NULL;
	struct err e = {0};
	int operands;

	request = synth_defaults();
	operands = cmd_start(&program, argc, argv, 1, -1);
	cmd_catch_signals();
	request.program = program.name;
	request.progress = &progress;
	if (!synth_command_parse(&request.command, argv[1], &e)) {
		request.law = operands > 1 ? argv[2] : NULL;
		request.glyphs.fonts = (const char *const *)argv + 2;
		request.glyphs.nfonts = operands - 1;
		check_operands(operands - 1, argv[1], &e);
	}
	if (!e.code && request.command != SYNTH_GAUSSIANS)
		cmd_binary(request.out, "-o FILE.tar", &e);
	if (!e.code && (pool = pool_new((int)threads, &e)) && !synth_run(&request, pool, &cmd_signal, &report, &e))
		say_report(&report);
	pool_free(pool);
	return cmd_end_over(&e);
}
