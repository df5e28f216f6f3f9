/* Supplies text features: encodes prompts, or reads features from files, and gathers those of a batch. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sample/textsource.h"
#include "core/hash.h"
#include "core/mem.h"
#include "data/textarray.h"
#include "data/textencoder.h"
#include "file/stamp.h"
#include "net/net.h"

enum { ENCODE_AT_ONCE = 64 };

/* Rows 0 .. rows - 1 are the features of a file, or those `made` from distinct texts. Row `rows` is the negative prompt from a file. */
struct textsource {
	const struct textsource_options *o;
	struct textarray given, negative;
	char given_hash[65], negative_hash[65], encoder_hash[65];
	struct textencoder *encoder;
	int64_t made_tokens;
	const char **distinct;  /* sorted */
	int64_t rows;           /* number of rows of distinct, or of given */
	float *made;            /* (rows, made_tokens, width) */
	float *made_pooled;     /* (rows, pooled), or NULL */
	int32_t *length;        /* (rows) tokens of each text */
	int32_t *slot;          /* (rows + 1) row in the batch, or -1 */
	float *features, *mask; /* of the texts of a batch */
	float *pooled;          /* the same; NULL if no expert reads them */
	int64_t room;           /* rows allocated for a batch */
};

/* Load features (n, tokens, width). With `one`, n must be 1 and the shape may be (tokens, width), which becomes (1, tokens, width). */
static int load_features(struct textarray *t, const char *path, int one, const struct textsource_options *o, char hash[65], struct err *e)
{
	struct npy *a = &t->a;

	if (textarray_load(t, path, e) || sha256_file(path, hash, NULL, e))
		return -1;
	if (one && a->rank == 2) {
		a->rank = 3;
		a->shape[2] = a->shape[1];
		a->shape[1] = a->shape[0];
		a->shape[0] = 1;
	}
	if (a->rank != 3 || a->fortran || (one && a->shape[0] != 1) || a->shape[0] < 1)
		return err_set(e, ERR_DATA, "%s: not features of %s in row-major order", path,
		               one ? "one text (tokens, width)" : "texts (n, tokens, width)");
	if (a->shape[2] != o->width || a->shape[1] > o->tokens || a->shape[1] < 1)
		return err_set(e, ERR_DATA, "%s: has %lld tokens of width %lld, but the experts read up to %lld of width %lld", path,
		               (long long)a->shape[1], (long long)a->shape[2], (long long)o->tokens, (long long)o->width);
	if (o->pooled && !t->pooled.rank)
		return err_set(e, ERR_DATA,
		               "%s: holds no pooled vectors, and the experts read one of width %lld of each text: write them as pooled_prompt_embeds "
		               "into an .npz beside prompt_embeds",
		               path, (long long)o->pooled);
	if (o->pooled && t->pooled.shape[1] != o->pooled)
		return err_set(e, ERR_DATA, "%s: has pooled vectors of width %lld, but the experts read %lld", path, (long long)t->pooled.shape[1],
		               (long long)o->pooled);
	return 0;
}

