/* ddm-grid: draws a contact sheet of labelled rows of pictures from several sources. */
#include "cmd/cmd.h"
#include "plot/gridsheet.h"

static struct grid_request request;

static const struct option_table tables[] = {{grid_options, &request}, {0}};

static const struct program program = {
    .name = "ddm-grid",
    .operands = "LABEL=SAMPLES...",
    .about = "Put some pictures of several sources on one labelled sheet, a PNG.",
    .tables = tables,
};

int main(int argc, char **argv)
{
	struct err e = {0};

	request = grid_defaults();
	request.n = cmd_start(&program, argc, argv, 1, -1);
	request.source = (const char *const *)argv + 1;
	request.program = program.name;
	if (!cmd_binary(request.out, "-o FILE.png", &e))
		grid_make(&request, &e);
	return cmd_end(&e);
}
