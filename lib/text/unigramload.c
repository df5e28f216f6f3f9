/* Reads unigram models: SentencePiece's .model, and tokenizer.json. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "text/unicode.h"
#include "text/unigramimpl.h"

static int32_t step_new(struct unigram *u, int32_t at, uint8_t c)
{
	int32_t k = unigram_step(u, at, c), *from;

	if (k)
		return k;
	if (u->nodes == u->node_cap) {
		u->node_cap = u->node_cap ? 2 * u->node_cap : 1024;
		u->node = mem_resize(u->node, (size_t)u->node_cap, sizeof *u->node);
	}
	k = u->nodes++;
	from = at ? &u->node[at].child : &u->first[c];
	u->node[k] = (struct node){.next = *from, .piece = -1, .byte = c};
	*from = k;
	return k;
}

static void add_piece(struct unigram *u, const char *text, size_t len, double score, enum piece_type type)
{
	if (u->pieces == u->cap) {
		u->cap = u->cap ? 2 * u->cap : 1024;
		u->piece = mem_resize(u->piece, (size_t)u->cap, sizeof *u->piece);
	}
	u->piece[u->pieces++] = (struct piece){mem_strndup(text, len), len, score, type};
}

static struct unigram *unigram_new(void)
{
	struct unigram *u = mem_zalloc(1, sizeof *u);

	u->nodes = 1; /* 0 is the root */
	u->node_cap = 1024;
	u->node = mem_zalloc((size_t)u->node_cap, sizeof *u->node);
	u->unknown = u->end = -1;
	u->dummy_prefix = u->squeeze = u->escape = 1;
	return u;
}

/* The pieces are there. */
static struct unigram *finish(struct unigram *u, const char *where, struct err *e)
{
	int32_t at;

	u->least = DBL_MAX;
	u->most = -DBL_MAX;
	for (int32_t i = 0; i < u->pieces; i++) {
		struct piece *p = &u->piece[i];
		unsigned b;

		if (p->type == NORMAL || p->type == USER_DEFINED || p->type == UNUSED) {
			at = 0;
			for (size_t k = 0; k < p->len; k++)
				at = step_new(u, at, (uint8_t)p->text[k]);
			if (at && u->node[at].piece < 0)
				u->node[at].piece = i;
		}
		if (p->type == NORMAL) {
			u->least = fmin(u->least, p->score);
			u->most = fmax(u->most, p->score);
		}
		if (p->type == BYTE && sscanf(p->text, "<0x%2X>", &b) == 1 && b < 256)
			u->byte[b] = i;
	}
	if (u->unknown >= 0 && u->unknown < u->pieces)
		return u;
	err_set(e, ERR_DATA, "%s: has no piece for unknown text", where);
	unigram_free(u);
	return NULL;
}

/* ---- SentencePiece's protobuf ---- */

/* A field of a message. */
struct field {
	int number, wire;
	uint64_t value;      /* of a number; float and double as their bits */
	const uint8_t *data; /* of wire type 2 */
	size_t len;
};

static int read_varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
	*v = 0;
	for (int shift = 0; *p < end && shift < 64; shift += 7) {
		uint8_t b = *(*p)++;

		*v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return 0;
	}
	return -1;
}

/* 1: a field; 0: the end; -1: damaged. */
static int read_field(const uint8_t **p, const uint8_t *end, struct field *f)
{
	uint64_t key;
	size_t n;

	if (*p == end)
		return 0;
	memset(f, 0, sizeof *f);
	if (read_varint(p, end, &key) || key >> 3 > 1 << 29)
		return -1;
	f->number = (int)(key >> 3);
	f->wire = (int)(key & 7);
	switch (f->wire) {
	case 0:
		return read_varint(p, end, &f->value) ? -1 : 1;
	case 1:
	case 5:
		n = f->wire == 1 ? 8 : 4;
		if ((size_t)(end - *p) < n)
			return -1;
		for (size_t i = 0; i < n; i++)
			f->value |= (uint64_t)(*p)[i] << (8 * i);
		*p += n;
		return 1;
	case 2:
		if (read_varint(p, end, &key) || key > (uint64_t)(end - *p))
			return -1;
		f->data = *p;
		f->len = (size_t)key;
		*p += f->len;
		return 1;
	default:
		return -1;
	}
}

