/* The options of ddm-ingest: the table that fills struct ingest_request, the options of decoding derived from it, and the stamp. */
#include <string.h>

#include "cmd/ingest_run.h"
#include "cmd/ingest_sound.h"
#include "core/mem.h"
#include "file/optionstamp.h"

#define REQUEST(member) OPTION_FIELD(struct ingest_request, member)
#define OF_FRAMES .when = {{USE_INPUT, "a video or a graph"}}
#define OF_CLIPS .when = {{USE_NEEDS, "--clips"}}

enum { GRAPH_FRAMES = 30 }; /* default of --frames for a graph */

static const char *const dedups[] = {"none", "exact", NULL};
static const char *const resizes[] = {"lanczos", "bicubic", "hamming", "bilinear", "box", "adm", NULL};

static const char *const crops[] = {"none", "bars", NULL};
static const char *const scene_names[] = {
    [SCENES_NONE] = "none", [SCENES_CONTENT] = "content", [SCENES_ADAPTIVE] = "adaptive", [SCENES_TRANSNET] = "transnet", NULL};

static const char *const scene_forms[] = {"content[:T]", "adaptive[:T]", "transnet[:T]", "none", NULL};

/* "content[:T]", "adaptive[:T]", "transnet[:T]" or "none". */
static int parse_scene(void *field, const char *label, const char *text, struct err *e)
{
	struct scene_rule *r = field;
	size_t n = strcspn(text, ":");

	for (int i = 0; scene_names[i]; i++)
		if (strlen(scene_names[i]) == n && !strncmp(scene_names[i], text, n)) {
			*r = (struct scene_rule){(enum scene_detector)i, scene_threshold((enum scene_detector)i), SCENE_LENGTH};
			if (!text[n] || (i != SCENES_NONE && !parse_f64(text + n + 1, 1e-3, i == SCENES_TRANSNET ? .999 : 255, &r->threshold)))
				return 0;
		}
	return err_set(
	    e, ERR_USAGE,
	    "%s \"%s\": content, content:T, adaptive, adaptive:T or none, with T from 0.001 to 255, or transnet, transnet:T, with T to 0.999", label,
	    text);
}

static void put_scene(struct stamp *s, const char *key, const void *field)
{
	const struct scene_rule *r = field;
	char number[F64_TEXT];
	char *text;

	print_f64(number, r->threshold);
	text = str_new("%s%s%s", scene_names[r->detector], r->detector ? ":" : "", r->detector ? number : "");
	stamp_text(s, key, text);
	mem_free(text);
}

static const char *const sound_forms[] = {"RATE", "RATE:mono", "RATE:stereo", NULL};

/* "RATE[:mono|:stereo]". */
static int parse_sound(void *field, const char *label, const char *text, struct err *e)
{
	struct sound_options *o = field;
	size_t n = strcspn(text, ":");
	char *rate = mem_strndup(text, n);
	int bad = parse_i64(rate, SOUND_RATE_LEAST, SOUND_RATE_MOST, &o->rate);

	mem_free(rate);
	o->channels = !strcmp(text + n, ":stereo") ? 2 : 1;
	if (!bad && (!text[n] || o->channels == 2 || !strcmp(text + n, ":mono")))
		return 0;
	return err_set(e, ERR_USAGE, "%s \"%s\": RATE, RATE:mono or RATE:stereo, with a RATE from %d to %d", label, text, SOUND_RATE_LEAST,
	               SOUND_RATE_MOST);
}

static void put_sound(struct stamp *s, const char *key, const void *field)
{
	const struct sound_options *o = field;
	char *text = str_new("%lld:%s", (long long)o->rate, o->channels == 2 ? "stereo" : "mono");

	stamp_text(s, key, text);
	mem_free(text);
}

static void put_share(struct stamp *s, const char *key, const void *field)
{
	const struct job_share *share = field;
	char *text = str_new("%lld/%lld", (long long)share->index, (long long)share->count);

	stamp_text(s, key, text);
	mem_free(text);
}

static int makes_sound(const void *request)
{
	return ((const struct ingest_request *)request)->sound.rate > 0;
}

static int is_shared(const void *request)
{
	return ((const struct ingest_request *)request)->share.count > 0;
}

static int makes_clips(const void *request)
{
	return ((const struct ingest_request *)request)->clips > 0;
}

static int is_resized(const void *request)
{
	const struct ingest_request *r = request;

	return r->size > 0 || r->buckets.n > 0;
}

