/* The options of an evaluation: the table that fills struct eval_request, its defaults, and the stamp. */
#include "core/mem.h"
#include "core/str.h"
#include "file/optionstamp.h"
#include "file/resize.h"
#include "kernels/compact.h"
#include "metric/evaluationimpl.h"
#include "metric/evalmetrics.h"
#include "metric/extractor.h"
#include "metric/perceptual.h"
#include "metric/pixfeat.h"

#define REQUEST(member) OPTION_FIELD(struct eval_request, member)
#define SETTLED(member) OPTION_FIELD(struct eval_settled, member)

/* Arguments of network features. */
#define NETWORKS "--features=inception:* --features=dinov2:* --features=clip:*"

static int parse_seed(void *field, const char *label, const char *text, struct err *e)
{
	struct eval_seed *seed = field;

	seed->given = 1;
	if (!parse_u64(text, &seed->value))
		return 0;
	return err_set(e, ERR_USAGE, "%s: '%s' is not an integer from 0 to 2^64 - 1", label, text);
}

static void put_seed(struct stamp *s, const char *key, const void *field)
{
	stamp_u64(s, key, ((const struct eval_seed *)field)->value);
}

/* Write the list of metrics in the order of enum metric. */
static void put_metrics(struct stamp *s, const char *key, const void *field)
{
	struct str list = {0};
	unsigned m;

	metrics_parse(&m, *(const char *const *)field, NULL);
	for (int k = 0; k < METRICS; k++)
		if (m & 1u << k)
			str_printf(&list, "%s%s", list.len ? "," : "", metric_names[k]);
	stamp_text(s, key, str_text(&list));
	str_release(&list);
}

