/* CLIP's byte-pair encoding: splitting a text into words, and merging pairs by rank. */
#include "text/bpe.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "text/unicode.h"

/* a b -> made, in the order of rank. */
struct merge {
	int32_t a, b, made, rank;
};

struct bpe {
	json_t *ids;                  /* token to number */
	int32_t byte[256], last[256]; /* of a byte within a word, and at its end */
	int32_t start, end;
	struct merge *table; /* open addressing; a < 0: empty */
	size_t slots;
	char *where;
	char *special; /* a third special token that is matched literally in a text; NULL: none */
	int32_t special_id;
};

static const char *const start_text = "<|startoftext|>", *const end_text = "<|endoftext|>";
enum { OPENAI_MERGES = 48894, MOST_MERGES = 1 << 22 };

/* The characters that stand for bytes: printable ones for themselves, the others above 255 in order. */
static void byte_characters(uint32_t out[256])
{
	uint32_t next = 256;

	for (uint32_t b = 0; b < 256; b++)
		out[b] = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174 ? b : next++;
}

static int32_t id_of(const struct bpe *b, const char *token)
{
	const json_t *v = json_object_get(b->ids, token);

	return v ? (int32_t)json_integer_value(v) : -1;
}

static size_t slot_of(const struct bpe *b, int32_t x, int32_t y)
{
	uint64_t k = ((uint64_t)(uint32_t)x << 32 | (uint32_t)y) * 0x9e3779b97f4a7c15u;
	size_t i = (size_t)(k >> 20) & (b->slots - 1);

	while (b->table[i].a >= 0 && (b->table[i].a != x || b->table[i].b != y))
		i = (i + 1) & (b->slots - 1);
	return i;
}

static const struct merge *find(const struct bpe *b, int32_t x, int32_t y)
{
	const struct merge *m = &b->table[slot_of(b, x, y)];

	return m->a >= 0 ? m : NULL;
}

static void table_new(struct bpe *b, size_t merges)
{
	b->slots = 16;
	while (b->slots < 2 * merges)
		b->slots *= 2;
	b->table = mem_alloc(b->slots * sizeof *b->table);
	for (size_t i = 0; i < b->slots; i++)
		b->table[i].a = -1;
}

/* The number of a token. With `ours`, a token without a number gets the next one. */
static int32_t number(struct bpe *b, const char *token, int ours)
{
	if (ours && !json_object_get(b->ids, token) && json_object_set_new(b->ids, token, json_integer((json_int_t)json_object_size(b->ids))))
		return -1;
	return id_of(b, token);
}

static int add_bytes(struct bpe *b, int ours)
{
	uint32_t c[256], order[256];
	size_t n = 0;
	struct str s = {0};

	byte_characters(c);
	for (int above = 0; above < 2; above++)
		for (uint32_t k = 0; k < 256; k++)
			if ((c[k] > 255) == above)
				order[n++] = k;
	for (int last = 0; last < 2; last++)
		for (int i = 0; i < 256; i++) {
			str_reset(&s);
			utf8_add(&s, c[order[i]]);
			if (last)
				str_puts(&s, "</w>");
			(last ? b->last : b->byte)[order[i]] = number(b, str_text(&s), ours);
		}
	str_release(&s);
	return 0;
}

static int add_merge(struct bpe *b, const char *x, size_t nx, const char *y, size_t ny, int32_t rank, int ours, struct err *e)
{
	struct str s = {0};
	struct merge m = {.rank = rank};
	struct merge *at;

	str_add(&s, x, nx);
	m.a = id_of(b, str_text(&s));
	str_reset(&s);
	str_add(&s, y, ny);
	m.b = id_of(b, str_text(&s));
	str_reset(&s);
	str_add(&s, x, nx);
	str_add(&s, y, ny);
	m.made = number(b, str_text(&s), ours);
	if (m.a < 0 || m.b < 0 || m.made < 0) {
		err_set(e, ERR_DATA, "%s: merge %d makes %.40s of tokens that are not in the vocabulary", b->where, rank + 1, str_text(&s));
		str_release(&s);
		return -1;
	}
	str_release(&s);
	at = &b->table[slot_of(b, m.a, m.b)];
	if (at->a < 0)
		*at = m;
	return 0;
}

/* Lines of "a b". The first, of the version, is not counted. */
static int add_lines(struct bpe *b, const char *p, size_t len, int ours, struct err *e)
{
	const char *end = p + len;
	int32_t rank = 0;

	while (p < end && rank < (ours ? OPENAI_MERGES : MOST_MERGES)) {
		const char *line = p, *eol = memchr(p, '\n', (size_t)(end - p)), *gap;

		if (!eol)
			eol = end;
		p = eol + 1;
		if (eol == line || (line + len == end && (*line == '#' || *line == '"')))
			continue;
		gap = memchr(line, ' ', (size_t)(eol - line));
		if (!gap || gap == line || gap + 1 == eol)
			return err_set(e, ERR_DATA, "%s: \"%.*s\" is not two tokens", b->where, (int)(eol - line > 60 ? 60 : eol - line), line);
		if (eol[-1] == '\r')
			eol--;
		if (add_merge(b, line, (size_t)(gap - line), gap + 1, (size_t)(eol - gap - 1), rank++, ours, e))
			return -1;
	}
	return 0;
}