static int has_buckets(const void *request)
{
	return ((const struct ingest_request *)request)->buckets.n > 0;
}

/* Rows with STAMP_OTHERWISE: ingest_stamp records the seeds if a source is a graph, and --classes by the names of the classes. */
const struct option ingest_options[] = {
    OPTION_GROUP("Pictures and frames"),
    {"--size", .type = OPTION_INT, REQUEST(size), .lo = 1, .hi = 16384, .arg = "N", .help = "take the centre square, resized to N x N",
     .said = "default: as they are", OPTION_ALWAYS, .stamp = STAMP_UNLESS_DEFAULT, .key = "size"},
    {"--buckets", .type = OPTION_PARSED, REQUEST(buckets), .arg = "LIST", .example = "64x48,48x64,64", .parse = buckets_option, .put = buckets_stamp,
     .help = "resize to the size of these, WxH or N, that has the nearest aspect ratio", .when = {{USE_AGAINST, "--size"}}, .stamp = STAMP_ALWAYS,
     .key = "buckets", .counts = has_buckets},
    {"--resize", .type = OPTION_CHOICE, REQUEST(resize), .arg = "FILTER", .choices = resizes, .preset = "lanczos", .help = "how to resize",
     .when = {{USE_NEEDS, "--size --buckets"}}, .stamp = STAMP_ALWAYS, .key = "resize", .counts = is_resized},
    {"--fps", .type = OPTION_REAL, REQUEST(fps), .lo = 1e-6, .hi = 1e6, .arg = "F", .help = "frames a second taken from video",
     .said = "default: all", OF_FRAMES, .stamp = STAMP_UNLESS_DEFAULT, .key = "fps"},
    {"--frames", .type = OPTION_INT, REQUEST(frames), .lo = 1, .hi = 1e9, .arg = "N",
     .help = "most frames of a video (default: all) or of one instance of a graph (default 30)",
     .when = {{USE_INPUT, "a video or a graph"}, {USE_AGAINST, "--clips"}}, .stamp = STAMP_UNLESS_DEFAULT, .key = "frames"},
    {"--scores", .type = OPTION_FLAG, REQUEST(scores),
     .help = "add sharpness, exposure and contrast of pictures to their .json; clips have theirs anyway", .when = {{USE_AGAINST, "--clips"}},
     .stamp = STAMP_UNLESS_DEFAULT, .key = "scores"},
    {"--text-detector", .type = OPTION_TEXT, REQUEST(text), .arg = "FILE",
     .help = "add the share that text covers to the scores, by the detector in FILE (ONNX)", .when = {{USE_NEEDS, "--clips --scores"}},
     .stamp = STAMP_OTHERWISE},
    {"--aesthetic", .type = OPTION_TEXT, REQUEST(aesthetic), .arg = "FILE",
     .help = "add the rating by the predictor in FILE to the scores, of the embedding by --features",
     .when = {{USE_NEEDS, "--clips --scores"}, {USE_NEEDS, "--features"}}, .stamp = STAMP_OTHERWISE},
    {"--features", .type = OPTION_TEXT, REQUEST(features), .arg = "NAME:PATH", .help = "the network whose embedding --aesthetic rates, as clip:DIR",
     .when = {{USE_NEEDS, "--aesthetic"}}, .stamp = STAMP_OTHERWISE},
    {"--seeds", .type = OPTION_INT, REQUEST(seeds), .lo = 1, .hi = 1e7, .arg = "N", .preset = "1", .help = "instances of a graph with placeholders",
     .when = {{USE_INPUT, "a graph"}}, .stamp = STAMP_OTHERWISE},
    {"--seed", .type = OPTION_U64, REQUEST(seed), .arg = "S", .preset = "0", .help = "seed of the first instance", OPTION_ALWAYS,
     .stamp = STAMP_OTHERWISE},
    {.letter = 'n',
     .type = OPTION_INT,
     REQUEST(max),
     .lo = 1,
     .hi = 1e15,
     .arg = "MAX",
     .help = "most samples in all",
     OPTION_ALWAYS,
     .stamp = STAMP_UNLESS_DEFAULT,
     .key = "max"},
    {"--shard", .type = OPTION_PARSED, REQUEST(share), .arg = "I/N", .parse = jobshare_parse, .put = put_share, .example = "0/2",
     .help = "only the sources of job I of N, from 0", .said = "default: all", .when = {{USE_AGAINST, "-n --dedup=exact"}}, .stamp = STAMP_ALWAYS,
     .key = "shard", .counts = is_shared},
    OPTION_GROUP("Clips"),
    {"--clips", .type = OPTION_INT, REQUEST(clips), .lo = 1, .hi = 4096, .arg = "F", .help = "make clips of F frames of videos and graphs, at --fps",
     .when = {{USE_NEEDS, "--fps"}}, .stamp = STAMP_UNLESS_DEFAULT, .key = "clips"},
    {"--stride", .type = OPTION_INT, REQUEST(stride), .lo = 1, .hi = 1e6, .arg = "N",
     .help = "frames from the beginning of a clip to that of the next", .said = "default: F", OF_CLIPS, .stamp = STAMP_UNLESS_DEFAULT,
     .key = "stride"},
    {"--scene", .type = OPTION_PARSED, REQUEST(scene), .arg = "HOW", .choices = scene_forms, .parse = parse_scene, .put = put_scene,
     .preset = "content", .help = "how cuts are found, which no clip crosses", OF_CLIPS, .stamp = STAMP_ALWAYS, .key = "scene",
     .counts = makes_clips},
    {"--transnet", .type = OPTION_TEXT, REQUEST(transnet), .arg = "FILE", .help = "weights of TransNet V2, for --scene transnet",
     .when = {{USE_NEEDS, "--scene"}}, .stamp = STAMP_OTHERWISE},
    {"--crop", .type = OPTION_CHOICE, REQUEST(crop), .arg = "HOW", .choices = crops, .preset = "bars", .help = "cut black bars off videos", OF_CLIPS,
     .stamp = STAMP_ALWAYS, .key = "crop", .counts = makes_clips},
    {"--grey", .type = OPTION_FLAG, REQUEST(grey), .help = "make clips of one channel, the luma", OF_CLIPS, .stamp = STAMP_UNLESS_DEFAULT,
     .key = "grey"},
    {"--sound", .type = OPTION_PARSED, REQUEST(sound), .arg = "RATE", .example = "16000", .choices = sound_forms, .parse = parse_sound,
     .put = put_sound, .help = "keep the sound of videos, as FLAC of RATE samples a second", .said = "mono, or RATE:stereo",
     .when = {{USE_NEEDS, "--clips"}, {USE_INPUT, "a video"}}, .stamp = STAMP_ALWAYS, .key = "sound", .counts = makes_sound},
    OPTION_GROUP("Samples"),
    {"--classes", .type = OPTION_FLAG, REQUEST(classes), .help = "add .cls: the number of the first folder, or graph, in order", OPTION_ALWAYS,
     .stamp = STAMP_OTHERWISE},
    {"--duplicates", .type = OPTION_FLAG, REQUEST(duplicates), .help = "keep frames equal to an earlier one", OF_FRAMES},
    {"--dedup", .type = OPTION_CHOICE, REQUEST(dedup), .arg = "HOW", .choices = dedups, .preset = "none",
     .help = "leave out pictures with the pixels of an earlier one", OPTION_ALWAYS, .stamp = STAMP_UNLESS_DEFAULT, .key = "dedup"},
    OPTION_GROUP("Reading"),
    {"--skip-bad", .type = OPTION_FLAG, REQUEST(skip_bad), .help = "skip unreadable sources", OPTION_ALWAYS},
    {"--max-errors", .type = OPTION_INT, REQUEST(max_errors), .lo = 0, .hi = 1e15, .arg = "N", .help = "exit with 3 if more were skipped",
     .said = "default: no limit", .when = {{USE_NEEDS, "--skip-bad"}}},
    {.letter = '0', .type = OPTION_FLAG, REQUEST(nul_list), .help = "paths on stdin end with NUL, not newline", .when = {{USE_NEEDS, "-"}}},
    OPTION_GROUP("Limits"),
    {"--timeout", .type = OPTION_DURATION, REQUEST(timeout), .arg = "T", .preset = "60", .help = "kill a decoder that delivers nothing for this time",
     .said = "default 60s; 0: never", OPTION_ALWAYS},
    {"--max-memory", .type = OPTION_SIZE, REQUEST(memory), .arg = "SIZE", .preset = "2G",
     .help = "memory limit of all pictures and decoders together", .said = "default 2G; 0: no limit", OPTION_ALWAYS},
    {"--max-pixels", .type = OPTION_INT, REQUEST(max_pixels), .lo = 1, .hi = 1e10, .arg = "N", .preset = "67108864",
     .help = "largest picture or frame", OPTION_ALWAYS},
    {"--no-sandbox", .type = OPTION_FLAG, REQUEST(bare), .help = "do not restrict the system calls of decoders, for kernels without seccomp",
     OPTION_ALWAYS},
    OPTION_GROUP("Output"),
    {"--threads", .type = OPTION_INT, REQUEST(threads), .lo = 0, .hi = 1024, .arg = "N", .help = "threads",
     .said = "default: all processors that it may use", OPTION_ALWAYS},
    {"--quiet", 'q', OPTION_FLAG, REQUEST(quiet), .help = "no report on stderr", OPTION_ALWAYS},
    {.letter = 'o',
     .type = OPTION_TEXT,
     REQUEST(out),
     .arg = "FILE",
     .preset = "-",
     .said = "default: stdout",
     .help = "write the tar to FILE",
     OPTION_ALWAYS},
    {0},
};

