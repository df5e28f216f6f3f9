/* The options of ddm-dedup. */
#include "cluster/dedupimpl.h"

#define REQUEST(member) OPTION_FIELD(struct dedup_request, member)

const char *const dedup_hashes[] = {"phash", "dhash", "ahash", "none", NULL};

/* ddm-dedup(1) states the measurement: the least even number of bits that finds 95% of planted copies. */
const int dedup_distances[] = {10, 10, 6, 0};

static int has_hash(const void *request)
{
	return ((const struct dedup_request *)request)->hash != DEDUP_NO_HASH;
}

static int has_features(const void *request)
{
	return ((const struct dedup_request *)request)->features != NULL;
}

const struct option dedup_options[] = {
    OPTION_GROUP("Hashes"),
    {"--hash", .type = OPTION_CHOICE, REQUEST(hash), .arg = "KIND", .choices = dedup_hashes, .preset = "phash",
     .help = "perceptual hash of pictures and frames", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "hash"},
    {"--distance", .type = OPTION_INT, REQUEST(distance), .lo = 0, .hi = 32, .arg = "BITS", .help = "hashes are near if at most so many bits differ",
     .said = "default 10; 6 for ahash", .when = {{USE_AGAINST, "--hash=none"}}, .stamp = STAMP_ALWAYS, .key = "distance", .counts = has_hash},
    OPTION_GROUP("Features"),
    {"--features", .type = OPTION_TEXT, REQUEST(features), .arg = "FILE.npy", .help = "also compare features: a row for each sample, in their order",
     OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--cosine", .type = OPTION_REAL, REQUEST(cosine), .lo = -1, .hi = 1, .arg = "C", .preset = "0.99",
     .help = "features are near if their cosine is larger", .when = {{USE_NEEDS, "--features"}}, .stamp = STAMP_ALWAYS, .key = "cosine",
     .counts = has_features},
    {"--clusters", .type = OPTION_TEXT, REQUEST(clusters), .arg = "TABLE",
     .help = "table of ddm-cluster: compare features within its clusters; its column split says what is held out", OPTION_ALWAYS,
     .stamp = STAMP_OTHERWISE},
    OPTION_GROUP("Held-out samples"),
    {"--holdout", .type = OPTION_REAL, REQUEST(holdout), .lo = 0, .hi = 1, .arg = "F", .help = "the fraction that ddm-cluster --holdout F holds out",
     .said = "default: as the table or the shards say", OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--check", .type = OPTION_FLAG, REQUEST(check), .help = "exit with 1 if a training sample is near a held-out one", OPTION_ALWAYS},
    OPTION_GROUP("Output"),
    {"--output", 'o', .type = OPTION_TEXT, REQUEST(out), .arg = "FILE", .preset = "-", .said = "default: standard output",
     .help = "write the kept samples to this tar, or the table to this file", OPTION_ALWAYS},
    {"--table", .type = OPTION_FLAG, REQUEST(table), .help = "write a table of all samples and their groups, not a tar", OPTION_ALWAYS,
     .stamp = STAMP_UNLESS_DEFAULT, .key = "table"},
    {"--report", .type = OPTION_TEXT, REQUEST(report), .arg = "FILE", .help = "write the numbers, and what crosses, to this JSON file",
     OPTION_ALWAYS},
    OPTION_GROUP("Reading"),
    {"--skip-bad", .type = OPTION_FLAG, REQUEST(skip_bad), .help = "skip damaged samples and those without pixels, and report each", OPTION_ALWAYS},
    {"--max-errors", .type = OPTION_INT, REQUEST(max_errors), .lo = 0, .hi = 1e15, .arg = "N", .said = "default: no limit",
     .help = "exit with 3 if more were skipped", .when = {{USE_NEEDS, "--skip-bad"}}},
    {"--null", '0', .type = OPTION_FLAG, REQUEST(nul_list), .help = "paths on stdin end with NUL, not newline", .when = {{USE_NEEDS, "-"}}},
    {0},
};

struct dedup_request dedup_defaults(void)
{
	struct dedup_request r = {0};

	option_presets(dedup_options, &r);
	r.max_errors = -1;
	r.distance = -1;
	r.holdout = -1;
	return r;
}