static struct bpe *begin(const json_t *vocab, size_t merges, const char *where)
{
	struct bpe *b = mem_zalloc(1, sizeof *b);
	const char *key;
	json_t *v;

	b->where = mem_strdup(where);
	b->ids = json_object();
	json_object_foreach ((json_t *)vocab, key, v)
		if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= INT32_MAX)
			json_object_set(b->ids, key, v);
	table_new(b, merges);
	add_bytes(b, !vocab);
	return b;
}

static struct bpe *finish(struct bpe *b, int ours, int rc, struct err *e)
{
	b->start = number(b, start_text, ours);
	b->end = number(b, end_text, ours);
	if (!rc && (b->start < 0 || b->end < 0))
		rc = err_set(e, ERR_DATA, "%s: the vocabulary has no %s or no %s", b->where, start_text, end_text);
	for (int i = 0; i < 256; i++) {
		b->byte[i] = b->byte[i] < 0 ? b->end : b->byte[i];
		b->last[i] = b->last[i] < 0 ? b->end : b->last[i];
	}
	if (!rc)
		return b;
	bpe_free(b);
	return NULL;
}

struct bpe *bpe_new(const char *merges, size_t len, const json_t *vocab, const char *where, struct err *e)
{
	size_t lines = 0;
	struct bpe *b;

	for (size_t i = 0; i < len; i++)
		lines += merges[i] == '\n';
	b = begin(vocab, lines + 1, where);
	return finish(b, !vocab, add_lines(b, merges, len, !vocab, e), e);
}

struct bpe *bpe_from_json(const json_t *tokenizer, const char *where, struct err *e)
{
	const json_t *model = json_object_get(tokenizer, "model"), *vocab = json_object_get(model, "vocab");
	const json_t *merges = json_object_get(model, "merges"), *pair;
	struct bpe *b;
	size_t i;
	int rc = 0;

	if (!json_is_object(vocab) || !json_is_array(merges)) {
		err_set(e, ERR_DATA, "%s: has no vocabulary and merges of a BPE model", where);
		return NULL;
	}
	b = begin(vocab, json_array_size(merges), where);
	json_array_foreach (merges, i, pair) {
		const char *x = json_string_value(json_is_array(pair) ? json_array_get(pair, 0) : pair);
		const char *y = json_is_array(pair) ? json_string_value(json_array_get(pair, 1)) : x ? strchr(x, ' ') : NULL;

		if (!x || !y)
			rc = err_set(e, ERR_DATA, "%s: merge %zu is not two tokens", where, i + 1);
		else if (json_is_array(pair))
			rc = add_merge(b, x, strlen(x), y, strlen(y), (int32_t)i, 0, e);
		else
			rc = add_merge(b, x, (size_t)(y - x), y + 1, strlen(y + 1), (int32_t)i, 0, e);
		if (rc)
			break;
	}
	return finish(b, 0, rc, e);
}

void bpe_free(struct bpe *b)
{
	if (!b)
		return;
	json_decref(b->ids);
	mem_free(b->table);
	mem_free(b->where);
	mem_free(b->special);
	mem_free(b);
}

int32_t bpe_start(const struct bpe *b)
{
	return b->start;
}

int32_t bpe_end(const struct bpe *b)
{
	return b->end;
}

int32_t bpe_largest(const struct bpe *b)
{
	json_int_t most = 0;
	const char *key;
	json_t *v;

	json_object_foreach (b->ids, key, v)
		most = json_integer_value(v) > most ? json_integer_value(v) : most;
	return (int32_t)most;
}

int32_t bpe_special(struct bpe *b, const char *token)
{
	int32_t id = id_of(b, token);

	mem_free(b->special);
	b->special = id >= 0 && *token ? mem_strdup(token) : NULL;
	b->special_id = id;
	return id;
}

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

/* A piece of a word in a list, and a candidate for the next merge in a heap by (rank, place). */
struct piece {
	int32_t id;
	int before, after;
};
struct candidate {
	int32_t rank, made;
	int at;
	int32_t a, b; /* the pair it was made for; the candidate is stale if either has changed */
};
struct word {
	struct piece *piece;
	struct candidate *heap;
	size_t n;
};

static int comes_before(const struct candidate *x, const struct candidate *y)
{
	return x->rank < y->rank || (x->rank == y->rank && x->at < y->at);
}

