/* Makes the sample of a clip: its frames as one array, its facts and scores, its caption. */
#include <math.h>
#include <string.h>

#include "cmd/ingest_clips.h"
#include "cmd/ingest_scorers.h"
#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "data/clipscores.h"
#include "file/fileio.h"
#include "file/npy.h"

#define SUBTITLES_MAX ((size_t)16 << 20) /* most bytes of an .srt or .vtt */

/* Read NAME.srt or else NAME.vtt beside the video. */
static int subtitles_load(struct clip_source *s, struct err *e)
{
	static const char *const ext[] = {"srt", "vtt"};

	for (size_t i = 0; i < sizeof ext / sizeof *ext && !s->has_cues; i++) {
		char *path = sidecar_path(s->job, ext[i]);
		char *text = NULL;
		size_t len;

		if (path && (text = file_load(path, SUBTITLES_MAX, &len, e)) && !cues_parse(&s->cues, text, len, path, e))
			s->has_cues = 1;
		mem_free(text);
		mem_free(path);
		if (e->code)
			return -1;
	}
	return 0;
}

int clip_source_open(struct clip_source *s, const struct job *j, const struct work_options *o, struct err *e)
{
	*s = (struct clip_source){.job = j, .options = o};
	if (j->graph)
		return 0;
	return sidecars_load(&s->beside, j, e) || class_check(&s->beside, j->path, o, e) || subtitles_load(s, e) ? -1 : 0;
}

void clip_source_release(struct clip_source *s)
{
	item_release(&s->beside);
	cues_release(&s->cues);
	sounder_close(s->sound);
}

/* Seconds, rounded to microseconds. */
static json_t *seconds(double v)
{
	return json_real(nearbyint(v * 1e6) / 1e6);
}

/* frames: as they are stored; networks score the middle one. */
static int facts_add(struct item *it, const struct clip_source *s, const struct shot_clip *c, const struct picture *const *frames, struct err *e)
{
	const struct job *j = s->job;
	double end = c->start + c->n / s->options->fps;
	json_t *facts = json_object(), *bucket;
	struct clip_scores scores;
	struct str name = {0};
	int rc;

	json_object_set_new(facts, "frames", json_integer(c->n));
	json_object_set_new(facts, "fps", json_real(s->options->fps));
	if (j->graph)
		job_instance(&name, j, (int)c->item);
	json_object_set_new(facts, "source", jsonio_text(j->graph ? str_text(&name) : j->below));
	str_release(&name);
	json_object_set_new(facts, "start", seconds(c->start));
	json_object_set_new(facts, "end", seconds(end));
	json_object_set_new(facts, "shot", json_integer(c->shot));
	json_object_set_new(facts, "width", json_integer(c->width));
	json_object_set_new(facts, "height", json_integer(c->height));
	bucket = bucket_facts(s->options, c->width, c->height);
	if (bucket)
		json_object_update(facts, bucket);
	json_decref(bucket);
	if (s->options->clip.sound.rate)
		json_object_set_new(facts, "sound", score_number(c->sound));
	rc = clip_scores(&scores, frames, c->n, e);
	if (!rc) {
		scores_put(facts, &scores, 1);
		rc = scorers_put(s->options->nets, facts, frames[c->n / 2], e);
	}
	if (!rc)
		rc = facts_merge(it, facts, j->graph ? j->name : j->path, e);
	json_decref(facts);
	return rc;
}

/* The caption: the subtitles that are shown during the clip, or else that of the file beside the video. */
static void caption_add(struct item *it, const struct clip_source *s, const struct shot_clip *c)
{
	struct str text = {0};

	if (s->has_cues)
		cues_between(&text, &s->cues, c->start, c->start + c->n / s->options->fps);
	if (text.len) {
		for (int i = 0; i < it->n; i++)
			if (!strcmp(it->m[i].ext, "txt"))
				item_remove(it, i--);
		item_add(it, "txt", text.p, text.len);
	}
	str_release(&text);
}

/* The clip begins with the first of its targets, not with the frame that is shown then, which can be older. */
int clip_listen(const struct clip_source *s, struct shot_clip *c, struct err *e)
{
	double rate = (double)s->options->clip.sound.rate, begin = (double)c->frames[0]->f.start * 1e-9 + c->start;
	int rc = 0;

	c->sound = 0;
	if (s->sound)
		rc = sounder_ask(s->sound, &c->flac, &c->flac_bytes, &c->sound, llround(begin * rate),
		                 sound_samples(&s->options->clip, s->options->fps), s->options->stop, e);
	c->has_sound = c->flac != NULL;
	return rc;
}

