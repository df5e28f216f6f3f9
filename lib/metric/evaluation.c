/* Runs an evaluation request: reads the sets, computes the metrics, writes the line. */
#include "metric/evaluation.h"

#include <stdarg.h>
#include <string.h>

#include "core/hook.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "data/motionfeat.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/npy.h"
#include "file/standing.h"
#include "file/weightfile.h"
#include "metric/captions.h"
#include "metric/evalclipreport.h"
#include "metric/evalclips.h"
#include "metric/evalread.h"
#include "metric/evalreport.h"
#include "metric/evalstats.h"
#include "metric/evaluationimpl.h"
#include "metric/pixfeat.h"

enum role { REFERENCE, SAMPLES, HELDOUT, TRAIN, ROLES };
static const char *const role_names[ROLES] = {"reference", "samples", "heldout", "train"};

/* The recipe of cd-fvd (Ge et al. 2024) for I3D. Others differ in frames, resizing, the constant of batch norms or the weights. */
static const double fvd_eps = 1e-5;
static const char fvd_recipe[] =
    "cd-fvd: the first 16 frames, 224 x 224 by half-pixel bilinear without antialiasing, 2 x / 255 - 1, batch norm 1e-5, "
    "mean logits, covariance / n";

struct evaluation {
	struct eval_settled settled;
	struct eval_hooks hooks;
	const char *path[ROLES]; /* NULL: no such set */
	struct evalset set[ROLES];
	int of_clips; /* 1: the sets are of clips */
	struct evalclips clips[ROLES];
	struct pool *pool;
	struct device *device;
	struct extractor *extractor;
	struct evalset_options reading;
	struct evalreport report;
	json_t *ignored; /* roles whose recipe differs, allowed by ignore_recipe */
	float *captions;
	char captions_hash[65], lpips_hash[65], motion_hash[65], i3d_hash[65];
	struct i3d *i3d;
	struct aesthetic aesthetic;
	struct perceptual_work perceptual;
	struct stamp *stamp;
};

static void __attribute__((format(printf, 2, 3))) tell(const struct evaluation *v, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	hook_vline(v->hooks.warn, v->hooks.arg, fmt, ap);
	va_end(ap);
}

static void tell_bad(void *arg, const char *why)
{
	tell(arg, "skipped: %s", why);
}

static void tell_warning(void *arg, const char *what)
{
	tell(arg, "%s", what);
}

static int wants(const struct evaluation *v, enum metric m)
{
	return (v->report.metrics & 1u << m) != 0;
}

/* If the reference is a statistics file, use its features for the samples and, without --size, its resizing. */
static int follow_reference(struct evaluation *v, struct evalset_options *o, struct err *e)
{
	const struct recipe *r = &v->set[REFERENCE].recipe;

	for (int k = 0; pixfeat_names[k]; k++)
		if (!strcmp(r->features, pixfeat_names[k]) && strcmp(r->features, o->extractor->name)) {
			extractor_free(v->extractor);
			o->extractor = v->extractor = extractor_open(r->features, &(struct extractor_options){.input = v->settled.asked.input}, e);
			if (!v->extractor)
				return -1;
		}
	if (v->settled.asked.size || !strcmp(r->resize, "none"))
		return 0;
	for (int k = 0; resize_filter_names[k]; k++)
		if (str_ends(r->resize, resize_filter_names[k]) && r->width == r->height) {
			o->size = r->width;
			o->filter = (enum resize_filter)k;
			return 0;
		}
	return err_set(e, ERR_DATA, "the reference was resized in an unknown way: %s", r->resize);
}

