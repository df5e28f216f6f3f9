/* What pictures depend on, as a stamp. */
#include "core/mem.h"
#include "sample/sampling.h"

/* What determines a picture, apart from its index. */
static struct stamp *stamp_base(const struct sampling *r, uint64_t of)
{
	struct stamp *s = stamp_new("ddm-sample");

	stamp_text(s, "route", r->ask.route);
	stamp_text(s, "solver", r->ask.solver);
	if (r->ask.timesteps)
		stamp_text(s, "times", sample_timesteps[r->ask.timesteps]);
	if (r->ask.noise)
		stamp_text(s, "noise", sample_noises[r->ask.noise]);
	stamp_i64(s, "steps", r->ask.steps);
	stamp_u64(s, "seed", of);
	if (r->ask.cfg != 1)
		stamp_f64(s, "cfg", r->ask.cfg);
	if (r->ask.cfg_channels)
		stamp_i64(s, "cfg_channels", r->ask.cfg_channels);
	if (r->ask.convert)
		stamp_text(s, "convert", sample_converts[r->ask.convert]);
	if (r->ask.dtype)
		stamp_text(s, "weights", sample_dtypes[r->ask.dtype]);
	if (r->ask.encoder_dtype)
		stamp_text(s, "encoder_weights", encoder_weights[r->ask.encoder_dtype]);
	if (r->ask.invariant)
		stamp_i64(s, "batch_invariant", 1);
	return s;
}

/* What the experts read and what becomes of their numbers. */
static void stamp_output(const struct sampling *r, struct stamp *s)
{
	if (r->ask.format)
		stamp_text(s, "format", sample_formats[r->ask.format]);
	if (r->ask.tile && *r->vae_hash)
		stamp_i64(s, "tile", 1);
	if (*r->vae_hash)
		stamp_input(s, "vae", r->vae_hash);
	if (r->text)
		textsource_stamp(r->text, s);
}

struct stamp *samplestamp_all(const struct sampling *r)
{
	struct stamp *s = stamp_base(r, r->ask.seed);
	char hash[65];

	if (r->ask.class)
		stamp_text(s, "class", r->ask.class);
	stamp_i64(s, "first", r->ask.first);
	stamp_i64(s, "n", r->ask.each);
	stamp_output(r, s);
	if (r->prompts.n == 1 && !r->prompts.v->negative && !r->prompts.v->seeded) {
		stamp_text(s, "prompt", r->prompts.v->text);
	} else if (r->prompts.n) {
		prompts_hash(&r->prompts, hash);
		stamp_input(s, "prompts", hash);
	}
	if (r->text && r->ask.cfg != 1 && !r->ask.negative_features)
		stamp_text(s, "negative", r->ask.negative);
	if (r->labels.n)
		stamp_input(s, "labels", r->labels.hash);
	for (int i = 0; i < r->ensemble.files; i++)
		stamp_input(s, r->ensemble.file[i].name, r->ensemble.file[i].hash);
	return s;
}

struct stamp *samplestamp_picture(const struct sampling *r, int64_t i)
{
	struct stamp *s = stamp_base(r, r->seeds[i]);
	const struct prompt *p = r->prompts.n ? &r->prompts.v[r->prompt[i]] : NULL;

	stamp_i64(s, "index", r->index[i]);
	if (r->draw[i] != r->index[i])
		stamp_i64(s, "draw", r->draw[i]);
	if (p)
		stamp_text(s, "prompt", p->text);
	else if (r->text)
		stamp_i64(s, "text", r->prompt[i]);
	if (r->text && r->ask.cfg != 1 && !r->ask.negative_features)
		stamp_text(s, "negative", p && p->negative ? p->negative : r->ask.negative);
	if (r->label)
		stamp_i64(s, "class", r->label[i]);
	if (r->policy.kind == POLICY_ORACLE)
		stamp_i64(s, "expert", r->chosen[i]);
	stamp_output(r, s);
	if (r->labels.n)
		stamp_input(s, "labels", r->labels.hash);
	stamp_input(s, "model", r->ensemble.hash);
	return s;
}

char *samplestamp_line(const struct sampling *r, int64_t i)
{
	struct stamp *s = samplestamp_picture(r, i);
	char *line = stamp_line(s);

	stamp_free(s);
	return line;
}
