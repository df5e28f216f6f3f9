/* ddm-plot: draws charts of the files that other programs write. */
#include "cmd/cmd.h"
#include "plot/plot.h"

static struct plot_request request;

static const struct option_table tables[] = {{plot_options, &request}, {0}};

static const struct program program = {
    .name = "ddm-plot",
    .operands = "KIND [LABEL=]FILE...",
    .about = "Draw a chart, SVG or PNG. KIND is loss, cost, router or compare, for logs of training, tables of ddm-report, logs of "
	     "ddm-sample and lines of ddm-compare; or lines, points or bars, for columns of any table or JSON lines.",
    .tables = tables,
};

int main(int argc, char **argv)
{
	struct err e = {0};
	int64_t absent = 0;

	request = plot_defaults();
	request.n = cmd_start(&program, argc, argv, 2, -1) - 1;
	request.source = (const char *const *)argv + 2;
	request.program = program.name;
	if (!plot_kind_parse(&request.kind, argv[1], &e) && (!plot_is_png(&request) || !cmd_binary(request.out, "-o FILE.png, or --format svg", &e)))
		plot_make(&request, &absent, &e);
	if (!e.code && absent)
		cmd_say("ddm-plot: %lld rows without %s or %s", (long long)absent, request.x, request.y);
	return cmd_end(&e);
}
