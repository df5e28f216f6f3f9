/* Encodes captions into text features. */
#include "core/mem.h"
#include "data/encodingimpl.h"

/* The outputs of the text encoder for n texts. */
struct encoded {
	float *hidden, *pooled; /* (n, tokens, width); (n, embedding), or NULL if they are not kept */
	int32_t rows[ENCODING_AT_ONCE];
};

static void encoded_release(struct encoded *t)
{
	mem_free(t->hidden);
	mem_free(t->pooled);
}

static int encode_some(struct encoding *x, int n, const char *const *texts, const size_t *lens, struct encoded *t, struct err *e)
{
	const struct textencoder_info *i = textencoder_info(x->text);
	struct text_features f = {.length = t->rows};

	f.hidden = t->hidden = mem_try((size_t)(n * i->tokens * i->width), sizeof *t->hidden, "features of texts", e);
	if (x->o.pooled)
		f.embedding = t->pooled = mem_try((size_t)(n * i->embedding), sizeof *t->pooled, "features of texts", e);
	if (!f.hidden || (x->o.pooled && !f.embedding) || textencoder_run(x->text, n, texts, lens, &f, e))
		return -1;
	x->place.cut += f.cut;
	return 0;
}

/* Append text k as .npy: its features to `text`, its pooled vector, if it is kept, to `pooled`. */
static int put_text(const struct encoding *x, const struct encoded *t, int k, struct str *text, struct str *pooled, const char *what, struct err *e)
{
	const struct textencoder_info *i = textencoder_info(x->text);
	int64_t shape[2] = {t->rows[k], i->width};

	if (encoding_array(text, x->o.wide, 2, shape, t->hidden + k * i->tokens * i->width, what, e))
		return -1;
	return t->pooled ? encoding_array(pooled, x->o.wide, 1, &i->embedding, t->pooled + k * i->embedding, what, e) : 0;
}

int encoding_texts(struct encoding *x, struct encoding_batch *b, struct err *e)
{
	const char *text[ENCODING_AT_ONCE];
	size_t len[ENCODING_AT_ONCE];
	struct encoding_item *of[ENCODING_AT_ONCE];
	struct encoded t = {0};
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
		rc = encode_some(x, n, text, len, &t, e);
	for (int i = 0; i < n && !rc; i++)
		put_text(x, &t, i, &of[i]->text, &of[i]->pooled, of[i]->key, &of[i]->err);
	encoded_release(&t);
	return rc;
}

int encoding_null_text(struct encoding *x, struct str *npy, struct str *pooled, struct err *e)
{
	struct encoded t = {0};
	size_t none = 0;
	int rc;

	if (!x->text)
		return err_set(e, ERR_USAGE, "the empty text needs a text encoder");
	rc = encode_some(x, 1, (const char *const[]){""}, &none, &t, e) || put_text(x, &t, 0, npy, pooled, "the empty text", e) ? -1 : 0;
	encoded_release(&t);
	return rc;
}