static float float_of(uint64_t bits)
{
	uint32_t b = (uint32_t)bits;
	float f;

	memcpy(&f, &b, sizeof f);
	return f;
}

static int read_piece(struct unigram *u, const struct field *in)
{
	const uint8_t *p = in->data, *end = p + in->len;
	struct field f, text = {0};
	float score = 0;
	enum piece_type type = NORMAL;
	int rc;

	while ((rc = read_field(&p, end, &f)) > 0) {
		if (f.number == 1 && f.wire == 2)
			text = f;
		else if (f.number == 2 && f.wire == 5)
			score = float_of(f.value);
		else if (f.number == 3 && f.wire == 0 && f.value >= NORMAL && f.value <= BYTE)
			type = (enum piece_type)f.value;
	}
	if (rc || isnan(score))
		return -1;
	if (type == UNKNOWN)
		u->unknown = u->pieces;
	add_piece(u, text.len ? (const char *)text.data : "", text.len, (double)score, type);
	return 0;
}

/* Read the fields of TrainerSpec that matter for encoding. */
static int read_trainer(struct unigram *u, const struct field *in, const char *where, struct err *e)
{
	const uint8_t *p = in->data, *end = p + in->len;
	struct field f;
	int rc;

	while ((rc = read_field(&p, end, &f)) > 0) {
		if (f.number == 3 && f.value != 1)
			return err_set(e, ERR_DATA, "%s: a model of type %d; only unigram (1) is supported", where, (int)f.value);
		if (f.number == 24 && f.value)
			return err_set(e, ERR_DATA, "%s: treat_whitespace_as_suffix is not supported", where);
		if (f.number == 35)
			u->bytes = f.value != 0;
	}
	return rc ? err_set(e, ERR_DATA, "%s: the trainer's part is damaged", where) : 0;
}

static int read_normaliser(struct unigram *u, const struct field *in, const char *where, struct err *e)
{
	const uint8_t *p = in->data, *end = p + in->len;
	struct field f;
	int rc;

	while ((rc = read_field(&p, end, &f)) > 0) {
		if (f.number == 2 && f.wire == 2) {
			charsmap_release(&u->map);
			if (charsmap_new(&u->map, f.data, f.len, where, e))
				return -1;
		}
		if (f.number == 3)
			u->dummy_prefix = f.value != 0;
		if (f.number == 4)
			u->squeeze = f.value != 0;
		if (f.number == 5)
			u->escape = f.value != 0;
	}
	return rc ? err_set(e, ERR_DATA, "%s: the normaliser's part is damaged", where) : 0;
}

struct unigram *unigram_from_model(const void *data, size_t len, const char *where, struct err *e)
{
	const uint8_t *p = data, *end = p + len;
	struct unigram *u = unigram_new();
	struct field f;
	int rc;

	u->single = 1;
	while ((rc = read_field(&p, end, &f)) > 0) {
		if (f.wire != 2 || f.number > 3)
			continue;
		if ((f.number == 1 && read_piece(u, &f)) || (f.number == 2 && read_trainer(u, &f, where, e)) ||
		    (f.number == 3 && read_normaliser(u, &f, where, e))) {
			rc = -1;
			break;
		}
	}
	if (rc) {
		err_set(e, ERR_DATA, "%s: not a model of SentencePiece, or damaged", where);
		unigram_free(u);
		return NULL;
	}
	u->end = unigram_piece(u, "</s>");
	u->padding = unigram_piece(u, "<pad>");
	u->padding = u->padding < 0 ? 0 : u->padding;
	return finish(u, where, e);
}

/* ---- tokenizer.json ---- */