/* Check that set k may be compared with the reference; warn about doubtful cases. */
static int check_recipe(struct evaluation *v, int k, struct err *e)
{
	const struct evalset *a = &v->set[REFERENCE], *b = &v->set[k];
	struct err why = {0};

	if (evalset_agree(a, v->path[REFERENCE], b, v->path[k], &why)) {
		if (!v->settled.asked.ignore_recipe || a->recipe.dims != b->recipe.dims)
			return err_set(e, why.code, "%s%s", why.msg, a->recipe.dims == b->recipe.dims ? " (--ignore-recipe)" : "");
		tell(v, "recipes differ: %s", why.msg);
		json_array_append_new(v->ignored, jsonio_text(role_names[k]));
	} else if (recipe_unrecorded(&a->recipe) != recipe_unrecorded(&b->recipe)) {
		int of = recipe_unrecorded(&a->recipe) ? REFERENCE : k;

		tell(v, "%s does not say how it was made: assuming the features \"%s\"", v->path[of], (of == k ? a : b)->recipe.features);
		stamp_text(v->stamp, "unrecorded", role_names[of]);
	}
	if (b->partition && (!strcmp(b->partition, b->recipe.features) || !strcmp(b->partition, b->recipe.features_hash)))
		tell(v, "%s was clustered by the same features \"%s\": that favours its partition", v->path[k], b->recipe.features);
	return 0;
}

/* The options that metrics of clips leave idle, although the table of options allows them. */
static int clips_check(const struct evaluation *v, struct err *e)
{
	const struct eval_request *q = &v->settled.asked;

	if (v->report.metrics & ~((unsigned)METRICS_OF_CLIPS | METRICS_OF_BOTH))
		return err_set(e, ERR_USAGE,
		               "--metrics: content, motion, flicker, warp and fvd are of clips, memorised and clip of both; no other metric can be "
		               "measured with them");
	if (q->train && !wants(v, METRIC_MEMORISED))
		return err_set(e, ERR_USAGE, "--train: of the metrics of clips only memorised uses it");
	if (q->cache || q->cache_dir || q->stats_out)
		return err_set(e, ERR_USAGE, "%s has no effect on metrics of clips",
		               q->cache       ? "--cache"
		               : q->cache_dir ? "--cache-dir"
		                              : "--stats-out");
	return 0;
}

/* Find the requested metrics, whether they are of clips, and the taps that they need. */
static int choose_metrics(struct evaluation *v, struct evalset_options *o, struct err *e)
{
	const char *asked = v->settled.asked.metrics, *reference = v->settled.asked.reference;
	int clips = evalclips_peek(reference, o);

	if (metrics_parse(&v->report.metrics, asked ? asked : clips ? "content,motion" : v->extractor->metrics, e))
		return -1;
	v->report.asked = asked != NULL;
	v->of_clips = (v->report.metrics & METRICS_OF_CLIPS) || (clips && !(v->report.metrics & ~(unsigned)METRICS_OF_BOTH));
	if (v->of_clips)
		return clips_check(v, e);
	if (clips)
		return err_set(e, ERR_USAGE,
		               "%s holds clips; --metrics %s is of pictures. Give content, motion, flicker, warp, fvd, memorised or clip", reference,
		               asked);
	if (!v->settled.asked.null_test)
		return err_set(e, ERR_USAGE, "--no-null-test has an effect only on metrics of clips");
	o->taps = (wants(v, METRIC_SFID) ? 1u << TAP_SPATIAL : 0) | (wants(v, METRIC_IS) ? 1u << TAP_LOGITS : 0);
	return 0;
}

