/* Opens the model, its autoencoder and its text encoder, and checks that the model supports the request. */
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/names.h"
#include "core/str.h"
#include "core/mem.h"
#include "data/textencoder.h"
#include "file/fileio.h"
#include "sample/sampling.h"

/* Parse a class: a number, or a name if the classes have names. */
static int parse_class(const struct sampling *r, const char *text, int64_t *class, struct err *e)
{
	const struct ensemble *s = &r->ensemble;

	if (s->class_names)
		return names_parse(s->class_names, s->classes, text, "--class", "class", class, e);
	return !parse_i64(text, 0, s->classes - 1, class)
	           ? 0
	           : err_set(e, ERR_USAGE, "--class %s: expected all, labels or a number from 0 to %d (the model's classes have no names)", text,
	                     s->classes - 1);
}

/* Parse one class, whose name may contain commas, or a list separated by commas. The stamp gets numbers, so naming a class does not change it. */
static int parse_classes(struct sampling *r, struct err *e)
{
	const char *at = r->ask.class;
	struct str text = {0};
	int64_t class, n = 1;
	int rc = 0;

	if (names_find(r->ensemble.class_names, at) >= 0 || !strchr(at, ',')) {
		rc = parse_class(r, at, &r->class, e);
		r->class_text = rc ? NULL : str_new("%lld", (long long)r->class);
		r->ask.class = rc ? at : r->class_text;
		return rc;
	}
	for (const char *c = at; *c; c++)
		n += *c == ',';
	r->classes = mem_zalloc((size_t)n, sizeof *r->classes);
	for (int64_t i = 0; i < n && !rc; i++, at += strcspn(at, ",") + 1) {
		char *one = str_new("%.*s", (int)strcspn(at, ","), at);

		rc = parse_class(r, one, &class, e);
		r->classes[r->class_count++] = rc ? 0 : (int32_t) class;
		str_printf(&text, "%s%lld", i ? "," : "", (long long)r->classes[i]);
		mem_free(one);
	}
	r->class = CLASS_LIST;
	r->class_text = mem_strdup(str_text(&text));
	if (!rc)
		r->ask.class = r->class_text;
	str_release(&text);
	return rc;
}

static int check_classes(struct sampling *r, struct err *e)
{
	const struct ensemble *s = &r->ensemble;

	r->class = CLASS_NONE;
	if (r->ask.class && !s->classes)
		return err_set(e, ERR_USAGE, "--class %s: the model has no classes", r->ask.class);
	if (r->ask.class && !strcmp(r->ask.class, "all"))
		r->class = CLASS_ALL;
	else if (r->labelled)
		r->class = CLASS_LABELS;
	else if (r->ask.class && parse_classes(r, e))
		return -1;
	if (!r->ask.class && s->classes && !s->null_label)
		return err_set(e, ERR_USAGE, "--class is missing: this model was trained without the null label, so it always needs a class");
	if (request_pairs(&r->ask) && r->class == CLASS_NONE && !s->text_tokens && !(r->ask.first_frame && s->first_frame))
		return err_set(e, ERR_USAGE, "--cfg %g needs %s", r->ask.cfg,
		               s->first_frame ? "--class or --first-frame: guidance is towards a class or a first frame"
		                              : "--class: guidance is towards a class");
	if (request_pairs(&r->ask) && s->classes && !s->null_label)
		return err_set(e, ERR_USAGE, "--cfg %g: this model was trained without the null label, so it has no unconditional prediction",
		               r->ask.cfg);
	return 0;
}

/* Clips go into a tar as arrays, unless the request names another format. */
static int check_format(struct sampling *r, const char *dir, struct err *e)
{
	int clips = r->ensemble.frames > 0;

	if (clips && r->format_open)
		r->ask.format = FORMAT_CLIP;
	if (r->ask.frames && !clips)
		return err_set(e, ERR_USAGE, "--frames: %s makes pictures, not clips", dir);
	if (r->ask.format == FORMAT_CLIP && !clips)
		return err_set(e, ERR_USAGE, "--format clip: %s makes pictures, not clips", dir);
	if (r->ask.format == FORMAT_NPZ && clips)
		return err_set(e, ERR_USAGE, "--format npz holds pictures, and %s makes clips; use -o FILE.tar", dir);
	if (r->ask.cfg_channels && clips)
		return err_set(e, ERR_USAGE, "--cfg-channels is for pictures, and %s makes clips", dir);
	return 0;
}

