/* Turns a job into samples: decodes, resizes and encodes its pictures. Several threads run jobs at once. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/ingest.h"
#include "cmd/ingest_scorers.h"
#include "cmd/ingest_sound.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/openread.h"
#include "data/clipscores.h"
#include "data/entries.h"
#include "data/samples.h"
#include "file/fileio.h"

#define FILE_MAX ((size_t)1 << 30) /* most bytes of a picture file */

/* Add a frame to the result, where it waits to be written; takes ownership. 0 if the budget has no room for it: the result is then emptied and
 * marked, and the job must be run again alone. */
static int frame_wait(struct result *r, struct item *it, const struct work_options *o)
{
	uint64_t bytes = 0;

	for (int i = 0; i < it->n; i++)
		bytes += it->m[i].len;
	if (o->alone || !budget_wait(o->budget, bytes)) {
		result_add(r, it);
		return 1;
	}
	item_release(it);
	result_release(r);
	r->unkept = 1;
	return 0;
}

static uint64_t picture_hash(const struct picture *p)
{
	uint64_t dims[2] = {(uint64_t)p->width, (uint64_t)p->height};

	return hash64(p->pixels, (size_t)p->width * p->height * p->channels) ^ hash64(dims, sizeof dims);
}

/* With --scores, keep those of the picture that is stored for its .json. */
static int picture_score(struct item *it, const struct picture *p, const struct work_options *o, struct err *e)
{
	struct clip_scores s;

	if (!o->scores)
		return 0;
	if (clip_scores(&s, &p, 1, e))
		return -1;
	it->facts = it->facts ? it->facts : json_object();
	scores_put(it->facts, &s, 0);
	return scorers_put(o->nets, it->facts, p, e);
}

/* Resize p, add it to the sample as a PNG, and release it. */
static int picture_store(struct item *it, struct picture *p, const struct work_options *o, struct err *e)
{
	uint8_t *data;
	size_t len;
	int rc;

	it->facts = bucket_facts(o, p->width, p->height);
	rc = picture_fit(p, o, e);

	if (!rc)
		rc = picture_score(it, p, o, e);
	if (!rc) {
		it->hash = picture_hash(p);
		rc = still_encode_png(p, NULL, 0, &data, &len, e);
	}
	picture_release(p);
	if (!rc)
		item_own(it, "png", data, len);
	return rc;
}

/* Decode a picture to check it and to hash its pixels. With --size, also add the resized picture. data stays the caller's. */
static int still_take(struct item *it, const uint8_t *data, size_t len, const char *name, const struct work_options *o, struct err *e)
{
	struct still_limits limits = {o->max_pixels, o->memory};
	struct picture p;
	int rc;

	if (still_decode(&p, data, len, name, 3, &limits, e))
		return -1;
	if (is_fitted(o))
		return picture_store(it, &p, o, e);
	it->hash = picture_hash(&p);
	rc = picture_score(it, &p, o, e);
	picture_release(&p);
	return rc;
}

/* Add a still picture to the sample: the file's own bytes, or with --size a resized PNG. Takes ownership of data. `name` is used in messages. */
static int still_store(struct item *it, uint8_t *data, size_t len, const char *name, const struct work_options *o, struct err *e)
{
	static const char *const ext[] = {[STILL_JPEG] = "jpg", [STILL_PNG] = "png", [STILL_WEBP] = "webp"};
	uint64_t bytes;
	int rc;

	if (still_budget(o->budget, data, len, name, o, &bytes, e)) {
		mem_free(data);
		return -1;
	}
	budget_take(o->budget, bytes);
	rc = still_take(it, data, len, name, o, e);
	budget_give(o->budget, bytes);
	if (rc || is_fitted(o))
		mem_free(data);
	else
		item_own(it, ext[still_sniff(data, len)], data, len);
	return rc;
}

static int still_work(struct item *it, const struct job *j, const struct work_options *o, struct err *e)
{
	size_t len;
	uint8_t *data = file_load(j->path, FILE_MAX, &len, e);

	return data ? still_store(it, data, len, j->path, o, e) : -1;
}

static struct decode_limits limits_for(const struct work_options *o, int64_t frames, enum glimpses glimpses)
{
	return (struct decode_limits){.frames = frames,
	                              .fps = o->fps,
	                              .clips = o->clip.frames > 0,
	                              .glimpses = glimpses,
	                              .planes = o->clip.frames && fits_planes(o),
	                              .max_pixels = o->max_pixels,
	                              .timeout = o->timeout,
	                              .bare = o->bare,
	                              .alone = o->alone,
	                              .size = fitted_side(o),
	                              .budget = o->budget};
}

static int file_open(struct decoder *d, const struct job *j, const struct work_options *o, int64_t frames, struct err *e)
{
	static const enum glimpses of[] = {[SCENES_NONE] = GLIMPSES_NONE,
	                                   [SCENES_CONTENT] = GLIMPSES_SCENES,
	                                   [SCENES_ADAPTIVE] = GLIMPSES_SCENES,
	                                   [SCENES_TRANSNET] = GLIMPSES_TRANSNET};
	struct decode_limits l = limits_for(o, frames, o->clip.frames ? of[o->clip.scene.detector] : GLIMPSES_NONE);
	int fd = open_seekable(j->path, e), rc;

	if (l.clips && o->clip.sound.rate && o->budget->total)
		l.set_aside = sound_memory(&o->clip.sound, o->clip.frames, o->fps);
	if (fd < 0)
		return -1;
	rc = decoder_open_file(d, fd, j->path, &l, e);
	close(fd);
	return rc;
}