/* Open the models that metrics need besides the features. */
static int open_models(struct evaluation *v, struct err *e)
{
	const struct eval_request *q = &v->settled.asked;

	if (!q->i3d != !wants(v, METRIC_FVD))
		return err_set(e, ERR_USAGE, q->i3d ? "--i3d has an effect only with metric fvd" : "fvd needs --i3d");
	if (q->i3d && (weightfile_hash_at(q->i3d, v->i3d_hash, e) || !(v->i3d = i3d_open(q->i3d, fvd_eps, v->device, e))))
		return -1;
	if (!q->lpips != !(wants(v, METRIC_LPIPS) || wants(v, METRIC_DIVERSITY)))
		return err_set(e, ERR_USAGE,
		               q->lpips ? "--lpips has an effect only with metrics lpips and diversity" : "lpips and diversity need --lpips");
	if (!q->aesthetic != !wants(v, METRIC_AESTHETIC))
		return err_set(e, ERR_USAGE, q->aesthetic ? "--aesthetic has an effect only with metric aesthetic" : "aesthetic needs --aesthetic");
	if (q->groups && !wants(v, METRIC_DIVERSITY))
		return err_set(e, ERR_USAGE, "--groups has an effect only with metric diversity");
	if (q->aesthetic && aesthetic_load(&v->aesthetic, q->aesthetic, e))
		return -1;
	v->report.aesthetic = q->aesthetic ? &v->aesthetic : NULL;
	if (!q->lpips)
		return 0;
	v->perceptual = (struct perceptual_work){
	    .reference = q->reference, .samples = q->samples, .reading = &v->reading, .by = (enum perceptual_group)q->groups};
	v->perceptual.net = lpips_folder(q->lpips, 16, v->lpips_hash, v->device, e);
	v->report.perceptual = &v->perceptual;
	return v->perceptual.net ? 0 : -1;
}

/* Read the clips of every set. */
static int read_clips(struct evaluation *v, struct evalset_options *o, struct err *e)
{
	struct evalclips_options c = {.set = o, .i3d = v->i3d};
	unsigned parts = (wants(v, METRIC_CONTENT) ? CLIP_CONTENT : 0) | (wants(v, METRIC_MOTION) ? CLIP_MOTION : 0) |
	                 (wants(v, METRIC_FLICKER) ? CLIP_FLICKER : 0) | (wants(v, METRIC_WARP) ? CLIP_WARP : 0) |
	                 (wants(v, METRIC_FVD) ? CLIP_FVD : 0) | (wants(v, METRIC_MEMORISED) ? CLIP_THUMBS : 0);

	for (int k = 0; k < ROLES; k++) {
		if (!v->path[k])
			continue;
		c.parts = k == SAMPLES && wants(v, METRIC_CLIP) ? parts | CLIP_EMBEDDING : parts;
		c.alter = k == REFERENCE && v->settled.asked.null_test && c.parts & (CLIP_CONTENT | CLIP_MOTION);
		if (evalclips_read(&v->set[k], &v->clips[k], v->path[k], &c, e) || check_recipe(v, k, e))
			return -1;
	}
	return 0;
}

static const char idle_dtype[] = "--weight-dtype does nothing: inception consists of convolutions, which the CPU holds as f32";
static const char idle_map[] = "--map does nothing: inception consists of convolutions, which the CPU holds as f32";

static int read_sets(struct evaluation *v, struct err *e)
{
	const struct eval_request *q = &v->settled.asked;
	const unsigned statistics =
	    1u << METRIC_FID | 1u << METRIC_SFID | 1u << METRIC_IS; /* metrics for which statistics of the reference suffice */
	struct evalset_options o = {.size = (int)q->size,
	                            .filter = (enum resize_filter)q->filter,
	                            .skip_bad = q->skip_bad,
	                            .max_errors = q->max_errors,
	                            .bad = tell_bad,
	                            .bad_arg = v,
	                            .spool = q->spool,
	                            .cache = q->cache_dir ? q->cache_dir
	                                     : q->cache   ? ""
	                                                  : NULL,
	                            .warn = tell_warning,
	                            .pool = v->pool,
	                            .progress = &v->hooks.progress};

	o.extractor = v->extractor =
	    extractor_open(q->features, &(struct extractor_options){q->input, v->device, compact_mapped((enum compact_type)q->weights, q->map)}, e);
	if (!v->extractor || choose_metrics(v, &o, e) || open_models(v, e))
		return -1;
	if (v->extractor->all_floats && (q->weights || q->map))
		tell_warning(v, q->weights ? idle_dtype : idle_map);
	if (v->of_clips) {
		v->reading = o;
		return read_clips(v, &o, e);
	}
	for (int k = 0; k < ROLES; k++) {
		if (!v->path[k])
			continue;
		o.statistics = k == REFERENCE && !(v->report.metrics & ~statistics);
		if (evalset_read(&v->set[k], v->path[k], &o, e) || (k == REFERENCE && follow_reference(v, &o, e)) || check_recipe(v, k, e))
			return -1;
	}
	v->reading = o;
	return q->logits ? evalset_logits(&v->set[SAMPLES], q->logits, e) : 0;
}