/* In a row with two rules, the first applies with --metrics, the second to the default metrics of the features. */
const struct option eval_options[] = {
    OPTION_GROUP("Features"),
    {"--features", .type = OPTION_TEXT, REQUEST(features), .arg = "KIND", .choices = extractor_names, .preset = "pix",
     .help = "pix: layout, sharpness, colour; rgb8: 8 x 8 means; inception:PATH, dinov2:PATH, clip:PATH: a network", OPTION_ALWAYS,
     .stamp = STAMP_OTHERWISE},
    {"--input", .type = OPTION_CHOICE, REQUEST(input), .arg = "NAME", .choices = netinput_names, .help = "preprocessing of pictures for the network",
     .said = "default: the usual one of the network", .when = {{USE_NEEDS, NETWORKS}}, .stamp = STAMP_OTHERWISE},
    {"--weight-dtype", .type = OPTION_CHOICE, REQUEST(weights), .arg = "TYPE", .choices = encoder_weights, .preset = "f32",
     .help = "type in which the network's matrices are held and multiplied; published numbers use f32", .when = {{USE_NEEDS, NETWORKS}},
     .was = "--weights", .stamp = STAMP_OTHERWISE},
    {"--map", .type = OPTION_FLAG, REQUEST(map), .help = "leave f32 matrices in their file, mapped; changes no result",
     .when = {{USE_AGAINST, "--weight-dtype=bf16 --weight-dtype=int8"}, {USE_NEEDS, NETWORKS}}},
    OPTION_GROUP("Metrics"),
    {"--metrics", .type = OPTION_TEXT, REQUEST(metrics), .arg = "LIST", .choices = metric_names,
     .help = "kd fd memorised fid sfid is kid pr dc cmmd vendi authenticity clip aesthetic lpips diversity; of clips content motion flicker warp "
             "fvd memorised clip; with commas",
     .said = "default kd,fd,memorised; of inception fid,kid,is,pr; of dinov2 fid,kid,pr,dc; of clip cmmd; of clips content,motion", OPTION_ALWAYS,
     .stamp = STAMP_UNLESS_DEFAULT, .key = "recipe/metrics", .put = put_metrics},
    {"--protocol", .type = OPTION_CHOICE, REQUEST(protocol), .arg = "NAME", .choices = protocol_names, .preset = "ddm",
     .help = "program whose draws and groups kid and is follow",
     .when = {{USE_NEEDS, "--metrics~kid --metrics~is --protocol=clean-fid"}, {USE_NEEDS, "--metrics --features=inception:* --features=dinov2:*"}},
     .stamp = STAMP_UNLESS_DEFAULT, .key = "recipe/protocol"},
    {"--size", .type = OPTION_INT, REQUEST(size), .lo = PIXFEAT_SIDE_MIN, .hi = 4096, .arg = "N", .help = "resize the centre square to N x N",
     .said = "default: as they are, all of one size", OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--filter", .type = OPTION_CHOICE, REQUEST(filter), .arg = "NAME", .choices = resize_filter_names, .preset = "bicubic",
     .help = "filter that resizes pictures", .when = {{USE_NEEDS, "--size --lpips"}}, .stamp = STAMP_OTHERWISE},
    {"--heldout", .type = OPTION_TEXT, REQUEST(heldout), .arg = "SET",
     .help = "also measure against SET, held-out pictures; REFERENCE is then the training set", OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--train", .type = OPTION_TEXT, REQUEST(train), .arg = "SET", .help = "training pictures, for memorised and authenticity",
     .said = "default REFERENCE",
     .when = {{USE_NEEDS, "--metrics~memorised --metrics~authenticity"}, {USE_NEEDS, "--metrics --features=pix --features=rgb8"}},
     .stamp = STAMP_OTHERWISE},
    {"--axes", .type = OPTION_INT, REQUEST(axes), .lo = 1, .hi = 65536, .arg = "P", .preset = "32", .help = "principal axes of the Frechet distance",
     .when = {{USE_NEEDS, "--metrics~fd"}, {USE_NEEDS, "--metrics --features=pix --features=rgb8"}}, .stamp = STAMP_OTHERWISE},
    {"--draws", .type = OPTION_INT, REQUEST(draws), .lo = 1, .hi = 1000, .arg = "R", .preset = "4",
     .help = "draws of equally many pictures for the Frechet distance",
     .when = {{USE_NEEDS, "--metrics~fd"}, {USE_NEEDS, "--metrics --features=pix --features=rgb8"}}, .stamp = STAMP_ALWAYS, .key = "recipe/draws"},
    {"--subsets", .type = OPTION_INT, REQUEST(subsets), .lo = 2, .hi = 100000, .arg = "N", .help = "kernel distance as the mean over N subsets",
     .said = "default: all pairs", .when = {{USE_NEEDS, "--metrics~kd --metrics~kid"}}, .stamp = STAMP_UNLESS_DEFAULT, .key = "recipe/subsets"},
    {"--subset-size", .type = OPTION_INT, REQUEST(subset_size), .lo = 3, .hi = 1000000, .arg = "M", .preset = "1000", .help = "samples in a subset",
     .when = {{USE_NEEDS, "--subsets --metrics~kid"}, {USE_NEEDS, "--subsets --metrics --features=inception:* --features=dinov2:*"}},
     .stamp = STAMP_OTHERWISE},
    {"--seed", .type = OPTION_PARSED, REQUEST(seed), .arg = "S", .parse = parse_seed, .put = put_seed, .help = "seed of draws and subsets",
     .said = "default 0; of torch-fidelity 2020", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "seed"},
    {"--logits", .type = OPTION_TEXT, REQUEST(logits), .arg = "FILE", .help = "class logits or probabilities of SAMPLES, .npy, for is",
     .when = {{USE_NEEDS, "--metrics~is"}, {USE_NEEDS, "--metrics --features=inception:*"}}},
    {"--captions", .type = OPTION_TEXT, REQUEST(captions), .arg = "FILE", .help = "embeddings of the captions of SAMPLES, .npy, for clip",
     .said = "default: their .txt, embedded by the text encoder of clip:PATH", .when = {{USE_NEEDS, "--metrics~clip"}, {USE_NEEDS, "--metrics"}}},
    {"--aesthetic", .type = OPTION_TEXT, REQUEST(aesthetic), .arg = "FILE", .help = "weights of the predictor for aesthetic, on features clip:PATH",
     .when = {{USE_NEEDS, "--metrics~aesthetic"}}, .stamp = STAMP_OTHERWISE},
    {"--lpips", .type = OPTION_TEXT, REQUEST(lpips), .arg = "DIR", .help = "folder of LPIPS (trunk and heads), for lpips and diversity",
     .when = {{USE_NEEDS, "--metrics~lpips --metrics~diversity"}}, .stamp = STAMP_OTHERWISE},
    {"--i3d", .type = OPTION_TEXT, REQUEST(i3d), .arg = "FILE", .help = "weights of I3D trained on Kinetics-400, for fvd",
     .when = {{USE_NEEDS, "--metrics~fvd"}}, .stamp = STAMP_OTHERWISE},
    {"--groups", .type = OPTION_CHOICE, REQUEST(groups), .arg = "NAME", .choices = perceptual_group_names, .preset = "none",
     .help = "groups of samples within which diversity compares pairs", .when = {{USE_NEEDS, "--metrics~diversity"}}, .stamp = STAMP_UNLESS_DEFAULT,
     .key = "recipe/groups"},
    {"--no-null-test", .type = OPTION_OFF, REQUEST(null_test), .preset = "1",
     .help = "of clips: do not test on altered clips what content and motion measure", .when = {{USE_NEEDS, "--metrics~content --metrics~motion"}},
     .stamp = STAMP_UNLESS_DEFAULT, .key = "null-test"},
    OPTION_GROUP("Cache and output"),
    {"--ignore-recipe", .type = OPTION_FLAG, REQUEST(ignore_recipe), .help = "compare sets of different recipes, and record that in the line",
     OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--cache", .type = OPTION_FLAG, REQUEST(cache), .help = "keep and reuse the features of a set beside it, as SET.features-HASH.npz",
     OPTION_ALWAYS},
    {"--cache-dir", .type = OPTION_TEXT, REQUEST(cache_dir), .arg = "DIR", .help = "like --cache, with the files in DIR", OPTION_ALWAYS},
    {"--stats-out", .type = OPTION_TEXT, REQUEST(stats_out), .arg = "FILE", .help = "write REFERENCE's statistics and features as .npz",
     OPTION_ALWAYS},
    {"--output", 'o', OPTION_TEXT, REQUEST(out), .arg = "FILE", .preset = "-", .help = "write the line to FILE", .said = "default standard output",
     OPTION_ALWAYS},
    {"--skip-bad", .type = OPTION_FLAG, REQUEST(skip_bad), .help = "skip unreadable pictures, naming them", OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--max-errors", .type = OPTION_INT, REQUEST(max_errors), .lo = 0, .hi = 1e15, .arg = "N", .help = "exit with 3 if more than N were skipped",
     .said = "default: no limit", .when = {{USE_NEEDS, "--skip-bad"}}},
    {0},
};