static int open_encoder(struct textsource *t, struct err *e)
{
	const struct textsource_options *o = t->o;
	const struct textencoder_options how = {.tokens = o->tokens, .lower = o->lower, .bulk = o->bulk, .device = o->device};
	const struct textencoder_info *i;

	if (!(t->encoder = textencoder_open(o->encoder, &how, e)))
		return err_lacking(e, textencoder_published(o->width));
	i = textencoder_info(t->encoder);
	if (i->width != o->width || i->tokens > o->tokens)
		return err_set(e, ERR_DATA, "%s: makes %lld tokens of width %lld, but the experts read %lld of width %lld", o->encoder,
		               (long long)i->tokens, (long long)i->width, (long long)o->tokens, (long long)o->width);
	if (o->pooled && i->embedding != o->pooled)
		return err_set(
		    e, ERR_DATA,
		    "%s: makes pooled vectors of width %lld (0: none), but the experts read %lld: give another encoder, or --text-features "
		    "with an .npz that holds them",
		    o->encoder, (long long)i->embedding, (long long)o->pooled);
	t->made_tokens = i->tokens;
	memcpy(t->encoder_hash, i->hash, sizeof t->encoder_hash);
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *negative_of(const struct textsource_options *o, int64_t prompt)
{
	return prompt < o->prompts->n && o->prompts->v[prompt].negative ? o->prompts->v[prompt].negative : o->negative;
}

/* Lists the distinct texts to encode, sorted. */
static void list_texts(struct textsource *t)
{
	const struct textsource_options *o = t->o;
	int64_t n = 0, kept = 0;

	t->distinct = mem_zalloc(2 * (size_t)o->prompts->n + 1, sizeof *t->distinct);
	for (int64_t i = 0; i < o->prompts->n; i++) {
		t->distinct[n++] = o->prompts->v[i].text;
		if (o->guided && !o->negative_features)
			t->distinct[n++] = negative_of(o, i);
	}
	qsort(t->distinct, (size_t)n, sizeof *t->distinct, compare);
	for (int64_t i = 0; i < n; i++)
		if (!kept || strcmp(t->distinct[i], t->distinct[kept - 1]))
			t->distinct[kept++] = t->distinct[i];
	t->rows = kept;
}

struct textsource *textsource_open(const struct textsource_options *o, struct err *e)
{
	struct textsource *t = mem_zalloc(1, sizeof *t);

	t->o = o;
	if (o->features && (load_features(&t->given, o->features, 0, o, t->given_hash, e) || (t->rows = t->given.a.shape[0]) < 1))
		goto fail;
	if (o->features && o->prompts->n && o->prompts->n != t->rows) {
		err_set(e, ERR_DATA, "%s: has the features of %lld texts, but there are %lld prompts", o->features, (long long)t->rows,
		        (long long)o->prompts->n);
		goto fail;
	}
	if (o->negative_features && load_features(&t->negative, o->negative_features, 1, o, t->negative_hash, e))
		goto fail;
	if (!o->features) {
		if (open_encoder(t, e))
			goto fail;
		list_texts(t);
	}
	t->slot = mem_alloc(((size_t)t->rows + 1) * sizeof *t->slot);
	memset(t->slot, -1, ((size_t)t->rows + 1) * sizeof *t->slot);
	return t;
fail:
	textsource_free(t);
	return NULL;
}

void textsource_free(struct textsource *t)
{
	if (!t)
		return;
	textencoder_free(t->encoder);
	textarray_release(&t->given);
	textarray_release(&t->negative);
	mem_free(t->distinct);
	mem_free(t->made);
	mem_free(t->made_pooled);
	mem_free(t->length);
	mem_free(t->slot);
	mem_free(t->features);
	mem_free(t->mask);
	mem_free(t->pooled);
	mem_free(t);
}

int64_t textsource_count(const struct textsource *t)
{
	return t->o->features ? t->rows : t->o->prompts->n;
}

void textsource_stamp(const struct textsource *t, struct stamp *s)
{
	if (*t->encoder_hash)
		stamp_input(s, "text_encoder", t->encoder_hash);
	if (*t->given_hash)
		stamp_input(s, "text_features", t->given_hash);
	if (*t->negative_hash)
		stamp_input(s, "negative_features", t->negative_hash);
}

int textsource_encode(struct textsource *t, int64_t *cut, struct err *e)
{
	size_t each = (size_t)(t->made_tokens * t->o->width);
	int rc = 0;

	*cut = 0;
	if (!t->encoder)
		return 0;
	if (!(t->made = mem_try((size_t)t->rows * each, sizeof *t->made, "features of the prompts", e)) ||
	    !(t->length = mem_try((size_t)t->rows, sizeof *t->length, "features of the prompts", e)))
		return -1;
	if (t->o->pooled && !(t->made_pooled = mem_try((size_t)(t->rows * t->o->pooled), sizeof *t->made_pooled, "features of the prompts", e)))
		return -1;
	for (int64_t i = 0; i < t->rows && !rc; i += ENCODE_AT_ONCE) {
		int64_t n = t->rows - i < ENCODE_AT_ONCE ? t->rows - i : ENCODE_AT_ONCE;
		struct text_features f = {.hidden = t->made + (size_t)i * each, .length = t->length + i};

		f.embedding = t->made_pooled ? t->made_pooled + i * t->o->pooled : NULL;
		rc = textencoder_run(t->encoder, n, t->distinct + i, NULL, &f, e);
		*cut += f.cut;
	}
	textencoder_free(t->encoder);
	t->encoder = NULL;
	return rc;
}

/* Read one text from an array: (tokens, width) of (n, tokens, width), or a pooled vector (width) of (n, width). */
static void read_given(const struct npy *a, int64_t row, float *out)
{
	struct npy one = *a;

	one.shape[0] = 1;
	one.data = (const char *)a->data + (size_t)row * (size_t)(npy_count(a) / a->shape[0]) * npy_type_size(a->type);
	npy_to_f32(out, &one);
}

/* Copy row `row` (t->rows: the negative prompt from a file) to row `at` of the batch, padded to o->tokens. */
static void place_row(struct textsource *t, int64_t row, int64_t at)
{
	const struct textsource_options *o = t->o;
	const struct textarray *a = row == t->rows ? &t->negative : &t->given;
	int64_t tokens = row < t->rows && t->made ? t->made_tokens : a->a.shape[1], counts = tokens;
	float *out = t->features + at * o->tokens * o->width;

	if (row < t->rows && t->made) {
		memcpy(out, t->made + row * tokens * o->width, (size_t)(tokens * o->width) * sizeof *out);
		counts = t->length[row];
		if (o->pooled)
			memcpy(t->pooled + at * o->pooled, t->made_pooled + row * o->pooled, (size_t)o->pooled * sizeof *out);
	} else {
		row = row == t->rows ? 0 : row;
		read_given(&a->a, row, out);
		if (o->pooled)
			read_given(&a->pooled, row, t->pooled + at * o->pooled);
		counts = a->length ? a->length[row] : tokens;
	}
	memset(out + tokens * o->width, 0, (size_t)((o->tokens - tokens) * o->width) * sizeof *out);
	for (int64_t i = 0; o->masked && i < o->tokens; i++)
		t->mask[at * o->tokens + i] = i < counts ? 0 : NET_PADDING;
}

static int64_t row_of(const struct textsource *t, const char *text)
{
	const char **found = bsearch(&text, t->distinct, (size_t)t->rows, sizeof *t->distinct, compare);

	assert(found);
	return found - t->distinct;
}

static int make_room(struct textsource *t, int64_t rows, struct err *e)
{
	const struct textsource_options *o = t->o;

	if (rows <= t->room)
		return 0;
	mem_free(t->features);
	mem_free(t->mask);
	mem_free(t->pooled);
	t->mask = t->pooled = NULL;
	t->room = 0;
	if (!(t->features = mem_try((size_t)(rows * o->tokens * o->width), sizeof *t->features, "features of a batch's texts", e)) ||
	    (o->pooled && !(t->pooled = mem_try((size_t)(rows * o->pooled), sizeof *t->pooled, "features of a batch's texts", e))) ||
	    (o->masked && !(t->mask = mem_try((size_t)(rows * o->tokens), sizeof *t->mask, "features of a batch's texts", e))))
		return -1;
	t->room = rows;
	return 0;
}

int textsource_batch(struct textsource *t, int64_t n, const int64_t *prompt, int32_t *text, int32_t *negative, struct texts *texts, struct err *e)
{
	const struct textsource_options *o = t->o;
	int64_t *row = mem_alloc(2 * (size_t)n * sizeof *row), rows = 0;
	int rc;

	for (int64_t i = 0; i < n; i++) {
		row[i] = o->features ? prompt[i] : row_of(t, o->prompts->v[prompt[i]].text);
		row[n + i] = !o->guided ? row[i] : o->negative_features ? t->rows : row_of(t, negative_of(o, prompt[i]));
	}
	for (int64_t i = 0; i < 2 * n; i++)
		if (t->slot[row[i]] < 0)
			t->slot[row[i]] = (int32_t)rows++;
	rc = make_room(t, rows, e);
	for (int64_t i = 0, done = 0; i < 2 * n && !rc; i++)
		if (t->slot[row[i]] == done) {
			place_row(t, row[i], done);
			done++;
		}
	for (int64_t i = 0; i < n && !rc; i++) {
		text[i] = t->slot[row[i]];
		negative[i] = t->slot[row[n + i]];
	}
	for (int64_t i = 0; i < 2 * n; i++)
		t->slot[row[i]] = -1;
	*texts = (struct texts){.features = t->features, .mask = o->masked ? t->mask : NULL, .rows = rows, .pooled = t->pooled};
	mem_free(row);
	return rc;
}
