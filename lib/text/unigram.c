/* SentencePiece's unigram model: reading it, normalising texts, and the best segmentation. */
#include "text/unigram.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "text/charsmap.h"
#include "text/unicode.h"

enum piece_type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

struct piece {
	char *text;
	size_t len;
	double score;
	enum piece_type type;
};

/* A node of the trie: one byte after its parent; children of a node are a list in the order they were made. */
struct node {
	int32_t child, next, piece; /* 0: none; -1: none */
	uint8_t byte;
};

/* Text that is a token whatever is around it. */
struct special {
	char *text;
	size_t len;
	int32_t id;
};

struct unigram {
	struct piece *piece;
	int32_t pieces, cap;
	struct node *node;
	int32_t nodes, node_cap;
	int32_t first[256]; /* children of the root by byte */
	struct special *special;
	size_t specials;
	struct charsmap map;
	int32_t unknown, end, padding, byte[256];
	double least, most; /* of the scores of normal pieces */
	int words;          /* as the tokenizers library cuts: each word for itself */
	int single;         /* sums in float, as sentencepiece has them */
	int dummy_prefix, squeeze, escape, bytes;
};

static const char mark[] = "\xe2\x96\x81"; /* of the begin of a word */
static const double UNKNOWN_PENALTY = 10;
enum { MARK = 3 };

static int32_t step(const struct unigram *u, int32_t at, uint8_t c)
{
	int32_t k = at ? u->node[at].child : u->first[c];

	while (k && u->node[k].byte != c)
		k = u->node[k].next;
	return k;
}

