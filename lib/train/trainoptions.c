/* The options of training: the tables that fill struct train_options, its defaults and its stamp. A new option is one row here and one field
 * there. */
#include <string.h>

#include "core/mem.h"
#include "file/optionstamp.h"
#include "net/model.h"
#include "train/run.h"

#define REQUEST(member) OPTION_FIELD(struct train_options, member)

static const char *const schedules[] = {"constant", "cosine", NULL};
const char *const optimizer_names[] = {"adamw", "muon", "schedule-free", NULL};
static const char *const offloads[] = {"none", "optimizer", NULL};
static const char *const sum_places[] = {"auto", "device", "host", NULL};
static const int64_t offload_ranges[] = {0, TRAIN_RANGE};
const char *const conditions[] = {"none", "class", "cluster", NULL};

static int is_expert(const void *request)
{
	return !net_is_classifier(&((const struct train_options *)request)->net);
}

static int reads_text(const void *request)
{
	return net_reads(&((const struct train_options *)request)->net, NET_IN_TEXT);
}

static int reads_first(const void *request)
{
	return ((const struct train_options *)request)->first_frame;
}

static int has_pictures(const void *request)
{
	return ((const struct train_options *)request)->pictures != NULL;
}

static int has_dropout(const void *request)
{
	return net_has_dropout(&((const struct train_options *)request)->net);
}

static int drops_classes(const void *request)
{
	const struct train_options *o = request;

	return is_expert(o) && (o->condition == CONDITION_CLASS || (o->condition == CONDITION_CLUSTER && o->class_dropout > 0));
}

static int counts_steps(const void *request)
{
	return ((const struct train_options *)request)->steps != 0;
}

static int counts_epochs(const void *request)
{
	return !counts_steps(request);
}

static int has_moving_average(const void *request)
{
	return ((const struct train_options *)request)->optimizer != OPTIMIZER_SCHEDULE_FREE;
}

static int keeps_best(const void *request)
{
	return ((const struct train_options *)request)->keep_best;
}

static void put_path(struct stamp *s, const char *key, const void *field)
{
	const struct path_choice *path = field;

	if (strcmp(path->name, path_choice_names[0]))
		stamp_text(s, key, path->name);
	if (path->sigma_data)
		stamp_f64(s, "sigma_data", path->sigma_data);
}

/* Left out if it is the default of the prediction. */
static void put_weighting(struct stamp *s, const char *key, const void *field)
{
	const struct objective_def *d = field;
	struct weighting w = weighting_reduced(d->weighting, d->prediction);
	double sigma_data = d->path.sigma_data ? d->path.sigma_data : SIGMA_DATA_USUAL;
	int numbered;
	const char *name = weighting_name(&w, &numbered);

	if (name)
		stamp_text(s, key, name);
	if (name && numbered)
		stamp_f64(s, "weighting_number", w.kind == WEIGHTING_EDM && !w.by ? sigma_data : w.by);
}

static void put_time(struct stamp *s, const char *key, const void *field)
{
	const struct time_law *law = field;
	int numbered;

	stamp_text(s, key, time_law_name(law, &numbered));
	if (numbered) {
		stamp_f64(s, "time_mean", law->mean);
		stamp_f64(s, "time_std", law->std);
	}
}

static void put_target(struct stamp *s, const char *key, const void *field)
{
	char *text = target_text(field);

	stamp_text(s, key, text);
	mem_free(text);
}

static int parse_target(void *field, const char *label, const char *text, struct err *e)
{
	return target_parse(text, field, e) ? err_prefix(e, "%s", label) : 0;
}

static int parse_path(void *field, const char *label, const char *text, struct err *e)
{
	return path_choice_parse(text, field, e) ? err_prefix(e, "%s", label) : 0;
}

/* The row's field is the whole objective, because the default weighting depends on the prediction. */
static int parse_weighting(void *field, const char *label, const char *text, struct err *e)
{
	struct objective_def *d = field;

	return weighting_parse(text, &d->weighting, e) ? err_prefix(e, "%s", label) : 0;
}

static int parse_time(void *field, const char *label, const char *text, struct err *e)
{
	return time_law_parse(text, field, e) ? err_prefix(e, "%s", label) : 0;
}