/* Embed the samples' own captions with the text tower of the same CLIP. */
static int embed_captions(struct evaluation *v, struct err *e)
{
	int width, dims = v->set[SAMPLES].recipe.dims;
	int64_t cut = 0;

	if (captions_embed(&v->captions, &v->report.captions_n, &width, &cut, v->captions_hash, v->settled.asked.features + strlen("clip:"),
	                   v->path[SAMPLES], &v->reading, v->device, e))
		return -1;
	v->report.captions = v->captions;
	if (cut)
		tell(v, "%lld captions are longer than the network reads, and were cut", (long long)cut);
	return width == dims ? 0 : err_set(e, ERR_DATA, "the embeddings of captions have width %d, but those of the samples %d", width, dims);
}

static int load_captions(struct evaluation *v, const char *path, struct err *e)
{
	int dims = v->set[SAMPLES].recipe.dims, rc = 0;
	struct npy a;

	if (npy_load(&a, path, e))
		return -1;
	v->captions = evalstats_vectors(&a, path, "the array", e);
	v->report.captions = v->captions;
	v->report.captions_n = a.shape[0];
	if (v->captions && a.shape[1] != dims)
		rc = err_set(e, ERR_DATA, "%s: the embeddings have width %lld, but those of the samples %d", path, (long long)a.shape[1], dims);
	npy_release(&a);
	return v->captions ? rc : -1;
}

static int read_captions(struct evaluation *v, struct err *e)
{
	const struct eval_request *q = &v->settled.asked;

	if (q->captions)
		return load_captions(v, q->captions, e);
	if (wants(v, METRIC_CLIP) && !strncmp(q->features, "clip:", 5) && *v->set[SAMPLES].recipe.input)
		return embed_captions(v, e);
	return 0;
}

static const char *text_or_null(const char *text)
{
	return *text ? text : NULL;
}

/* Complete the recipe with the facts known after the sets were read. */
static void settle(struct evaluation *v)
{
	const struct recipe *a = &v->set[REFERENCE].recipe, *r = recipe_unrecorded(a) ? &v->set[SAMPLES].recipe : a;
	struct eval_settled *s = &v->settled;
	int kid = wants(v, METRIC_KID);

	s->features = r->features;
	s->features_hash = text_or_null(r->features_hash);
	s->input = text_or_null(r->input);
	s->dims = r->dims;
	s->width = r->width;
	s->height = r->height;
	s->resize = r->width ? r->resize : NULL;
	s->colour = r->width ? "8-bit RGB, turned by EXIF, no profile applied" : NULL;
	if (v->of_clips) {
		s->frames = r->frames;
		s->fps = r->fps;
		s->draws = wants(v, METRIC_CONTENT) ? v->clips[REFERENCE].drawn : 0;
		motion_hash(v->motion_hash);
		s->motion_hash = wants(v, METRIC_MOTION) ? v->motion_hash : NULL;
		s->clip_score = wants(v, METRIC_CLIP) ? "100 times the mean of the cosines of all frames, at least 0" : NULL;
		s->fvd = v->i3d ? fvd_recipe : NULL;
		s->i3d_hash = text_or_null(v->i3d_hash);
	}
	s->copies = v->of_clips ? (wants(v, METRIC_MEMORISED) ? "box means of 16 x 16 of 4 frames" : NULL)
	            : r->width  ? "box means of at most 32 x 32"
	                        : NULL;
	s->captions_hash = text_or_null(v->captions_hash);
	s->aesthetic_hash = text_or_null(v->aesthetic.hash);
	s->lpips_hash = text_or_null(v->lpips_hash);
	s->kid_subsets = kid && !s->asked.subsets ? KID_SUBSETS : 0;
	s->subset_size = kid || s->asked.subsets ? s->asked.subset_size : 0;
}

