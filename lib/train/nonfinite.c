/* Names the samples that hold a NaN or an infinity. Each makes the loss of its batch non-finite, and that training step changes nothing. */
#include <stdio.h>
#include <string.h>

#include "train/step.h"

/* Tests the bits of the exponent. A sum would not do: it can overflow although all its terms are finite. */
static int all_finite(const float *x, int64_t n)
{
	const uint32_t exponent = 0x7f800000;
	int bad = 0;

	for (int64_t i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, x + i, sizeof bits);
		bad |= (bits & exponent) == exponent;
	}
	return !bad;
}

static void name_sample(struct trainer *r, struct dataset *set, int64_t index, const char *what)
{
	struct str key = {0};
	char line[600];

	for (int i = 0; i < r->nonfinite; i++)
		if (r->nonfinite_set[i] == set && r->nonfinite_index[i] == index)
			return;
	if (r->nonfinite == NONFINITE_NAMED) {
		if (!r->warned_more)
			train_warn(r, "more samples hold a NaN or an infinity; they are not listed");
		r->warned_more = 1;
		return;
	}
	r->nonfinite_set[r->nonfinite] = set;
	r->nonfinite_index[r->nonfinite++] = index;
	snprintf(line, sizeof line, "sample \"%.400s\": its %s holds a NaN or an infinity; %s", dataset_key(set, index, &key), what,
	         set == r->main.data || set == r->pictures.data ? "each step that meets it changes nothing" : "val_loss will not be a number");
	train_warn(r, line);
	log_nonfinite(r, str_text(&key));
	str_release(&key);
}

void name_nonfinite_sample(struct trainer *r, struct dataset *set, int64_t index, const float *x, int64_t count)
{
	if (!all_finite(x, count))
		name_sample(r, set, index, "array");
}

void name_nonfinite(struct trainer *r, const struct train_set *s, const struct batch *b)
{
	int64_t text = r->net.text_tokens * r->net.text_width, d = s->objective.d, pooled = r->net.pooled_width;

	if (all_finite(b->x, b->n * d) && (!b->text || all_finite(b->text, b->n * text)) && (!b->pooled || all_finite(b->pooled, b->n * pooled)))
		return;
	for (int64_t i = 0; i < b->n; i++) {
		name_nonfinite_sample(r, s->data, b->index[i], b->x + i * d, d);
		if (b->text && !all_finite(b->text + i * text, text))
			name_sample(r, s->data, b->index[i], "text");
		if (b->pooled && !all_finite(b->pooled + i * pooled, pooled))
			name_sample(r, s->data, b->index[i], "pooled vector");
	}
}