static int32_t step_new(struct unigram *u, int32_t at, uint8_t c)
{
	int32_t k = step(u, at, c), *from;

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

static int32_t find_piece(const struct unigram *u, const char *text)
{
	for (int32_t i = 0; i < u->pieces; i++)
		if (!strcmp(u->piece[i].text, text))
			return i;
	return -1;
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
	err_set(e, ERR_DATA, "%s: no piece stands for what is unknown", where);
	unigram_free(u);
	return NULL;
}

void unigram_free(struct unigram *u)
{
	if (!u)
		return;
	for (int32_t i = 0; i < u->pieces; i++)
		mem_free(u->piece[i].text);
	for (size_t i = 0; i < u->specials; i++)
		mem_free(u->special[i].text);
	mem_free(u->special);
	mem_free(u->piece);
	mem_free(u->node);
	charsmap_release(&u->map);
	mem_free(u);
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

/* TrainerSpec: what matters for reading. */
static int read_trainer(struct unigram *u, const struct field *in, const char *where, struct err *e)
{
	const uint8_t *p = in->data, *end = p + in->len;
	struct field f;
	int rc;

	while ((rc = read_field(&p, end, &f)) > 0) {
		if (f.number == 3 && f.value != 1)
			return err_set(e, ERR_DATA, "%s: a model of type %d; only unigram (1) is known here", where, (int)f.value);
		if (f.number == 24 && f.value)
			return err_set(e, ERR_DATA, "%s: treat_whitespace_as_suffix is not known here", where);
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
	u->end = find_piece(u, "</s>");
	u->padding = find_piece(u, "<pad>");
	u->padding = u->padding < 0 ? 0 : u->padding;
	return finish(u, where, e);
}

/* ---- tokenizer.json ---- */

static int digit(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= '0' && c <= '9' ? c - '0' + 52
	     : c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* base64 with or without padding; caller frees. NULL: it is none. */
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

	json_array_foreach(list, i, v)
		if (read_map(u, v, where, e))
			return -1;
	if (!text || !*text)
		return 0;
	if (!(data = base64(text, &len)))
		return err_set(e, ERR_DATA, "%s: precompiled_charsmap is not base64", where);
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
	json_array_foreach(list, i, v) {
		const char *text = json_string_value(json_object_get(v, "content"));
		const json_t *id = json_object_get(v, "id");

		if (!text || !*text || !json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
			return err_set(e, ERR_DATA, "%s: added_tokens[%zu] has no content or no id", where, i);
		u->special[u->specials++] = (struct special){mem_strdup(text), strlen(text), (int32_t)json_integer_value(id)};
	}
	return 0;
}

static int32_t special_id(const struct unigram *u, const char *text)
{
	for (size_t i = 0; i < u->specials; i++)
		if (!strcmp(u->special[i].text, text))
			return u->special[i].id;
	return find_piece(u, text);
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
	json_array_foreach(vocab, i, v) {
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
	u->end = special_id(u, "</s>");
	u->padding = special_id(u, "<pad>");
	u->padding = u->padding < 0 ? 0 : u->padding;
	return finish(u, where, e);
}

int32_t unigram_end(const struct unigram *u)
{
	return u->end;
}

int32_t unigram_padding(const struct unigram *u)
{
	return u->padding;
}

int32_t unigram_largest(const struct unigram *u)
{
	int32_t most = u->pieces - 1;

	for (size_t i = 0; i < u->specials; i++)
		most = u->special[i].id > most ? u->special[i].id : most;
	return most;
}

int32_t unigram_find(const struct unigram *u, const char *token)
{
	return special_id(u, token);
}

/* ---- encoding ---- */

/* Length of the longest piece at p that is kept as it is. */
static size_t user_defined(const struct unigram *u, const char *p, size_t n)
{
	size_t found = 0;
	int32_t at = 0;

	for (size_t i = 0; i < n && (at = step(u, at, (uint8_t)p[i])); i++)
		if (u->node[at].piece >= 0 && u->piece[u->node[at].piece].type == USER_DEFINED)
			found = i + 1;
	return found;
}

/* What takes the place of the start of p: *out, *len bytes; how many it stands for. */
static size_t rewrite(const struct unigram *u, const char *p, size_t n, const char **out, size_t *len)
{
	size_t used = u->words ? 0 : user_defined(u, p, n);

	if (used) {
		*out = p;
		*len = used;
		return used;
	}
	if ((used = charsmap_find(&u->map, p, n, out))) {
		*len = strlen(*out);
		return used;
	}
	*out = p;
	if (utf8_read(p, n, &used) == 0xfffd && used == 1)
		*out = "\xef\xbf\xbd";
	*len = *out == p ? used : 3;
	return used;
}

/* As Normalizer::Normalize of sentencepiece. */
static void normalise(const struct unigram *u, struct str *out, const char *p, size_t n)
{
	int blank = u->squeeze; /* what is there ends with a blank, or would begin with one */
	const char *space = u->escape ? mark : " ", *text;
	size_t len, used;

	for (used = 0; u->squeeze && n; p += used, n -= used) {
		used = rewrite(u, p, n, &text, &len);
		if (len != 1 || *text != ' ')
			break;
	}
	if (!n)
		return;
	if (u->dummy_prefix)
		str_puts(out, space);
	for (; n; p += used, n -= used) {
		used = rewrite(u, p, n, &text, &len);
		for (; blank && len && *text == ' '; text++)
			len--;
		for (size_t i = 0; i < len; i++) {
			if (text[i] == ' ')
				str_puts(out, space);
			else
				str_add(out, text + i, 1);
		}
		if (len)
			blank = u->squeeze && text[len - 1] == ' ';
	}
	while (u->squeeze && out->len >= strlen(space) && !memcmp(out->p + out->len - strlen(space), space, strlen(space)))
		out->p[out->len -= strlen(space)] = 0;
}

/* The best way to a place of the text: by the piece that starts there. */
struct way {
	double score;
	int64_t start; /* -1: none yet */
	int32_t piece;
};

struct out {
	int32_t *v;
	size_t n, cap;
};

static void emit(struct out *o, int32_t id)
{
	if (o->n == o->cap) {
		o->cap = o->cap ? 2 * o->cap : 64;
		o->v = mem_resize(o->v, o->cap, sizeof *o->v);
	}
	o->v[o->n++] = id;
}

static void offer(const struct unigram *u, struct way *to, double so_far, double score, int64_t start, int32_t piece)
{
	double sum = u->single ? (double)((float)so_far + (float)score) : so_far + score;

	if (to->start < 0 || sum > to->score)
		*to = (struct way){sum, start, piece};
}

static double piece_score(const struct unigram *u, const struct piece *p, size_t len)
{
	return p->type == USER_DEFINED ? (double)len * u->most - .1 : p->score;
}

/* Viterbi, from the left, by the order of offers of sentencepiece, which decides between equals. */
static void walk(const struct unigram *u, struct way *way, const char *p, size_t n)
{
	for (size_t i = 0, len; i < n; i += len) {
		int32_t at = 0;
		int whole = 0; /* a piece is this character */

		utf8_read(p + i, n - i, &len);
		for (size_t k = i; k < n && (at = step(u, at, (uint8_t)p[k])); k++) {
			int32_t id = u->node[at].piece;

			if (id < 0 || u->piece[id].type == UNUSED)
				continue;
			offer(u, &way[k + 1], way[i].score, piece_score(u, &u->piece[id], k + 1 - i), (int64_t)i, id);
			whole = whole || k + 1 - i == len;
		}
		if (!whole)
			offer(u, &way[i + len], way[i].score, u->least - UNKNOWN_PENALTY, (int64_t)i, u->unknown);
	}
}

static void put_unknown(const struct unigram *u, struct out *o, const char *p, size_t n, int again)
{
	for (size_t i = 0; u->bytes && i < n; i++)
		emit(o, u->byte[(uint8_t)p[i]]);
	if (!u->bytes && !again)
		emit(o, u->unknown);
}

/* Neighbours that are unknown are one token. */
static void cut(const struct unigram *u, struct out *o, const char *p, size_t n)
{
	struct way *way = mem_alloc((n + 1) * sizeof *way);
	int64_t *place = mem_alloc((n + 1) * sizeof *place);
	size_t steps = 0;
	int again = 0;

	for (size_t i = 0; i <= n; i++)
		way[i] = (struct way){0, -1, 0};
	walk(u, way, p, n);
	for (int64_t i = (int64_t)n; i > 0; i = way[i].start)
		place[steps++] = i;
	while (steps--) {
		const struct way *w = &way[place[steps]];

		if (w->piece != u->unknown)
			emit(o, w->piece);
		else
			put_unknown(u, o, p + w->start, (size_t)(place[steps] - w->start), again);
		again = w->piece == u->unknown;
	}
	mem_free(way);
	mem_free(place);
}

/* A word, with a mark before it unless it has one, cut at every mark. */
static void cut_word(const struct unigram *u, struct out *o, struct str *word)
{
	size_t from = 0;

	for (size_t i = 1; i <= word->len; i++)
		if (i == word->len || (word->len - i >= MARK && !memcmp(word->p + i, mark, MARK))) {
			cut(u, o, word->p + from, i - from);
			from = i;
		}
	str_reset(word);
}

static void encode_words(const struct unigram *u, struct out *o, const char *p, size_t n)
{
	struct str text = {0}, word = {0};
	size_t used, len;
	const char *part;

	for (; n; p += used, n -= used) {
		used = rewrite(u, p, n, &part, &len);
		str_add(&text, part, len);
	}
	for (size_t i = 0; i <= text.len; i += len) {
		int last = i == text.len;

		len = 1;
		if (last || unicode_space(utf8_read(text.p + i, text.len - i, &len))) {
			if (word.len)
				cut_word(u, o, &word);
			continue;
		}
		if (!word.len && (text.len - i < MARK || memcmp(text.p + i, mark, MARK)))
			str_puts(&word, mark);
		str_add(&word, text.p + i, len);
	}
	str_release(&text);
	str_release(&word);
}

static const struct special *special_at(const struct unigram *u, const char *p, size_t n)
{
	const struct special *best = NULL;

	for (size_t i = 0; i < u->specials; i++) {
		const struct special *s = &u->special[i];

		if (s->len <= n && !memcmp(p, s->text, s->len) && (!best || s->len > best->len))
			best = s;
	}
	return best;
}

static void encode_specials(const struct unigram *u, struct out *o, const char *p, size_t n)
{
	size_t from = 0;

	for (size_t i = 0; i < n;) {
		const struct special *s = special_at(u, p + i, n - i);

		if (!s) {
			i++;
			continue;
		}
		encode_words(u, o, p + from, i - from);
		emit(o, s->id);
		from = i += s->len;
	}
	encode_words(u, o, p + from, n - from);
}

size_t unigram_encode(const struct unigram *u, const char *text, size_t len, int32_t **ids)
{
	struct out o = {0};
	struct str s = {0};

	if (u->words) {
		encode_specials(u, &o, text, len);
	} else {
		normalise(u, &s, text, len);
		cut(u, &o, s.p, s.len);
	}
	str_release(&s);
	*ids = o.v ? o.v : mem_zalloc(1, sizeof **ids);
	return o.n;
}