/* A bare number counts steps; one with a unit is a time. */
static int parse_interval(void *field, const char *label, const char *text, struct err *e)
{
	struct train_interval i = {0};

	if (parse_i64(text, 1, INT64_MAX, &i.steps) &&
	    (strspn(text, "0123456789.") == strlen(text) || parse_duration(text, &i.seconds) || i.seconds <= 0))
		return err_set(e, ERR_USAGE, "%s: \"%s\" is neither a number of steps nor a time such as 90s, 15m or 2h", label, text);
	*(struct train_interval *)field = i;
	return 0;
}

enum { MOST_PARTS = 1 << 20 };

static int parse_parts(void *field, const char *label, const char *text, struct err *e)
{
	int64_t n = 0;

	if (strcmp(text, "auto") && parse_i64(text, 1, MOST_PARTS, &n))
		return err_set(e, ERR_USAGE, "%s: '%s' is neither auto nor an integer from 1 to %d", label, text, MOST_PARTS);
	*(int64_t *)field = n;
	return 0;
}

static void put_parts(struct stamp *s, const char *key, const void *field)
{
	stamp_i64(s, key, *(const int64_t *)field);
}

/* Presets of networks that read texts, for the options of texts. */
#define TEXT_MODELS \
	"--model=paris-* --model=pixart-* --model=sd3-* --model=flux-* --model=vdit-text-* --model=vdit-full-* --model=vdit-wan-* --pretrained"

const struct option train_expert_options[] = {
    OPTION_GROUP("What to train"),
    {"--cluster", .type = OPTION_TEXT, REQUEST(cluster_name), .arg = "K|all", .required = "a number from 0, or all",
     .help = "the cluster to train on, by number from 0 or name; all: the monolith", OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--predict", .type = OPTION_CHOICE, REQUEST(objective.prediction), .arg = "WHAT", .choices = prediction_names, .preset = "velocity",
     .help = "what the network predicts", OPTION_ALWAYS, .was_value = "v", .is_value = "velocity", .stamp = STAMP_ALWAYS, .key = "predict",
     .counts = is_expert},
    {"--weighting", .type = OPTION_PARSED, REQUEST(objective), .arg = "HOW", .parse = parse_weighting, .put = put_weighting,
     .help = "of the loss: none, velocity, min-snr[:GAMMA], edm[:STD], sigmoid[:BIAS]", .said = "default: velocity for x0, else none", OPTION_ALWAYS,
     .stamp = STAMP_ALWAYS, .key = "weighting", .counts = is_expert},
    {"--condition", .type = OPTION_CHOICE, REQUEST(condition), .arg = "WHAT", .choices = conditions, .preset = "none",
     .help = "none, class or cluster: what the network is told", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "condition", .counts = is_expert},
    {"--class-dropout", .type = OPTION_REAL, REQUEST(class_dropout), .hi = .999, .arg = "P", .help = "how often the class or cluster is withheld",
     .said = "default: class .1, cluster 0", .when = {{USE_NEEDS, "--condition=class --condition=cluster"}}, .stamp = STAMP_ALWAYS,
     .key = "class_dropout", .counts = drops_classes},
    {"--dropout", .type = OPTION_REAL, REQUEST(dropout), .hi = .99, .arg = "P", .preset = "0",
     .help = "how often a hidden value of a U-Net is set to 0", .when = {{USE_NEEDS, "--model=unet-* --pretrained"}}, .stamp = STAMP_UNLESS_DEFAULT,
     .key = "dropout", .counts = has_dropout},
    {"--time-range", .type = OPTION_PARSED, REQUEST(objective.range), .arg = "A..B", .parse = time_range_option, .put = time_range_stamp,
     .help = "train only on times from A to B", .preset = "0..1", .when = {{USE_AGAINST, "--sample-every"}}, .stamp = STAMP_ALWAYS,
     .key = "time_range", .counts = is_expert},
    {"--text-tokens", .type = OPTION_INT, REQUEST(net.text_tokens), .lo = 1, .hi = 65536, .arg = "N", .help = "most tokens of a text",
     .said = "default: those of the first sample; pixart: 120", .when = {{USE_NEEDS, TEXT_MODELS}}, .stamp = STAMP_ALWAYS, .key = "text_tokens",
     .counts = reads_text},
    {"--text-drop", .type = OPTION_REAL, REQUEST(text_drop), .hi = .999, .arg = "P", .preset = ".1",
     .help = "how often the text is withheld, for guidance", .when = {{USE_NEEDS, TEXT_MODELS}}, .stamp = STAMP_ALWAYS, .key = "text_drop",
     .counts = reads_text},
    {"--null-text", .type = OPTION_TEXT, REQUEST(null_text), .arg = "FILE", .help = "features of the empty text",
     .said = "default SHARDS/null-text.npy", .when = {{USE_NEEDS, TEXT_MODELS}}, .stamp = STAMP_OTHERWISE},
    {"--null-pooled", .type = OPTION_TEXT, REQUEST(null_pooled), .arg = "FILE", .help = "pooled vector of the empty text",
     .said = "default SHARDS/null-pooled.npy", .when = {{USE_NEEDS, "--model=sd3-* --model=flux-* --pretrained"}}, .stamp = STAMP_OTHERWISE},
    {"--first-frame", .type = OPTION_FLAG, REQUEST(first_frame), .help = "tell the network the first frame of each clip: image to video",
     .when = {{USE_INPUT, "clips"}}, .stamp = STAMP_UNLESS_DEFAULT, .key = "first_frame"},
    {"--first-frame-drop", .type = OPTION_REAL, REQUEST(first_frame_drop), .hi = .999, .arg = "P", .preset = ".1",
     .help = "how often the first frame is withheld, for guidance", .when = {{USE_NEEDS, "--first-frame"}}, .stamp = STAMP_ALWAYS,
     .key = "first_frame_drop", .counts = reads_first},
    {"--pictures", .type = OPTION_TEXT, REQUEST(pictures), .arg = "SHARDS", .help = "train on these pictures too, as clips of one frame",
     .when = {{USE_INPUT, "clips"}}, .stamp = STAMP_OTHERWISE},
    {"--picture-share", .type = OPTION_REAL, REQUEST(picture_share), .lo = .001, .hi = .999, .arg = "P", .preset = ".25",
     .help = "the share of the steps that take pictures", .when = {{USE_NEEDS, "--pictures"}}, .stamp = STAMP_ALWAYS, .key = "picture_share",
     .counts = has_pictures},
    {"--pretrained", .type = OPTION_TEXT, REQUEST(from), .arg = "DIR", .help = "start from a network of another prediction, size or condition",
     OPTION_ALWAYS, .was = "--from", .stamp = STAMP_OTHERWISE},
    {.type = OPTION_INT, REQUEST(cluster), .stamp = STAMP_ALWAYS, .key = "cluster", .counts = is_expert},
    {0},
};

