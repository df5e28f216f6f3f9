/* ddm-sample's text conditioning: encoding prompts, and reading features that are already encoded. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/sample.h"
#include "core/hash.h"
#include "core/mem.h"
#include "data/textarray.h"
#include "data/textencoder.h"
#include "file/stamp.h"
#include "net/net.h"

enum { ENCODE_AT_ONCE = 64 };

/* Rows of features: those of a file, or `made` of distinct texts; then the row that is led away from, where it is a file's. */
struct text_source {
	const struct text_request *q;
	struct textarray given, away;
	char given_hash[65], away_hash[65], encoder_hash[65];
	struct textencoder *encoder;
	int64_t made_tokens;
	const char **distinct; /* sorted */
	int64_t rows;          /* of distinct, or of given */
	float *made;           /* (rows, made_tokens, width) */
	int32_t *length;       /* (rows) */
	int32_t *slot;         /* (rows + 1) place in the batch, or -1 */
	float *features, *mask; /* of a batch */
	int64_t room;          /* rows of them */
};

/* (n, tokens, width), or where `one` is set also (tokens, width), which becomes that. */
static int load_features(struct textarray *t, const char *path, int one, const struct text_request *q, char hash[65], struct err *e)
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
		return err_set(e, ERR_DATA, "%s: not features of %s, by rows", path, one ? "one text (tokens, width)" : "texts (n, tokens, width)");
	if (a->shape[2] != q->width || a->shape[1] > q->tokens || a->shape[1] < 1)
		return err_set(e, ERR_DATA, "%s: %lld tokens of %lld numbers, but the experts read up to %lld of %lld", path,
		               (long long)a->shape[1], (long long)a->shape[2], (long long)q->tokens, (long long)q->width);
	return 0;
}