/* Values found during the run. The stamp records these in place of the options with STAMP_OTHERWISE. */
static const struct option settled_rows[] = {
    {.type = OPTION_TEXT, SETTLED(features), .stamp = STAMP_ALWAYS, .key = "recipe/features"},
    {.type = OPTION_TEXT, SETTLED(features_hash), .stamp = STAMP_ALWAYS, .key = "recipe/features-hash"},
    {.type = OPTION_TEXT, SETTLED(input), .stamp = STAMP_ALWAYS, .key = "recipe/input"},
    {.type = OPTION_INT, SETTLED(dims), .stamp = STAMP_ALWAYS, .key = "recipe/dims"},
    {.type = OPTION_INT, SETTLED(width), .stamp = STAMP_UNLESS_DEFAULT, .key = "recipe/width"},
    {.type = OPTION_INT, SETTLED(height), .stamp = STAMP_UNLESS_DEFAULT, .key = "recipe/height"},
    {.type = OPTION_INT, SETTLED(frames), .stamp = STAMP_UNLESS_DEFAULT, .key = "recipe/frames"},
    {.type = OPTION_REAL, SETTLED(fps), .stamp = STAMP_UNLESS_DEFAULT, .key = "recipe/fps"},
    {.type = OPTION_INT, SETTLED(draws), .stamp = STAMP_UNLESS_DEFAULT, .key = "recipe/frames-drawn"},
    {.type = OPTION_TEXT, SETTLED(motion_hash), .stamp = STAMP_ALWAYS, .key = "recipe/motion-hash"},
    {.type = OPTION_TEXT, SETTLED(clip_score), .stamp = STAMP_ALWAYS, .key = "recipe/clip-score"},
    {.type = OPTION_TEXT, SETTLED(fvd), .stamp = STAMP_ALWAYS, .key = "recipe/fvd"},
    {.type = OPTION_TEXT, SETTLED(i3d_hash), .stamp = STAMP_ALWAYS, .key = "recipe/i3d-hash"},
    {.type = OPTION_TEXT, SETTLED(resize), .stamp = STAMP_ALWAYS, .key = "recipe/resize"},
    {.type = OPTION_TEXT, SETTLED(colour), .stamp = STAMP_ALWAYS, .key = "recipe/colour"},
    {.type = OPTION_TEXT, SETTLED(copies), .stamp = STAMP_ALWAYS, .key = "recipe/copies"},
    {.type = OPTION_TEXT, SETTLED(captions_hash), .stamp = STAMP_ALWAYS, .key = "recipe/captions-hash"},
    {.type = OPTION_TEXT, SETTLED(aesthetic_hash), .stamp = STAMP_ALWAYS, .key = "recipe/aesthetic-hash"},
    {.type = OPTION_TEXT, SETTLED(lpips_hash), .stamp = STAMP_ALWAYS, .key = "recipe/lpips-hash"},
    {.type = OPTION_INT, SETTLED(kid_subsets), .stamp = STAMP_UNLESS_DEFAULT, .key = "recipe/kid-subsets"},
    {.type = OPTION_INT, SETTLED(subset_size), .stamp = STAMP_UNLESS_DEFAULT, .key = "recipe/subset-size"},
    {0},
};

_Static_assert(offsetof(struct eval_settled, asked) == 0, "the rows of both tables are fields of one struct");

struct eval_request eval_defaults(void)
{
	struct eval_request q = {.input = -1, .max_errors = -1};

	option_presets(eval_options, &q);
	return q;
}

void evaluation_stamp(struct stamp *s, const struct eval_settled *settled)
{
	static const struct option *const tables[] = {eval_options, settled_rows, NULL};

	optionstamp_put(s, tables, settled,
	                "recipe/features recipe/features-hash recipe/input recipe/dims recipe/width recipe/height recipe/frames recipe/fps "
	                "recipe/frames-drawn recipe/motion-hash recipe/clip-score recipe/fvd recipe/i3d-hash recipe/resize recipe/colour "
	                "recipe/copies recipe/metrics recipe/captions-hash recipe/aesthetic-hash recipe/lpips-hash recipe/groups recipe/protocol "
	                "recipe/draws recipe/subsets recipe/kid-subsets recipe/subset-size seed null-test");
}
