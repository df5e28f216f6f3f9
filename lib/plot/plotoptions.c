/* The options of a chart: the table that fills struct plot_request. */
#include "plot/plot.h"

#define REQUEST(member) OPTION_FIELD(struct plot_request, member)

/* clang-format off */
#define OF_COLUMNS {USE_NEEDS, "1=lines 1=points 1=bars"}
#define OF_SCALES {USE_AGAINST, "1=bars 1=compare"}
/* clang-format on */

static const char *const formats[] = {"svg", "png", NULL};
static const char *const logs[] = {"none", "x", "y", "xy", NULL};

/* The stamp of a chart names its kind and holds the hashes of its files (lib/plot/plot.c); the drawing shows the rest. */
const struct option plot_options[] = {
    OPTION_GROUP("Columns"),
    {"--x", 'x', OPTION_TEXT, REQUEST(x), .arg = "COLUMN", .help = "horizontal axis; of bars: their names",
     .when = {{USE_NEEDS, "1=cost 1=lines 1=points 1=bars"}}, .stamp = STAMP_OTHERWISE},
    {"--y", 'y', OPTION_TEXT, REQUEST(y), .arg = "COLUMN",
     .help = "values to draw (cost: default kd; router: weight, entropy or accuracy; compare: the key)",
     .when = {{USE_NEEDS, "1=cost 1=router 1=compare 1=lines 1=points 1=bars"}}, .stamp = STAMP_OTHERWISE},
    {"--group", 'g', OPTION_TEXT, REQUEST(group), .arg = "COLUMN",
     .help = "one series for each value of this column (cost: the arms, default the first column)", .when = {{USE_NEEDS, "1=cost 1=lines 1=points"}},
     .stamp = STAMP_OTHERWISE},
    {"--low", .type = OPTION_TEXT, REQUEST(low), .arg = "COLUMN", .help = "lower ends of intervals", .when = {OF_COLUMNS}, .stamp = STAMP_OTHERWISE},
    {"--high", .type = OPTION_TEXT, REQUEST(high), .arg = "COLUMN", .help = "upper ends of intervals", .when = {OF_COLUMNS},
     .stamp = STAMP_OTHERWISE},
    {"--level", .type = OPTION_REAL, REQUEST(level), .lo = .5, .hi = .9999, .arg = "P", .preset = "0.95",
     .help = "confidence level of intervals over several files", .when = {{USE_NEEDS, "1=cost 1=lines 1=points 1=bars"}}, .stamp = STAMP_OTHERWISE},
    {"--floor", .type = OPTION_TEXT, REQUEST(floor), .arg = "COLUMN",
     .help = "of cost: draw a line at the value of this column (default: kd_floor beside kd or kd_heldout, and so on; '' is none)",
     .when = {{USE_NEEDS, "1=cost"}}, .stamp = STAMP_OTHERWISE},
    OPTION_GROUP("Curves and axes"),
    {"--smooth", .type = OPTION_INT, REQUEST(smooth), .lo = 0, .hi = 1e9, .arg = "N", .preset = "0", .said = "default 0: a twentieth of the lines",
     .help = "of loss: running mean over N lines; 1 is none", .when = {{USE_NEEDS, "1=loss"}}, .stamp = STAMP_OTHERWISE},
    {"--log", .type = OPTION_CHOICE, REQUEST(log), .arg = "AXES", .choices = logs, .said = "default: y of loss, x of cost",
     .help = "logarithmic scales", .when = {OF_SCALES}, .stamp = STAMP_OTHERWISE},
    {"--x-range", .type = OPTION_TEXT, REQUEST(x_range), .arg = "LO:HI", .help = "show this part of x", .when = {OF_SCALES},
     .stamp = STAMP_OTHERWISE},
    {"--y-range", .type = OPTION_TEXT, REQUEST(y_range), .arg = "LO:HI", .help = "show this part of y", .when = {OF_SCALES},
     .stamp = STAMP_OTHERWISE},
    OPTION_GROUP("Texts"),
    {"--title", 't', OPTION_TEXT, REQUEST(title), .arg = "TEXT", .help = "title", OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--x-label", .type = OPTION_TEXT, REQUEST(x_label), .arg = "TEXT", .help = "below the scale of x", .said = "default: the column", OPTION_ALWAYS,
     .stamp = STAMP_OTHERWISE},
    {"--y-label", .type = OPTION_TEXT, REQUEST(y_label), .arg = "TEXT", .help = "above the scale of y", .said = "default: the column",
     .when = {OF_SCALES}, .stamp = STAMP_OTHERWISE},
    OPTION_GROUP("Output"),
    {"--width", .type = OPTION_INT, REQUEST(width), .lo = 200, .hi = 4000, .arg = "N", .preset = "640", .help = "width in pixels", OPTION_ALWAYS,
     .stamp = STAMP_OTHERWISE},
    {"--height", .type = OPTION_INT, REQUEST(height), .lo = 150, .hi = 4000, .arg = "N", .preset = "400",
     .help = "height in pixels; bars take what they need", .when = {OF_SCALES}, .stamp = STAMP_OTHERWISE},
    {"--scale", .type = OPTION_REAL, REQUEST(scale), .lo = .25, .hi = 8, .arg = "F", .preset = "2",
     .help = "of a PNG: pixels of the file for each pixel of the chart", .when = {{USE_NEEDS, "--format=png --output=*.png"}},
     .stamp = STAMP_OTHERWISE},
    {"--format", 'f', OPTION_CHOICE, REQUEST(format), .arg = "NAME", .choices = formats, .said = "default: as FILE ends, else svg",
     .help = "kind of file", OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--output", 'o', OPTION_TEXT, REQUEST(out), .arg = "FILE", .preset = "-", .said = "default -, standard output",
     .help = "write the chart to FILE", OPTION_ALWAYS},
    {0},
};

struct plot_request plot_defaults(void)
{
	struct plot_request r = {.log = PLOT_LOG_USUAL, .format = PLOT_BY_NAME};

	option_presets(plot_options, &r);
	return r;
}