/* Find the autoencoder for latents: that of the request, else the model's own. */
static int find_vae(struct sampling *r, const char *dir, struct err *e)
{
	const struct ensemble *s = &r->ensemble;
	const char *published = s->channels == 4 ? "sd-vae-ft-mse" : NULL;
	char *own = path_join(dir, "vae");

	r->out = (struct output){.format = (enum sample_format)r->ask.format,
	                         .channels = s->channels,
	                         .size = s->size,
	                         .frames = s->frames ? s->frames : 1,
	                         .picture_channels = s->channels,
	                         .picture_size = s->size,
	                         .picture_frames = s->frames ? s->frames : 1,
	                         .tile = r->ask.tile,
	                         .pool = r->device->pool};
	if (check_format(r, dir, e))
		return -1;
	r->out.format = (enum sample_format)r->ask.format;
	if (r->ask.vae)
		r->vae = mem_strdup(r->ask.vae);
	else if (path_exists(own))
		r->vae = mem_strdup(own);
	mem_free(own);
	if (r->ask.format == FORMAT_LATENT)
		return r->ask.grid ? err_set(e, ERR_USAGE, "--grid shows pictures, and --format latent makes none") : 0;
	if (r->vae)
		return autoencoder_hash(r->vae, AUTOENCODER_DECODE, r->vae_hash, e) ? err_lacking(e, published) : 0;
	if (s->channels != 1 && s->channels != 3)
		return err_set(
		    e, ERR_USAGE,
		    "%s: the model makes latents of %lld channels: give --vae DIR (fetch-weights %s) to decode them, or --format latent to keep them",
		    dir, (long long)s->channels, published ? published : "--list");
	return 0;
}

/* ERR_USAGE if the request has options about texts, because the model reads none. */
static int refuse_texts(const struct sample_request *a, const char *dir, struct err *e)
{
	const char *const about[][2] = {
	    {"--prompt", a->prompt},
	    {"--prompts", a->prompts},
	    {"--text-features", a->text_features},
	    {"--negative-features", a->negative_features},
	    {"--negative-prompt", a->negative},
	    {"--text-encoder", a->text_encoder},
	};

	for (size_t i = 0; i < sizeof about / sizeof *about; i++)
		if (about[i][1] && *about[i][1])
			return err_set(e, ERR_USAGE, "%s does nothing: %s reads no text", about[i][0], dir);
	return 0;
}

/* ERR_USAGE for options about encoders that are not used. */
static int refuse_encoders(const struct sampling *r, const char *dir, struct err *e)
{
	int decodes = *r->vae_hash || (r->ask.features && r->vae); /* for the output, or for the network of the centroids */

	if (r->ask.tile && !r->vae)
		return err_set(e, ERR_USAGE, "--tile does nothing: %s has no autoencoder", dir);
	if (r->encoder_dtype_given && !decodes && !(r->text && !r->ask.text_features))
		return err_set(e, ERR_USAGE, "--encoder-weight-dtype does nothing: sampling %s runs neither a text encoder nor an autoencoder", dir);
	return 0;
}

static int open_text(struct sampling *r, const char *dir, struct err *e)
{
	const struct ensemble *s = &r->ensemble;
	const char *published = textencoder_published(s->text_width);

	if (!s->text_tokens)
		return refuse_texts(&r->ask, dir, e);
	if (!r->ask.prompt && !r->ask.prompts && !r->ask.text_features)
		return err_set(e, ERR_USAGE, "%s: the model reads text: give --prompt, --prompts or --text-features", dir);
	if (r->ask.text_features && request_pairs(&r->ask) && !r->ask.negative_features)
		return err_set(e, ERR_USAGE, "--text-features with --cfg %g needs the features of the negative prompt: --negative-features",
		               r->ask.cfg);
	r->encoder = r->ask.text_encoder ? mem_strdup(r->ask.text_encoder) : path_join(dir, "text_encoder");
	if (!r->ask.text_features && !r->ask.text_encoder && !path_exists(r->encoder))
		return err_set(e, ERR_USAGE, "%s: has no text_encoder folder: give --text-encoder DIR (fetch-weights %s) or --text-features FILE",
		               dir, published ? published : "--list");
	r->words = (struct textsource_options){.prompts = &r->prompts,
	                                       .negative = r->ask.negative,
	                                       .encoder = r->encoder,
	                                       .features = r->ask.text_features,
	                                       .negative_features = r->ask.negative_features,
	                                       .tokens = s->text_tokens,
	                                       .width = s->text_width,
	                                       .pooled = s->pooled_width,
	                                       .masked = s->masked || r->guide.model.masked,
	                                       .lower = s->lower,
	                                       .guided = request_pairs(&r->ask),
	                                       .bulk = compact_mapped((enum compact_type)r->ask.encoder_dtype, r->ask.map),
	                                       .device = r->device};
	return (r->text = textsource_open(&r->words, e)) ? 0 : -1;
}

