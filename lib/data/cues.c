/* Parses subtitles. The input is untrusted: every scan is bounded by the end of the text, and nothing is kept but times and texts. */
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/cues.h"
#include "text/unicode.h"

/* The part of the text that is still to be read. */
struct scan {
	const char *p, *end;
};

/* The next line without its end (LF, CR LF or CR). 0 at the end of the text. */
static int line_next(struct scan *s, const char **line, size_t *n)
{
	const char *p = s->p;

	if (p == s->end)
		return 0;
	while (p < s->end && *p != '\n' && *p != '\r')
		p++;
	*line = s->p;
	*n = (size_t)(p - s->p);
	if (p < s->end)
		p += *p == '\r' && p + 1 < s->end && p[1] == '\n' ? 2 : 1;
	s->p = p;
	return 1;
}

static void blanks_skip(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t'))
		s->p++;
}

/* Read up to `most` digits: their number, 0 if there are none. */
static int digits_read(struct scan *s, int most, double *value)
{
	int n = 0;

	*value = 0;
	while (n < most && s->p < s->end && *s->p >= '0' && *s->p <= '9') {
		*value = 10 * *value + (*s->p++ - '0');
		n++;
	}
	return n;
}

/* Read "[HH:]MM:SS[.mmm]": 0, or -1. */
static int time_read(struct scan *s, double *seconds)
{
	double part[3], fraction, scale = 1;
	int n = 0, digits;

	do {
		if (!digits_read(s, 6, &part[n]))
			return -1;
		n++;
	} while (n < 3 && s->p < s->end && *s->p == ':' && s->p++);
	if (n < 2)
		return -1;
	*seconds = n == 3 ? part[0] * 3600 + part[1] * 60 + part[2] : part[0] * 60 + part[1];
	if (s->p == s->end || (*s->p != '.' && *s->p != ','))
		return 0;
	s->p++;
	digits = digits_read(s, 9, &fraction);
	if (!digits)
		return -1;
	while (digits--)
		scale *= 10;
	*seconds += fraction / scale;
	return 0;
}

static int has_arrow(const char *line, size_t n)
{
	for (size_t i = 0; i + 3 <= n; i++)
		if (!memcmp(line + i, "-->", 3))
			return 1;
	return 0;
}

/* Read "START --> END", and ignore WebVTT's settings after it: 0, or -1. */
static int times_read(const char *line, size_t n, double *start, double *end)
{
	struct scan s = {line, line + n};

	blanks_skip(&s);
	if (time_read(&s, start))
		return -1;
	blanks_skip(&s);
	if (s.end - s.p < 3 || memcmp(s.p, "-->", 3) != 0)
		return -1;
	s.p += 3;
	blanks_skip(&s);
	return time_read(&s, end);
}

static const struct entity {
	const char *name, *text;
} entities[] = {{"amp;", "&"}, {"lt;", "<"},   {"gt;", ">"}, {"quot;", "\""}, {"apos;", "'"},
                {"#39;", "'"}, {"nbsp;", " "}, {"lrm;", ""}, {"rlm;", ""}};

/* The entity whose name follows a '&' at p, or NULL. */
static const struct entity *entity_at(const char *p, const char *end)
{
	for (size_t i = 0; i < sizeof entities / sizeof *entities; i++) {
		size_t n = strlen(entities[i].name);

		if ((size_t)(end - p) > n && !memcmp(p + 1, entities[i].name, n))
			return &entities[i];
	}
	return NULL;
}

/* Length of a tag at p: "<...>", or "{\...}" as SubStation Alpha has them; 0 if there is none that ends in this line. "<" before a blank or digit is
 * no tag, except for WebVTT's times "<00:19.000>". */
static size_t tag_len(const char *p, const char *end)
{
	char close = *p == '<' ? '>' : '}';
	const char *q = p + 1;

	if (q == end || (*p == '{' && *q != '\\') || (*p == '<' && (*q == ' ' || *q == '=' || *q == '<')))
		return 0;
	while (q < end && *q != close)
		q++;
	return q < end ? (size_t)(q + 1 - p) : 0;
}