static int open_encoder(struct text_source *t, struct err *e)
{
	const struct text_request *q = t->q;
	const struct textencoder_options o = {.tokens = q->tokens, .lower = q->lower, .bulk = q->bulk, .device = q->device};
	const struct textencoder_info *i;

	if (!(t->encoder = textencoder_open(q->encoder, &o, e)))
		return err_lacking(e, textencoder_published(q->width));
	i = textencoder_info(t->encoder);
	if (i->width != q->width || i->tokens > q->tokens)
		return err_set(e, ERR_DATA, "%s: %lld tokens of %lld numbers, but the experts read %lld of %lld", q->encoder, (long long)i->tokens,
		               (long long)i->width, (long long)q->tokens, (long long)q->width);
	t->made_tokens = i->tokens;
	memcpy(t->encoder_hash, i->hash, sizeof t->encoder_hash);
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *away_of(const struct text_request *q, int64_t prompt)
{
	return prompt < q->prompts->n && q->prompts->v[prompt].negative ? q->prompts->v[prompt].negative : q->negative;
}

/* All that has to be encoded, each once. */
static void list_texts(struct text_source *t)
{
	const struct text_request *q = t->q;
	int64_t n = 0, kept = 0;

	t->distinct = mem_zalloc(2 * (size_t)q->prompts->n + 1, sizeof *t->distinct);
	for (int64_t i = 0; i < q->prompts->n; i++) {
		t->distinct[n++] = q->prompts->v[i].text;
		if (q->guided && !q->away)
			t->distinct[n++] = away_of(q, i);
	}
	qsort(t->distinct, (size_t)n, sizeof *t->distinct, compare);
	for (int64_t i = 0; i < n; i++)
		if (!kept || strcmp(t->distinct[i], t->distinct[kept - 1]))
			t->distinct[kept++] = t->distinct[i];
	t->rows = kept;
}

struct text_source *text_open(const struct text_request *q, struct err *e)
{
	struct text_source *t = mem_zalloc(1, sizeof *t);

	t->q = q;
	if (q->features && (load_features(&t->given, q->features, 0, q, t->given_hash, e) || (t->rows = t->given.a.shape[0]) < 1))
		goto fail;
	if (q->features && q->prompts->n && q->prompts->n != t->rows) {
		err_set(e, ERR_DATA, "%s: features of %lld texts, but there are %lld prompts", q->features, (long long)t->rows,
		        (long long)q->prompts->n);
		goto fail;
	}
	if (q->away && load_features(&t->away, q->away, 1, q, t->away_hash, e))
		goto fail;
	if (!q->features) {
		if (open_encoder(t, e))
			goto fail;
		list_texts(t);
	}
	t->slot = mem_alloc(((size_t)t->rows + 1) * sizeof *t->slot);
	memset(t->slot, -1, ((size_t)t->rows + 1) * sizeof *t->slot);
	return t;
fail:
	text_free(t);
	return NULL;
}

void text_free(struct text_source *t)
{
	if (!t)
		return;
	textencoder_free(t->encoder);
	textarray_release(&t->given);
	textarray_release(&t->away);
	mem_free(t->distinct);
	mem_free(t->made);
	mem_free(t->length);
	mem_free(t->slot);
	mem_free(t->features);
	mem_free(t->mask);
	mem_free(t);
}

int64_t text_count(const struct text_source *t)
{
	return t->q->features ? t->rows : t->q->prompts->n;
}

void text_stamp(const struct text_source *t, struct stamp *s)
{
	if (*t->encoder_hash)
		stamp_input(s, "text_encoder", t->encoder_hash);
	if (*t->given_hash)
		stamp_input(s, "text_features", t->given_hash);
	if (*t->away_hash)
		stamp_input(s, "negative_features", t->away_hash);
}

int text_encode(struct text_source *t, int64_t *cut, struct err *e)
{
	size_t each = (size_t)(t->made_tokens * t->q->width);
	int rc = 0;

	*cut = 0;
	if (!t->encoder)
		return 0;
	if (!(t->made = mem_try((size_t)t->rows * each, sizeof *t->made, "features of the prompts", e)) ||
	    !(t->length = mem_try((size_t)t->rows, sizeof *t->length, "features of the prompts", e)))
		return -1;
	for (int64_t i = 0; i < t->rows && !rc; i += ENCODE_AT_ONCE) {
		int64_t n = t->rows - i < ENCODE_AT_ONCE ? t->rows - i : ENCODE_AT_ONCE;
		struct text_features f = {.hidden = t->made + (size_t)i * each, .length = t->length + i};

		rc = textencoder_run(t->encoder, n, t->distinct + i, NULL, &f, e);
		*cut += f.cut;
	}
	textencoder_free(t->encoder);
	t->encoder = NULL;
	return rc;
}

/* One text (tokens, width) of an array of them. */
static void read_given(const struct npy *a, int64_t row, float *out)
{
	struct npy one = *a;

	one.shape[0] = 1;
	one.data = (const char *)a->data + (size_t)row * (size_t)(a->shape[1] * a->shape[2]) * npy_type_size(a->type);
	npy_to_f32(out, &one);
}

/* Row `row` (t->rows: what is led away from) to place `at`. */
static void place_row(struct text_source *t, int64_t row, int64_t at)
{
	const struct text_request *q = t->q;
	const struct textarray *a = row == t->rows ? &t->away : &t->given;
	int64_t tokens = row < t->rows && t->made ? t->made_tokens : a->a.shape[1], counts = tokens;
	float *out = t->features + at * q->tokens * q->width;

	if (row < t->rows && t->made) {
		memcpy(out, t->made + row * tokens * q->width, (size_t)(tokens * q->width) * sizeof *out);
		counts = t->length[row];
	} else {
		row = row == t->rows ? 0 : row;
		read_given(&a->a, row, out);
		counts = a->length ? a->length[row] : tokens;
	}
	memset(out + tokens * q->width, 0, (size_t)((q->tokens - tokens) * q->width) * sizeof *out);
	for (int64_t i = 0; q->masked && i < q->tokens; i++)
		t->mask[at * q->tokens + i] = i < counts ? 0 : NET_PADDING;
}

static int64_t row_of(const struct text_source *t, const char *text)
{
	const char **found = bsearch(&text, t->distinct, (size_t)t->rows, sizeof *t->distinct, compare);

	assert(found);
	return found - t->distinct;
}

static int make_room(struct text_source *t, int64_t rows, struct err *e)
{
	const struct text_request *q = t->q;

	if (rows <= t->room)
		return 0;
	mem_free(t->features);
	mem_free(t->mask);
	t->mask = NULL;
	t->room = 0;
	if (!(t->features = mem_try((size_t)(rows * q->tokens * q->width), sizeof *t->features, "features of a batch's texts", e)) ||
	    (q->masked && !(t->mask = mem_try((size_t)(rows * q->tokens), sizeof *t->mask, "features of a batch's texts", e))))
		return -1;
	t->room = rows;
	return 0;
}

int text_batch(struct text_source *t, int64_t n, const int64_t *prompt, int32_t *text, int32_t *away, struct texts *texts, struct err *e)
{
	const struct text_request *q = t->q;
	int64_t *row = mem_alloc(2 * (size_t)n * sizeof *row), rows = 0;
	int rc;

	for (int64_t i = 0; i < n; i++) {
		row[i] = q->features ? prompt[i] : row_of(t, q->prompts->v[prompt[i]].text);
		row[n + i] = !q->guided ? row[i] : q->away ? t->rows : row_of(t, away_of(q, prompt[i]));
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
		away[i] = t->slot[row[n + i]];
	}
	for (int64_t i = 0; i < 2 * n; i++)
		t->slot[row[i]] = -1;
	*texts = (struct texts){t->features, q->masked ? t->mask : NULL, rows};
	mem_free(row);
	return rc;
}