/* Read the first frames of all clips; rank 0 alone needs them. */
static int open_first(struct sampling *r, const char *dir, struct err *e)
{
	const struct ensemble *s = &r->ensemble;

	if (r->ask.first_frame && !s->first_frame)
		return err_set(e, ERR_USAGE, "--first-frame: no expert of %s reads a first frame; ddm-train --first-frame makes one", dir);
	if (!r->ask.first_frame && ensemble_without_first(s, dir, e))
		return err_prefix(e, "--first-frame is missing");
	if (request_pairs(&r->ask) && s->needs_first && r->class == CLASS_NONE && !s->text_tokens)
		return err_set(e, ERR_USAGE,
		               "--cfg %g: the model was trained with --first-frame-drop 0, so it has no prediction without a first frame",
		               r->ask.cfg);
	if (!r->ask.first_frame)
		return 0;
	return firstframes_load(&r->firsts, r->ask.first_frame, s->channels, s->size, r->ask.first, r->count, e);
}

static int count_pictures(struct sampling *r, struct err *e)
{
	int64_t of = r->text ? textsource_count(r->text) : 1;

	if (of > SAMPLE_MOST || r->ask.first + r->ask.each * of > SAMPLE_MOST)
		return err_set(e, ERR_USAGE, "picture numbers end at %d: --first %lld with %lld pictures goes beyond", SAMPLE_MOST - 1,
		               (long long)r->ask.first, (long long)r->ask.each * (of < SAMPLE_MOST ? of : SAMPLE_MOST));
	r->count = r->ask.each * of;
	if (r->sink == SINK_FILE && r->count > 1)
		return err_set(e, ERR_USAGE, "-o %s holds one picture, and there will be %lld: use -o DIR/ for a folder or -o FILE.tar for a tar",
		               r->ask.out, (long long)r->count);
	return 0;
}

static int parse_resident(const char *text, struct resident *r, struct err *e)
{
	if (!strcmp(text, "auto") || !parse_i64(text, 1, 4096, &r->experts) || (!parse_size(text, &r->bytes) && r->bytes))
		return 0;
	return err_set(e, ERR_USAGE, "--resident %s: expected auto, a number of experts or a size such as 20G", text);
}

/* Reports networks sampled from a checkpoint, because a run in training gives other pictures later. */
static void tell_steps(const struct sampling *r, const struct ensemble *s, const char *whose, int64_t asked)
{
	for (int k = 0; k < s->members; k++) {
		char name[32];

		if (k > s->k)
			snprintf(name, sizeof name, "uncertainty %d", k - s->k - 1);
		else
			snprintf(name, sizeof name, k < s->k ? "expert %d" : "the router", k);
		if (s->step[k] >= 0 && asked && k < s->k)
			sampling_say(r, "%s%s: sampled at step %lld of its training", whose, name, (long long)s->step[k]);
		else if (s->step[k] >= 0)
			sampling_say(r, "%s%s is still in training: sampling its newest averaged weights, of step %lld", whose, name,
			             (long long)s->step[k]);
	}
}

/* Whether the model has an expert of cluster k. */
static int has_cluster(const struct ensemble *s, int k)
{
	int found = 0;

	if (!s->owners.expert)
		return k < s->k && s->expert[k].velocity;
	for (int i = 0; i < s->k; i++)
		found |= s->expert[i].velocity && (s->owners.expert[i].cluster == k || s->owners.expert[i].cluster < 0);
	return found;
}

/* Every reference item needs a class or an expert of its cluster. */
static int check_reference(const struct sampling *r, struct err *e)
{
	const struct ensemble *s = &r->ensemble;

	for (int64_t i = 0; i < r->labels.n; i++) {
		int32_t k = r->labels.cluster[i];

		if (r->labelled && k >= s->classes)
			return err_set(e, ERR_DATA, "%s: an item has cluster %d, but %s has %d classes", r->ask.labels, k, r->ask.model, s->classes);
		if (policy_uses(&r->policy, WEIGHT_ORACLE) && !has_cluster(s, k))
			return err_set(e, ERR_DATA, "%s: an item has cluster %d, but %s has no such expert", r->ask.labels, k, r->ask.model);
	}
	return 0;
}