struct ingest_request ingest_defaults(void)
{
	struct ingest_request r = {.max_errors = -1};

	option_presets(ingest_options, &r);
	return r;
}

int64_t ingest_graph_frames(const struct ingest_request *r)
{
	return r->clips ? r->clips : r->frames ? r->frames : GRAPH_FRAMES;
}

int ingest_check(const struct ingest_request *r, struct err *e)
{
	double seconds = r->sound.rate ? (double)r->clips / r->fps : 0;

	if (r->seed > (uint64_t)1 << 53)
		return err_set(e, ERR_USAGE, "--seed is at most 2^53");
	if (r->buckets.n && !strcmp(resizes[r->resize], "adm"))
		return err_set(e, ERR_USAGE, "--resize adm makes squares: it needs --size");
	if (seconds > SOUND_SECONDS_MOST)
		return err_set(e, ERR_USAGE, "--sound: clips of %g seconds; with sound they may last %d seconds", seconds, SOUND_SECONDS_MOST);
	if ((r->scene.detector == SCENES_TRANSNET) != (r->transnet != NULL))
		return err_set(e, ERR_USAGE, "%s",
		               r->transnet ? "--transnet does nothing without --scene transnet"
		                           : "--scene transnet needs its weights: --transnet FILE");
	return 0;
}

