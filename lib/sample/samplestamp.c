/* Makes the stamps of outputs: everything that the pictures depend on. */
#include "core/mem.h"
#include "core/str.h"
#include "sample/sampling.h"

/* Adds the centroids and the networks that compute distances to them. */
static void stamp_distance(const struct sampling *r, struct stamp *s)
{
	if (!r->ask.centroids)
		return;
	stamp_input(s, "centroids", r->distance.hash);
	if (r->distance.network)
		stamp_input(s, "features", r->distance.network->hash);
	if (r->distance.latents && !*r->vae_hash)
		stamp_input(s, "vae", r->distance.vae_hash);
}

static void stamp_first(const struct sampling *r, struct stamp *s)
{
	if (r->firsts.n)
		stamp_input(s, "first_frame", r->firsts.hash);
}

/* Adds the output options, the VAE and the sources of text features. */
static void stamp_output(const struct sampling *r, struct stamp *s)
{
	sampleoptions_stamp_output(s, &r->ask);
	if (*r->vae_hash)
		stamp_input(s, "vae", r->vae_hash);
	if (r->text)
		textsource_stamp(r->text, s);
}

struct stamp *samplestamp_all(const struct sampling *r)
{
	struct stamp *s = stamp_new("ddm-sample");
	char hash[65];

	sampleoptions_stamp(s, &r->ask);
	if (r->ensemble.frames)
		stamp_i64(s, "frames", r->ensemble.frames);
	stamp_output(r, s);
	if (r->prompts.n == 1 && !r->prompts.v->negative && !r->prompts.v->seeded) {
		stamp_text(s, "prompt", r->prompts.v->text);
	} else if (r->prompts.n) {
		prompts_hash(&r->prompts, hash);
		stamp_input(s, "prompts", hash);
	}
	if (r->text && request_pairs(&r->ask) && !r->ask.negative_features)
		stamp_text(s, "negative", r->ask.negative);
	stamp_first(r, s);
	if (r->labels.n)
		stamp_input(s, "labels", r->labels.hash);
	stamp_distance(r, s);
	for (int i = 0; i < r->ensemble.files; i++)
		stamp_input(s, r->ensemble.file[i].name, r->ensemble.file[i].hash);
	for (int i = 0; i < r->guide.model.files; i++) {
		char *name = str_new("guide/%s", r->guide.model.file[i].name);

		stamp_input(s, name, r->guide.model.file[i].hash);
		mem_free(name);
	}
	return s;
}

struct stamp *samplestamp_picture(const struct sampling *r, int64_t i)
{
	struct stamp *s = stamp_new("ddm-sample");
	const struct prompt *p = r->prompts.n ? &r->prompts.v[r->prompt[i]] : NULL;
	struct sample_request one = r->ask;

	one.each = 0; /* marks the stamp of one picture, see of_all in sampleoptions.c */
	one.seed = r->seeds[i];
	sampleoptions_stamp(s, &one);
	if (r->ensemble.frames)
		stamp_i64(s, "frames", r->ensemble.frames);
	stamp_i64(s, "index", r->index[i]);
	if (r->draw[i] != r->index[i])
		stamp_i64(s, "draw", r->draw[i]);
	if (p)
		stamp_text(s, "prompt", p->text);
	else if (r->text)
		stamp_i64(s, "text", r->prompt[i]);
	if (r->text && request_pairs(&r->ask) && !r->ask.negative_features)
		stamp_text(s, "negative", p && p->negative ? p->negative : r->ask.negative);
	if (r->label)
		stamp_i64(s, "class", r->label[i]);
	if (policy_uses(&r->policy, WEIGHT_ORACLE))
		stamp_i64(s, "expert", r->chosen[i]);
	stamp_output(r, s);
	stamp_first(r, s);
	if (r->labels.n)
		stamp_input(s, "labels", r->labels.hash);
	stamp_distance(r, s);
	stamp_input(s, "model", r->ensemble.hash);
	if (r->ask.guide)
		stamp_input(s, "guide", r->guide.model.hash);
	return s;
}

char *samplestamp_line(const struct sampling *r, int64_t i)
{
	struct stamp *s = samplestamp_picture(r, i);
	char *line = stamp_line(s);

	stamp_free(s);
	return line;
}
