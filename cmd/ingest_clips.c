/* Cuts the frames of a decoder into shots and clips. */
#include <string.h>

#include "cmd/ingest_clips.h"
#include "core/ahead.h"
#include "core/mem.h"
#include "data/scenes.h"

struct clipper {
	struct clip_source source;
	struct scenes *scenes; /* this or the next detects scenes; both NULL: no detection */
	struct shotnet *shotnet;
	int64_t settled; /* it is known which frames below this one are jumps */
	int64_t *jumps;  /* [njumps]: jumps that are known before their frame is placed */
	int njumps, jumps_room;

	struct clip_frame **queue; /* [queued]: frames that are not placed yet, because it is not known whether a jump comes before them */
	int queued, queue_room;
	uint64_t placed;  /* targets of queue[0] that are placed */
	int ended;        /* no more frames come */
	struct err error; /* with which the decoder ended */

	struct shot_clip run; /* frames of the shot that are placed and not yet part of a complete clip */
	int64_t fresh;        /* targets of the run that are in no clip */
	uint64_t next_target; /* of the run; targets before `from` are left out, as --stride says */
	uint64_t from;
	struct frame_facts last; /* of the frame placed last; kind 0: none in this shot */
	struct letterbox bars;   /* of the shot */
	int64_t origin;          /* time of target 0 */
	int64_t shots, shot_targets, shot_clips;
	uint64_t last_first; /* index of the first frame of the last clip, plus 1 */

	struct shot_clip making, ready; /* a clip that is made in the background; one that is complete */
	struct ahead ahead;
	int is_making;
	struct item item;
	struct err make_error;
	struct clip_tally tally;
};

static int is_cropped(const struct clipper *c)
{
	return c->source.options->clip.crop && !c->source.job->graph;
}

static void frame_drop(struct clip_frame *f)
{
	if (--f->users)
		return;
	picture_release(&f->p);
	mem_free(f);
}

static void clip_clear(struct shot_clip *c)
{
	for (int i = 0; i < c->n; i++)
		frame_drop(c->frames[i]);
	c->n = 0;
	mem_free(c->flac);
	c->flac = NULL;
}

struct clipper *clipper_new(const struct job *j, const struct work_options *o, struct err *e)
{
	struct clipper *c = mem_zalloc(1, sizeof *c);
	size_t n = (size_t)o->clip.frames;

	c->run.frames = mem_zalloc(n, sizeof *c->run.frames);
	c->ready.frames = mem_zalloc(n, sizeof *c->ready.frames);
	c->making.frames = mem_zalloc(n, sizeof *c->making.frames);
	if (o->clip.scene.detector == SCENES_TRANSNET && !j->graph)
		c->shotnet = shotnet_new(o->clip.net, o->clip.scene.threshold);
	else if (o->clip.scene.detector != SCENES_NONE && !j->graph)
		c->scenes = scenes_new(&o->clip.scene);
	if (clip_source_open(&c->source, j, o, e)) {
		clipper_free(c);
		return NULL;
	}
	return c;
}

void clipper_free(struct clipper *c)
{
	if (!c)
		return;
	ahead_wait(&c->ahead);
	item_release(&c->item);
	clip_clear(&c->run);
	clip_clear(&c->ready);
	clip_clear(&c->making);
	mem_free(c->run.frames);
	mem_free(c->ready.frames);
	mem_free(c->making.frames);
	for (int i = 0; i < c->queued; i++)
		frame_drop(c->queue[i]);
	mem_free(c->queue);
	mem_free(c->jumps);
	scenes_free(c->scenes);
	shotnet_free(c->shotnet);
	clip_source_release(&c->source);
	mem_free(c);
}

int clipper_listen(struct clipper *c, const struct decoder *d, struct err *e)
{
	const struct work_options *o = c->source.options;
	const struct sound_options *sound = &o->clip.sound;

	if (!sound->rate || d->media < 0)
		return 0;
	c->source.sound = sounder_open(d->media, d->name, sound, &d->limits, o->budget->total ? sound_memory(sound, o->clip.frames, o->fps) : 0,
	                               sound_samples(&o->clip, o->fps), e);
	return c->source.sound ? 0 : -1;
}

const char *clipper_note(const struct clipper *c)
{
	return c->source.sound ? sounder_note(c->source.sound) : NULL;
}

const struct clip_tally *clipper_tally(const struct clipper *c)
{
	return &c->tally;
}

/* The shot ends: what is left of it is too short for a clip. */
static void shot_end(struct clipper *c)
{
	struct clip_tally *t = &c->tally;

	if (c->fresh) {
		t->rests++;
		t->rest_frames += c->fresh;
	}
	if (c->shot_targets > t->longest)
		t->longest = c->shot_targets;
	c->shots += c->shot_targets > 0;
	c->fresh = c->shot_targets = 0;
	clip_clear(&c->run);
	c->bars = (struct letterbox){0};
	c->last.kind = 0;
}