struct work_options ingest_work(const struct ingest_request *r)
{
	return (struct work_options){.size = r->size,
	                             .buckets = r->buckets,
	                             .resize = resizes[r->resize],
	                             .frames = r->frames,
	                             .graph_frames = ingest_graph_frames(r),
	                             .fps = r->fps,
	                             .timeout = r->timeout,
	                             .memory = r->memory,
	                             .max_pixels = r->max_pixels,
	                             .classes = r->classes,
	                             .scores = r->scores,
	                             .clip = {r->clips, r->stride ? r->stride : r->clips, r->scene, r->crop, r->grey, r->sound, NULL},
	                             .bare = r->bare};
}

struct stamp *ingest_stamp(const struct ingest_request *r, const struct ingest_nets *nets, const struct job_list *l, json_t *names, struct err *e)
{
	static const struct option *const tables[] = {ingest_options, NULL};
	struct stamp *s = stamp_new("ddm-ingest");
	json_t *graphs = json_array();
	int media = 0;

	optionstamp_put(s, tables, r, "size buckets resize fps frames scores clips stride scene crop grey sound max dedup shard");
	for (size_t i = 0; i < l->n; i++) {
		const struct job *j = &l->v[i];

		media |= j->graph || j->kind == MEDIA_VIDEO || j->kind == MEDIA_PICTURE;
		if (j->graph && j->seed == r->seed)
			json_array_append_new(graphs, json_pack("{s:s, s:s}", "name", j->name, "graph", j->graph));
	}
	if (json_array_size(graphs)) {
		stamp_u64(s, "seed", r->seed);
		stamp_i64(s, "seeds", r->seeds);
		stamp_json(s, "graphs", json_incref(graphs));
	}
	json_decref(graphs);
	if (names)
		stamp_json(s, "class_names", names);
	if (*nets->transnet)
		stamp_input(s, "transnet", nets->transnet);
	if (*nets->text)
		stamp_input(s, "text_detector", nets->text);
	if (*nets->features)
		stamp_input(s, "features", nets->features);
	if (*nets->aesthetic)
		stamp_input(s, "aesthetic", nets->aesthetic);
	if (media) {
		struct str versions = {0};

		if (media_versions(&versions, e)) {
			stamp_free(s);
			s = NULL;
		} else {
			stamp_text(s, "media", str_text(&versions));
		}
		str_release(&versions);
	}
	return s;
}