static void heap_push(struct word *w, struct candidate c)
{
	size_t i = w->n++;

	for (; i && comes_before(&c, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
		w->heap[i] = w->heap[(i - 1) / 2];
	w->heap[i] = c;
}

static struct candidate heap_pop(struct word *w)
{
	struct candidate top = w->heap[0], c = w->heap[--w->n];
	size_t i = 0, k;

	while ((k = 2 * i + 1) < w->n) {
		if (k + 1 < w->n && comes_before(&w->heap[k + 1], &w->heap[k]))
			k++;
		if (!comes_before(&w->heap[k], &c))
			break;
		w->heap[i] = w->heap[k];
		i = k;
	}
	w->heap[i] = c;
	return top;
}

static void consider(const struct bpe *b, struct word *w, int at)
{
	const struct piece *p = w->piece;
	const struct merge *m = at >= 0 && p[at].after >= 0 ? find(b, p[at].id, p[p[at].after].id) : NULL;

	if (m)
		heap_push(w, (struct candidate){m->rank, m->made, at, m->a, m->b});
}

/* Each merge makes at most two new candidates and takes a piece away: the heap holds at most three for each. */
static void encode_word(const struct bpe *b, struct out *o, const uint8_t *bytes, size_t n)
{
	struct word w = {.piece = mem_alloc(n * sizeof *w.piece), .heap = mem_alloc(3 * n * sizeof *w.heap)};

	for (size_t i = 0; i < n; i++)
		w.piece[i] = (struct piece){(i + 1 < n ? b->byte : b->last)[bytes[i]], (int)i - 1, i + 1 < n ? (int)i + 1 : -1};
	for (size_t i = 0; i < n; i++)
		consider(b, &w, (int)i);
	while (w.n) {
		struct candidate c = heap_pop(&w);
		struct piece *p = &w.piece[c.at], *q;

		if (p->id != c.a || p->after < 0 || w.piece[p->after].id != c.b)
			continue;
		q = &w.piece[p->after];
		p->id = c.made;
		q->id = -1;
		p->after = q->after;
		if (q->after >= 0)
			w.piece[q->after].before = c.at;
		consider(b, &w, p->before);
		consider(b, &w, c.at);
	}
	for (int i = 0; i >= 0; i = w.piece[i].after)
		emit(o, w.piece[i].id);
	mem_free(w.piece);
	mem_free(w.heap);
}

enum class { SPACE, LETTER, NUMBER, OTHER };

static enum class class_at(const char *p, size_t n, size_t *len) {
	uint32_t c = utf8_read(p, n, len);

	return unicode_space(c)    ? SPACE
	       : unicode_letter(c) ? LETTER
	       : unicode_number(c) ? NUMBER
	                           : OTHER;
}

/* Length of 's, 't, 're, 've, 'm, 'll or 'd at p; 0: none is there. */
static size_t contraction(const char *p, size_t n)
{
	static const char *const ends[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (n >= strlen(ends[i]) && !memcmp(p, ends[i], strlen(ends[i])))
			return strlen(ends[i]);
	return 0;
}

/* The mark of a start or an end as text, which is not the token: it ends with the bracket, whatever follows. */
static size_t mark(const char *p, size_t n)
{
	const char *const marks[] = {start_text, end_text};

	for (int i = 0; i < 2; i++)
		if (n >= strlen(marks[i]) && !memcmp(p, marks[i], strlen(marks[i])))
			return strlen(marks[i]);
	return 0;
}

static void encode_normal(const struct bpe *b, struct out *o, const char *p, size_t n)
{
	size_t len, next;

	for (size_t i = 0; i < n; i += len) {
		size_t m = mark(p + i, n - i);
		enum class c = class_at(p + i, n - i, &len);

		if (c == SPACE)
			continue;
		if (m) {
			encode_word(b, o, (const uint8_t *)p + i, 2);
			encode_word(b, o, (const uint8_t *)p + i + 2, m - 4);
			encode_word(b, o, (const uint8_t *)p + i + m - 2, 2);
			len = m;
			continue;
		}
		m = contraction(p + i, n - i);
		if (m)
			len = m;
		else if (c != NUMBER)
			while (i + len < n && class_at(p + i + len, n - i - len, &next) == c)
				len += next;
		encode_word(b, o, (const uint8_t *)p + i, len);
	}
}

static void encode_plain(const struct bpe *b, struct out *o, const char *text, size_t len)
{
	struct str form = {0}, low = {0};

	unicode_nfc(&form, text, len);
	unicode_lower(&low, str_text(&form), form.len);
	encode_normal(b, o, str_text(&low), low.len);
	str_release(&form);
	str_release(&low);
}

/* Length of a token that stands for itself at p, its number in *id; 0: none is there. */
static size_t special(const struct bpe *b, const char *p, size_t n, int32_t *id)
{
	size_t m = mark(p, n);

	*id = m == strlen(start_text) ? b->start : b->end;
	if (!m && b->special && n >= strlen(b->special) && !memcmp(p, b->special, strlen(b->special))) {
		m = strlen(b->special);
		*id = b->special_id;
	}
	return m;
}

size_t bpe_encode(const struct bpe *b, const char *text, size_t len, int32_t **ids)
{
	struct out o = {0};
	size_t from = 0;

	for (size_t i = 0; i < len;) {
		int32_t id;
		size_t m = special(b, text + i, len - i, &id);

		if (!m) {
			i++;
			continue;
		}
		encode_plain(b, &o, text + from, i - from);
		emit(&o, id);
		from = i += m;
	}
	encode_plain(b, &o, text + from, len - from);
	*ids = o.v ? o.v : mem_zalloc(1, sizeof **ids);
	return o.n;
}
