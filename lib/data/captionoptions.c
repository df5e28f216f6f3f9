/* The options of ddm-caption. */
#include "data/captioning.h"

#define REQUEST(member) OPTION_FIELD(struct caption_request, member)

const struct option caption_options[] = {
    OPTION_GROUP("Captions"),
    {"--command", .type = OPTION_TEXT, REQUEST(command), .arg = "CMD",
     .help = "the shell runs CMD, which reads a tar of the samples and writes one caption a line", .when = {{USE_AGAINST, "--column"}},
     .stamp = STAMP_UNLESS_DEFAULT, .key = "command"},
    {"--column", .type = OPTION_TEXT, REQUEST(column), .arg = "NAME", .help = "captions are this column of a table, or member of the .json",
     OPTION_ALWAYS, .stamp = STAMP_UNLESS_DEFAULT, .key = "column"},
    {"--with", .type = OPTION_LIST, REQUEST(with), .arg = "TABLE", .help = "join the columns of this table by its column key; may be given again",
     .when = {{USE_NEEDS, "--column"}}},
    {"--missing", .type = OPTION_FLAG, REQUEST(missing), .help = "only for samples without a caption", OPTION_ALWAYS, .stamp = STAMP_UNLESS_DEFAULT,
     .key = "missing"},
    OPTION_GROUP("Output"),
    {"--output", 'o', .type = OPTION_TEXT, REQUEST(out), .arg = "FILE", .preset = "-", .said = "default: standard output", .help = "write this tar",
     OPTION_ALWAYS},
    OPTION_GROUP("Reading"),
    {"--skip-bad", .type = OPTION_FLAG, REQUEST(skip_bad), .help = "skip damaged samples and report each", OPTION_ALWAYS},
    {"--max-errors", .type = OPTION_INT, REQUEST(max_errors), .lo = 0, .hi = 1e15, .arg = "N", .said = "default: no limit",
     .help = "exit with 3 if more were skipped", .when = {{USE_NEEDS, "--skip-bad"}}},
    {"--null", '0', .type = OPTION_FLAG, REQUEST(nul_list), .help = "paths on stdin end with NUL, not newline", .when = {{USE_NEEDS, "-"}}},
    {0},
};

struct caption_request caption_defaults(void)
{
	struct caption_request r = {0};

	option_presets(caption_options, &r);
	r.max_errors = -1;
	return r;
}
