/* Encodes captions into text features. */
#include "core/mem.h"
#include "data/encodingimpl.h"

/* features (n, tokens, width) and rows of each. */
static int encode_some(struct encoding *x, int n, const char *const *texts, const size_t *lens, float **hidden, int32_t *rows, struct err *e)
{
	const struct textencoder_info *i = textencoder_info(x->text);
	struct text_features f = {.length = rows};

	f.hidden = *hidden = mem_try((size_t)(n * i->tokens * i->width), sizeof **hidden, "features of texts", e);
	if (!f.hidden || textencoder_run(x->text, n, texts, lens, &f, e))
		return -1;
	x->place.cut += f.cut;
	return 0;
}

int encoding_texts(struct encoding *x, struct encoding_batch *b, struct err *e)
{
	const struct textencoder_info *info = textencoder_info(x->text);
	const char *text[ENCODING_AT_ONCE];
	size_t len[ENCODING_AT_ONCE];
	struct encoding_item *of[ENCODING_AT_ONCE];
	int32_t rows[ENCODING_AT_ONCE];
	float *hidden = NULL;
	int n = 0, rc = 0;

	for (int i = 0; i < b->n; i++) {
		struct sample s = encoding_item_sample(&b->item[i]);
		const struct sample_member *m = sample_find(&s, "txt");

		if (!b->item[i].err.code && !m)
			err_set(&b->item[i].err, ERR_DATA, "%s: \"%s\" has no caption (.txt)", s.origin, s.key);
		if (b->item[i].err.code)
			continue;
		text[n] = m->data;
		len[n] = m->len;
		of[n++] = &b->item[i];
	}
	if (n)
		rc = encode_some(x, n, text, len, &hidden, rows, e);
	for (int i = 0; i < n && !rc; i++) {
		int64_t shape[2] = {rows[i], info->width};

		encoding_array(&of[i]->text, x->o.wide, 2, shape, hidden + i * info->tokens * info->width, of[i]->key, &of[i]->err);
	}
	mem_free(hidden);
	return rc;
}

int encoding_null_text(struct encoding *x, struct str *npy, struct err *e)
{
	int64_t shape[2];
	int32_t rows;
	size_t none = 0;
	float *hidden = NULL;
	int rc;

	if (!x->text)
		return err_set(e, ERR_USAGE, "the empty text needs a text encoder");
	rc = encode_some(x, 1, (const char *const[]){""}, &none, &hidden, &rows, e);
	if (!rc) {
		shape[0] = rows;
		shape[1] = textencoder_info(x->text)->width;
		rc = encoding_array(npy, x->o.wide, 2, shape, hidden, "the empty text", e);
	}
	mem_free(hidden);
	return rc;
}