static int set_mixture(struct sampling *r, struct err *e)
{
	const struct ensemble *s = &r->ensemble;

	r->mixture = ensemble_mixture(s, &r->policy, r->ask.seed, r->device);
	r->mixture.cfg = r->ask.cfg;
	r->mixture.guidance = r->ask.guidance;
	r->mixture.guide = r->guide.expert;
	r->mixture.steps_told = 1;
	r->mixture.distances = policy_uses(&r->policy, WEIGHT_DISTANCE) ? distance_squared : NULL;
	r->mixture.distances_arg = &r->distance;
	if (request_follows_flow(r)) {
		if (!(r->puller = puller_new(&r->ensemble, r->ask.batch, e)))
			return -1;
		r->mixture.pull = puller_expert;
		r->mixture.pull_arg = r->puller;
	}
	if (r->solver.discrete) {
		r->mixture.out = s->out;
		r->mixture.kind = s->kind;
		r->mixture.own = &s->schedule->path;
	}
	if (r->ask.cfg_channels > s->channels)
		return err_set(e, ERR_USAGE, "--cfg-channels %lld: the samples of %s have only %lld channels", (long long)r->ask.cfg_channels,
		               r->ask.model, (long long)s->channels);
	r->mixture.guided = r->ask.cfg_channels * s->size * s->size;
	return 0;
}

static int set_distance(struct sampling *r, struct err *e)
{
	const struct ensemble *s = &r->ensemble;

	if (!r->ask.centroids)
		return 0;
	return distance_load(&r->distance,
	                     &(struct distance_source){.path = r->ask.centroids,
	                                               .features = r->ask.features,
	                                               .vae = r->vae,
	                                               .k = s->clusters,
	                                               .channels = (int)s->channels,
	                                               .side = (int)s->size,
	                                               .map = r->ask.map,
	                                               .device = r->device},
	                     e);
}

static int open_guide(struct sampling *r, const struct ensemble_options *of_model, struct err *e)
{
	const struct ensemble *g = &r->guide.model;
	struct ensemble_options o = *of_model;

	o.step = r->ask.guide_step;
	if (ensemble_guide_open(&r->guide, &r->ensemble, r->ask.guide, &o, e))
		return err_prefix(e, "--guide %s", r->ask.guide);
	tell_steps(r, g, "the guide's ", r->ask.guide_step);
	if (!r->ask.class && g->classes && !g->null_label)
		return err_set(e, ERR_USAGE, "--class is missing: the guide was trained without the null label, so it always needs a class");
	return 0;
}

int sampling_open_model(struct sampling *r, struct err *e)
{
	const char *dir = r->ask.model;
	static const enum compact_type bulk[] = {COMPACT_NONE, COMPACT_BF16, COMPACT_INT8, COMPACT_NONE};
	struct ensemble_options o = {.policy = r->policy,
	                             .mode = (enum convert_mode)r->ask.convert,
	                             .own = r->solver.discrete,
	                             .capacity = r->ask.batch * (request_pairs(&r->ask) ? 2 : 1),
	                             .frames = r->ask.frames,
	                             .bulk = r->ask.map ? COMPACT_VIEW : bulk[r->ask.dtype],
	                             .step = r->ask.step,
	                             .gradient = request_follows_flow(r),
	                             .device = r->device};
	struct ensemble *s = &r->ensemble;

	if (r->ask.map && r->ask.dtype != SAMPLE_F32)
		return err_set(e, ERR_USAGE, "--map uses f32 weights in place, and --weight-dtype %s converts them: drop one of the two",
		               sample_dtypes[r->ask.dtype]);
	if (device_set_precision(r->device, r->ask.dtype == SAMPLE_TF32 ? PRECISION_TF32 : PRECISION_F32, e))
		return -1;
	if (parse_resident(r->ask.resident, &o.resident, e))
		return -1;
	if (ensemble_open(s, dir, &o, e))
		return err_lacking(e, NULL);
	tell_steps(r, s, "", r->ask.step);
	if (check_classes(r, e) || (r->ask.guide && open_guide(r, &o, e)))
		return -1;
	if (sampling_takes_orders(r) && !sampling_spreads_pictures(r))
		return set_mixture(r, e) || ranks_deal(r, e) ? -1 : 0;
	if (sampling_takes_orders(r))
		return find_vae(r, dir, e) || set_mixture(r, e) || set_distance(r, e) ? -1 : 0;
	if (find_vae(r, dir, e) || open_text(r, dir, e) || refuse_encoders(r, dir, e) || count_pictures(r, e) || open_first(r, dir, e))
		return -1;
	if (r->encoder_dtype_given && r->ask.encoder_dtype && r->device->compact && (!r->text || r->ask.text_features))
		sampling_warn(r, "--encoder-weight-dtype does nothing: %s consists of convolutions, whose weights the CPU keeps in f32", r->vae);
	r->ask.tile &= *r->vae_hash != 0; /* without decoding it has no effect */
	return check_reference(r, e) || set_mixture(r, e) || ranks_deal(r, e) || set_distance(r, e) ? -1 : 0;
}
