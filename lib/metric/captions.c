/* Embeds captions with CLIP's text encoder. */
#include "metric/captions.h"

#include <string.h>

#include "core/mem.h"
#include "data/textencoder.h"
#include "metric/evalpictures.h"

enum { BATCH = 64 };

struct texts {
	char **v;
	size_t *len;
	int64_t n, cap;
};

static void texts_add(struct texts *t, const struct sample_member *m)
{
	if (t->n == t->cap) {
		t->cap = 2 * t->cap + 256;
		t->v = mem_resize(t->v, (size_t)t->cap, sizeof *t->v);
		t->len = mem_resize(t->len, (size_t)t->cap, sizeof *t->len);
	}
	t->v[t->n] = mem_strndup(m->data, strnlen(m->data, m->len));
	t->len[t->n] = strlen(t->v[t->n]);
	t->n++;
}

static void texts_release(struct texts *t)
{
	for (int64_t i = 0; i < t->n; i++)
		mem_free(t->v[i]);
	mem_free(t->v);
	mem_free(t->len);
}

static int texts_read(struct texts *t, const char *source, const struct evalset_options *o, struct err *e)
{
	struct samples *in = strcmp(source, "-") ? evalpictures_open(source, o, e) : NULL;
	struct sample s;
	int rc = -1;

	if (!strcmp(source, "-"))
		err_set(e, ERR_USAGE, "clip reads the samples twice for their captions, which standard input does not allow: give --captions");
	while (in && (rc = samples_next(in, &s, e)) > 0) {
		const struct sample_member *m = sample_find(&s, "txt");

		if (!m) {
			rc = err_set(e, ERR_DATA, "%s: \"%s\" has no caption (.txt)", s.origin, s.key);
			break;
		}
		texts_add(t, m);
	}
	samples_close(in);
	return rc;
}

/* Embed all texts into out (n, width), a batch at a time. */
static int texts_embed(float *out, int64_t *cut, struct textencoder *t, const struct texts *texts, int64_t width, const struct evalset_options *o,
                       struct err *e)
{
	for (int64_t i = 0, n; i < texts->n; i += n) {
		struct text_features f = {.embedding = out + i * width};

		n = texts->n - i < BATCH ? texts->n - i : BATCH;
		if (textencoder_run(t, n, (const char *const *)texts->v + i, texts->len + i, &f, e))
			return -1;
		*cut += f.cut;
		if (progress_tell(o->progress, "captions", i + n, texts->n))
			return err_set(e, ERR_AGAIN, "interrupted");
	}
	return 0;
}

int captions_embed(float **out, int64_t *n, int *width, int64_t *cut, char hash[65], const char *clip, const char *source,
                   const struct evalset_options *o, struct device *d, struct err *e)
{
	struct textencoder *t = textencoder_open(clip, &(struct textencoder_options){.batch = BATCH, .device = d}, e);
	const struct textencoder_info *i = t ? textencoder_info(t) : NULL;
	struct texts texts = {0};
	int rc = -1;

	*out = NULL;
	*cut = 0;
	if (i && (i->kind != TEXTENCODER_CLIP || !i->projected))
		err_set(e, ERR_DATA, "%s: the embeddings of this text encoder cannot be compared with CLIP's of pictures", clip);
	else if (i && !texts_read(&texts, source, o, e) &&
	         (*out = mem_try((size_t)texts.n, (size_t)i->embedding * sizeof **out, "embeddings of captions", e)))
		rc = texts_embed(*out, cut, t, &texts, i->embedding, o, e);
	if (!rc) {
		*n = texts.n;
		*width = (int)i->embedding;
		memcpy(hash, i->hash, sizeof i->hash);
	} else {
		mem_free(*out);
		*out = NULL;
	}
	texts_release(&texts);
	textencoder_free(t);
	return rc;
}
