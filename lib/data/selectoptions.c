/* The options of ddm-select. */
#include "data/selection.h"

#define REQUEST(member) OPTION_FIELD(struct select_request, member)

const struct option select_options[] = {
    OPTION_GROUP("Columns"),
    {"--with", .type = OPTION_LIST, REQUEST(with), .arg = "TABLE", .help = "join the columns of this table by its column key; may be given again",
     OPTION_ALWAYS},
    OPTION_GROUP("Output"),
    {"--output", 'o', .type = OPTION_TEXT, REQUEST(out), .arg = "FILE", .preset = "-", .said = "default: standard output",
     .help = "write the kept samples to this tar, or the table or list to this file", OPTION_ALWAYS},
    {"--table", .type = OPTION_FLAG, REQUEST(table), .help = "write a table of the keys and the columns of the condition, not a tar",
     .when = {{USE_AGAINST, "--list"}}, .stamp = STAMP_UNLESS_DEFAULT, .key = "table"},
    {"--columns", .type = OPTION_TEXT, REQUEST(columns), .arg = "NAMES", .help = "further columns of the table, with commas between",
     .when = {{USE_NEEDS, "--table"}}, .stamp = STAMP_UNLESS_DEFAULT, .key = "columns"},
    {"--list", .type = OPTION_FLAG, REQUEST(list), .help = "write the keys, one a line, not a tar", OPTION_ALWAYS, .stamp = STAMP_UNLESS_DEFAULT,
     .key = "list"},
    {"--report", .type = OPTION_TEXT, REQUEST(report), .arg = "FILE", .help = "write what each rule dropped to this JSON file", OPTION_ALWAYS},
    {"--chart", .type = OPTION_TEXT, REQUEST(chart), .arg = "FILE", .help = "draw a histogram for each rule to this SVG", OPTION_ALWAYS},
    OPTION_GROUP("Reading"),
    {"--skip-bad", .type = OPTION_FLAG, REQUEST(skip_bad), .help = "skip damaged samples and report each", OPTION_ALWAYS},
    {"--max-errors", .type = OPTION_INT, REQUEST(max_errors), .lo = 0, .hi = 1e15, .arg = "N", .said = "default: no limit",
     .help = "exit with 3 if more were skipped", .when = {{USE_NEEDS, "--skip-bad"}}},
    {"--null", '0', .type = OPTION_FLAG, REQUEST(nul_list), .help = "paths on stdin end with NUL, not newline", .when = {{USE_NEEDS, "-"}}},
    {0},
};

struct select_request select_defaults(void)
{
	struct select_request r = {0};

	option_presets(select_options, &r);
	r.max_errors = -1;
	return r;
}
