/* How far are samples from a reference: kernel and Frechet distances of picture features, copies of training pictures, and the metrics that
 * publications compare. */
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/npy.h"
#include "file/stamp.h"
#include "file/standing.h"
#include "metric/captions.h"
#include "metric/evalread.h"
#include "metric/evalreport.h"
#include "metric/evalstats.h"
#include "metric/pixfeat.h"

static int groups = GROUP_NONE, filter = RESIZE_BICUBIC, protocol = PROTOCOL_DDM, skip_bad, ignore_recipe, cache, seeded, weights, input = -1;
static int64_t size, axes = 32, draws = 4, subsets, subset_size = 1000, max_errors = -1, threads;
static uint64_t seed;
static const char *features = "pix", *heldout, *train, *stats_out, *out = "-", *metrics, *cache_dir, *logits, *captions,
    *lpips, *aesthetic, *device = "auto";

/* Arguments of network features. */
#define NETWORKS "--features=inception:* --features=dinov2:* --features=clip:*"

static const struct option options[] = {
    OPTION_GROUP("Features"),
    {"--features", 0, OPTION_TEXT, &features, .arg = "KIND",
     .help = "pix: layout, sharpness, colour; rgb8: 8 x 8 means; inception:PATH, dinov2:PATH, clip:PATH: a network (default pix)",
     .choices = extractor_names, OPTION_ALWAYS},
    {"--input", 0, OPTION_CHOICE, &input, .arg = "NAME", .help = "how pictures are fed to the network (default: as is usual for it)",
     .choices = netinput_names, .when = {{USE_NEEDS, NETWORKS}}},
    {"--device", 0, OPTION_TEXT, &device, .arg = "NAME", .help = "auto, cpu, cuda or cuda:N: where the network runs (default auto)",
     .when = {{USE_NEEDS, NETWORKS " --lpips"}}},
    {"--weight-dtype", 0, OPTION_CHOICE, &weights, .arg = "TYPE", .choices = encoder_weights,
     .help = "how the network's matrices are held and multiplied; what is published is f32 (default f32)",
     .when = {{USE_NEEDS, NETWORKS}}, .was = "--weights"},
    /* Of a pair of rules the first is of a list that was given, the second of what the features stand for without one. */
    OPTION_GROUP("Metrics"),
    {"--metrics", 0, OPTION_TEXT, &metrics, .arg = "LIST",
     .help = "kd fd memorised fid sfid is kid pr dc cmmd vendi authenticity clip aesthetic lpips diversity, with commas (default kd,fd,memorised)",
     .choices = metric_names, OPTION_ALWAYS},
    {"--protocol", 0, OPTION_CHOICE, &protocol, .arg = "NAME", .help = "whose draws and groups kid and is use (default ddm)",
     .choices = protocol_names,
     .when = {{USE_NEEDS, "--metrics~kid --metrics~is --protocol=clean-fid"},
              {USE_NEEDS, "--metrics --features=inception:* --features=dinov2:*"}}},
    {"--size", 0, OPTION_INT, &size, PIXFEAT_SIDE_MIN, 4096, .arg = "N",
     .help = "resize the centre square to N x N (default: as they are, all of one size)", OPTION_ALWAYS},
    {"--filter", 0, OPTION_CHOICE, &filter, .arg = "NAME", .help = "of that resize (default bicubic)",
     .choices = resize_filter_names, .when = {{USE_NEEDS, "--size --lpips"}}},
    {"--heldout", 0, OPTION_TEXT, &heldout, .arg = "SET",
     .help = "also measure against this set; REFERENCE is then what was trained on", OPTION_ALWAYS},
    {"--train", 0, OPTION_TEXT, &train, .arg = "SET", .help = "what samples may be copies of (default REFERENCE)",
     .when = {{USE_NEEDS, "--metrics~memorised --metrics~authenticity"}, {USE_NEEDS, "--metrics --features=pix --features=rgb8"}}},
    {"--axes", 0, OPTION_INT, &axes, 1, 65536, .arg = "P", .help = "principal axes of the Frechet distance (default 32)",
     .when = {{USE_NEEDS, "--metrics~fd"}, {USE_NEEDS, "--metrics --features=pix --features=rgb8"}}},
    {"--draws", 0, OPTION_INT, &draws, 1, 1000, .arg = "R", .help = "rounds of drawing equal numbers for it (default 4)",
     .when = {{USE_NEEDS, "--metrics~fd"}, {USE_NEEDS, "--metrics --features=pix --features=rgb8"}}},
    {"--subsets", 0, OPTION_INT, &subsets, 2, 100000, .arg = "N",
     .help = "kernel distance as the mean over N subsets (default: all pairs)", .when = {{USE_NEEDS, "--metrics~kd --metrics~kid"}}},
    {"--subset-size", 0, OPTION_INT, &subset_size, 3, 1000000, .arg = "M", .help = "samples in a subset (default 1000)",
     .when = {{USE_NEEDS, "--subsets --metrics~kid"}, {USE_NEEDS, "--subsets --metrics --features=inception:* --features=dinov2:*"}}},
    {"--seed", 0, OPTION_U64, &seed, .arg = "S", .help = "of draws and subsets (default 0; torch-fidelity's 2020)", .given = &seeded,
     OPTION_ALWAYS},
    {"--logits", 0, OPTION_TEXT, &logits, .arg = "FILE", .help = "class logits or probabilities of SAMPLES, .npy, for is",
     .when = {{USE_NEEDS, "--metrics~is"}, {USE_NEEDS, "--metrics --features=inception:*"}}},
    {"--captions", 0, OPTION_TEXT, &captions, .arg = "FILE",
     .help = "embeddings of the captions of SAMPLES, .npy, for clip (default: of their .txt, by the text tower of clip:PATH)",
     .when = {{USE_NEEDS, "--metrics~clip"}, {USE_NEEDS, "--metrics"}}},
    {"--aesthetic", 0, OPTION_TEXT, &aesthetic, .arg = "FILE", .help = "weights of the predictor for aesthetic, on features clip:PATH",
     .when = {{USE_NEEDS, "--metrics~aesthetic"}}},
    {"--lpips", 0, OPTION_TEXT, &lpips, .arg = "DIR", .help = "LPIPS, trunk and heads, for lpips and diversity",
     .when = {{USE_NEEDS, "--metrics~lpips --metrics~diversity"}}},
    {"--groups", 0, OPTION_CHOICE, &groups, .arg = "NAME", .help = "whose pairs diversity takes: none, class, text, folder (default none)",
     .choices = perceptual_group_names, .when = {{USE_NEEDS, "--metrics~diversity"}}},
    OPTION_GROUP("Cache and output"),
    {"--ignore-recipe", 0, OPTION_FLAG, &ignore_recipe, .help = "compare what was not made alike, and say so in the line", OPTION_ALWAYS},
    {"--cache", 0, OPTION_FLAG, &cache, .help = "keep and reuse the features of a set beside it, as SET.features-HASH.npz", OPTION_ALWAYS},
    {"--cache-dir", 0, OPTION_TEXT, &cache_dir, .arg = "DIR", .help = "the same in DIR", OPTION_ALWAYS},
    {"--stats-out", 0, OPTION_TEXT, &stats_out, .arg = "FILE", .help = "write REFERENCE's statistics and features as .npz", OPTION_ALWAYS},
    {"--output", 'o', OPTION_TEXT, &out, .arg = "FILE", .help = "write the line there (default standard output)", OPTION_ALWAYS},
    {"--skip-bad", 0, OPTION_FLAG, &skip_bad, .help = "pass over unreadable pictures, naming them", OPTION_ALWAYS},
    {"--max-errors", 0, OPTION_INT, &max_errors, 0, 1e15, .arg = "N",
     .help = "exit 3 when more than N were passed over (default: no limit)", .when = {{USE_NEEDS, "--skip-bad"}}},
    {"--threads", 0, OPTION_INT, &threads, 1, 4096, .arg = "N",
     .help = "threads (default: all CPUs); the result does not depend on it", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-eval-fid",
    .operands = "REFERENCE SAMPLES",
    .about = "Measure how far samples are from a reference set of pictures. kd, the unbiased kernel distance, is 0 on average "
             "where both sets come from one source; fd, the Frechet distance, falls to its floor there, which is printed beside it. memorised is the "
             "share of samples that are copies.",
    .options = options,
};

enum role { REFERENCE, SAMPLES, HELDOUT, TRAIN, ROLES };
static const char *const role_names[ROLES] = {"reference", "samples", "heldout", "train"};

static void tell_bad(void *arg, const char *why)
{
	(void)arg;
	cmd_warn("skipped: %s", why);
}

static void tell_warning(void *arg, const char *what)
{
	(void)arg;
	cmd_warn("%s", what);
}

/* Everything an evaluation holds. */
struct work {
	struct evalset set[ROLES];
	const char *const *path; /* [ROLES] */
	struct device *device;
	struct extractor *extractor;
	struct evalreport report;
	json_t *ignored; /* sentences: what --ignore-recipe let pass */
	float *captions;
	char captions_hash[65], lpips_hash[65];
	struct aesthetic aesthetic;
	struct evalset_options reading;
	struct perceptual_work perceptual;
	struct stamp *st;
};

/* Without --size, samples are measured as a reference that is a statistics file was. */
static int follow(struct work *w, struct evalset_options *o, struct err *e)
{
	const struct recipe *r = &w->set[REFERENCE].recipe;

	for (int k = 0; pixfeat_names[k]; k++)
		if (!strcmp(r->features, pixfeat_names[k]) && strcmp(r->features, o->extractor->name)) {
			extractor_free(w->extractor);
			o->extractor = w->extractor = extractor_open(r->features, &(struct extractor_options){.input = input}, e);
			if (!w->extractor)
				return -1;
		}
	if (size || !strcmp(r->resize, "none"))
		return 0;
	for (int k = 0; resize_filter_names[k]; k++)
		if (str_ends(r->resize, resize_filter_names[k]) && r->width == r->height) {
			o->size = r->width;
			o->filter = (enum resize_filter)k;
			return 0;
		}
	return err_set(e, ERR_DATA, "the reference was resized in an unknown way: %s", r->resize);
}

static int agree(struct work *w, int k, struct err *e)
{
	const struct evalset *a = &w->set[REFERENCE], *b = &w->set[k];
	struct err why = {0};

	if (evalset_agree(a, w->path[REFERENCE], b, w->path[k], &why)) {
		if (!ignore_recipe || a->recipe.dims != b->recipe.dims)
			return err_set(e, why.code, "%s%s", why.msg, a->recipe.dims == b->recipe.dims ? " (--ignore-recipe)" : "");
		cmd_warn("not made alike: %s", why.msg);
		json_array_append_new(w->ignored, jsonio_text(role_names[k]));
	} else if (recipe_unrecorded(&a->recipe) != recipe_unrecorded(&b->recipe)) {
		int of = recipe_unrecorded(&a->recipe) ? REFERENCE : k;

		cmd_warn("%s does not say how it was made: taken for the features \"%s\"", w->path[of],
		         (of == k ? a : b)->recipe.features);
		stamp_text(w->st, "unrecorded", role_names[of]);
	}
	if (b->partition && (!strcmp(b->partition, b->recipe.features) || !strcmp(b->partition, b->recipe.features_hash)))
		cmd_warn("%s was clustered by the same features \"%s\": that favours its partition", w->path[k], b->recipe.features);
	return 0;
}

/* The metrics wanted, and which taps they need. */
static int metrics_choose(struct work *w, struct evalset_options *o, struct err *e)
{
	unsigned m;

	if (metrics_parse(&m, metrics ? metrics : w->extractor->metrics, e))
		return -1;
	w->report.metrics = m;
	w->report.asked = metrics != NULL;
	o->taps = (m & 1u << METRIC_SFID ? 1u << TAP_SPATIAL : 0) | (m & 1u << METRIC_IS ? 1u << TAP_LOGITS : 0);
	return 0;
}

/* What the metrics ask for beside the features. */
static int models_open(struct work *w, struct err *e)
{
	const unsigned pictures = 1u << METRIC_LPIPS | 1u << METRIC_DIVERSITY, m = w->report.metrics;

	if (!lpips != !(m & pictures))
		return err_set(e, ERR_USAGE, lpips ? "--lpips is for the metrics lpips and diversity" : "lpips and diversity need --lpips");
	if (!aesthetic != !(m & 1u << METRIC_AESTHETIC))
		return err_set(e, ERR_USAGE, aesthetic ? "--aesthetic is for the metric of that name" : "aesthetic needs --aesthetic");
	if (groups && !(m & 1u << METRIC_DIVERSITY))
		return err_set(e, ERR_USAGE, "--groups is for the metric diversity");
	if (aesthetic && aesthetic_load(&w->aesthetic, aesthetic, e))
		return -1;
	w->report.aesthetic = aesthetic ? &w->aesthetic : NULL;
	if (!lpips)
		return 0;
	w->perceptual = (struct perceptual_work){.reference = w->path[REFERENCE], .samples = w->path[SAMPLES], .reading = &w->reading,
	                                         .by = (enum perceptual_group)groups};
	w->perceptual.net = lpips_folder(lpips, 16, w->lpips_hash, w->device, e);
	w->report.perceptual = &w->perceptual;
	return w->perceptual.net ? 0 : -1;
}

static int sets_read(struct work *w, struct pool *pool, const struct progress *progress, struct err *e)
{
	struct evalset_options o = {.size = (int)size,
	                            .filter = (enum resize_filter)filter,
	                            .skip_bad = skip_bad,
	                            .max_errors = max_errors,
	                            .bad = tell_bad,
	                            .spool = getenv("TMPDIR"),
	                            .cache = cache_dir ? cache_dir : cache ? "" : NULL,
	                            .warn = tell_warning,
	                            .pool = pool,
	                            .progress = progress};

	if ((extractor_is_network(features) || lpips) && !(w->device = open_device(device, pool, e)))
		return -1;
	o.extractor = w->extractor = extractor_open(features, &(struct extractor_options){input, w->device, (enum compact_type)weights}, e);
	if (!w->extractor || metrics_choose(w, &o, e) || models_open(w, e))
		return -1;
	for (int k = 0; k < ROLES; k++) {
		const unsigned few = 1u << METRIC_FID | 1u << METRIC_SFID | 1u << METRIC_IS;

		if (!w->path[k])
			continue;
		o.statistics = k == REFERENCE && !(w->report.metrics & ~few);
		if (evalset_read(&w->set[k], w->path[k], &o, e) || (k == REFERENCE && follow(w, &o, e)) || agree(w, k, e))
			return -1;
	}
	w->reading = o;
	return logits ? evalset_logits(&w->set[SAMPLES], logits, e) : 0;
}

/* The text tower beside the pictures' reads what the samples say of themselves. */
static int captions_own(struct work *w, struct err *e)
{
	int width, dims = w->set[SAMPLES].recipe.dims;
	int64_t cut = 0;

	if (captions_embed(&w->captions, &w->report.captions_n, &width, &cut, w->captions_hash, features + strlen("clip:"), w->path[SAMPLES],
	                   &w->reading, w->device, e))
		return -1;
	w->report.captions = w->captions;
	if (cut)
		cmd_warn("%lld captions are longer than the network reads, and were cut", (long long)cut);
	return width == dims ? 0 : err_set(e, ERR_DATA, "embeddings of %d numbers of captions, of %d of the samples", width, dims);
}

static int captions_read(struct work *w, struct err *e)
{
	int dims = w->set[SAMPLES].recipe.dims, rc = 0;
	struct npy a;

	if (!captions)
		return w->report.metrics & 1u << METRIC_CLIP && !strncmp(features, "clip:", 5) && *w->set[SAMPLES].recipe.input ? captions_own(w, e)
		                                                                                                                : 0;
	if (npy_load(&a, captions, e))
		return -1;
	w->captions = evalstats_vectors(&a, captions, "the array", e);
	w->report.captions = w->captions;
	w->report.captions_n = a.shape[0];
	if (w->captions && a.shape[1] != dims)
		rc = err_set(e, ERR_DATA, "%s: embeddings of %lld numbers, those of the samples have %d", captions, (long long)a.shape[1], dims);
	npy_release(&a);
	return w->captions ? rc : -1;
}

static json_t *metrics_json(unsigned m)
{
	struct str s = {0};
	json_t *o;

	for (int k = 0; k < METRICS; k++)
		if (m & 1u << k)
			str_printf(&s, "%s%s", s.len ? "," : "", metric_names[k]);
	o = json_string(str_text(&s));
	str_release(&s);
	return o;
}

static json_t *recipe_json(const struct work *w)
{
	const struct recipe *a = &w->set[REFERENCE].recipe, *r = recipe_unrecorded(a) ? &w->set[SAMPLES].recipe : a;
	json_t *o = json_object();

	json_object_set_new(o, "features", json_string(r->features));
	if (*r->features_hash)
		json_object_set_new(o, "features-hash", json_string(r->features_hash));
	if (*r->input)
		json_object_set_new(o, "input", json_string(r->input));
	json_object_set_new(o, "dims", json_integer(r->dims));
	if (r->width) {
		json_object_set_new(o, "width", json_integer(r->width));
		json_object_set_new(o, "height", json_integer(r->height));
		json_object_set_new(o, "resize", json_string(r->resize));
		json_object_set_new(o, "colour", json_string("8-bit RGB, turned by EXIF, no profile applied"));
		json_object_set_new(o, "copies", json_string("box means of at most 32 x 32"));
	}
	if (metrics)
		json_object_set_new(o, "metrics", metrics_json(w->report.metrics));
	if (*w->captions_hash)
		json_object_set_new(o, "captions-hash", json_string(w->captions_hash));
	if (*w->aesthetic.hash)
		json_object_set_new(o, "aesthetic-hash", json_string(w->aesthetic.hash));
	if (*w->lpips_hash)
		json_object_set_new(o, "lpips-hash", json_string(w->lpips_hash));
	if (groups)
		json_object_set_new(o, "groups", json_string(perceptual_group_names[groups]));
	if (protocol != PROTOCOL_DDM)
		json_object_set_new(o, "protocol", json_string(protocol_names[protocol]));
	json_object_set_new(o, "draws", json_integer(draws));
	if (subsets)
		json_object_set_new(o, "subsets", json_integer(subsets));
	else if (w->report.metrics & 1u << METRIC_KID)
		json_object_set_new(o, "kid-subsets", json_integer(KID_SUBSETS));
	if (subsets || w->report.metrics & 1u << METRIC_KID)
		json_object_set_new(o, "subset-size", json_integer(subset_size));
	return o;
}

static void inputs_stamp(const struct work *w)
{
	stamp_json(w->st, "recipe", recipe_json(w));
	stamp_u64(w->st, "seed", seed);
	for (int k = 0; k < ROLES; k++) {
		const struct evalset *s = &w->set[k];

		if (*s->hash)
			stamp_input(w->st, role_names[k], s->hash);
		if (s->skipped)
			stamp_i64(w->st,
			          k == REFERENCE ? "skipped-reference"
			          : k == SAMPLES ? "skipped-samples"
			                         : "skipped-other",
			          s->skipped);
	}
	if (json_array_size(w->ignored))
		stamp_json(w->st, "recipe-ignored", json_incref(w->ignored));
	if (w->set[REFERENCE].partition)
		stamp_text(w->st, "cluster-features", w->set[REFERENCE].partition);
}

static void notes_tell(const struct stamp *st)
{
	const json_t *notes = json_object_get(stamp_root(st), "notes");

	for (size_t i = 0; i < json_array_size(notes); i++)
		cmd_warn("%s", json_string_value(json_array_get(notes, i)));
}

static int evaluate(struct stamp *st, const char *const path[ROLES], struct pool *pool, struct err *e)
{
	struct progress progress = cmd_progress();
	struct work w = {.path = path, .st = st, .ignored = json_array()};
	int rc;

	w.report = (struct evalreport){.reference = &w.set[REFERENCE],
	                               .samples = &w.set[SAMPLES],
	                               .heldout = path[HELDOUT] ? &w.set[HELDOUT] : NULL,
	                               .train = path[TRAIN] ? &w.set[TRAIN] : NULL,
	                               .protocol = (enum protocol)protocol,
	                               .axes = (int)axes,
	                               .draws = (int)draws,
	                               .subsets = subsets,
	                               .size = subset_size,
	                               .seed = seed,
	                               .pool = pool};
	rc = sets_read(&w, pool, &progress, e) || captions_read(&w, e) ? -1 : 0;
	if (!rc) {
		inputs_stamp(&w);
		rc = standing_check(out, st, 1, e) || evalreport_fill(st, &w.report, e) ? -1 : 0;
	}
	if (!rc)
		notes_tell(st);
	if (!rc && stats_out)
		rc = evalset_statistics(&w.set[REFERENCE], pool, e) || evalset_write(&w.set[REFERENCE], stats_out, e) ? -1 : 0;
	for (int k = 0; k < ROLES; k++)
		evalset_release(&w.set[k]);
	json_decref(w.ignored);
	mem_free(w.captions);
	aesthetic_release(&w.aesthetic);
	lpips_free(w.perceptual.net);
	extractor_free(w.extractor);
	device_free(w.device);
	return rc;
}

static int line_write(const struct stamp *st, struct err *e)
{
	char *line = jsonio_sealed_line(stamp_root(st)), *text = str_new("%s\n", line);
	int rc = standing_check(out, st, 0, e) || commit_bytes(out, text, strlen(text), e) ? -1 : 0;

	mem_free(line);
	mem_free(text);
	return rc;
}

static int stdin_shared(const char *const path[ROLES], struct err *e)
{
	int n = 0;

	for (int k = 0; k < ROLES; k++)
		n += path[k] && !strcmp(path[k], "-");
	return n > 1 ? err_set(e, ERR_USAGE, "standard input (-) can be one set only") : 0;
}

int main(int argc, char **argv)
{
	const char *path[ROLES];
	struct err e = {0};
	struct stamp *st;
	struct pool *pool;

	cmd_start(&program, argc, argv, 2, 2);
	path[REFERENCE] = argv[1], path[SAMPLES] = argv[2], path[HELDOUT] = heldout, path[TRAIN] = train;
	if (protocol == PROTOCOL_CLEAN && input < 0 && !strncmp(features, "inception:", 10))
		input = NETINPUT_CLEAN;
	if (protocol == PROTOCOL_FIDELITY && !seeded)
		seed = FIDELITY_SEED;
	if (protocol != PROTOCOL_DDM && seed > UINT32_MAX)
		err_set(&e, ERR_USAGE, "--seed %llu is too large for numpy's generator (at most %u)", (unsigned long long)seed, UINT32_MAX);
	if (e.code || stdin_shared(path, &e) || claim_take((const char *const[]){out, stats_out}, 2, &e) ||
	    (stats_out && evalset_may_write(stats_out, NULL, &e)))
		cmd_die(&e);
	pool = pool_new((int)threads, &e);
	st = stamp_new(program.name);
	if (pool && !evaluate(st, path, pool, &e))
		line_write(st, &e);
	stamp_free(st);
	pool_free(pool);
	return cmd_end_over(&e);
}