/* Move the sound into the sample. */
static void sound_add(struct item *it, struct shot_clip *c)
{
	if (c->flac)
		item_own(it, "flac", c->flac, c->flac_bytes);
	c->flac = NULL;
}

/* The frames of a clip after cropping and resizing. */
struct fitted {
	const struct clip_source *source;
	const struct shot_clip *clip;
	struct picture *p; /* (n); empty where the frame is the one before it */
	struct err *errors;
};

static void fit_task(void *arg, int64_t i, int worker)
{
	struct fitted *f = arg;
	const struct shot_clip *c = f->clip;

	(void)worker;
	if (!c->bars.width || (i && c->frames[i] == c->frames[i - 1]))
		return;
	frame_fit(&f->p[i], &c->frames[i]->p, &c->frames[i]->f, c->x, c->y, c->width, c->height, f->source->options, &f->errors[i]);
}

/* planes = (n, channels, h, w) of the frames' pixels. */
static uint8_t *planes_of(const struct picture *const *frames, int n, int channels)
{
	size_t pixels = (size_t)frames[0]->width * frames[0]->height;
	uint8_t *planes = mem_alloc((size_t)n * (size_t)channels * pixels), *to = planes;

	for (int i = 0; i < n && channels == 1; i++, to += pixels)
		picture_grey(to, frames[i]->pixels, (int64_t)pixels);
	for (int i = 0; i < n && channels == 3; i++)
		for (int k = 0; k < 3; k++)
			for (size_t at = 0; at < pixels; at++)
				*to++ = frames[i]->pixels[3 * at + k];
	return planes;
}

static void array_add(struct item *it, const struct picture *const *frames, int n, int channels)
{
	int64_t shape[4] = {n, channels, frames[0]->height, frames[0]->width};
	uint8_t *planes = planes_of(frames, n, channels);
	struct str bytes = {0};

	it->hash = hash64(planes, (size_t)(shape[0] * shape[1] * shape[2] * shape[3])) ^ hash64(shape, sizeof shape);
	npy_encode(&bytes, NPY_U1, 4, shape, planes);
	mem_free(planes);
	item_add(it, "npy", bytes.p, bytes.len);
	str_release(&bytes);
}

static char *clip_key(const struct clip_source *s, const struct shot_clip *c)
{
	struct str key = {0};

	if (s->job->graph)
		job_instance(&key, s->job, (int)c->item);
	else
		str_puts(&key, s->job->key);
	str_printf(&key, "@%06llu", (unsigned long long)c->frames[0]->f.index);
	return key.p;
}

int clip_make(struct item *it, const struct clip_source *s, struct shot_clip *c, struct err *e)
{
	struct fitted f = {.source = s, .clip = c};
	const struct picture **frames = mem_zalloc((size_t)c->n, sizeof *frames);
	int rc = 0;

	f.p = mem_zalloc((size_t)c->n, sizeof *f.p);
	f.errors = mem_zalloc((size_t)c->n, sizeof *f.errors);
	c->width = (int)c->frames[0]->f.width;
	c->height = (int)c->frames[0]->f.height;
	if (c->bars.width)
		letterbox_content(&c->bars, &c->x, &c->y, &c->width, &c->height);
	pool_run(s->options->pool, c->n, fit_task, &f);
	for (int i = 0; i < c->n && !rc; i++) {
		frames[i] = !c->bars.width ? &c->frames[i]->p : f.p[i].pixels ? &f.p[i] : i ? frames[i - 1] : NULL;
		if (f.errors[i].code)
			rc = err_set(e, f.errors[i].code, "%s", f.errors[i].msg);
	}
	if (!rc) {
		it->key = clip_key(s, c);
		for (int i = 0; i < s->beside.n; i++)
			item_add(it, s->beside.m[i].ext, s->beside.m[i].data, s->beside.m[i].len);
		caption_add(it, s, c);
		array_add(it, frames, c->n, s->options->clip.grey ? 1 : 3);
		sound_add(it, c);
		rc = facts_add(it, s, c, frames, e);
	}
	for (int i = 0; i < c->n; i++)
		picture_release(&f.p[i]);
	mem_free(f.p);
	mem_free(f.errors);
	mem_free(frames);
	return rc;
}
