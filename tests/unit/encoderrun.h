/* Runs the encoders of tests/golden/pretrained on any device, with matrices stored in any type, and measures the error of their outputs. */
#ifndef DDM_TESTS_ENCODERRUN_H
#define DDM_TESTS_ENCODERRUN_H

#include <string.h>

#include "net/clip.h"
#include "net/t5.h"
#include "net/vit.h"
#include "tests/unit/pretrained.h"

enum { ENCODER_ROWS = 3 };

static const char *const encoder_goldens[] = {"t5", "clip", "clip-openai", "dinov2", "dinov2-registers"};
enum { ENCODER_GOLDENS = sizeof encoder_goldens / sizeof *encoder_goldens };

static inline double error_of_t5(const struct golden *g, struct device *d, enum compact_type bulk, enum vit_tokens tokens, struct err *e)
{
	struct t5 *m = t5_open(g->dir, st_find(g->io, "ids")->shape[1], 2, bulk, d, e);
	const struct t5_config *c;
	float *hidden;
	double off;

	(void)tokens;
	if (!m)
		return NAN;
	c = t5_config(m);
	hidden = mem_zalloc((size_t)(ENCODER_ROWS * c->tokens * c->hidden), sizeof *hidden);
	t5_run(m, ENCODER_ROWS, st_find(g->io, "ids")->data, st_find(g->io, "length")->data, hidden);
	off = error_rows(g, "hidden", hidden, 1, 1);
	mem_free(hidden);
	t5_free(m);
	return off;
}

/* The larger error of the two towers, text and vision. */
static inline double error_of_clip(const struct golden *g, struct device *d, enum compact_type bulk, enum vit_tokens tokens, struct err *e)
{
	struct clip_text *t = clip_text_open(g->dir, 2, bulk, d, e);
	struct clip_vision *v = t ? clip_vision_open(g->dir, tokens, 2, bulk, d, e) : NULL;
	float *x, *hidden[2], *embedding;
	const struct clip_config *c;
	double off = NAN;

	if (v) {
		int64_t n = clip_vision_config(v)->size / clip_vision_config(v)->patch;

		c = clip_text_config(t);
		x = reals(g, "x");
		hidden[0] = mem_zalloc((size_t)(ENCODER_ROWS * c->tokens * c->hidden), sizeof **hidden);
		hidden[1] = mem_zalloc((size_t)(ENCODER_ROWS * (1 + n * n) * clip_vision_config(v)->hidden), sizeof **hidden);
		embedding = mem_zalloc((size_t)(ENCODER_ROWS * c->projection), sizeof *embedding);
		clip_text_run(t, ENCODER_ROWS, st_find(g->io, "ids")->data, hidden[0], embedding);
		off = fmax(error_rows(g, "text_hidden", hidden[0], 1, 1), error_rows(g, "text_embedding", embedding, 1, 1));
		clip_vision_run(v, ENCODER_ROWS, x, tokens == VIT_ALL ? hidden[1] : NULL, embedding);
		off = fmax(off, error_rows(g, "vision_embedding", embedding, 1, 1));
		if (tokens == VIT_ALL)
			off = fmax(off, error_rows(g, "vision_hidden", hidden[1], 1, 1));
		mem_free(x);
		mem_free(hidden[0]);
		mem_free(hidden[1]);
		mem_free(embedding);
	}
	clip_text_free(t);
	clip_vision_free(v);
	return off;
}

static inline double error_of_vit(const struct golden *g, struct device *d, enum compact_type bulk, enum vit_tokens tokens, struct err *e)
{
	struct vit *v = vit_open(g->dir, st_find(g->io, "x")->shape[3], tokens, 2, bulk, d, e);
	float *x, *class, *patches;
	const struct vit_config *c;
	int64_t n;
	double off;

	if (!v)
		return NAN;
	c = vit_config(v);
	n = c->size / c->patch;
	x = reals(g, "x");
	class = mem_zalloc((size_t)(ENCODER_ROWS * c->hidden), sizeof *class);
	patches = mem_zalloc((size_t)(ENCODER_ROWS * n * n * c->hidden), sizeof *patches);
	vit_run(v, ENCODER_ROWS, x, class, tokens == VIT_ALL ? patches : NULL);
	off = error_rows(g, "class", class, 1, 1);
	if (tokens == VIT_ALL)
		off = fmax(off, error_rows(g, "patches", patches, n * n, st_find(g->io, "patches")->shape[1] == n * n ? 1 : 7));
	mem_free(x);
	mem_free(class);
	mem_free(patches);
	vit_free(v);
	return off;
}

/* The largest error over all outputs of a golden's encoder, with VIT_ALL and with VIT_CLASS. Errors are relative to the largest value of the output.
 * NAN if the encoder cannot be opened. */
static inline double encoder_error(const char *name, struct device *d, enum compact_type bulk, struct err *e)
{
	struct golden g;
	double off = 0;

	golden_open(&g, name);
	for (enum vit_tokens tokens = VIT_ALL; tokens <= VIT_CLASS && !isnan(off); tokens++) {
		double one = (*name == 't' ? error_of_t5 : *name == 'c' ? error_of_clip : error_of_vit)(&g, d, bulk, tokens, e);

		off = one <= off ? off : one;
	}
	golden_close(&g);
	return off;
}

#endif