/* Append white space once, and none at the beginning of the cue's text, which is at `from`. */
static void blank_add(struct str *out, size_t from)
{
	if (out->len > from && out->p[out->len - 1] != ' ')
		str_puts(out, " ");
}

/* Append a line of a cue as plain text. */
static void line_add(struct str *out, size_t from, const char *p, size_t n)
{
	const char *end = p + n;

	while (p < end) {
		const struct entity *entity = *p == '&' ? entity_at(p, end) : NULL;
		size_t len = *p == '<' || *p == '{' ? tag_len(p, end) : 0;

		if (len) {
			p += len;
		} else if (entity) {
			if (*entity->text == ' ')
				blank_add(out, from);
			else
				str_puts(out, entity->text);
			p += 1 + strlen(entity->name);
		} else if ((unsigned char)*p <= 32 || *p == 127) {
			blank_add(out, from);
			p++;
		} else {
			int bad = utf8_read(p, (size_t)(end - p), &len) == 0xFFFD && len == 1;

			str_add(out, bad ? "?" : p, len);
			p += len;
		}
	}
	blank_add(out, from);
}

static int by_start(const void *x, const void *y)
{
	const struct cue *a = x, *b = y;

	return a->start != b->start ? (a->start > b->start) - (a->start < b->start) : (a->at > b->at) - (a->at < b->at);
}

int cues_parse(struct cues *c, const char *text, size_t len, const char *name, struct err *e)
{
	struct scan s = {text, text + len};
	const char *line;
	size_t n, cap = 0;
	int any = 0;

	if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
		s.p += 3; /* a byte order mark */
	if (memchr(text, 0, len))
		return err_set(e, ERR_DATA, "%s: no subtitles: it holds a NUL byte; the text must be UTF-8", name);
	while (line_next(&s, &line, &n)) {
		struct cue q = {.at = c->text.len};
		int good;

		if (!has_arrow(line, n))
			continue;
		any = 1;
		good = !times_read(line, n, &q.start, &q.end) && q.end > q.start;
		while (line_next(&s, &line, &n) && n)
			if (good)
				line_add(&c->text, q.at, line, n);
		while (c->text.len > q.at && c->text.p[c->text.len - 1] == ' ')
			c->text.len--;
		q.len = c->text.len - q.at;
		if (!q.len)
			continue;
		if (c->n == CUES_MOST)
			return err_set(e, ERR_DATA, "%s: more than %d subtitles", name, CUES_MOST);
		if (c->n == cap) {
			cap = cap ? 2 * cap : 64;
			c->v = mem_resize(c->v, cap, sizeof *c->v);
		}
		c->v[c->n++] = q;
	}
	if (!any)
		return err_set(e, ERR_DATA, "%s: no subtitles: no line has the times of one, \"00:00:01.000 --> 00:00:02.500\"", name);
	if (c->n)
		qsort(c->v, c->n, sizeof *c->v, by_start);
	for (size_t i = 0; i < c->n; i++)
		c->v[i].latest = i && c->v[i - 1].latest > c->v[i].end ? c->v[i - 1].latest : c->v[i].end;
	return 0;
}

void cues_release(struct cues *c)
{
	mem_free(c->v);
	str_release(&c->text);
	*c = (struct cues){0};
}

void cues_between(struct str *out, const struct cues *c, double start, double end)
{
	size_t lo = 0, hi = c->n, from = out->len, last = from;

	/* The first cue such that it or an earlier one ends after `start`; `latest` never falls. */
	while (lo < hi) {
		size_t middle = lo + (hi - lo) / 2;

		if (c->v[middle].latest > start)
			hi = middle;
		else
			lo = middle + 1;
	}
	for (; lo < c->n && c->v[lo].start < end; lo++) {
		const struct cue *q = &c->v[lo];
		const char *text = c->text.p + q->at;

		if (q->end <= start)
			continue;
		if (out->len > from && q->len >= out->len - last && !memcmp(text, out->p + last, out->len - last)) {
			out->len = last;
		} else if (out->len > from) {
			str_puts(out, " ");
			last = out->len;
		}
		str_add(out, text, q->len);
	}
}
