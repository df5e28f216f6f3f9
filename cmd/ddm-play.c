/* ddm-play: films of clips, to be watched. */
#include "cmd/cmd.h"
#include "cmd/film.h"

static struct film_request request;

static const struct option_table tables[] = {{film_options, &request}, {0}};

static const struct program program = {
    .name = "ddm-play",
    .operands = "CLIPS...",
    .about = "Show clips as a film: mp4, webm, gif, animated webp, or a png with a row of frames for each.",
    .tables = tables,
};

int main(int argc, char **argv)
{
	struct err e = {0};

	request = film_defaults();
	request.n = cmd_start(&program, argc, argv, 1, -1);
	request.source = (const char *const *)argv + 1;
	cmd_catch_signals();
	if (!request.out)
		err_set(&e, ERR_USAGE, "the output is missing: -o FILE.mp4, or another ending, or -o DIR/ for a film of each clip");
	else if (!cmd_binary(request.out, "-o FILE", &e))
		film_make(&request, &e);
	return cmd_end(&e);
}