/* Whether a jump comes before this frame, after the frame that was placed last; forgets it. */
static int jump_passed(struct clipper *c, uint64_t index)
{
	int n = 0;

	while (n < c->njumps && (uint64_t)c->jumps[n] <= index)
		n++;
	if (!n)
		return 0;
	c->njumps -= n;
	memmove(c->jumps, c->jumps + n, sizeof *c->jumps * (size_t)c->njumps);
	return 1;
}

/* Find the bars of a frame, in its luma if it has planes. */
static void bars_add(struct clipper *c, const struct clip_frame *f)
{
	struct picture luma = {(int)f->f.width, (int)f->f.height, 1, f->p.pixels};

	letterbox_add(&c->bars, f->f.planes ? &luma : &f->p, f->f.planes && !f->f.full);
}

/* Begin to place a frame: end the shot if the frame does not go on from the one before. */
static void frame_begin(struct clipper *c, struct clip_frame *f)
{
	int jump = jump_passed(c, f->f.index), goes_on;

	if (f->f.item != c->run.item) {
		shot_end(c);
		c->run.item = f->f.item;
		c->last_first = 0;
		c->shots = 0;
	}
	goes_on = c->last.kind && !jump && f->f.segment == c->last.segment && f->f.first == c->next_target && f->f.width == c->last.width &&
	          f->f.height == c->last.height;
	if (!goes_on) {
		shot_end(c);
		c->from = f->f.first;
	}
	if (!f->f.first)
		c->origin = f->f.time;
	c->next_target = f->f.first;
	c->last = f->f;
	if (is_cropped(c))
		bars_add(c, f);
}

/* The run holds F frames: make it the clip `ready`, and go on `stride` targets later. 0 if the clip before begins with the same frame. */
static int clip_complete(struct clipper *c)
{
	const struct clip_options *o = &c->source.options->clip;
	int left = o->stride < o->frames ? (int)(o->frames - o->stride) : 0;
	uint64_t first = c->run.frames[0]->f.index;
	int is_new = first + 1 != c->last_first;
	struct shot_clip *to = &c->ready;

	if (is_new) {
		*to = (struct shot_clip){
		    .frames = to->frames, .n = c->run.n, .item = c->run.item, .target = c->from, .shot = c->shots, .bars = c->bars};
		to->start = (double)c->origin * 1e-9 + (double)c->from / c->source.options->fps;
		memcpy(to->frames, c->run.frames, sizeof *to->frames * (size_t)to->n);
		for (int i = 0; i < to->n; i++)
			to->frames[i]->users++;
		c->last_first = first + 1;
		c->tally.clips++;
	} else {
		c->tally.repeated++;
	}
	for (int i = 0; i < c->run.n - left; i++)
		frame_drop(c->run.frames[i]);
	memmove(c->run.frames, c->run.frames + (c->run.n - left), sizeof *c->run.frames * (size_t)left);
	c->run.n = left;
	c->from += (uint64_t)o->stride;
	c->fresh = 0;
	return is_new;
}

/* Place the next target of the frame: 1 if a clip is complete. */
static int target_place(struct clipper *c, struct clip_frame *f)
{
	uint64_t target = c->next_target++;

	c->shot_targets++;
	if (target < c->from)
		return 0;
	f->users++;
	c->run.frames[c->run.n++] = f;
	c->fresh++;
	return c->run.n == c->source.options->clip.frames && clip_complete(c);
}

/* Place frames whose jumps are known until a clip is complete: 1; 0 if more frames are needed. */
static int frames_place(struct clipper *c)
{
	while (c->queued && ((!c->scenes && !c->shotnet) || (int64_t)c->queue[0]->f.index < c->settled || c->ended)) {
		struct clip_frame *f = c->queue[0];

		if (!c->placed)
			frame_begin(c, f);
		while (c->placed < f->f.targets) {
			c->placed++;
			if (target_place(c, f))
				return 1;
		}
		c->placed = 0;
		memmove(c->queue, c->queue + 1, sizeof *c->queue * (size_t)--c->queued);
		frame_drop(f);
	}
	return 0;
}

static void found_take(struct clipper *c, const struct scene_found *found)
{
	c->settled = found->settled;
	c->tally.cuts += found->cut >= 0;
	if (found->jump < 0)
		return;
	if (c->njumps == c->jumps_room)
		c->jumps = mem_resize(c->jumps, (size_t)(c->jumps_room = 2 * c->jumps_room + 8), sizeof *c->jumps);
	c->jumps[c->njumps++] = found->jump;
}

/* What the network says of the frames that it has decided about. */
static void shots_take(struct clipper *c)
{
	struct scene_found found;

	while (shotnet_next(c->shotnet, &found))
		found_take(c, &found);
}

/* Give a frame scaled down to the detector. */
static int glimpse_take(struct clipper *c, const struct picture *p, struct err *e)
{
	struct scene_found found;

	if (c->scenes) {
		if (scenes_add(c->scenes, p, &found, e))
			return -1;
		found_take(c, &found);
		return 0;
	}
	if (shotnet_add(c->shotnet, p->pixels, e)) /* decoder_next checks its size */
		return -1;
	shots_take(c);
	return 0;
}