static void stamp_sets(const struct evaluation *v)
{
	for (int k = 0; k < ROLES; k++) {
		const struct evalset *s = &v->set[k];

		if (*s->hash)
			stamp_input(v->stamp, role_names[k], s->hash);
		if (s->skipped)
			stamp_i64(v->stamp, k == REFERENCE ? "skipped-reference" : k == SAMPLES ? "skipped-samples" : "skipped-other", s->skipped);
	}
	if (json_array_size(v->ignored))
		stamp_json(v->stamp, "recipe-ignored", json_incref(v->ignored));
	if (v->set[REFERENCE].partition)
		stamp_text(v->stamp, "cluster-features", v->set[REFERENCE].partition);
}

static void tell_notes(const struct evaluation *v)
{
	const json_t *notes = json_object_get(evaluation_line(v), "notes");

	for (size_t i = 0; i < json_array_size(notes); i++)
		tell(v, "%s", json_string_value(json_array_get(notes, i)));
}

static int check_standing(const struct evaluation *v, int partial, struct err *e)
{
	return v->settled.asked.out ? standing_check(v->settled.asked.out, v->stamp, partial, e) : 0;
}

static int fill(struct evaluation *v, struct err *e)
{
	const struct clipreport c = {.r = &v->report,
	                             .reference = &v->clips[REFERENCE],
	                             .samples = &v->clips[SAMPLES],
	                             .heldout = v->path[HELDOUT] ? &v->clips[HELDOUT] : NULL,
	                             .train = v->path[TRAIN] ? &v->clips[TRAIN] : NULL,
	                             .null_test = v->settled.asked.null_test && (wants(v, METRIC_CONTENT) || wants(v, METRIC_MOTION))};
	json_t *notes;
	int rc;

	if (!v->of_clips)
		return evalreport_fill(v->stamp, &v->report, e);
	notes = json_array();
	rc = clipreport_fill(v->stamp, &c, notes, e);
	if (!rc && json_array_size(notes))
		stamp_json(v->stamp, "notes", json_incref(notes));
	json_decref(notes);
	return rc;
}

static int compute(struct evaluation *v, struct err *e)
{
	const struct eval_request *q = &v->settled.asked;

	v->report = (struct evalreport){.reference = &v->set[REFERENCE],
	                                .samples = &v->set[SAMPLES],
	                                .heldout = q->heldout ? &v->set[HELDOUT] : NULL,
	                                .train = q->train ? &v->set[TRAIN] : NULL,
	                                .protocol = (enum protocol)q->protocol,
	                                .axes = q->axes,
	                                .draws = q->draws,
	                                .subsets = q->subsets,
	                                .size = q->subset_size,
	                                .seed = q->seed.value,
	                                .pool = v->pool};
	if (read_sets(v, e) || read_captions(v, e))
		return -1;
	settle(v);
	evaluation_stamp(v->stamp, &v->settled);
	stamp_sets(v);
	if (check_standing(v, 1, e) || fill(v, e))
		return -1;
	tell_notes(v);
	return 0;
}

static int write_statistics(struct evaluation *v, struct err *e)
{
	struct evalset *s = &v->set[REFERENCE];
	const char *path = v->settled.asked.stats_out;

	return path && (evalset_statistics(s, v->pool, e) || evalset_write(s, path, e)) ? -1 : 0;
}

static int write_line(const struct evaluation *v, struct err *e)
{
	const char *out = v->settled.asked.out;
	char *line, *text;
	int rc;

	if (!out)
		return 0;
	line = jsonio_sealed_line(evaluation_line(v));
	text = str_new("%s\n", line);
	rc = check_standing(v, 0, e) || commit_bytes(out, text, strlen(text), e) ? -1 : 0;
	mem_free(line);
	mem_free(text);
	return rc;
}