/* Add a picture that FFmpeg decodes: its first frame. */
static int picture_work(struct item *it, const struct job *j, const struct work_options *o, struct err *e)
{
	struct decoder d = {0};
	struct picture p;
	struct frame_facts f;
	int rc = file_open(&d, j, o, 1, e);

	if (!rc)
		rc = decoder_next(&d, &p, &f, o->stop, e);
	decoder_close(&d);
	if (rc == 0)
		return err_set(e, ERR_DATA, "%s: contains no picture", j->path);
	return rc < 0 ? -1 : picture_store(it, &p, o, e);
}

static int graph_open(struct decoder *d, const struct job *j, const struct work_options *o, struct err *e)
{
	struct decode_limits l = limits_for(o, o->graph_frames, GLIMPSES_NONE);
	char **texts = mem_zalloc((size_t)j->count, sizeof *texts);
	int rc = 0, any;

	for (int i = 0; i < j->count && !rc; i++) {
		struct str s = {0};

		rc = graph_expand(&s, j->graph, j->seed + (uint64_t)i, &any, e);
		texts[i] = mem_strdup(str_text(&s));
		str_release(&s);
	}
	if (!rc)
		rc = decoder_open_graphs(d, texts, j->count, j->name, &l, e);
	for (int i = 0; i < j->count; i++)
		mem_free(texts[i]);
	mem_free(texts);
	return rc;
}

int work_open(struct work *w, const struct job *j, const struct work_options *o, struct err *e)
{
	*w = (struct work){.job = j, .options = *o};
	if (o->clip.frames && !(w->clips = clipper_new(j, &w->options, e)))
		return -1;
	if (j->graph)
		return graph_open(&w->decoder, j, o, e);
	return file_open(&w->decoder, j, o, o->frames, e) || (w->clips && clipper_listen(w->clips, &w->decoder, e)) ? -1 : 0;
}

void work_close(struct work *w)
{
	clipper_free(w->clips);
	w->clips = NULL;
	decoder_close(&w->decoder);
}

/* Digits of a frame's number in keys. */
static int frame_digits(int64_t frames)
{
	int n = snprintf(NULL, 0, "%lld", (long long)frames - 1);

	return n < 4 ? 4 : n;
}

int work_next(struct work *w, struct item *it, struct err *e)
{
	const struct job *j = w->job;
	const struct work_options *o = &w->options;
	struct picture p;
	struct frame_facts f;
	struct str key = {0};
	int rc;

	*it = (struct item){0};
	if (w->clips)
		return clipper_next(w->clips, &w->decoder, it, e);
	rc = decoder_next(&w->decoder, &p, &f, o->stop, e);
	if (rc <= 0)
		return rc;
	if (picture_store(it, &p, o, e) || item_finish(it, j->graph ? j->name : j->path, e)) {
		item_release(it);
		return -1;
	}
	if (j->graph) {
		job_instance(&key, j, (int)f.item);
		str_printf(&key, "@%0*llu", frame_digits(o->graph_frames), (unsigned long long)f.index);
	} else {
		str_printf(&key, "%s@%06llu", j->key, (unsigned long long)f.index);
	}
	it->key = key.p;
	return 1;
}

static void frames_work(struct result *r, const struct job *j, const struct work_options *o)
{
	struct work w;
	struct item it;
	int rc = work_open(&w, j, o, &r->e);

	while (!rc && work_next(&w, &it, &r->e) > 0 && frame_wait(r, &it, o))
		;
	if (w.clips)
		r->tally = *clipper_tally(w.clips);
	if (w.clips && clipper_note(w.clips))
		r->note = mem_strdup(clipper_note(w.clips));
	work_close(&w);
}

void job_work(struct result *r, const struct job *j, const struct work_options *o)
{
	struct item it = {0};
	int rc;

	if (o->stop()) {
		err_set(&r->e, ERR_AGAIN, "interrupted");
	} else if (j->kind == MEDIA_NONE && !j->graph) {
		err_set(&r->e, ERR_DATA, "%s", j->why);
	} else if (j->graph || j->kind == MEDIA_VIDEO) {
		frames_work(r, j, o);
	} else {
		rc = j->kind == MEDIA_STILL ? still_work(&it, j, o, &r->e) : picture_work(&it, j, o, &r->e);
		it.key = mem_strdup(j->key);
		if (rc || sidecars_load(&it, j, &r->e) || class_check(&it, j->path, o, &r->e) || item_finish(&it, j->path, &r->e)) {
			item_release(&it);
			return;
		}
		if (j->kind == MEDIA_STILL)
			result_add(r, &it);
		else
			frame_wait(r, &it, o);
	}
}

int item_fit(struct item *it, const char *origin, const struct work_options *o, struct err *e)
{
	if (class_check(it, origin, o, e))
		return -1;
	for (int i = 0; i < it->n; i++) {
		struct item_member m = it->m[i];

		if (!entry_is_picture(m.ext))
			continue;
		memmove(it->m + i, it->m + i + 1, sizeof *it->m * (size_t)(it->n - i - 1));
		it->n--;
		return still_store(it, m.data, m.len, it->key, o, e) || item_finish(it, origin, e) ? -1 : 0;
	}
	return 0;
}