/* Bytes of the frames of a clip, with those that are looked ahead at. */
static uint64_t clip_bytes(const struct clipper *c, const struct picture *p)
{
	return (uint64_t)p->width * (uint64_t)p->height * (uint64_t)p->channels * (uint64_t)(c->source.options->clip.frames + 4);
}

/* Refuse frames of which a clip would not fit into the memory for frames, with those that wait until the network has decided about them. */
static int room_check(const struct clipper *c, const struct picture *p, const struct frame_facts *f, struct err *e)
{
	const struct budget *b = c->source.options->budget;
	uint64_t frames = (uint64_t)c->source.options->clip.frames, waiting = c->shotnet ? (uint64_t)c->queued : 0;
	uint64_t need = clip_bytes(c, p) / (frames + 4) * (frames + 4 + waiting), most = budget_frame(b->total);

	if (!b->total || need <= most)
		return 0;
	return err_set(e, ERR_DATA,
	               "%s: %llu frames of %dx%d pixels take %llu MiB, more than %llu MiB, a quarter of --max-memory; "
	               "raise it, or give fewer --clips%s",
	               c->source.job->path ? c->source.job->path : c->source.job->name, (unsigned long long)(frames + waiting), (int)f->width,
	               (int)f->height, (unsigned long long)(need >> 20), (unsigned long long)(most >> 20),
	               is_cropped(c) ? ", or --size with --crop none, which needs room for resized frames only" : "");
}

/* Take a frame that the decoder sent. */
static int frame_take(struct clipper *c, struct picture *p, const struct frame_facts *facts, struct err *e)
{
	struct clip_frame *f;

	if (facts->kind == FRAME_GLIMPSE) {
		int rc = glimpse_take(c, p, e);

		picture_release(p);
		return rc;
	}
	if ((!is_cropped(c) && frame_fit(p, p, facts, 0, 0, (int)facts->width, (int)facts->height, c->source.options, e)) ||
	    room_check(c, p, facts, e)) {
		picture_release(p);
		return -1;
	}
	f = mem_zalloc(1, sizeof *f);
	f->p = *p;
	f->f = *facts;
	f->users = 1;
	if (c->queued == c->queue_room)
		c->queue = mem_resize(c->queue, (size_t)(c->queue_room = 2 * c->queue_room + 8), sizeof(struct clip_frame *));
	c->queue[c->queued++] = f; /* the decoder sends the frame before the glimpse of the next one, so `settled` moves on */
	return 0;
}

/* No more frames come: the detector decides about the last ones. */
static void input_end(struct clipper *c)
{
	struct scene_found found;
	int rc;

	while (c->scenes && scenes_end(c->scenes, &found))
		found_take(c, &found);
	while (c->shotnet && (rc = shotnet_end(c->shotnet, &c->error)) > 0)
		shots_take(c);
	c->ended = 1;
}

/* Make `ready` complete: 1; 0 at the end of the source. */
static int clip_find(struct clipper *c, struct decoder *d)
{
	for (;;) {
		struct frame_facts f;
		struct picture p;
		int rc;

		if (frames_place(c))
			return 1;
		if (c->ended)
			break;
		rc = decoder_next(d, &p, &f, c->source.options->stop, &c->error);
		if (rc <= 0 || frame_take(c, &p, &f, &c->error))
			input_end(c);
	}
	shot_end(c);
	return 0;
}

static void make(void *arg)
{
	struct clipper *c = arg;

	if (!c->make_error.code)
		clip_make(&c->item, &c->source, &c->making, &c->make_error);
}

/* Start to make the clip that is ready. Its frames are not changed while it is made. */
static void making_start(struct clipper *c)
{
	struct shot_clip swap = c->making;

	c->making = c->ready;
	c->ready = swap;
	c->is_making = 1;
	c->item = (struct item){0};
	clip_listen(&c->source, &c->making, &c->make_error);
	if (c->source.options->alone)
		ahead_start(&c->ahead, make, c);
	else
		make(c);
}

/* Wait for the clip that is made: 1 and *it, or -1. */
static int making_end(struct clipper *c, struct item *it, struct err *e)
{
	ahead_wait(&c->ahead);
	c->is_making = 0;
	*it = c->item;
	c->item = (struct item){0};
	c->tally.silent += c->source.options->clip.sound.rate && !c->making.has_sound && !c->make_error.code;
	clip_clear(&c->making);
	if (!c->make_error.code)
		return 1;
	item_release(it);
	return err_set(e, c->make_error.code, "%s", c->make_error.msg);
}

/* The next clip is found while the one before is made, if both fit into memory. */
int clipper_next(struct clipper *c, struct decoder *d, struct item *it, struct err *e)
{
	int rc;

	if (!c->is_making) {
		if (!clip_find(c, d))
			return c->error.code ? err_set(e, c->error.code, "%s", c->error.msg) : 0;
		making_start(c);
	}
	if (c->source.options->budget->total && 2 * clip_bytes(c, &c->making.frames[0]->p) > budget_frame(c->source.options->budget->total))
		return making_end(c, it, e);
	rc = clip_find(c, d);
	if (making_end(c, it, e) < 0)
		return -1;
	if (rc)
		making_start(c);
	return 1;
}