static int digit(char c)
{
	return c >= 'A' && c <= 'Z'   ? c - 'A'
	       : c >= 'a' && c <= 'z' ? c - 'a' + 26
	       : c >= '0' && c <= '9' ? c - '0' + 52
	       : c == '+'             ? 62
	       : c == '/'             ? 63
	                              : -1;
}

/* Decode base64 with or without padding; caller frees. NULL: not base64. */
static uint8_t *base64(const char *s, size_t *len)
{
	uint8_t *out = mem_alloc(strlen(s) + 4);
	uint32_t bits = 0;
	int held = 0;

	for (*len = 0; *s && *s != '='; s++) {
		int d = digit(*s);

		if (d < 0) {
			mem_free(out);
			return NULL;
		}
		bits = bits << 6 | (uint32_t)d;
		held += 6;
		if (held >= 8) {
			held -= 8;
			out[(*len)++] = (uint8_t)(bits >> held);
		}
	}
	return out;
}

static int read_map(struct unigram *u, const json_t *normaliser, const char *where, struct err *e)
{
	const json_t *list = json_object_get(normaliser, "normalizers"), *v;
	const char *text = json_string_value(json_object_get(normaliser, "precompiled_charsmap"));
	size_t i, len;
	uint8_t *data;
	int rc;

	json_array_foreach (list, i, v)
		if (read_map(u, v, where, e))
			return -1;
	if (!text || !*text)
		return 0;
	if (!(data = base64(text, &len)))
		return err_set(e, ERR_DATA, "%s: precompiled_charsmap is not valid base64", where);
	charsmap_release(&u->map);
	rc = charsmap_new(&u->map, data, len, where, e);
	mem_free(data);
	return rc;
}

static int read_specials(struct unigram *u, const json_t *list, const char *where, struct err *e)
{
	const json_t *v;
	size_t i;

	u->special = mem_zalloc(json_array_size(list) + 1, sizeof *u->special);
	json_array_foreach (list, i, v) {
		const char *text = json_string_value(json_object_get(v, "content"));
		const json_t *id = json_object_get(v, "id");

		if (!text || !*text || !json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
			return err_set(e, ERR_DATA, "%s: added_tokens[%zu] has no content or no id", where, i);
		u->special[u->specials++] = (struct special){mem_strdup(text), strlen(text), (int32_t)json_integer_value(id)};
	}
	return 0;
}

struct unigram *unigram_from_json(const json_t *tokenizer, const char *where, struct err *e)
{
	const json_t *model = json_object_get(tokenizer, "model"), *vocab = json_object_get(model, "vocab"), *v;
	const json_t *unknown = json_object_get(model, "unk_id");
	struct unigram *u = unigram_new();
	size_t i;
	int rc = 0;

	u->words = 1;
	if (!json_is_array(vocab) || json_array_size(vocab) > 1 << 24)
		rc = err_set(e, ERR_DATA, "%s: no vocabulary of a Unigram model", where);
	json_array_foreach (vocab, i, v) {
		const char *text = json_string_value(json_array_get(v, 0));

		if (!text || !json_is_number(json_array_get(v, 1))) {
			rc = err_set(e, ERR_DATA, "%s: piece %zu has no text or no score", where, i);
			break;
		}
		add_piece(u, text, strlen(text), json_number_value(json_array_get(v, 1)), NORMAL);
	}
	if (json_is_integer(unknown) && json_integer_value(unknown) >= 0 && json_integer_value(unknown) <= INT32_MAX)
		u->unknown = (int32_t)json_integer_value(unknown);
	if (rc || read_map(u, json_object_get(tokenizer, "normalizer"), where, e) ||
	    read_specials(u, json_object_get(tokenizer, "added_tokens"), where, e)) {
		unigram_free(u);
		return NULL;
	}
	u->end = unigram_find(u, "</s>");
	u->padding = unigram_find(u, "<pad>");
	u->padding = u->padding < 0 ? 0 : u->padding;
	return finish(u, where, e);
}