int evaluation_run(struct evaluation *v, struct pool *pool, struct device *device, struct err *e)
{
	int rc;

	v->pool = pool;
	v->device = device;
	pool_set_progress(pool, &v->hooks.progress);
	rc = compute(v, e) || write_statistics(v, e) || write_line(v, e) ? -1 : 0;
	pool_set_progress(pool, NULL);
	return rc;
}

const json_t *evaluation_line(const struct evaluation *v)
{
	return stamp_root(v->stamp);
}

/* Apply the protocol's defaults to options that were not given. */
static void settle_protocol(struct eval_request *q)
{
	if (q->protocol == PROTOCOL_CLEAN && q->input < 0 && !strncmp(q->features, "inception:", 10))
		q->input = NETINPUT_CLEAN;
	if (q->protocol == PROTOCOL_FIDELITY && !q->seed.given)
		q->seed.value = FIDELITY_SEED;
}

static int check_request(const struct evaluation *v, struct err *e)
{
	const struct eval_request *q = &v->settled.asked, usual = eval_defaults();
	unsigned metrics = 0;
	int on_stdin = 0;

	if (option_check_request(eval_options, q, &usual, e))
		return -1;
	if (q->metrics && metrics_parse(&metrics, q->metrics, e))
		return -1;
	if (metrics & METRICS_OF_CLIPS && !(metrics & (1u << METRIC_CONTENT | 1u << METRIC_CLIP)) && extractor_is_network(q->features))
		return err_set(e, ERR_USAGE, "--features %s: of the metrics of clips only content and clip use features of pictures", q->features);
	if (q->protocol != PROTOCOL_DDM && q->seed.value > UINT32_MAX)
		return err_set(e, ERR_USAGE, "--seed %llu is too large for numpy's generator (at most %u)", (unsigned long long)q->seed.value,
		               UINT32_MAX);
	for (int k = 0; k < ROLES; k++)
		on_stdin += v->path[k] && !strcmp(v->path[k], "-");
	return on_stdin > 1 ? err_set(e, ERR_USAGE, "standard input (-) can be one set only") : 0;
}

struct evaluation *evaluation_new(const struct eval_request *q, const struct eval_hooks *hooks, struct err *e)
{
	struct evaluation *v = mem_zalloc(1, sizeof *v);

	v->settled.asked = *q;
	settle_protocol(&v->settled.asked);
	if (hooks)
		v->hooks = *hooks;
	v->path[REFERENCE] = q->reference;
	v->path[SAMPLES] = q->samples;
	v->path[HELDOUT] = q->heldout;
	v->path[TRAIN] = q->train;
	v->stamp = stamp_new("ddm-eval-fid");
	v->ignored = json_array();
	if (!check_request(v, e) && !claim_take((const char *const[]){q->out, q->stats_out}, 2, e) &&
	    (!q->stats_out || !evalset_may_write(q->stats_out, NULL, e)))
		return v;
	evaluation_free(v);
	return NULL;
}

int evaluation_needs_device(const struct evaluation *v)
{
	return extractor_is_network(v->settled.asked.features) || v->settled.asked.lpips || v->settled.asked.i3d;
}

void evaluation_free(struct evaluation *v)
{
	if (!v)
		return;
	claim_drop((const char *const[]){v->settled.asked.out, v->settled.asked.stats_out}, 2);
	for (int k = 0; k < ROLES; k++) {
		evalset_release(&v->set[k]);
		evalclips_release(&v->clips[k]);
	}
	json_decref(v->ignored);
	mem_free(v->captions);
	i3d_free(v->i3d);
	aesthetic_release(&v->aesthetic);
	lpips_free(v->perceptual.net);
	extractor_free(v->extractor);
	stamp_free(v->stamp);
	mem_free(v);
}
