/* Parses resolution buckets, and chooses that of a picture. */
#include "data/sizebuckets.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"

static int side(const char *text, size_t len, int *n)
{
	char *digits = mem_strndup(text, len);
	int64_t v = 0;
	int bad = parse_i64(digits, 1, BUCKET_SIDE_MOST, &v);

	mem_free(digits);
	*n = (int)v;
	return bad;
}

static int parse_one(const char *text, size_t len, struct bucket *b)
{
	const char *x = memchr(text, 'x', len);

	if (side(text, x ? (size_t)(x - text) : len, &b->width))
		return -1;
	b->height = b->width;
	return x ? side(x + 1, len - (size_t)(x + 1 - text), &b->height) : 0;
}

int buckets_parse(const char *text, struct buckets *b, struct err *e)
{
	*b = (struct buckets){0};
	for (const char *at = text;; at++) {
		size_t len = strcspn(at, ",");
		struct bucket *v = &b->v[b->n];

		if (b->n == BUCKETS_MOST)
			return err_set(e, ERR_USAGE, "more than %d sizes", BUCKETS_MOST);
		if (parse_one(at, len, v))
			return err_set(e, ERR_USAGE, "'%.*s' is not a size, WxH or N, with sides from 1 to %d", (int)len, at, BUCKET_SIDE_MOST);
		for (int i = 0; i < b->n; i++)
			if (b->v[i].width == v->width && b->v[i].height == v->height)
				return err_set(e, ERR_USAGE, "%dx%d is there twice", v->width, v->height);
		b->n++;
		at += len;
		if (!*at)
			return 0;
	}
}

int buckets_option(void *field, const char *label, const char *text, struct err *e)
{
	return buckets_parse(text, field, e) ? err_prefix(e, "%s \"%s\"", label, text) : 0;
}

void buckets_stamp(struct stamp *s, const char *key, const void *field)
{
	const struct buckets *b = field;
	struct str list = {0};

	for (int i = 0; i < b->n; i++) {
		char text[BUCKET_TEXT];

		str_printf(&list, "%s%s", i ? "," : "", bucket_text(b->v[i], text));
	}
	stamp_text(s, key, str_text(&list));
	str_release(&list);
}

/* Compare w/h of two sizes without rounding: whether their ratios are the same. */
static int same_ratio(struct bucket a, struct bucket b)
{
	return (int64_t)a.width * b.height == (int64_t)b.width * a.height;
}

/* Whether a picture of w x h pixels, cropped to the ratio of b, is at least as large as b. */
static int needs_no_enlarging(struct bucket b, int w, int h)
{
	return b.width <= w && b.height <= h;
}

/* Of two buckets with one ratio: whether b is better than a. */
static int fits_better(struct bucket b, struct bucket a, int w, int h)
{
	int small = needs_no_enlarging(b, w, h);

	if (small != needs_no_enlarging(a, w, h))
		return small;
	return small ? b.width > a.width : b.width < a.width;
}

struct bucket bucket_for(const struct buckets *b, int w, int h)
{
	struct bucket best = b->v[0];
	double least = INFINITY;

	for (int i = 0; i < b->n; i++) {
		struct bucket v = b->v[i];
		double off = fabs(log((double)w * v.height / ((double)h * v.width)));

		if (same_ratio(v, best) && isfinite(least) ? fits_better(v, best, w, h) : off < least) {
			best = v;
			least = off;
		}
	}
	return best;
}

struct bucket bucket_largest(const struct buckets *b)
{
	struct bucket most = {0, 0};

	for (int i = 0; i < b->n; i++)
		if ((int64_t)b->v[i].width * b->v[i].height > (int64_t)most.width * most.height)
			most = b->v[i];
	return most;
}

const char *bucket_text(struct bucket b, char text[BUCKET_TEXT])
{
	snprintf(text, BUCKET_TEXT, "%dx%d", b.width, b.height);
	return text;
}