const struct option train_router_options[] = {
    OPTION_GROUP("What to train"),
    {"--last", .type = OPTION_OFF, REQUEST(keep_best), .help = "keep the last weights, not those of the best held-out cross-entropy", OPTION_ALWAYS,
     .stamp = STAMP_OTHERWISE},
    {"--from", .type = OPTION_TEXT, REQUEST(from), .arg = "ROUTER", .help = "start from this router, whose clusters may be others",
     .when = {{USE_AGAINST, "--init-weights"}}, .stamp = STAMP_OTHERWISE},
    {"--rows", .type = OPTION_TEXT, REQUEST(rows), .arg = "LIST", .help = "the old cluster of each cluster, or new: 0,2,new",
     .said = "default: the same numbers", .when = {{USE_NEEDS, "--from"}}, .stamp = STAMP_UNLESS_DEFAULT, .key = "rows"},
    {"--head-only", .type = OPTION_FLAG, REQUEST(head_only), .help = "train the last layer alone", .when = {{USE_NEEDS, "--from"}},
     .stamp = STAMP_UNLESS_DEFAULT, .key = "head_only"},
    {"--target", .type = OPTION_PARSED, REQUEST(target), .arg = "WHAT", .preset = "cluster", .parse = parse_target, .put = put_target,
     .help = "what it learns: cluster, or from the errors of experts error[:T], regret, variance, mixture[:ANCHOR], uncertainty:K", OPTION_ALWAYS,
     .stamp = STAMP_UNLESS_DEFAULT, .key = "target"},
    {"--experts", .type = OPTION_TEXT, REQUEST(experts), .arg = "MODEL", .help = "the frozen experts whose errors --target names",
     .when = {{USE_NEEDS, "--target"}}, .stamp = STAMP_OTHERWISE},
    {"--label-smoothing", .type = OPTION_REAL, REQUEST(label_smoothing), .hi = .999, .arg = "S", .preset = "0",
     .help = "train on (1 - S) of the cluster and S of all clusters equally", .when = {{USE_AGAINST, "--experts"}}, .stamp = STAMP_UNLESS_DEFAULT,
     .key = "label_smoothing"},
    {"--calibrate", .type = OPTION_FLAG, REQUEST(calibrate), .help = "divide the logits by a temperature fitted on held-out samples",
     .when = {{USE_AGAINST, "--validate-samples=0"}}, .stamp = STAMP_UNLESS_DEFAULT, .key = "calibrate"},
    {0},
};

