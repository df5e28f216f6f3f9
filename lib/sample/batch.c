/* The parts of a batch of pictures that are the same wherever it is drawn: which pictures, their texts and names, and what is written of them. */
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "sample/sampling.h"

static int32_t class_of(const struct sampling *r, int64_t i)
{
	if (r->class == CLASS_LABELS)
		return r->chosen[i];
	if (r->class == CLASS_LIST)
		return r->classes[r->index[i] % r->class_count];
	return (int32_t)(r->class == CLASS_ALL ? r->index[i] % r->ensemble.classes : r->class);
}

/* Sets the number, prompt and noise of picture i of the batch. A prompt with its own seed gives the same pictures at any place in the list. */
void sampling_choose(struct sampling *r, int64_t i)
{
	int64_t at = r->at + i;
	const struct prompt *p;

	r->index[i] = r->ask.first + at;
	r->prompt[i] = at / r->ask.each;
	p = r->prompts.n ? &r->prompts.v[r->prompt[i]] : NULL;
	r->seeds[i] = p && p->seeded ? p->seed : r->ask.seed;
	r->draw[i] = p && p->seeded ? at % r->ask.each : r->index[i];
	r->of[i] = p && p->seeded ? r->ask.each : r->ask.first + r->count;
	if (r->labels.n)
		r->chosen[i] = reference_cluster(&r->labels, r->index[i], r->ask.seed);
	if (r->label)
		r->label[i] = class_of(r, i);
}

void batch_choose(struct sampling *r, int64_t at, int64_t n)
{
	r->at = at;
	for (int64_t i = 0; i < n; i++)
		sampling_choose(r, i);
}

int batch_texts(struct sampling *r, int64_t n, struct texts *texts, struct err *e)
{
	*texts = (struct texts){0};
	if (r->text && textsource_batch(r->text, n, r->prompt, r->wanted, r->negative, texts, e))
		return -1;
	return r->firsts.n ? firstframes_batch(&r->firsts, n, r->index, r->framed, texts, e) : 0;
}

void batch_items(struct sampling *r, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		r->item[i] = (struct output_item){str_new("%06lld", (long long)r->index[i]), samplestamp_line(r, i),
		                                  r->prompts.n ? r->prompts.v[r->prompt[i]].text : NULL};
}

void batch_items_free(struct sampling *r, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		mem_free((void *)(uintptr_t)r->item[i].name);
		mem_free((void *)(uintptr_t)r->item[i].stamp);
		r->item[i] = (struct output_item){0};
	}
}

int batch_shows(const struct sampling *r, int64_t i)
{
	return r->hooks.picture || r->index[i] - r->ask.first < r->sheet_n;
}

/* Copy sample `place` to the sheet; of a clip, its frames, which fill a row. */
static int put_on_sheet(struct sampling *r, int64_t place, const struct picture *p, struct err *e)
{
	int64_t frames = r->out.picture_frames, wide = (int64_t)p->width * p->channels, part = wide / frames;
	struct picture one;

	if (frames == 1) {
		contactsheet_put(&r->sheet, &r->layout, place, 0, p);
		return 0;
	}
	if (picture_alloc(&one, (int)(p->width / frames), p->height, p->channels, e))
		return -1;
	for (int64_t f = 0; f < frames; f++) {
		for (int64_t y = 0; y < p->height; y++)
			memcpy(one.pixels + y * part, p->pixels + y * wide + f * part, (size_t)part);
		contactsheet_put(&r->sheet, &r->layout, place * frames + f, 0, &one);
	}
	picture_release(&one);
	return 0;
}

int batch_put(void *arg, int64_t i, const struct output_made *m, struct err *e)
{
	struct sampling *r = arg;
	int64_t place = r->index[i] - r->ask.first;

	if (output_put(&r->out, &r->item[i], m, e))
		return -1;
	if (m->picture.pixels && r->hooks.picture)
		r->hooks.picture(r->hooks.arg, r->index[i], &m->picture);
	return m->picture.pixels && place < r->sheet_n ? put_on_sheet(r, place, &m->picture, e) : 0;
}

int batch_end(struct sampling *r, int64_t n, struct err *e)
{
	for (int64_t i = 0; i < n; i++) {
		if (r->ask.log && samplereport_log(r, i, e))
			return -1;
		r->assigned[r->heaviest[i]]++;
	}
	r->done = r->at + n;
	return resume_save(r, r->done, e);
}
