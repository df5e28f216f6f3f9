/* SentencePiece's unigram model: normalises texts and finds the best segmentation. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "text/unicode.h"
#include "text/unigramimpl.h"

static const double UNKNOWN_PENALTY = 10;

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

int32_t unigram_piece(const struct unigram *u, const char *text)
{
	for (int32_t i = 0; i < u->pieces; i++)
		if (!strcmp(u->piece[i].text, text))
			return i;
	return -1;
}

int32_t unigram_find(const struct unigram *u, const char *token)
{
	for (size_t i = 0; i < u->specials; i++)
		if (!strcmp(u->special[i].text, token))
			return u->special[i].id;
	return unigram_piece(u, token);
}

/* ---- encoding ---- */

/* Length of the longest piece at p that is kept as it is. */
static size_t user_defined(const struct unigram *u, const char *p, size_t n)
{
	size_t found = 0;
	int32_t at = 0;

	for (size_t i = 0; i < n && (at = unigram_step(u, at, (uint8_t)p[i])); i++)
		if (u->node[at].piece >= 0 && u->piece[u->node[at].piece].type == USER_DEFINED)
			found = i + 1;
	return found;
}

/* The replacement for the start of p: *len bytes at *out. Returns the number of bytes it replaces. */
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

/* The best segmentation up to a position of the text: its last piece starts at `start`. */
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

/* Viterbi from the left. Candidates come in the order of sentencepiece, which decides between equal scores. */
static void walk(const struct unigram *u, struct way *way, const char *p, size_t n)
{
	for (size_t i = 0, len; i < n; i += len) {
		int32_t at = 0;
		int whole = 0; /* a piece is this character */

		utf8_read(p + i, n - i, &len);
		for (size_t k = i; k < n && (at = unigram_step(u, at, (uint8_t)p[k])); k++) {
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

/* Adjacent unknown characters become one token, or one token a byte if the model has tokens for bytes. */
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