const struct option train_common_options[] = {
    OPTION_GROUP("Network"),
    {"--model", .type = OPTION_TEXT, REQUEST(model), .arg = "NAME",
     .help = "network preset: dit-SIZE/P, SIZE nano micro mini s b l xl, P the patch size; of experts also paris-SIZE/P, pixart-SIZE/P, "
             "sd3-SIZE/P, flux-SIZE/P, vdit-SIZE/TxP for clips, or the U-Nets unet-SIZE, unet-text-SIZE, SIZE nano micro mini s b l",
     OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--hidden", .type = OPTION_INT, REQUEST(shape.hidden), .lo = 4, .hi = 65536, .arg = "H",
     .help = "width, instead of the preset's; a U-Net has only the last of these four", OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--depth", .type = OPTION_INT, REQUEST(shape.depth), .lo = 1, .hi = 1000, .arg = "L", .help = "number of blocks, instead of the preset's",
     OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--heads", .type = OPTION_INT, REQUEST(shape.heads), .lo = 1, .hi = 1024, .arg = "A", .help = "attention heads, instead of the preset's",
     OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--patch", .type = OPTION_INT, REQUEST(shape.patch), .lo = 1, .hi = 1024, .arg = "P", .help = "patch size, instead of the preset's",
     OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    OPTION_GROUP("Optimization"),
    {"--steps", .type = OPTION_INT, REQUEST(steps), .lo = 1, .hi = 1e12, .arg = "N", .help = "optimizer steps", OPTION_ALWAYS, .stamp = STAMP_ALWAYS,
     .key = "steps", .counts = counts_steps},
    {"--epochs", .type = OPTION_REAL, REQUEST(epochs), .lo = 1e-6, .hi = 1e9, .arg = "E", .help = "passes over the data, instead of --steps",
     .said = "default: by the number of samples", .when = {{USE_AGAINST, "--steps"}}, .stamp = STAMP_ALWAYS, .key = "epochs",
     .counts = counts_epochs},
    /* extend_open puts the steps at which a run was extended into the stamp. */
    {"--extend", .type = OPTION_FLAG, REQUEST(extend), .help = "continue a finished run to more steps", OPTION_ALWAYS},
    {"--batch", .type = OPTION_INT, REQUEST(batch), .lo = 1, .hi = 1 << 20, .arg = "B", .preset = "32", .help = "samples per step", OPTION_ALWAYS,
     .stamp = STAMP_ALWAYS, .key = "batch"},
    {"--accumulate", .type = OPTION_PARSED, REQUEST(accumulate), .arg = "A|auto", .preset = "1", .parse = parse_parts, .put = put_parts,
     .help = "cut a batch into A parts to save memory; auto: as many as fit needs", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "accumulate"},
    {"--optimizer", .type = OPTION_CHOICE, REQUEST(optimizer), .arg = "NAME", .choices = optimizer_names, .help = "how gradients change the weights",
     .said = "default: by the network", OPTION_ALWAYS, .stamp = STAMP_UNLESS_DEFAULT, .key = "optimizer"},
    {"--lr", .type = OPTION_REAL, REQUEST(lr), .lo = 1e-12, .hi = 100, .arg = "R", .help = "learning rate", .said = "default: by the network's width",
     OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "lr"},
    {"--schedule", .type = OPTION_CHOICE, REQUEST(schedule), .arg = "NAME", .choices = schedules, .preset = "cosine",
     .help = "learning rate after the warm-up", .when = {{USE_AGAINST, "--optimizer=schedule-free"}}, .stamp = STAMP_ALWAYS, .key = "schedule"},
    {"--warmup", .type = OPTION_INT, REQUEST(warmup), .hi = 1e12, .arg = "N", .preset = "50", .help = "steps of linear warm-up", OPTION_ALWAYS,
     .stamp = STAMP_ALWAYS, .key = "warmup"},
    {"--weight-decay", .type = OPTION_REAL, REQUEST(weight_decay), .hi = 100, .arg = "W", .preset = "0", .help = "of AdamW, on matrices",
     OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "weight_decay"},
    {.type = OPTION_REAL, REQUEST(beta1), .preset = ".9", .stamp = STAMP_ALWAYS, .key = "beta1"},
    {"--beta2", .type = OPTION_REAL, REQUEST(beta2), .hi = .9999999, .arg = "B", .preset = ".999", .help = "of AdamW", OPTION_ALWAYS,
     .stamp = STAMP_ALWAYS, .key = "beta2"},
    {.type = OPTION_REAL, REQUEST(eps), .preset = "1e-8", .stamp = STAMP_ALWAYS, .key = "eps"},
    {"--clip", .type = OPTION_REAL, REQUEST(clip), .hi = 1e30, .arg = "NORM", .preset = "1", .help = "clip the gradient's norm; 0: never",
     OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "clip"},
    {"--ema-half-life", .type = OPTION_REAL, REQUEST(ema_half_life), .lo = -1, .hi = 1e12, .arg = "N",
     .help = "of the averaged weights, in steps; -1: no average", .said = "default steps / 20", .when = {{USE_AGAINST, "--optimizer=schedule-free"}},
     .stamp = STAMP_ALWAYS, .key = "ema_half_life", .counts = has_moving_average},
    {"--path", .type = OPTION_PARSED, REQUEST(objective.path), .arg = "NAME", .choices = path_choice_names, .preset = "linear", .parse = parse_path,
     .put = put_path, .help = "how data become noise; edm:S is for data of deviation S", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "path"},
    {"--time", .type = OPTION_PARSED, REQUEST(objective.time), .arg = "LAW", .preset = "uniform", .parse = parse_time, .put = put_time,
     .help = "training times: uniform, logit-normal[:MEAN,STD], lognormal[:MEAN,STD], discrete", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "time"},
    {"--precision", .type = OPTION_CHOICE, REQUEST(precision), .arg = "NAME", .choices = precision_names, .help = "of the network's arithmetic",
     .said = "default bf16 on a GPU, f32 on the CPU", OPTION_ALWAYS, .stamp = STAMP_UNLESS_DEFAULT, .key = "precision"},
    {"--flip", .type = OPTION_FLAG, REQUEST(flip), .help = "mirror half of the samples", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "flip"},
    {"--size", .type = OPTION_INT, REQUEST(size), .lo = 1, .hi = 65536, .arg = "N", .help = "resize the samples to N x N", OPTION_ALWAYS,
     .stamp = STAMP_ALWAYS, .key = "size"},
    {"--grey", .type = OPTION_FLAG, REQUEST(grey), .help = "train on grey pictures, of one channel", OPTION_ALWAYS, .stamp = STAMP_UNLESS_DEFAULT,
     .key = "grey"},
    {"--seed", .type = OPTION_U64, REQUEST(seed), .arg = "S", .preset = "0", .help = "seed of everything random", OPTION_ALWAYS,
     .stamp = STAMP_ALWAYS, .key = "seed"},
    {"--init-weights", .type = OPTION_TEXT, REQUEST(init_from), .arg = "FILE", .help = "start from these weights (a file, index or folder)",
     OPTION_ALWAYS, .was = "--init-from", .stamp = STAMP_OTHERWISE},
    {"--max-skipped", .type = OPTION_INT, REQUEST(max_skipped), .hi = 1e9, .arg = "N", .preset = "20",
     .help = "non-finite steps in a row before giving up", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "max_skipped"},
    {"--max-skipped-share", .type = OPTION_REAL, REQUEST(max_skipped_share), .hi = 1, .arg = "F", .preset = ".1",
     .help = "or this share of all steps so far", OPTION_ALWAYS},
    OPTION_GROUP("Validation, checkpoints, log"),
    {"--validate-every", .type = OPTION_INT, REQUEST(validate_every), .lo = 1, .hi = 1e12, .arg = "N",
     .help = "steps between val_loss on held-out data", .said = "default at least steps / 20", .when = {{USE_AGAINST, "--validate-samples=0"}},
     .stamp = STAMP_ALWAYS, .key = "validate_every", .counts = keeps_best},
    {"--validate-samples", .type = OPTION_INT, REQUEST(validate_samples), .hi = 1e9, .arg = "N", .preset = "512",
     .help = "held-out samples used for it; 0: none", OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "validate_samples", .counts = keeps_best},
    {"--checkpoint-every", .type = OPTION_PARSED, REQUEST(checkpoint), .arg = "N|TIME", .preset = "15m", .parse = parse_interval,
     .help = "steps, or a time such as 15m", OPTION_ALWAYS},
    {"--keep", .type = OPTION_INT, REQUEST(keep), .lo = 1, .hi = 1000000, .arg = "N", .preset = "2", .help = "newest checkpoints to keep",
     OPTION_ALWAYS},
    {"--keep-every", .type = OPTION_INT, REQUEST(keep_every), .lo = 1, .hi = 1e12, .arg = "N",
     .help = "also write a checkpoint every N steps that is never removed", OPTION_ALWAYS},
    {"--sample-every", .type = OPTION_INT, REQUEST(sample_every), .lo = 1, .hi = 1e12, .arg = "N", .help = "draw a sheet of samples every N steps",
     .when = {{USE_INPUT, "pictures, not latents"}}},
    {"--log-every", .type = OPTION_INT, REQUEST(log_every), .lo = 1, .hi = 1e12, .arg = "N", .preset = "10",
     .help = "steps between lines of train.jsonl", OPTION_ALWAYS},
    {"--chain-every", .type = OPTION_INT, REQUEST(chain_every), .hi = 1e12, .arg = "N",
     .help = "steps between lines of train/chain.jsonl, the hashes that ddm-audit checks; 0: none", .said = "default steps / 20, at least 50",
     OPTION_ALWAYS},
    OPTION_GROUP("Machine"),
    {"--recompute", .type = OPTION_FLAG, REQUEST(recompute), .help = "recompute blocks in the backward pass: less memory, same bytes", OPTION_ALWAYS},
    {"--recompute-light", .type = OPTION_FLAG, REQUEST(recompute_light), .help = "recompute norms and activations alone: little time, same bytes",
     .when = {{USE_AGAINST, "--recompute"}}},
    {"--offload", .type = OPTION_CHOICE, REQUEST(offload), .arg = "WHAT", .choices = offloads, .values = offload_ranges, .preset = "none",
     .help = "what a GPU keeps in the host's memory: less of its own, same bytes", .when = {{USE_AGAINST, "--optimizer=muon"}}},
    {"--sum-on", .type = OPTION_CHOICE, REQUEST(sum_on), .arg = "WHERE", .choices = sum_places, .preset = "auto",
     .help = "where the gradients of several ranks are added, same bytes: device is by NCCL on GPUs", OPTION_ALWAYS},
    {"--no-verify", .type = OPTION_OFF, REQUEST(verify), .preset = "1", .help = "do not hash the shards before training", OPTION_ALWAYS},
    OPTION_GROUP("Output"),
    {"--profile", .type = OPTION_FLAG, REQUEST(profile), .help = "time every operation and print a table at the end", OPTION_ALWAYS},
    {"--output", 'o', OPTION_TEXT, REQUEST(out), .arg = "DIR", .required = "the folder for the model",
     .help = "where the model goes; the same command continues an unfinished run", OPTION_ALWAYS},
    {0},
};

struct train_options train_defaults(enum net_role role)
{
	struct train_options o = {.cluster = DATASET_ALL, .class_dropout = -1, .precision = -1, .optimizer = OPTIMIZER_USUAL, .chain_every = -1};

	option_presets(train_expert_options, &o);
	option_presets(train_router_options, &o);
	option_presets(train_common_options, &o);
	net_init(&o.net, net_first(role));
	o.keep_best = role == NET_CLASSIFIER;
	return o;
}

/* The order of the stamp's keys. A model's bytes include its stamp, so the order must not change. */
static const char stamp_order[] =
    "text_tokens text_drop first_frame first_frame_drop picture_share predict condition class_dropout dropout cluster path weighting time steps "
    "epochs batch "
    "accumulate optimizer lr "
    " schedule warmup weight_decay beta1 beta2 eps clip ema_half_life flip size grey max_skipped precision rows head_only target label_smoothing "
    "calibrate "
    "validate_every "
    "validate_samples seed";

void options_stamp(struct stamp *s, const struct train_options *o)
{
	static const struct option *const tables[] = {train_expert_options, train_router_options, train_common_options, NULL};
	struct net_value v;

	for (int i = 0; net_shape(&o->net, i, &v); i++) {
		if (*v.text)
			stamp_text(s, v.name, v.text);
		else if (v.whole)
			stamp_i64(s, v.name, v.i);
		else
			stamp_f64(s, v.name, v.f);
	}
	if (net_is_named(&o->net))
		stamp_text(s, "network", net_name(&o->net));
	optionstamp_put(s, tables, o, stamp_order);
}
